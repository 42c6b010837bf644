-- What must hold among the service's keys at every instant. ARGV[1]: "yes" where live fields have a TTL. ARGV[2]: "yes" where the
-- server does not remove a field that has expired and is not cleared away yet (Valkey): after a step back of the clock it is there
-- again, and counts for nothing where its P is not the clock's. Returns the breaches.
local breaches, open = {}, {}
local function breach(...) breaches[#breaches + 1] = table.concat({...}, ' ') end
local function keys(resource) return redis.call('KEYS', '*:presence:' .. resource .. ':v1:*') end
-- "prod:presence:session:v1:{3}:t42:7" -> "prod", "{3}", "t42", "7"
local function parts(key) return string.match(key, '^([^:]+):presence:[a-z]+:v1:({%d+}):([^:]+):(%d+)$') end

for _, key in ipairs(keys('session')) do
  local env, tag, tenant, bucket = parts(key)
  local function beside(resource) return env .. ':presence:' .. resource .. ':v1:' .. tag .. ':' .. tenant .. ':' .. bucket end
  local due_key, facts = beside('due'), redis.call('HKEYS', key)
  for _, device in ipairs(facts) do
    if not redis.call('ZSCORE', due_key, device) then breach('facts without due:', key, device) end
  end
  if #facts ~= redis.call('ZCARD', due_key) then breach('facts and due differ in number:', key, #facts, redis.call('ZCARD', due_key)) end
  local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
  local bound = redis.call('ZSCORE', env .. ':presence:next:v1:' .. tag, tenant .. ':' .. bucket)
  if #first > 0 and not bound then breach('a bucket with due members is not in next:', key) end
  if #first > 0 and bound and tonumber(bound) > tonumber(first[2]) then breach('next is later than due:', key, bound, first[2]) end
  local count_key = env .. ':presence:count:v1:' .. tag .. ' ' .. tenant
  open[count_key] = (open[count_key] or 0) + #facts
end

for _, key in ipairs(keys('due')) do
  if redis.call('EXISTS', (string.gsub(key, ':presence:due:', ':presence:session:'))) == 0 then breach('due without facts:', key) end
end

local function counts_for_nothing(key, device)
  local env, tag = parts((string.gsub(key, ':presence:live:', ':presence:session:')))
  local paused = redis.call('HGET', env .. ':presence:clock:v1:' .. tag, 'paused')
  return ARGV[2] == 'yes' and string.match(redis.call('HGET', key, device) or '', ',(%-?%d+)$') ~= paused
end

for _, resource in ipairs({'live', 'meta'}) do
  for _, key in ipairs(keys(resource)) do
    local facts = string.gsub(key, ':presence:' .. resource .. ':', ':presence:session:')
    for _, device in ipairs(redis.call('HKEYS', key)) do
      if redis.call('HEXISTS', facts, device) == 0 and not (resource == 'live' and counts_for_nothing(key, device)) then
        breach(resource .. ' without facts:', key, device)
      end
      if resource == 'live' and ARGV[1] == 'yes' then
        local ttl = redis.call('HPTTL', key, 'FIELDS', 1, device)[1]
        if ttl == -1 then breach('a live field without TTL:', key, device) end
      end
    end
  end
end

for _, key in ipairs(keys('count')) do
  local counts = redis.call('HGETALL', key)
  for i = 1, #counts, 2 do
    local name = key .. ' ' .. counts[i]
    if tonumber(counts[i + 1]) ~= (open[name] or 0) then breach('count is wrong:', name, counts[i + 1], open[name] or 0) end
    open[name] = nil
  end
end
for name, number in pairs(open) do
  if number > 0 then breach('no count:', name, number) end
end
return breaches
