#include "support/test.h"

#include "support/receiver.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <microhttpd.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/scratch.h"
#include "webhook/signature.h"

enum { PATHS_MAX = 16, PROBLEM_MAX = 512 };

struct delivery {
  int path;
  int64_t seq;
  char device[160], id[64];
  bool accepted;
};

struct inbox {
  char path[64];
  unsigned char key[96];
  size_t key_len;
  size_t came;
};

struct receiver {
  struct MHD_Daemon *daemon;
  bool tls;
  int port;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  struct receiver_manner manner;
  unsigned manners; /* how many have been set */
  bool stopping;
  struct inbox inboxes[PATHS_MAX];
  int inbox_count;
  struct delivery *deliveries;
  size_t count, room;
  unsigned seed;
  char problem[PROBLEM_MAX]; /* the first one */
};

struct incoming {
  struct buf body;
};

/* ---- what came */

static void complain(struct receiver *receiver, const char *what, const char *text) {
  if (receiver->problem[0] == '\0')
    (void)snprintf(receiver->problem, PROBLEM_MAX, "%s: %s", what, text != NULL ? text : "(none)");
}

static int find_inbox(const struct receiver *receiver, const char *path) {
  for (int i = 0; i < receiver->inbox_count; i++)
    if (strcmp(receiver->inboxes[i].path, path) == 0) return i;
  return -1;
}

static const char *header(struct MHD_Connection *connection, const char *name) {
  const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value != NULL ? value : "";
}

static void check_headers(struct receiver *receiver, struct MHD_Connection *connection, const struct inbox *inbox,
                          struct buf *body) {
  char signature[WEBHOOK_SIGNATURE_TEXT_MAX];
  struct buf scratch = {0};
  const char *timestamp = header(connection, "webhook-timestamp");
  int64_t at_s = strtoll(timestamp, NULL, 10), now_s = (int64_t)time(NULL);
  if (webhook_sign((struct str){(const char *)inbox->key, inbox->key_len}, str_from(header(connection, "webhook-id")), at_s,
                   buf_str(body), &scratch, signature) != STATUS_OK ||
      strcmp(signature, header(connection, "webhook-signature")) != 0)
    complain(receiver, "a wrong signature", header(connection, "webhook-signature"));
  buf_free(&scratch);
  if (at_s < now_s - 300 || at_s > now_s + 300) complain(receiver, "a wrong timestamp", timestamp);
  if (strcmp(header(connection, "Content-Type"), "application/cloudevents+json") != 0)
    complain(receiver, "a wrong content type", header(connection, "Content-Type"));
  if (header(connection, "Authorization")[0] != '\0') complain(receiver, "credentials", header(connection, "Authorization"));
}

static const char *text_of(const json_t *json, const char *member) {
  const char *text = json_string_value(json_object_get(json, member));
  return text != NULL ? text : "";
}

/* Under the lock. */
static struct delivery *keep(struct receiver *receiver, struct MHD_Connection *connection, int path, struct buf *body) {
  check_headers(receiver, connection, &receiver->inboxes[path], body);
  json_t *json = json_loadb(body->data, body->len, 0, NULL);
  if (json == NULL || strcmp(text_of(json, "specversion"), "1.0") != 0) complain(receiver, "no CloudEvent", buf_text(body));
  if (strcmp(text_of(json, "id"), header(connection, "webhook-id")) != 0)
    complain(receiver, "another id in the header", header(connection, "webhook-id"));
  if (receiver->count == receiver->room) {
    receiver->room = receiver->room * 2 + 1024;
    receiver->deliveries = realloc(receiver->deliveries, receiver->room * sizeof *receiver->deliveries);
    if (receiver->deliveries == NULL) abort();
  }
  receiver->inboxes[path].came++;
  struct delivery *delivery = &receiver->deliveries[receiver->count++];
  *delivery = (struct delivery){.path = path, .seq = strtoll(text_of(json, "sequence"), NULL, 10)};
  (void)snprintf(delivery->device, sizeof delivery->device, "%s", text_of(json, "subject"));
  (void)snprintf(delivery->id, sizeof delivery->id, "%s", text_of(json, "id"));
  json_decref(json);
  return delivery;
}

/* ---- answers */

static enum MHD_Result answer(struct MHD_Connection *connection, const struct receiver_manner *manner, int status) {
  char *body = calloc(1, manner->body + 1), *filler = calloc(1, manner->header_bytes + 1);
  if (body == NULL || filler == NULL) abort();
  memset(body, 'x', manner->body);
  memset(filler, 'y', manner->header_bytes);
  struct MHD_Response *response = MHD_create_response_from_buffer(manner->body, body, MHD_RESPMEM_MUST_FREE);
  if (manner->header != NULL) (void)MHD_add_response_header(response, manner->header, manner->value);
  if (manner->header_bytes > 0) (void)MHD_add_response_header(response, "X-Long", filler);
  enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
  MHD_destroy_response(response);
  free(filler);
  return result;
}

/* One of the ways to fail; 0: the connection is closed. */
static int pick_failure(struct receiver *receiver, struct receiver_manner *manner) {
  static const int statuses[] = {500, 503, 429, 301, 404, 0};
  int status = statuses[(size_t)rand_r(&receiver->seed) % LENGTH(statuses)];
  if (status == 429) {
    manner->header = "Retry-After";
    manner->value = "0";
  }
  return status;
}

/* Decides, and notes it, in one step: what is accepted here is accepted. */
static int judge(struct receiver *receiver, struct receiver_manner *manner, struct delivery *delivery) {
  const char *path = receiver->inboxes[delivery->path].path;
  int status = manner->status != 0 ? manner->status : 204;
  if (manner->only != NULL && strcmp(manner->only, path) != 0) {
    *manner = (struct receiver_manner){0};
    status = 204;
  }
  if (manner->drop) status = 0;
  if (manner->fail_one_in > 0 && rand_r(&receiver->seed) % manner->fail_one_in == 0) status = pick_failure(receiver, manner);
  delivery->accepted = status >= 200 && status < 300 && !manner->hang;
  return status;
}

static enum MHD_Result take(struct receiver *receiver, struct MHD_Connection *connection, const char *path, struct buf *body) {
  pthread_mutex_lock(&receiver->lock);
  int inbox = find_inbox(receiver, path);
  int status = 404;
  struct receiver_manner manner = receiver->manner;
  if (inbox < 0)
    complain(receiver, "a path that nobody asked for", path);
  else
    status = judge(receiver, &manner, keep(receiver, connection, inbox, body));
  unsigned manners = receiver->manners;
  while (manner.hang && receiver->manners == manners && !receiver->stopping)
    pthread_cond_wait(&receiver->changed, &receiver->lock);
  pthread_mutex_unlock(&receiver->lock);
  return status == 0 || manner.hang ? MHD_NO : answer(connection, &manner, status);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *len, void **state) {
  struct incoming *incoming = *state;
  (void)version;
  if (incoming == NULL) {
    *state = calloc(1, sizeof *incoming);
    return *state != NULL ? MHD_YES : MHD_NO;
  }
  if (*len > 0) {
    enum status status = buf_append(&incoming->body, data, *len);
    *len = 0;
    return status == STATUS_OK ? MHD_YES : MHD_NO;
  }
  if (strcmp(method, "POST") == 0) return take(context, connection, url, &incoming->body);
  struct receiver *receiver = context;
  pthread_mutex_lock(&receiver->lock);
  complain(receiver, "not a POST", method);
  pthread_mutex_unlock(&receiver->lock);
  return MHD_NO;
}

static void forget(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
  struct incoming *incoming = *state;
  (void)context;
  (void)connection;
  (void)code;
  if (incoming != NULL) buf_free(&incoming->body);
  free(incoming);
  *state = NULL;
}

/* ---- life */

struct receiver *receiver_start(const char *certificate, const char *key) {
  struct receiver *receiver = calloc(1, sizeof *receiver);
  assert_non_null(receiver);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  pthread_mutex_init(&receiver->lock, NULL);
  pthread_cond_init(&receiver->changed, NULL);
  receiver->seed = 4711;
  receiver->tls = certificate != NULL;
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
  if (receiver->tls)
    receiver->daemon = MHD_start_daemon(flags | MHD_USE_TLS, 0, NULL, NULL, handle, receiver, MHD_OPTION_SOCK_ADDR, &address,
                                        MHD_OPTION_NOTIFY_COMPLETED, forget, NULL, MHD_OPTION_HTTPS_MEM_CERT,
                                        place_text(certificate), MHD_OPTION_HTTPS_MEM_KEY, place_text(key), MHD_OPTION_END);
  else
    receiver->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, handle, receiver, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED,
                         forget, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)1 << 20, MHD_OPTION_END);
  assert_non_null(receiver->daemon);
  receiver->port = MHD_get_daemon_info(receiver->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  return receiver;
}

static void set_manner(struct receiver *receiver, const struct receiver_manner *manner, bool stopping) {
  pthread_mutex_lock(&receiver->lock);
  receiver->manner = *manner;
  receiver->manners++;
  receiver->stopping = stopping;
  pthread_cond_broadcast(&receiver->changed);
  pthread_mutex_unlock(&receiver->lock);
}

void receiver_set(struct receiver *receiver, const struct receiver_manner *manner) { set_manner(receiver, manner, false); }

void receiver_stop(struct receiver *receiver) {
  if (receiver == NULL) return;
  set_manner(receiver, &(struct receiver_manner){0}, true);
  MHD_stop_daemon(receiver->daemon);
  char problem[PROBLEM_MAX];
  memcpy(problem, receiver->problem, sizeof problem);
  pthread_cond_destroy(&receiver->changed);
  pthread_mutex_destroy(&receiver->lock);
  free(receiver->deliveries);
  free(receiver);
  if (problem[0] != '\0') fail_msg("%s", problem);
}

void receiver_secret(struct receiver *receiver, const char *path, const char *secret) {
  size_t prefix = strlen(WEBHOOK_SECRET_PREFIX), len = strlen(secret);
  assert_true(receiver->inbox_count < PATHS_MAX && strncmp(secret, WEBHOOK_SECRET_PREFIX, prefix) == 0);
  struct inbox inbox = {0};
  (void)snprintf(inbox.path, sizeof inbox.path, "%s", path);
  assert_true(len - prefix < sizeof inbox.key && secret[len - 1] == '=' && secret[len - 2] != '=');
  inbox.key_len = (size_t)EVP_DecodeBlock(inbox.key, (const unsigned char *)secret + prefix, (int)(len - prefix)) - 1;
  pthread_mutex_lock(&receiver->lock);
  receiver->inboxes[receiver->inbox_count++] = inbox;
  pthread_mutex_unlock(&receiver->lock);
}

int receiver_port(const struct receiver *receiver) { return receiver->port; }

const char *receiver_url(const struct receiver *receiver, const char *path) {
  return text_format("http%s://127.0.0.1:%d%s", receiver->tls ? "s" : "", receiver->port, path);
}

/* ---- looking */

static int begin_look(struct receiver *receiver, const char *path) {
  pthread_mutex_lock(&receiver->lock);
  char problem[PROBLEM_MAX];
  memcpy(problem, receiver->problem, sizeof problem);
  int inbox = find_inbox(receiver, path);
  if (problem[0] == '\0' && inbox >= 0) return inbox;
  receiver->problem[0] = '\0'; /* said once */
  pthread_mutex_unlock(&receiver->lock);
  fail_msg("%s", problem[0] != '\0' ? problem : "no such path");
  return -1;
}

size_t receiver_came(struct receiver *receiver, const char *path) {
  size_t count = receiver->inboxes[begin_look(receiver, path)].came;
  pthread_mutex_unlock(&receiver->lock);
  return count;
}

static bool was_accepted_before(const struct receiver *receiver, int inbox, int64_t seq, size_t before) {
  for (size_t i = before; i-- > 0;) {
    const struct delivery *delivery = &receiver->deliveries[i];
    if (delivery->path == inbox && delivery->seq == seq && delivery->accepted) return true;
  }
  return false;
}

size_t receiver_accepted(struct receiver *receiver, const char *path) {
  size_t count = 0;
  int inbox = begin_look(receiver, path);
  for (size_t i = 0; i < receiver->count; i++) {
    const struct delivery *delivery = &receiver->deliveries[i];
    count += delivery->path == inbox && delivery->accepted && !was_accepted_before(receiver, inbox, delivery->seq, i);
  }
  pthread_mutex_unlock(&receiver->lock);
  return count;
}

const char *receiver_story(struct receiver *receiver, const char *path) {
  struct buf story = {0};
  int inbox = begin_look(receiver, path);
  for (size_t i = 0; i < receiver->count; i++) {
    const struct delivery *delivery = &receiver->deliveries[i];
    if (delivery->path != inbox) continue;
    if (buf_printf(&story, "%s%lld%s", story.len > 0 ? " " : "", (long long)delivery->seq, delivery->accepted ? "" : "!") !=
        STATUS_OK)
      abort();
  }
  pthread_mutex_unlock(&receiver->lock);
  const char *kept = text_format("%s", buf_text(&story));
  buf_free(&story);
  return kept;
}

/* "" where it is as it should be. */
static const char *find_fault(const struct receiver *receiver, int inbox, PGresult *rows) {
  for (size_t i = 0; i < receiver->count; i++) {
    const struct delivery *delivery = &receiver->deliveries[i];
    int row = 0, before = -1;
    if (delivery->path != inbox) continue;
    while (row < PQntuples(rows) && strtoll(PQgetvalue(rows, row, 0), NULL, 10) != delivery->seq) row++;
    if (row == PQntuples(rows)) return text_format("%lld was not to be sent", (long long)delivery->seq);
    if (strcmp(PQgetvalue(rows, row, 2), delivery->id) != 0) return text_format("%lld has a wrong id", (long long)delivery->seq);
    for (int earlier = 0; earlier < row; earlier++)
      if (strcmp(PQgetvalue(rows, earlier, 1), delivery->device) == 0) before = earlier;
    if (before >= 0 && !was_accepted_before(receiver, inbox, strtoll(PQgetvalue(rows, before, 0), NULL, 10), i))
      return text_format("%lld came before %s was accepted", (long long)delivery->seq, PQgetvalue(rows, before, 0));
  }
  for (int row = 0; row < PQntuples(rows); row++)
    if (!was_accepted_before(receiver, inbox, strtoll(PQgetvalue(rows, row, 0), NULL, 10), receiver->count))
      return text_format("%s was not accepted", PQgetvalue(rows, row, 0));
  return "";
}

void receiver_check(struct receiver *receiver, const char *path, struct database *database, const char *tenant, int64_t after,
                    const char *types) {
  PGresult *rows = sql_query(database,
                             text_format("SELECT seq, device, id FROM presence.outbox WHERE tenant = $1 AND seq > $2 AND (%s) "
                                         "ORDER BY seq",
                                         types != NULL ? text_format("type IN (%s)", types) : "true"),
                             tenant, text_format("%lld", (long long)after), NULL);
  int inbox = begin_look(receiver, path);
  const char *fault = find_fault(receiver, inbox, rows);
  pthread_mutex_unlock(&receiver->lock);
  PQclear(rows);
  if (fault[0] != '\0') fail_msg("at %s: %s; came: %s", path, fault, receiver_story(receiver, path));
}
