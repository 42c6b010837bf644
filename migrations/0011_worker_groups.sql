-- Competing workers: many processes share the rows of one group. A row that a claim hands out is leased to whoever called; it comes
-- again unless it is acknowledged in time. The outbox itself is never updated: what is under way is in tables of its own.
--
-- A group's cursor tells up to where outbox rows have become tasks. A task is a row that has been taken from the outbox and is not
-- yet acknowledged; its acknowledgement deletes it. So a group has handled what is up to its cursor and no task.
--
-- Order: of one device a group hands out one row at a time, the oldest first, and the next one only after that one is acknowledged
-- or given up. Rows of different devices come in any order.

CREATE TABLE presence.worker_group (
  name text PRIMARY KEY CHECK (name <> ''),
  cursor bigint NOT NULL CHECK (cursor >= 0),
  max_attempts integer NOT NULL DEFAULT 10 CHECK (max_attempts BETWEEN 1 AND 1000),
  first_backoff interval NOT NULL DEFAULT '1 second', -- doubles with each attempt
  last_backoff interval NOT NULL DEFAULT '5 minutes',
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (interval '0' <= first_backoff AND first_backoff <= last_backoff AND last_backoff <= interval '1 day')
);

-- No foreign key to the group: it would lock the group's row once for each task.
CREATE TABLE presence.worker_task (
  worker_group text NOT NULL,
  seq bigint NOT NULL,
  recorded_at timestamptz NOT NULL, -- of the outbox row: tells its day
  tenant text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL,      -- not handed out before: its lease and its back-off are over then
  error text,                       -- what the last worker that gave it back said
  PRIMARY KEY (worker_group, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX worker_task_by_device ON presence.worker_task (worker_group, tenant, device, seq);

-- Rows given up. A copy, since the retention does not spare the outbox row.
CREATE TABLE presence.dead_task (
  worker_group text NOT NULL,
  seq bigint NOT NULL,
  attempts integer NOT NULL,
  error text,
  died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  id uuid NOT NULL,
  type text NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  session text NOT NULL,
  occurred_at timestamptz NOT NULL,
  payload jsonb NOT NULL,
  PRIMARY KEY (worker_group, seq)
);

CREATE VIEW presence.dead_letter AS
  SELECT worker_group, seq, id, type, tenant, device, session, occurred_at, payload, attempts, error, died_at
  FROM presence.dead_task;

-- Where every reader that this database knows of stands. unread_since: since when its oldest unread row has been there, null where it
-- has read all; lost: rows after its position have been dropped. A row recorded while the host's clock was far ahead is judged by
-- when it occurred, as the retention does.
CREATE VIEW presence.reader AS
  SELECT r.kind, r.name, r.position,
         greatest(presence.newest_seq() - r.position, 0) AS behind,
         (SELECT CASE WHEN o.recorded_at > clock_timestamp() + interval '1 day' THEN least(o.recorded_at, o.occurred_at)
                      ELSE o.recorded_at END
          FROM presence.outbox o WHERE o.seq > r.position ORDER BY o.seq LIMIT 1) AS unread_since,
         r.position < (SELECT dropped_seq FROM presence.outbox_horizon) AS lost
  FROM (SELECT 'consumer' AS kind, name, cursor AS position FROM presence.consumer
        UNION ALL
        SELECT 'group', g.name,
               least(g.cursor, (SELECT t.seq - 1 FROM presence.worker_task t WHERE t.worker_group = g.name ORDER BY t.seq LIMIT 1))
        FROM presence.worker_group g) AS r;

-- ------------------------------------------------------------------------------------------------------------------- the groups

-- start as of create_consumer. An existing name is an error.
CREATE FUNCTION presence.create_group(worker_group text, start text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  first_cursor bigint;
BEGIN
  IF start NOT IN ('oldest', 'now') AND start !~ '^[0-9]{1,18}$' THEN
    RAISE EXCEPTION 'start is ''oldest'', ''now'' or a seq, not %', quote_nullable(start) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  first_cursor := CASE start
    WHEN 'oldest' THEN presence.oldest_seq() - 1
    WHEN 'now' THEN presence.newest_seq()
    ELSE start::bigint
  END;
  INSERT INTO presence.worker_group (name, cursor) VALUES (create_group.worker_group, first_cursor);
  PERFORM presence.check_cursor(first_cursor);
  RETURN first_cursor;
END $$;

-- The group's row; an unknown name is an error.
CREATE FUNCTION presence.group_named(worker_group text) RETURNS presence.worker_group
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found_group presence.worker_group;
BEGIN
  SELECT * INTO found_group FROM presence.worker_group g WHERE g.name = group_named.worker_group;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no group %', quote_nullable(worker_group) USING ERRCODE = 'no_data_found';
  END IF;
  RETURN found_group;
END $$;

-- How often a row is tried, and how long the pause after a failed attempt is: first_backoff, doubled with each, last_backoff at most.
CREATE FUNCTION presence.set_group(worker_group text, max_attempts integer, first_backoff interval, last_backoff interval)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM presence.group_named(worker_group);
  UPDATE presence.worker_group g
  SET max_attempts = set_group.max_attempts, first_backoff = set_group.first_backoff, last_backoff = set_group.last_backoff
  WHERE g.name = worker_group;
END $$;

-- Starts the group anew behind this seq: all that comes after it is handed out, again where it was handled before; what is under way
-- is forgotten. Dead letters stay.
CREATE FUNCTION presence.seek_group(worker_group text, seq bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM presence.group_named(worker_group);
  UPDATE presence.worker_group g SET cursor = seek_group.seq WHERE g.name = worker_group;
  DELETE FROM presence.worker_task t WHERE t.worker_group = seek_group.worker_group;
  PERFORM presence.check_cursor(seq);
END $$;

-- Removes a group with all it has under way and its dead letters; false where there is none of the name.
CREATE FUNCTION presence.drop_group(worker_group text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM presence.worker_group g WHERE g.name = drop_group.worker_group;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM presence.worker_task t WHERE t.worker_group = drop_group.worker_group;
  DELETE FROM presence.dead_task d WHERE d.worker_group = drop_group.worker_group;
  RETURN true;
END $$;

-- The same for a named consumer: one that nobody runs any more would count as the slowest reader for ever.
CREATE FUNCTION presence.drop_consumer(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM presence.consumer c WHERE c.name = drop_consumer.name;
  RETURN FOUND;
END $$;

-- ---------------------------------------------------------------------------------------------------------------- claim and ack

-- The functions here go by the primary keys (SET enable_…), whatever the statistics of tables say that are empty one moment and full
-- the next.

CREATE FUNCTION presence.backoff(of_group presence.worker_group, attempts integer) RETURNS interval
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT least(of_group.last_backoff, of_group.first_backoff * power(2, least(attempts - 1, 30)))
$$;

-- Turns the next `most` outbox rows into tasks; returns how many, null where another caller is at it for a second. Callers take
-- turns, and rows become visible in the order of seq: so a device's tasks are there in order. A group with very many tasks under
-- way gets no more.
CREATE FUNCTION presence.feed_group(worker_group text, most integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET lock_timeout = '1s'
AS $$
DECLARE
  position bigint;
  last_seq bigint;
  fed bigint;
  most_under_way CONSTANT integer := 20000;
BEGIN
  SELECT cursor INTO position FROM presence.worker_group g WHERE g.name = feed_group.worker_group FOR NO KEY UPDATE;
  IF most_under_way < (SELECT count(*) FROM (SELECT FROM presence.worker_task t WHERE t.worker_group = feed_group.worker_group
                                             LIMIT most_under_way + 1) AS under_way) THEN
    RETURN 0;
  END IF;
  WITH page AS MATERIALIZED (
    SELECT o.seq, o.recorded_at, o.tenant, o.device FROM presence.outbox o WHERE o.seq > position ORDER BY o.seq LIMIT most
  ), task AS (
    INSERT INTO presence.worker_task (worker_group, seq, recorded_at, tenant, device, due_at)
    SELECT feed_group.worker_group, p.seq, p.recorded_at, p.tenant, p.device, clock_timestamp() FROM page p
    ON CONFLICT DO NOTHING -- a dead letter that is tried again after a seek to before it
  )
  SELECT count(*), max(p.seq) INTO fed, last_seq FROM page p;
  PERFORM presence.check_cursor(position);
  IF fed > 0 THEN
    UPDATE presence.worker_group g SET cursor = last_seq WHERE g.name = feed_group.worker_group;
  END IF;
  RETURN fed;
EXCEPTION WHEN lock_not_available THEN
  RETURN NULL;
END $$;

-- Gives up what is due and has been tried often enough.
CREATE FUNCTION presence.bury_tasks(of_group presence.worker_group) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  oldest bigint;
BEGIN
  WITH dead AS (
    DELETE FROM presence.worker_task t
    WHERE t.worker_group = of_group.name AND t.seq = ANY (ARRAY(
      SELECT w.seq FROM presence.worker_task w
      WHERE w.worker_group = of_group.name AND w.attempts >= of_group.max_attempts AND w.due_at <= clock_timestamp()
      ORDER BY w.seq LIMIT 1000 FOR UPDATE SKIP LOCKED))
    RETURNING t.*
  ), buried AS (
    INSERT INTO presence.dead_task AS d (worker_group, seq, attempts, error, id, type, tenant, device, session, occurred_at, payload)
    SELECT t.worker_group, t.seq, t.attempts, coalesce(t.error, 'not acknowledged in time'), o.id, o.type, o.tenant, o.device,
           o.session, o.occurred_at, o.payload
    FROM dead t JOIN presence.outbox o ON o.seq = t.seq AND o.recorded_at = t.recorded_at
    ON CONFLICT (worker_group, seq) DO UPDATE -- it died before, ahead of a seek
    SET attempts = excluded.attempts, error = excluded.error, died_at = clock_timestamp()
  )
  SELECT min(t.seq) INTO oldest FROM dead t;
  PERFORM presence.check_cursor(oldest - 1);
END $$;

-- Leases up to `most` tasks that are due, each the oldest of its device, and returns their seqs. A lease that is further in the
-- future than any can be was given before the host's clock was set back.
CREATE FUNCTION presence.lease_tasks(of_group presence.worker_group, most integer, lease interval) RETURNS bigint[]
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  WITH picked AS (
    SELECT t.seq FROM presence.worker_task t
    WHERE t.worker_group = of_group.name AND t.attempts < of_group.max_attempts
      AND (t.due_at <= clock_timestamp() OR t.due_at > clock_timestamp() + interval '3 days')
      AND NOT EXISTS (SELECT FROM presence.worker_task earlier
                      WHERE earlier.worker_group = of_group.name AND earlier.tenant = t.tenant AND earlier.device = t.device
                        AND earlier.seq < t.seq)
    ORDER BY t.seq LIMIT most
    FOR UPDATE OF t SKIP LOCKED
  ), leased AS (
    UPDATE presence.worker_task t
    SET attempts = t.attempts + 1, due_at = clock_timestamp() + lease + presence.backoff(of_group, t.attempts + 1)
    FROM picked WHERE t.worker_group = of_group.name AND t.seq = picked.seq
    RETURNING t.seq
  )
  SELECT coalesce(array_agg(seq), '{}') FROM leased
$$;

-- Up to `max` rows, leased to the caller: what it does not acknowledge in time comes again to whoever asks then. Call it in
-- autocommit: a claim that is rolled back has given out nothing, and one whose transaction stays open holds up others by a second.
-- attempts counts this one. Fewer rows than asked for, or none: there are no more just now.
CREATE FUNCTION presence.claim(worker_group text, max integer, lease interval)
RETURNS TABLE (seq bigint, id uuid, type text, tenant text, device text, session text, occurred_at timestamptz, payload jsonb,
               attempts integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  my_group presence.worker_group := presence.group_named(worker_group);
  oldest_task bigint;
  seqs bigint[] := '{}';
BEGIN
  IF max IS NULL OR max NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'max is 1 to 1000, not %', max USING ERRCODE = 'invalid_parameter_value';
  ELSIF lease IS NULL OR lease <= interval '0' OR lease > interval '1 day' THEN
    RAISE EXCEPTION 'lease is more than nothing and at most a day, not %', lease USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT min(t.seq) INTO oldest_task FROM presence.worker_task t WHERE t.worker_group = claim.worker_group;
  PERFORM presence.bury_tasks(my_group);
  FOR round IN 1..10 LOOP -- what a round takes from the outbox may all be of devices that have to wait
    seqs := seqs || presence.lease_tasks(my_group, max - cardinality(seqs), lease);
    EXIT WHEN cardinality(seqs) >= max OR coalesce(presence.feed_group(worker_group, max - cardinality(seqs)), 0) = 0;
  END LOOP;
  RETURN QUERY
    SELECT o.seq, o.id, o.type, o.tenant::text, o.device::text, o.session, o.occurred_at, o.payload, t.attempts
    FROM presence.worker_task t JOIN presence.outbox o ON o.seq = t.seq AND o.recorded_at = t.recorded_at
    WHERE t.worker_group = claim.worker_group AND t.seq = ANY (seqs)
    ORDER BY t.seq;
  PERFORM presence.check_cursor(oldest_task - 1);
END $$;

-- These rows are handled; returns how many of them were under way (0 for one that is acknowledged already or given up). Also good
-- when the lease is over. In the transaction of the worker's own effect: handled and acknowledged together.
CREATE FUNCTION presence.ack(worker_group text, seqs bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  acknowledged bigint;
BEGIN
  PERFORM presence.group_named(worker_group);
  DELETE FROM presence.worker_task t
  WHERE t.worker_group = ack.worker_group AND t.seq = ANY (ARRAY(
    SELECT w.seq FROM presence.worker_task w
    WHERE w.worker_group = ack.worker_group AND w.seq = ANY (ack.seqs) AND w.attempts > 0
    ORDER BY w.seq FOR UPDATE)); -- in order, so that two never wait for each other
  GET DIAGNOSTICS acknowledged = ROW_COUNT;
  RETURN acknowledged;
END $$;

-- Gives rows back before the lease is over, with what went wrong: they come again after the back-off, or are dead letters when they
-- have been tried often enough. Returns how many.
CREATE FUNCTION presence.nack(worker_group text, seqs bigint[], error text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  my_group presence.worker_group := presence.group_named(worker_group);
  given_back bigint;
BEGIN
  UPDATE presence.worker_task t
  SET error = left(nack.error, 1000),
      due_at = clock_timestamp() + CASE WHEN t.attempts < my_group.max_attempts THEN presence.backoff(my_group, t.attempts)
                                        ELSE interval '0' END
  WHERE t.worker_group = nack.worker_group AND t.seq = ANY (ARRAY(
    SELECT w.seq FROM presence.worker_task w
    WHERE w.worker_group = nack.worker_group AND w.seq = ANY (nack.seqs) AND w.attempts > 0
    ORDER BY w.seq FOR UPDATE));
  GET DIAGNOSTICS given_back = ROW_COUNT;
  PERFORM presence.bury_tasks(my_group);
  RETURN given_back;
END $$;

-- Dead letters are handed out again, with all attempts before them; null: all of the group. Returns how many. One whose outbox row
-- has been dropped is an error: there is only its copy in presence.dead_letter, to be handled by hand and removed by discard_dead.
CREATE FUNCTION presence.retry_dead(worker_group text, seqs bigint[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  retried bigint;
  oldest bigint;
BEGIN
  PERFORM presence.group_named(worker_group);
  WITH dead AS (
    DELETE FROM presence.dead_task d
    WHERE d.worker_group = retry_dead.worker_group AND (retry_dead.seqs IS NULL OR d.seq = ANY (retry_dead.seqs))
    RETURNING d.seq
  ), task AS (
    INSERT INTO presence.worker_task (worker_group, seq, recorded_at, tenant, device, due_at)
    SELECT retry_dead.worker_group, o.seq, o.recorded_at, o.tenant, o.device, clock_timestamp()
    FROM dead d JOIN presence.outbox o ON o.seq = d.seq
    ON CONFLICT DO NOTHING
  )
  SELECT count(*), min(d.seq) INTO retried, oldest FROM dead d;
  PERFORM presence.check_cursor(oldest - 1);
  RETURN retried;
END $$;

CREATE FUNCTION presence.discard_dead(worker_group text, seqs bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  discarded bigint;
BEGIN
  PERFORM presence.group_named(worker_group);
  DELETE FROM presence.dead_task d WHERE d.worker_group = discard_dead.worker_group AND d.seq = ANY (discard_dead.seqs);
  GET DIAGNOSTICS discarded = ROW_COUNT;
  RETURN discarded;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
DECLARE
  role_name text;
BEGIN
  FOR role_name IN SELECT rolname FROM pg_roles WHERE rolname IN ('presence_consumer', 'presence_admin') LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION presence.create_group(text, text), presence.claim(text, integer, interval),
                      presence.ack(text, bigint[]), presence.nack(text, bigint[], text), presence.seek_group(text, bigint),
                      presence.set_group(text, integer, interval, interval), presence.retry_dead(text, bigint[]),
                      presence.discard_dead(text, bigint[]), presence.drop_group(text), presence.drop_consumer(text) TO %I',
                   role_name);
    EXECUTE format('GRANT SELECT ON presence.dead_letter, presence.reader, presence.worker_group TO %I', role_name);
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT SELECT ON presence.reader TO presence_service;
  END IF;
END $$;
