-- trim.lua: removes what PostgreSQL has committed: the stream's head, and the closes that are now visible as rows.
--
--   KEYS[1..3]  clock, transitions, closed
--   ARGV[1]     run_id of the server the entries were read from: another one's stream is not touched
--   ARGV[2]     the first id to keep
--   then per close: "tenant/device", session
--
-- Reply: {'initialising'} or {'ok', entries removed}
local removed = call('XTRIM', KEYS[2], 'MINID', ARGV[2])
for i = 3, #ARGV, 2 do
  local value = call('HGET', KEYS[3], ARGV[i])
  if value and value:match('^[^,]*') == ARGV[i + 1] then call('HDEL', KEYS[3], ARGV[i]) end
end
return {'ok', removed}
