-- record_heartbeats.lua: heartbeats of one partition, and the mark that says we hear. With no devices it is a tick. Its first half
-- is renew.lua.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7..]   per device, in the order of ARGV: live, session, due, meta of its bucket
--   the last    in a cluster: a key that is never there (see store_record_encode)
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms: a longer gap without a mark stopped the presence clock
--   ARGV[3]     listener: the name of the caller's mark; '' for none
--   ARGV[4]     backlog_cap: entries in the stream from which no session is opened
--   ARGV[5]     number of tenants, then per tenant: id, "generation:buckets"
--   then groups of devices that ask for the same; each device once:
--               ttl_ms, followed by letters where the case is not the usual one:
--                 n  a new session may not be opened     r  answer session, start and metadata too
--                 x  remove the metadata                 m  each device is followed by new metadata
--               number of devices, the devices
--
-- Reply: {'initialising'} or {'ok', now, what was added to P, codes, {field reply, how often, ...}, detail, detail, ...}; codes
-- is '' where all devices were renewed and none has a detail, else one character a device:
--   0 renewed, 1 opened, 2 the old session was over: closed, and a new one opened, 3 not opened, 4 not opened for the backlog,
--   5 settings of an older generation; A, B, C are 0, 1, 2 with a detail, which devices get that asked and have an open session
-- detail: {session, start, metadata or ''}, in the devices' order
--
-- A bucket's keys stand as often as it has devices: that costs Lua less than an index for each device would, since a call's devices
-- mostly are of as many buckets.
local backlogged
local function is_backlogged()
  if backlogged == nil then backlogged = call('XLEN', KEYS[3]) >= backlog_cap end
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

-- The device's code.
local function finish(item)
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

local codes = {}
for i = 1, total do codes[i] = '0' end
for _, item in ipairs(rest) do codes[item.n] = finish(item) end
settle()
reply[4] = table.concat(codes)
count_field_replies()
return reply
