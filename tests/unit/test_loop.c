#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "support/alloc_fail.h"

/* A clock that stands still until the test moves it. */
static int64_t fake_us;
static int64_t fake_monotonic(void *context) {
  (void)context;
  return fake_us;
}
static const struct clock fake_clock = {.monotonic_us = fake_monotonic, .realtime_ms = fake_monotonic};

static struct loop *loop;
static int passes; /* that the hook still lets go by */

static int64_t count_pass(void *context) {
  (void)context;
  if (--passes <= 0) loop_stop(loop);
  return 0;
}

static void run_passes(int count) {
  passes = count;
  loop_set_after_pass(loop, count_pass, NULL);
  assert_status(STATUS_OK, loop_run(loop));
}

static int with_fake_clock(void **state) {
  (void)state;
  fake_us = 1000000;
  return loop_new(&fake_clock, &loop) == STATUS_OK ? 0 : -1;
}
static int with_system_clock(void **state) {
  (void)state;
  return loop_new(clock_system(), &loop) == STATUS_OK ? 0 : -1;
}
static int without_loop(void **state) {
  (void)state;
  loop_free(loop);
  loop = NULL;
  return 0;
}

/* Timers */

static int64_t fired_at[4];
static int fired_order[20000], fired;

static void note_fire(struct loop_timer *timer) { fired_order[fired++] = *(int *)timer->context; }

static void timers_fire_in_order_and_never_early(void **state) {
  (void)state;
  int names[] = {0, 1, 2, 3};
  struct loop_timer timers[4] = {0};
  static const int64_t delays[] = {300, 100, 400, 200};
  fired = 0;
  for (int i = 0; i < 4; i++) {
    timers[i] = (struct loop_timer){.fire = note_fire, .context = &names[i]};
    loop_timer_set(loop, &timers[i], delays[i]);
    assert_true(timers[i].armed);
    assert_int_equal(timers[i].due_us, 1000000 + delays[i]);
  }
  fake_us += 99;
  run_passes(1);
  assert_int_equal(fired, 0);
  fake_us += 1;
  run_passes(1);
  assert_int_equal(fired, 1);
  assert_false(timers[1].armed);
  loop_timer_cancel(loop, &timers[0]);
  loop_timer_cancel(loop, &timers[0]);
  fake_us += 1000;
  run_passes(1);
  assert_int_equal(fired, 3);
  assert_int_equal(fired_order[0], 1);
  assert_int_equal(fired_order[1], 3);
  assert_int_equal(fired_order[2], 2);
}

static void rearm(struct loop_timer *timer) {
  fired++;
  loop_timer_set(loop, timer, 0);
}

static void a_timer_rearmed_at_once_waits_for_the_next_pass(void **state) {
  (void)state;
  struct loop_timer timer = {.fire = rearm};
  fired = 0;
  loop_timer_set(loop, &timer, -5);
  fake_us += 10;
  run_passes(1);
  assert_int_equal(fired, 1);
  fake_us += 10;
  run_passes(1);
  assert_int_equal(fired, 2);
  loop_timer_set(loop, &timer, 50); /* moved while armed */
  fake_us += 10;
  run_passes(1);
  assert_int_equal(fired, 2);
  loop_timer_set(loop, &timer, INT64_MAX);
  assert_true(timer.due_us == INT64_MAX);
  loop_timer_cancel(loop, &timer);
}

static struct loop_timer victim;
static void cancel_victim(struct loop_timer *timer) {
  (void)timer;
  fired++;
  loop_timer_cancel(loop, &victim);
}

static void a_timer_cancelled_by_another_does_not_fire(void **state) {
  (void)state;
  struct loop_timer first = {.fire = cancel_victim};
  victim = (struct loop_timer){.fire = cancel_victim};
  fired = 0;
  loop_timer_set(loop, &first, 1);
  loop_timer_set(loop, &victim, 2);
  fake_us += 100;
  run_passes(2);
  assert_int_equal(fired, 1);
}

static int by_value(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a;
  int64_t right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static int64_t last_due;
static void check_order(struct loop_timer *timer) {
  assert_true(timer->due_us >= last_due);
  assert_true(timer->due_us <= fake_us);
  last_due = timer->due_us;
  fired++;
}

/* Random sets, moves and cancels against a sorted array. */
static void ten_thousand_timers_keep_their_order(void **state) {
  (void)state;
  enum { COUNT = 10000 };
  static struct loop_timer timers[COUNT];
  static int64_t expected_us[COUNT];
  unsigned seed = 7;
  for (int i = 0; i < COUNT; i++) {
    timers[i] = (struct loop_timer){.fire = check_order};
    loop_timer_set(loop, &timers[i], rand_r(&seed) % 100000);
  }
  for (int i = 0; i < COUNT; i++) {
    struct loop_timer *timer = &timers[rand_r(&seed) % COUNT];
    if (i % 3 == 0)
      loop_timer_cancel(loop, timer);
    else
      loop_timer_set(loop, timer, rand_r(&seed) % 100000);
  }
  int armed = 0;
  for (int i = 0; i < COUNT; i++)
    if (timers[i].armed) expected_us[armed++] = timers[i].due_us;
  qsort(expected_us, (size_t)armed, sizeof expected_us[0], by_value);
  fired = 0;
  last_due = 0;
  while (fired < armed) {
    int before = fired;
    fake_us = expected_us[fired];
    run_passes(1);
    assert_true(fired > before);
    assert_true(fired == armed || expected_us[fired] > fake_us);
  }
}

static void system_clock_timer(struct loop_timer *timer) {
  fired_at[0] = clock_monotonic_us(clock_system());
  (void)timer;
  loop_stop(loop);
}

static void the_loop_sleeps_until_the_timer(void **state) {
  (void)state;
  struct loop_timer timer = {.fire = system_clock_timer};
  loop_timer_set(loop, &timer, 20500);
  assert_status(STATUS_OK, loop_run(loop));
  assert_true(fired_at[0] >= timer.due_us);
}

/* Descriptors */

struct pipe_watch {
  struct loop_watch watch;
  int ends[2];
  int calls;
  struct pipe_watch *removes;
};

static void on_ready(struct loop_watch *watch, uint32_t events) {
  struct pipe_watch *self = watch->context;
  (void)events;
  self->calls++;
  if (self->removes != NULL) loop_watch_remove(loop, &self->removes->watch);
}

static void open_watch(struct pipe_watch *self, uint32_t events) {
  *self = (struct pipe_watch){0};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, self->ends), 0);
  self->watch = (struct loop_watch){.fd = self->ends[0], .events = events, .ready = on_ready, .context = self};
  assert_status(STATUS_OK, loop_watch_add(loop, &self->watch));
}

static void close_watch(struct pipe_watch *self) {
  close(self->ends[0]);
  close(self->ends[1]);
}

static void watches_report_level_triggered(void **state) {
  (void)state;
  struct pipe_watch one;
  open_watch(&one, EPOLLIN);
  run_passes(2);
  assert_int_equal(one.calls, 0);
  assert_int_equal(write(one.ends[1], "x", 1), 1);
  run_passes(2);
  assert_int_equal(one.calls, 2);
  assert_status(STATUS_OK, loop_watch_change(loop, &one.watch, 0));
  run_passes(2);
  assert_int_equal(one.calls, 2);
  assert_status(STATUS_OK, loop_watch_change(loop, &one.watch, EPOLLOUT));
  run_passes(1);
  assert_int_equal(one.calls, 3);
  loop_watch_remove(loop, &one.watch);
  loop_watch_remove(loop, &one.watch);
  run_passes(1);
  assert_int_equal(one.calls, 3);
  assert_status(STATUS_IO, loop_watch_change(loop, &one.watch, EPOLLIN));
  assert_int_equal(one.watch.events, EPOLLOUT);
  close_watch(&one);
}

static void removal_drops_events_already_fetched(void **state) {
  (void)state;
  struct pipe_watch pair[2];
  open_watch(&pair[0], EPOLLOUT);
  open_watch(&pair[1], EPOLLOUT);
  pair[0].removes = &pair[1];
  pair[1].removes = &pair[0];
  run_passes(3);
  /* Whichever came first removed the other, and goes on itself. */
  assert_int_equal(pair[0].calls + pair[1].calls, 3);
  assert_true(pair[0].calls == 0 || pair[1].calls == 0);
  struct pipe_watch *left = pair[0].calls > 0 ? &pair[0] : &pair[1];
  left->removes = left;
  run_passes(3);
  assert_int_equal(left->calls, 4);
  close_watch(&pair[0]);
  close_watch(&pair[1]);
}

static void a_bad_descriptor_is_an_error(void **state) {
  (void)state;
  struct loop_watch watch = {.fd = -1, .events = EPOLLIN, .ready = on_ready};
  assert_status(STATUS_IO, loop_watch_add(loop, &watch));
}

/* Mailbox */

enum { POSTERS = 4, TASKS = 5000 };
struct counted_task {
  struct loop_task task;
  int poster, number;
};
static int next_number[POSTERS], tasks_run;

static void run_counted(struct loop_task *task) {
  struct counted_task *self = task->context;
  assert_int_equal(self->number, next_number[self->poster]);
  next_number[self->poster]++;
  free(self);
  if (++tasks_run == POSTERS * TASKS) loop_stop(loop);
}

static void *post_many(void *context) {
  int poster = *(int *)context;
  for (int i = 0; i < TASKS; i++) {
    struct counted_task *task = malloc(sizeof *task);
    if (task == NULL) abort();
    *task = (struct counted_task){.task = {.run = run_counted, .context = task}, .poster = poster, .number = i};
    loop_post(loop, &task->task);
  }
  return NULL;
}

static void posts_of_many_threads_all_run_in_order(void **state) {
  (void)state;
  pthread_t threads[POSTERS];
  int names[POSTERS];
  tasks_run = 0;
  for (int i = 0; i < POSTERS; i++) {
    next_number[i] = 0;
    names[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, post_many, &names[i]), 0);
  }
  assert_status(STATUS_OK, loop_run(loop));
  for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(tasks_run, POSTERS * TASKS);
}

static struct loop_task second_task;
static int second_ran;
static void run_second(struct loop_task *task) {
  (void)task;
  second_ran++;
}
static void run_first(struct loop_task *task) {
  (void)task;
  loop_post(loop, &second_task);
}

static void freeing_runs_what_is_left(void **state) {
  (void)state;
  struct loop_task first = {.run = run_first};
  second_task = (struct loop_task){.run = run_second};
  second_ran = 0;
  loop_post(loop, &first);
  loop_free(loop);
  loop = NULL;
  assert_int_equal(second_ran, 1);
}

static void *stop_from_elsewhere(void *context) {
  (void)context;
  loop_stop(loop);
  return NULL;
}

static int64_t sleep_long(void *context) {
  (void)context;
  return -1;
}

static void stop_wakes_a_sleeping_loop(void **state) {
  (void)state;
  pthread_t thread;
  loop_set_after_pass(loop, sleep_long, NULL);
  assert_int_equal(pthread_create(&thread, NULL, stop_from_elsewhere, NULL), 0);
  assert_status(STATUS_OK, loop_run(loop));
  pthread_join(thread, NULL);
}

static void stop_before_run_makes_one_pass(void **state) {
  (void)state;
  loop_stop(loop);
  assert_status(STATUS_OK, loop_run(loop));
  run_passes(3); /* and is forgotten afterwards */
  assert_int_equal(passes, 0);
}

static bool make_loop(void *context) {
  (void)context;
  struct loop *made = NULL;
  enum status status = loop_new(clock_system(), &made);
  loop_free(made);
  return status == STATUS_OK;
}

static void creation_survives_failed_allocations(void **state) {
  (void)state;
  assert_int_equal(alloc_fail_sweep(make_loop, NULL), 1);
}

int main(void) {
#define WITH_FAKE(test) cmocka_unit_test_setup_teardown(test, with_fake_clock, without_loop)
#define WITH_SYSTEM(test) cmocka_unit_test_setup_teardown(test, with_system_clock, without_loop)
  const struct CMUnitTest tests[] = {
      WITH_FAKE(timers_fire_in_order_and_never_early),
      WITH_FAKE(a_timer_rearmed_at_once_waits_for_the_next_pass),
      WITH_FAKE(a_timer_cancelled_by_another_does_not_fire),
      WITH_FAKE(ten_thousand_timers_keep_their_order),
      WITH_SYSTEM(the_loop_sleeps_until_the_timer),
      WITH_FAKE(watches_report_level_triggered),
      WITH_FAKE(removal_drops_events_already_fetched),
      WITH_FAKE(a_bad_descriptor_is_an_error),
      WITH_SYSTEM(posts_of_many_threads_all_run_in_order),
      WITH_SYSTEM(freeing_runs_what_is_left),
      WITH_SYSTEM(stop_wakes_a_sleeping_loop),
      WITH_SYSTEM(stop_before_run_makes_one_pass),
      cmocka_unit_test(creation_survives_failed_allocations),
  };
  return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
