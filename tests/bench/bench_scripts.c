/* bench_scripts: what heartbeats cost Redis, and what a device costs in memory, by itself, without the service.
 *
 *   bench_scripts URL [--devices N] [--per-bucket N | --buckets N] [--tenants N] [--id-bytes N] [--batch N]
 *                     [--seconds N | --calls N] [--partitions N] [--sections N]
 *                     [--mode auto|native|hpexpire|compat] [--env NAME [--again]]
 *
 * Opens the devices' sessions, then renews them in random order, PIPELINE calls on the way at a time; a call's heartbeats,
 * --batch, are of --sections partitions (1), as many of each. Devices go round over the tenants; --buckets is what each tenant
 * has, --per-bucket what follows from how many devices it should hold. Flushes the database of URL first, but with --env, the
 * first word of the keys, so that several sets of devices stand side by side; --again: this one is there, only renew; their ttl
 * is a day then, which takes 6 bytes more. Prints one line: heartbeats/s by the wall clock, microseconds of Redis's CPU per
 * heartbeat and per session opened, bytes per online device. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "store.h"

enum { PIPELINE = 16, NAME_BYTES = 129, OPENED_EACH = 100 /* sessions a call */ };
#define DEFAULT_ENV "prod" /* as deployments have it: it counts in the memory of a key */

struct bench {
  const char *url;
  enum config_redis_mode mode;
  int64_t devices, per_bucket, buckets_each, tenant_count, id_bytes, batch, seconds, call_limit, partitions, sections;
  char *env;  /* NULL: the database is ours alone */
  bool again; /* the sessions are open */
  struct redis_target *target;
  struct redis_conn *conn;
  struct redis_call *calls[PIPELINE];
  redisContext *plain;
  struct store_tenant *tenants;
  char (*names)[NAME_BYTES];
  uint32_t *buckets;
  uint32_t *order; /* devices, those of a partition together */
  uint32_t *first; /* per partition: where its devices begin in order; one more at the end */
  uint64_t random;
};

static _Noreturn void die(const char *what, const char *why) {
  fprintf(stderr, "bench_scripts: %s: %s\n", what, why);
  exit(1);
}

/* xorshift64*: https://www.jstatsoft.org/article/view/v008i14 */
static uint64_t next_random(struct bench *bench) {
  bench->random ^= bench->random >> 12;
  bench->random ^= bench->random << 25;
  bench->random ^= bench->random >> 27;
  return bench->random * UINT64_C(2685821657736338717);
}

static double info(struct bench *bench, const char *section, const char *field) {
  redisReply *reply = redisCommand(bench->plain, "INFO %s", section);
  if (!reply || reply->type != REDIS_REPLY_STRING) die("INFO", bench->plain->errstr);
  const char *at = strstr(reply->str, field);
  double value = at ? strtod(at + strlen(field) + 1, NULL) : 0;
  freeReplyObject(reply);
  return value;
}

static double redis_cpu_s(struct bench *bench) {
  return info(bench, "cpu", "used_cpu_user") + info(bench, "cpu", "used_cpu_sys");
}

static void connect_all(struct bench *bench) {
  char env[] = DEFAULT_ENV, *error = NULL, *url = strdup(bench->url);
  struct config config = {
      .env = bench->env ? bench->env : env, .redis_url = url, .partitions = bench->partitions, .redis_mode = bench->mode};
  if (!url || redis_target_new(&config, &bench->target, &error)) die("URL", error ? error : "no memory");
  free(url);
  if (redis_conn_new(bench->target, clock_system(), 10000, &bench->conn)) die("connection", "no memory");
  bench->plain = strncmp(bench->url, "unix://", 7) == 0 ? redisConnectUnix(bench->url + 7) : redisConnect("127.0.0.1", 6379);
  if (!bench->plain || bench->plain->err) die("connection", bench->plain ? bench->plain->errstr : "no memory");
  if (!bench->env) freeReplyObject(redisCommand(bench->plain, "FLUSHALL"));
  for (size_t i = 0; i < PIPELINE; i++) {
    if (redis_call_new(&bench->calls[i])) die("call", "no memory");
  }
  for (uint32_t p = 0; p < bench->partitions && !bench->again; p++) {
    char run_id[REDIS_RUN_ID_LEN + 1];
    redisReply *reply;
    if (redis_conn_run_id(bench->conn, p, run_id)) die("connection", redis_conn_error(bench->conn));
    if (store_adopt_encode(bench->calls[0], bench->target, p, run_id, SESSION_ID_NONE, run_id) ||
        redis_conn_call(bench->conn, p, bench->calls[0], &reply)) {
      die("adopt", redis_conn_error(bench->conn));
    }
    freeReplyObject(reply);
    if (store_rebuild_encode(bench->calls[0], bench->target, p, run_id, run_id, 200, NULL, 0, true) ||
        redis_conn_call(bench->conn, p, bench->calls[0], &reply)) {
      die("rebuild", redis_conn_error(bench->conn));
    }
    freeReplyObject(reply);
  }
}

static void make_tenants(struct bench *bench) {
  int64_t each = (bench->devices + bench->tenant_count - 1) / bench->tenant_count;
  int64_t buckets = bench->buckets_each > 0 ? bench->buckets_each : (each + bench->per_bucket - 1) / bench->per_bucket;
  char(*ids)[24] = calloc((size_t)bench->tenant_count, sizeof *ids); /* both live as long as the program */
  bench->tenants = calloc((size_t)bench->tenant_count, sizeof *bench->tenants);
  if (!ids || !bench->tenants) die("tenants", "no memory");
  for (size_t t = 0; t < (size_t)bench->tenant_count; t++) {
    snprintf(ids[t], sizeof ids[t], "t%zu", 42 + t);
    bench->tenants[t] = (struct store_tenant){str_from(ids[t]), 1, (uint32_t)buckets};
  }
}

static const struct store_tenant *tenant_of(const struct bench *bench, size_t device) {
  return &bench->tenants[device % (size_t)bench->tenant_count];
}

static void make_fleet(struct bench *bench) {
  size_t count = (size_t)bench->devices, partitions = (size_t)bench->partitions;
  make_tenants(bench);
  bench->names = calloc(count, sizeof *bench->names);
  bench->buckets = calloc(count, sizeof *bench->buckets);
  bench->order = calloc(count, sizeof *bench->order);
  bench->first = calloc(partitions + 1, sizeof *bench->first);
  uint32_t *partition = calloc(count, sizeof *partition);
  if (!bench->names || !bench->buckets || !bench->order || !bench->first || !partition) die("fleet", "no memory");
  for (size_t i = 0; i < count; i++) {
    const struct store_tenant *tenant = tenant_of(bench, i);
    snprintf(bench->names[i], sizeof bench->names[i], "device-%0*u", (int)bench->id_bytes - 7, (uint32_t)i);
    bench->buckets[i] = placement_bucket(str_from(bench->names[i]), tenant->buckets);
    partition[i] = placement_partition(tenant->id, bench->buckets[i], (uint32_t)partitions);
    bench->first[partition[i] + 1]++;
  }
  for (size_t p = 0; p < partitions; p++) bench->first[p + 1] += bench->first[p];
  uint32_t *at = calloc(partitions + 1, sizeof *at);
  if (!at) die("fleet", "no memory");
  memcpy(at, bench->first, partitions * sizeof *at);
  for (size_t i = 0; i < count; i++) bench->order[at[partition[i]]++] = (uint32_t)i;
  free(at);
  free(partition);
}

static struct record_section make_section(const struct bench *bench, uint32_t partition, const uint32_t *devices, size_t count,
                                          struct record_item *items) {
  const int64_t ttl_ms = bench->env ? 86400000 : 90000; /* as tenants have it: its digits count in the memory */
  for (size_t i = 0; i < count; i++) {
    items[i] = (struct record_item){.tenant = *tenant_of(bench, devices[i]),
                                    .bucket = bench->buckets[devices[i]],
                                    .device = str_from(bench->names[devices[i]]),
                                    .ttl_ms = ttl_ms,
                                    .may_open = true};
  }
  return (struct record_section){partition, items, count};
}

static void encode(struct bench *bench, store_record_encoder *encode_call, struct redis_call *call,
                   const struct record_section *sections, size_t count) {
  /* A pause between two runs is no outage, and ends no session. */
  const struct record_options options = {3600000, STR_LIT("bench"), INT64_MAX / 2};
  if (encode_call(call, bench->target, &options, sections, count)) die("encode", "failed");
}

static void send(struct bench *bench, const uint32_t *partitions, size_t calls) {
  enum status statuses[PIPELINE];
  redisReply *replies[PIPELINE];
  redis_conn_pipeline(bench->conn, partitions, bench->calls, calls, statuses, replies);
  for (size_t i = 0; i < calls; i++) {
    if (statuses[i]) die("call", redis_conn_error(bench->conn));
    freeReplyObject(replies[i]);
  }
}

static void open_sessions(struct bench *bench) {
  size_t calls = 0;
  uint32_t partitions[PIPELINE];
  for (uint32_t p = 0; p < bench->partitions; p++) {
    for (uint32_t at = bench->first[p]; at < bench->first[p + 1]; at += OPENED_EACH) {
      uint32_t left = bench->first[p + 1] - at;
      struct record_item items[OPENED_EACH];
      struct record_section section = make_section(bench, p, bench->order + at, left < OPENED_EACH ? left : OPENED_EACH, items);
      encode(bench, store_record_encode, bench->calls[calls], &section, 1);
      partitions[calls++] = p;
      if (calls == PIPELINE) {
        send(bench, partitions, calls);
        calls = 0;
      }
    }
  }
  if (calls > 0) send(bench, partitions, calls);
  freeReplyObject(redisCommand(bench->plain, "EVAL %s 0 %s",
                               "for p = 0, 999 do redis.call('DEL', ARGV[1] .. ':presence:transitions:v1:{' .. p .. '}') end",
                               bench->env ? bench->env : DEFAULT_ENV));
}

/* A call of so many random devices from each of some neighbouring partitions; says the first. */
static uint32_t encode_renewals(struct bench *bench, struct redis_call *call, size_t each) {
  uint32_t devices[STORE_ITEMS_MAX], partitions = (uint32_t)bench->partitions;
  uint32_t first = (uint32_t)(next_random(bench) % partitions);
  struct record_item items[STORE_ITEMS_MAX];
  struct record_section sections[STORE_ITEMS_MAX];
  for (uint32_t s = 0; s < bench->sections; s++) {
    uint32_t p = (first + s) % partitions, members = bench->first[p + 1] - bench->first[p], *mine = devices + s * each;
    for (size_t i = 0; i < each; i++) mine[i] = bench->order[bench->first[p] + (uint32_t)(next_random(bench) % members)];
    sections[s] = make_section(bench, p, mine, each, items + s * each);
  }
  encode(bench, store_renew_encode, call, sections, (size_t)bench->sections);
  return first;
}

/* Until that time, or so many calls. */
static int64_t renew(struct bench *bench, int64_t until_us, int64_t calls) {
  int64_t beats = 0, each = bench->batch / bench->sections;
  uint32_t partitions[PIPELINE];
  for (int64_t sent = 0; calls > 0 ? sent < calls : clock_monotonic_us(clock_system()) < until_us; sent += PIPELINE) {
    for (size_t c = 0; c < PIPELINE; c++) partitions[c] = encode_renewals(bench, bench->calls[c], (size_t)each);
    send(bench, partitions, PIPELINE);
    beats += PIPELINE * each * bench->sections;
  }
  return beats;
}

static int64_t number(const char *text) {
  int64_t value;
  if (str_to_int64(str_from(text), &value) || value == 0) die(text, "not a number");
  return value;
}

static enum config_redis_mode mode(const char *text) {
  static const char *const names[] = {"auto", "native", "hpexpire", "compat"};
  for (int i = 0; i < 4; i++) {
    if (strcmp(text, names[i]) == 0) return (enum config_redis_mode)i;
  }
  die(text, "not a mode");
}

/* The options with a number, by their letter. */
static int64_t *number_option(struct bench *bench, int letter) {
  switch (letter) {
  case 'd': return &bench->devices;
  case 'k': return &bench->per_bucket;
  case 'K': return &bench->buckets_each;
  case 't': return &bench->tenant_count;
  case 'i': return &bench->id_bytes;
  case 'b': return &bench->batch;
  case 'c': return &bench->call_limit;
  case 's': return &bench->seconds;
  case 'p': return &bench->partitions;
  case 'S': return &bench->sections;
  default: return NULL;
  }
}

static void read_options(struct bench *bench, int argc, char **argv) {
  static const struct option options[] = {{"devices", required_argument, NULL, 'd'},
                                          {"per-bucket", required_argument, NULL, 'k'},
                                          {"buckets", required_argument, NULL, 'K'},
                                          {"tenants", required_argument, NULL, 't'},
                                          {"id-bytes", required_argument, NULL, 'i'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"calls", required_argument, NULL, 'c'},
                                          {"partitions", required_argument, NULL, 'p'},
                                          {"sections", required_argument, NULL, 'S'},
                                          {"mode", required_argument, NULL, 'm'},
                                          {"env", required_argument, NULL, 'e'},
                                          {"again", no_argument, NULL, 'a'},
                                          {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    int64_t *field = number_option(bench, option);
    if (field) {
      *field = number(optarg);
    } else if (option == 'm') {
      bench->mode = mode(optarg);
    } else if (option == 'e') {
      bench->env = optarg;
    } else if (option == 'a') {
      bench->again = true;
    } else {
      exit(2);
    }
  }
  if (optind + 1 != argc || bench->batch > STORE_ITEMS_MAX || bench->sections > bench->batch ||
      bench->sections > bench->partitions || bench->id_bytes < 16 || bench->id_bytes >= NAME_BYTES)
    die("usage", "bench_scripts URL [options]");
  bench->url = argv[optind];
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  struct bench bench = {.devices = 300000,
                        .per_bucket = 32,
                        .tenant_count = 1,
                        .id_bytes = 16,
                        .batch = 8,
                        .seconds = 5,
                        .partitions = 8,
                        .sections = 1,
                        .random = 88172645463325252};
  read_options(&bench, argc, argv);
  connect_all(&bench);
  make_fleet(&bench);
  double devices = (double)bench.devices, bytes = 0, open_cpu = 0;
  if (!bench.again) {
    bytes = info(&bench, "memory", "used_memory");
    open_cpu = redis_cpu_s(&bench);
    open_sessions(&bench);
    open_cpu = redis_cpu_s(&bench) - open_cpu;
    bytes = info(&bench, "memory", "used_memory") - bytes;
  }
  (void)renew(&bench, clock_monotonic_us(clock_system()) + 200000 * bench.seconds, bench.call_limit / 10);
  double cpu = redis_cpu_s(&bench);
  int64_t start = clock_monotonic_us(clock_system());
  int64_t beats = renew(&bench, start + bench.seconds * 1000000, bench.call_limit);
  double wall_s = (double)(clock_monotonic_us(clock_system()) - start) / 1e6;
  cpu = redis_cpu_s(&bench) - cpu;
  printf("%s devices=%" PRId64 " per_bucket=%" PRId64 " batch=%" PRId64
         " heartbeats_per_s=%.0f redis_cpu_us=%.2f per_core=%.0f open_cpu_us=%.2f bytes=%.0f\n",
         redis_dialect_name(redis_conn_dialect(bench.conn)), bench.devices, bench.per_bucket, bench.batch, (double)beats / wall_s,
         cpu * 1e6 / (double)beats, (double)beats / cpu, open_cpu * 1e6 / devices, bytes / devices);
  return 0;
}
