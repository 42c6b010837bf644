-- field_native.lua: the live view where the server has HSETEX and HGETEX (Redis >= 8.0, Valkey >= 9.0). Each dialect's file has
-- these functions, with the same meaning; nothing else differs between dialects.

-- What the field commands replied, by reply: how often. 1 is what is meant; anything else is counted for the metric.
local field_replies = {}
local function note(reply) field_replies[reply] = (field_replies[reply] or 0) + 1 end

-- Whether what the live view is told goes to the file and the replicas. It does by itself; who says otherwise says so again.
local function live_is_kept(kept) redis.set_repl(kept and redis.REPL_ALL or redis.REPL_NONE) end

-- The value of a live field, with its expiry moved to deadline; false where there is none. Moving before the value is judged does
-- no harm: a field that turns out not to count is written anew, removed or given its expiry back in the same script.
local function live_renew(live, due, device, deadline)
  return call('HGETEX', live, 'PXAT', deadline, 'FIELDS', 1, device)[1]
end

local function live_put(live, device, value, deadline)
  note(call('HSETEX', live, 'PXAT', deadline, 'FIELDS', 1, device, value))
end

-- A live field's value and deadline, untouched; false where there is none.
local function live_look(live, due, device)
  local value = call('HGET', live, device)
  if not value then return false end
  return value, call('HPEXPIRETIME', live, 'FIELDS', 1, device)[1]
end
