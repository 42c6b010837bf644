-- stream.lua: the head of the partition's transition stream, for the publisher. Writes nothing.
--
--   KEYS[1..2]  clock, transitions
--   ARGV[1]     run_id
--   ARGV[2]     at most so many entries
--
-- Reply: {'initialising'} or {'ok', now, entries in the stream, {{id, {field, value, ...}}, ...}}
return {'ok', now, call('XLEN', KEYS[2]), call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[2])}
