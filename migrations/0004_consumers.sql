-- Reading the outbox with a cursor. A cursor is the seq of the last row handled. It is too old when rows after it have been dropped:
-- an error with SQLSTATE PR410 that names the oldest seq kept, never a silent gap.

CREATE TABLE presence.consumer (
  name text PRIMARY KEY CHECK (name <> ''),
  cursor bigint NOT NULL CHECK (cursor >= 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  moved_at timestamptz NOT NULL DEFAULT now()
);

-- The newest seq that is visible; where nothing is kept, the newest dropped. Not the sequence's value: that may be of a transaction
-- under way.
CREATE FUNCTION presence.newest_seq() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce((SELECT seq FROM presence.outbox ORDER BY seq DESC LIMIT 1),
                  (SELECT dropped_seq FROM presence.outbox_horizon))
$$;

-- The oldest seq kept; where nothing is, the next one to come.
CREATE FUNCTION presence.oldest_seq() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce((SELECT seq FROM presence.outbox ORDER BY seq LIMIT 1), presence.newest_seq() + 1)
$$;

CREATE VIEW presence.overview AS
  SELECT (SELECT max(version) FROM presence.migration) AS schema_version,
         (SELECT count(*) FROM presence.tenant) AS tenants,
         (SELECT coalesce(sum(known), 0) FROM presence.tenant_stats)::bigint AS known_devices,
         presence.newest_seq() AS newest_seq,
         presence.oldest_seq() AS oldest_seq,
         (SELECT count(*) FROM presence.rejected) AS rejected;

-- Raises PR410 where rows after `seq` have been dropped. After reading rows it is called, not before: a day dropped in between
-- would go unnoticed. For the same reason the two must not share one old snapshot.
CREATE FUNCTION presence.check_cursor(seq bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'reading with a cursor needs READ COMMITTED, not %', current_setting('transaction_isolation')
      USING ERRCODE = 'invalid_transaction_state';
  END IF;
  IF seq < (SELECT dropped_seq FROM presence.outbox_horizon) THEN
    RAISE EXCEPTION 'cursor % is older than what is kept: the oldest seq is %', seq, presence.oldest_seq()
      USING ERRCODE = 'PR410';
  END IF;
END $$;

-- A tenant's rows after a cursor. The tenant is asked for as a range, and the order begins with it, so that only the index on
-- (tenant, seq) will do: by the one on seq a small tenant's reader would walk through everyone's rows.
CREATE FUNCTION presence.tenant_events(of_tenant text, after bigint, most integer) RETURNS SETOF presence.outbox
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
    SELECT * FROM presence.outbox o
    WHERE o.tenant BETWEEN of_tenant AND of_tenant AND (o.tenant, o.seq) > (of_tenant, after)
    ORDER BY o.tenant, o.seq LIMIT most;
  PERFORM presence.check_cursor(after);
END $$;

-- ------------------------------------------------------------------------------------------------------------ named consumers

-- start: 'oldest' (all that is kept), 'now' (only what comes) or a seq (what comes after it). An existing name is an error.
CREATE FUNCTION presence.create_consumer(name text, start text) RETURNS bigint
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
  INSERT INTO presence.consumer (name, cursor) VALUES (create_consumer.name, first_cursor);
  PERFORM presence.check_cursor(first_cursor);
  RETURN first_cursor;
END $$;

-- Locks the consumer until the end of the transaction and returns its cursor.
CREATE FUNCTION presence.lock_consumer(consumer_name text) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  position bigint;
BEGIN
  SELECT c.cursor INTO position FROM presence.consumer c WHERE c.name = consumer_name FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no consumer %', quote_nullable(consumer_name) USING ERRCODE = 'no_data_found';
  END IF;
  RETURN position;
END $$;

-- The next rows. The cursor is locked until the transaction ends, so two processes of one name take turns; it moves with commit().
-- BEGIN; SELECT * FROM presence.poll('billing', 100); …handle them…; SELECT presence.commit('billing', <last seq>); COMMIT;
CREATE FUNCTION presence.poll(consumer text, max integer) RETURNS SETOF presence.outbox
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  position bigint := presence.lock_consumer(consumer);
BEGIN
  RETURN QUERY SELECT * FROM presence.outbox o WHERE o.seq > position ORDER BY o.seq LIMIT max;
  PERFORM presence.check_cursor(position);
END $$;

-- Moves the cursor forward; false, and nothing changed, where it is there or further on already.
CREATE FUNCTION presence.commit(consumer text, seq bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  position bigint := presence.lock_consumer(consumer);
BEGIN
  IF commit.seq <= position THEN
    RETURN false;
  END IF;
  IF commit.seq > presence.newest_seq() THEN
    RAISE EXCEPTION 'seq % is not there yet: the newest is %', commit.seq, presence.newest_seq()
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  UPDATE presence.consumer c SET cursor = commit.seq, moved_at = clock_timestamp() WHERE c.name = consumer;
  RETURN true;
END $$;

-- Sets the cursor anywhere that is kept: back to read again, forward to skip.
CREATE FUNCTION presence.seek(consumer text, seq bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM presence.lock_consumer(consumer);
  UPDATE presence.consumer c SET cursor = seek.seq, moved_at = clock_timestamp() WHERE c.name = consumer;
  PERFORM presence.check_cursor(seek.seq);
END $$;
