/* Change data capture: the outbox as a logical stream, read as pgoutput
 * (https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html), and the connector that deploy/ offers. */
#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/scratch.h"
#include "support/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run(struct database *database, const char *statement) { PQclear(sql_query(database, statement, NULL)); }

/* ---- pgoutput */

enum { COLUMNS_MAX = 16 };

struct stream {
  struct buf kinds;             /* one byte per message */
  struct buf columns_of_outbox; /* "column column …" */
  uint32_t outbox;              /* the id under which presence.outbox was announced */
  struct buf rows;              /* "seq:aggregateid:type " per insert */
  char columns[COLUMNS_MAX][32];
  int column_count;
};

struct cursor {
  const char *at, *end;
};

static void need(const struct cursor *cursor, size_t bytes) { assert_true((size_t)(cursor->end - cursor->at) >= bytes); }

static unsigned take_byte(struct cursor *cursor) {
  need(cursor, 1);
  return (unsigned char)*cursor->at++;
}

static unsigned take_16(struct cursor *cursor) {
  unsigned high = take_byte(cursor);
  return high << 8 | take_byte(cursor);
}

static uint32_t take_32(struct cursor *cursor) {
  uint32_t high = take_16(cursor);
  return high << 16 | take_16(cursor);
}

static const char *take_string(struct cursor *cursor) {
  const char *text = cursor->at;
  const char *zero = memchr(text, 0, (size_t)(cursor->end - cursor->at));
  assert_non_null(zero);
  cursor->at = zero + 1;
  return text;
}

static void put(struct buf *buf, const char *text) { assert_int_equal(buf_append_str(buf, str_from(text)), STATUS_OK); }

static void read_relation(struct stream *stream, struct cursor *cursor) {
  uint32_t id = take_32(cursor);
  const char *schema = take_string(cursor), *name = take_string(cursor);
  (void)take_byte(cursor);                                                    /* replica identity */
  if (strcmp(schema, "presence") != 0 || strcmp(name, "outbox") != 0) return; /* a day: announced, never used */
  stream->outbox = id;
  buf_clear(&stream->columns_of_outbox);
  stream->column_count = (int)take_16(cursor);
  assert_in_range(stream->column_count, 1, COLUMNS_MAX);
  for (int i = 0; i < stream->column_count; i++) {
    (void)take_byte(cursor); /* part of the key? */
    (void)snprintf(stream->columns[i], sizeof stream->columns[i], "%s", take_string(cursor));
    (void)take_32(cursor); /* type */
    (void)take_32(cursor); /* its modifier */
    put(&stream->columns_of_outbox, text_format("%s%s", i > 0 ? " " : "", stream->columns[i]));
  }
}

static void read_insert(struct stream *stream, struct cursor *cursor) {
  const char *seq = "", *id = "", *type = "";
  assert_int_equal(take_32(cursor), stream->outbox);
  assert_int_equal(take_byte(cursor), 'N');
  assert_int_equal(take_16(cursor), stream->column_count);
  for (int i = 0; i < stream->column_count; i++) {
    if (take_byte(cursor) != 't') fail_msg("column %s has no text", stream->columns[i]);
    uint32_t length = take_32(cursor);
    need(cursor, length);
    const char *value = text_format("%.*s", (int)length, cursor->at);
    cursor->at += length;
    if (strcmp(stream->columns[i], "seq") == 0) seq = value;
    if (strcmp(stream->columns[i], "aggregateid") == 0) id = value;
    if (strcmp(stream->columns[i], "type") == 0) type = strrchr(value, '.') + 1;
  }
  put(&stream->rows, text_format("%s:%s:%s ", seq, id, type));
}

/* All that has come since the last call, as the publication shows it. */
static void read_stream(struct database *database, struct stream *stream) {
  PGresult *messages = PQexecParams(database->connection,
                                    "SELECT data FROM pg_logical_slot_get_binary_changes('cdc', NULL, NULL, 'proto_version', '1',"
                                    " 'publication_names', 'presence_outbox')",
                                    0, NULL, NULL, NULL, NULL, 1);
  if (PQresultStatus(messages) != PGRES_TUPLES_OK) fail_msg("%s", PQerrorMessage(database->connection));
  for (int i = 0; i < PQntuples(messages); i++) {
    struct cursor cursor = {PQgetvalue(messages, i, 0), PQgetvalue(messages, i, 0) + PQgetlength(messages, i, 0)};
    char kind = (char)take_byte(&cursor);
    assert_int_equal(buf_append(&stream->kinds, &kind, 1), STATUS_OK);
    if (kind == 'R') read_relation(stream, &cursor);
    if (kind == 'I') read_insert(stream, &cursor);
  }
  PQclear(messages);
}

static void stream_free(struct stream *stream) {
  buf_free(&stream->kinds);
  buf_free(&stream->columns_of_outbox);
  buf_free(&stream->rows);
}

static const char *all_rows(struct database *database) {
  return sql_text(database,
                  "SELECT string_agg(seq || ':' || aggregateid || ':' || substr(type, 17) || ' ', '' ORDER BY seq)"
                  " FROM presence.outbox",
                  NULL);
}

/* The slot is the test's; an empty database has none. */
static int slot_setup(void **state) {
  (void)outbox_setup(state);
  struct outbox_fixture *fixture = *state;
  run(&fixture->database, "SELECT pg_create_logical_replication_slot('cdc', 'pgoutput')");
  return 0;
}

static int slot_teardown(void **state) {
  struct outbox_fixture *fixture = *state;
  run(&fixture->database, "SELECT pg_drop_replication_slot('cdc')");
  return outbox_teardown(state);
}

static void each_event_comes_once_in_order(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct stream stream = {0};
  const struct transition entries[] = {online_at("a", 1), online_at("b", 2), offline_at("a", 1), online_at("a", 3)};
  (void)append_all(fixture->client, entries, 4);
  (void)append_all(fixture->client, entries, 4); /* repeats */
  run(database, "BEGIN");
  run(database, "SELECT presence.append(0, '{t1}', '{ghost}', '{5}', '{0}', '{online}', '{NULL}', '{5}', '{1}', '{5}', '{NULL}',"
                " '{5}', '{NULL}', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])");
  run(database, "ROLLBACK");
  const struct transition lost = online_at("b", 9); /* closes the session before as lost */
  (void)append_all(fixture->client, &lost, 1);
  read_stream(database, &stream);
  assert_string_equal(buf_text(&stream.rows), all_rows(database));
  assert_int_equal(strspn(buf_text(&stream.kinds), "BRIC"), stream.kinds.len);
  /* What Debezium's outbox event router takes with its defaults is there, whichever day the row is of. */
  assert_string_equal(buf_text(&stream.columns_of_outbox),
                      "seq id aggregatetype aggregateid type payload tenant device session occurred_at recorded_at");
  stream_free(&stream);
}

/* Days dropped, rows deleted by age, a missing day made later into which its rows move: nothing of it is in the stream. */
static void what_maintenance_does_shows_nowhere(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct stream stream = {0};
  run(database, "DO $$ BEGIN EXECUTE 'DROP TABLE presence.' || to_char(now() AT TIME ZONE 'UTC', '\"outbox_\"YYYYMMDD'); END $$");
  run(database,
      "INSERT INTO presence.outbox (seq, id, aggregateid, type, payload, tenant, device, session, occurred_at, recorded_at)"
      " SELECT nextval('presence.outbox_seq'), gen_random_uuid(), 't1/old', 'presence.device.online', '{}', 't1', 'old', '1-0',"
      " now() - interval '20 days', now() - interval '20 days' FROM generate_series(1, 3)");
  const struct transition entries[] = {online_at("a", 1), online_at("b", 2)};
  (void)append_all(fixture->client, entries, 2);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 5);
  const char *wanted = all_rows(database);
  assert_status(STATUS_OK, outbox_maintain(fixture->client, 7, 0)); /* today is made and takes its rows; three go by age */
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 0);
  run(database, "SELECT presence.drop_day(now() + interval '2 days')");
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.outbox", NULL), 0);
  const struct transition after = online_at("c", 3); /* its day is gone: the default partition again */
  (void)append_all(fixture->client, &after, 1);
  read_stream(database, &stream);
  assert_string_equal(buf_text(&stream.rows), text_format("%s%s", wanted, all_rows(database)));
  assert_int_equal(strspn(buf_text(&stream.kinds), "BRIC"), stream.kinds.len);
  stream_free(&stream);
}

static void the_connector_names_what_is_there(void **state) {
  struct outbox_fixture *fixture = *state;
  char *text = place_read(text_format("%s/deploy/debezium/connector.json", place_root()), NULL);
  json_error_t error;
  json_t *connector = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  if (connector == NULL) fail_msg("connector.json: line %d: %s", error.line, error.text);
  const json_t *config = json_object_get(connector, "config");
  assert_string_equal(json_string_value(json_object_get(config, "plugin.name")), "pgoutput");
  const char *publication = json_string_value(json_object_get(config, "publication.name"));
  const char *table = json_string_value(json_object_get(config, "table.include.list"));
  assert_string_equal(
      sql_text(&fixture->database,
               "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, schemaname || '.' || tablename = $2"
               " FROM pg_publication JOIN pg_publication_tables USING (pubname) WHERE pubname = $1",
               publication, table, NULL),
      "t f f f t t");
  json_decref(connector);
  free(text);
}

/* The server must write what a logical stream needs. */
static int group_setup(void **state) {
  (void)state;
  struct database database;
  database_create(&database, false);
  run(&database, "ALTER SYSTEM SET wal_level = logical");
  database_drop(&database);
  postgres_server_kill();
  postgres_server_restart();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_event_comes_once_in_order, slot_setup, slot_teardown),
      cmocka_unit_test_setup_teardown(what_maintenance_does_shows_nowhere, slot_setup, slot_teardown),
      cmocka_unit_test_setup_teardown(the_connector_names_what_is_there, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("cdc", tests, group_setup, NULL);
}
