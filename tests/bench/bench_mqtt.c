/* bench_mqtt: keep-alive as MQTT has it: PINGREQ, PINGRESP (MQTT 3.1.1, sections 3.12 and 3.13), on connections that are made
 * before.
 *
 *   bench_mqtt PORT --connections N --duration-s N
 *
 * Each connection sends as soon as it is answered. Prints presence-sim's summary in JSON; a ping counts as a heartbeat. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"
#include "tools/sim_stats.h"

enum { PACKET = 2 }; /* bytes of a PINGREQ, and of a PINGRESP */

struct bench {
  struct loop *loop;
  struct sim_stats stats;
  struct loop_timer deadline;
};

struct client {
  struct loop_watch watch;
  struct bench *bench;
  int64_t sent_us;
  size_t got; /* bytes of the answer so far */
};

static _Noreturn void die(const char *what, const char *why) {
  fprintf(stderr, "bench_mqtt: %s: %s\n", what, why);
  exit(1);
}

static void ping(struct client *client, int64_t now_us) {
  static const unsigned char request[PACKET] = {0xC0, 0};
  client->sent_us = now_us;
  client->got = 0;
  if (send(client->watch.fd, request, PACKET, MSG_NOSIGNAL) != PACKET) die("send", strerror(errno));
  client->bench->stats.requests++;
}

static void on_answer(struct loop_watch *watch, uint32_t events) {
  struct client *client = watch->context;
  struct bench *bench = client->bench;
  unsigned char answer[PACKET];
  (void)events;
  ssize_t count = recv(watch->fd, answer, PACKET - client->got, 0);
  if (count <= 0) die("connection", "the broker closed it");
  if (client->got == 0 && answer[0] != 0xD0) die("answer", "not a PINGRESP");
  client->got += (size_t)count;
  if (client->got < PACKET) return;
  int64_t now_us = clock_monotonic_us(loop_clock(bench->loop));
  sim_stats_answer(&bench->stats, 200, now_us - client->sent_us);
  bench->stats.heartbeats_ok++;
  ping(client, now_us);
}

/* CONNECT with a clean session, a keep-alive of a minute and the client's number; waits for CONNACK. */
static int connect_client(uint16_t port, uint16_t number) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  unsigned char packet[] = {0x10,
                            17,
                            0,
                            4,
                            'M',
                            'Q',
                            'T',
                            'T',
                            4,
                            2,
                            0,
                            60,
                            0,
                            5,
                            'c',
                            '0',
                            '0',
                            (unsigned char)('0' + number % 64),
                            (unsigned char)('0' + number / 64)};
  unsigned char answer[4];
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect", strerror(errno));
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (send(fd, packet, sizeof packet, MSG_NOSIGNAL) != sizeof packet) die("send", strerror(errno));
  if (recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer || answer[0] != 0x20 || answer[3] != 0)
    die("CONNECT", "refused");
  return fd;
}

static void on_deadline(struct loop_timer *timer) { loop_stop(((struct bench *)timer->context)->loop); }

static long number(const char *text, long most) {
  char *end;
  long value = strtol(text, &end, 10);
  if (*end != '\0' || value < 1 || value > most) die(text, "not a number, or too large");
  return value;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"connections", required_argument, NULL, 'c'}, {"duration-s", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0}};
  long connections = 64, duration_s = 3;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'c') connections = number(optarg, 1000);
    if (option == 'd') duration_s = number(optarg, 3600);
    if (option == '?') return 2;
  }
  if (optind + 1 != argc) die("usage", "bench_mqtt PORT [--connections N] [--duration-s N]");
  uint16_t port = (uint16_t)number(argv[optind], UINT16_MAX);
  static struct bench bench;
  struct client *clients = calloc((size_t)connections, sizeof *clients);
  if (!clients || loop_new(clock_system(), &bench.loop)) die("start", "no memory");
  for (long i = 0; i < connections; i++) {
    clients[i] = (struct client){.bench = &bench, .watch = {.events = EPOLLIN, .ready = on_answer, .context = &clients[i]}};
    clients[i].watch.fd = connect_client(port, (uint16_t)i);
    if (loop_watch_add(bench.loop, &clients[i].watch)) die("epoll", strerror(errno));
  }
  int64_t start_us = clock_monotonic_us(clock_system());
  bench.deadline = (struct loop_timer){.fire = on_deadline, .context = &bench};
  loop_timer_set(bench.loop, &bench.deadline, duration_s * 1000000);
  for (long i = 0; i < connections; i++) ping(&clients[i], start_us);
  if (loop_run(bench.loop)) die("loop", strerror(errno));
  struct sim_summary summary = {.seconds = (double)(clock_monotonic_us(clock_system()) - start_us) / 1e6, .online = connections};
  struct buf text = {0};
  if (sim_stats_summary(&text, &bench.stats, &summary, 1)) die("summary", "no memory");
  fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  for (long i = 0; i < connections; i++) close(clients[i].watch.fd);
  free(clients);
  loop_free(bench.loop);
  return 0;
}
