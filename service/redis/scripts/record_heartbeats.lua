-- record_heartbeats.lua: heartbeats, and the mark that says we hear: those that open or change something, or want to be told more
-- (and any other in the same call). Plain renewals go by renew_heartbeats.
--
--   KEYS        per section: clock, next, transitions, closed, count, tenant; then per device: live, session, due, meta of its bucket
--   ARGV, reply: sections.lua
local backlog_cap = tonumber(ARGV[4])
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
local function record(k, device, group, tail, meta, reply)
  local value, code, session = live_renew(KEYS[k], KEYS[k + 2], device, shared_text(now + group.ttl)), '0', nil
  if value and sub(value, -#tail) == tail then
    call('ZADD', KEYS[k + 2], L + group.ttl, device)
    session = group.detail and parse(value)
  else
    code, session = judge(k, device, group, value, meta)
  end
  if code == '0' then
    if group.meta then call('HSET', KEYS[k + 3], device, meta) end
    if group.remove then call('HDEL', KEYS[k + 3], device) end
  end
  if not group.detail or not session then return code end
  reply[#reply + 1] = {session.id, session.start, call('HGET', KEYS[k + 3], device) or ''}
  return detailed[code]
end

return each_section(read_sections(6, 4), function(section)
  if not read_clock(mark_name) then return {'initialising'} end
  local reply, codes, k = {'ok', now, hear(0), '', {}}, {}, at + 7
  local stale = stale_tenants(section, KEYS[at + 6])
  backlogged, opened, bounds = nil, {}, {}
  for g = 1, #section do
    local group = section[g]
    local tail = tail_of(group)
    for i = group.first, group.first + (group.count - 1) * group.step, group.step do
      local old = stale and is_of(stale, KEYS[k])
      codes[#codes + 1] = old and '5' or record(k, ARGV[i], group, tail, group.meta and ARGV[i + 1] or '', reply)
      k = k + 4
    end
  end
  settle()
  reply[4] = table.concat(codes)
  return reply
end)
