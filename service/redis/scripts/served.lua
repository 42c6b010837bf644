-- served.lua: does a worker serve the partition? For people to see; works on a server not adopted yet. Writes nothing.
--
--   KEYS[1]  lease
--   ARGV[1]  run_id (not looked at)
--
-- Reply: {'ok', 1 where somebody has the lease}
return {'ok', redis.call('GET', KEYS[1]) and 1 or 0}
