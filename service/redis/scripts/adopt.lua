-- adopt.lua: makes a server usable: its run_id goes into `clock`, so that the other scripts answer.
--
--   KEYS[1..2]  clock, transitions
--   ARGV[1]     run_id of the server as it was before the floor was read
--   ARGV[2..3]  floor: ms and seq of the highest session that PostgreSQL knows in the partition; 0, 0 for none
--   ARGV[4]     token: what the caller rebuilds an empty server under
--
-- Reply: {'initialising'} where the server is not that one, or {'ok', outcome}:
--   0 it was adopted already
--   1 adopted
--   2 it is empty, or a rebuild of it stopped half-way: the caller holds the token and rebuilds it (rebuild.lua), which adopts it
--   3 another caller rebuilds it; its token is free REBUILD_IDLE_MS after its last step
--
-- The stream's last id is raised to the floor, never lowered: new sessions are then later than all that PostgreSQL knows. An entry
-- added with that id and deleted again does it on every server, stream or no stream; XSETID needs a stream.
-- The time since the old server's last mark is not counted here: the first mark finds it as a gap. P moves on by 1 ms all the same,
-- however short the gap: renewals of the live view are in no file and on no replica, so that here its expiry may lie before the
-- score. Under another P it counts for nothing.
local REBUILD_IDLE_MS = 3000

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local floor_ms, floor_seq, token = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

if call('INFO', 'server'):match('run_id:(%x+)') ~= ARGV[1] then return {'initialising'} end
local clock = call('HMGET', KEYS[1], 'run_id', 'ingest_seen', 'rebuild', 'rebuild_step')
if clock[1] == ARGV[1] then return {'ok', 0} end

local last_ms, last_seq = 0, 0
if call('EXISTS', KEYS[2]) == 1 then
  local info = call('XINFO', 'STREAM', KEYS[2])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local ms, seq = info[i + 1]:match('^(%d+)-(%d+)$')
      last_ms, last_seq = tonumber(ms), tonumber(seq)
    end
  end
end
if floor_ms > last_ms or floor_ms == last_ms and floor_seq > last_seq then
  local id = ARGV[2] .. '-' .. ARGV[3]
  call('XADD', KEYS[2], id, 'type', 'floor')
  call('XDEL', KEYS[2], id)
end

if clock[2] and not clock[3] then
  call('HINCRBY', KEYS[1], 'paused', 1)
  call('HSET', KEYS[1], 'run_id', ARGV[1], 'adopted', now)
  return {'ok', 1}
end
if clock[3] and clock[3] ~= token and math.abs(now - clock[4]) <= REBUILD_IDLE_MS then return {'ok', 3} end
-- The clock first: what is rebuilt stands on it.
if not clock[2] then call('HSET', KEYS[1], 'ingest_seen', now, 'paused', 0) end
call('HSET', KEYS[1], 'rebuild', token, 'rebuild_step', now)
return {'ok', 2}
