#include "support/test.h"

#include "faults/judge.h"
#include "session.h"
#include "support/scratch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_MS 100            /* the two clocks are read one after the other */
#define FLUSH_TOLERANCE_MS 8000 /* what had not reached PostgreSQL before Redis was emptied: it may have been cut off before */
#define OUTAGE_MS 300           /* as the run sets it */
/* Where nobody's heartbeat is accepted for longer than this, that time does not count as heard. All senders may be waiting for a
 * process that does not answer before they turn to the other one. */
#define HEARD_EVERY_MS (POST_TIMEOUT_MS + SLACK_MS)

struct judge {
  const struct timeline *timeline;
  const struct devices *devices;
  struct database *database;
  uint32_t buckets;
  /* When heartbeats of a partition's devices were accepted, in order: proof that somebody heard. */
  struct {
    int64_t *at_ms;
    size_t count;
  } heard[PARTITIONS];
  struct verdict verdict;
};

/* ---- Times */

void timeline_deaf(struct timeline *timeline, int64_t from_ms, int64_t to_ms) {
  size_t count = timeline->deaf_count;
  if (count > 0 && timeline->deaf[count - 1].to_ms > from_ms) timeline->deaf[count - 1].to_ms = from_ms;
  timeline->deaf[count].from_ms = from_ms;
  timeline->deaf[count].to_ms = to_ms;
  timeline->deaf_count++;
}

/* A time on Redis's clock as a real one. After a step back the same time comes again: then it may be either. */
struct moment {
  int64_t earliest_ms, latest_ms; /* -1: no interval fits */
};

static struct moment to_real(const struct timeline *timeline, int64_t redis_ms, int64_t no_later_than_ms) {
  struct moment moment = {-1, -1};
  for (size_t i = 0; i < timeline->step_count; i++) {
    int64_t real = redis_ms - timeline->steps[i].offset_ms;
    int64_t end = i + 1 < timeline->step_count ? timeline->steps[i + 1].from_ms : INT64_MAX / 2;
    if (real < timeline->steps[i].from_ms - SLACK_MS || real > end + SLACK_MS || real > no_later_than_ms) continue;
    if (moment.earliest_ms < 0 || real < moment.earliest_ms) moment.earliest_ms = real;
    if (real > moment.latest_ms) moment.latest_ms = real;
  }
  return moment;
}

static bool is_certain(struct moment moment) {
  return moment.earliest_ms >= 0 && moment.latest_ms - moment.earliest_ms <= 2 * SLACK_MS;
}

static bool before_flush(const struct timeline *timeline, int64_t at_ms) {
  for (size_t i = 0; i < timeline->flush_count; i++) {
    if (at_ms <= timeline->flushes[i] && timeline->flushes[i] - at_ms < FLUSH_TOLERANCE_MS) return true;
  }
  return false;
}

/* ---- What the service heard */

static uint32_t partition_of(const struct judge *judge, int number) {
  uint32_t bucket = placement_bucket(str_from(text_format("d%d", number)), judge->buckets);
  return placement_partition(str_from(judge->devices->tenant), bucket, PARTITIONS);
}

static int compare_times(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static void collect_heard(struct judge *judge) {
  size_t all = 0;
  for (int i = 0; i < DEVICES; i++) all += judge->devices->device[i].count;
  for (uint32_t p = 0; p < PARTITIONS; p++) {
    judge->heard[p].at_ms = calloc(all + 1, sizeof *judge->heard[p].at_ms);
    assert_non_null(judge->heard[p].at_ms);
  }
  for (int i = 0; i < DEVICES; i++) {
    const struct device *device = &judge->devices->device[i];
    uint32_t p = partition_of(judge, i);
    for (size_t n = 0; n < device->count; n++)
      if (device->attempts[n].accepted) judge->heard[p].at_ms[judge->heard[p].count++] = device->attempts[n].answered_ms;
  }
  for (uint32_t p = 0; p < PARTITIONS; p++) qsort(judge->heard[p].at_ms, judge->heard[p].count, sizeof(int64_t), compare_times);
}

/* How much of from..to lies between heartbeats that were accepted in the device's partition. */
static int64_t heard_ms(const struct judge *judge, int number, int64_t from_ms, int64_t to_ms) {
  uint32_t p = partition_of(judge, number);
  int64_t sum_ms = 0, last_ms = from_ms;
  for (size_t i = 0; i < judge->heard[p].count; i++) {
    int64_t at_ms = judge->heard[p].at_ms[i];
    if (at_ms < from_ms) continue;
    if (at_ms > to_ms) break;
    if (at_ms - last_ms <= HEARD_EVERY_MS) sum_ms += at_ms - last_ms;
    last_ms = at_ms;
  }
  return to_ms - last_ms <= HEARD_EVERY_MS ? sum_ms + to_ms - last_ms : sum_ms;
}

/* How much of from..to the service can have listened at most. What is no outage for it is left out: PRESENCE_OUTAGE_MS. */
static int64_t listened_at_most_ms(const struct timeline *timeline, int64_t from_ms, int64_t to_ms) {
  int64_t deaf_ms = 0;
  for (size_t i = 0; i < timeline->deaf_count; i++) {
    int64_t begin = timeline->deaf[i].from_ms > from_ms ? timeline->deaf[i].from_ms : from_ms;
    int64_t end = timeline->deaf[i].to_ms < to_ms ? timeline->deaf[i].to_ms : to_ms;
    if (end - begin > OUTAGE_MS + SLACK_MS) deaf_ms += end - begin - SLACK_MS;
  }
  return to_ms - from_ms - deaf_ms;
}

/* ---- One timeout */

/* Was the device trying from..to? */
static bool tried(const struct device *device, int64_t from_ms, int64_t to_ms) {
  int64_t last_ms = from_ms;
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->sent_ms <= from_ms) continue;
    if (attempt->sent_ms > to_ms) break;
    if (attempt->sent_ms - last_ms > DEVICE_TTL_MS / 2) return false;
    last_ms = attempt->sent_ms;
  }
  return to_ms - last_ms <= DEVICE_TTL_MS / 2;
}

/* Attempts of from..to that were answered, and not accepted, while others of the partition were. */
static int passed_over(const struct judge *judge, int number, int64_t from_ms, int64_t to_ms) {
  const struct device *device = &judge->devices->device[number];
  uint32_t p = partition_of(judge, number);
  int count = 0;
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->sent_ms <= from_ms || attempt->sent_ms > to_ms || attempt->accepted) continue;
    if (attempt->said[0] <= 0 || attempt->said[1] <= 0) continue;
    for (size_t n = 0; n < judge->heard[p].count; n++) {
      if (judge->heard[p].at_ms[n] < attempt->sent_ms || judge->heard[p].at_ms[n] > attempt->answered_ms) continue;
      count++;
      break;
    }
  }
  return count;
}

static void show_attempts(const struct device *device, int64_t from_ms, int64_t to_ms) {
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->answered_ms < from_ms || attempt->sent_ms > to_ms) continue;
    print_message("  sent %" PRId64 " took %" PRId64 " ms %s, the processes said", attempt->sent_ms,
                  attempt->answered_ms - attempt->sent_ms, attempt->accepted ? "accepted" : "not accepted");
    for (int api = 0; api < APIS; api++) print_message(" %d", attempt->said[api]);
    print_message("\n");
  }
}

/* The last heartbeat that was surely in force before end_ms; -1: none. */
static int64_t last_accepted_ms(const struct device *device, int64_t end_ms) {
  int64_t seen_ms = -1;
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->accepted && attempt->answered_ms < end_ms - SLACK_MS && attempt->sent_ms > seen_ms) seen_ms = attempt->sent_ms;
  }
  return seen_ms;
}

/* Nothing was heard of the device from silent_ms on. True where that is a breach. */
static bool is_false(struct judge *judge, int number, int64_t silent_ms, int64_t end_ms, int64_t heard) {
  if (!tried(&judge->devices->device[number], silent_ms, end_ms)) return false;
  bool is_limit = heard >= DEVICE_TTL_MS - 2 * SLACK_MS && passed_over(judge, number, silent_ms, end_ms) < 2;
  judge->verdict.unreached += is_limit;
  print_message("%s: d%d timed out at %" PRId64 " although it tried all the time; since %" PRId64
                " the service heard others for %" PRId64 " ms\n",
                is_limit ? "unreached" : "false", number, end_ms, silent_ms, heard);
  show_attempts(&judge->devices->device[number], silent_ms, end_ms);
  return !is_limit;
}

/* start_ms: of the session. */
static void judge_timeout(struct judge *judge, int number, int64_t start_ms, struct moment end) {
  struct verdict *verdict = &judge->verdict;
  int64_t end_ms = end.latest_ms;
  if (!is_certain(end)) return;
  verdict->judged++;
  int64_t seen_ms = last_accepted_ms(&judge->devices->device[number], end_ms);
  int64_t silent_ms = seen_ms > start_ms ? seen_ms : start_ms;
  int64_t heard = heard_ms(judge, number, silent_ms, end_ms);
  int64_t listened_ms = listened_at_most_ms(judge->timeline, silent_ms, end_ms);
  if (listened_ms < DEVICE_TTL_MS - SLACK_MS) {
    verdict->early++;
    print_message("early: d%d timed out at %" PRId64 ", %" PRId64
                  " ms after a heartbeat was accepted, of which the service can have"
                  " listened for %" PRId64 "\n",
                  number, end_ms, end_ms - silent_ms, listened_ms);
  } else {
    verdict->untrue += is_false(judge, number, silent_ms, end_ms, heard);
  }
  if (seen_ms < 0) return;
  if (end_ms - seen_ms - DEVICE_TTL_MS > verdict->latest_ms) verdict->latest_ms = end_ms - seen_ms - DEVICE_TTL_MS;
  if (heard - DEVICE_TTL_MS > verdict->latest_heard_ms) verdict->latest_heard_ms = heard - DEVICE_TTL_MS;
}

/* ---- One device */

struct session {
  struct moment start, end; /* end: when it was detected */
  bool is_over, timeout, disconnect;
};

static void judge_heartbeats(struct judge *judge, int number, const struct session *sessions, size_t count) {
  const struct device *device = &judge->devices->device[number];
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    bool covered = !attempt->accepted || before_flush(judge->timeline, attempt->sent_ms);
    for (size_t s = 0; s < count && !covered; s++) {
      bool begun = sessions[s].start.earliest_ms <= attempt->answered_ms + SLACK_MS;
      bool open =
          !sessions[s].is_over || sessions[s].end.latest_ms < 0 || sessions[s].end.latest_ms >= attempt->sent_ms - SLACK_MS;
      covered = begun && open;
    }
    if (covered) continue;
    judge->verdict.lost++;
    print_message("lost: a heartbeat of d%d accepted at %" PRId64 " lies in no session\n", number, attempt->answered_ms);
  }
}

static size_t read_sessions(struct judge *judge, int number, struct session *sessions, size_t room) {
  PGresult *rows = sql_query(judge->database,
                             "SELECT split_part(type, '.', 3), coalesce(payload->>'reason', ''), payload->>'online_since_ms',"
                             " coalesce(payload->>'detected_at_ms', ''), presence.to_ms(recorded_at) FROM presence.outbox"
                             " WHERE tenant = $1 AND device = $2 ORDER BY seq",
                             judge->devices->tenant, text_format("d%d", number), NULL);
  size_t count = 0;
  for (int i = 0; i < PQntuples(rows) && count < room; i++) {
    int64_t recorded_ms = strtoll(PQgetvalue(rows, i, 4), NULL, 10) + SLACK_MS;
    if (strcmp(PQgetvalue(rows, i, 0), "online") == 0) {
      int64_t start_ms = strtoll(PQgetvalue(rows, i, 2), NULL, 10);
      sessions[count++] = (struct session){.start = to_real(judge->timeline, start_ms, recorded_ms)};
    } else if (count > 0) {
      struct session *session = &sessions[count - 1];
      session->is_over = true;
      session->end = to_real(judge->timeline, strtoll(PQgetvalue(rows, i, 3), NULL, 10), recorded_ms);
      session->timeout = strcmp(PQgetvalue(rows, i, 1), "timeout") == 0;
      session->disconnect = strcmp(PQgetvalue(rows, i, 1), "disconnect") == 0;
    }
  }
  PQclear(rows);
  return count;
}

static void judge_device(struct judge *judge, int number) {
  static struct session sessions[10000];
  size_t count = read_sessions(judge, number, sessions, LENGTH(sessions));
  judge->verdict.sessions += (int)count;
  for (size_t i = 0; i < count; i++) {
    if (!sessions[i].is_over) judge->verdict.lost++;
    if (sessions[i].timeout) judge_timeout(judge, number, sessions[i].start.earliest_ms, sessions[i].end);
    if (sessions[i].disconnect && !judge->devices->device[number].tried_disconnect) judge->verdict.untrue++;
  }
  judge_heartbeats(judge, number, sessions, count);
}

static int breaches(struct database *database) {
  PGresult *rows = sql_query(database, place_text(text_format("%s/tests/support/invariants.sql", place_root())), "true", NULL);
  int count = PQntuples(rows);
  for (int i = 0; i < count; i++) print_message("doubled: %s, %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 2));
  PQclear(rows);
  return count;
}

struct verdict judge(const struct timeline *timeline, const struct devices *devices, struct database *database) {
  struct judge judge = {.timeline = timeline, .devices = devices, .database = database};
  judge.buckets = (uint32_t)sql_integer(database, "SELECT buckets FROM presence.tenant WHERE id = $1", devices->tenant, NULL);
  judge.verdict.doubled = breaches(database);
  collect_heard(&judge);
  for (int i = 0; i < DEVICES; i++) judge_device(&judge, i);
  for (uint32_t p = 0; p < PARTITIONS; p++) free(judge.heard[p].at_ms);
  return judge.verdict;
}
