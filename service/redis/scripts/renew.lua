-- renew.lua: the first half of record_heartbeats: the clock, and what almost all heartbeats are: renewals that change nothing but
-- the deadline. It returns where there is nothing else. So what the second half needs (session.lua, a dozen functions that Lua makes
-- anew at each call) costs only the calls that need it: a fifth of a call with eight devices.
--
--   KEYS, ARGV, reply: record_heartbeats.lua
local listener, backlog_cap, tenants = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- The groups: what each asks for, and where its devices stand.
local groups, total = {}, 0
do
  local i, last = 6 + 2 * tenants, #ARGV
  while i <= last do
    local digits, letters, count = ARGV[i], '', tonumber(ARGV[i + 1])
    local ttl = tonumber(digits)
    if not ttl then
      digits, letters = digits:match('^(%d+)([nrxm]*)$')
      ttl = tonumber(digits)
    end
    local meta = letters:find('m')
    groups[#groups + 1] = {ttl = ttl, digits = digits, first = i + 2, count = count, step = meta and 2 or 1, meta = meta,
                           may_open = not letters:find('n'), detail = letters:find('r'), remove = letters:find('x')}
    total = total + count
    i = i + 2 + count * (meta and 2 or 1)
  end
  if i ~= last + 1 or #KEYS ~= 6 + 4 * total and #KEYS ~= 7 + 4 * total then return redis.error_reply('ERR wrong number of arguments') end
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

local reply = {'ok', now, deaf, '', {}}
local function count_field_replies()
  local list = reply[5]
  for code, count in pairs(field_replies) do list[#list + 1], list[#list + 2] = code, count end
end

-- Renews; what is left to do stays in `rest`, by the device's number.
local rest, n, k, sub = {}, 0, 7, string.sub
for g = 1, #groups do
  local group = groups[g]
  local deadline, score, tail = text(now + group.ttl), text(L + group.ttl), ',' .. group.digits .. ',' .. text(P)
  local from, more = -#tail, group.detail or group.meta or group.remove
  for i = group.first, group.first + (group.count - 1) * group.step, group.step do
    local device, due = ARGV[i], KEYS[k + 2]
    n = n + 1
    if stale and stale[KEYS[k]:match('([^:]+):%d+$')] then
      rest[#rest + 1] = {n = n, code = '5'}
    else
      local value = live_renew(KEYS[k], due, device, deadline)
      local renewed = value and sub(value, from) == tail
      if renewed then call('ZADD', due, score, device) end
      if more or not renewed then
        rest[#rest + 1] = {n = n, k = k, device = device, group = group, value = value, code = renewed and '0',
                           meta = group.meta and ARGV[i + 1] or ''}
      end
    end
    k = k + 4
  end
end
if #rest == 0 then
  count_field_replies()
  return reply
end
