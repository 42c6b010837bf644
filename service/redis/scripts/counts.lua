-- counts.lua: open sessions in the partition.
--
--   KEYS[1..2]  clock, count
--   ARGV[1]     run_id
--   ARGV[2]     a tenant, or nothing for all
--
-- Reply: {'initialising'}, {'ok', open sessions} or {'ok', {tenant, open sessions, tenant, ...}}
if ARGV[2] then return {'ok', tonumber(call('HGET', KEYS[2], ARGV[2]) or 0)} end
return {'ok', call('HGETALL', KEYS[2])}
