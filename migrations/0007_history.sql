-- A device's sessions, from the outbox.

-- Ends only: the row of an end says when its session began. Half the size, and starts pay nothing for it.
CREATE INDEX outbox_ends_by_device ON presence.outbox (tenant, device, seq) WHERE type = 'presence.device.offline';

-- Since when the outbox holds all rows; null: nothing has ever been dropped. Rows are dropped from the lowest seq on: whole days, and
-- rows of the default partition.
CREATE FUNCTION presence.kept_since() RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT least((SELECT recorded_at FROM presence.outbox ORDER BY seq LIMIT 1),
               (SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC'
                FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'presence.outbox'::regclass AND c.relname ~ '^outbox_[0-9]{8}$'))
  FROM presence.outbox_horizon
  WHERE dropped_seq > 0
$$;

-- One device's newest `most` sessions and its availability, as the JSON object that the HTTP API answers with; null: there is no
-- such device. At most `look` ends are read. Availability is the share of time online since `from_ms`: the window's begin, or the
-- time since when all is known where that is later (the device's first session, what the outbox keeps, the ends read).
-- STABLE: everything is seen at one instant.
CREATE FUNCTION presence.device_history(of_tenant text, of_device text, most integer, look integer) RETURNS json
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
  now_ms bigint := presence.to_ms(clock_timestamp());
  kept_since_ms bigint := presence.to_ms(presence.kept_since());
  history json;
BEGIN
  WITH device AS (
    SELECT * FROM presence.device d WHERE d.tenant = of_tenant AND d.device = of_device
  ), ended AS MATERIALIZED (
    SELECT o.seq, o.session, (o.payload->>'online_since_ms')::bigint AS online_since_ms,
           (o.payload->>'offline_at_ms')::bigint AS offline_at_ms, o.payload->>'reason' AS reason,
           (o.payload->>'last_seen_ms')::bigint AS last_seen_ms
    FROM presence.outbox o
    WHERE o.tenant = of_tenant AND o.device = of_device AND o.type = 'presence.device.offline'
    ORDER BY o.seq DESC LIMIT look
  ), session AS MATERIALIZED (
    SELECT * FROM ended
    UNION ALL -- the open one, or the last one where the row of its end has been dropped
    SELECT 9223372036854775807, d.session, presence.to_ms(d.online_since), presence.to_ms(d.offline_at), d.reason,
           CASE d.state WHEN 'offline' THEN presence.to_ms(d.last_seen) END
    FROM device d WHERE NOT EXISTS (SELECT FROM ended e WHERE e.session = d.session)
  ), known AS (
    SELECT greatest(presence.to_ms(d.first_seen), kept_since_ms,
                    CASE WHEN (SELECT count(*) FROM ended) = look THEN (SELECT min(offline_at_ms) FROM ended) END) AS since_ms
    FROM device d
  ), time_window AS (
    SELECT name, ord, least(now_ms, greatest(now_ms - length_ms, known.since_ms)) AS from_ms
    FROM known, unnest(ARRAY['1h', '24h', '7d'], ARRAY[3600000, 86400000, 604800000]) WITH ORDINALITY AS w (name, length_ms, ord)
  ), availability AS (
    SELECT w.name, w.ord, w.from_ms,
           least(now_ms - w.from_ms, coalesce(sum(greatest(0, least(now_ms, coalesce(s.offline_at_ms, now_ms))
                                                             - greatest(w.from_ms, s.online_since_ms))), 0))::bigint AS online_ms
    FROM time_window w LEFT JOIN session s ON true
    GROUP BY w.name, w.ord, w.from_ms
  ), shown AS (
    SELECT session, online_since_ms, offline_at_ms, reason, last_seen_ms,
           greatest(0, coalesce(offline_at_ms, now_ms) - online_since_ms) AS length_ms
    FROM session ORDER BY seq DESC LIMIT most
  )
  SELECT row_to_json(answer) INTO history
  FROM (
    SELECT d.device, now_ms AS as_of_ms, known.since_ms AS complete_since_ms,
           (SELECT json_object_agg(a.name, row_to_json(figures) ORDER BY a.ord)
            FROM availability a,
                 LATERAL (SELECT a.from_ms, a.online_ms,
                                 round(a.online_ms::numeric / nullif(now_ms - a.from_ms, 0), 6)::float8 AS share) AS figures
           ) AS availability,
           ARRAY(SELECT row_to_json(shown) FROM shown) AS sessions,
           (SELECT count(*) FROM session) > most AS more
    FROM device d, known
  ) AS answer;
  RETURN history;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.kept_since(), presence.device_history(text, text, integer, integer) TO presence_service;
  END IF;
END $$;
