-- rows.lua: device rows of PostgreSQL as arguments, and what comes back from one. For rebuild, mark and repair.
--
--   KEYS[1..6]  clock, next, transitions, closed, count, tenant
--   KEYS[7..]   per touched bucket: live, session, due, meta
--   ARGV[1..4]  run_id or token, outage_ms, two of the script's own
--   ARGV[5]     number of tenants, then per tenant: id, "generation:buckets"
--   then per row: index in KEYS of its bucket's first key, device, state ('online', 'offline', '' for no row), session, start,
--   ttl_ms, offline_at or '', metadata or '', and more of the script's own
presence_time()

local first_row = 6 + 2 * tonumber(ARGV[5])
local settings, stale = {}, {}
for i = 6, first_row - 1, 2 do
  local tenant, mine = ARGV[i], ARGV[i + 1]
  local stored = call('HGET', KEYS[6], tenant)
  if is_stale(stored, mine) then stale[tenant] = true elseif stored ~= mine then settings[tenant] = mine end
end

-- All rows, as tables; width: arguments of a row. Checked before anything is written.
local function read_rows(width)
  local rows = {}
  for i = first_row, #ARGV, width do
    local row = {k = tonumber(ARGV[i]), device = ARGV[i + 1], state = ARGV[i + 2], id = ARGV[i + 3], start = tonumber(ARGV[i + 4]),
                 ttl = tonumber(ARGV[i + 5]), offline_at = tonumber(ARGV[i + 6]), meta = ARGV[i + 7], at = i}
    if not KEYS[row.k + 3] or not ARGV[i + width - 1] or not row.id:match('^%d+%-%d+$') then
      error('no such bucket, no session, or wrong number of arguments')
    end
    local _, tenant = place(row.k)
    row.stale = stale[tenant]
    rows[#rows + 1] = row
  end
  return rows
end

-- < 0, 0, > 0
local function compare_sessions(a, b)
  local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
  local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
  return a_ms ~= b_ms and a_ms - b_ms or a_seq - b_seq
end

-- How a row and the facts (or nothing) of the same device disagree:
--   0 they agree                             1 the row is online, there are no facts
--   2 the row is online in a later session   3 the row says that the session in the facts is over
--   4 the row does not know the session in the facts
local function disagreement(row, session)
  if not session then return row.state == 'online' and 1 or 0 end
  local order = row.state == '' and 1 or compare_sessions(session.id, row.id)
  if order > 0 then return 4 end
  if row.state == 'offline' then return 3 end
  return order < 0 and 2 or 0
end

-- Where the row's session still has its live field only the facts were lost, and both fields hold the same. The count is left to the
-- recount, which knows whether it has them.
local function restore_from_live(row)
  local value = call('HGET', KEYS[row.k], row.device)
  local live = value and parse(value)
  if not live or live.id ~= row.id then return false end
  call('HSET', KEYS[row.k + 1], row.device, value)
  return true
end

-- The row's session is open again, with a whole ttl of listening from now on. When it was last seen is lost ("?"), its metadata
-- is the one of its last transition.
local function restore(row)
  if restore_from_live(row) then return end
  local session = {id = row.id, start = row.start, ttl = row.ttl, paused = P}
  local _, tenant = place(row.k)
  call('HSET', KEYS[row.k + 1], row.device, value_of(session) .. '?')
  call('HDEL', KEYS[row.k], row.device)
  call('ZADD', KEYS[row.k + 2], L + row.ttl, row.device)
  lower_next(row.k, L + row.ttl)
  if row.meta ~= '' then
    call('HSET', KEYS[row.k + 3], row.device, row.meta)
  else
    call('HDEL', KEYS[row.k + 3], row.device)
  end
  call('HINCRBY', KEYS[5], tenant, 1)
end
