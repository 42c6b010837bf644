-- session.lua: what opens, writes and closes a session, for the scripts that do so.
--
--   KEYS[at + 1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[k..k + 3]   of a bucket: live, session (the facts), due, meta

-- The value of live and facts: "mubbs7i8,90000,0": the session's id; ttl_ms; the P it was written under. Every byte of it stands twice
-- in memory for each device that is online, so the id is short: its milliseconds in base 36, then only where they are not 0 "-" and
-- its sequence number, "+" and the session's start as a difference to those milliseconds ("mubbs7i8-1+-20,90000,0"). A "?" at the end
-- of the facts: restored from PostgreSQL and not heard since, last_seen is lost.
-- What nobody can read is as good as none: it must not make every batch with that device fail.
local digits36 = '0123456789abcdefghijklmnopqrstuvwxyz'

local function to_base36(number)
  local written = ''
  repeat
    local digit = number % 36
    written, number = digits36:sub(digit + 1, digit + 1) .. written, (number - digit) / 36
  until number == 0
  return written
end

-- In two halves: tonumber with a base knows no more than an unsigned long.
local function from_base36(written)
  return (tonumber(written:sub(1, -6), 36) or 0) * 36 ^ 5 + tonumber(written:sub(-5), 36)
end

local function parse(value)
  local written, seq, offset, ttl, paused, lost = value:match('^([%da-z]+)%-?(%d*)%+?(%-?%d*),(%d+),(%-?%d+)(%??)$')
  if not written then return nil end
  local ms = from_base36(written)
  return {id = text(ms) .. '-' .. (seq == '' and '0' or seq), start = ms + (tonumber(offset) or 0), ttl = tonumber(ttl),
          paused = tonumber(paused), lost = lost == '?'}
end

-- The open session, or nothing.
local function facts_of(k, device)
  local value = call('HGET', KEYS[k + 1], device)
  return value and parse(value)
end

-- The session in a live field's value (or false), if the field counts.
local function on_clock(value)
  local session = value and parse(value)
  return session and session.paused == P and session
end

local function value_of(session)
  local ms, seq = session.id:match('^(%d+)%-(%d+)$')
  local offset = session.start - ms
  return to_base36(tonumber(ms)) .. (seq == '0' and '' or '-' .. seq) .. (offset == 0 and '' or '+' .. text(offset)) .. ',' ..
             text(session.ttl) .. ',' .. text(session.paused)
end

-- Tenant and member of `next` ("t42", "t42:7"), from the end of a bucket's key: a tenant has no colon.
local function place(k) return KEYS[k]:match('(([^:]+):%d+)$') end

-- All entries have the same fields in the same order: the stream's compact encoding then stores the names once.
local function add(kind, tenant, device, session, last_seen, reason, offline_at, meta)
  return call('XADD', KEYS[at + 3], '*', 'type', kind, 'tenant', tenant, 'device', device, 'session', session.id, 'online_since',
              session.start, 'last_seen', last_seen, 'ttl', session.ttl, 'reason', reason, 'offline_at', offline_at, 'detected_at',
              now, 'meta', meta)
end

-- Alive by the score: facts without a score (drift, until the recount) are in doubt, and what is in doubt lives.
local function lives_by(score) return not score or score >= L end

local function score_of(k, device)
  local score = call('ZSCORE', KEYS[k + 2], device)
  return score and tonumber(score)
end

-- Writes an open session: facts, live view and deadline, all for a heartbeat at this instant.
local function put(k, device, session)
  session.paused = P
  local value = value_of(session)
  call('HSET', KEYS[k + 1], device, value)
  live_put(KEYS[k], device, value, now + session.ttl)
  call('ZADD', KEYS[k + 2], L + session.ttl, device)
end

local function lower_next(k, score) call('ZADD', KEYS[at + 2], 'LT', score, (place(k))) end

-- What openings change in `count` and `next`: settle(), at the end of a script that opens, writes it with one command each.
local opened, bounds = {}, {}
local function settle()
  for tenant, sessions in pairs(opened) do call('HINCRBY', KEYS[at + 5], tenant, sessions) end
  if #bounds > 0 then call('ZADD', KEYS[at + 2], 'LT', unpack(bounds)) end
end

-- meta: '' for none
local function open(k, device, ttl, meta)
  local member, tenant = place(k)
  local session = {id = '', start = now, ttl = ttl}
  session.id = add('online', tenant, device, session, text(now), '', '', meta)
  put(k, device, session)
  bounds[#bounds + 1], bounds[#bounds + 2] = L + ttl, member
  opened[tenant] = (opened[tenant] or 0) + 1
  if meta ~= '' then
    call('HSET', KEYS[k + 3], device, meta)
  else
    call('HDEL', KEYS[k + 3], device)
  end
  return session
end

-- Closes sessions of one bucket: a list of {device, session, score}. reason: 'timeout' (needs the scores) or 'disconnect'. All but
-- detected_at follows from stored values, so that a retry says the same. One command a key, however many they are.
local function close_all(k, over, reason)
  local _, tenant = place(k)
  local devices, closed, any_meta = {}, {}, false
  for n = 1, #over do devices[n] = over[n][1] end
  local metas = call('HMGET', KEYS[k + 3], unpack(devices))
  for n = 1, #over do
    local device, session, score = unpack(over[n], 1, 3)
    local meta = metas[n] or ''
    local deadline = score and score + session.paused
    local last_seen = deadline and not session.lost and text(deadline - session.ttl) or ''
    local offline_at = text(reason == 'timeout' and deadline or now)
    add('offline', tenant, device, session, last_seen, reason, offline_at, meta)
    closed[2 * n - 1] = tenant .. '/' .. device
    closed[2 * n] = table.concat({session.id, text(session.start), text(session.ttl), last_seen, offline_at, reason, meta}, ',')
    any_meta = any_meta or meta ~= ''
  end
  call('HSET', KEYS[at + 4], unpack(closed))
  call('HDEL', KEYS[k + 1], unpack(devices))
  call('HDEL', KEYS[k], unpack(devices))
  call('ZREM', KEYS[k + 2], unpack(devices))
  if any_meta then call('HDEL', KEYS[k + 3], unpack(devices)) end
  if call('HINCRBY', KEYS[at + 5], tenant, -#over) < 0 then call('HSET', KEYS[at + 5], tenant, 0) end
end

local function close(k, device, session, score, reason) close_all(k, {{device, session, score}}, reason) end
