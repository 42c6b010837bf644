-- repair.lua: the publisher has met markers of the audit at the stream's head, so that all earlier transitions are in PostgreSQL, and
-- has read the devices' rows after that. Makes facts and rows agree.
--
--   KEYS, ARGV  as in rows.lua; a row is followed by the marker's id and the session it found in the facts ('' for none)
--   ARGV[3..4]  not used
--
-- Reply: {'initialising'} or {'ok', letters}; a letter a row: 0 nothing to do (any more), else what was done:
--   1 the row's session is restored as in a rebuild
--   2 the facts take over the row's later session: same device, same deadline
--   3 the session is over by the row: it ends here without an event; where the device was heard since, a new one begins at once
--   4 the row does not know the session: its online transition goes on the stream again
--
-- Nothing is done unless the marker still stands (else somebody else has met it, and the row that was read may be old), the facts
-- are as the marker found them and no close waits for PostgreSQL. A session that two markers name is told again twice at most, and
-- PostgreSQL refuses the repeat; within a call it is told once.
local function stands(row, tenant, session)
  local marker, found = ARGV[row.at + 8], ARGV[row.at + 9]
  return not row.stale and (session and session.id or '') == found and #call('XRANGE', KEYS[3], marker, marker) == 1 and
         call('HEXISTS', KEYS[4], tenant .. '/' .. row.device) == 0
end

local function take_over(row, session)
  local value, expiry = live_look(KEYS[row.k], KEYS[row.k + 2], row.device)
  local live = on_clock(value)
  session.id, session.start = row.id, row.start
  call('HSET', KEYS[row.k + 1], row.device, value_of(session) .. (session.lost and '?' or ''))
  if live then
    live_put(KEYS[row.k], row.device, value_of(session), expiry)
  else
    call('HDEL', KEYS[row.k], row.device)
  end
end

local function end_silently(row, session, tenant)
  local value, expiry = live_look(KEYS[row.k], KEYS[row.k + 2], row.device)
  local heard = on_clock(value) and expiry >= now and expiry - session.ttl > (row.offline_at or math.huge)
  local meta = call('HGET', KEYS[row.k + 3], row.device) or ''
  for _, key in ipairs({KEYS[row.k], KEYS[row.k + 1], KEYS[row.k + 3]}) do call('HDEL', key, row.device) end
  call('ZREM', KEYS[row.k + 2], row.device)
  if call('HINCRBY', KEYS[5], tenant, -1) < 0 then call('HSET', KEYS[5], tenant, 0) end
  if heard then open(row.k, row.device, session.ttl, meta) end
end

local letters, told = {}, {}
for n, row in ipairs(read_rows(10)) do
  local _, tenant = place(row.k)
  local session = facts_of(row.k, row.device)
  local kind = stands(row, tenant, session) and disagreement(row, session) or 0
  if kind == 1 then
    restore(row)
  elseif kind == 2 then
    take_over(row, session)
  elseif kind == 3 then
    end_silently(row, session, tenant)
  elseif kind == 4 and told[tenant .. '/' .. row.device] then
    kind = 0
  elseif kind == 4 then
    told[tenant .. '/' .. row.device] = true
    local meta = call('HGET', KEYS[row.k + 3], row.device) or ''
    add('online', tenant, row.device, session, text(session.start), '', '', meta)
  end
  letters[n] = text(kind)
end
settle()
return {'ok', table.concat(letters)}
