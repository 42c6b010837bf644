-- audit_devices.lua: some of the devices of a bucket that have facts, for the audit's walk. Writes nothing.
--
--   KEYS[1..2]  clock, session (the facts)
--   ARGV[1]     run_id
--   ARGV[2]     cursor of HSCAN; 0 at first
--
-- Reply: {'initialising'} or {'ok', next cursor, {device, device, ...}}
local page, devices = call('HSCAN', KEYS[2], ARGV[2], 'COUNT', 100), {}
for i = 1, #page[2], 2 do devices[#devices + 1] = page[2][i] end
return {'ok', page[1], devices}
