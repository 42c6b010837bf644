/* presence-sim: devices for tests, demonstrations and benchmarks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sim_fleet.h"
#include "sim_replay.h"
#include "version.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What ends a run: a signal, or --duration-s. */
struct ending {
  struct loop *loop;
  struct loop_watch signals;
  struct loop_timer deadline;
  bool interrupted;
};

static void on_signal(struct loop_watch *watch, uint32_t events) {
  struct ending *ending = watch->context;
  struct signalfd_siginfo info;
  (void)events;
  if (read(watch->fd, &info, sizeof info) != (ssize_t)sizeof info) return;
  ending->interrupted = true;
  loop_stop(ending->loop);
}

static void on_deadline(struct loop_timer *timer) { loop_stop(((struct ending *)timer->context)->loop); }

static enum status ending_begin(struct ending *ending, struct loop *loop, int64_t duration_s) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) return STATUS_IO;
  *ending = (struct ending){
      .loop = loop,
      .signals = {.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .events = EPOLLIN, .ready = on_signal, .context = ending},
      .deadline = {.fire = on_deadline, .context = ending}};
  if (ending->signals.fd < 0) return STATUS_IO;
  if (duration_s > 0) loop_timer_set(loop, &ending->deadline, duration_s * 1000000);
  return loop_watch_add(loop, &ending->signals);
}

static void ending_end(struct ending *ending) {
  if (ending->loop == NULL) return;
  loop_timer_cancel(ending->loop, &ending->deadline);
  if (ending->signals.fd < 0) return;
  loop_watch_remove(ending->loop, &ending->signals);
  close(ending->signals.fd);
}

/* As many descriptors as the connections need, as far as the system lets. */
static void raise_file_limit(int64_t connections) {
  struct rlimit limit;
  rlim_t wanted = (rlim_t)connections + 64;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) perror("presence-sim: file limit");
}

static int print(enum status status, const struct buf *text) {
  if (status != STATUS_OK || fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout) != 0) {
    fprintf(stderr, "presence-sim: output: %s\n", status_name(status != STATUS_OK ? status : STATUS_IO));
    return EXIT_FAILED;
  }
  return EXIT_SUCCESS;
}

static int run_fleet(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                     const struct sim_target *target) {
  struct sim_fleet *fleet = NULL;
  struct buf text = {0};
  raise_file_limit(options->connections);
  enum status status = sim_fleet_new(loop, options, url, target, &fleet);
  if (status == STATUS_OK) {
    sim_fleet_start(fleet);
    status = loop_run(loop);
  }
  int code = EXIT_FAILED;
  if (status == STATUS_OK) {
    struct sim_summary summary = sim_fleet_summary(fleet);
    status = sim_stats_summary(&text, sim_fleet_stats(fleet), &summary, options->json);
    code = print(status, &text);
    if (sim_stats_ok(sim_fleet_stats(fleet)) == 0) code = EXIT_FAILED;
  } else {
    fprintf(stderr, "presence-sim: %s\n", status_name(status));
  }
  sim_fleet_free(fleet);
  buf_free(&text);
  return code;
}

static int report_replay(const struct sim_options *options, const struct sim_replay_result *result) {
  long long numbers[] = {result->messages, result->retries, result->first_ms, result->last_ms};
  struct buf text = {0};
  enum status status = options->json
                           ? buf_printf(&text, "{\"messages\":%lld,\"retries\":%lld,\"first_ms\":%lld,\"last_ms\":%lld}\n",
                                        numbers[0], numbers[1], numbers[2], numbers[3])
                           : buf_printf(&text, "%lld messages, %lld retries, from %lld to %lld (ms since 1970)\n", numbers[0],
                                        numbers[1], numbers[2], numbers[3]);
  int code = print(status, &text);
  buf_free(&text);
  if (result->failure == NULL) return code;
  fprintf(stderr, "presence-sim: %s\n", result->failure);
  return EXIT_FAILED;
}

static int run_replay(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                      const struct sim_target *target, const struct ending *ending) {
  struct sim_replay *replay = NULL;
  char *error = NULL;
  int code = EXIT_FAILED;
  enum status status = sim_replay_new(loop, options, url, target, &replay, &error);
  if (status == STATUS_OK) {
    sim_replay_start(replay);
    status = loop_run(loop);
  }
  if (status == STATUS_OK) {
    struct sim_replay_result result = sim_replay_result(replay);
    if (ending->interrupted) result.failure = "interrupted before the end of the trace";
    code = report_replay(options, &result);
  } else {
    fprintf(stderr, "presence-sim: %s\n", error != NULL ? error : status_name(status));
    if (status == STATUS_INVALID) code = EXIT_USAGE;
  }
  sim_replay_free(replay);
  free(error);
  return code;
}

static int run(const struct sim_options *options) {
  struct loop *loop = NULL;
  struct ending ending = {0};
  struct sim_url url;
  struct sim_target target;
  char *error = NULL;
  int code = EXIT_FAILED;
  enum status status = sim_url_parse(str_from(options->url), &url);
  if (status != STATUS_OK) {
    fprintf(stderr, "presence-sim: --url = %s: not allowed; allowed: http://HOST[:PORT][/PATH]\n", options->url);
    return EXIT_USAGE;
  }
  status = sim_target_resolve(&url, &target, &error);
  if (status == STATUS_OK) status = loop_new(clock_system(), &loop);
  if (status == STATUS_OK) status = ending_begin(&ending, loop, options->duration_s);
  if (status != STATUS_OK) {
    fprintf(stderr, "presence-sim: %s\n", error != NULL ? error : status_name(status));
    goto out;
  }
  code =
      options->mode == SIM_REPLAY ? run_replay(loop, options, &url, &target, &ending) : run_fleet(loop, options, &url, &target);
out:
  ending_end(&ending);
  loop_free(loop);
  free(error);
  return code;
}

int main(int argc, char **argv) {
  struct sim_options options;
  char *error = NULL;
  enum status status = sim_options_read(&options, argc, argv, &error);
  if (status != STATUS_OK) {
    fprintf(stderr, "presence-sim: %s\n", error != NULL ? error : status_name(status));
    free(error);
    return EXIT_USAGE;
  }
  if (options.version) {
    printf("presence-sim %s\n", PRESENCE_VERSION);
    return EXIT_SUCCESS;
  }
  if (!options.help) return run(&options);
  struct buf text = {0};
  status = sim_options_help(&text);
  int code = print(status, &text);
  buf_free(&text);
  return code;
}
