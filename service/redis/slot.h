/* slot.h: which of a cluster's 16384 slots a key lies in: CRC-16/XMODEM of its hash tag, else of the whole key
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/, "Key distribution model", "Hash tags",
 * "Appendix A"). Private to service/redis. */
#ifndef PRESENCE_REDIS_SLOT_H
#define PRESENCE_REDIS_SLOT_H

#include <stdint.h>

#include "str.h"

#define SLOT_COUNT 16384

uint16_t slot_crc16(struct str bytes);
uint16_t slot_of(struct str key);

#endif
