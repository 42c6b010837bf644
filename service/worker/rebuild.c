#include "worker/rebuild.h"

#include <stdlib.h>

#include "failpoint.h"
#include "hash.h"
#include "log.h"
#include "metrics.h"

#define AWAY_MAX_US 3000000 /* the pages are kept for a server that is away no longer */
#define NOBODY UINT32_MAX

enum status rebuild_init(struct rebuild *rebuild, const struct redis_target *target, const struct clock *clock, int64_t outage_ms,
                         struct redis_conn *conn, struct pg_client *postgres) {
  uint32_t partitions = redis_target_partitions(target);
  uint8_t token[STORE_TOKEN_LEN / 2];
  *rebuild = (struct rebuild){.target = target, .clock = clock, .conn = conn, .postgres = postgres, .outage_ms = outage_ms};
  rebuild->wanted = calloc(partitions, sizeof *rebuild->wanted);
  rebuild->run_ids = calloc(partitions, sizeof *rebuild->run_ids);
  rebuild->rows = calloc(REBUILD_PAGE, sizeof *rebuild->rows);
  rebuild->partitions = calloc(REBUILD_PAGE, sizeof *rebuild->partitions);
  if (!rebuild->wanted || !rebuild->run_ids || !rebuild->rows || !rebuild->partitions) return STATUS_NO_MEMORY;
  enum status status = random_bytes(token, sizeof token);
  if (status != STATUS_OK) return status;
  hex_encode(token, sizeof token, rebuild->token);
  return redis_round_init(&rebuild->round, partitions + REBUILD_PAGE / STORE_ROWS_MAX);
}

void rebuild_free(struct rebuild *rebuild) {
  redis_round_free(&rebuild->round);
  free(rebuild->wanted);
  free(rebuild->run_ids);
  free(rebuild->rows);
  free(rebuild->partitions);
  *rebuild = (struct rebuild){0};
}

void rebuild_add(struct rebuild *rebuild, uint32_t partition, const char *run_id) {
  if (!rebuild->under_way) {
    rebuild->under_way = true;
    rebuild->place = (struct audit_place){0};
    rebuild->restored = rebuild->misplaced = 0;
    rebuild->began_us = clock_monotonic_us(rebuild->clock);
  }
  rebuild->wanted[partition] = true;
  memcpy(rebuild->run_ids[partition], run_id, sizeof rebuild->run_ids[partition]);
}

/* Calls for the page's rows of one partition: at most STORE_ROWS_MAX each, one at least, the last one may finish. */
static enum status encode(struct rebuild *rebuild, uint32_t partition, const struct store_row *rows, size_t count,
                          bool last_page) {
  do {
    size_t some = count < STORE_ROWS_MAX ? count : STORE_ROWS_MAX;
    enum status status =
        store_rebuild_encode(redis_round_call(&rebuild->round), rebuild->target, partition, rebuild->token,
                             rebuild->run_ids[partition], rebuild->outage_ms, rows, some, last_page && some == count);
    if (status != STATUS_OK) return status;
    redis_round_add(&rebuild->round, partition);
    rows += some;
    count -= some;
  } while (count > 0);
  return STATUS_OK;
}

/* Sorts the page by partition, by counting: rows[0..taken). */
static size_t sort_page(struct rebuild *rebuild, const struct audit_rows *page, uint32_t partition) {
  size_t taken = 0;
  for (size_t i = 0; i < page->count; i++) {
    if (rebuild->partitions[i] != partition) continue;
    uint32_t ignored;
    audit_rows_online_at(page, i, redis_target_partitions(rebuild->target), &rebuild->rows[taken++], &ignored);
  }
  return taken;
}

static enum status encode_page(struct rebuild *rebuild, const struct audit_rows *page) {
  uint32_t partitions = redis_target_partitions(rebuild->target);
  struct store_row row;
  for (size_t i = 0; i < page->count; i++) audit_rows_online_at(page, i, partitions, &row, &rebuild->partitions[i]);
  redis_round_begin(&rebuild->round);
  for (uint32_t partition = 0; partition < partitions; partition++) {
    if (!rebuild->wanted[partition]) continue;
    size_t count = sort_page(rebuild, page, partition);
    enum status status = encode(rebuild, partition, rebuild->rows, count, page->count < REBUILD_PAGE);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static void leave(struct rebuild *rebuild, uint32_t partition, const char *why) {
  log_info("rebuild_lost", LOG_INT("partition", partition), LOG_STR("effect", why));
  rebuild->wanted[partition] = false;
}

static bool is_away(enum status status) { return status == STATUS_CLOSED || status == STATUS_UNAVAILABLE; }

/* A server that is away for long, or alone, is left: it is begun again once it is back. The others' partitions are waiting.
 * answered: a partition whose server answered; NOBODY: none did. */
static void leave_those_away(struct rebuild *rebuild, uint32_t answered) {
  int64_t now_us = clock_monotonic_us(rebuild->clock);
  if (answered != NOBODY) rebuild->away_since_us = 0;
  if (answered == NOBODY && rebuild->away_since_us == 0) rebuild->away_since_us = now_us;
  if (answered == NOBODY && now_us - rebuild->away_since_us < AWAY_MAX_US) return;
  for (size_t i = 0; i < rebuild->round.count; i++) {
    uint32_t partition = rebuild->round.partitions[i];
    if (!is_away(rebuild->round.statuses[i]) || !rebuild->wanted[partition]) continue;
    if (answered != NOBODY && redis_conn_same_server(rebuild->conn, partition, answered)) continue; /* cut in the middle */
    leave(rebuild, partition, "its server is away");
  }
  rebuild->away_since_us = 0;
}

/* STATUS_OK: every partition took its part, or is no longer ours. */
static enum status take_answers(struct rebuild *rebuild) {
  enum status worst = STATUS_OK;
  uint32_t answered = NOBODY;
  for (size_t i = 0; i < rebuild->round.count; i++) {
    uint32_t partition = rebuild->round.partitions[i];
    int64_t restored = 0;
    enum status status = rebuild->round.statuses[i];
    if (status == STATUS_OK) status = store_rebuild_decode(rebuild->round.replies[i], &restored);
    rebuild->restored += restored;
    if (!is_away(status)) answered = partition;
    if (status == STATUS_INITIALISING && rebuild->wanted[partition]) {
      leave(rebuild, partition, "another worker rebuilds it, or the server is a new one");
    } else if (status != STATUS_OK && status != STATUS_INITIALISING) {
      worst = status;
    }
  }
  if (is_away(worst)) leave_those_away(rebuild, answered);
  return worst;
}

static bool wants_any(const struct rebuild *rebuild) {
  for (uint32_t p = 0; p < redis_target_partitions(rebuild->target); p++) {
    if (rebuild->wanted[p]) return true;
  }
  return false;
}

static void finish(struct rebuild *rebuild) {
  if (wants_any(rebuild)) {
    log_info("redis_rebuilt", LOG_INT("sessions", rebuild->restored), LOG_INT("misplaced", rebuild->misplaced),
             LOG_INT("took_ms", (clock_monotonic_us(rebuild->clock) - rebuild->began_us) / 1000));
    metric_add(metrics_series(METRIC_ADOPTIONS), 1);
  }
  for (uint32_t p = 0; p < redis_target_partitions(rebuild->target); p++) rebuild->wanted[p] = false;
  rebuild->under_way = false;
}

enum status rebuild_step(struct rebuild *rebuild) {
  uint32_t partitions = redis_target_partitions(rebuild->target);
  struct audit_rows page = {0};
  struct audit_place place = rebuild->place;
  enum status status = audit_rows_online(&page, rebuild->postgres, rebuild->wanted, partitions, &place, REBUILD_PAGE);
  FAILPOINT(rebuild_page_read);
  if (status == STATUS_OK) status = encode_page(rebuild, &page);
  if (status == STATUS_OK) {
    enum status sent = redis_round_send(&rebuild->round, rebuild->conn);
    FAILPOINT(rebuild_page_written);
    status = take_answers(rebuild);
    if (status == STATUS_OK && sent != STATUS_INITIALISING) status = sent;
  }
  bool last = page.count < REBUILD_PAGE;
  for (size_t i = 0; status == STATUS_OK && i < page.count; i++) rebuild->misplaced += rebuild->partitions[i] == partitions;
  audit_rows_free(&page);
  if (status != STATUS_OK) return status;
  rebuild->place = place;
  if (last || !wants_any(rebuild)) finish(rebuild);
  return STATUS_OK;
}
