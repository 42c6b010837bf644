/* The same conversation with the service on every Redis dialect, with Redis's clock in our hands: each must give the same
 * answers, byte for byte, and write the same rows. What is written down is compared with the first dialect's. */
#include "support/test.h"

#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MS INT64_C(1790000000000)
#define SESSIONS_MAX 32

struct transcript {
  FILE *out;
  char *text;
  size_t length;
  char *sessions[SESSIONS_MAX]; /* ids in the order of their first appearance: they depend on the partition's stream */
  size_t session_count;
};

static struct transcript transcripts[DIALECT_COUNT];

static size_t session_number(struct transcript *transcript, const char *id, size_t length) {
  for (size_t i = 0; i < transcript->session_count; i++)
    if (strlen(transcript->sessions[i]) == length && strncmp(transcript->sessions[i], id, length) == 0) return i;
  assert_true(transcript->session_count < SESSIONS_MAX);
  transcript->sessions[transcript->session_count] = strndup(id, length);
  return transcript->session_count++;
}

/* Copies the text with "1790000000000-0" as "session-0". */
static void write_down(struct transcript *transcript, const char *text) {
  while (*text != '\0') {
    size_t digits = strspn(text, "0123456789");
    size_t after = digits >= 13 && text[digits] == '-' ? strspn(text + digits + 1, "0123456789") : 0;
    if (after > 0) {
      size_t length = digits + 1 + after;
      fprintf(transcript->out, "session-%zu", session_number(transcript, text, length));
      text += length;
    } else {
      size_t plain = digits > 0 ? digits : 1;
      fwrite(text, 1, plain, transcript->out);
      text += plain;
    }
  }
  fputc('\n', transcript->out);
}

static void say(struct world *world, struct transcript *transcript, const char *method, const char *path, const char *body) {
  const struct response *response = client_call(world->client, method, path, body);
  write_down(transcript,
             text_format("%s %s %s\n  %d %s", method, path, body != NULL ? body : "", response->status, response->body));
}

static void say_beat(struct world *world, struct transcript *transcript, const char *device, const char *body) {
  world->client->headers = "Prefer: return=representation\r\n";
  say(world, transcript, "POST", device_path(world, device, "/heartbeat"), body);
  world->client->headers = NULL;
}

static void say_state(struct world *world, struct transcript *transcript, const char *device) {
  say(world, transcript, "GET", device_path(world, device, ""), NULL);
}

static void say_disconnect(struct world *world, struct transcript *transcript, const char *device, const char *body) {
  say(world, transcript, "POST", device_path(world, device, "/disconnect"), body);
}

static void talk(struct world *world, struct transcript *transcript) {
  say_beat(world, transcript, "a", "{\"ttl_ms\":1000}");
  say_beat(world, transcript, "b", "{\"ttl_ms\":2000,\"meta\":{\"n\":1}}");
  say(world, transcript, "POST", tenant_path(world, "/heartbeats"),
      "[\"c\",{\"device\":\"d\",\"ttl_ms\":500,\"meta\":{\"z\":null}},{\"device\":\"\"},{\"device\":\"d\",\"ttl_ms\":700},7]");
  say_state(world, transcript, "a");
  say_state(world, transcript, "c");
  say_state(world, transcript, "d");
  say_state(world, transcript, "never");
  world_move_clock(world, 400);
  say_beat(world, transcript, "a", NULL); /* the tenant's default ttl from now on */
  say_beat(world, transcript, "b", "{\"ttl_ms\":600,\"meta\":null}");
  world_move_clock(world, 300);
  say_beat(world, transcript, "d", "{\"ttl_ms\":700}"); /* at the deadline itself: still alive */
  world_move_clock(world, 300);
  say_beat(world, transcript, "b", "{\"ttl_ms\":600}"); /* likewise */
  say_state(world, transcript, "b");
  world_move_clock(world, 601);
  say_state(world, transcript, "b");
  say_state(world, transcript, "d");
  history_wait(&world->database, world->tenant, "b", "online offline(timeout)");
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  say_state(world, transcript, "b");
  say_disconnect(world, transcript, "b", NULL);
  say_disconnect(world, transcript, "a", "{\"session\":\"1-1\"}");
  say_disconnect(world, transcript, "a", NULL);
  say_state(world, transcript, "a");
  say_disconnect(world, transcript, "a", NULL);
  say_disconnect(world, transcript, "never", NULL);
  say_beat(world, transcript, "a", "{\"ttl_ms\":100,\"meta\":{\"again\":true}}");
  world_move_clock(world, 101);
  say_beat(world, transcript, "a", "{\"ttl_ms\":1000}"); /* back after the deadline: a new session without the old metadata */
  say_state(world, transcript, "a");
}

static void test_conversation(void **state) {
  struct transcript *transcript = &transcripts[world_dialect];
  struct world *world = world_start(state, &(struct world_options){.dialect = world_dialect, .clock_ms = START_MS});
  world->tenant = "same";
  world_control(world, "tenant", "create", "same", "--min-ttl-ms", "100", NULL);
  world->token = world_token(world, "same", "device,read");
  world_talk_to(world, world->service);
  transcript->out = open_memstream(&transcript->text, &transcript->length);
  assert_non_null(transcript->out);
  talk(world, transcript);
  world_drain(world);
  write_down(transcript, sql_text(&world->database,
                                  "SELECT device, type, session, occurred_at, payload - 'detected_at_ms', id IS NOT NULL"
                                  " FROM presence.outbox ORDER BY device COLLATE \"C\", seq",
                                  NULL));
  write_down(transcript, sql_text(&world->database,
                                  "SELECT device, state, session, last_seen, offline_at, reason, ttl_ms, meta"
                                  " FROM presence.device ORDER BY device",
                                  NULL));
  fclose(transcript->out);
  world_end(world);
}

static void test_transcripts_are_equal(void **state) {
  (void)state;
  const char *first = transcripts[DIALECT_NATIVE].text;
  assert_non_null(first);
  assert_non_null(strstr(first, "\"reason\":\"timeout\""));
  for (int dialect = 1; dialect < DIALECT_COUNT; dialect++) {
    if (transcripts[dialect].text == NULL) continue;
    if (strcmp(transcripts[dialect].text, first) != 0)
      print_error("---- %s\n%s---- %s\n%s", dialect_name(DIALECT_NATIVE), first, dialect_name((enum dialect)dialect),
                  transcripts[dialect].text);
    assert_string_equal(transcripts[dialect].text, first);
  }
}

static int end_conversation(void **state) {
  world_dialect++;
  return world_teardown(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_conversation, end_conversation), /* native */
      cmocka_unit_test_teardown(test_conversation, end_conversation), /* hpexpire */
      cmocka_unit_test_teardown(test_conversation, end_conversation), /* compat */
      cmocka_unit_test_teardown(test_conversation, end_conversation), /* compat on Redis 7.0 */
      cmocka_unit_test(test_transcripts_are_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
