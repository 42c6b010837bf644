#include "target.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tls.h"

enum status redis_target_new(const struct config *config, struct redis_target **target, char **error) {
  *error = NULL;
  *target = NULL;
  struct redis_target *made = calloc(1, sizeof *made);
  if (!made) return STATUS_NO_MEMORY;
  atomic_init(&made->references, 1);
  made->partitions = (uint32_t)config->partitions;
  made->mode = config->redis_mode;
  bool tls = false;
  enum status status = STATUS_NO_MEMORY;
  made->env = strdup(config->env);
  if (!made->env) goto out;
  status = target_parse_url(made, config->redis_url, &tls, error);
  if (status) goto out;
  if (tls) status = tls_new(config, &made->tls, error);
  if (status) goto out;
  status = script_library_build(&made->scripts);
  if (status == STATUS_NOT_FOUND && asprintf(error, "a Lua script is missing in this program: the build is broken") < 0) {
    *error = NULL;
  }
out:
  if (status) {
    redis_target_free(made);
  } else {
    *target = made;
  }
  return status;
}

struct redis_target *target_retain(const struct redis_target *target) {
  struct redis_target *counted = (struct redis_target *)target; /* the count is no part of what must not change */
  atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
  return counted;
}

void redis_target_free(struct redis_target *target) {
  if (!target || atomic_fetch_sub_explicit(&target->references, 1, memory_order_acq_rel) > 1) return;
  free(target->env);
  target_clear_url(target);
  tls_free(target->tls);
  script_library_free(&target->scripts);
  free(target);
}

struct str redis_target_env(const struct redis_target *target) {
  return str_from(target->env);
}
uint32_t redis_target_partitions(const struct redis_target *target) { return target->partitions; }
