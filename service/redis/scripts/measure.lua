-- measure.lua: how large some buckets are, and whether they are still in Redis's compact encoding. Writes nothing.
--
--   KEYS[1]     clock
--   KEYS[2..]   per bucket: live, session, due, meta
--   ARGV[1]     run_id
--   ARGV[2]     members of each key that MEMORY USAGE looks at
--
-- Reply: {'initialising'} or {'ok', fields, bytes, 1 where some key has left the compact encoding, fields, ...}: three a bucket;
-- fields: open sessions. The live view is not asked for its encoding: it is as full as the facts, and Valkey has no compact
-- encoding for fields that expire.
local reply, k = {'ok'}, 2
while k <= #KEYS do
  local bytes, large = 0, 0
  for i = k, k + 3 do
    bytes = bytes + (call('MEMORY', 'USAGE', KEYS[i], 'SAMPLES', ARGV[2]) or 0)
    local encoding = i > k and call('EXISTS', KEYS[i]) == 1 and call('OBJECT', 'ENCODING', KEYS[i])
    if encoding == 'hashtable' or encoding == 'skiplist' then large = 1 end
  end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = call('HLEN', KEYS[k + 1]), bytes, large
  k = k + 4
end
return reply
