-- expire_due.lua: the detector's step. Closes what is over in a few buckets from the head of `next`. Finding, checking and removing
-- are one script, so that a device that was renewed meanwhile cannot be hit.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7..]   per bucket: live, session, due, meta
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms
--   ARGV[3]     at most so many members a bucket
--
-- Reply: {'initialising'} or {'ok', now, L, cutoff, closed, orphans, listeners, dropped listeners, more, lags}; more is 1 where some
-- bucket still has members that are due; lags: for each closed session the ms on the presence clock from its deadline to now.
local per_bucket = tonumber(ARGV[3])
presence_time()
local cutoff, listeners, silent = find_cutoff()
if #silent > 0 then call('HDEL', KEYS[1], unpack(silent)) end

local lags, orphans, more = {}, 0, 0
for k = 7, #KEYS, 4 do
  local due = KEYS[k + 2]
  local found = call('ZRANGEBYSCORE', due, '-inf', '(' .. text(cutoff), 'WITHSCORES', 'LIMIT', 0, per_bucket)
  local facts, over = {}, {}
  if #found > 0 then
    local devices = {}
    for i = 1, #found, 2 do devices[#devices + 1] = found[i] end
    facts = call('HMGET', KEYS[k + 1], unpack(devices))
  end
  for n = 1, #facts do
    local device, score = found[2 * n - 1], tonumber(found[2 * n])
    local session = facts[n] and parse(facts[n])
    if session then
      over[#over + 1] = {device, session, score}
      lags[#lags + 1] = L - score
    else
      call('ZREM', due, device)
      for _, key in ipairs({KEYS[k], KEYS[k + 1], KEYS[k + 3]}) do call('HDEL', key, device) end
      orphans = orphans + 1
    end
  end
  if #over > 0 then close_all(k, over, 'timeout') end
  local earliest = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  if earliest then
    call('ZADD', KEYS[2], earliest, (place(k)))
    if tonumber(earliest) < cutoff then more = 1 end
  else
    call('ZREM', KEYS[2], (place(k)))
  end
end
return {'ok', now, L, cutoff, #lags, orphans, listeners, #silent, more, lags}
