-- adopted.lua: is this server adopted?
--
--   KEYS[1]  clock
--   ARGV[1]  run_id
--
-- Reply: {'initialising'} or {'ok'}
return {'ok'}
