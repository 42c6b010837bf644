-- read_devices.lua: what Redis knows of some devices of one tenant at this instant. Writes nothing.
--
--   KEYS[1..3]  clock, closed, tenant
--   KEYS[4..]   per touched bucket: live, session, due, meta
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms
--   ARGV[3]     tenant
--   ARGV[4]     "generation:buckets"
--   then per device: index in KEYS of its bucket's first key, device
--
-- Reply: {'initialising'}, {'stale'} or {'ok', now, item, item, ...}. An item is 0 (nothing known here: the row decides) or
--   {state, session, start, last_seen or '', ttl, offline_at or '', reason, metadata or ''}
-- state: 'online', 'unknown' (alive by the score alone: undecided), 'over' (past the deadline, no worker has looked yet),
--   'closed' (closed, not yet in PostgreSQL)
presence_time()
local tenant = ARGV[3]
if is_stale(call('HGET', KEYS[3], tenant), ARGV[4]) then return {'stale'} end

-- Redis's cycle removes a field in the very millisecond of its deadline, in which the device is still alive.
local function is_at_deadline(session, score) return score == now - P and session.paused == P and not session.lost end

-- facts: the value that session was read from. The live field's is mostly the same, and reading it a second time would cost as
-- much as two commands.
local function open_session(k, device, facts, session)
  local state, offline_at, reason, deadline = 'online', '', '', nil
  local value, expiry = live_look(KEYS[k], KEYS[k + 2], device)
  local live = value == facts and session.paused == P and session or value ~= facts and on_clock(value)
  if live and expiry >= now then
    session, deadline = live, expiry
  else
    local score = score_of(k, device)
    deadline = score and score + session.paused
    if is_at_deadline(session, score) then
      state = 'online'
    elseif lives_by(score) then
      state = 'unknown'
    else
      state, offline_at, reason = 'over', deadline, 'timeout'
    end
  end
  local last_seen = deadline and not session.lost and deadline - session.ttl or ''
  local meta = call('HGET', KEYS[k + 3], device) or ''
  return {state, session.id, session.start, last_seen, session.ttl, offline_at, reason, meta}
end

local function closed_session(value)
  local id, start, ttl, last_seen, offline_at, reason, meta =
      value:match('^([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),(.*)$')
  return id and {'closed', id, tonumber(start), last_seen, tonumber(ttl), offline_at, reason, meta}
end

local reply = {'ok', now}
for i = 5, #ARGV, 2 do
  local k, device = tonumber(ARGV[i]), ARGV[i + 1]
  local facts = call('HGET', KEYS[k + 1], device)
  local session = facts and parse(facts)
  local closed = not session and call('HGET', KEYS[2], tenant .. '/' .. device)
  reply[#reply + 1] = session and open_session(k, device, facts, session) or closed and closed_session(closed) or 0
end
return reply
