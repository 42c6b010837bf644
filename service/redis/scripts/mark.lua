-- mark.lua: the audit compares device rows with facts. Where they disagree a marker goes on the stream: when the publisher meets it,
-- all earlier transitions are in PostgreSQL, and repair.lua judges again.
--
--   KEYS, ARGV  as in rows.lua
--   ARGV[3]     entries in the stream from which no marker is put
--   ARGV[4]     'mark' or 'look': write nothing
--
-- Reply: {'initialising'} or {'ok', letters, 1 where the stream was too long: nothing was compared}. A letter a row: 0 they agree,
--   1 to 4 as in rows.lua, - undecided: a close is not yet in PostgreSQL, or the caller's settings are old
local rows, letters = read_rows(8), {}
if ARGV[4] == 'mark' and call('XLEN', KEYS[3]) >= tonumber(ARGV[3]) then return {'ok', '', 1} end
for n, row in ipairs(rows) do
  local _, tenant = place(row.k)
  local session = facts_of(row.k, row.device)
  local kind = disagreement(row, session)
  if row.stale or kind > 0 and call('HEXISTS', KEYS[4], tenant .. '/' .. row.device) == 1 then
    letters[n] = '-'
  else
    letters[n] = text(kind)
    if kind > 0 and ARGV[4] == 'mark' then
      add('mark', tenant, row.device, {id = session and session.id or '', start = 0, ttl = 0}, '', '', '', '')
    end
  end
end
return {'ok', table.concat(letters), 0}
