-- recount.lua: sets a tenant's count in the partition to what the facts say.
--
--   KEYS[1..4]  clock, count, recount, tenant
--   KEYS[5..]   session (the facts) of every bucket that the tenant has in the partition; may be none
--   ARGV[1]     run_id
--   ARGV[2]     tenant
--   ARGV[3]     "generation:buckets"
--   ARGV[4]     'repair' or 'report': write nothing
--
-- Reply: {'initialising'}, {'stale'} or {'ok', count as it was, open sessions}
--
-- One script over all buckets, since sessions open and close all the time: a sum taken in parts would belong to no instant and the
-- correction would itself be drift. HLEN of the facts is exact, as they never expire (HLEN of `live` counts fields that are over),
-- and costs the same however many devices there are: 4096 buckets take about 4 ms, which is the limit on a tenant's buckets.
local tenant = ARGV[2]
if is_stale(call('HGET', KEYS[4], tenant), ARGV[3]) then return {'stale'} end
local open = 0
for k = 5, #KEYS do open = open + call('HLEN', KEYS[k]) end
local stored = call('HGET', KEYS[2], tenant)
local count = tonumber(stored or 0) or 0
if ARGV[4] == 'repair' then
  if stored ~= tostring(open) and (stored or open > 0) then call('HSET', KEYS[2], tenant, open) end
  call('HSET', KEYS[3], tenant, text(now) .. ',' .. text(count - open))
end
return {'ok', count, open}
