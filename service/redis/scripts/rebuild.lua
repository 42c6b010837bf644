-- rebuild.lua: a step of rebuilding an empty server from the device rows that are online. May be repeated.
--
--   KEYS, ARGV  as in rows.lua; ARGV[1] is the token that adopt gave: whoever has lost it is told 'initialising'
--   ARGV[3]     run_id of the server that adopt was called on
--   ARGV[4]     'step', or 'finish': all rows are here, the server is adopted
--
-- Reply: {'initialising'} or {'ok', sessions restored}
--
-- Until it is finished all other scripts answer 'initialising', so that nothing else opens a session: facts that are there are from
-- a step before.
if call('INFO', 'server'):match('run_id:(%x+)') ~= ARGV[3] then return {'initialising'} end
local rows, restored = read_rows(8), 0
for tenant, mine in pairs(settings) do call('HSET', KEYS[6], tenant, mine) end
for _, row in ipairs(rows) do
  if not row.stale and call('HEXISTS', KEYS[row.k + 1], row.device) == 0 then
    restore(row)
    restored = restored + 1
  end
end
if ARGV[4] == 'finish' then
  call('HSET', KEYS[1], 'run_id', ARGV[3], 'adopted', now)
  call('HDEL', KEYS[1], 'rebuild', 'rebuild_step')
else
  call('HSET', KEYS[1], 'rebuild_step', now)
end
return {'ok', restored}
