-- trim.lua: removes what PostgreSQL has committed: the stream's head, and the closes that are now visible as rows.
--
--   KEYS[1..3]  clock, transitions, closed
--   ARGV[1]     run_id of the server the entries were read from: another one's stream is not touched
--   ARGV[2]     the first id to keep
--   then per close: "tenant/device", session
--
-- Reply: {'initialising'} or {'ok', entries removed}
local removed = call('XTRIM', KEYS[2], 'MINID', ARGV[2])
local fields, ended = {}, {}
for i = 3, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
local closes = #fields > 0 and call('HMGET', KEYS[3], unpack(fields)) or {}
for n = 1, #closes do
  if closes[n] and closes[n]:match('^[^,]*') == ARGV[2 * n + 2] then ended[#ended + 1] = fields[n] end
end
if #ended > 0 then call('HDEL', KEYS[3], unpack(ended)) end
return {'ok', removed}
