/* store.h: the scripts of service/redis/scripts as typed calls: encode one into a redis_call, send it by a link or a conn, decode
 * the reply. No I/O here. Strings in results are borrowed from the reply. At most STORE_ITEMS_MAX devices a call.
 *
 * "Alive", the presence clock and all transitions are decided in the scripts, on Redis's clock, in one place (prelude.lua). */
#ifndef PRESENCE_STORE_H
#define PRESENCE_STORE_H

#include "keys.h"
#include "redis.h"
#include "transition.h"

#define STORE_ITEMS_MAX 500

/* What a device's bucket belongs to; of the directory's tenant. */
struct store_tenant {
  struct str id;
  int64_t generation;
  uint32_t buckets;
};

/* ---- record_heartbeats: heartbeats of partitions of one server; a section with an empty list is a tick (mark).
 * ---- renew_heartbeats: the same at less cost, for plain ones. It leaves those that are no renewals to record_heartbeats. */
enum meta_action { META_KEEP, META_SET, META_REMOVE };
struct record_item {
  struct store_tenant tenant;
  struct str device;
  int64_t ttl_ms;
  struct str meta;
  enum meta_action meta_action;
  uint32_t bucket;
  bool may_open;    /* false: a new session is not opened (limits); renewals go on */
  bool want_detail; /* answer session, start and metadata too */
};
enum record_code {
  RECORD_RENEWED,    /* the session goes on */
  RECORD_OPENED,     /* a new session */
  RECORD_REOPENED,   /* the old session was over: closed as timeout, and a new one opened */
  RECORD_NOT_OPENED, /* may_open was false and there is no session to renew (one that was over is closed) */
  RECORD_BACKLOG,    /* the partition's stream is over its cap: no new sessions at present */
  RECORD_STALE,      /* settings of an older generation */
  RECORD_LEFT,       /* of renew_heartbeats: nothing was done */
};
struct record_options {
  int64_t outage_ms;
  struct str listener; /* the loop's name for its mark; unique among running loops */
  int64_t backlog_cap; /* stream entries */
};
struct record_outcome {
  enum record_code code;
  struct session_id session; /* the detail: only where asked for */
  int64_t online_since_ms;
  struct str meta; /* len 0: none */
};
/* The heartbeats of one partition in a call, in any order, doubled devices removed. */
struct record_section {
  uint32_t partition;
  const struct record_item *items;
  size_t count;
};
/* Whether renew_heartbeats can do it, if it is a renewal. */
static inline bool store_record_is_plain(const struct record_item *item) {
  return item->meta_action == META_KEEP && !item->want_detail;
}
/* Whether a call may have several sections: their keys lie in slots of their own, a cluster wants those of one. */
bool store_record_joins(const struct redis_target *target);
/* At most STORE_ITEMS_MAX items in all sections together. */
typedef enum status store_record_encoder(struct redis_call *call, const struct redis_target *target,
                                         const struct record_options *options, const struct record_section *sections,
                                         size_t section_count);
store_record_encoder store_record_encode MUST_CHECK;
store_record_encoder store_renew_encode MUST_CHECK;
/* What HPEXPIREAT and HSETEX say of a field, for the metric: https://redis.io/docs/latest/commands/hpexpireat/ */
enum field_reply { FIELD_MISSING, FIELD_NOT_SET, FIELD_SET, FIELD_DELETED, FIELD_REPLY_COUNT };
const char *field_reply_name(enum field_reply reply); /* "-2", "0", "1", "2" */
struct record_reply {
  int64_t now_ms;                           /* Redis's clock: last_seen of every item in force */
  int64_t deaf_ms;                          /* what this call added to P */
  int64_t field_replies[FIELD_REPLY_COUNT]; /* of all sections, in the first that was done */
};
/* Of both. What became of a section with `count` items: as a call's status, where only this one could not be done. */
enum status store_record_decode(const redisReply *reply, size_t section, size_t count, struct record_reply *head,
                                struct record_outcome *outcomes) MUST_CHECK;

/* Takes the listener's mark away when a loop stops in order. Reply: nothing of interest. */
enum status store_unlisten_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                  struct str listener) MUST_CHECK;

/* ---- disconnect */
enum disconnect_code { DISCONNECT_CLOSED, DISCONNECT_NOTHING_OPEN, DISCONNECT_OTHER_SESSION, DISCONNECT_STALE };
enum status store_disconnect_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                    int64_t outage_ms, const struct store_tenant *tenant, uint32_t bucket, struct str device,
                                    const struct session_id *only /* NULL: whichever is open */) MUST_CHECK;
enum status store_disconnect_decode(const redisReply *reply, enum disconnect_code *code, struct session_id *open) MUST_CHECK;

/* ---- read_devices: what Redis knows of devices of one tenant in one partition, at one instant. Never extends life. */
enum store_state {
  STORE_NONE, /* no facts and no unpublished close: the row in PostgreSQL decides (read it after this) */
  STORE_ONLINE,
  STORE_UNKNOWN, /* in doubt: an outage ate its heartbeats, or its live field was lost */
  STORE_OVER,    /* facts, but the deadline has passed and no worker has looked yet: offline, reason timeout */
  STORE_CLOSED,  /* closed, not yet in PostgreSQL */
};
struct store_device {
  enum store_state state;
  enum transition_reason reason; /* OVER, CLOSED */
  struct session_id session;
  int64_t online_since_ms, last_seen_ms, ttl_ms;
  int64_t offline_at_ms; /* OVER, CLOSED */
  struct str meta;       /* len 0: none */
};
struct read_item {
  uint32_t bucket;
  struct str device;
};
enum status store_read_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              const struct store_tenant *tenant, const struct read_item *items, size_t count) MUST_CHECK;
enum status store_read_decode(const redisReply *reply, size_t count, int64_t *now_ms, struct store_device *devices) MUST_CHECK;

/* ---- expire_due: the detector's step for a few buckets */
struct expire_bucket { /* a member of `next`, see store_next */
  struct str tenant;
  uint32_t bucket;
};
struct expire_result {
  int64_t now_ms;
  int64_t presence_ms; /* L */
  int64_t cutoff_ms;   /* on the presence clock: nothing later is decided */
  int64_t closed, orphans;
  int64_t listeners;         /* marks that count */
  int64_t listeners_dropped; /* silent for 5 s: warn */
  bool more;                 /* some bucket still has members that are due */
  const redisReply *lags;    /* array of integers: ms on the presence clock from deadline to now, one per closed session */
};
enum status store_expire_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                                int64_t per_bucket_max, const struct expire_bucket *buckets, size_t count) MUST_CHECK;
enum status store_expire_decode(const redisReply *reply, struct expire_result *result) MUST_CHECK;

/* ---- next: a look at the head of `next`, with the clock */
struct next_result {
  int64_t now_ms, presence_ms, cutoff_ms;
  const redisReply *members; /* array: member, score, member, score … earliest first */
};
enum status store_next_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              size_t buckets_max) MUST_CHECK;
enum status store_next_decode(const redisReply *reply, struct next_result *result) MUST_CHECK;

/* ---- stream, entries and trim: the publisher's steps */
enum stream_kind {
  STREAM_TRANSITION,
  STREAM_MARKER, /* of the audit: transition has tenant, device, and the session found (SESSION_ID_NONE: none) */
  STREAM_BROKEN, /* does not decode: the publisher puts it aside, so that it does not stall the stream */
};
struct stream_entry {
  struct session_id id; /* the entry's own stream id */
  enum stream_kind kind;
  struct transition transition; /* STREAM_TRANSITION, STREAM_MARKER */
  const redisReply *fields;     /* as they stand in the stream: field, value, field, value … Borrowed from the reply */
};
struct stream_head {
  int64_t now_ms;  /* Redis's clock */
  int64_t backlog; /* entries in the stream */
};
/* A script, so that a server that is not adopted is not read (STATUS_INITIALISING): XRANGE from the head; also XLEN, TIME. For a
 * look at the first entry: what a script hands on goes through Lua piece by piece, which for 1000 entries costs 3 ms of Redis. */
enum status store_stream_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                size_t entries_max) MUST_CHECK;
/* Decodes at most *count entries, sets *count to how many. */
enum status store_stream_decode(const redisReply *reply, struct stream_head *head, struct stream_entry *entries,
                                size_t *count) MUST_CHECK;
/* The same entries without a script, for whoever has looked before: many at little cost to Redis. */
enum status store_entries_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 size_t entries_max) MUST_CHECK;
enum status store_entries_decode(const redisReply *reply, struct stream_entry *entries, size_t *count) MUST_CHECK;
/* run_id: of the server the entries were read from; it goes out instead of the road's own. */
enum status store_trim_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, const char *run_id,
                              const struct stream_entry *entries, size_t count) MUST_CHECK;

/* ---- lease: which worker serves a partition; saves work, nothing depends on it */
enum lease_wish { LEASE_TAKE_OR_KEEP, LEASE_ONLY_MARK, LEASE_GIVE_UP };
struct lease_result {
  bool mine;
  int64_t workers; /* live workers seen in this partition, this one included */
};
enum status store_lease_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, struct str worker,
                               int64_t lease_ms, enum lease_wish wish) MUST_CHECK;
enum status store_lease_decode(const redisReply *reply, struct lease_result *result) MUST_CHECK;
/* Does any worker serve the partition? Also on a server that is not adopted. */
enum status store_served_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) MUST_CHECK;
enum status store_served_decode(const redisReply *reply, bool *served) MUST_CHECK;

/* ---- adopt: makes a server usable (its run_id goes into `clock`). run_id: of the server, as it was before floor was read; it
 * goes out instead of the road's own, so that a server which came up meanwhile is not adopted with a floor that is too low. */
#define STORE_TOKEN_LEN REDIS_RUN_ID_LEN
enum adopt_outcome {
  ADOPT_ALREADY, /* it was adopted already */
  ADOPT_DONE,
  ADOPT_REBUILD, /* it is empty: the caller holds the token and must rebuild it, which adopts it */
  ADOPT_BUSY,    /* it is empty, and another caller rebuilds it */
};
enum status store_adopt_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, const char *run_id,
                               struct session_id floor, /* the highest session PostgreSQL knows in the partition */
                               const char *token /* of this caller: STORE_TOKEN_LEN characters */) MUST_CHECK;
enum status store_adopt_decode(const redisReply *reply, enum adopt_outcome *outcome) MUST_CHECK;
/* Is the server adopted, and does it take writes? Cheap. */
enum status store_adopted_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) MUST_CHECK;

/* ---- counts: open sessions of a tenant in a partition; clock figures for status */
enum status store_count_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                               struct str tenant) MUST_CHECK;
struct store_count {
  int64_t open_sessions;
  int64_t now_ms;          /* Redis's clock */
  int64_t recalibrated_ms; /* when they were last compared with the facts; TIME_MS_LOST: never */
  int64_t drift;           /* the difference found then */
};
enum status store_count_decode(const redisReply *reply, struct store_count *count) MUST_CHECK;
/* All tenants' counts of a partition (for the presence_online metric). *pairs: array tenant, count (text), tenant … */
enum status store_counts_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) MUST_CHECK;
enum status store_counts_decode(const redisReply *reply, const redisReply **pairs) MUST_CHECK;

/* A tenant's buckets in a partition: *first and every `partitions`th after it; false where it has none there. */
bool store_first_bucket(const struct redis_target *target, const struct store_tenant *tenant, uint32_t partition,
                        uint32_t *first);
#define STORE_BUCKETS_MAX 4096 /* of a tenant in a partition: recount reads all of them in one call, about 4 ms */

enum drift_action { DRIFT_REPORT, DRIFT_REPAIR };

/* ---- recount: a tenant's count in a partition against its facts, at one instant. STATUS_TOO_LARGE: more than STORE_BUCKETS_MAX
 * buckets. STATUS_STALE: settings of an older generation. */
struct recount_result {
  int64_t count; /* as it was */
  int64_t open_sessions;
};
enum status store_recount_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const struct store_tenant *tenant, enum drift_action action) MUST_CHECK;
enum status store_recount_decode(const redisReply *reply, struct recount_result *result) MUST_CHECK;

/* ---- compare_due: a walk that compares facts, due and next of a tenant in a partition, in steps of about a millisecond.
 * Zero-initialised is its beginning; decode moves it on. */
struct compare_cursor {
  uint32_t buckets_done; /* of the tenant's in the partition */
  bool in_due;           /* of the bucket under way: facts come first */
  uint64_t scan;
  bool end;
};
struct compare_found {
  int64_t facts_lost; /* a live field without facts: the facts come back */
  int64_t orphans;    /* a due member without facts: removed */
  int64_t due_lost;   /* facts without due: get a deadline */
  int64_t next_late;  /* a bucket that the detector would not have looked at in time */
};
enum status store_compare_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 int64_t outage_ms, const struct store_tenant *tenant, const struct compare_cursor *cursor,
                                 enum drift_action action) MUST_CHECK;
/* Adds to *found. target and tenant as encoded: they tell when the walk is over. */
enum status store_compare_decode(const redisReply *reply, const struct redis_target *target, uint32_t partition,
                                 const struct store_tenant *tenant, struct compare_cursor *cursor,
                                 struct compare_found *found) MUST_CHECK;

/* ---- empty_buckets: a step of taking a deleted tenant out of a partition: its open sessions are closed as by a disconnect, its
 * keys go. The tenant's generation is that of the deletion: from the first call on nobody with an older one writes. */
#define STORE_EMPTY_BUCKETS_MAX 32
struct empty_result {
  int64_t emptied;          /* buckets, from the first on */
  int64_t closed;           /* sessions */
  int64_t backlog;          /* entries of the stream */
  struct session_id newest; /* entry of the stream: once it is published, all that this step closed is; NONE: it is empty */
};
enum status store_empty_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                               const struct store_tenant *tenant, const uint32_t *buckets, size_t count,
                               bool last /* its count goes, too */) MUST_CHECK;
enum status store_empty_decode(const redisReply *reply, struct empty_result *result) MUST_CHECK;

/* ---- scan_keys: a walk over keys of buckets. *cursor 0 begins and ends it; a key may come twice. tenant.len 0: of all tenants;
 * only: this kind of key, BUCKET_KEY_COUNT: all. *keys: array of texts, see keys_parse_bucket. */
enum status store_scan_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, uint64_t cursor,
                              enum bucket_key only, struct str tenant, size_t about) MUST_CHECK;
enum status store_scan_decode(const redisReply *reply, uint64_t *cursor, const redisReply **keys) MUST_CHECK;

/* ---- measure: how large some buckets of one partition are. */
#define STORE_MEASURE_MAX 32
struct measured_bucket {
  struct str tenant;
  int64_t fields; /* open sessions */
  int64_t bytes;  /* of its four keys, estimated from samples */
  uint32_t bucket;
  bool large; /* some key is past the limit of Redis's compact encoding */
};
/* tenant and bucket of each are given. */
enum status store_measure_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const struct measured_bucket *buckets, size_t count) MUST_CHECK;
enum status store_measure_decode(const redisReply *reply, struct measured_bucket *buckets, size_t count) MUST_CHECK;

/* ---- rebuild, mark, repair: device rows of PostgreSQL meet the facts in Redis. At most STORE_ROWS_MAX rows of one partition a
 * call: each takes Redis up to 20 us, so that a call stays below 5 ms. What is borrowed must live until the call is encoded. */
#define STORE_ROWS_MAX 200
enum store_row_state { STORE_ROW_NONE, STORE_ROW_ONLINE, STORE_ROW_OFFLINE };
struct store_row {
  struct store_tenant tenant;
  struct str device;
  uint32_t bucket;
  enum store_row_state state;
  struct session_id session;
  int64_t online_since_ms, ttl_ms;
  int64_t offline_at_ms; /* STORE_ROW_OFFLINE; TIME_MS_LOST: not known */
  struct str meta;       /* len 0: none */
};

/* A step of rebuilding an empty server; repeating one is harmless. STATUS_INITIALISING: the token is lost, or the server is not
 * that of run_id any more. finish: these are the last rows; the server is adopted. */
enum status store_rebuild_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const char *token, const char *run_id, int64_t outage_ms, const struct store_row *rows,
                                 size_t count, bool finish) MUST_CHECK;
enum status store_rebuild_decode(const redisReply *reply, int64_t *restored) MUST_CHECK;

/* How a row and the facts disagree, and what repair did about it. */
enum disagreement {
  AGREE,
  AUDIT_NOT_IN_REDIS, /* the row is online, there are no facts: restored as in a rebuild */
  AUDIT_REDIS_OLDER,  /* the row is online in a later session: the facts take it over */
  AUDIT_OVER_IN_ROW,  /* the row says that the session is over: it ends in Redis without an event */
  AUDIT_ROW_BEHIND,   /* the row does not know the session: its online transition is put on the stream again */
  AUDIT_UNDECIDED,    /* a close is under way, or the caller's settings of the tenant are old */
};

/* Compares rows with facts, and puts a marker on the stream where they disagree (mark) or not. kinds[i] answers rows[i].
 * STATUS_FULL: the stream has marks_max entries or more, nothing was done. */
enum status store_mark_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              const struct store_row *rows, size_t count, int64_t marks_max, bool mark) MUST_CHECK;
enum status store_mark_decode(const redisReply *reply, size_t count, enum disagreement *kinds) MUST_CHECK;

/* What a marker found; of a STREAM_MARKER entry. */
struct store_marker {
  struct session_id entry;   /* the marker's own id */
  struct session_id session; /* in the facts; SESSION_ID_NONE: there were none */
};
/* rows: read after all entries before the markers were committed. run_id: of the server the markers were read from. */
enum status store_repair_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                const char *run_id, int64_t outage_ms, const struct store_row *rows,
                                const struct store_marker *markers, size_t count) MUST_CHECK;
enum status store_repair_decode(const redisReply *reply, size_t count, enum disagreement *repaired) MUST_CHECK;

/* ---- the audit's walk over what is open: buckets, then their devices; cursors begin and end with 0. */
struct store_buckets {
  struct str adopted;        /* when this server was adopted: another text, another adoption */
  uint64_t cursor;           /* the next one */
  const redisReply *members; /* array: member of next, score, member … (keys_parse_bucket_member) */
};
enum status store_buckets_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 uint64_t cursor) MUST_CHECK;
enum status store_buckets_decode(const redisReply *reply, struct store_buckets *buckets) MUST_CHECK;
enum status store_bucket_devices_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                        struct str tenant, uint32_t bucket, uint64_t cursor) MUST_CHECK;
/* *devices: array of texts. */
enum status store_bucket_devices_decode(const redisReply *reply, uint64_t *cursor, const redisReply **devices) MUST_CHECK;

#endif
