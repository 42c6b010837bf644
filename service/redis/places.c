#include "places.h"

void places_clear(struct places *places) {
  places->count = 0;
  memset(places->slots, 0, sizeof places->slots);
}

/* Tenants of a call are few and mostly of different length or ending: the bucket spreads them. */
static size_t first_slot(struct str tenant, uint32_t bucket) {
  uint32_t hash = (uint32_t)tenant.len;
  for (size_t i = tenant.len > 4 ? tenant.len - 4 : 0; i < tenant.len; i++) hash = hash * 31 + (unsigned char)tenant.data[i];
  hash = (hash + bucket) * UINT32_C(2654435761); /* multiplicative hashing: Knuth, TAOCP vol. 3, 6.4 */
  return hash >> 22;
}
_Static_assert(PLACES_SLOTS == 1 << 10, "first_slot takes the upper ten bits");

uint16_t places_number(struct places *places, const struct store_tenant *tenant, uint32_t bucket) {
  size_t slot = first_slot(tenant->id, bucket);
  for (; places->slots[slot] > 0; slot = (slot + 1) % PLACES_SLOTS) {
    const struct place *place = &places->at[places->slots[slot] - 1];
    if (place->bucket == bucket && str_equal(place->tenant->id, tenant->id)) return (uint16_t)(places->slots[slot] - 1);
  }
  places->at[places->count] = (struct place){tenant, bucket};
  places->slots[slot] = (uint16_t)++places->count;
  return (uint16_t)(places->count - 1);
}
