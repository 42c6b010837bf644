#include "support/test.h"

#include "support/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A machine so busy that a heartbeat waits for a second refuses it (503): it is said again, as devices do. */
static bool accepts_all(struct world *world, const char *body, int count) {
  const struct response *response = client_call(world->client, "POST", tenant_path(world, "/heartbeats"), body);
  if (response->status == 503) return false;
  assert_int_equal(response->status, 200);
  json_t *answer = json_loads(response->body, 0, NULL);
  int64_t accepted = json_integer_value(json_object_get(answer, "accepted"));
  json_decref(answer);
  if (accepted < count && strstr(response->body, "\"unavailable\"") == NULL) fail_msg("refused: %.300s", response->body);
  return accepted == count;
}

static void beat_batch(struct world *world, int first, int count, int64_t ttl_ms) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0; i < count; i++)
    fprintf(out, "%s{\"device\":\"d%d\",\"ttl_ms\":%lld}", i > 0 ? "," : "[", first + i, (long long)ttl_ms);
  fputc(']', out);
  fclose(out);
  WAIT_UNTIL(accepts_all(world, body, count), 15000);
  free(body);
}

void fleet_beat(struct world *world, int first, int count, int64_t ttl_ms) {
  for (int done = 0; done < count; done += FLEET_BATCH)
    beat_batch(world, first + done, count - done < FLEET_BATCH ? count - done : FLEET_BATCH, ttl_ms);
}

int fleet_try_beat(struct world *world, const char *device, int64_t ttl_ms) {
  const char *body = text_format("{\"ttl_ms\":%lld}", (long long)ttl_ms);
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), body)->status;
}

void fleet_beat_until_taken(struct world *world, int count, int64_t ttl_ms) {
  int64_t limit_ms = wait_now_ms() + wait_limit_ms(60000);
  for (int taken = 0; taken < count;) {
    if (wait_now_ms() > limit_ms) fail_msg("heartbeats are not taken again");
    taken = 0;
    for (int i = 0; i < count; i++) {
      int status = fleet_try_beat(world, text_format("d%d", i), ttl_ms);
      if (status != 204 && status != 503) fail_msg("a heartbeat was answered %d", status);
      taken += status == 204;
    }
    wait_pause();
  }
}

/* device, history: of each device that has one. */
#define HISTORIES                                                                                                                \
  "WITH h AS (SELECT device, string_agg(split_part(type, '.', 3) || CASE WHEN payload ? 'reason'"                                \
  " THEN '(' || (payload->>'reason') || ')' ELSE '' END, ' ' ORDER BY seq) AS history, string_agg("                              \
  " payload::text, ' ' ORDER BY seq) AS rows FROM presence.outbox WHERE tenant = $1 GROUP BY device)"

int64_t fleet_with_history(struct world *world, const char *history) {
  return sql_integer(&world->database, HISTORIES " SELECT count(*) FROM h WHERE history = $2", world->tenant, history, NULL);
}

void fleet_expect(struct world *world, int count, const char *history) {
  int64_t found = fleet_with_history(world, history);
  if (found == count) return;
  fail_msg("%lld of %d have the history '%s'; without rows: %s; others: %s", (long long)found, count, history,
           sql_text(&world->database,
                    HISTORIES " SELECT coalesce(string_agg('d' || n, ' '), 'none') FROM generate_series(0, $2::int - 1) n"
                              " WHERE NOT EXISTS (SELECT 1 FROM h WHERE device = 'd' || n)",
                    world->tenant, text_format("%d", count), NULL),
           sql_text(&world->database,
                    HISTORIES " SELECT coalesce(string_agg(device || ': ' || history || ' ' || rows, '; '), 'none')"
                              " FROM h WHERE history <> $2",
                    world->tenant, history, NULL));
}

static int64_t rows(struct world *world) {
  return sql_integer(&world->database, "SELECT count(*) FROM presence.outbox WHERE tenant = $1", world->tenant, NULL);
}

/* Rows are counted until there are enough: the whole history is asked for only then. */
void fleet_wait(struct world *world, int count, const char *history, int64_t timeout_ms) {
  int64_t words = 1, seen = 0;
  for (const char *at = history; *at != '\0'; at++) words += *at == ' ';
  WAIT_UNTIL_TEXT((seen = rows(world)) >= count * words, timeout_ms, text_format("%lld rows", (long long)seen));
  world_drain(world);
  assert_int_equal(rows(world), count * words);
  assert_int_equal(fleet_with_history(world, history), count);
}
