-- scan_keys.lua: a step of a walk over the keys of the server that the partition lies on. Writes nothing. A key may come twice.
--
--   KEYS[1]     clock
--   ARGV[1]     run_id
--   ARGV[2]     cursor; 0 begins and ends
--   ARGV[3]     pattern
--   ARGV[4]     about so many keys are looked at
--
-- Reply: {'initialising'} or {'ok', cursor, {key, key, ...}}
local page = call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
return {'ok', page[1], page[2]}
