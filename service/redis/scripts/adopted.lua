-- adopted.lua: is this server adopted, and does it take writes? It writes what stands there already: a server that refuses all
-- writes (NOREPLICAS, OOM, MISCONF) must not look like one that takes heartbeats.
--
--   KEYS[1]  clock
--   ARGV[1]  run_id
--
-- Reply: {'initialising'} or {'ok'}
if run_id == ARGV[1] then call('HSET', KEYS[1], 'run_id', ARGV[1]) end
return {'ok'}
