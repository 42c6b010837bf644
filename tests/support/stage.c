#include "support/test.h"

#include "support/stage.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisReply *kept; /* what stage_look's strings borrow from */

static redisReply *run(struct stage *stage, enum status encoded) {
  redisReply *reply = NULL;
  stage->status = encoded ? encoded : redis_conn_call(stage->conn, 0, stage->call, &reply);
  return reply;
}

static void must(struct stage *stage, enum status decoded) {
  if (stage->status) fail_msg("the call failed: %s (%s)", status_name(stage->status), redis_conn_error(stage->conn));
  if (decoded) fail_msg("the reply does not decode: %s", status_name(decoded));
}

void stage_at(struct stage *stage, int64_t ms) {
  stage->now = ms;
  redis_server_fix_clock(&stage->redis, STAGE_START_MS + ms);
}

void stage_open(struct stage *stage, enum dialect dialect) {
  static const enum config_redis_mode modes[DIALECT_COUNT] = {
      [DIALECT_NATIVE] = CONFIG_REDIS_NATIVE, [DIALECT_HPEXPIRE] = CONFIG_REDIS_HPEXPIRE, [DIALECT_COMPAT] = CONFIG_REDIS_COMPAT};
  enum config_redis_mode mode = strcmp(dialect_mode(dialect), "auto") == 0 ? CONFIG_REDIS_AUTO : modes[dialect];
  *stage = (struct stage){.partitions = stage->partitions};
  redis_server_start(&stage->redis, &(struct redis_options){.dialect = dialect, .own_clock = true});
  char env[] = "test";
  char *url = strdup(stage->redis.url), *error = NULL;
  struct config config = {
      .env = env, .redis_url = url, .partitions = stage->partitions > 0 ? stage->partitions : 1, .redis_mode = mode};
  if (redis_target_new(&config, &stage->target, &error)) fail_msg("%s", error ? error : "no memory");
  free(url);
  assert_int_equal(redis_conn_new(stage->target, clock_system(), 30000, &stage->conn), STATUS_OK);
  assert_int_equal(redis_call_new(&stage->call), STATUS_OK);
  stage_clear(stage);
}

void stage_close(struct stage *stage) {
  redis_call_free(stage->call);
  redis_conn_free(stage->conn);
  redis_target_free(stage->target);
  freeReplyObject(kept);
  kept = NULL;
  if (stage->redis.socket) redis_server_stop(&stage->redis);
  *stage = (struct stage){.partitions = stage->partitions};
}

void stage_wipe(struct stage *stage) {
  stage_at(stage, 0);
  freeReplyObject(redis_command(&stage->redis, "FLUSHALL"));
  stage->tenant = (struct store_tenant){STR_LIT("t42"), 1, 32};
  stage->bucket = 7;
  stage->outage_ms = 200;
  stage->backlog_cap = 100000;
  stage->listener = "loop";
}

void stage_clear(struct stage *stage) {
  stage_wipe(stage);
  assert_true(stage_adopt(stage, SESSION_ID_NONE).adopted);
  stage_mark(stage);
}

struct record_item stage_item(const struct stage *stage, const char *device, int64_t ttl_ms) {
  return (struct record_item){.tenant = stage->tenant,
                              .bucket = stage->bucket,
                              .device = str_from(device),
                              .ttl_ms = ttl_ms,
                              .may_open = true,
                              .want_detail = true};
}

static int64_t record_by(store_record_encoder *encode, struct stage *stage, const struct record_item *items, size_t count,
                         struct record_outcome *outcomes) {
  struct record_options options = {stage->outage_ms, str_from(stage->listener), stage->backlog_cap};
  struct record_section section = {0, items, count};
  struct record_reply head = {0};
  redisReply *reply = run(stage, encode(stage->call, stage->target, &options, &section, 1));
  if (!reply) return 0;
  stage->status = store_record_decode(reply, 0, count, &head, outcomes);
  if (!stage->status) assert_int_equal(head.now_ms, STAGE_START_MS + stage->now);
  for (size_t i = 0; i < count; i++) outcomes[i].meta = STR_NONE; /* borrowed from what is freed here */
  freeReplyObject(reply);
  return head.deaf_ms;
}

static int64_t record(struct stage *stage, const struct record_item *items, size_t count, struct record_outcome *outcomes) {
  return record_by(store_record_encode, stage, items, count, outcomes);
}

void stage_renew_all(struct stage *stage, const struct record_item *items, size_t count, struct record_outcome *outcomes) {
  (void)record_by(store_renew_encode, stage, items, count, outcomes);
  must(stage, STATUS_OK);
}

enum record_code stage_renew(struct stage *stage, const char *device, int64_t ttl_ms) {
  struct record_item item = stage_item(stage, device, ttl_ms);
  struct record_outcome outcome = {0};
  stage_renew_all(stage, &item, 1, &outcome);
  return outcome.code;
}

struct record_outcome stage_try_record(struct stage *stage, const struct record_item *item) {
  struct record_outcome outcome = {0};
  (void)record(stage, item, 1, &outcome);
  return outcome;
}

void stage_record_all(struct stage *stage, const struct record_item *items, size_t count, struct record_outcome *outcomes) {
  (void)record(stage, items, count, outcomes);
  must(stage, STATUS_OK);
}

struct record_outcome stage_beat(struct stage *stage, const char *device, int64_t ttl_ms) {
  struct record_item item = stage_item(stage, device, ttl_ms);
  struct record_outcome outcome = stage_try_record(stage, &item);
  must(stage, STATUS_OK);
  return outcome;
}

int64_t stage_mark(struct stage *stage) {
  int64_t deaf = record(stage, NULL, 0, NULL);
  must(stage, STATUS_OK);
  return deaf;
}

void stage_listen_until(struct stage *stage, int64_t ms) {
  while (stage->now < ms) {
    stage_at(stage, stage->now + 100 < ms ? stage->now + 100 : ms);
    stage_mark(stage);
  }
}

int64_t stage_mark_as(struct stage *stage, const char *listener) {
  const char *mine = stage->listener;
  stage->listener = listener;
  int64_t deaf = stage_mark(stage);
  stage->listener = mine;
  return deaf;
}

struct expire_result stage_expire_some(struct stage *stage, int64_t per_bucket_max) {
  struct expire_bucket bucket = {stage->tenant.id, stage->bucket};
  struct expire_result result = {0};
  redisReply *reply =
      run(stage, store_expire_encode(stage->call, stage->target, 0, stage->outage_ms, per_bucket_max, &bucket, 1));
  if (!reply) return result;
  must(stage, store_expire_decode(reply, &result));
  for (size_t i = 0; i < result.lags->elements; i++) assert_true(result.lags->element[i]->integer >= 0);
  result.lags = NULL;
  freeReplyObject(reply);
  return result;
}

struct expire_result stage_expire(struct stage *stage) {
  return stage_expire_some(stage, 100);
}

enum disconnect_code stage_disconnect(struct stage *stage, const char *device, const struct session_id *only) {
  enum disconnect_code code;
  struct session_id open;
  redisReply *reply = run(stage, store_disconnect_encode(stage->call, stage->target, 0, stage->outage_ms, &stage->tenant,
                                                         stage->bucket, str_from(device), only));
  must(stage, STATUS_OK);
  must(stage, store_disconnect_decode(reply, &code, &open));
  freeReplyObject(reply);
  return code;
}

struct store_device stage_look(struct stage *stage, const char *device) {
  struct read_item item = {stage->bucket, str_from(device)};
  struct store_device found = {0};
  int64_t now_ms;
  freeReplyObject(kept);
  kept = run(stage, store_read_encode(stage->call, stage->target, 0, stage->outage_ms, &stage->tenant, &item, 1));
  if (!kept) return found;
  enum status status = store_read_decode(kept, 1, &now_ms, &found);
  if (status == STATUS_STALE) {
    stage->status = status;
    return found;
  }
  must(stage, status);
  assert_int_equal(now_ms, STAGE_START_MS + stage->now);
  return found;
}

static const char token[STORE_TOKEN_LEN + 1] = "a-token-of-the-stage--------------------";

struct stage_adoption stage_adopt(struct stage *stage, struct session_id floor) {
  enum adopt_outcome outcome = ADOPT_BUSY;
  if (redis_conn_run_id(stage->conn, 0, stage->run_id)) fail_msg("%s", redis_conn_error(stage->conn));
  redisReply *reply = run(stage, store_adopt_encode(stage->call, stage->target, 0, stage->run_id, floor, token));
  must(stage, STATUS_OK);
  must(stage, store_adopt_decode(reply, &outcome));
  freeReplyObject(reply);
  if (outcome == ADOPT_REBUILD) {
    reply =
        run(stage, store_rebuild_encode(stage->call, stage->target, 0, token, stage->run_id, stage->outage_ms, NULL, 0, true));
    must(stage, STATUS_OK);
    freeReplyObject(reply);
  }
  return (struct stage_adoption){.adopted = outcome == ADOPT_DONE || outcome == ADOPT_REBUILD,
                                 .was_empty = outcome == ADOPT_REBUILD};
}

struct lease_result stage_lease(struct stage *stage, const char *worker, enum lease_wish wish) {
  struct lease_result result;
  redisReply *reply = run(stage, store_lease_encode(stage->call, stage->target, 0, str_from(worker), 1000, wish));
  must(stage, STATUS_OK);
  must(stage, store_lease_decode(reply, &result));
  freeReplyObject(reply);
  return result;
}

int64_t stage_count(struct stage *stage, const char *tenant) {
  struct store_count count;
  redisReply *reply = run(stage, store_count_encode(stage->call, stage->target, 0, str_from(tenant)));
  must(stage, STATUS_OK);
  must(stage, store_count_decode(reply, &count));
  freeReplyObject(reply);
  return count.open_sessions;
}

enum { ENTRIES_MAX = 1000 };

static redisReply *read_stream(struct stage *stage, size_t max, struct stream_entry *entries, size_t *count) {
  struct stream_head head;
  *count = max;
  redisReply *reply = run(stage, store_stream_encode(stage->call, stage->target, 0, max));
  must(stage, STATUS_OK);
  must(stage, store_stream_decode(reply, &head, entries, count));
  return reply;
}

static void print_transition(FILE *out, const struct transition *t, size_t number) {
  fprintf(out, "%c%.*s s%zu", t->type == TRANSITION_ONLINE ? '+' : '-', STR_ARG(t->device), number);
  if (t->type == TRANSITION_ONLINE) {
    fprintf(out, " at %lld ttl %lld", (long long)(t->online_since_ms - STAGE_START_MS), (long long)t->ttl_ms);
    assert_int_equal(t->last_seen_ms, t->online_since_ms);
    assert_int_equal(t->detected_at_ms, t->online_since_ms);
  } else {
    fprintf(out, " %s seen ", transition_reason_name(t->reason));
    if (t->last_seen_ms == TIME_MS_LOST) {
      fputs("lost", out);
    } else {
      fprintf(out, "%lld", (long long)(t->last_seen_ms - STAGE_START_MS));
    }
    fprintf(out, " ended %lld found %lld", (long long)(t->offline_at_ms - STAGE_START_MS),
            (long long)(t->detected_at_ms - STAGE_START_MS));
  }
  if (t->meta.len > 0) fprintf(out, " meta %.*s", STR_ARG(t->meta));
}

const char *stage_history(struct stage *stage) {
  static struct stream_entry entries[ENTRIES_MAX];
  struct session_id sessions[ENTRIES_MAX];
  size_t count, known = 0;
  redisReply *reply = read_stream(stage, ENTRIES_MAX, entries, &count);
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(entries[i].kind, STREAM_TRANSITION);
    size_t s = 0;
    while (s < known && session_id_compare(sessions[s], entries[i].transition.session) != 0) s++;
    if (s == known) sessions[known++] = entries[i].transition.session;
    if (i > 0) fputc('\n', out);
    print_transition(out, &entries[i].transition, s + 1);
  }
  fclose(out);
  freeReplyObject(reply);
  const char *history = text_format("%s", text);
  free(text);
  return history;
}

size_t stage_publish(struct stage *stage, size_t max) {
  static struct stream_entry entries[ENTRIES_MAX];
  size_t count;
  redisReply *reply = read_stream(stage, max, entries, &count);
  if (count > 0) {
    redisReply *trimmed = run(stage, store_trim_encode(stage->call, stage->target, 0, stage->run_id, entries, count));
    must(stage, STATUS_OK);
    freeReplyObject(trimmed);
  }
  freeReplyObject(reply);
  return count;
}
