-- field_compat.lua: the live view where fields cannot expire (Redis 6.2 to 7.2, Valkey 8). The score says when a field is over; the
-- close removes it. A field written under the clock's P is over when wall time passes score + P, as if it had an expiry.

local field_replies = {}

local function live_is_kept() end

local function live_look(live, due, device)
  local value = call('HGET', live, device)
  local score = value and call('ZSCORE', due, device)
  if not score or score + P < now then return false end
  return value, score + P
end

local function live_renew(live, due, device) return (live_look(live, due, device)) end

local function live_put(live, device, value) call('HSET', live, device, value) end
