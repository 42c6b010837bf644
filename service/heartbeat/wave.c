#include "wave.h"

/* The last wave had DENSE heartbeats: then the next one gathers until SPACING_US after the last and QUIET_US after its answers,
 * since who has been answered may send again; or until none has come for QUIET_US. */
enum { DENSE = 4, SPACING_US = 500, QUIET_US = 200, REST_US_EACH = 2, REST_MIN_US = 100, REST_MAX_US = 500 };

void wave_sent(struct wave *wave, size_t items, int64_t now_us) {
  if (wave->calls++ == 0) *wave = (struct wave){.calls = 1, .sent_us = now_us};
  wave->items += items;
}

bool wave_answered(struct wave *wave) { return --wave->calls == 0; }

void wave_answers_out(struct wave *wave, int64_t now_us) {
  if (wave->calls == 0 && wave->answered_us == 0) wave->answered_us = now_us;
}

static bool is_dense(const struct wave *wave) { return wave->items >= DENSE; }

int64_t wave_rest_us(const struct wave *wave) {
  if (wave->calls == 0 || !is_dense(wave)) return 0;
  int64_t rest_us = (int64_t)wave->items * REST_US_EACH;
  return rest_us < REST_MIN_US ? REST_MIN_US : rest_us > REST_MAX_US ? REST_MAX_US : rest_us;
}

static int64_t later(int64_t a_us, int64_t b_us) { return a_us > b_us ? a_us : b_us; }

int64_t wave_next_us(const struct wave *wave, int64_t added_us, bool more_may_come) {
  if (wave->calls > 0) return INT64_MAX;
  if (!is_dense(wave) || !more_may_come) return 0;
  int64_t spaced_us = later(wave->sent_us + SPACING_US, wave->answered_us + QUIET_US);
  int64_t quiet_us = later(added_us, wave->answered_us) + QUIET_US;
  return spaced_us < quiet_us ? spaced_us : quiet_us;
}
