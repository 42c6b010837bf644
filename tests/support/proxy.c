#include "support/test.h"

#include "support/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define PIECE_BYTES 16384
#define NO_LIMIT SIZE_MAX

enum direction { REQUESTS, ANSWERS, DIRECTIONS };

/* One direction of a connection: at most one piece is held back (delay) or waits for the other side to take it. */
struct pipe {
  int from, to;
  char piece[PIECE_BYTES];
  size_t length, sent;
  int64_t due_ms;
};

struct pair {
  bool used;
  struct pipe pipes[DIRECTIONS];
};

struct proxy {
  pthread_t thread;
  pthread_mutex_t lock; /* guards all below but the descriptors of listener and wake */
  int listener, wake;
  const char *target;
  bool stopping, refusing, blackhole;
  int delay_ms;
  size_t left[DIRECTIONS]; /* bytes that may still pass before the cut */
  size_t cuts, connections;
  struct pair pairs[PAIRS_MAX];
};

static struct sockaddr_un unix_address(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(strlen(path) < sizeof address.sun_path);
  strcpy(address.sun_path, path);
  return address;
}

static void end_pair(struct proxy *proxy, struct pair *pair) {
  if (!pair->used) return;
  close(pair->pipes[REQUESTS].from);
  close(pair->pipes[REQUESTS].to);
  pair->used = false;
  proxy->connections--;
}

static void cut_all(struct proxy *proxy) {
  for (size_t i = 0; i < PAIRS_MAX; i++) {
    if (proxy->pairs[i].used) proxy->cuts++;
    end_pair(proxy, &proxy->pairs[i]);
  }
  proxy->left[REQUESTS] = proxy->left[ANSWERS] = NO_LIMIT;
}

static void start_pair(struct proxy *proxy, int client) {
  struct pair *pair = NULL;
  for (size_t i = 0; i < PAIRS_MAX && pair == NULL; i++)
    if (!proxy->pairs[i].used) pair = &proxy->pairs[i];
  struct sockaddr_un address = unix_address(proxy->target);
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (pair == NULL || proxy->refusing || server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
    close(client);
    if (server >= 0) close(server);
    proxy->cuts++;
    return;
  }
  fcntl(client, F_SETFL, O_NONBLOCK);
  fcntl(server, F_SETFL, O_NONBLOCK);
  pair->used = true;
  pair->pipes[REQUESTS].from = pair->pipes[ANSWERS].to = client;
  pair->pipes[REQUESTS].to = pair->pipes[ANSWERS].from = server;
  pair->pipes[REQUESTS].length = pair->pipes[ANSWERS].length = 0;
  proxy->connections++;
}

/* Takes a piece in when there is none; false at the end of the connection. */
static bool take_in(struct proxy *proxy, struct pipe *pipe, int64_t now_ms) {
  if (pipe->length > 0) return true;
  ssize_t got = recv(pipe->from, pipe->piece, sizeof pipe->piece, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  pipe->length = (size_t)got;
  pipe->sent = 0;
  pipe->due_ms = now_ms + proxy->delay_ms;
  return true;
}

/* Hands on what is due. Sets *cut when the limit of bytes is used up. */
static bool hand_on(struct proxy *proxy, enum direction direction, struct pipe *pipe, int64_t now_ms, bool *cut) {
  if (pipe->length == 0 || pipe->due_ms > now_ms) return true;
  size_t size = pipe->length - pipe->sent;
  if (size > proxy->left[direction]) size = proxy->left[direction];
  ssize_t sent = size == 0 ? 0 : send(pipe->to, pipe->piece + pipe->sent, size, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  pipe->sent += (size_t)sent;
  if (pipe->sent == pipe->length) pipe->length = 0;
  if (proxy->left[direction] != NO_LIMIT) {
    proxy->left[direction] -= (size_t)sent;
    *cut = *cut || proxy->left[direction] == 0;
  }
  return true;
}

static void pass(struct proxy *proxy) {
  int64_t now_ms = wait_now_ms();
  bool cut = false;
  for (size_t i = 0; i < PAIRS_MAX; i++) {
    struct pair *pair = &proxy->pairs[i];
    for (int direction = 0; direction < DIRECTIONS && pair->used && !proxy->blackhole && !cut; direction++) {
      struct pipe *pipe = &pair->pipes[direction];
      if (!take_in(proxy, pipe, now_ms) || !hand_on(proxy, direction, pipe, now_ms, &cut)) end_pair(proxy, pair);
    }
  }
  if (cut) cut_all(proxy);
}

/* What to wait for. A piece that is held back makes poll return in time by the timeout. */
static nfds_t list_descriptors(struct proxy *proxy, struct pollfd *list, int *timeout_ms) {
  nfds_t count = 0;
  *timeout_ms = 1000;
  list[count++] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
  list[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
  for (size_t i = 0; i < PAIRS_MAX && !proxy->blackhole; i++) {
    if (!proxy->pairs[i].used) continue;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
      struct pipe *pipe = &proxy->pairs[i].pipes[direction];
      if (pipe->length == 0)
        list[count++] = (struct pollfd){.fd = pipe->from, .events = POLLIN};
      else if (pipe->due_ms > wait_now_ms())
        *timeout_ms = 1;
      else
        list[count++] = (struct pollfd){.fd = pipe->to, .events = POLLOUT};
    }
  }
  return count;
}

static void *run(void *argument) {
  struct proxy *proxy = argument;
  struct pollfd list[2 + PAIRS_MAX * DIRECTIONS];
  pthread_mutex_lock(&proxy->lock);
  while (!proxy->stopping) {
    int timeout_ms;
    nfds_t count = list_descriptors(proxy, list, &timeout_ms);
    pthread_mutex_unlock(&proxy->lock);
    poll(list, count, timeout_ms);
    uint64_t woken;
    if (list[0].revents != 0) (void)!read(proxy->wake, &woken, sizeof woken);
    int client = list[1].revents != 0 ? accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    pthread_mutex_lock(&proxy->lock);
    if (client >= 0) start_pair(proxy, client);
    pass(proxy);
  }
  pthread_mutex_unlock(&proxy->lock);
  return NULL;
}

struct proxy *proxy_start(const char *listen_path, const char *target_path) {
  struct proxy *proxy = calloc(1, sizeof *proxy);
  assert_non_null(proxy);
  proxy->target = target_path;
  proxy->left[REQUESTS] = proxy->left[ANSWERS] = NO_LIMIT;
  pthread_mutex_init(&proxy->lock, NULL);
  struct sockaddr_un address = unix_address(listen_path);
  proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(proxy->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(proxy->listener, 64) != 0)
    fail_msg("%s: %s", listen_path, strerror(errno));
  (void)chmod(listen_path, 0777);
  proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
  return proxy;
}

static void change_begin(struct proxy *proxy) { pthread_mutex_lock(&proxy->lock); }

static void change_end(struct proxy *proxy) {
  pthread_mutex_unlock(&proxy->lock);
  uint64_t one = 1;
  (void)!write(proxy->wake, &one, sizeof one);
}

void proxy_stop(struct proxy *proxy) {
  if (proxy == NULL) return;
  change_begin(proxy);
  proxy->stopping = true;
  change_end(proxy);
  pthread_join(proxy->thread, NULL);
  cut_all(proxy);
  close(proxy->listener);
  close(proxy->wake);
  pthread_mutex_destroy(&proxy->lock);
  free(proxy);
}

void proxy_cut(struct proxy *proxy) {
  change_begin(proxy);
  cut_all(proxy);
  change_end(proxy);
}

void proxy_refuse(struct proxy *proxy, bool on) {
  change_begin(proxy);
  proxy->refusing = on;
  if (on) cut_all(proxy);
  change_end(proxy);
}

void proxy_blackhole(struct proxy *proxy, bool on) {
  change_begin(proxy);
  proxy->blackhole = on;
  change_end(proxy);
}

void proxy_delay(struct proxy *proxy, int delay_ms) {
  change_begin(proxy);
  proxy->delay_ms = delay_ms;
  change_end(proxy);
}

static void cut_after(struct proxy *proxy, enum direction direction, size_t bytes) {
  change_begin(proxy);
  proxy->left[direction] = bytes;
  change_end(proxy);
}

void proxy_cut_after_requests(struct proxy *proxy, size_t bytes) { cut_after(proxy, REQUESTS, bytes); }
void proxy_cut_after_answers(struct proxy *proxy, size_t bytes) { cut_after(proxy, ANSWERS, bytes); }

size_t proxy_cuts(struct proxy *proxy) {
  pthread_mutex_lock(&proxy->lock);
  size_t cuts = proxy->cuts;
  pthread_mutex_unlock(&proxy->lock);
  return cuts;
}

size_t proxy_connections(struct proxy *proxy) {
  pthread_mutex_lock(&proxy->lock);
  size_t connections = proxy->connections;
  pthread_mutex_unlock(&proxy->lock);
  return connections;
}
