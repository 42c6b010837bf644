-- field_hpexpire.lua: the live view where fields can expire, but there is no HSETEX (Redis 7.4). HSET clears a field's expiry, so
-- that HPEXPIREAT always follows it.

local field_replies = {}
local function note(reply) field_replies[reply] = (field_replies[reply] or 0) + 1 end

local function live_is_kept(kept) redis.set_repl(kept and redis.REPL_ALL or redis.REPL_NONE) end

local function live_renew(live, due, device, deadline)
  local value = call('HGET', live, device)
  if value then note(call('HPEXPIREAT', live, deadline, 'FIELDS', 1, device)[1]) end
  return value
end

local function live_put(live, device, value, deadline)
  call('HSET', live, device, value)
  note(call('HPEXPIREAT', live, deadline, 'FIELDS', 1, device)[1])
end

local function live_look(live, due, device)
  local value = call('HGET', live, device)
  if not value then return false end
  return value, call('HPEXPIRETIME', live, 'FIELDS', 1, device)[1]
end
