/* Random histories against a tiny model of the guard; many writers at once against what every reader may rely on. */
#include "support/test.h"

#include "outbox/event_id.h"
#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* xorshift64*: a seed names a run. */
static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed >> 12;
  *seed ^= *seed << 25;
  *seed ^= *seed >> 27;
  return *seed * UINT64_C(2685821657736338717);
}

static int64_t below(uint64_t *seed, int64_t limit) { return (int64_t)(random_next(seed) >> 11) % limit; }

/* ---- the model: what presence.append is to do, one entry after the other */

enum { DEVICES = 5, SESSIONS = 12 };
static const char *const device_names[DEVICES] = {"a", "b", "a/b", "\xC3\xA9", "x"};

struct model_device {
  int64_t session; /* 0: no row */
  enum transition_type type;
  struct transition entry; /* what made it so */
};

struct model {
  struct model_device devices[DEVICES];
  struct buf lines; /* the expected outbox rows */
};

static void expect_row(struct model *model, const struct transition *entry, enum transition_type type, const char *reason,
                       int64_t offline_at_ms, int64_t last_seen_ms) {
  uint8_t id[EVENT_ID_BYTES];
  char id_text[EVENT_ID_TEXT_MAX];
  assert_status(STATUS_OK, event_id(entry->tenant, entry->device, entry->session, type, id));
  event_id_format(id, id_text);
  const char *offline_text = type == TRANSITION_OFFLINE ? text_format("%lld", (long long)offline_at_ms) : "-";
  const char *seen_text =
      type == TRANSITION_OFFLINE && last_seen_ms != TIME_MS_LOST ? text_format("%lld", (long long)last_seen_ms) : "-";
  assert_status(STATUS_OK, buf_printf(&model->lines, "%s%.*s %lld-0 %s %s %s %.*s %s", model->lines.len > 0 ? "\n" : "",
                                      STR_ARG(entry->device), (long long)entry->session.ms, reason, offline_text, seen_text,
                                      STR_ARG(entry->meta), id_text));
}

static void model_append(struct model *model, int device, const struct transition *entry) {
  struct model_device *row = &model->devices[device];
  int64_t session = entry->session.ms;
  if (session < row->session || (session == row->session && entry->type <= row->type)) return;
  if (session > row->session) {
    if (row->session != 0 && row->type == TRANSITION_ONLINE) {
      expect_row(model, &row->entry, TRANSITION_OFFLINE, "state_lost", entry->online_since_ms, TIME_MS_LOST);
    }
    if (entry->type == TRANSITION_OFFLINE) expect_row(model, entry, TRANSITION_ONLINE, "online", 0, 0);
  }
  expect_row(model, entry, entry->type, entry->type == TRANSITION_ONLINE ? "online" : transition_reason_name(entry->reason),
             entry->offline_at_ms, entry->last_seen_ms);
  *row = (struct model_device){session, entry->type, *entry};
}

static struct transition random_entry(uint64_t *seed, int *device, int64_t progress) {
  *device = (int)below(seed, DEVICES);
  int64_t session = 1 + (below(seed, 3) == 0 ? below(seed, SESSIONS) : (progress + below(seed, 3)) % SESSIONS);
  struct transition entry =
      below(seed, 2) == 0 ? online_at(device_names[*device], session) : offline_at(device_names[*device], session);
  static const char *const metas[] = {"{}", "{\"v\": 1}", "{\"v\": 2}"};
  entry.meta = str_from(metas[below(seed, 3)]);
  if (entry.type == TRANSITION_OFFLINE && below(seed, 3) == 0) entry.reason = REASON_DISCONNECT;
  return entry;
}

#define MODEL_SQL                                                                                                                \
  "SELECT device, session, coalesce(payload->>'reason', right(type, 6)), coalesce(payload->>'offline_at_ms', '-'),"              \
  " coalesce(payload->>'last_seen_ms', '-'), payload->>'meta', id FROM presence.outbox ORDER BY seq"

static void run_seed(struct outbox_fixture *fixture, uint64_t number) {
  enum { ENTRIES = 120 };
  uint64_t seed = number * UINT64_C(0x9E3779B97F4A7C15) + 1;
  struct transition entries[ENTRIES];
  struct model model = {0};
  PQclear(sql_query(&fixture->database, "TRUNCATE presence.outbox, presence.device, presence.tenant_stats", NULL));
  int devices[ENTRIES];
  for (int64_t i = 0; i < ENTRIES; i++) entries[i] = random_entry(&seed, &devices[i], i / 12);
  for (int64_t from = 0; from < ENTRIES;) {
    int64_t count = 1 + below(&seed, 40);
    if (count > ENTRIES - from) count = ENTRIES - from;
    (void)append_all(fixture->client, entries + from, (size_t)count);
    for (int64_t i = from; i < from + count; i++) model_append(&model, devices[i], &entries[i]);
    from += below(&seed, 4) == 0 ? below(&seed, count + 1) : count; /* now and then a part comes again */
  }
  const char *lines = sql_text(&fixture->database, MODEL_SQL, NULL);
  if (strcmp(lines, buf_text(&model.lines)) != 0) {
    fail_msg("seed %llu: rows\n%s\nshould be\n%s", (unsigned long long)number, lines, buf_text(&model.lines));
  }
  int known = 0;
  for (int d = 0; d < DEVICES; d++) {
    const struct model_device *row = &model.devices[d];
    known += row->session != 0;
    const char *expected = row->session == 0 ? ""
                                             : text_format("%s %lld-0", row->type == TRANSITION_ONLINE ? "online" : "offline",
                                                           (long long)row->session);
    assert_string_equal(
        sql_text(&fixture->database, "SELECT state, session FROM presence.device WHERE device = $1", device_names[d], NULL),
        expected);
  }
  assert_int_equal(sql_integer(&fixture->database, "SELECT known FROM presence.tenant_stats", NULL), known);
  buf_free(&model.lines);
}

static void random_histories_match_the_model(void **state) {
  for (uint64_t seed = 1; seed <= 60; seed++) run_seed(*state, seed);
}

/* ---- many at once */

enum { WRITERS = 4 };

struct writer {
  pthread_t thread;
  struct pg_client *client;
  int number;
  atomic_bool *stop;
  int64_t appended;
};

static void *append_the_same(void *argument) {
  struct writer *writer = argument;
  const struct transition entries[] = {online_at("d", 100), offline_at("d", 100)};
  for (int i = 0; i < 25; i++) {
    struct outbox_counts counts;
    if (outbox_append(writer->client, 3, entries, 2, &counts) != STATUS_OK) return (void *)pg_client_error(writer->client);
    writer->appended += counts.online + counts.timeout + counts.disconnect + counts.state_lost;
  }
  return NULL;
}

static void start_writers(struct outbox_fixture *fixture, struct writer *writers, void *(*run)(void *), atomic_bool *stop) {
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (struct writer){.client = outbox_client(fixture), .number = i, .stop = stop};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, run, &writers[i]), 0);
  }
}

static void join_writers(struct writer *writers) {
  for (int i = 0; i < WRITERS; i++) {
    void *error;
    assert_int_equal(pthread_join(writers[i].thread, &error), 0);
    if (error != NULL) fail_msg("writer %d: %s", i, (const char *)error);
    pg_client_free(writers[i].client);
  }
}

static void the_same_from_four_connections(void **state) {
  struct outbox_fixture *fixture = *state;
  struct writer writers[WRITERS];
  start_writers(fixture, writers, append_the_same, NULL);
  join_writers(writers);
  int64_t appended = 0;
  for (int i = 0; i < WRITERS; i++) appended += writers[i].appended;
  assert_int_equal(appended, 2);
  assert_string_equal(outbox_lines(&fixture->database), "d 100-0 online\nd 100-0 timeout");
}

static void *append_own(void *argument) {
  struct writer *writer = argument;
  char names[20][16];
  struct transition entries[20];
  for (int64_t round = 1; !atomic_load(writer->stop); round++) {
    for (int i = 0; i < 20; i++) {
      (void)snprintf(names[i], sizeof names[i], "w%d-%d", writer->number, i);
      entries[i] = round % 2 == 1 ? online_at(names[i], round + 1) : offline_at(names[i], round);
    }
    struct outbox_counts counts;
    if (outbox_append(writer->client, (uint32_t)writer->number, entries, 1 + (size_t)(round % 20), &counts) != STATUS_OK) {
      return (void *)pg_client_error(writer->client);
    }
    writer->appended += counts.online + counts.timeout + counts.state_lost;
  }
  return NULL;
}

/* The two-line reader of the contract: what it reads is all there is below its cursor, whoever writes meanwhile. */
static void readers_never_see_a_lower_seq_later(void **state) {
  struct outbox_fixture *fixture = *state;
  struct writer writers[WRITERS];
  atomic_bool stop = false;
  start_writers(fixture, writers, append_own, &stop);
  int64_t cursor = 0, rows = 0;
  for (int64_t until = wait_now_ms() + 2500; wait_now_ms() < until;) {
    PGresult *page = sql_query(&fixture->database, "SELECT seq FROM presence.outbox WHERE seq > $1 ORDER BY seq LIMIT 500",
                               text_format("%lld", (long long)cursor), NULL);
    rows += PQntuples(page);
    if (PQntuples(page) > 0) cursor = strtoll(PQgetvalue(page, PQntuples(page) - 1, 0), NULL, 10);
    PQclear(page);
    const char *below_cursor = text_format("%lld", (long long)cursor);
    int64_t there = sql_integer(&fixture->database, "SELECT count(*) FROM presence.outbox WHERE seq <= $1", below_cursor, NULL);
    if (there != rows)
      fail_msg("%lld rows read up to seq %lld, %lld are there", (long long)rows, (long long)cursor, (long long)there);
  }
  atomic_store(&stop, true);
  join_writers(writers);
  int64_t appended = 0;
  for (int i = 0; i < WRITERS; i++) appended += writers[i].appended;
  assert_true(rows > 100);
  assert_int_equal(sql_integer(&fixture->database, "SELECT count(*) FROM presence.outbox", NULL), appended);
  assert_int_equal(sql_integer(&fixture->database,
                               "SELECT count(*) FROM (SELECT recorded_at < lag(recorded_at) OVER (ORDER BY seq) AS fell"
                               " FROM presence.outbox) AS pairs WHERE fell",
                               NULL),
                   0);
}

/* A writer that has drawn its seq and is slow to commit: the next one waits for it, so nobody is overtaken. */
static void a_slow_writer_is_not_overtaken(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  PQclear(sql_query(database, "BEGIN", NULL));
  PQclear(
      sql_query(database,
                "SELECT presence.append(0, '{t1}', '{slow}', '{5}', '{0}', '{online}', '{NULL}', '{5}', '{1}', '{5}', '{NULL}',"
                " '{5}', '{NULL}', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])",
                NULL));
  struct writer writer = {.client = outbox_client(fixture)};
  assert_int_equal(pthread_create(&writer.thread, NULL, append_the_same, &writer), 0);
  PGconn *reader = database_connect(database);
  struct database as_reader = {.connection = reader};
  WAIT_UNTIL(sql_integer(&as_reader, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'", NULL) == 1, 5000);
  assert_int_equal(sql_integer(&as_reader, "SELECT count(*) FROM presence.outbox", NULL), 0);
  PQclear(sql_query(database, "COMMIT", NULL));
  void *error;
  assert_int_equal(pthread_join(writer.thread, &error), 0);
  assert_null(error);
  pg_client_free(writer.client);
  PQfinish(reader);
  assert_string_equal(outbox_lines(database), "slow 5-0 online\nd 100-0 online\nd 100-0 timeout");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(random_histories_match_the_model, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_same_from_four_connections, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(readers_never_see_a_lower_seq_later, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_slow_writer_is_not_overtaken, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("outbox_model", tests, NULL, NULL);
}
