-- compare_due.lua: a step of the walk that compares facts, due and next in some buckets of a tenant.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7..]   per bucket: live, session, due, meta
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms
--   ARGV[3]     tenant
--   ARGV[4]     "generation:buckets"
--   ARGV[5]     'repair' or 'report': write nothing
--   ARGV[6..7]  where the step before stopped in the first bucket: 'facts' or 'due', cursor of HSCAN or ZSCAN; at first 'facts', 0
--   ARGV[8]     work after which to stop at the next page, in members looked at
--
-- Reply: {'initialising'}, {'stale'} or {'ok', buckets finished, 'facts' or 'due', cursor, found: four numbers}
--
-- What is found, and what is done about it:
--   1 a live field without facts   the facts come back: both fields hold the same value as long as there are both. Heartbeats that
--                                  only renew do not look at the facts, so this does not heal by itself
--   2 a due member without either  an orphan, removed as the detector does. The row in PostgreSQL may still say online: the audit
--                                  restores such a session, the next heartbeat closes it
--   3 facts without due            such a session would never end. Where the live field counts, its expiry is the deadline. Else it
--                                  gets a whole ttl of listening from now on, since nobody knows how much of it has passed: late,
--                                  never early. last_seen is then lost, as after a rebuild, so that nobody is told a time we made up
--   4 due later than in next       a bound that is missing or too high: the detector would not look in time
-- The count is not touched: whether it holds a session whose facts were lost depends on when; the recount after the walk sets it.
local repair, phase, cursor, most = ARGV[5] == 'repair', ARGV[6], ARGV[7], tonumber(ARGV[8])
presence_time()
if is_stale(call('HGET', KEYS[6], ARGV[3]), ARGV[4]) then return {'stale'} end
local work, found = 0, {0, 0, 0, 0}

local function give_deadline(k, device, session)
  local value, expiry = live_look(KEYS[k], KEYS[k + 2], device)
  local score
  if on_clock(value) and expiry >= now then
    score = expiry - P
  else
    score = L + session.ttl
    session.paused = P
    call('HSET', KEYS[k + 1], device, value_of(session) .. '?')
    call('HDEL', KEYS[k], device)
  end
  call('ZADD', KEYS[k + 2], score, device)
  lower_next(k, score)
end

-- The device's facts are missing, or nobody can read them.
local function without_facts(k, device)
  local value = call('HGET', KEYS[k], device)
  local kind = value and parse(value) and 1 or 2
  found[kind] = found[kind] + 1
  if repair and kind == 1 then
    call('HSET', KEYS[k + 1], device, value)
  elseif repair then
    for _, key in ipairs({KEYS[k], KEYS[k + 1], KEYS[k + 3]}) do call('HDEL', key, device) end
    call('ZREM', KEYS[k + 2], device)
  end
end

-- One page each; true where every member had its counterpart.
local function compare_facts(k)
  local page = call('HSCAN', KEYS[k + 1], cursor, 'COUNT', 100)
  local fields, all = page[2], true
  cursor = page[1]
  for i = 1, #fields, 2 do
    local session = parse(fields[i + 1])
    if not session then
      all = false
      without_facts(k, fields[i])
    elseif not call('ZSCORE', KEYS[k + 2], fields[i]) then
      all = false
      found[3] = found[3] + 1
      if repair then give_deadline(k, fields[i], session) end
    end
  end
  work = work + 1 + #fields / 2
  return all
end

local function compare_due(k)
  local page = call('ZSCAN', KEYS[k + 2], cursor, 'COUNT', 100)
  local scored = page[2]
  cursor = page[1]
  for i = 1, #scored, 2 do
    if call('HEXISTS', KEYS[k + 1], scored[i]) == 0 then without_facts(k, scored[i]) end
  end
  work = work + 1 + #scored / 2
end

local function compare_next(k)
  local earliest = tonumber(call('ZRANGE', KEYS[k + 2], 0, 0, 'WITHSCORES')[2])
  local bound = tonumber(call('ZSCORE', KEYS[2], (place(k))) or nil)
  if earliest and (not bound or bound > earliest) then
    found[4] = found[4] + 1
    if repair then lower_next(k, earliest) end
  end
end

local k = 7
while k <= #KEYS and work < most do
  if phase == 'facts' then
    local whole, all = cursor == '0', compare_facts(k)
    if cursor == '0' then
      -- All facts seen at one instant with their deadlines, and as many deadlines: there is nothing else in due.
      local same = whole and all and call('HLEN', KEYS[k + 1]) == call('ZCARD', KEYS[k + 2])
      phase = same and 'next' or 'due'
    end
  elseif phase == 'due' then
    compare_due(k)
    if cursor == '0' then phase = 'next' end
  end
  if phase == 'next' then
    compare_next(k)
    k, phase = k + 4, 'facts'
  end
end
return {'ok', (k - 7) / 4, phase, cursor, unpack(found)}
