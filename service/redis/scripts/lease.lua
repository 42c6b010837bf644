-- lease.lua: which worker serves a partition. It shares work out; nothing depends on it. Works on a server not adopted yet.
--
--   KEYS[1..2]  clock, lease
--   ARGV[1]     run_id (not looked at)
--   ARGV[2]     worker
--   ARGV[3]     lease_ms
--   ARGV[4]     'take' (or keep), 'mark' (only say that this worker lives), 'give up'
--
-- Reply: {'ok', 1 where the lease is this worker's, live workers}. A worker is live while its mark (field "w:<worker>" of clock, wall
-- time) is at most lease_ms away: a dead worker's marks end with its leases, so that the others' fair shares grow at once. A mark
-- from the future, after a step back of the clock, is as old as one from the past.
local call = redis.call
local worker, lease_ms, wish = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local mine = call('GET', KEYS[2]) == worker
if wish == 'give up' then
  if mine then call('DEL', KEYS[2]) end
  mine = false
  call('HDEL', KEYS[1], 'w:' .. worker)
else
  if wish == 'take' and mine then
    call('PEXPIRE', KEYS[2], lease_ms)
  elseif wish == 'take' then
    mine = call('SET', KEYS[2], worker, 'NX', 'PX', lease_ms) and true
  end
  call('HSET', KEYS[1], 'w:' .. worker, now)
end

local workers = 0
local fields = call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i]:sub(1, 2) == 'w:' then
    if math.abs(now - fields[i + 1]) > lease_ms then
      call('HDEL', KEYS[1], fields[i])
    else
      workers = workers + 1
    end
  end
end
return {'ok', mine and 1 or 0, workers}
