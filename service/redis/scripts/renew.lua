-- renew.lua: the first half of record_heartbeats: the clocks, and what almost all heartbeats are: renewals that change nothing but
-- the deadline. It returns where there is nothing else. So what the second half needs (session.lua, a dozen functions that Lua makes
-- anew at each call) costs only the calls that need it: a fifth of a call with eight devices.
--
--   KEYS, ARGV, reply: record_heartbeats.lua
local listener, backlog_cap = ARGV[3], tonumber(ARGV[4])
outage = tonumber(ARGV[2])

-- The sections, one a partition: where its keys begin, its tenants, and its groups: what each asks for and where its devices stand.
local sections = {}
do
  local i, k = 6, 1
  for s = 1, tonumber(ARGV[5]) do
    local section = {at = k - 1, tenants = tonumber(ARGV[i]), first_tenant = i + 1}
    i = i + 2 + 2 * section.tenants
    k = k + 6
    for g = 1, tonumber(ARGV[i - 1]) do
      local digits, letters, count = ARGV[i], '', tonumber(ARGV[i + 1])
      local ttl = tonumber(digits)
      if not ttl then
        digits, letters = digits:match('^(%d+)([nrxm]*)$')
        ttl = tonumber(digits)
      end
      local meta = letters:find('m')
      section[g] = {ttl = ttl, digits = digits, first = i + 2, count = count, step = meta and 2 or 1, meta = meta,
                    may_open = not letters:find('n'), detail = letters:find('r'), remove = letters:find('x')}
      i = i + 2 + count * (meta and 2 or 1)
      k = k + 4 * count
    end
    sections[s] = section
  end
  if i ~= #ARGV + 1 or k ~= #KEYS + 1 and k ~= #KEYS then return redis.error_reply('ERR wrong number of arguments') end
end

-- The clock first: everything else in the section happens at L. Returns what was added to P.
local function hear()
  local deaf = now - seen
  if math.abs(deaf) > outage then
    P = P + deaf
    call('HSET', KEYS[at + 1], 'paused', P)
  else
    deaf = 0
  end
  L = now - P
  if listener ~= '' then
    call('HSET', KEYS[at + 1], 'ingest_seen', now, 'l:' .. listener, L)
  else
    call('HSET', KEYS[at + 1], 'ingest_seen', now)
  end
  return deaf
end

-- The tenants whose settings are older than what the partition has seen, or nothing.
local function stale_tenants(section)
  local names, stale = {}, nil
  for t = 1, section.tenants do names[t] = ARGV[section.first_tenant + 2 * t - 2] end
  local stored = call('HMGET', KEYS[at + 6], unpack(names))
  for t = 1, section.tenants do
    local mine = ARGV[section.first_tenant + 2 * t - 1]
    if is_stale(stored[t], mine) then
      stale = stale or {}
      stale[names[t]] = true
    elseif stored[t] ~= mine then
      call('HSET', KEYS[at + 6], names[t], mine)
    end
  end
  return stale
end

-- Renews; what is left to do stays in section.rest, by the device's number. Returns the section's reply.
local anything_left, sub = false, string.sub
local function renew(section)
  at = section.at
  if not read_clock() then return {'initialising'} end
  local deaf = hear()
  local stale = section.tenants > 0 and stale_tenants(section)
  local rest, n, k = {}, 0, at + 7
  for g = 1, #section do
    local group = section[g]
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
  if #rest > 0 then
    anything_left, section.rest, section.total, section.P, section.L = true, rest, n, P, L
  end
  return {'ok', now, deaf, '', {}}
end

-- A partition whose keys are broken, by a hand from outside, fails alone.
local replies = {}
local function failure(why) return type(why) == 'table' and why or redis.error_reply(tostring(why)) end
for s = 1, #sections do
  local done, reply = pcall(renew, sections[s])
  replies[s] = done and reply or failure(reply)
end

-- What all of them met (a replica, no disk) is the call's own error.
local function reply_of_all()
  local answered = nil
  for s = 1, #replies do
    if not replies[s].err then answered = answered or replies[s] end
  end
  if not answered then return replies[1] end
  local list = answered[5]
  for code, count in pairs(field_replies) do
    if list then list[#list + 1], list[#list + 2] = code, count end
  end
  return replies
end
if not anything_left then return reply_of_all() end
