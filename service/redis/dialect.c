#include "dialect.h"

/* Ordered: each server can also do what comes after its own. */
static const char *const names[] = {[REDIS_NATIVE] = "native", [REDIS_HPEXPIRE] = "hpexpire", [REDIS_COMPAT] = "compat"};

static const struct {
  const char *name;
  enum redis_dialect dialect; /* where one is forced */
} modes[] = {
    [CONFIG_REDIS_AUTO] = {"auto", REDIS_NATIVE},
    [CONFIG_REDIS_NATIVE] = {"native", REDIS_NATIVE},
    [CONFIG_REDIS_HPEXPIRE] = {"hpexpire", REDIS_HPEXPIRE},
    [CONFIG_REDIS_COMPAT] = {"compat", REDIS_COMPAT},
};

const char *redis_dialect_name(enum redis_dialect dialect) { return names[dialect]; }
const char *dialect_mode_name(enum config_redis_mode mode) { return modes[mode].name; }

enum status dialect_choose(struct str able, enum config_redis_mode mode, enum redis_dialect *dialect) {
  for (enum redis_dialect best = REDIS_NATIVE; best <= REDIS_COMPAT; best++) {
    if (!str_equal(able, str_from(names[best]))) continue;
    if (mode != CONFIG_REDIS_AUTO && modes[mode].dialect < best) return STATUS_REFUSED;
    *dialect = mode == CONFIG_REDIS_AUTO ? best : modes[mode].dialect;
    return STATUS_OK;
  }
  return STATUS_PROTOCOL;
}
