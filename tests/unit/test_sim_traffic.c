/* presence-sim's fleet and replay against a server on the same loop, which the test scripts. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"
#include "support/alloc_fail.h"
#include "support/timeshim.h"
#include "tools/sim_fleet.h"
#include "tools/sim_replay.h"

/* Server: answers each request with answer_of(its number from 1, its bytes); NULL: closes. */

enum { CLIENTS_MAX = 64, REQUEST_MAX = 128 * 1024 };
struct client {
  struct loop_watch watch;
  char bytes[REQUEST_MAX];
  size_t len;
};

static struct loop *loop;
static struct loop_watch listener;
static struct client *clients[CLIENTS_MAX];
static int client_count, request_count;
static const char *(*answer_of)(int number, const char *request);
static struct sim_url url;
static struct sim_target target;
static char url_text[64];

/* How long the request at the start of bytes is; 0: not there whole. */
static size_t request_size(const struct client *client) {
  const char *blank = memmem(client->bytes, client->len, "\r\n\r\n", 4);
  if (blank == NULL) return 0;
  const char *length = strstr(client->bytes, "Content-Length: ");
  assert_non_null(length);
  size_t size = (size_t)(blank - client->bytes) + 4 + strtoul(length + 16, NULL, 10);
  return client->len >= size ? size : 0;
}

static void drop(struct client *client) {
  loop_watch_remove(loop, &client->watch);
  close(client->watch.fd);
  client->watch.fd = -1;
}

static void on_client(struct loop_watch *watch, uint32_t events) {
  struct client *client = watch->context;
  (void)events;
  ssize_t count = recv(watch->fd, client->bytes + client->len, sizeof client->bytes - 1 - client->len, 0);
  if (count <= 0) {
    drop(client);
    return;
  }
  client->len += (size_t)count;
  client->bytes[client->len] = '\0';
  size_t size = request_size(client);
  if (size == 0) return;
  assert_int_equal(size, client->len); /* one request under way at a time */
  const char *answer = answer_of(++request_count, client->bytes);
  client->len = 0;
  if (answer == NULL) {
    drop(client);
    return;
  }
  size_t half = strlen(answer) / 2; /* in two pieces, as networks may */
  assert_int_equal(send(watch->fd, answer, half, MSG_NOSIGNAL), (ssize_t)half);
  assert_int_equal(send(watch->fd, answer + half, strlen(answer) - half, MSG_NOSIGNAL), (ssize_t)(strlen(answer) - half));
  if (strstr(answer, "Connection: close") != NULL) drop(client);
}

static void on_connect(struct loop_watch *watch, uint32_t events) {
  (void)events;
  assert_true(client_count < CLIENTS_MAX);
  alloc_fail_at(0); /* a failure is meant for the fleet */
  struct client *client = calloc(1, sizeof *client);
  assert_non_null(client);
  clients[client_count++] = client;
  client->watch = (struct loop_watch){
      .fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK), .events = EPOLLIN, .ready = on_client, .context = client};
  assert_true(client->watch.fd >= 0);
  int on = 1;
  assert_int_equal(setsockopt(client->watch.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  assert_status(STATUS_OK, loop_watch_add(loop, &client->watch));
}

static int start(void **state) {
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  char *error = NULL;
  if (loop_new(clock_system(), &loop) != STATUS_OK) return -1;
  listener = (struct loop_watch){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .events = EPOLLIN, .ready = on_connect};
  if (bind(listener.fd, (struct sockaddr *)&address, size) < 0 || listen(listener.fd, 64) < 0 ||
      getsockname(listener.fd, (struct sockaddr *)&address, &size) < 0 || loop_watch_add(loop, &listener) != STATUS_OK)
    return -1;
  snprintf(url_text, sizeof url_text, "http://127.0.0.1:%d", ntohs(address.sin_port));
  request_count = 0;
  if (sim_url_parse(str_from(url_text), &url) != STATUS_OK) return -1;
  return sim_target_resolve(&url, &target, &error) == STATUS_OK ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  for (int i = 0; i < client_count; i++) {
    if (clients[i]->watch.fd >= 0) drop(clients[i]);
    free(clients[i]);
  }
  client_count = 0;
  close(listener.fd);
  loop_free(loop);
  return 0;
}

static struct sim_options fleet_options(void) {
  return (struct sim_options){.mode = SIM_FLEET,
                              .tenant = "t",
                              .token = "s",
                              .prefix = "d",
                              .devices = 10,
                              .connections = 4,
                              .seed = 1,
                              .ttl_ms = 60000,
                              .request = "",
                              .body = ""};
}

/* Runs a fleet until the server's script stops the loop, and hands over its statistics. */
static struct sim_stats run_fleet(const struct sim_options *options, struct sim_summary *summary) {
  struct sim_fleet *fleet = NULL;
  assert_status(STATUS_OK, sim_fleet_new(loop, options, &url, &target, &fleet));
  sim_fleet_start(fleet);
  assert_status(STATUS_OK, loop_run(loop));
  struct sim_stats stats = *sim_fleet_stats(fleet);
  *summary = sim_fleet_summary(fleet);
  sim_fleet_free(fleet);
  return stats;
}

#define NO_CONTENT "HTTP/1.1 204 No Content\r\n\r\n"

static const char *answer_500_requests(int number, const char *request) {
  assert_non_null(strstr(request, "POST /v1/tenants/t/devices/d"));
  assert_non_null(strstr(request, "\r\nAuthorization: Bearer s\r\n"));
  if (number == 500) loop_stop(loop);
  return NO_CONTENT;
}

static void flat_out_every_connection_goes_on_at_once(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  answer_of = answer_500_requests;
  struct sim_stats stats = run_fleet(&options, &summary);
  assert_true(stats.answers[204] >= 490);
  assert_int_equal(stats.heartbeats_ok, stats.answers[204]);
  assert_int_equal(summary.online, 10);
  assert_int_equal(client_count, 4);
}

static const char *answer_many_ways(int number, const char *request) {
  (void)request;
  if (number == 40) loop_stop(loop);
  switch (number) {
  case 5: return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";
  case 10: return NULL;
  case 15: return "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
  case 20: return "rubbish\r\n\r\n";
  default: return NO_CONTENT;
  }
}

static void failures_are_counted_and_connections_made_again(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  options.connections = 1;
  answer_of = answer_many_ways;
  struct sim_stats stats = run_fleet(&options, &summary);
  assert_int_equal(stats.answers[503], 1);
  assert_int_equal(stats.lost, 2);
  assert_true(stats.answers[204] >= 36);
  struct buf errors = {0};
  assert_status(STATUS_OK, sim_stats_append_errors(&errors, &stats));
  assert_string_equal(buf_text(&errors), " 503:1 closed:1 protocol:1");
  buf_free(&errors);
  assert_int_equal(client_count, 4);
}

static const char *answer_batches(int number, const char *request) {
  assert_non_null(strstr(request, "POST /v1/tenants/t/heartbeats "));
  assert_non_null(strstr(request, "[{\"device\":\"d0\",\"ttl_ms\":60000},"));
  if (number == 3) loop_stop(loop);
  return "HTTP/1.1 200 OK\r\nContent-Length: 103\r\n\r\n"
         "{\"accepted\":8,\"rejected\":[{\"index\":2,\"device\":\"d2\"},{\"index\":9},{\"index\":9},{\"index\":-1},{\"index\":99}"
         "]}";
}

static void batches_count_what_is_in_force(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  options.connections = 1;
  options.batch = 10;
  answer_of = answer_batches;
  struct sim_stats stats = run_fleet(&options, &summary);
  assert_true(stats.answers[200] >= 2);
  assert_int_equal(stats.heartbeats_ok, 8 * stats.answers[200]);
  assert_int_equal(stats.heartbeats_bad, 2 * stats.answers[200]);
  assert_int_equal(summary.online, 8);
}

static const char *answer_30_requests(int number, const char *request) {
  (void)request;
  if (number == 30) loop_stop(loop);
  return NO_CONTENT;
}

static void a_schedule_is_kept(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  options.interval_ms = 200; /* 10 devices: a heartbeat every 20 ms */
  answer_of = answer_30_requests;
  struct sim_stats stats = run_fleet(&options, &summary);
  assert_int_equal(stats.requests, 30);
  assert_true(summary.seconds >= 29 * 0.020); /* never before its turn */
}

/* The first answer takes 100 ms, in which the loop stands still. */
static const char *answer_the_first_late(int number, const char *request) {
  if (number == 1) usleep(100000);
  return answer_30_requests(number, request);
}

static void a_heartbeat_is_late_from_its_turn_on(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  options.connections = 1;
  options.devices = 1000;
  options.interval_ms = 10000; /* ten turns come while the first waits for its answer: 10 ms to 100 ms late */
  options.precise = true;
  answer_of = answer_the_first_late;
  struct sim_stats stats = run_fleet(&options, &summary);
  assert_true(sim_latency_quantile(&stats.all, 0.8) >= 20000); /* of 30; without the waiting all but one took next to nothing */
}

/* Replay */

static struct timeshim *shim;
static char sent[4096];

static const char *note_device_and_clock(int number, const char *request) {
  const char *device = strstr(request, "/devices/");
  assert_non_null(device);
  char line[128];
  snprintf(line, sizeof line, "%.*s@%lld ", (int)strcspn(device + 9, "/"), device + 9,
           shim != NULL ? (long long)(atomic_load(&shim->setting) / 4) : 0);
  strncat(sent, line, sizeof sent - strlen(sent) - 1);
  if (number == 2) return NULL;
  if (number == 3) return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
  return NO_CONTENT;
}

static const char *refuse_the_second(int number, const char *request) {
  (void)request;
  return number == 2 ? "HTTP/1.1 401 Unauthorized\r\nContent-Length: 17\r\n\r\n{\"error\":\"token\"}" : NO_CONTENT;
}

static void write_file(char path[64], const char *text) {
  snprintf(path, 64, "/tmp/presence-replay-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static struct sim_options replay_options(const char *file, const char *timeshim) {
  return (struct sim_options){.mode = SIM_REPLAY,
                              .request = "",
                              .body = "",
                              .tenant = "t",
                              .token = "s",
                              .prefix = "n-",
                              .ttl_ms = 90000,
                              .devices = 1,
                              .file = file,
                              .column_time = "t",
                              .column_node = "n",
                              .timeshim = timeshim,
                              .speed = 100};
}

static struct sim_replay *run_replay(const struct sim_options *options) {
  struct sim_replay *replay = NULL;
  char *error = NULL;
  assert_status(STATUS_OK, sim_replay_new(loop, options, &url, &target, &replay, &error));
  sim_replay_start(replay);
  assert_status(STATUS_OK, loop_run(loop));
  return replay;
}

static void a_replay_keeps_order_and_freezes_the_clock(void **state) {
  (void)state;
  char trace[64], clock_file[64];
  write_file(trace, "t,n\n10,a\n10.5,b\n90000,a/c\n");
  write_file(clock_file, "");
  shim = timeshim_open(clock_file);
  assert_non_null(shim);
  sent[0] = '\0';
  answer_of = note_device_and_clock;
  struct sim_options options = replay_options(trace, clock_file);
  struct sim_replay *replay = run_replay(&options);
  struct sim_replay_result result = sim_replay_result(replay);
  assert_null(result.failure);
  assert_int_equal(result.messages, 3);
  assert_int_equal(result.retries, 2);
  assert_int_equal(result.first_ms, 10000);
  assert_int_equal(result.last_ms, 90000000);
  assert_string_equal(sent, "n-a@10000 n-b@10500 n-b@10500 n-b@10500 n-a%2Fc@90000000 ");
  assert_int_equal(atomic_load(&shim->setting), INT64_C(90000000) * 4 + TIMESHIM_FIXED);
  sim_replay_free(replay);
  timeshim_close(shim);
  shim = NULL;
  unlink(trace);
  unlink(clock_file);
}

static void without_a_clock_file_distances_are_kept(void **state) {
  (void)state;
  char trace[64];
  write_file(trace, "t,n\n10,a\n20,b\n30,c\n"); /* at 100 times the speed: 0.1 s apart */
  answer_of = answer_30_requests;
  struct sim_options options = replay_options(trace, "");
  int64_t before_us = clock_monotonic_us(clock_system());
  struct sim_replay *replay = run_replay(&options);
  assert_int_equal(sim_replay_result(replay).messages, 3);
  assert_true(clock_monotonic_us(clock_system()) - before_us >= 200000);
  sim_replay_free(replay);
  unlink(trace);
}

static void a_refusal_ends_the_replay(void **state) {
  (void)state;
  char trace[64];
  write_file(trace, "t,n\n10,a\n10,b\n10,c\n");
  answer_of = refuse_the_second;
  struct sim_options options = replay_options(trace, "");
  struct sim_replay *replay = run_replay(&options);
  assert_int_equal(sim_replay_result(replay).messages, 1);
  assert_string_equal(sim_replay_result(replay).failure, "node b: 401 {\"error\":\"token\"}");
  sim_replay_free(replay);
  unlink(trace);
}

static void a_damaged_trace_ends_the_replay(void **state) {
  (void)state;
  char trace[64], expected[128];
  write_file(trace, "t,n\n10,a\nx,b\n");
  answer_of = answer_30_requests;
  struct sim_options options = replay_options(trace, "");
  struct sim_replay *replay = run_replay(&options);
  assert_int_equal(sim_replay_result(replay).messages, 1);
  snprintf(expected, sizeof expected, "%s:3: the time is no number of seconds since 1970", trace);
  assert_string_equal(sim_replay_result(replay).failure, expected);
  sim_replay_free(replay);
  unlink(trace);
}

static void an_unreachable_clock_file_is_refused(void **state) {
  (void)state;
  char trace[64];
  struct sim_replay *replay = NULL;
  char *error = NULL;
  write_file(trace, "t,n\n10,a\n");
  struct sim_options options = replay_options(trace, "/nonexistent/clock");
  assert_status(STATUS_INVALID, sim_replay_new(loop, &options, &url, &target, &replay, &error));
  assert_string_equal(error, "--timeshim: the file cannot be opened");
  assert_null(replay);
  free(error);
  unlink(trace);
}

/* Failing allocations */

static bool make_fleet(void *context) {
  struct sim_fleet *fleet = NULL;
  enum status status = sim_fleet_new(loop, context, &url, &target, &fleet);
  assert_int_equal(fleet != NULL, status == STATUS_OK);
  sim_fleet_free(fleet);
  return status == STATUS_OK;
}

static bool make_replay(void *context) {
  struct sim_replay *replay = NULL;
  char *error = NULL;
  enum status status = sim_replay_new(loop, context, &url, &target, &replay, &error);
  assert_int_equal(replay != NULL, status == STATUS_OK);
  assert_null(error);
  sim_replay_free(replay);
  return status == STATUS_OK;
}

static void creation_survives_failed_allocations(void **state) {
  (void)state;
  char trace[64];
  struct sim_options fleet = fleet_options();
  assert_true(alloc_fail_sweep(make_fleet, &fleet) > 10);
  write_file(trace, "t,n\n10,a\n");
  struct sim_options replay = replay_options(trace, "");
  assert_true(alloc_fail_sweep(make_replay, &replay) > 5);
  unlink(trace);
}

static const char *fail_an_allocation_each_time(int number, const char *request) {
  (void)request;
  if (number == 200) loop_stop(loop);
  alloc_fail_at(1 + number % 3);
  return NO_CONTENT;
}

/* What a connection or a request cannot allocate is tried again later. */
static void a_fleet_goes_on_after_failed_allocations(void **state) {
  (void)state;
  struct sim_options options = fleet_options();
  struct sim_summary summary;
  answer_of = fail_an_allocation_each_time;
  struct sim_stats stats = run_fleet(&options, &summary);
  alloc_fail_at(0);
  assert_true(stats.answers[204] > 100);
}

int main(void) {
#define SERVED(test) cmocka_unit_test_setup_teardown(test, start, stop)
  const struct CMUnitTest tests[] = {
      SERVED(flat_out_every_connection_goes_on_at_once),
      SERVED(failures_are_counted_and_connections_made_again),
      SERVED(batches_count_what_is_in_force),
      SERVED(a_schedule_is_kept),
      SERVED(a_heartbeat_is_late_from_its_turn_on),
      SERVED(a_replay_keeps_order_and_freezes_the_clock),
      SERVED(without_a_clock_file_distances_are_kept),
      SERVED(a_refusal_ends_the_replay),
      SERVED(a_damaged_trace_ends_the_replay),
      SERVED(an_unreachable_clock_file_is_refused),
      SERVED(creation_survives_failed_allocations),
      SERVED(a_fleet_goes_on_after_failed_allocations),
  };
  return cmocka_run_group_tests_name("sim_traffic", tests, NULL, NULL);
}
