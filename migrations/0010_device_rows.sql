-- Reading rows of devices fast, whatever the tables' statistics say.

-- The rows of some devices, in the order asked; nulls where there is none. As in 0001, with a plan that is always a look-up by primary
-- key for each: the planner would read all of a tenant's rows to join them with a thousand names.
CREATE OR REPLACE FUNCTION presence.device_rows(of_tenant text, of_devices text[])
RETURNS TABLE (state text, session_ms bigint, session_seq bigint, online_since_ms bigint, last_seen_ms bigint,
               offline_at_ms bigint, ttl_ms bigint, reason text, meta json)
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
  SELECT d.state, d.session_ms, d.session_seq, presence.to_ms(d.online_since), presence.to_ms(d.last_seen),
         presence.to_ms(d.offline_at), d.ttl_ms, d.reason, d.meta
  FROM unnest(of_devices) WITH ORDINALITY AS asked (device, ord)
       LEFT JOIN presence.device d ON d.tenant = of_tenant AND d.device = asked.device
  ORDER BY asked.ord
$$;

-- As in 0006, with the rows: a range of the primary key is read five times as fast as its rows one by one. Of a row that says online
-- only the state is answered, since Redis knows the rest.
DROP FUNCTION presence.device_page(text, text, text, integer);
CREATE FUNCTION presence.device_page(of_tenant text, after text, at_least text, most integer)
RETURNS TABLE (device text, state text, session_ms bigint, session_seq bigint, online_since_ms bigint, last_seen_ms bigint,
               offline_at_ms bigint, ttl_ms bigint, reason text, meta json)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  from_prefix boolean := at_least COLLATE "C" > after;
BEGIN
  RETURN QUERY
    SELECT d.device, d.state, d.session_ms, d.session_seq,
           CASE d.state WHEN 'offline' THEN presence.to_ms(d.online_since) END,
           CASE d.state WHEN 'offline' THEN presence.to_ms(d.last_seen) END,
           CASE d.state WHEN 'offline' THEN presence.to_ms(d.offline_at) END, d.ttl_ms, d.reason,
           CASE d.state WHEN 'offline' THEN d.meta END
    FROM presence.device d
    WHERE d.tenant = of_tenant AND d.device >= CASE WHEN from_prefix THEN at_least ELSE after END
      AND (from_prefix OR d.device <> after)
    ORDER BY d.device LIMIT most;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.device_page(text, text, text, integer) TO presence_service;
  END IF;
END $$;
