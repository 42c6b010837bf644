-- renew_heartbeats.lua: what almost all heartbeats are: renewals that change nothing but the deadline. It needs half of the keys and
-- a fraction of the Lua of record_heartbeats, to which it leaves all that is more.
--
--   KEYS        per section: clock, tenant; then per device: live, due of its bucket
--   ARGV, reply: sections.lua; no letter but n. A code is 0 or 6
--
-- The live view is renewed in memory only. Its expiry says what the score says; the score goes to the file and to the replicas, and
-- whoever starts from those is adopted, which makes the score decide until the next heartbeat (adopt.lua).

-- Not renewed: the field keeps the expiry that the score tells of, until record_heartbeats has judged.
local function give_back(k, device)
  local score = call('ZSCORE', KEYS[k + 1], device)
  if score then live_renew(KEYS[k], KEYS[k + 1], device, text(score + P)) end
end

-- All of the live view first, then all of the scores: either is then done by code that is warm.
local function renew_group(group, k, stale, codes, n)
  local deadline, score, tail = shared_text(now + group.ttl), shared_text(L + group.ttl), tail_of(group)
  local from, values, all = -#tail, {}, true
  live_is_kept(false)
  for i = 0, group.count - 1 do
    local live = KEYS[k + 2 * i]
    values[i] = not (stale and is_of(stale, live)) and live_renew(live, KEYS[k + 2 * i + 1], ARGV[group.first + i], deadline)
  end
  live_is_kept(true)
  for i = 0, group.count - 1 do
    local value, device = values[i], ARGV[group.first + i]
    if value and sub(value, from) == tail then
      call('ZADD', KEYS[k + 2 * i + 1], score, device)
    else
      if value then give_back(k + 2 * i, device) end
      codes[n + i] = '6'
      all = false
    end
  end
  return all
end

return each_section(read_sections(2, 2), function(section)
  if not read_clock(mark_name) then return {'initialising'} end
  local deaf = hear(#section > 0 and 5 or 0)
  local stale = stale_tenants(section, KEYS[at + 2])
  local codes, n, all = {}, 1, true
  for g = 1, #section do
    all = renew_group(section[g], at + 1 + 2 * n, stale, codes, n) and all
    n = n + section[g].count
  end
  if not all then
    for i = 1, n - 1 do codes[i] = codes[i] or '0' end
  end
  return {'ok', now, deaf, table.concat(codes), {}}
end)
