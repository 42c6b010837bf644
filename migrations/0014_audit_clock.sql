-- The newest recorded_at of the outbox, which never falls: a lower one than before tells that the database is an older state.
CREATE FUNCTION presence.newest_recorded_ms() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT presence.to_ms(recorded_at) FROM presence.outbox_clock $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.newest_recorded_ms() TO presence_service;
  END IF;
END $$;
