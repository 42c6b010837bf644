-- record_heartbeats.lua: heartbeats, and the mark that says we hear. It has a section for each partition, all on one server; one with
-- no devices is a tick. Its first half is renew.lua.
--
--   KEYS        per section: clock, next, transitions, closed, count, tenant;
--               then per device, in the order of ARGV: live, session, due, meta of its bucket
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
--   5 settings of an older generation; A, B, C are 0, 1, 2 with a detail, which devices get that asked and have an open session
-- detail: {session, start, metadata or ''}, in the devices' order
--
-- A bucket's keys stand as often as it has devices: that costs Lua less than an index for each device would, since a call's devices
-- mostly are of as many buckets.
local backlogged
local function is_backlogged()
  if backlogged == nil then backlogged = call('XLEN', KEYS[at + 3]) >= backlog_cap end
  return backlogged
end

-- All that is not a plain renewal. value: of the live field, or false. Returns the code and the open session, if any.
local function judge(k, device, group, value, meta)
  local live = on_clock(value)
  local session = facts_of(k, device) or live
  local code = '1'
  if session then
    local score = score_of(k, device)
    if live or lives_by(score) then
      session.ttl = group.ttl
      put(k, device, session)
      if not score or L + group.ttl < score then lower_next(k, L + group.ttl) end
      return '0', session
    end
    close(k, device, session, score, 'timeout')
    code = '2'
  end
  if not group.may_open then
    code = '3'
  elseif is_backlogged() then
    code = '4'
  else
    return code, open(k, device, group.ttl, meta)
  end
  if value then call('HDEL', KEYS[k], device) end
  return code
end

local detailed = {['0'] = 'A', ['1'] = 'B', ['2'] = 'C'}

-- The device's code. Details go into the section's reply.
local function finish(item, reply)
  local k, device, group, code, session = item.k, item.device, item.group, item.code, nil
  if code == '5' then return code end
  if code == '0' then
    session = group.detail and parse(item.value)
  else
    code, session = judge(k, device, group, item.value, item.meta)
  end
  if code == '0' then
    if group.meta then call('HSET', KEYS[k + 3], device, item.meta) end
    if group.remove then call('HDEL', KEYS[k + 3], device) end
  end
  if not group.detail or not session then return code end
  reply[#reply + 1] = {session.id, session.start, call('HGET', KEYS[k + 3], device) or ''}
  return detailed[code]
end

local function finish_section(section, reply)
  at, P, L = section.at, section.P, section.L
  backlogged, opened, bounds = nil, {}, {}
  local codes = {}
  for i = 1, section.total do codes[i] = '0' end
  for _, item in ipairs(section.rest) do codes[item.n] = finish(item, reply) end
  settle()
  reply[4] = table.concat(codes)
end

for s = 1, #sections do
  if sections[s].rest then
    local done, why = pcall(finish_section, sections[s], replies[s])
    if not done then replies[s] = failure(why) end
  end
end
return reply_of_all()
