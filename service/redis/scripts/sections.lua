-- sections.lua: what renew_heartbeats and record_heartbeats have in common: calls with a section for each partition, all on one
-- server. A section with no devices is a tick.
--
--   KEYS        per section its partition's, then per device, in the order of ARGV, its bucket's: which, each script says on top
--   the last    in a cluster: a key that is never there (see store_record_encode)
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms: a longer gap without a mark stopped the presence clock
--   ARGV[3]     listener: the name of the caller's mark; '' for none
--   ARGV[4]     backlog_cap: entries in the stream from which no session is opened
--   ARGV[5]     number of sections; per section:
--   tenants     number of tenants, then per tenant: id, "generation:buckets"
--   groups      number of groups, then the groups of devices that ask for the same; each device once:
--               ttl_ms, followed by letters where the case is not the usual one:
--                 n  a new session may not be opened     r  answer session, start and metadata too
--                 x  remove the metadata                 m  each device is followed by new metadata
--               number of devices, the devices
--
-- Reply: per section {'initialising'}, an error, or {'ok', now, what was added to P, codes, {field reply, how often, ...}, detail,
-- detail, ...}; the field replies, of all sections, are in the first of those. codes is '' where all devices were renewed and none
-- has a detail, else one character a device:
--   0 renewed, 1 opened, 2 the old session was over: closed, and a new one opened, 3 not opened, 4 not opened for the backlog,
--   5 settings of an older generation, 6 left to record_heartbeats; A, B, C are 0, 1, 2 with a detail, which devices get that asked
--   and have an open session
-- detail: {session, start, metadata or ''}, in the devices' order
--
-- A bucket's keys stand as often as it has devices: that costs Lua less than an index for each device would, since a call's devices
-- mostly are of as many buckets.

local listener, sub = ARGV[3], string.sub
local mark_name = 'l:' .. listener
outage = tonumber(ARGV[2])

-- The sections: where the keys begin, the tenants, and the groups: what each asks for and where its devices stand. False where the
-- arguments do not fit.
local function read_sections(partition_keys, bucket_keys)
  local sections, i, k = {}, 6, 1
  for s = 1, tonumber(ARGV[5]) do
    local section = {at = k - 1, tenants = tonumber(ARGV[i]), first_tenant = i + 1}
    i = i + 2 + 2 * section.tenants
    k = k + partition_keys
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
      k = k + bucket_keys * count
    end
    sections[s] = section
  end
  return i == #ARGV + 1 and (k == #KEYS + 1 or k == #KEYS) and sections
end

-- The clock first: everything else in the section happens at L. Returns what was added to P. young_ms: a mark so young stands for
-- this one too; it tells a little less than we know, so that the detector waits that much longer.
local function hear(young_ms)
  local deaf = now - seen
  local gap = math.abs(deaf) > outage
  if gap then
    P = P + deaf
    call('HSET', KEYS[at + 1], 'paused', P)
  end
  L = now - P
  if listener == '' then
    call('HSET', KEYS[at + 1], 'ingest_seen', now)
  elseif deaf < 0 or deaf >= young_ms or not mark or L < mark or L - mark >= young_ms then
    call('HSET', KEYS[at + 1], 'ingest_seen', now, mark_name, L)
  end
  return gap and deaf or 0
end

-- The tenants whose settings are older than what the partition has seen, or nothing. key: the partition's of its tenants. Mostly
-- there is one, with the settings that are known: one HGET tells.
local function stale_tenants(section, key)
  if section.tenants == 0 then return nil end
  if section.tenants == 1 and call('HGET', key, ARGV[section.first_tenant]) == ARGV[section.first_tenant + 1] then return nil end
  local names, stale = {}, nil
  for t = 1, section.tenants do names[t] = ARGV[section.first_tenant + 2 * t - 2] end
  local stored = call('HMGET', key, unpack(names))
  for t = 1, section.tenants do
    local mine = ARGV[section.first_tenant + 2 * t - 1]
    if is_stale(stored[t], mine) then
      stale = stale or {}
      stale[names[t]] = true
    elseif stored[t] ~= mine then
      call('HSET', key, names[t], mine)
    end
  end
  return stale
end

-- Is the bucket with this key of one of those tenants?
local function is_of(stale, key) return stale[key:match('([^:]+):%d+$')] end

-- text() of what the sections mostly have in common: a deadline, P. Each time anew it would take as long as an HGET.
local texts = {}
local function shared_text(number)
  texts[number] = texts[number] or text(number)
  return texts[number]
end

-- What a live field's value ends with that needs nothing but a later deadline.
local function tail_of(group) return ',' .. group.digits .. ',' .. shared_text(P) end

-- do_section(section): the section's reply. A partition whose keys are broken, by a hand from outside, fails alone; what all of them
-- met (a replica, no disk) is the call's own error.
local function each_section(sections, do_section)
  if not sections then return redis.error_reply('ERR wrong number of arguments') end
  local replies, answered = {}, nil
  for s = 1, #sections do
    at = sections[s].at
    local done, reply = pcall(do_section, sections[s])
    if not done then
      live_is_kept(true)
      reply = type(reply) == 'table' and reply or redis.error_reply(tostring(reply))
    else
      answered = answered or reply
    end
    replies[s] = reply
  end
  if not answered then return replies[1] end
  local list = answered[5]
  for code, count in pairs(field_replies) do
    if list then list[#list + 1], list[#list + 2] = code, count end
  end
  return replies
end
