#include "slot.h"

#include <string.h>

/* Bit by bit: it is asked once per partition when a map is made. */
uint16_t slot_crc16(struct str bytes) {
  unsigned crc = 0;
  for (size_t i = 0; i < bytes.len; i++) {
    crc ^= (unsigned)(unsigned char)bytes.data[i] << 8;
    for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
  }
  return (uint16_t)crc;
}

uint16_t slot_of(struct str key) {
  const char *open = key.len > 0 ? memchr(key.data, '{', key.len) : NULL;
  if (open) {
    const char *tag = open + 1;
    size_t left = key.len - (size_t)(tag - key.data);
    const char *close = left > 0 ? memchr(tag, '}', left) : NULL;
    if (close && close > tag) key = (struct str){tag, (size_t)(close - tag)};
  }
  return slot_crc16(key) % SLOT_COUNT;
}
