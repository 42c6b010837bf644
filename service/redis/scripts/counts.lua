-- counts.lua: open sessions in the partition.
--
--   KEYS[1..3]  clock, count, recount (field: tenant; value: "when it was last compared,the difference found")
--   ARGV[1]     run_id
--   ARGV[2]     a tenant, or nothing for all
--
-- Reply: {'initialising'}, {'ok', open sessions, now, last compared or '', difference} or
--   {'ok', {tenant, open sessions, tenant, ...}}
if ARGV[2] then
  local compared, drift = (call('HGET', KEYS[3], ARGV[2]) or ''):match('^(%d+),(%-?%d+)$')
  return {'ok', tonumber(call('HGET', KEYS[2], ARGV[2]) or 0), now, compared or '', tonumber(drift or 0)}
end
return {'ok', call('HGETALL', KEYS[2])}
