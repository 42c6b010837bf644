-- cutoff.lua: up to where on the presence clock sessions may be declared over, for next and expire_due.
--
-- We declare dead only up to the moment we know that everyone was listening: the oldest mark among the listeners (API loops).
-- A listener's mark (field "l:<name>" of clock) is the presence clock at its last call, not the wall clock. So
--   a step of the wall clock, forward or back, moves no mark: the next call of any listener puts it into P, and L goes on from
--     where it stood;
--   before that call, min(now, seen) - P holds the cutoff at the last mark (forward step) or behind it (step back);
--   while nobody hears, L stands still and nobody is silent: after an outage every listener has its five seconds of listening to
--     come back, however long the outage was;
--   when one of two listeners dies, the other's calls move L on, and the cutoff waits at the dead one's mark until L has moved
--     SILENT_MS past it; its devices had that time to reach the other;
--   a listener that has not heard since it started (SETTLE) has no mark and holds nothing back, nor does it move L.
-- With no listener at all the cutoff is min(now, seen) - P: what was over at the last mark is over.
local SILENT_MS = 5000

-- The cutoff, how many listeners count, and the fields of those who are silent for too long.
local function find_cutoff()
  local cutoff, count, silent = math.min(now, seen) - P, 0, {}
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i]:sub(1, 2) == 'l:' then
      local mark = tonumber(fields[i + 1])
      if L - mark > SILENT_MS then
        silent[#silent + 1] = fields[i]
      else
        count = count + 1
        cutoff = math.min(cutoff, mark)
      end
    end
  end
  return cutoff, count, silent
end
