/* Where the partitions lie: slots of keys, and the answers of cluster nodes and Sentinels, also such as should not be. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster.h"
#include "redis/sentinel.h"
#include "redis/slot.h"
#include "support/alloc_fail.h"

static void test_slots(void **state) {
  (void)state;
  assert_int_equal(slot_crc16(STR_LIT("123456789")), 0x31c3); /* the check value of CRC-16/XMODEM */
  static const struct {
    const char *key;
    int slot;
  } cases[] = {/* as CLUSTER KEYSLOT says */
               {"foo", 12182},
               {"bar", 5061},
               {"foo{bar}{zap}", 5061},
               {"{user1000}.following", 3443},
               {"user1000", 3443},
               {"foo{}{bar}", 8363},
               {"foo{{bar}}zap", 4015},
               {"{bar", 4015},
               {"prod:presence:live:v1:{3}:t42:7", 1584},
               {"3", 1584},
               {"", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (slot_of(str_from(cases[i].key)) != cases[i].slot) {
      fail_msg("slot of %s: %d, not %d", cases[i].key, slot_of(str_from(cases[i].key)), cases[i].slot);
    }
  }
}

static redisReply *parse(const char *text) {
  redisReader *reader = redisReaderCreate();
  void *reply = NULL;
  assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
  assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
  assert_non_null(reply);
  redisReaderFree(reader);
  return reply;
}

#define NODE(host, port) "*4\r\n" host ":" port "\r\n$1\r\nx\r\n*0\r\n"
#define RANGE(first, last, node) "*3\r\n:" first "\r\n:" last "\r\n" node

static const uint16_t slots[] = {0, 8191, 8192, 16383};

static enum status read_slots(const char *text, struct redis_map **map) {
  redisReply *reply = parse(text);
  enum status status = cluster_read(reply, STR_LIT("asked"), slots, 4, map);
  freeReplyObject(reply);
  return status;
}

static void test_cluster_of_two(void **state) {
  (void)state;
  struct redis_map *map;
  assert_status(STATUS_OK,
                read_slots("*3\r\n" RANGE("0", "8190", NODE("$1\r\na\r\n", "1")) RANGE("8191", "8192", NODE("$3\r\n::1\r\n", "2"))
                               RANGE("16383", "16383", NODE("$1\r\na\r\n", "1")),
                           &map));
  assert_int_equal(map->count, 2);
  assert_string_equal(map->servers[0].text, "a:1");
  assert_string_equal(map->servers[1].text, "[::1]:2");
  const int expected[] = {0, 1, 1, 0};
  assert_memory_equal(map->server_of, expected, sizeof expected);
  map_free(map);
}

static void test_slots_that_nobody_has(void **state) {
  (void)state;
  struct redis_map *map;
  assert_status(STATUS_OK, read_slots("*1\r\n" RANGE("1", "8191", NODE("$1\r\na\r\n", "1")), &map));
  const int expected[] = {MAP_NOBODY, 0, MAP_NOBODY, MAP_NOBODY};
  assert_memory_equal(map->server_of, expected, sizeof expected);
  map_free(map);
  assert_status(STATUS_OK, read_slots("*0\r\n", &map));
  assert_int_equal(map->count, 0);
  map_free(map);
}

/* The three ways to name no host. */
static void test_nodes_without_a_name(void **state) {
  (void)state;
  struct redis_map *map;
  assert_status(STATUS_OK,
                read_slots("*3\r\n" RANGE("0", "8191", NODE("$-1\r\n", "1")) RANGE("8192", "8192", NODE("$0\r\n\r\n", "2"))
                               RANGE("16383", "16383", NODE("$1\r\n?\r\n", "3")),
                           &map));
  assert_int_equal(map->count, 2);
  assert_string_equal(map->servers[0].text, "asked:1");
  assert_string_equal(map->servers[1].text, "asked:2");
  assert_int_equal(map->server_of[3], MAP_NOBODY);
  map_free(map);
}

static void test_answers_that_should_not_be(void **state) {
  (void)state;
  static const char *const answers[] = {
      "$2\r\nno\r\n",
      "-ERR This instance has cluster support disabled\r\n",
      "*1\r\n$2\r\nno\r\n",
      "*1\r\n*2\r\n:0\r\n:1\r\n",
      "*1\r\n*-1\r\n",
      "*1\r\n" RANGE("-1", "1", NODE("$1\r\na\r\n", "1")),
      "*1\r\n" RANGE("0", "16384", NODE("$1\r\na\r\n", "1")),
      "*1\r\n" RANGE("2", "1", NODE("$1\r\na\r\n", "1")),
      "*1\r\n" RANGE("0", "9", "*1\r\n$1\r\na\r\n"),
      "*1\r\n" RANGE("0", "9", "*2\r\n:1\r\n:1\r\n"),
      "*1\r\n" RANGE("0", "9", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
      "*1\r\n" RANGE("0", "9", NODE("$1\r\na\r\n", "0")),
      "*1\r\n" RANGE("0", "9", NODE("$1\r\na\r\n", "65536")),
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    struct redis_map *map;
    assert_status(STATUS_PROTOCOL, read_slots(answers[i], &map));
    assert_null(map);
  }
}

/* A name longer than any, and more ranges than there are slots. */
static void test_answers_that_are_too_large(void **state) {
  (void)state;
  struct redis_map *map;
  char text[1024];
  snprintf(text, sizeof text, "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$300\r\n%0300d\r\n:1\r\n", 0);
  assert_status(STATUS_PROTOCOL, read_slots(text, &map));
  redisReply **elements = calloc(SLOT_COUNT + 1, sizeof *elements);
  assert_non_null(elements);
  redisReply many = {.type = REDIS_REPLY_ARRAY, .elements = SLOT_COUNT + 1, .element = elements};
  assert_status(STATUS_PROTOCOL, cluster_read(&many, STR_LIT("asked"), slots, 4, &map)); /* not even looked into */
  free(elements);
}

static void test_sentinels(void **state) {
  (void)state;
  static const struct {
    const char *answer;
    enum status status;
  } cases[] = {
      {"*2\r\n$3\r\n::1\r\n$4\r\n6379\r\n", STATUS_OK},
      {"*-1\r\n", STATUS_UNAVAILABLE},
      {"*0\r\n", STATUS_PROTOCOL},
      {"*2\r\n$1\r\na\r\n:6379\r\n", STATUS_PROTOCOL},
      {"*2\r\n$1\r\na\r\n$1\r\n0\r\n", STATUS_PROTOCOL},
      {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", STATUS_PROTOCOL},
      {"*3\r\n$1\r\na\r\n$4\r\n6379\r\n$1\r\nx\r\n", STATUS_PROTOCOL},
      {"$1\r\na\r\n", STATUS_PROTOCOL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    redisReply *reply = parse(cases[i].answer);
    struct redis_map *map;
    assert_status(cases[i].status, sentinel_read(reply, 3, &map));
    freeReplyObject(reply);
    if (cases[i].status == STATUS_OK) {
      assert_int_equal(map->count, 1);
      assert_string_equal(map->servers[0].text, "[::1]:6379");
      for (uint32_t p = 0; p < 3; p++) assert_int_equal(map->server_of[p], 0);
    } else {
      assert_null(map);
    }
    map_free(map);
  }
}

static bool try_to_read(void *context) {
  struct redis_map *map;
  enum status status = cluster_read(context, STR_LIT("asked"), slots, 4, &map);
  map_free(map);
  return status == STATUS_OK;
}

static void test_allocations_that_fail(void **state) {
  (void)state;
  redisReply *reply = parse("*1\r\n" RANGE("0", "16383", NODE("$1\r\na\r\n", "1")));
  assert_true(alloc_fail_sweep(try_to_read, reply) > 2);
  freeReplyObject(reply);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_cluster_of_two),
      cmocka_unit_test(test_slots_that_nobody_has),
      cmocka_unit_test(test_nodes_without_a_name),
      cmocka_unit_test(test_answers_that_should_not_be),
      cmocka_unit_test(test_answers_that_are_too_large),
      cmocka_unit_test(test_sentinels),
      cmocka_unit_test(test_allocations_that_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
