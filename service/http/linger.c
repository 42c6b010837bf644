#include "linger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_MAX = 256, LINGER_US = 2000000, LINGER_BYTES = 16 << 20, DROP_BYTES = 65536, DROPS_PER_EVENT = 16 };

struct lingerer {
  struct loop_watch watch;
  struct loop_timer timer;
  struct loop *loop;
  struct linger_list *list;
  struct lingerer *next, *previous;
  size_t dropped;
};

static void finish(struct lingerer *lingerer) {
  struct linger_list *list = lingerer->list;
  loop_watch_remove(lingerer->loop, &lingerer->watch);
  loop_timer_cancel(lingerer->loop, &lingerer->timer);
  close(lingerer->watch.fd);
  if (lingerer->previous != NULL)
    lingerer->previous->next = lingerer->next;
  else
    list->head = lingerer->next;
  if (lingerer->next != NULL) lingerer->next->previous = lingerer->previous;
  list->count--;
  free(lingerer);
}

static void on_time(struct loop_timer *timer) { finish(timer->context); }

static void on_ready(struct loop_watch *watch, uint32_t events) {
  (void)events;
  struct lingerer *lingerer = watch->context;
  for (int i = 0; i < DROPS_PER_EVENT; i++) {
    ssize_t got = recv(watch->fd, NULL, DROP_BYTES, MSG_TRUNC | MSG_DONTWAIT); /* tcp(7): dropped without a copy */
    if (got < 0) {                                                             /* EAGAIN: more may come */
      if ((events & (EPOLLERR | EPOLLHUP)) != 0) finish(lingerer);
      return;
    }
    lingerer->dropped += (size_t)got;
    if (got == 0 || lingerer->dropped > LINGER_BYTES) {
      finish(lingerer);
      return;
    }
  }
}

void linger_start(struct linger_list *list, struct loop *loop, int fd) {
  if (list->count >= LINGER_MAX) return;
  struct lingerer *lingerer = calloc(1, sizeof *lingerer);
  int copy = lingerer != NULL ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (copy < 0) {
    free(lingerer);
    return;
  }
  *lingerer = (struct lingerer){.watch = {.fd = copy, .events = EPOLLIN, .ready = on_ready, .context = lingerer},
                                .timer = {.fire = on_time, .context = lingerer},
                                .loop = loop,
                                .list = list,
                                .next = list->head};
  if (loop_watch_add(loop, &lingerer->watch) != STATUS_OK) {
    close(copy);
    free(lingerer);
    return;
  }
  (void)shutdown(copy, SHUT_WR);
  loop_timer_set(loop, &lingerer->timer, LINGER_US);
  if (list->head != NULL) list->head->previous = lingerer;
  list->head = lingerer;
  list->count++;
}

void linger_stop_all(struct linger_list *list) {
  struct lingerer *lingerer = list->head;
  while (lingerer != NULL) {
    struct lingerer *next = lingerer->next;
    finish(lingerer);
    lingerer = next;
  }
}
