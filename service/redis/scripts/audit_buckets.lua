-- audit_buckets.lua: some of the buckets that have open sessions, for the audit's walk. Writes nothing.
--
--   KEYS[1..2]  clock, next
--   ARGV[1]     run_id
--   ARGV[2]     cursor of ZSCAN; 0 at first
--
-- Reply: {'initialising'} or {'ok', when this server was adopted, next cursor, {member of next, score, member, score, ...}}
local page = call('ZSCAN', KEYS[2], ARGV[2], 'COUNT', 64)
return {'ok', call('HGET', KEYS[1], 'adopted') or '', page[1], page[2]}
