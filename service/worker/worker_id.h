/* worker_id.h: how a worker calls itself in leases. */
#ifndef PRESENCE_WORKER_WORKER_ID_H
#define PRESENCE_WORKER_WORKER_ID_H

#include <stdint.h>

#include "status.h"

/* host-pid-random: unique among workers. number: the random part. */
enum { WORKER_ID_MAX = 96 };
enum status worker_id_make(char id[WORKER_ID_MAX], uint32_t *number) MUST_CHECK;

#endif
