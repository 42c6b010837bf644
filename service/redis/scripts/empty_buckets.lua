-- empty_buckets.lua: a step of taking a deleted tenant out of the partition.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7]     recount
--   KEYS[8..]   per bucket: live, session, due, meta; may be none
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms
--   ARGV[3]     tenant
--   ARGV[4]     "generation:buckets" of the deletion: newer than any process has
--   ARGV[5]     at most so many sessions are closed
--   ARGV[6]     'last': also forget the tenant's count; 'more' otherwise
--
-- Reply: {'initialising'}, {'stale'} or {'ok', buckets emptied, sessions closed, entries in the stream, id of its newest entry or ''}
--
-- The generation goes into `tenant` first and stays there: whoever has older settings is refused from now on, also a process that
-- cannot reach PostgreSQL and does not know of the deletion. Open sessions end as by a disconnect, so that consumers see every device
-- of the tenant go; an end that nobody had looked at is told as the timeout it is. UNLINK frees memory in the background.
local tenant, most = ARGV[3], tonumber(ARGV[5])
presence_time()
local stored = call('HGET', KEYS[6], tenant)
if is_stale(stored, ARGV[4]) then return {'stale'} end
if stored ~= ARGV[4] then call('HSET', KEYS[6], tenant, ARGV[4]) end

local closed = 0
local function close_session(k, device, session)
  local score = score_of(k, device)
  local is_over = not on_clock((live_look(KEYS[k], KEYS[k + 2], device))) and not lives_by(score)
  close(k, device, session, score, is_over and 'timeout' or 'disconnect')
  closed = closed + 1
end

-- True when no facts are left.
local function close_some(k)
  local cursor = '0'
  repeat
    local page = call('HSCAN', KEYS[k + 1], cursor, 'COUNT', most - closed)
    local fields = page[2]
    cursor = page[1]
    for i = 1, #fields, 2 do
      if closed == most then return false end
      local session = parse(fields[i + 1])
      if session then
        close_session(k, fields[i], session)
      else
        call('HDEL', KEYS[k + 1], fields[i])
      end
    end
  until cursor == '0' or closed == most
  return call('HLEN', KEYS[k + 1]) == 0
end

local k = 8
while k <= #KEYS and closed < most and close_some(k) do
  call('UNLINK', KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3])
  call('ZREM', KEYS[2], (place(k)))
  k = k + 4
end
if ARGV[6] == 'last' then
  call('HDEL', KEYS[5], tenant)
  call('HDEL', KEYS[7], tenant)
end
local newest = call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
return {'ok', (k - 8) / 4, closed, call('XLEN', KEYS[3]), newest and newest[1] or ''}
