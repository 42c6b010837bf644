-- Device rows for rebuilding an emptied Redis and for the audit, which compares rows with open sessions.

-- The first `most` rows behind (after_tenant, after_device) that are online and in one of the partitions, with what scripts need of
-- their tenants. Tenants that are being deleted are left out.
CREATE FUNCTION presence.online_rows(of_partitions integer[], after_tenant text, after_device text, most integer)
RETURNS TABLE (tenant text, device text, partition integer, session_ms bigint, session_seq bigint, online_since_ms bigint,
               ttl_ms bigint, meta json, generation bigint, buckets integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A walk by the primary key, whatever the statistics say: a page must not sort the whole table.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
  RETURN QUERY
    SELECT d.tenant, d.device, d.partition, d.session_ms, d.session_seq, presence.to_ms(d.online_since), d.ttl_ms, d.meta,
           t.generation, t.buckets
    FROM presence.device d JOIN presence.tenant t ON t.id = d.tenant
    WHERE (d.tenant, d.device) > (after_tenant COLLATE "C", after_device COLLATE "C") AND d.state = 'online'
      AND d.partition = ANY (of_partitions) AND NOT t.deleting
    ORDER BY d.tenant, d.device
    LIMIT most;
END $$;

-- One line for each device asked for that has a tenant, in any order; `ord` is its place in the arrays, from 1. state is null where
-- there is no row. A device that was removed counts as offline in its last session: it must not come back by a repair.
CREATE FUNCTION presence.audit_rows(of_tenants text[], of_devices text[])
RETURNS TABLE (ord bigint, generation bigint, buckets integer, state text, session_ms bigint, session_seq bigint,
               online_since_ms bigint, ttl_ms bigint, offline_at_ms bigint, meta json)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
  RETURN QUERY
    SELECT a.ord, t.generation, t.buckets, coalesce(d.state, CASE WHEN f.tenant IS NOT NULL THEN 'offline' END),
           coalesce(d.session_ms, f.session_ms), coalesce(d.session_seq, f.session_seq), presence.to_ms(d.online_since), d.ttl_ms,
           presence.to_ms(d.offline_at), d.meta
    FROM unnest(of_tenants, of_devices) WITH ORDINALITY AS a (tenant, device, ord)
         JOIN presence.tenant t ON t.id = a.tenant COLLATE "C"
         LEFT JOIN presence.device d ON d.tenant = a.tenant COLLATE "C" AND d.device = a.device COLLATE "C"
         LEFT JOIN presence.forgotten f ON f.tenant = a.tenant COLLATE "C" AND f.device = a.device COLLATE "C"
    WHERE NOT t.deleting;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.online_rows(integer[], text, text, integer), presence.audit_rows(text[], text[])
      TO presence_service;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_admin') THEN
    GRANT EXECUTE ON FUNCTION presence.online_rows(integer[], text, text, integer), presence.audit_rows(text[], text[])
      TO presence_admin;
  END IF;
END $$;
