/* Clients that vanish in mid-request, thousands of them: the process as it is installed keeps no connection, no descriptor and no
 * memory of them. */
#include "support/test.h"

#include "support/usage.h"
#include "support/world.h"

#include <string.h>
#include <sys/socket.h>

#define AT_ONCE 50 /* at most so many have a connection */
#define OWN_MAX 16 /* connections to PostgreSQL and Redis that the process opens when they are needed first, and keeps */

/* What a client had sent when it vanished. */
static const char *const beginnings[] = {
    "POST /v1/ten",
    "POST %s/devices/d/heartbeat HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nContent-Le",
    "POST %s/devices/d/heartbeat HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{\"ttl_ms\":",
    "POST %s/devices/d/heartbeat HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n",
    "POST %s/heartbeats HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nContent-Length: 900000\r\n\r\n[\"a\",\"b\",",
    "POST %s/heartbeats HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n[\"a\"",
    "GET %s/devices HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\n\r\nGET /metr",
    "GET %s/events?after=0&wait_ms=30000 HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\n\r\n",
    "GET %s/events?after=9000000&wait_ms=30000 HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\n\r\n",
    "GET %s/events HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n",
};

static char *requests[LENGTH(beginnings)];

static void prepare(const struct world *world) {
  for (size_t i = 0; i < LENGTH(beginnings); i++) {
    requests[i] = text_format("%s", beginnings[i]);
    char *path = strstr(requests[i], "%s");
    if (path == NULL) continue;
    requests[i] = text_format("%.*s%s%s", (int)(path - requests[i]), requests[i], tenant_path(world, ""), path + 2);
    char *token = strstr(requests[i], "%s");
    requests[i] = text_format("%.*s%s%s", (int)(token - requests[i]), requests[i], world->token, token + 2);
  }
}

static struct client *appear(const struct world *world, int number) {
  struct client *client = client_open(world->service->address);
  client_send_text(client, requests[(size_t)number % LENGTH(requests)]);
  return client;
}

static void vanish(struct client *client, int number) {
  struct linger reset = {.l_onoff = 1, .l_linger = 0};
  if (number % 3 == 0) setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client_close(client);
}

static void come_and_go(const struct world *world, int count) {
  struct client *clients[AT_ONCE] = {NULL};
  for (int i = 0; i < count; i++) {
    struct client **place = &clients[i % AT_ONCE];
    if (*place != NULL) vanish(*place, i);
    *place = appear(world, i);
  }
  for (int i = 0; i < AT_ONCE; i++)
    if (clients[i] != NULL) vanish(clients[i], i);
}

static void test_nothing_is_kept_of_clients_that_vanish(void **state) {
  int count = test_is_whole() ? 10000 : 1500;
  static const char *const environment[] = {"PRESENCE_MAX_CONNECTIONS=100", NULL}; /* a slot that is kept would be missed */
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  const struct child *child = &world->service->child;
  beat(world, "d", 60000);
  prepare(world);
  int descriptors = usage_descriptors(child) + OWN_MAX;
  come_and_go(world, count); /* what is allocated once, and as much as is ever needed at once */
  WAIT_UNTIL_TEXT(usage_descriptors(child) <= descriptors, 30000, text_format("%d", usage_descriptors(child)));
  int64_t before_kib = usage_rss_kib(child);
  come_and_go(world, count);
  WAIT_UNTIL_TEXT(usage_descriptors(child) <= descriptors, 30000, text_format("%d", usage_descriptors(child)));
  int64_t after_kib = usage_rss_kib(child);
  print_message("%d clients vanished: %lld KiB before, %lld after; %d descriptors are left\n", count, (long long)before_kib,
                (long long)after_kib, usage_descriptors(child));
  if (usage_memory_is_real()) assert_true(after_kib <= before_kib + before_kib / 20 + 1024);
  world_talk_to(world, world->service); /* the old connection, idle the longest, has made room */
  beat(world, "d", 60000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_nothing_is_kept_of_clients_that_vanish, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
