-- record_heartbeats.lua: heartbeats of one partition, and the mark that says we hear. With no devices it is a tick.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7..]   per touched bucket: live, session, due, meta
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms: a longer gap without a mark stopped the presence clock
--   ARGV[3]     listener: the name of the caller's mark; '' for none
--   ARGV[4]     backlog_cap: entries in the stream from which no session is opened
--   ARGV[5]     number of tenants, then per tenant: id, "generation:buckets"
--   then per device, each device once:
--               index in KEYS of its bucket's first key
--               device
--               ttl_ms, followed by letters where the case is not the usual one:
--                 n  a new session may not be opened     r  answer session, start and metadata too
--                 x  remove the metadata                 m  the next argument is new metadata
--
-- Reply: {'initialising'} or {'ok', now, what was added to P, codes, {field reply, how often, ...}, detail, detail, ...}; codes
-- is one character a device:
--   0 renewed, 1 opened, 2 the old session was over: closed, and a new one opened, 3 not opened, 4 not opened for the backlog,
--   5 settings of an older generation; A, B, C are 0, 1, 2 with a detail, which devices get that asked and have an open session
-- detail: {session, start, metadata or ''}, in the devices' order
local listener, backlog_cap, tenants = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local first, last = 6 + 2 * tenants, #ARGV

-- ttl text -> what it asks for, and what a renewal writes: the same for all devices that send it
local options = {}
local function option(argument)
  local o = {ttl = tonumber(argument), digits = argument, may_open = true} -- the usual case: nothing but digits
  if not o.ttl then
    local digits, letters = argument:match('^(%d+)([nrxm]*)$')
    o = {ttl = tonumber(digits), digits = digits, may_open = not letters:find('n'), detail = letters:find('r'),
         remove = letters:find('x'), meta = letters:find('m')}
  end
  options[argument] = o
  return o
end

do
  local i = first
  while i <= last do
    local o = options[ARGV[i + 2]] or option(ARGV[i + 2])
    if not KEYS[tonumber(ARGV[i]) + 3] then return redis.error_reply('ERR no such bucket') end
    i = i + (o.meta and 4 or 3)
  end
  if i ~= last + 1 then return redis.error_reply('ERR wrong number of arguments') end
end

-- The clock first: everything below happens at L.
outage = tonumber(ARGV[2])
local deaf = now - seen
if math.abs(deaf) > outage then
  P = P + deaf
  call('HSET', KEYS[1], 'paused', P)
else
  deaf = 0
end
L = now - P
if listener ~= '' then
  call('HSET', KEYS[1], 'ingest_seen', now, 'l:' .. listener, L)
else
  call('HSET', KEYS[1], 'ingest_seen', now)
end

for _, o in pairs(options) do
  o.deadline, o.score = text(now + o.ttl), text(L + o.ttl)
  o.tail = ',' .. o.digits .. ',' .. text(P)
end

local stale
if tenants > 0 then
  local names = {}
  for t = 1, tenants do names[t] = ARGV[4 + 2 * t] end
  local stored = call('HMGET', KEYS[6], unpack(names))
  for t = 1, tenants do
    local mine = ARGV[5 + 2 * t]
    if is_stale(stored[t], mine) then
      stale = stale or {}
      stale[names[t]] = true
    elseif stored[t] ~= mine then
      call('HSET', KEYS[6], names[t], mine)
    end
  end
end

local function is_stale_bucket(k)
  local _, tenant = place(k)
  return stale[tenant]
end

local backlogged
local function is_backlogged()
  if backlogged == nil then backlogged = call('XLEN', KEYS[3]) >= backlog_cap end
  return backlogged
end

-- All that is not a plain renewal. value: of the live field, or false. Returns the code and the open session, if any.
local function judge(k, device, o, value, meta)
  local live = on_clock(value)
  local session = facts_of(k, device) or live
  local code = '1'
  if session then
    local score = score_of(k, device)
    if live or lives_by(score) then
      session.ttl = o.ttl
      put(k, device, session)
      if not score or L + o.ttl < score then lower_next(k, L + o.ttl) end
      return '0', session
    end
    close(k, device, session, score, 'timeout')
    code = '2'
  end
  if not o.may_open then
    code = '3'
  elseif is_backlogged() then
    code = '4'
  else
    return code, open(k, device, o.ttl, meta)
  end
  if value then call('HDEL', KEYS[k], device) end
  return code
end

local detailed = {['0'] = 'A', ['1'] = 'B', ['2'] = 'C'}
local codes, reply = {}, {'ok', now, deaf, '', {}}
local i, n = first, 0
while i <= last do
  local k, device, o = tonumber(ARGV[i]), ARGV[i + 1], options[ARGV[i + 2]]
  local meta = o.meta and ARGV[i + 3] or ''
  i = i + (o.meta and 4 or 3)
  local code, session = '5', nil
  if not (stale and is_stale_bucket(k)) then
    local value = live_renew(KEYS[k], KEYS[k + 2], device, o.deadline)
    if value and value:sub(-#o.tail) == o.tail then
      call('ZADD', KEYS[k + 2], o.score, device)
      code = '0'
      session = o.detail and parse(value)
    else
      code, session = judge(k, device, o, value, meta)
    end
    if code == '0' then
      if o.meta then call('HSET', KEYS[k + 3], device, meta) end
      if o.remove then call('HDEL', KEYS[k + 3], device) end
    end
    if o.detail and session then
      reply[#reply + 1] = {session.id, session.start, call('HGET', KEYS[k + 3], device) or ''}
      code = detailed[code]
    end
  end
  n = n + 1
  codes[n] = code
end
settle()
reply[4] = table.concat(codes)
for code, count in pairs(field_replies) do
  local list = reply[5]
  list[#list + 1], list[#list + 2] = code, count
end
return reply
