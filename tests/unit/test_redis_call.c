/* Calls as they go on the wire, key names, and replies that are not what they should be. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "redis/backoff.h"
#include "redis/call.h"
#include "redis/dialect.h"
#include "redis/reply.h"
#include "support/alloc_fail.h"

static struct redis_target target = {.partitions = 8};

static struct redis_call *new_call(void) {
  static char env[] = "prod";
  target.env = env;
  struct redis_call *call;
  assert_status(STATUS_OK, redis_call_new(&call));
  return call;
}

/* The command with every CRLF as a space. */
static const char *text_of(const struct redis_call *call) {
  static char text[4096];
  struct str bytes = call_bytes(call);
  size_t len = 0;
  for (size_t i = 0; i < bytes.len && len < sizeof text - 1; i++) {
    if (bytes.data[i] == '\r') continue;
    text[len] = bytes.data[i];
    if (text[len] == '\n') text[len] = ' ';
    len++;
  }
  text[len] = '\0';
  return text;
}

#define SHA "$40 0000000000000000000000000000000000000000"

static void test_keys(void **state) {
  (void)state;
  struct buf out = {0};
  assert_status(STATUS_OK, keys_append_bucket(&out, STR_LIT("prod"), BUCKET_LIVE, 3, STR_LIT("t42"), 7));
  assert_string_equal(buf_text(&out), "prod:presence:live:v1:{3}:t42:7");
  buf_clear(&out);
  assert_status(STATUS_OK, keys_append_bucket(&out, STR_LIT("e"), BUCKET_META, UINT32_MAX, STR_LIT("a"), UINT32_MAX));
  assert_string_equal(buf_text(&out), "e:presence:meta:v1:{4294967295}:a:4294967295");
  static const char *const names[PARTITION_KEY_COUNT] = {"clock",  "next",    "transitions", "closed", "count",
                                                         "tenant", "recount", "lease",       "trial",  "never"};
  for (enum partition_key key = 0; key < PARTITION_KEY_COUNT; key++) {
    char expected[64];
    buf_clear(&out);
    assert_status(STATUS_OK, keys_append_partition(&out, STR_LIT("prod"), key, 10));
    snprintf(expected, sizeof expected, "prod:presence:%s:v1:{10}", names[key]);
    assert_string_equal(buf_text(&out), expected);
  }
  buf_free(&out);
}

static void test_bucket_keys_in_parts(void **state) {
  (void)state;
  struct str tenant;
  uint32_t partition, bucket;
  assert_status(STATUS_OK,
                keys_parse_bucket(STR_LIT("prod"), STR_LIT("prod:presence:session:v1:{31}:t42:7"), &partition, &tenant, &bucket));
  assert_int_equal(partition, 31);
  assert_true(str_equal(tenant, STR_LIT("t42")));
  assert_int_equal(bucket, 7);
  static const char *const others[] = {
      "",
      "prod",
      "test:presence:session:v1:{31}:t42:7",
      "prod:presence:count:v1:{31}",
      "prod:presence:session:v1:{31",
      "prod:presence:session:v1:{}:t42:7",
      "prod:presence:session:v1:{x}:t42:7",
      "prod:presence:session:v1:{31}t42:7",
      "prod:presence:session:v1:{31}:t42",
      "prod:presence:session:v1:{31}:t42:x",
      "prod:presence:session:v1:{4294967296}:t42:7",
      "prod:presence:session:v2:{31}:t42:7",
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_true(keys_parse_bucket(STR_LIT("prod"), str_from(others[i]), &partition, &tenant, &bucket) != STATUS_OK);

  struct buf pattern = {0};
  assert_status(STATUS_OK, keys_append_bucket_pattern(&pattern, STR_LIT("prod"), BUCKET_SESSION, STR_NONE));
  assert_string_equal(buf_text(&pattern), "prod:presence:session:v1:{*}:*:*");
  buf_clear(&pattern);
  assert_status(STATUS_OK, keys_append_bucket_pattern(&pattern, STR_LIT("e"), BUCKET_KEY_COUNT, STR_LIT("t42")));
  assert_string_equal(buf_text(&pattern), "e:presence:*:v1:{*}:t42:*");
  buf_free(&pattern);
}

static void test_bucket_members(void **state) {
  (void)state;
  struct str tenant;
  uint32_t bucket;
  assert_status(STATUS_OK, keys_parse_bucket_member(STR_LIT("t42:7"), &tenant, &bucket));
  assert_true(str_equal(tenant, STR_LIT("t42")));
  assert_int_equal(bucket, 7);
  static const char *const bad[] = {"", ":", ":7", "t42", "t42:", "t42:-1", "t42:x", "t42:4294967296", "t42:7:8"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_status(STATUS_INVALID, keys_parse_bucket_member(str_from(bad[i]), &tenant, &bucket));
  }
}

static void test_tick(void **state) {
  (void)state;
  struct redis_call *call = new_call();
  struct record_options options = {200, STR_LIT("me"), 1000};
  assert_status(STATUS_OK, store_record_encode(call, &target, &options, &(struct record_section){3, NULL, 0}, 1));
  assert_string_equal(text_of(call), "*16 $7 EVALSHA " SHA " $1 6 "
                                     "$26 prod:presence:clock:v1:{3} $25 prod:presence:next:v1:{3} "
                                     "$32 prod:presence:transitions:v1:{3} $27 prod:presence:closed:v1:{3} "
                                     "$26 prod:presence:count:v1:{3} $27 prod:presence:tenant:v1:{3} " SHA
                                     " $3 200 $2 me $4 1000 $1 1 $1 0 $1 0 ");
  redis_call_free(call);
}

static struct record_item item_of(const char *tenant, uint32_t bucket, const char *device) {
  return (struct record_item){
      .tenant = {str_from(tenant), 3, 40}, .bucket = bucket, .device = str_from(device), .ttl_ms = 90000, .may_open = true};
}

/* A bucket's keys for each device, each tenant once; groups of what asks for the same, options in letters. */
static void test_heartbeats(void **state) {
  (void)state;
  struct redis_call *call = new_call();
  struct record_options options = {200, STR_LIT("me"), 1000};
  struct record_item items[6] = {item_of("a", 1, "d0"), item_of("a", 1, "d1"), item_of("b", 1, "d2"),
                                 item_of("a", 1, "d3"), item_of("a", 2, "d4"), item_of("b", 1, "d5")};
  items[2].want_detail = true;
  items[3].may_open = false;
  items[4].meta_action = META_SET;
  items[4].meta = STR_LIT("{}");
  items[5].meta_action = META_REMOVE;
  items[5].want_detail = true;
  items[5].may_open = false;
  assert_status(STATUS_OK, store_record_encode(call, &target, &options, &(struct record_section){0, items, 6}, 1));
  const char *text = text_of(call);
  assert_ptr_equal(strstr(text, "*61 $7 EVALSHA " SHA " $2 30 $26 prod:presence:clock:v1:{0} "), text);
  assert_non_null(strstr(text, "$27 prod:presence:tenant:v1:{0} "
                               "$29 prod:presence:live:v1:{0}:a:1 $32 prod:presence:session:v1:{0}:a:1 "
                               "$28 prod:presence:due:v1:{0}:a:1 $29 prod:presence:meta:v1:{0}:a:1 "
                               "$29 prod:presence:live:v1:{0}:a:1 "));
  assert_non_null(strstr(text, "$29 prod:presence:meta:v1:{0}:a:1 $29 prod:presence:live:v1:{0}:b:1 "));
  assert_non_null(strstr(text,
                         "$29 prod:presence:meta:v1:{0}:b:1 " SHA " $3 200 $2 me $4 1000 $1 1 $1 2 $1 a $4 3:40 $1 b $4 3:40 "
                         "$1 5 $5 90000 $1 2 $2 d0 $2 d1 $6 90000r $1 1 $2 d2 $6 90000n $1 1 $2 d3 "
                         "$6 90000m $1 1 $2 d4 $2 {} $8 90000nrx $1 1 $2 d5 "));
  redis_call_free(call);
}

/* Of a partition only the clock and the tenants' settings, of a bucket only what a renewal touches. */
static void test_renewals(void **state) {
  (void)state;
  struct redis_call *call = new_call();
  struct record_options options = {200, STR_LIT("me"), 1000};
  struct record_item items[2] = {item_of("a", 1, "d0"), item_of("a", 2, "d1")};
  items[1].may_open = false;
  const struct record_section sections[2] = {{0, items, 2}, {3, NULL, 0}};
  assert_status(STATUS_OK, store_renew_encode(call, &target, &options, sections, 2));
  assert_string_equal(text_of(call), "*28 $7 EVALSHA " SHA " $1 8 "
                                     "$26 prod:presence:clock:v1:{0} $27 prod:presence:tenant:v1:{0} "
                                     "$29 prod:presence:live:v1:{0}:a:1 $28 prod:presence:due:v1:{0}:a:1 "
                                     "$29 prod:presence:live:v1:{0}:a:2 $28 prod:presence:due:v1:{0}:a:2 "
                                     "$26 prod:presence:clock:v1:{3} $27 prod:presence:tenant:v1:{3} " SHA
                                     " $3 200 $2 me $4 1000 $1 2 $1 1 $1 a $4 3:40 $1 2 $5 90000 $1 1 $2 d0 "
                                     "$6 90000n $1 1 $2 d1 $1 0 $1 0 ");
  redis_call_free(call);
}

static void test_long_and_short_keys(void **state) {
  (void)state;
  char env[101];
  struct redis_call *call = new_call();
  memset(env, 'e', 100);
  env[100] = '\0';
  target.env = env;
  assert_status(STATUS_OK, store_adopted_encode(call, &target, 3));
  char expected[256];
  snprintf(expected, sizeof expected, "*5 $7 EVALSHA " SHA " $1 1 $122 %s:presence:clock:v1:{3} " SHA " ", env);
  assert_string_equal(text_of(call), expected);
  redis_call_free(call);
}

static void test_fixed_run_id(void **state) {
  (void)state;
  struct redis_call *call = new_call();
  const char *run_id = "0123456789abcdef0123456789abcdef01234567";
  assert_status(STATUS_OK, store_adopt_encode(call, &target, 3, run_id, (struct session_id){1790000000000, 5}, run_id));
  assert_int_equal(call->run_id_at, 0);
  assert_non_null(strstr(text_of(call), "$40 0123456789abcdef0123456789abcdef01234567 $13 1790000000000 $1 5 "));
  redis_call_free(call);
}

static void test_limits(void **state) {
  (void)state;
  struct redis_call *call = new_call();
  struct record_options options = {0};
  static struct record_item items[STORE_ITEMS_MAX + 1];
  const struct record_section too_many[] = {{0, items, STORE_ITEMS_MAX}, {1, items, 1}};
  assert_status(STATUS_TOO_LARGE, store_record_encode(call, &target, &options, too_many, 2));
  assert_status(STATUS_TOO_LARGE, store_read_encode(call, &target, 0, 200, &items[0].tenant, NULL, STORE_ITEMS_MAX + 1));
  assert_status(STATUS_TOO_LARGE, store_expire_encode(call, &target, 0, 200, 1, NULL, STORE_ITEMS_MAX + 1));
  assert_status(STATUS_INVALID, store_trim_encode(call, &target, 0, "", NULL, 0));
  assert_status(STATUS_INVALID, store_next_encode(call, &target, 0, 200, 0));
  assert_status(STATUS_INVALID, store_stream_encode(call, &target, 0, 0));
  redis_call_free(call);
}

static bool encode_heartbeat(void *context) {
  (void)context;
  struct record_options options = {200, STR_LIT("me"), 1000};
  struct record_item item = item_of("a", 1, "d1");
  struct redis_call *call;
  if (redis_call_new(&call)) return false;
  enum status status = store_record_encode(call, &target, &options, &(struct record_section){0, &item, 1}, 1);
  redis_call_free(call);
  return status != STATUS_NO_MEMORY;
}

static void test_out_of_memory(void **state) {
  (void)state;
  static char env[] = "prod";
  target.env = env;
  assert_true(alloc_fail_sweep(encode_heartbeat, NULL) >= 2);
}

static void test_dialects(void **state) {
  (void)state;
  enum redis_dialect dialect;
  assert_status(STATUS_OK, dialect_choose(STR_LIT("native"), CONFIG_REDIS_AUTO, &dialect));
  assert_int_equal(dialect, REDIS_NATIVE);
  assert_status(STATUS_OK, dialect_choose(STR_LIT("native"), CONFIG_REDIS_COMPAT, &dialect));
  assert_int_equal(dialect, REDIS_COMPAT);
  assert_status(STATUS_OK, dialect_choose(STR_LIT("hpexpire"), CONFIG_REDIS_HPEXPIRE, &dialect));
  assert_int_equal(dialect, REDIS_HPEXPIRE);
  assert_status(STATUS_OK, dialect_choose(STR_LIT("compat"), CONFIG_REDIS_AUTO, &dialect));
  assert_int_equal(dialect, REDIS_COMPAT);
  assert_status(STATUS_REFUSED, dialect_choose(STR_LIT("hpexpire"), CONFIG_REDIS_NATIVE, &dialect));
  assert_status(STATUS_REFUSED, dialect_choose(STR_LIT("compat"), CONFIG_REDIS_HPEXPIRE, &dialect));
  assert_status(STATUS_PROTOCOL, dialect_choose(STR_LIT("else"), CONFIG_REDIS_AUTO, &dialect));
}

static void test_backoff(void **state) {
  (void)state;
  struct backoff backoff = {0};
  int64_t full = 50;
  for (int i = 0; i < 20; i++) {
    int64_t delay = backoff_next_ms(&backoff);
    assert_true(delay >= full / 2 && delay <= full);
    full = full * 2 < 2000 ? full * 2 : 2000;
  }
  backoff_reset(&backoff);
  assert_true(backoff_next_ms(&backoff) <= 50);
}

/* A reply from RESP text; hiredis's own reader. */
static redisReply *reply_of(const char *resp) {
  redisReader *reader = redisReaderCreate();
  void *reply = NULL;
  assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
  assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
  assert_non_null(reply);
  redisReaderFree(reader);
  return reply;
}

static void test_verdicts(void **state) {
  (void)state;
  static const struct {
    const char *resp;
    enum reply_verdict verdict;
    enum status status;
  } cases[] = {
      {"*1\r\n$2\r\nok\r\n", REPLY_FINE, STATUS_OK},
      {"*1\r\n$12\r\ninitialising\r\n", REPLY_INITIALISING, STATUS_INITIALISING},
      {"*0\r\n", REPLY_FINE, STATUS_OK},
      {"-NOSCRIPT No matching script.\r\n", REPLY_NOSCRIPT, STATUS_PROTOCOL},
      {"-READONLY You can't write against a read only replica.\r\n", REPLY_NOT_PRIMARY, STATUS_CLOSED},
      {"-LOADING Redis is loading the dataset in memory\r\n", REPLY_NOT_PRIMARY, STATUS_CLOSED},
      {"-MASTERDOWN Link with MASTER is down\r\n", REPLY_NOT_PRIMARY, STATUS_CLOSED},
      {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", REPLY_BUSY, STATUS_UNAVAILABLE},
      {"-MISCONF Errors writing to the AOF file\r\n", REPLY_BUSY, STATUS_UNAVAILABLE},
      {"-BUSY Redis is busy running a script.\r\n", REPLY_BUSY, STATUS_UNAVAILABLE},
      {"-BUSYKEY other\r\n", REPLY_ERROR, STATUS_PROTOCOL},
      {"-ERR wrong\r\n", REPLY_ERROR, STATUS_PROTOCOL},
      {"-\r\n", REPLY_ERROR, STATUS_PROTOCOL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    redisReply *reply = reply_of(cases[i].resp);
    assert_int_equal(reply_judge(reply), cases[i].verdict);
    assert_status(cases[i].status, reply_verdict_status(cases[i].verdict));
    freeReplyObject(reply);
  }
}

static void test_record_replies_that_are_wrong(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "+OK\r\n",
      "*0\r\n", /* no such section */
      "*1\r\n+OK\r\n",
      "*1\r\n-WRONGTYPE Operation against a key\r\n",
      "*1\r\n*1\r\n$2\r\nok\r\n",
      "*1\r\n*4\r\n$2\r\nko\r\n:1\r\n:0\r\n$1\r\n0\r\n",
      "*1\r\n*5\r\n$2\r\nok\r\n:1\r\n:0\r\n$2\r\n00\r\n*0\r\n",                                   /* codes for two */
      "*1\r\n*5\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\n7\r\n*0\r\n",                                    /* no such code */
      "*1\r\n*5\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\nA\r\n*0\r\n",                                    /* the detail is missing */
      "*1\r\n*6\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\n0\r\n*0\r\n*0\r\n",                              /* one too many */
      "*1\r\n*6\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\nD\r\n*0\r\n*3\r\n$3\r\n1-0\r\n:1\r\n$0\r\n\r\n", /* no session to tell of */
      "*1\r\n*6\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\nA\r\n*0\r\n*3\r\n$1\r\n1\r\n:1\r\n$0\r\n\r\n",   /* no session id */
      "*1\r\n*5\r\n$2\r\nok\r\n$1\r\nx\r\n:0\r\n$1\r\n0\r\n*0\r\n",
      "*1\r\n*5\r\n$2\r\nok\r\n:1\r\n:0\r\n$1\r\n0\r\n*1\r\n:1\r\n", /* a field reply without its number */
  };
  struct record_reply head;
  struct record_outcome outcome;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    redisReply *reply = reply_of(wrong[i]);
    assert_status(STATUS_PROTOCOL, store_record_decode(reply, 0, 1, &head, &outcome));
    freeReplyObject(reply);
  }
  redisReply *reply = reply_of("*1\r\n*5\r\n$2\r\nok\r\n:7\r\n:0\r\n$0\r\n\r\n*0\r\n"); /* all renewed */
  assert_status(STATUS_OK, store_record_decode(reply, 0, 1, &head, &outcome));
  assert_int_equal(outcome.code, RECORD_RENEWED);
  freeReplyObject(reply);
  reply = reply_of(
      "*1\r\n*6\r\n$2\r\nok\r\n:7\r\n:-3\r\n$1\r\nB\r\n*4\r\n:1\r\n:3\r\n:-2\r\n:1\r\n*3\r\n$3\r\n5-1\r\n:4\r\n$2\r\n{}\r\n");
  assert_status(STATUS_OK, store_record_decode(reply, 0, 1, &head, &outcome));
  assert_int_equal(head.now_ms, 7);
  assert_int_equal(head.deaf_ms, -3);
  assert_int_equal(head.field_replies[FIELD_SET], 3);
  assert_int_equal(head.field_replies[FIELD_MISSING], 1);
  assert_int_equal(head.field_replies[FIELD_DELETED], 0);
  assert_int_equal(outcome.code, RECORD_OPENED);
  assert_int_equal(outcome.session.ms, 5);
  assert_int_equal(outcome.session.seq, 1);
  assert_int_equal(outcome.online_since_ms, 4);
  assert_true(str_equal(outcome.meta, STR_LIT("{}")));
  freeReplyObject(reply);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_bucket_keys_in_parts),
      cmocka_unit_test(test_bucket_members),
      cmocka_unit_test(test_tick),
      cmocka_unit_test(test_heartbeats),
      cmocka_unit_test(test_renewals),
      cmocka_unit_test(test_long_and_short_keys),
      cmocka_unit_test(test_fixed_run_id),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_dialects),
      cmocka_unit_test(test_backoff),
      cmocka_unit_test(test_verdicts),
      cmocka_unit_test(test_record_replies_that_are_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
