#include "support/test.h"

#include "support/keyspace.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

void keyspace_check(struct redis_server *server) {
  char *script = place_read(text_format("%s/tests/support/invariants.lua", place_root()), NULL);
  bool field_ttl = server->dialect <= DIALECT_HPEXPIRE, keeps_expired = field_ttl && redis_is_valkey(server);
  redisReply *reply = redis_command(server, "EVAL %s 0 %s %s", script, field_ttl ? "yes" : "no", keeps_expired ? "yes" : "no");
  free(script);
  if (reply->elements == 0) {
    freeReplyObject(reply);
    return;
  }
  const char *all = "";
  for (size_t i = 0; i < reply->elements && i < 20; i++) all = text_format("%s\n%s", all, reply->element[i]->str);
  freeReplyObject(reply);
  fail_msg("the keys in Redis break a rule:%s", all);
}

static int64_t sum_over_keys(struct redis_server *server, const char *pattern, const char *command) {
  return redis_integer(
      server, "EVAL %s 0 %s %s",
      "local n = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1])) do n = n + redis.call(ARGV[2], key) end return n", pattern,
      command);
}

int64_t keyspace_open_sessions(struct redis_server *server) { return sum_over_keys(server, "*:presence:session:v1:*", "HLEN"); }

int64_t keyspace_unpublished(struct redis_server *server) { return sum_over_keys(server, "*:presence:transitions:v1:*", "XLEN"); }

static const char *key_with_field(struct redis_server *server, const char *resource, const char *tenant, const char *device) {
  const char *key = redis_text(server, "EVAL %s 0 %s %b",
                               "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do"
                               " if redis.call('HEXISTS', key, ARGV[2]) == 1 then return key end end return false",
                               text_format("*:presence:%s:v1:{*}:%s:*", resource, tenant), device, strlen(device));
  return strcmp(key, "(nil)") == 0 ? NULL : key;
}

const char *keyspace_live_key(struct redis_server *server, const char *tenant, const char *device) {
  return key_with_field(server, "live", tenant, device);
}

const char *keyspace_session_key(struct redis_server *server, const char *tenant, const char *device) {
  return key_with_field(server, "session", tenant, device);
}
