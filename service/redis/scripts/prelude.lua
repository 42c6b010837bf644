-- prelude.lua: stands before every script but adopt, lease and served. After it partition.lua reads the clock, and stops where the
-- server is not adopted; only calls about several partitions (sections.lua) do that by themselves.
--
--   KEYS[1]  clock
--   ARGV[1]  run_id of the server that the caller talks to; in rebuild the token it is rebuilt under
--   ARGV[2]  outage_ms, in the scripts that call presence_time()
--
-- Two clocks. `now` is Redis's wall clock, read once. L, the presence clock, is now - P, where P ("paused") is the sum of all
-- intervals in which nobody could record a heartbeat, and of all steps of the wall clock. L runs only while the service hears, and
-- does not jump: whatever happened between two marks that lie more than outage_ms apart is added to P by the second of them. A
-- deadline is last_seen + ttl on the wall clock; its place on the presence clock, the score, is what decides.
--
-- "Alive" (P9) is one rule for all scripts:
--   a live field counts only if the P in its value is the clock's P: then its expiry and the score say the same;
--   in every other case the score decides: alive while score >= L.
--
-- Arguments are checked before the first write, since an error undoes nothing. Times are whole milliseconds: Lua's doubles hold
-- them exactly; string.format('%.0f') writes them exactly, and redis.call does so by itself.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are cheaper to reach

local function text(number) return string.format('%.0f', number) end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at = 0 -- the keys of the partition at hand stand behind KEYS[at]
local run_id, seen, P, L, outage, mark

-- The partition's clock, with the mark of that name; false where the server is not adopted.
local function read_clock(name)
  local clock = call('HMGET', KEYS[at + 1], 'run_id', 'ingest_seen', 'paused', name or '')
  if clock[1] ~= ARGV[1] and call('HGET', KEYS[at + 1], 'rebuild') ~= ARGV[1] then return false end
  run_id, seen, P, mark = clock[1], tonumber(clock[2]), tonumber(clock[3]), tonumber(clock[4])
  return true
end

-- Sets L for a script that only looks. Within outage_ms after the last mark we were listening until now; later than that we only
-- know what was until the mark. After a step back L lies back too: nothing is over that was not over then.
local function presence_time()
  outage = tonumber(ARGV[2])
  L = (now - seen > outage and seen or now) - P
end

-- Is `mine` ("generation:buckets" of the caller's settings) older than what the partition has seen of this tenant?
local function is_stale(stored, mine)
  return stored and stored ~= mine and tonumber(stored:match('^%d+')) > tonumber(mine:match('^%d+'))
end
