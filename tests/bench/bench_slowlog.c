/* bench_slowlog: which script calls took Redis longest, by the script's name, which Redis does not know.
 *
 *   bench_slowlog unix:///PATH LIMIT_US
 *
 * Prints the longest one, and how many took longer than the limit; then empties SLOWLOG. What it says is time by the clock: on a
 * busy machine a call also waits for the processor. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "redis/script.h"

enum { NAME_BYTES = 32 };

struct tally {
  char name[NAME_BYTES];
  long long worst_us;
  int over;
};

static _Noreturn void die(const char *what, const char *why) {
  fprintf(stderr, "bench_slowlog: %s: %s\n", what, why);
  exit(1);
}

static void sha1_hex(struct str text, char hex[SCRIPT_SHA_LEN + 1]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!EVP_Digest(text.data, text.len, digest, &length, EVP_sha1(), NULL)) die("SHA-1", "failed");
  for (unsigned i = 0; i < length; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* False: no script call. A script's own commands stand in SLOWLOG, too. */
static bool name_call(const struct script_library *library, const redisReply *words, char name[NAME_BYTES]) {
  if (words->elements < 2 || strncasecmp(words->element[0]->str, "eval", 4) != 0) return false;
  snprintf(name, NAME_BYTES, "another script");
  for (size_t dialect = 0; dialect < REDIS_DIALECT_COUNT; dialect++) {
    for (enum script script = 0; script < SCRIPT_COUNT; script++) {
      char hex[SCRIPT_SHA_LEN + 1];
      struct str text = buf_str(&library->texts[dialect][script]);
      sha1_hex(text, hex);
      if (strcmp(words->element[1]->str, hex) == 0) {
        snprintf(name, NAME_BYTES, "%s", script_name(script));
        return true;
      }
    }
  }
  return true;
}

static void count(struct tally tallies[SCRIPT_COUNT], const char *name, long long us, long long limit_us) {
  for (size_t i = 0; i < SCRIPT_COUNT; i++) {
    if (tallies[i].name[0] == '\0') snprintf(tallies[i].name, NAME_BYTES, "%s", name);
    if (strcmp(tallies[i].name, name) != 0) continue;
    if (us > tallies[i].worst_us) tallies[i].worst_us = us;
    tallies[i].over += us > limit_us;
    return;
  }
}

static void report(const struct tally tallies[SCRIPT_COUNT], long long limit_us) {
  const struct tally *worst = &tallies[0];
  const char *comma = "";
  int over = 0;
  for (size_t i = 0; i < SCRIPT_COUNT; i++) {
    if (tallies[i].worst_us > worst->worst_us) worst = &tallies[i];
    over += tallies[i].over;
  }
  if (worst->name[0] == '\0') {
    printf("no script call over 1 ms\n");
    return;
  }
  printf("longest script call: %s %.1f ms; over %.0f ms: %d", worst->name, (double)worst->worst_us / 1e3, (double)limit_us / 1e3,
         over);
  for (size_t i = 0; over > 0 && i < SCRIPT_COUNT; i++) {
    if (tallies[i].over == 0) continue;
    printf("%s%s %d × up to %.1f ms", comma[0] ? comma : " (", tallies[i].name, tallies[i].over,
           (double)tallies[i].worst_us / 1e3);
    comma = ", ";
  }
  printf("%s\n", over > 0 ? ")" : "");
}

int main(int argc, char **argv) {
  if (argc != 3 || strncmp(argv[1], "unix://", 7) != 0) die("usage", "bench_slowlog unix:///PATH LIMIT_US");
  long long limit_us = strtoll(argv[2], NULL, 10);
  struct script_library library;
  struct tally tallies[SCRIPT_COUNT] = {0};
  redisContext *redis = redisConnectUnix(argv[1] + 7);
  if (!redis || redis->err) die("connection", redis ? redis->errstr : "no memory");
  if (script_library_build(&library)) die("scripts", "cannot be put together");
  redisReply *log = redisCommand(redis, "SLOWLOG GET 10000");
  if (!log || log->type != REDIS_REPLY_ARRAY) die("SLOWLOG", redis->errstr);
  for (size_t i = 0; i < log->elements; i++) {
    const redisReply *entry = log->element[i]; /* id, time, microseconds, the call's words, … */
    char name[NAME_BYTES];
    if (name_call(&library, entry->element[3], name)) count(tallies, name, entry->element[2]->integer, limit_us);
  }
  report(tallies, limit_us);
  freeReplyObject(log);
  freeReplyObject(redisCommand(redis, "SLOWLOG RESET"));
  redisFree(redis);
  script_library_free(&library);
  return 0;
}
