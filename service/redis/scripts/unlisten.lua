-- unlisten.lua: takes a listener's mark away when its loop stops in order, so that nobody waits for it.
--
--   KEYS[1]  clock
--   ARGV[1]  run_id
--   ARGV[2]  listener
--
-- Reply: {'initialising'} or {'ok'}
call('HDEL', KEYS[1], 'l:' .. ARGV[2])
return {'ok'}
