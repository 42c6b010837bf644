-- next.lua: the buckets whose earliest deadline may come first, with the clock. Writes nothing.
--
--   KEYS[1..2]  clock, next
--   ARGV[1]     run_id
--   ARGV[2]     outage_ms
--   ARGV[3]     at most so many buckets
--
-- Reply: {'initialising'} or {'ok', now, L, cutoff, {member, score, member, score, ...}}, earliest first
presence_time()
return {'ok', now, L, (find_cutoff()), call('ZRANGE', KEYS[2], 0, ARGV[3] - 1, 'WITHSCORES')}
