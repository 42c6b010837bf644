#include "support/unit.h"

#include "hash.h"

/* Reference values of the XXH64 specification's own implementation (xxhsum -H64). */
static void device_hash_is_xxh64_with_seed_0(void **state) {
  (void)state;
  assert_true(hash_device(STR_LIT("")) == UINT64_C(0xEF46DB3751D8E999));
  assert_true(hash_device(STR_NONE) == UINT64_C(0xEF46DB3751D8E999));
  assert_true(hash_device(STR_LIT("a")) == UINT64_C(0xD24EC4F1A98C6E5B));
  assert_true(hash_device(STR_LIT("abc")) == UINT64_C(0x44BC2CF5AD770999));
  assert_true(hash_device(STR_LIT("Nobody inspects the spammish repetition")) == UINT64_C(0xFBCEA83C8A378BF1));
}

/* FIPS 180-4 examples. */
static void sha256_known_answers(void **state) {
  (void)state;
  static const struct {
    const char *text, *digest;
  } cases[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
               {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
               {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t digest[HASH_SHA256_BYTES];
    char text[2 * HASH_SHA256_BYTES];
    assert_status(STATUS_OK, hash_sha256(str_from(cases[i].text), digest));
    hex_encode(digest, sizeof digest, text);
    assert_memory_equal(text, cases[i].digest, sizeof text);
  }
}

static void equal_ct_sees_every_bit(void **state) {
  (void)state;
  uint8_t a[32] = {0}, b[32] = {0};
  assert_true(hash_equal_ct(a, b, sizeof a));
  for (int bit = 0; bit < 256; bit++) {
    b[bit / 8] = (uint8_t)(1 << bit % 8);
    assert_false(hash_equal_ct(a, b, sizeof a));
    b[bit / 8] = 0;
  }
}

static void hex_both_ways(void **state) {
  (void)state;
  uint8_t all[256], back[256];
  char text[512];
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  hex_encode(all, sizeof all, text);
  assert_memory_equal(text, "000102", 6);
  assert_memory_equal(text + 506, "fdfeff", 6);
  assert_status(STATUS_OK, hex_decode((struct str){text, sizeof text}, back, sizeof back));
  assert_memory_equal(all, back, sizeof all);
  assert_status(STATUS_OK, hex_decode(STR_LIT("aAfF"), back, 2));
  assert_int_equal(back[0], 0xAA);
  assert_int_equal(back[1], 0xFF);
  assert_status(STATUS_OK, hex_decode(STR_NONE, back, 0));
  static const char *const bad[] = {"", "aaa", "aaaaa", "aaaaaa", "gggg", "aa/a", "aa:a", "aa@a", "aaGa", "aa`a", "aa a", "0x00"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, hex_decode(str_from(bad[i]), back, 2));
}

static void random_bytes_differ(void **state) {
  (void)state;
  uint8_t a[32] = {0}, b[32] = {0};
  uint8_t large[1000] = {0};
  assert_status(STATUS_OK, random_bytes(a, sizeof a));
  assert_status(STATUS_OK, random_bytes(b, sizeof b));
  assert_memory_not_equal(a, b, sizeof a);
  assert_status(STATUS_OK, random_bytes(large, sizeof large)); /* over 256 bytes getrandom may return less than asked */
  assert_memory_not_equal(large + 900, (uint8_t[100]){0}, 100);
  assert_status(STATUS_OK, random_bytes(a, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_hash_is_xxh64_with_seed_0),
      cmocka_unit_test(sha256_known_answers),
      cmocka_unit_test(equal_ct_sees_every_bit),
      cmocka_unit_test(hex_both_ways),
      cmocka_unit_test(random_bytes_differ),
  };
  return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
