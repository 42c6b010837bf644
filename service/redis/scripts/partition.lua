-- partition.lua: for a script that is about one partition, after prelude.lua: its clock, or nothing is done.
if not read_clock() then return {'initialising'} end
