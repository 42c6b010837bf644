-- The days of the outbox: made ahead of time, dropped by age. Days are UTC. Each step takes its locks for a moment and gives up
-- after half a second behind a long reader, to be tried again at the next run; a lock makes two runs at once take turns.

-- Makes the partition of a day; false where it exists. Rows that the default partition caught for it move in. No writer is held
-- up for a day to come: the append's lock is taken only where it could be writing rows of this day at this moment.
CREATE FUNCTION presence.make_day(day date) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
  partition_name text := 'outbox_' || to_char(day, 'YYYYMMDD');
  day_begin timestamptz := day::timestamp AT TIME ZONE 'UTC';
  day_end timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 2);
  IF to_regclass('presence.' || partition_name) IS NOT NULL THEN
    RETURN false;
  END IF;
  IF day_begin <= (SELECT greatest(recorded_at, clock_timestamp()) + interval '1 hour' FROM presence.outbox_clock) THEN
    PERFORM pg_advisory_xact_lock(7021947, 1);
  END IF;
  -- The check lets ATTACH believe without a scan.
  EXECUTE format('CREATE TABLE presence.%I (LIKE presence.outbox INCLUDING DEFAULTS INCLUDING INDEXES,
                    CHECK (recorded_at >= %L AND recorded_at < %L))', partition_name, day_begin, day_end);
  -- ATTACH looks for rows of the day in the default partition, which is mostly empty; it needs this lock in any case.
  LOCK TABLE presence.outbox_default IN ACCESS EXCLUSIVE MODE;
  EXECUTE format('WITH moved AS (DELETE FROM presence.outbox_default WHERE recorded_at >= %L AND recorded_at < %L RETURNING *)
                  INSERT INTO presence.%I SELECT * FROM moved', day_begin, day_end, partition_name);
  EXECUTE format('ALTER TABLE presence.outbox ATTACH PARTITION presence.%I FOR VALUES FROM (%L) TO (%L)',
                 partition_name, day_begin, day_end);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Raises the highest seq dropped. Whoever reads by cursor compares with it after reading: see presence.poll.
CREATE FUNCTION presence.raise_horizon(seq bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  UPDATE presence.outbox_horizon SET dropped_seq = seq WHERE dropped_seq < seq
$$;

-- Drops the oldest day that ended before `cutoff`; false where none is left to drop.
CREATE FUNCTION presence.drop_day(cutoff timestamptz) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
  partition_name text;
  last_seq bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 2);
  SELECT c.relname INTO partition_name
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'presence.outbox'::regclass AND c.relname ~ '^outbox_[0-9]{8}$'
    AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= cutoff
  ORDER BY c.relname LIMIT 1;
  IF partition_name IS NULL THEN
    RETURN false;
  END IF;
  LOCK TABLE presence.outbox IN ACCESS EXCLUSIVE MODE;
  EXECUTE format('SELECT max(seq) FROM presence.%I', partition_name) INTO last_seq;
  PERFORM presence.raise_horizon(last_seq);
  EXECUTE format('DROP TABLE presence.%I', partition_name);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Deletes up to `most` rows, the oldest first, from the default partition; returns how many. Where the host's clock had jumped far
-- ahead, rows were recorded in a future that keeps them for too long: those are judged by when they occurred. Only a run of rows
-- from the lowest seq on is deleted, so that what is kept has no holes.
CREATE FUNCTION presence.clean_default(cutoff timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  keep_from bigint;
  deleted bigint;
  last_seq bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 2);
  SELECT min(seq) INTO keep_from
  FROM presence.outbox_default
  WHERE CASE WHEN recorded_at > clock_timestamp() + interval '1 day' THEN least(recorded_at, occurred_at) ELSE recorded_at END
        >= cutoff;
  WITH gone AS (
    DELETE FROM presence.outbox_default
    WHERE seq IN (SELECT seq FROM presence.outbox_default WHERE keep_from IS NULL OR seq < keep_from ORDER BY seq LIMIT most)
    RETURNING seq
  )
  SELECT count(*), max(seq) INTO deleted, last_seq FROM gone;
  PERFORM presence.raise_horizon(last_seq);
  RETURN deleted;
END $$;

-- Deletes up to `most` rows of devices that have been offline since before `cutoff`; returns how many. Under the append's lock, so
-- that the guard never reads a row that goes away.
CREATE FUNCTION presence.forget_devices(cutoff timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  forgotten bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);
  WITH gone AS (
    DELETE FROM presence.device
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM presence.device WHERE state = 'offline' AND offline_at < cutoff LIMIT most))
    RETURNING tenant
  ), counted AS (
    UPDATE presence.tenant_stats s SET known = s.known - g.rows
    FROM (SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant) AS g
    WHERE s.tenant = g.tenant
  )
  SELECT count(*) INTO forgotten FROM gone;
  RETURN forgotten;
END $$;

-- All of it, step by step with a COMMIT after each, for at most about 20 s; what is left is done by the next run. Call it in
-- autocommit. forget_days 0: devices are never forgotten.
CREATE PROCEDURE presence.maintain(retention_days bigint, forget_days bigint)
LANGUAGE plpgsql AS $$
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
  give_up timestamptz := clock_timestamp() + interval '20 seconds';
  cutoff timestamptz := clock_timestamp() - retention_days * interval '1 day';
  forget_cutoff timestamptz := clock_timestamp() - forget_days * interval '1 day';
  more boolean;
BEGIN
  FOR ahead IN 0..3 LOOP
    PERFORM presence.make_day(today + ahead);
    COMMIT;
  END LOOP;
  more := true;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.drop_day(cutoff);
    COMMIT;
  END LOOP;
  more := true;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.clean_default(cutoff, 10000) = 10000;
    COMMIT;
  END LOOP;
  more := forget_days > 0;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.forget_devices(forget_cutoff, 1000) = 1000;
    COMMIT;
  END LOOP;
END $$;

SELECT presence.make_day((clock_timestamp() AT TIME ZONE 'UTC')::date + ahead) FROM generate_series(0, 3) AS ahead;
