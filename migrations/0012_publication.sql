-- Change data capture: a publication of the outbox for logical replication (Debezium, pg_recvlogical, a subscription). Inserts only,
-- and all of them as of presence.outbox: which day holds a row, days made and dropped, rows moved into a day show nowhere.
-- It costs nothing until there is a replication slot, which whoever reads makes.
DO $$
BEGIN
  PERFORM set_config('client_min_messages', 'error', true); -- a warning where wal_level is not yet logical
  CREATE PUBLICATION presence_outbox FOR TABLE presence.outbox WITH (publish = 'insert', publish_via_partition_root = true);
EXCEPTION WHEN insufficient_privilege OR duplicate_object THEN
  NULL; -- made by hand by whoever may: deploy/debezium/README.md
END $$;
