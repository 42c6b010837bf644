/* places.h: numbers the distinct buckets (or tenants) of a call in the order they come, so that each stands in it once. Private
 * to service/redis. */
#ifndef PRESENCE_REDIS_PLACES_H
#define PRESENCE_REDIS_PLACES_H

#include "store.h"

struct place {
  const struct store_tenant *tenant; /* borrowed */
  uint32_t bucket;
};

enum { PLACES_SLOTS = 1024 };
_Static_assert(PLACES_SLOTS >= 2 * STORE_ITEMS_MAX, "open addressing needs a table that is at most half full");

struct places {
  size_t count;
  struct place at[STORE_ITEMS_MAX];
  uint16_t slots[PLACES_SLOTS]; /* 1 + index into at; 0: empty */
};

void places_clear(struct places *places);
/* The place's number, a new one where it is not there yet. At most STORE_ITEMS_MAX distinct places. */
uint16_t places_number(struct places *places, const struct store_tenant *tenant, uint32_t bucket);

#endif
