#include "webhooks.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "failpoint.h"
#include "hash.h"
#include "log.h"
#include "metrics.h"
#include "webhook/endpoint.h"
#include "worker/worker_id.h"

#define ENDPOINTS_MAX 1000 /* of one process: what bounds its memory */
#define LEASE_MS 5000
#define LEASE_INTERVAL_US INT64_C(1000000)
#define LOOK_INTERVAL_US INT64_C(500000) /* where no notification comes */
#define LOOK_GAP_US INT64_C(10000)       /* between two looks, so that many small commits are one */
#define LOOKS_A_ROUND 5
#define SAVE_INTERVAL_US INT64_C(500000)
#define SAVE_IDLE_INTERVAL_US INT64_C(60000000) /* where only rows of others have passed */
#define FIGURES_INTERVAL_US INT64_C(5000000)
#define POSTGRES_PAUSE_US INT64_C(200000) /* after a failure */
#define POSTGRES_LIMIT_MS 5000            /* requests stand still meanwhile */
#define WAIT_MAX_US INT64_C(1000000)
#define FINISH_WAIT_US INT64_C(700000)
#define INTERRUPT_AFTER_US INT64_C(1200000)
#define TOLD_AFTER 3 /* failures in a row that are worth a line */
#define LOG_INTERVAL_US INT64_C(60000000)

struct webhooks {
  const struct config *config;
  const struct clock *clock;
  struct health_limits limits;
  struct pg_client *client;
  struct sender *sender;
  char worker[WORKER_ID_MAX];
  struct endpoint *endpoints[ENDPOINTS_MAX];
  size_t count, first;                                                /* first: whose turn it is */
  int64_t seen;                                                       /* rows up to it have been looked at; -1: no place yet */
  int64_t lease_until_us;                                             /* monotonic: the leases are surely held until then */
  int64_t lease_due_us, look_due_us, figures_due_us, postgres_due_us; /* monotonic */
  uint64_t listened_on;                                               /* which connection of the client */
  struct buf scratch, message;
  struct webhook_lease leases[ENDPOINTS_MAX];
  struct metric_series *deliveries[SENDER_OUTCOME_COUNT];
  struct metric_series *counts[WEBHOOK_STATE_COUNT], *ages[WEBHOOK_STATE_COUNT];
  struct log_limit trouble, failing;
  atomic_bool stopping;
  _Atomic int64_t interrupted_us; /* 0: not yet */
};

static int64_t now_of(const struct webhooks *webhooks) { return clock_monotonic_us(webhooks->clock); }

static uint32_t next_random(void *context) {
  uint32_t number = UINT32_MAX / 2;
  (void)context;
  if (random_bytes(&number, sizeof number) != STATUS_OK) number = UINT32_MAX / 2; /* without jitter then */
  return number;
}
static const struct jitter system_jitter = {.next = next_random};

/* ---- life */

static enum status make_parts(struct webhooks *self) {
  const struct config *config = self->config;
  uint32_t number;
  enum status status = worker_id_make(self->worker, &number);
  if (status == STATUS_OK) status = pg_client_new(config->postgres_url, "presence webhooks", self->clock, &self->client);
  if (status != STATUS_OK) return status;
  pg_client_limit(self->client, POSTGRES_LIMIT_MS);
  return sender_new(&(struct sender_options){.clock = self->clock,
                                             .timeout_ms = config->webhook_timeout_ms,
                                             .allow_private = config->webhook_allow_private == CONFIG_YES,
                                             .ca_file = config->webhook_ca},
                    &self->sender);
}

enum status webhooks_new(const struct config *config, const struct clock *clock, struct webhooks **webhooks) {
  *webhooks = NULL;
  struct webhooks *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->config = config;
  self->clock = clock;
  self->seen = -1;
  self->limits = (struct health_limits){.retry_min_ms = config->webhook_retry_min_ms,
                                        .retry_max_ms = config->webhook_retry_max_ms,
                                        .pause_after_ms = config->webhook_pause_after_ms};
  for (int i = 0; i < SENDER_OUTCOME_COUNT; i++)
    self->deliveries[i] = metrics_series(METRIC_WEBHOOK_DELIVERIES, sender_outcome_name((enum sender_outcome)i));
  for (int i = 0; i < WEBHOOK_STATE_COUNT; i++) {
    self->counts[i] = metrics_series(METRIC_WEBHOOK_ENDPOINTS, webhook_state_names[i]);
    self->ages[i] = metrics_series(METRIC_WEBHOOK_OLDEST_PENDING, webhook_state_names[i]);
  }
  enum status status = make_parts(self);
  if (status != STATUS_OK) {
    webhooks_free(self);
    return status;
  }
  *webhooks = self;
  return STATUS_OK;
}

static void drop_endpoint(struct webhooks *webhooks, size_t i) {
  struct endpoint *endpoint = webhooks->endpoints[i];
  sender_abandon(webhooks->sender, endpoint);
  endpoint_free(endpoint);
  webhooks->endpoints[i] = webhooks->endpoints[--webhooks->count];
}

static void drop_all(struct webhooks *webhooks) {
  while (webhooks->count > 0) drop_endpoint(webhooks, webhooks->count - 1);
}

void webhooks_free(struct webhooks *webhooks) {
  if (webhooks == NULL) return;
  drop_all(webhooks);
  sender_free(webhooks->sender);
  pg_client_free(webhooks->client);
  buf_free(&webhooks->scratch);
  buf_free(&webhooks->message);
  free(webhooks);
}

void webhooks_interrupt(struct webhooks *webhooks) {
  int64_t now_us = now_of(webhooks);
  int64_t none = 0;
  atomic_store(&webhooks->stopping, true);
  (void)atomic_compare_exchange_strong(&webhooks->interrupted_us, &none, now_us);
  if (now_us - atomic_load(&webhooks->interrupted_us) > INTERRUPT_AFTER_US) pg_client_interrupt(webhooks->client);
  sender_wake(webhooks->sender);
}

/* ---- leases */

/* Where the endpoint is among those held; count: it is not. */
static size_t find_endpoint(const struct webhooks *webhooks, int64_t id) {
  size_t i = 0;
  while (i < webhooks->count && webhooks->endpoints[i]->settings.id != id) i++;
  return i;
}

static bool is_leased(const struct webhooks *webhooks, const struct endpoint *endpoint, size_t leases) {
  for (size_t i = 0; i < leases; i++)
    if (webhooks->leases[i].id == endpoint->settings.id) return webhooks->leases[i].version == endpoint->settings.version;
  return false;
}

static enum status load_endpoint(struct webhooks *webhooks, int64_t id) {
  struct webhook_settings settings = {0};
  struct endpoint *endpoint = NULL;
  enum status status = webhook_store_load(webhooks->client, webhooks->worker, id, &settings);
  if (status == STATUS_OK)
    status = endpoint_new(&settings, now_of(webhooks), &endpoint);
  else
    webhook_settings_free(&settings);
  if (status == STATUS_OK) webhooks->endpoints[webhooks->count++] = endpoint;
  return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* An endpoint that was lost, paused, removed or changed goes, with what it had not saved: whoever changed it wants it so. */
static enum status renew_leases(struct webhooks *webhooks) {
  size_t leases = 0;
  int64_t asked_us = now_of(webhooks);
  enum status status =
      webhook_store_lease(webhooks->client, webhooks->worker, LEASE_MS, webhooks->leases, ENDPOINTS_MAX, &leases);
  if (status != STATUS_OK) return status;
  webhooks->lease_until_us = asked_us + LEASE_MS * INT64_C(1000);
  webhooks->lease_due_us = asked_us + LEASE_INTERVAL_US;
  for (size_t i = webhooks->count; i-- > 0;)
    if (!is_leased(webhooks, webhooks->endpoints[i], leases)) drop_endpoint(webhooks, i);
  for (size_t i = 0; i < leases && status == STATUS_OK; i++)
    if (find_endpoint(webhooks, webhooks->leases[i].id) == webhooks->count)
      status = load_endpoint(webhooks, webhooks->leases[i].id);
  return status;
}

static enum status show_figures(struct webhooks *webhooks) {
  struct webhook_figures figures;
  enum status status = webhook_store_figures(webhooks->client, &figures);
  for (int i = 0; i < WEBHOOK_STATE_COUNT && status == STATUS_OK; i++) {
    metric_set(webhooks->counts[i], (double)figures.count[i]);
    metric_set(webhooks->ages[i], figures.oldest_pending_s[i]);
  }
  if (status == STATUS_OK) webhooks->figures_due_us = now_of(webhooks) + FIGURES_INTERVAL_US;
  return status;
}

/* ---- new events */

static enum status listen(struct webhooks *webhooks) {
  PGconn *connection;
  PGresult *result = NULL;
  enum status status = pg_client_connection(webhooks->client, &connection);
  if (status != STATUS_OK || pg_client_connects(webhooks->client) == webhooks->listened_on) return status;
  status = pg_client_exec(webhooks->client, "LISTEN presence_outbox", 0, NULL, &result);
  PQclear(result);
  /* A server that has no LISTEN for us: looking by itself has to do. */
  if (status == STATUS_OK || status == STATUS_REFUSED) webhooks->listened_on = pg_client_connects(webhooks->client);
  return status == STATUS_REFUSED ? STATUS_OK : status;
}

/* The place to look from. Where the database has come back in an older state, everything is begun anew from what it says. */
static enum status check_place(struct webhooks *webhooks) {
  int64_t newest = 0, dropped = 0;
  if (webhooks->count == 0) webhooks->seen = -1;
  if (webhooks->count == 0) return STATUS_OK;
  enum status status = event_read_bounds(webhooks->client, &newest, &dropped);
  if (status != STATUS_OK) return status;
  if (webhooks->seen > newest) {
    log_warn("webhooks_begin_anew", LOG_STR("reason", "the outbox ends before what was read"), LOG_INT("newest_seq", newest));
    drop_all(webhooks);
    webhooks->lease_due_us = 0;
  }
  if (webhooks->seen < 0 || webhooks->seen > newest) webhooks->seen = newest;
  return STATUS_OK;
}

static void note_tenant(void *context, struct str tenant) {
  struct webhooks *webhooks = context;
  for (size_t i = 0; i < webhooks->count; i++)
    if (str_equal(buf_str(&webhooks->endpoints[i]->settings.tenant), tenant)) webhooks->endpoints[i]->more = true;
}

/* Who has no rows among those looked at has read them all: its position moves on, so that the retention never passes it. */
static enum status look(struct webhooks *webhooks) {
  bool more = true;
  enum status status = STATUS_OK;
  webhooks->look_due_us = now_of(webhooks) + LOOK_INTERVAL_US;
  for (int looks = 0; looks < LOOKS_A_ROUND && more && status == STATUS_OK; looks++)
    status = webhook_store_new_tenants(webhooks->client, &webhooks->seen, &more, note_tenant, webhooks);
  if (more) webhooks->look_due_us = 0;
  for (size_t i = 0; i < webhooks->count && status == STATUS_OK; i++)
    if (!webhooks->endpoints[i]->more) window_read_up_to(&webhooks->endpoints[i]->window, webhooks->seen);
  return status;
}

static enum status fill(struct webhooks *webhooks, struct endpoint *endpoint) {
  int64_t most = endpoint_wants(endpoint);
  if (most == 0) return STATUS_OK;
  struct event_page page;
  enum status status = event_read_page(webhooks->client, buf_str(&endpoint->settings.tenant), endpoint->window.read_seq, most,
                                       &page, &webhooks->message);
  if (status == STATUS_OK) {
    status = endpoint_fill(endpoint, &page, most, &webhooks->scratch);
  } else if (status == STATUS_NOT_FOUND) { /* never a silent skip */
    status = buf_append(&webhooks->message, "", 1);
    endpoint_set_error(endpoint, status == STATUS_OK ? webhooks->message.data : "rows after its position have been dropped");
    endpoint->stop = "expired";
  }
  event_page_free(&page);
  return status;
}

/* ---- requests and results */

static enum status send_next(struct webhooks *webhooks, struct endpoint *endpoint, struct window_entry *entry) {
  enum status status = sender_send(webhooks->sender, &(struct sender_request){.url = endpoint->settings.url.data,
                                                                              .key = buf_str(&endpoint->settings.key),
                                                                              .id = window_entry_id(entry),
                                                                              .body = window_entry_body(entry),
                                                                              .owner = endpoint,
                                                                              .item = entry});
  if (status != STATUS_OK) return status;
  window_sending(entry);
  endpoint->sending++;
  return STATUS_OK;
}

/* Endpoints take turns at being first, so that the limit on all requests favours none. */
static enum status send_all(struct webhooks *webhooks) {
  int64_t now_us = now_of(webhooks);
  if (now_us >= webhooks->lease_until_us || atomic_load(&webhooks->stopping)) return STATUS_OK;
  webhooks->first++;
  for (size_t i = 0; i < webhooks->count; i++) {
    struct endpoint *endpoint = webhooks->endpoints[(webhooks->first + i) % webhooks->count];
    struct window_entry *entry;
    while (sender_has_room(webhooks->sender) && (entry = endpoint_next(endpoint, now_us)) != NULL) {
      enum status status = send_next(webhooks, endpoint, entry);
      if (status != STATUS_OK) return status;
    }
  }
  return STATUS_OK;
}

static void tell_failing(struct webhooks *webhooks, struct endpoint *endpoint, const struct sender_result *result) {
  int64_t suppressed;
  if (endpoint->told || endpoint->health.attempts < TOLD_AFTER) return;
  endpoint->told = true;
  if (!log_limit_pass(&webhooks->failing, now_of(webhooks), LOG_INTERVAL_US / 60, &suppressed)) return;
  log_warn("webhook_failing", LOG_TEXT("tenant", buf_str(&endpoint->settings.tenant)), LOG_INT("webhook", endpoint->settings.id),
           LOG_STR("outcome", sender_outcome_name(result->outcome)), LOG_STR("error", result->error),
           LOG_INT("attempts", endpoint->health.attempts), LOG_INT("suppressed", suppressed));
}

static void take_success(struct endpoint *endpoint, struct window_entry *entry) {
  FAILPOINT(webhook_delivered);
  window_delivered(&endpoint->window, entry);
  health_success(&endpoint->health);
  endpoint->changed = endpoint->succeeded = true;
  if (endpoint->told)
    log_info("webhook_recovered", LOG_TEXT("tenant", buf_str(&endpoint->settings.tenant)),
             LOG_INT("webhook", endpoint->settings.id));
  endpoint->told = false;
}

static void take_failure(struct webhooks *webhooks, struct endpoint *endpoint, struct window_entry *entry,
                         const struct sender_result *result) {
  int64_t now_us = now_of(webhooks);
  int64_t backoff_ms = health_backoff_ms(&webhooks->limits, &system_jitter, (int64_t)entry->attempts + 1);
  window_failed(entry, now_us + backoff_ms * 1000);
  health_failure(&endpoint->health, &webhooks->limits, &system_jitter, result->retry_after_ms, now_us);
  endpoint_set_error(endpoint, result->error);
  if (result->outcome == SENDER_GONE)
    endpoint->stop = "gone";
  else if (health_is_lost(&endpoint->health, &webhooks->limits, now_us))
    endpoint->stop = "failing";
  tell_failing(webhooks, endpoint, result);
}

static enum status take_results(struct webhooks *webhooks) {
  struct sender_result result;
  enum status status = sender_perform(webhooks->sender);
  while (status == STATUS_OK && sender_next_result(webhooks->sender, &result)) {
    struct endpoint *endpoint = result.owner;
    endpoint->sending--;
    metric_add(webhooks->deliveries[result.outcome], 1);
    if (result.outcome == SENDER_DELIVERED)
      take_success(endpoint, result.item);
    else
      take_failure(webhooks, endpoint, result.item, &result);
  }
  return status;
}

/* ---- progress */

static int64_t save_due_us(const struct endpoint *endpoint) {
  int64_t cursor = window_cursor(&endpoint->window);
  if (endpoint->stop != NULL) return 0;
  if (endpoint->changed) return cursor == endpoint->window.read_seq ? 0 : endpoint->saved_us + SAVE_INTERVAL_US;
  return cursor > endpoint->saved_cursor ? endpoint->saved_us + SAVE_IDLE_INTERVAL_US : INT64_MAX;
}

static enum status save(struct webhooks *webhooks, struct endpoint *endpoint) {
  int64_t seqs[WINDOW_MAX];
  struct webhook_progress progress = endpoint_progress(endpoint, now_of(webhooks), seqs);
  enum status status = webhook_store_save(webhooks->client, webhooks->worker, &progress);
  if (status != STATUS_OK) return status;
  FAILPOINT(webhook_saved);
  endpoint_saved(endpoint, &progress, now_of(webhooks));
  return STATUS_OK;
}

static enum status pause_endpoint(struct webhooks *webhooks, const struct endpoint *endpoint, const char *error) {
  const struct webhook_settings *settings = &endpoint->settings;
  enum status status =
      webhook_store_pause(webhooks->client, webhooks->worker, settings->id, settings->version, endpoint->stop, error);
  if (status == STATUS_OK)
    log_warn("webhook_paused", LOG_TEXT("tenant", buf_str(&settings->tenant)), LOG_INT("webhook", settings->id),
             LOG_STR("reason", endpoint->stop), LOG_STR("error", error), LOG_INT("attempts", endpoint->health.attempts));
  return status;
}

/* STATUS_NOT_FOUND: the endpoint is to be dropped. */
static enum status save_or_pause(struct webhooks *webhooks, struct endpoint *endpoint) {
  char error[SENDER_ERROR_MAX];
  memcpy(error, endpoint->error, sizeof error);
  enum status status = save(webhooks, endpoint);
  if (status != STATUS_OK || endpoint->stop == NULL) return status;
  status = pause_endpoint(webhooks, endpoint, error);
  return status == STATUS_OK ? STATUS_NOT_FOUND : status;
}

static enum status save_all(struct webhooks *webhooks, bool at_once) {
  enum status status = STATUS_OK;
  int64_t now_us = now_of(webhooks);
  for (size_t i = webhooks->count; i-- > 0 && status == STATUS_OK;) {
    int64_t due_us = save_due_us(webhooks->endpoints[i]);
    if (due_us > now_us && (due_us == INT64_MAX || !at_once)) continue;
    status = save_or_pause(webhooks, webhooks->endpoints[i]);
    if (status != STATUS_NOT_FOUND) continue;
    drop_endpoint(webhooks, i);
    status = STATUS_OK;
  }
  return status;
}

/* ---- rounds */

static enum status use_postgres(struct webhooks *webhooks) {
  int64_t now_us = now_of(webhooks);
  if (now_us < webhooks->postgres_due_us) return STATUS_OK;
  enum status status = save_all(webhooks, false);
  if (status == STATUS_OK && now_us >= webhooks->lease_due_us) {
    status = renew_leases(webhooks);
    if (status == STATUS_OK) status = listen(webhooks);
    if (status == STATUS_OK) status = check_place(webhooks);
  }
  if (status == STATUS_OK && now_us >= webhooks->figures_due_us) status = show_figures(webhooks);
  if (status == STATUS_OK && webhooks->count > 0 && now_us >= webhooks->look_due_us) status = look(webhooks);
  for (size_t i = 0; i < webhooks->count && status == STATUS_OK; i++) status = fill(webhooks, webhooks->endpoints[i]);
  if (status == STATUS_OK) return status;
  int64_t suppressed;
  webhooks->postgres_due_us = now_of(webhooks) + POSTGRES_PAUSE_US;
  if (log_limit_pass(&webhooks->trouble, now_us, LOG_INTERVAL_US, &suppressed))
    log_warn("webhooks_postgres_failed", LOG_STR("status", status_name(status)),
             LOG_STR("error", pg_client_error(webhooks->client)), LOG_INT("suppressed", suppressed));
  return status;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_due_us(const struct webhooks *webhooks, int64_t now_us) {
  int64_t postgres_us = webhooks->lease_due_us;
  int64_t send_us = INT64_MAX;
  if (webhooks->count > 0) postgres_us = least(postgres_us, webhooks->look_due_us);
  for (size_t i = 0; i < webhooks->count; i++) {
    const struct endpoint *endpoint = webhooks->endpoints[i];
    send_us = least(send_us, endpoint_next_due_us(endpoint));
    postgres_us = least(postgres_us, endpoint_wants(endpoint) > 0 ? 0 : save_due_us(endpoint));
  }
  if (postgres_us < webhooks->postgres_due_us) postgres_us = webhooks->postgres_due_us;
  bool may_send = sender_has_room(webhooks->sender) && now_us < webhooks->lease_until_us;
  return may_send ? least(postgres_us, send_us) : postgres_us;
}

static void wait_for_more(struct webhooks *webhooks) {
  int64_t now_us = now_of(webhooks);
  int64_t wait_us = least(next_due_us(webhooks, now_us) - now_us, WAIT_MAX_US);
  PGconn *connection;
  int fd = -1;
  if (webhooks->count > 0 && pg_client_is_up(webhooks->client) &&
      pg_client_connection(webhooks->client, &connection) == STATUS_OK)
    fd = PQsocket(connection);
  if (!sender_wait(webhooks->sender, fd, wait_us > 0 ? (wait_us + 999) / 1000 : 0)) return;
  pg_client_wait(webhooks->client, -1, 0); /* takes the notification */
  webhooks->look_due_us = least(webhooks->look_due_us, now_of(webhooks) + LOOK_GAP_US);
}

enum status webhooks_tick(struct webhooks *webhooks, int64_t *sleep_us) {
  *sleep_us = 0;
  if (atomic_load(&webhooks->stopping)) return STATUS_OK;
  enum status status = use_postgres(webhooks);
  enum status sent = send_all(webhooks);
  if (sent == STATUS_OK) sent = take_results(webhooks);
  if (sent == STATUS_OK) sent = send_all(webhooks);
  if (sent != STATUS_OK) *sleep_us = POSTGRES_PAUSE_US;
  wait_for_more(webhooks);
  return status != STATUS_OK ? status : sent;
}

void webhooks_finish(struct webhooks *webhooks) {
  int64_t until_us = now_of(webhooks) + FINISH_WAIT_US;
  atomic_store(&webhooks->stopping, true);
  for (int64_t left_us = FINISH_WAIT_US; left_us > 0 && sender_under_way(webhooks->sender) > 0;
       left_us = until_us - now_of(webhooks)) {
    (void)sender_wait(webhooks->sender, -1, (left_us + 999) / 1000);
    if (take_results(webhooks) != STATUS_OK) break;
  }
  enum status status = save_all(webhooks, true);
  if (status == STATUS_OK) status = webhook_store_release(webhooks->client, webhooks->worker);
  if (status != STATUS_OK)
    log_warn("webhooks_not_saved", LOG_STR("status", status_name(status)), LOG_STR("error", pg_client_error(webhooks->client)));
  drop_all(webhooks);
}
