-- Deleting a tenant, step by step: presencectl tenant delete. Each function may be repeated; a deletion that was interrupted goes on
-- where it was.

-- Marks the tenant: nothing is accepted for it any more. Its generation becomes one that no process has seen, so that Redis, told of
-- it, refuses whoever still has the old settings. No row: there is no such tenant.
CREATE FUNCTION presence.begin_tenant_deletion(of_tenant text) RETURNS TABLE (generation bigint, buckets integer)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  UPDATE presence.tenant t
  SET deleting = true, generation = CASE WHEN t.deleting THEN t.generation ELSE nextval('presence.tenant_generation') END
  WHERE t.id = of_tenant
  RETURNING t.generation, t.buckets
$$;

-- Ends up to `most` sessions that are online here although Redis has nothing of them any more: reason state_lost. Returns how many.
-- To be called when the tenant's keys are gone and its transitions published: what is online then was lost before.
CREATE FUNCTION presence.end_lost_sessions(of_tenant text, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  part record;
  ended bigint := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);
  IF NOT EXISTS (SELECT FROM presence.tenant WHERE id = of_tenant AND deleting) THEN
    RAISE EXCEPTION 'tenant % is not being deleted', of_tenant USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  FOR part IN
    SELECT partition, count(*) AS sessions, array_agg(tenant::text) AS tenants, array_agg(device::text) AS devices,
           array_agg(session_ms) AS session_mss, array_agg(session_seq) AS session_seqs,
           array_agg(presence.to_ms(online_since)) AS online_since_mss, array_agg(ttl_ms) AS ttl_mss,
           array_agg(meta::text) AS metas, array_agg(offline_id) AS offline_ids,
           array_agg(presence.to_ms(clock_timestamp())) AS now_mss
    FROM (SELECT * FROM presence.device WHERE tenant = of_tenant AND state = 'online' LIMIT most) AS open
    GROUP BY partition
  LOOP
    PERFORM presence.append(part.partition, part.tenants, part.devices, part.session_mss, part.session_seqs,
                            array_fill('offline'::text, ARRAY[part.sessions::integer]),
                            array_fill('state_lost'::text, ARRAY[part.sessions::integer]),
                            part.online_since_mss, part.ttl_mss, array_fill(NULL::bigint, ARRAY[part.sessions::integer]),
                            part.now_mss, part.now_mss, part.metas, part.offline_ids, part.offline_ids);
    ended := ended + part.sessions;
  END LOOP;
  RETURN ended;
END $$;

-- Deletes up to `most` device rows of a tenant that is being deleted; returns how many. Their guards stay behind as in 0008: entries
-- of their sessions may still be on their way.
CREATE FUNCTION presence.forget_tenant_devices(of_tenant text, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  forgotten bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);
  IF NOT EXISTS (SELECT FROM presence.tenant WHERE id = of_tenant AND deleting) THEN
    RAISE EXCEPTION 'tenant % is not being deleted', of_tenant USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  WITH gone AS (
    DELETE FROM presence.device
    WHERE tenant = of_tenant
      AND device IN (SELECT device FROM presence.device WHERE tenant = of_tenant AND state = 'offline' ORDER BY device LIMIT most)
    RETURNING tenant, device, session_ms, session_seq
  ), guarded AS (
    INSERT INTO presence.forgotten AS f (tenant, device, session_ms, session_seq)
    SELECT tenant, device, session_ms, session_seq FROM gone
    ON CONFLICT (tenant, device) DO UPDATE
    SET session_ms = excluded.session_ms, session_seq = excluded.session_seq, forgotten_at = excluded.forgotten_at
  )
  SELECT count(*) INTO forgotten FROM gone;
  UPDATE presence.tenant_stats SET known = known - forgotten WHERE tenant = of_tenant;
  RETURN forgotten;
END $$;

-- The last step: the tenant itself and its tokens. False where devices are left. Outbox rows stay until retention drops them: they
-- are history that consumers may not have read yet.
CREATE FUNCTION presence.end_tenant_deletion(of_tenant text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);
  IF EXISTS (SELECT FROM presence.device WHERE tenant = of_tenant) THEN
    RETURN false;
  END IF;
  DELETE FROM presence.tenant_stats WHERE tenant = of_tenant;
  DELETE FROM presence.tenant WHERE id = of_tenant AND deleting;
  RETURN true;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_admin') THEN
    GRANT EXECUTE ON FUNCTION presence.begin_tenant_deletion(text), presence.end_lost_sessions(text, integer),
                              presence.forget_tenant_devices(text, integer), presence.end_tenant_deletion(text)
      TO presence_admin;
  END IF;
END $$;
