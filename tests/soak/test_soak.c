/* The soak: an API and worker process and a worker serve for a long time, while ids are used once each, clients vanish,
 * everything is read. Nothing may grow: the processes' memory and descriptors, Redis. What stays behind of an id is its row.
 *
 *   make soak MINUTES=60        SOAK_SECONDS in the environment
 *
 * What is compared is the second quarter of the time with the last one; the first is for what is allocated once. */
#include "support/test.h"

#include "support/fleet.h"
#include "support/usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define STABLE 500 /* devices that stay */
#define NEW_IDS 50 /* a round */
#define ROUND_MS 250
#define IDS_MAX 900000 /* the tenant's devices are limited */
#define PROCESSES 2
#define REDIS_SLACK_BYTES (256 * 1024)

struct quarter {
  int64_t rss_kib[PROCESSES]; /* the most */
  int descriptors[PROCESSES]; /* the least: what is open for a moment does not count */
  int64_t redis_bytes;        /* the most */
};

struct soak {
  struct world *world;
  struct client *admin;
  int64_t began_ms, length_ms;
  int64_t ids, refused, rounds, last_seq;
  struct quarter quarters[4];
};

static int64_t elapsed_ms(const struct soak *soak) { return wait_now_ms() - soak->began_ms; }

/* ---- traffic */

static void use_new_ids(struct soak *soak) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0; i < NEW_IDS; i++) {
    long long id = (long long)soak->ids + i;
    fprintf(out, "%c{\"device\":\"once-%lld\",\"ttl_ms\":%lld", i == 0 ? '[' : ',', id, 1000 + id * 37 % 2000);
    if (i % 3 == 0) fprintf(out, ",\"meta\":{\"firmware\":\"4.2.%lld\",\"site\":\"%0*lld\"}", id, (int)(id % 150) + 1, id);
    fputc('}', out);
  }
  fputc(']', out);
  fclose(out);
  const struct response *response = client_call(soak->world->client, "POST", tenant_path(soak->world, "/heartbeats"), body);
  free(body);
  json_t *answer = json_loads(response->body, 0, NULL);
  int64_t accepted = response->status == 200 ? json_integer_value(json_object_get(answer, "accepted")) : 0;
  json_decref(answer);
  soak->refused += NEW_IDS - accepted;
  for (int i = 0; i < NEW_IDS; i += 10) {
    const char *path = device_path(soak->world, text_format("once-%lld", (long long)soak->ids + i), "/disconnect");
    (void)client_call(soak->world->client, "POST", path, NULL);
  }
  soak->ids += NEW_IDS;
}

static void read_all(struct soak *soak) {
  struct world *world = soak->world;
  struct client *client = world->client;
  const char *old = text_format("once-%lld", (long long)(soak->ids * 7 / 9));
  (void)client_call(client, "GET", device_path(world, "d7", ""), NULL);
  (void)client_call(client, "GET", device_path(world, old, ""), NULL);
  (void)client_call(client, "POST", tenant_path(world, "/devices/query"),
                    text_format("{\"devices\":[\"d1\",\"%s\",\"never\"]}", old));
  (void)client_call(client, "GET", tenant_path(world, "/devices?state=online&limit=50"), NULL);
  (void)client_call(client, "GET", tenant_path(world, text_format("/devices?prefix=%s", old)), NULL);
  (void)client_call(client, "GET", tenant_path(world, "/counts"), NULL);
  (void)client_call(client, "GET", tenant_path(world, "/nowhere"), NULL);
  (void)client_call(client, "POST", tenant_path(world, "/heartbeats"), "[{\"device\":1}, \"\xff\"]");
  (void)client_call(soak->admin, "GET", "/metrics", NULL);
  const struct response *events = client_call(
      client, "GET", tenant_path(world, text_format("/events?after=%lld&limit=200", (long long)soak->last_seq)), NULL);
  json_t *page = json_loads(events->body, 0, NULL);
  if (json_is_integer(json_object_get(page, "next"))) soak->last_seq = json_integer_value(json_object_get(page, "next"));
  json_decref(page);
}

static void vanish(struct soak *soak) {
  static const char *const beginnings[] = {"POST /v1/ten", "GET %s/events?after=9000000&wait_ms=30000",
                                           "GET %s/events HTTP/1.1\r\nHost: t\r\nAccept: text/event-stream",
                                           "POST %s/heartbeats HTTP/1.1\r\nHost: t\r\nContent-Length: 5000"};
  struct client *client = client_open(soak->world->service->address);
  const char *beginning = beginnings[soak->rounds % (int64_t)LENGTH(beginnings)];
  const char *hole = strstr(beginning, "%s");
  if (hole != NULL)
    beginning = text_format("%.*s%s%s\r\nAuthorization: Bearer %s\r\n\r\n", (int)(hole - beginning), beginning,
                            tenant_path(soak->world, ""), hole + 2, soak->world->token);
  client_send_text(client, beginning);
  struct linger reset = {.l_onoff = 1, .l_linger = 0};
  if (soak->rounds % 2 == 0) setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client_close(client);
}

/* ---- what it takes */

static int64_t redis_bytes(struct soak *soak) {
  const char *info = redis_text(&soak->world->redis, "INFO memory");
  const char *used = strstr(info, "used_memory:");
  assert_non_null(used);
  return strtoll(used + strlen("used_memory:"), NULL, 10);
}

static int64_t keys_of_buckets(struct soak *soak) {
  return redis_integer(&soak->world->redis, "EVAL %s 0 %s", "return #redis.call('KEYS', ARGV[1])",
                       text_format("*:presence:*:{*}:%s:*", soak->world->tenant));
}

static void sample(struct soak *soak) {
  int64_t number = elapsed_ms(soak) * 4 / soak->length_ms;
  struct quarter *quarter = &soak->quarters[number < 4 ? number : 3];
  for (int i = 0; i < PROCESSES; i++) {
    const struct child *child = &soak->world->processes[i].child;
    int64_t rss_kib = usage_rss_kib(child);
    int descriptors = usage_descriptors(child);
    if (rss_kib > quarter->rss_kib[i]) quarter->rss_kib[i] = rss_kib;
    if (quarter->descriptors[i] == 0 || descriptors < quarter->descriptors[i]) quarter->descriptors[i] = descriptors;
  }
  int64_t bytes = redis_bytes(soak);
  if (bytes > quarter->redis_bytes) quarter->redis_bytes = bytes;
}

static void tell(struct soak *soak) {
  print_message("%lld s: %lld ids, %lld refused; memory %lld + %lld KiB, descriptors %d + %d, Redis %lld KiB\n",
                (long long)elapsed_ms(soak) / 1000, (long long)soak->ids, (long long)soak->refused,
                (long long)usage_rss_kib(&soak->world->processes[0].child),
                (long long)usage_rss_kib(&soak->world->processes[1].child), usage_descriptors(&soak->world->processes[0].child),
                usage_descriptors(&soak->world->processes[1].child), (long long)redis_bytes(soak) / 1024);
}

static void one_round(struct soak *soak, bool new_ids) {
  if (new_ids) use_new_ids(soak);
  if (soak->rounds % 4 == 0) fleet_beat(soak->world, 0, STABLE, 60000);
  read_all(soak);
  vanish(soak);
  soak->rounds++;
}

static void wait_for_rest(struct soak *soak) {
  fleet_beat(soak->world, 0, STABLE, 600000);
  WAIT_UNTIL_TEXT(keyspace_open_sessions(&soak->world->redis) == STABLE && keyspace_unpublished(&soak->world->redis) == 0, 60000,
                  text_format("%lld open", (long long)keyspace_open_sessions(&soak->world->redis)));
}

static void go_on(struct soak *soak) {
  int64_t told_ms = 0, every = soak->length_ms / ROUND_MS * NEW_IDS / IDS_MAX + 1; /* a long run uses fewer ids a second */
  soak->began_ms = wait_now_ms();
  while (elapsed_ms(soak) < soak->length_ms) {
    int64_t next_ms = wait_now_ms() + ROUND_MS;
    one_round(soak, soak->rounds % every == 0);
    sample(soak);
    if (elapsed_ms(soak) >= told_ms) {
      tell(soak);
      told_ms += 10000;
    }
    while (wait_now_ms() < next_ms) wait_pause();
  }
}

/* ---- the verdict */

static bool within_5_percent(int64_t before, int64_t after) { return after <= before + before / 20; }

/* True where all is flat; says what it compared. */
static bool judge(struct soak *soak) {
  const struct quarter *before = &soak->quarters[1], *after = &soak->quarters[3];
  bool flat =
      within_5_percent(before->redis_bytes, after->redis_bytes) || after->redis_bytes - before->redis_bytes < REDIS_SLACK_BYTES;
  print_message("Redis at most %lld, then %lld KiB\n", (long long)before->redis_bytes / 1024,
                (long long)after->redis_bytes / 1024);
  for (int i = 0; i < PROCESSES; i++) {
    print_message("process %d: memory at most %lld, then %lld KiB (%+.1f %%); descriptors %d, then %d\n", i,
                  (long long)before->rss_kib[i], (long long)after->rss_kib[i],
                  100.0 * (double)(after->rss_kib[i] - before->rss_kib[i]) / (double)before->rss_kib[i], before->descriptors[i],
                  after->descriptors[i]);
    if (usage_memory_is_real()) flat = flat && within_5_percent(before->rss_kib[i], after->rss_kib[i]);
    flat = flat && after->descriptors[i] <= before->descriptors[i];
  }
  return flat;
}

static void test_soak(void **state) {
  static const char *const environment[] = {"PRESENCE_MAX_CONNECTIONS=200", "PRESENCE_AUDIT_MS=10000",
                                            "PRESENCE_RECALIBRATE_MS=5000", NULL};
  static const char *const tenant[] = {"--max-devices", "1000000", NULL};
  static struct soak soak;
  const char *seconds = getenv("SOAK_SECONDS");
  soak.length_ms = seconds != NULL ? strtoll(seconds, NULL, 10) * 1000 : 60000;
  soak.world = world_start(state, &(struct world_options){.environment = environment, .tenant = tenant});
  (void)world_process(soak.world, "worker", NULL);
  soak.admin = client_open_as(soak.world->service->address, world_token(soak.world, NULL, NULL));
  for (int i = 0; i < 20; i++) one_round(&soak, true); /* all that Redis and the processes keep once */
  wait_for_rest(&soak);
  int64_t keys = keys_of_buckets(&soak), bytes = redis_bytes(&soak);
  go_on(&soak);
  wait_for_rest(&soak);
  bool flat = judge(&soak);
  int64_t rows = sql_integer(&soak.world->database, "SELECT count(*) FROM presence.device", NULL);
  int64_t left = keys_of_buckets(&soak) - keys, grown = redis_bytes(&soak) - bytes;
  json_t *counts = expect(soak.admin, 200, "POST", tenant_path(soak.world, "/counts/recalibrate"), NULL);
  int64_t drift = json_integer_value(json_object_get(counts, "drift"));
  json_decref(counts);
  bool clean = left == 0 && drift == 0 && rows == soak.ids - soak.refused + STABLE && grown < bytes / 20 + REDIS_SLACK_BYTES;
  print_message(
      "soak %s: %lld s, %lld ids used once, %lld refused, %lld rows, %lld keys left behind, Redis %+lld KiB, drift %lld, "
      "memory and descriptors %s\n",
      flat && clean ? "PASSED" : "FAILED", (long long)soak.length_ms / 1000, (long long)soak.ids, (long long)soak.refused,
      (long long)rows, (long long)left, (long long)grown / 1024, (long long)drift, flat ? "flat" : "NOT FLAT");
  assert_true(flat && clean);
  client_close(soak.admin);
  world_end(soak.world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_soak, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
