/* store_server.c: lease, served, adopt, adopted: what concerns a partition as a whole. */
#include "store_common.h"

enum status store_lease_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, struct str worker,
                               int64_t lease_ms, enum lease_wish wish) {
  static const struct str wishes[] = {
      [LEASE_TAKE_OR_KEEP] = {"take", 4}, [LEASE_ONLY_MARK] = {"mark", 4}, [LEASE_GIVE_UP] = {"give up", 7}};
  call_begin(call, SCRIPT_LEASE, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_LEASE, partition);
  call_run_id(call, NULL);
  call_str(call, worker);
  call_int(call, lease_ms);
  call_str(call, wishes[wish]);
  return call_end(call);
}

enum status store_lease_decode(const redisReply *reply, struct lease_result *result) {
  int64_t mine;
  if (!reply_is_ok(reply, 3)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &mine);
  if (!status) status = store_int_at(reply, 2, &result->workers);
  if (!status) result->mine = mine != 0;
  return status;
}

enum status store_served_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  call_begin(call, SCRIPT_SERVED, 1);
  call_partition_key(call, target, PARTITION_LEASE, partition);
  call_run_id(call, NULL);
  return call_end(call);
}

enum status store_served_decode(const redisReply *reply, bool *served) {
  int64_t number;
  if (!reply_is_ok(reply, 2)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &number);
  if (!status) *served = number != 0;
  return status;
}

enum status store_adopt_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, const char *run_id,
                               struct session_id floor, const char *token) {
  call_begin(call, SCRIPT_ADOPT, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_TRANSITIONS, partition);
  call_run_id(call, run_id);
  call_int(call, floor.ms);
  call_int(call, floor.seq);
  call_str(call, (struct str){token, STORE_TOKEN_LEN});
  return call_end(call);
}

enum status store_adopt_decode(const redisReply *reply, enum adopt_outcome *outcome) {
  int64_t number;
  if (!reply_is_ok(reply, 2)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &number);
  if (status) return status;
  if (number < ADOPT_ALREADY || number > ADOPT_BUSY) return STATUS_PROTOCOL;
  *outcome = (enum adopt_outcome)number;
  return STATUS_OK;
}

enum status store_adopted_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  call_begin(call, SCRIPT_ADOPTED, 1);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_run_id(call, NULL);
  return call_end(call);
}
