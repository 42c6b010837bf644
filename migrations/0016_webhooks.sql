-- Webhooks: events of a tenant sent to a URL by a worker. What is delivered is known here and nowhere else: everything up to `cursor`
-- and the seqs in `delivered`, which lie above it. Both are saved after the receiver has accepted, so that a worker that dies at any
-- point loses nothing and repeats at most what it had not saved.
--
-- A worker serves the endpoints whose lease it holds. A lease is a time in the row, since an advisory lock would not survive a pooler
-- in transaction mode. Two workers at one endpoint may repeat events and do no other harm: what one of them saves counts only while
-- the row is still its own, at the version that it loaded.

CREATE TABLE presence.webhook (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL REFERENCES presence.tenant (id) ON DELETE CASCADE,
  url text NOT NULL CHECK (octet_length(url) BETWEEN 1 AND 2048),
  types text[] NOT NULL
    CHECK (cardinality(types) > 0 AND types <@ ARRAY['presence.device.online', 'presence.device.offline']),
  secret bytea NOT NULL CHECK (length(secret) BETWEEN 24 AND 64), -- the key itself: the service signs with it
  version bigint NOT NULL DEFAULT 1,                              -- grows when a person or a pause changes what a worker has loaded
  cursor bigint NOT NULL CHECK (cursor >= 0),
  delivered bigint[] NOT NULL DEFAULT '{}',
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
  paused_reason text CHECK (paused_reason IN ('operator', 'failing', 'gone', 'expired')),
  paused_at timestamptz,
  attempts bigint NOT NULL DEFAULT 0, -- failed ones since the last success
  failing_since timestamptz,          -- the first of them
  last_error text,
  last_error_at timestamptz,
  last_success_at timestamptz,
  owner text,                         -- the worker that serves it
  lease_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((state = 'paused') = (paused_reason IS NOT NULL) AND (state = 'paused') = (paused_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX webhook_by_tenant ON presence.webhook (tenant);

-- What people see: no secret. oldest_pending: when the oldest event that is not delivered was recorded.
CREATE VIEW presence.webhook_status AS
  SELECT w.id, w.tenant, w.url, w.types,
         CASE WHEN w.state = 'active' AND w.failing_since IS NOT NULL THEN 'failing' ELSE w.state END AS state,
         w.paused_reason, w.paused_at, w.failing_since, w.attempts, w.last_error, w.last_error_at, w.last_success_at, w.created_at,
         w.cursor AS position,
         (SELECT CASE WHEN o.recorded_at > clock_timestamp() + interval '1 day' THEN least(o.recorded_at, o.occurred_at)
                      ELSE o.recorded_at END
          FROM presence.outbox o
          WHERE o.tenant BETWEEN w.tenant AND w.tenant AND (o.tenant, o.seq) > (w.tenant, w.cursor)
            AND o.type = ANY (w.types) AND NOT o.seq = ANY (w.delivered)
          ORDER BY o.tenant, o.seq LIMIT 1) AS oldest_pending
  FROM presence.webhook w;

-- As in 0011, and webhooks. One of a tenant without new rows has read all that there is for it.
CREATE OR REPLACE VIEW presence.reader AS
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
        FROM presence.worker_group g) AS r
  UNION ALL
  SELECT 'webhook', w.tenant::text COLLATE "default" || '/' || w.id, w.position, greatest(presence.newest_seq() - w.position, 0), w.oldest_pending,
         w.position < (SELECT dropped_seq FROM presence.outbox_horizon)
  FROM presence.webhook_status w;

-- ---------------------------------------------------------------------------------------------------------------- what people do

-- start as of create_consumer. Returns the id.
CREATE FUNCTION presence.add_webhook(of_tenant text, url text, types text[], secret bytea, start text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  first_cursor bigint;
  new_id bigint;
BEGIN
  IF start NOT IN ('oldest', 'now') AND start !~ '^[0-9]{1,18}$' THEN
    RAISE EXCEPTION 'start is ''oldest'', ''now'' or a seq, not %', quote_nullable(start) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  first_cursor := CASE start
    WHEN 'oldest' THEN presence.oldest_seq() - 1
    WHEN 'now' THEN presence.newest_seq()
    ELSE start::bigint
  END;
  IF first_cursor > presence.newest_seq() THEN
    RAISE EXCEPTION 'seq % is not there yet: the newest is %', first_cursor, presence.newest_seq()
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  INSERT INTO presence.webhook (tenant, url, types, secret, cursor)
  VALUES (of_tenant, add_webhook.url, add_webhook.types, add_webhook.secret, first_cursor)
  RETURNING webhook.id INTO new_id;
  PERFORM presence.check_cursor(first_cursor);
  RETURN new_id;
END $$;

-- These return false where there is no such webhook. A worker that serves it takes notice within a second or two.

CREATE FUNCTION presence.remove_webhook(of_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM presence.webhook w WHERE w.id = of_id;
  RETURN FOUND;
END $$;

CREATE FUNCTION presence.pause_webhook(of_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE presence.webhook w
  SET state = 'paused', paused_reason = coalesce(w.paused_reason, 'operator'), paused_at = coalesce(w.paused_at, clock_timestamp()),
      version = w.version + 1, owner = NULL, lease_until = NULL
  WHERE w.id = of_id;
  RETURN FOUND;
END $$;

-- Goes on where it was, with a clean record.
CREATE FUNCTION presence.resume_webhook(of_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  position bigint;
BEGIN
  UPDATE presence.webhook w
  SET state = 'active', paused_reason = NULL, paused_at = NULL, attempts = 0, failing_since = NULL, version = w.version + 1
  WHERE w.id = of_id
  RETURNING w.cursor INTO position;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM presence.check_cursor(position);
  RETURN true;
END $$;

-- The next event delivered is the first with this seq or a higher one: back to send again, forward to skip. The state stays.
CREATE FUNCTION presence.replay_webhook(of_id bigint, from_seq bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF from_seq NOT BETWEEN 1 AND presence.newest_seq() + 1 THEN
    RAISE EXCEPTION 'seq % is not there: the newest is %', from_seq, presence.newest_seq() USING ERRCODE = 'invalid_parameter_value';
  END IF;
  UPDATE presence.webhook w SET cursor = from_seq - 1, delivered = '{}', version = w.version + 1 WHERE w.id = of_id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM presence.check_cursor(from_seq - 1);
  RETURN true;
END $$;

-- ---------------------------------------------------------------------------------------------------------------- what workers do

-- Takes and keeps leases; returns all that the worker holds. A lease further in the future than any can be was given before the
-- host's clock was set back.
CREATE FUNCTION presence.lease_webhooks(worker text, lease_ms bigint, most integer) RETURNS TABLE (id bigint, version bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE presence.webhook w
  SET owner = worker, lease_until = clock_timestamp() + lease_ms * interval '1 millisecond'
  WHERE w.id = ANY (ARRAY(
    SELECT c.id FROM presence.webhook c
    WHERE c.state = 'active'
      AND (c.owner IS NULL OR c.owner = worker OR c.lease_until <= clock_timestamp()
           OR c.lease_until > clock_timestamp() + interval '1 hour')
    ORDER BY (c.owner = worker) IS TRUE DESC, c.id LIMIT most
    FOR UPDATE SKIP LOCKED));
  RETURN QUERY SELECT w.id, w.version FROM presence.webhook w WHERE w.state = 'active' AND w.owner = worker ORDER BY w.id LIMIT most;
END $$;

CREATE FUNCTION presence.release_webhooks(worker text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  UPDATE presence.webhook SET owner = NULL, lease_until = NULL WHERE owner = worker
$$;

-- What a worker needs of one that it holds; no row: it does not hold it any more.
CREATE FUNCTION presence.load_webhook(worker text, of_id bigint)
RETURNS TABLE (version bigint, tenant text, url text, types text, secret text, cursor bigint, delivered text, attempts bigint,
               failing_ms bigint)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT w.version, w.tenant::text, w.url, array_to_string(w.types, ','), encode(w.secret, 'hex'), w.cursor,
         array_to_string(w.delivered, ','), w.attempts, presence.to_ms(clock_timestamp()) - presence.to_ms(w.failing_since)
  FROM presence.webhook w WHERE w.id = of_id AND w.owner = worker AND w.state = 'active'
$$;

-- Progress. failing_ms: for how long every attempt has failed, null where the last one did not; error: of the last one that failed
-- since the last save. False, and nothing changed, where the row is not the worker's any more, or where this database has come back
-- in a state that is older than the progress.
CREATE FUNCTION presence.save_webhook(worker text, of_id bigint, of_version bigint, new_cursor bigint, new_delivered bigint[],
                                      new_attempts bigint, failing_ms bigint, error text, succeeded boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE presence.webhook w
  SET cursor = new_cursor, delivered = new_delivered, attempts = new_attempts,
      failing_since = clock_timestamp() - failing_ms * interval '1 millisecond',
      last_error = coalesce(error, w.last_error),
      last_error_at = CASE WHEN error IS NULL THEN w.last_error_at ELSE clock_timestamp() END,
      last_success_at = CASE WHEN succeeded THEN clock_timestamp() ELSE w.last_success_at END
  WHERE w.id = of_id AND w.owner = worker AND w.version = of_version AND w.state = 'active'
    AND new_cursor BETWEEN w.cursor AND presence.newest_seq();
  RETURN FOUND;
END $$;

-- Pauses one that the worker holds; reason: 'failing', 'gone' or 'expired'.
CREATE FUNCTION presence.stop_webhook(worker text, of_id bigint, of_version bigint, reason text, error text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE presence.webhook w
  SET state = 'paused', paused_reason = reason, paused_at = clock_timestamp(), last_error = error, last_error_at = clock_timestamp(),
      version = w.version + 1, owner = NULL, lease_until = NULL
  WHERE w.id = of_id AND w.owner = worker AND w.version = of_version AND w.state = 'active';
  RETURN FOUND;
END $$;

-- Which tenants have rows behind `after`, among the next `most`, and up to which seq that has been looked at; so that a worker need
-- not ask for each of its endpoints.
CREATE FUNCTION presence.new_tenants(after bigint, most integer)
RETURNS TABLE (tenant text, last_seq bigint, rows bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT n.tenant::text, max(n.seq), count(*)
  FROM (SELECT o.tenant, o.seq FROM presence.outbox o WHERE o.seq > after ORDER BY o.seq LIMIT most) AS n
  GROUP BY n.tenant
$$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT SELECT ON presence.webhook_status TO presence_service;
    GRANT EXECUTE ON FUNCTION presence.lease_webhooks(text, bigint, integer), presence.release_webhooks(text),
                              presence.load_webhook(text, bigint),
                              presence.save_webhook(text, bigint, bigint, bigint, bigint[], bigint, bigint, text, boolean),
                              presence.stop_webhook(text, bigint, bigint, text, text), presence.new_tenants(bigint, integer)
      TO presence_service;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_admin') THEN
    GRANT SELECT ON presence.webhook_status TO presence_admin;
    GRANT EXECUTE ON FUNCTION presence.add_webhook(text, text, text[], bytea, text), presence.remove_webhook(bigint),
                              presence.pause_webhook(bigint), presence.resume_webhook(bigint),
                              presence.replay_webhook(bigint, bigint)
      TO presence_admin;
  END IF;
END $$;
