-- disconnect.lua: closes a device's session because the device says so.
--
--   KEYS[1..6]   clock, next, transitions, closed, count, tenant
--   KEYS[7..10]  the device's bucket: live, session, due, meta
--   ARGV[1]      run_id
--   ARGV[2]      outage_ms
--   ARGV[3]      "generation:buckets"
--   ARGV[4]      device
--   ARGV[5]      the session to close; '' for whichever is open
--
-- Reply: {'initialising'}, {'ok', 'closed', session}, {'ok', 'nothing_open'}, {'ok', 'other_session', open session} or {'ok', 'stale'}
local k, device, only = 7, ARGV[4], ARGV[5]
presence_time()
local _, tenant = place(k)
if is_stale(call('HGET', KEYS[6], tenant), ARGV[3]) then return {'ok', 'stale'} end
local session, score = facts_of(k, device), score_of(k, device)
if not session then return {'ok', 'nothing_open'} end
if not on_clock((live_look(KEYS[k], KEYS[k + 2], device))) and not lives_by(score) then
  -- It was over before: nothing is open, and nobody has said so yet.
  close(k, device, session, score, 'timeout')
  return {'ok', 'nothing_open'}
end
if only ~= '' and only ~= session.id then return {'ok', 'other_session', session.id} end
close(k, device, session, score, 'disconnect')
return {'ok', 'closed', session.id}
