-- Lists of devices.

-- The ids of a tenant's devices from `after` on (which is not among them), in the order of their bytes. at_least: a prefix; the
-- caller stops where ids no longer begin with it. The walk is by the primary key whatever the tables' statistics say: a plan that
-- sorts all of the tenant's rows would make each page as slow as the whole list.
CREATE FUNCTION presence.device_page(of_tenant text, after text, at_least text, most integer) RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
BEGIN
  IF at_least COLLATE "C" > after THEN
    RETURN QUERY
      SELECT d.device FROM presence.device d WHERE d.tenant = of_tenant AND d.device >= at_least ORDER BY d.device LIMIT most;
  ELSE
    RETURN QUERY
      SELECT d.device FROM presence.device d WHERE d.tenant = of_tenant AND d.device > after ORDER BY d.device LIMIT most;
  END IF;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.device_page(text, text, text, integer) TO presence_service;
  END IF;
END $$;
