/* The scripts beside a model of the rules, driven by the same random steps: heartbeats, ticks of two listeners, outages, steps of
 * the clock, detector, disconnects, reads and publishing, in any order. Everything the scripts answer and write must be what the
 * model says. PRESENCE_SEED=n runs that seed alone.
 *
 * The model knows no live field as something that decides: alive is score >= L, always. That the scripts, which mostly trust the
 * field, agree with it is the point. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 8, LISTENERS = 2, SILENT = 5000, OUTAGE = 200, SEEDS = 6, STEPS = 1500, EVENTS_MAX = 4096 };

struct event {
  enum transition_type type;
  enum transition_reason reason;
  int device;
  struct session_id session;
  int64_t start, last_seen, ttl, offline_at, detected_at;
  char meta[32];
};

struct model_device {
  bool open;
  struct session_id session; /* as Redis named it */
  int64_t start, ttl, paused, score;
  int64_t expiry,
      latest_wall; /* of the live field; the latest wall time since it was written: a server may have dropped the field then */
  char meta[32];
  struct event close; /* the last one, while it is unpublished */
  bool closed;
  int64_t heard_real, heard_listening;
};

static struct model {
  int64_t now, seen, paused;
  int64_t real, real_marked,
      listening; /* clocks that never step, for the promises: real time, and the part of it in which we heard */
  int64_t marks[LISTENERS];
  bool marked[LISTENERS];
  struct model_device devices[DEVICES];
  struct event events[EVENTS_MAX]; /* unpublished: a ring */
  size_t head, tail;
} model;

static struct stage stage;
static uint64_t random_state;
static const char *const names[DEVICES] = {"a", "b/c", "d,e", "f", "g:h", "i", "j", "k"};
static const char *const listeners[LISTENERS] = {"loop", "other"};

/* xorshift64*: https://www.jstatsoft.org/article/view/v008i14 */
static int64_t roll(int64_t sides) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (int64_t)((random_state * UINT64_C(2685821657736338717) >> 11) % (uint64_t)sides);
}

static int64_t presence_time(void) { return (model.now - model.seen > OUTAGE ? model.seen : model.now) - model.paused; }

static struct event *add_event(struct event event) {
  model.events[model.tail % EVENTS_MAX] = event;
  return &model.events[model.tail++ % EVENTS_MAX];
}

static void select_bucket(int device) { stage.bucket = device % 2 == 0 ? 7 : 8; }

/* ---- the model's scripts */

/* young: a mark so young stands for this one too. */
static int64_t model_mark_unless(int listener, int64_t young) {
  int64_t gap = model.now - model.seen;
  int64_t deaf = llabs(gap) > OUTAGE ? gap : 0;
  model.paused += deaf;
  int64_t age = model.now - model.paused - model.marks[listener];
  if (gap >= 0 && gap < young && model.marked[listener] && age >= 0 && age < young) return deaf;
  model.seen = model.now;
  model.marks[listener] = model.now - model.paused;
  model.marked[listener] = true;
  if (model.real - model.real_marked <= OUTAGE) model.listening += model.real - model.real_marked;
  model.real_marked = model.real;
  return deaf;
}

static int64_t model_mark(int listener) { return model_mark_unless(listener, 0); }

static void model_close(int device, enum transition_reason reason) {
  struct model_device *d = &model.devices[device];
  struct event event = {.type = TRANSITION_OFFLINE, .reason = reason, .device = device, .session = d->session, .start = d->start};
  event.ttl = d->ttl;
  event.last_seen = d->score - d->ttl + d->paused;
  event.offline_at = reason == REASON_TIMEOUT ? event.last_seen + d->ttl : model.now;
  event.detected_at = model.now;
  memcpy(event.meta, d->meta, sizeof event.meta);
  if (reason == REASON_TIMEOUT && model.real - d->heard_real < d->ttl) fail_msg("%s was closed early", names[device]);
  d->close = *add_event(event);
  d->closed = true;
  d->open = false;
  d->meta[0] = '\0';
}

static void model_put(struct model_device *d, int64_t ttl) {
  d->ttl = ttl;
  d->paused = model.paused;
  d->score = presence_time() + ttl;
  d->expiry = model.now + ttl;
  d->latest_wall = model.now;
  d->heard_real = model.real;
  d->heard_listening = model.listening;
}

static enum record_code model_record(int device, int64_t ttl, const char *meta, bool may_open) {
  struct model_device *d = &model.devices[device];
  enum record_code code = RECORD_RENEWED;
  if (!d->open || d->score < presence_time()) {
    code = d->open ? RECORD_REOPENED : RECORD_OPENED;
    if (d->open) model_close(device, REASON_TIMEOUT);
    if (!may_open) return RECORD_NOT_OPENED;
    d->open = true;
    d->start = model.now;
    d->session = SESSION_ID_NONE; /* until Redis has named it */
  } else if (model.listening - d->heard_listening > d->ttl + 1000) {
    fail_msg("%s went on although it was silent for %lld ms of listening", names[device],
             (long long)(model.listening - d->heard_listening));
  }
  model_put(d, ttl);
  if (meta) snprintf(d->meta, sizeof d->meta, "%s", meta);
  return code;
}

static int64_t model_cutoff(int *dropped) {
  int64_t now = presence_time();
  int64_t cutoff = (model.now < model.seen ? model.now : model.seen) - model.paused;
  for (int i = 0; i < LISTENERS; i++) {
    if (!model.marked[i]) continue;
    if (now - model.marks[i] > SILENT) {
      model.marked[i] = false;
      ++*dropped;
    } else if (model.marks[i] < cutoff) {
      cutoff = model.marks[i];
    }
  }
  return cutoff;
}

/* The earliest due device of the bucket before the cutoff, as a sorted set orders them; -1: none. */
static int model_due(int parity, int64_t cutoff) {
  int best = -1;
  for (int i = parity; i < DEVICES; i += 2) {
    const struct model_device *d = &model.devices[i];
    if (!d->open || d->score >= cutoff) continue;
    const struct model_device *b = best < 0 ? NULL : &model.devices[best];
    if (!b || d->score < b->score || (d->score == b->score && strcmp(names[i], names[best]) < 0)) best = i;
  }
  return best;
}

/* ---- steps */

static void advance(int64_t ms) {
  model.now += ms;
  for (int i = 0; i < DEVICES; i++) {
    if (model.now > model.devices[i].latest_wall) model.devices[i].latest_wall = model.now;
  }
  stage_at(&stage, model.now - STAGE_START_MS);
}

static void step_time(void) {
  static const int64_t steps[] = {-3600000, 3600000, -5000, -60000, 5000, 86400000, -86400000, 700, -700};
  int64_t kind = roll(1000);
  int64_t passed = kind < 970 ? roll(50) : kind < 985 ? 201 + roll(400) : roll(20000);
  model.real += passed;
  advance(kind == 999 || kind == 998 ? steps[roll(LENGTH(steps))] + passed : passed);
}

/* Whether renew_heartbeats did it, as it must where the live field counts. `item` is left as it was where it did not. */
static bool renewed(int device, const struct record_item *item, int listener) {
  struct model_device *d = &model.devices[device];
  struct record_outcome outcome;
  bool alive = d->open && d->paused == model.paused && d->ttl == item->ttl_ms;
  stage_renew_all(&stage, item, 1, &outcome);
  (void)model_mark_unless(listener, 5);
  alive = alive && d->paused == model.paused && d->expiry >= model.now;
  bool dropped = d->latest_wall >= d->expiry; /* the field went while the clock was ahead */
  if (!alive || !dropped) assert_int_equal(outcome.code, alive ? RECORD_RENEWED : RECORD_LEFT);
  if (outcome.code == RECORD_RENEWED) assert_int_equal(model_record(device, item->ttl_ms, NULL, true), RECORD_RENEWED);
  return outcome.code == RECORD_RENEWED;
}

static void step_record(void) {
  static const int64_t ttls[] = {100, 300, 300, 300, 1000, 1000, 5000, 300};
  int device = (int)roll(DEVICES), listener = (int)roll(LISTENERS);
  struct model_device *d = &model.devices[device];
  char meta[32];
  select_bucket(device);
  struct record_item item = stage_item(&stage, names[device], roll(5) == 0 ? 300 + roll(1000) : ttls[device]);
  item.may_open = roll(10) > 0;
  int64_t change = roll(10);
  snprintf(meta, sizeof meta, change == 0 ? "" : "{\"n\":%lld}", (long long)roll(100));
  item.meta_action = change == 0 ? META_REMOVE : change == 1 ? META_SET : META_KEEP;
  item.meta = item.meta_action == META_SET ? str_from(meta) : STR_NONE;
  stage.listener = listeners[listener];
  if (change > 1 && roll(3) > 0 && (renewed(device, &item, listener) || roll(4) == 0)) return; /* or the API died after it */
  struct record_outcome outcome = stage_try_record(&stage, &item);
  assert_int_equal(stage.status, STATUS_OK);
  (void)model_mark(listener);
  enum record_code code = model_record(device, item.ttl_ms, change <= 1 ? meta : NULL, item.may_open);
  assert_int_equal(outcome.code, code);
  if (code == RECORD_OPENED || code == RECORD_REOPENED) {
    assert_true(session_id_compare(d->session, outcome.session) < 0);
    d->session = outcome.session;
    struct event opened = {.type = TRANSITION_ONLINE, .device = device, .session = d->session, .start = d->start};
    opened.last_seen = opened.detected_at = model.now;
    opened.ttl = d->ttl;
    memcpy(opened.meta, d->meta, sizeof opened.meta);
    add_event(opened);
  }
  if (d->open) {
    assert_int_equal(session_id_compare(d->session, outcome.session), 0);
    assert_int_equal(outcome.online_since_ms, d->start);
  }
}

static void step_mark(void) {
  int listener = (int)roll(LISTENERS);
  stage.listener = listeners[listener];
  assert_int_equal(stage_mark(&stage), model_mark(listener));
}

static void step_expire(void) {
  int parity = (int)roll(2), dropped = 0, listening = 0;
  int64_t closed = 0, cutoff = model_cutoff(&dropped);
  select_bucket(parity);
  struct expire_result result = stage_expire(&stage);
  for (int device; (device = model_due(parity, cutoff)) >= 0; closed++) model_close(device, REASON_TIMEOUT);
  for (int i = 0; i < LISTENERS; i++) listening += model.marked[i];
  assert_int_equal(result.closed, closed);
  assert_int_equal(result.orphans, 0);
  assert_int_equal(result.cutoff_ms, cutoff);
  assert_int_equal(result.presence_ms, presence_time());
  assert_int_equal(result.listeners_dropped, dropped);
  assert_int_equal(result.listeners, listening);
}

static void step_disconnect(void) {
  int device = (int)roll(DEVICES);
  struct model_device *d = &model.devices[device];
  bool other = roll(3) == 0;
  struct session_id named = d->session;
  if (other) named.seq += 1000;
  select_bucket(device);
  enum disconnect_code code = stage_disconnect(&stage, names[device], roll(2) == 0 && !other ? NULL : &named);
  if (!d->open) {
    assert_int_equal(code, DISCONNECT_NOTHING_OPEN);
  } else if (d->score < presence_time()) {
    assert_int_equal(code, DISCONNECT_NOTHING_OPEN);
    model_close(device, REASON_TIMEOUT);
  } else {
    assert_int_equal(code, other ? DISCONNECT_OTHER_SESSION : DISCONNECT_CLOSED);
    if (!other) model_close(device, REASON_DISCONNECT);
  }
}

static void assert_meta(const char *expected, struct str got) {
  assert_string_equal(text_format("%.*s", STR_ARG(got)), expected);
}

static void step_read(void) {
  int device = (int)roll(DEVICES);
  const struct model_device *d = &model.devices[device];
  select_bucket(device);
  struct store_device found = stage_look(&stage, names[device]);
  if (!d->open) {
    assert_int_equal(found.state, d->closed ? STORE_CLOSED : STORE_NONE);
    if (!d->closed) return;
    assert_int_equal(session_id_compare(found.session, d->close.session), 0);
    assert_int_equal(found.offline_at_ms, d->close.offline_at);
    assert_int_equal(found.last_seen_ms, d->close.last_seen);
    assert_int_equal(found.reason, d->close.reason);
    assert_meta(d->close.meta, found.meta);
    return;
  }
  bool live = d->paused == model.paused && d->expiry >= model.now;
  enum store_state state = live ? STORE_ONLINE : d->score >= presence_time() ? STORE_UNKNOWN : STORE_OVER;
  bool dropped =
      live && d->latest_wall >= d->expiry && found.state == STORE_UNKNOWN; /* the field went while the clock was ahead */
  if (!dropped) assert_int_equal(found.state, state);
  assert_int_equal(session_id_compare(found.session, d->session), 0);
  assert_int_equal(found.online_since_ms, d->start);
  assert_int_equal(found.ttl_ms, d->ttl);
  assert_int_equal(found.last_seen_ms, d->score - d->ttl + d->paused);
  assert_meta(d->meta, found.meta);
}

static void assert_entry(const struct stream_entry *entry, const struct event *event) {
  const struct transition *t = &entry->transition;
  assert_int_equal(entry->kind, STREAM_TRANSITION);
  assert_int_equal(t->type, event->type);
  assert_int_equal(t->reason, event->reason);
  assert_true(str_equal(t->device, str_from(names[event->device])));
  assert_true(str_equal(t->tenant, STR_LIT("t42")));
  assert_int_equal(session_id_compare(t->session, event->session), 0);
  assert_int_equal(t->online_since_ms, event->start);
  assert_int_equal(t->last_seen_ms, event->last_seen);
  assert_int_equal(t->ttl_ms, event->ttl);
  assert_int_equal(t->detected_at_ms, event->detected_at);
  assert_int_equal(t->offline_at_ms, event->offline_at);
  assert_meta(event->meta, t->meta);
}

static void publish(size_t max) {
  struct stream_entry entries[64];
  struct stream_head head;
  size_t count = LENGTH(entries);
  redisReply *reply;
  assert_int_equal(store_stream_encode(stage.call, stage.target, 0, max), STATUS_OK);
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  assert_int_equal(store_stream_decode(reply, &head, entries, &count), STATUS_OK);
  assert_int_equal(head.backlog, model.tail - model.head);
  assert_int_equal(count, model.tail - model.head < max ? model.tail - model.head : max);
  for (size_t i = 0; i < count; i++) {
    const struct event *event = &model.events[model.head++ % EVENTS_MAX];
    assert_entry(&entries[i], event);
    struct model_device *d = &model.devices[event->device];
    if (event->type == TRANSITION_OFFLINE && session_id_compare(d->close.session, event->session) == 0) d->closed = false;
  }
  if (count > 0 && roll(3) > 0) { /* else: a publisher that dies before the trim; the next one reads the same again */
    redisReply *trimmed;
    assert_int_equal(store_trim_encode(stage.call, stage.target, 0, stage.run_id, entries, count), STATUS_OK);
    assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &trimmed), STATUS_OK);
    freeReplyObject(trimmed);
  } else {
    model.head -= count;
    for (size_t i = 0; i < count; i++) {
      const struct event *event = &model.events[(model.head + i) % EVENTS_MAX];
      struct model_device *d = &model.devices[event->device];
      if (event->type == TRANSITION_OFFLINE && session_id_compare(d->close.session, event->session) == 0) d->closed = true;
    }
  }
  freeReplyObject(reply);
}

static void step_publish(void) { publish(1 + (size_t)roll(20)); }

static void check_counts(void) {
  int64_t open = 0;
  for (int i = 0; i < DEVICES; i++) open += model.devices[i].open;
  assert_int_equal(stage_count(&stage, "t42"), open);
  keyspace_check(&stage.redis);
}

static void run_seed(uint64_t seed) {
  static const struct {
    void (*run)(void);
    int weight;
  } kinds[] = {{step_record, 40}, {step_mark, 20}, {step_expire, 15}, {step_disconnect, 4}, {step_read, 15}, {step_publish, 6}};
  print_message("seed %llu\n", (unsigned long long)seed);
  random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
  model = (struct model){.now = STAGE_START_MS, .seen = STAGE_START_MS};
  stage_clear(&stage);
  (void)model_mark(0); /* stage_clear's */
  for (int i = 0; i < STEPS; i++) {
    step_time();
    int64_t at = roll(100);
    size_t kind = 0;
    while (at >= kinds[kind].weight) at -= kinds[kind++].weight;
    kinds[kind].run();
    if (i % 100 == 99) check_counts();
  }
  while (model.head < model.tail) publish(50);
}

static void test_scripts_do_what_the_model_says(void **state) {
  (void)state;
  const char *only = getenv("PRESENCE_SEED");
  if (only) {
    run_seed(strtoull(only, NULL, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= SEEDS; seed++) run_seed(seed);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts_do_what_the_model_says)};

STAGE_MAIN(stage, tests)
