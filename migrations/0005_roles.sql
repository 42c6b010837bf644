-- Three roles to grant to logins. The owner of the schema needs none of them. Roles belong to the whole server: they may exist
-- already, and whoever migrates may not be allowed to make any; then they are left out, and nothing else depends on them.
--
--   presence_service   what presenced does
--   presence_consumer  reads the outbox, directly and with named consumers
--   presence_admin     what presencectl does besides `migrate`

-- Functions are for those who are granted them, not for PUBLIC. PostgreSQL grants each new one to PUBLIC: later migrations that make
-- some say this again.
REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

-- What service, admin and consumers call with their own rights must not depend on who may write the tables.
ALTER FUNCTION presence.append(integer, text[], text[], bigint[], bigint[], text[], text[], bigint[], bigint[], bigint[], bigint[],
                               bigint[], text[], uuid[], uuid[]) SECURITY DEFINER;
ALTER FUNCTION presence.reject(integer, text, json, boolean, text, text) SECURITY DEFINER;
ALTER FUNCTION presence.retry_rejected(bigint) SECURITY DEFINER;
ALTER FUNCTION presence.make_day(date) SECURITY DEFINER;
ALTER FUNCTION presence.drop_day(timestamptz) SECURITY DEFINER;
ALTER FUNCTION presence.clean_default(timestamptz, integer) SECURITY DEFINER;
ALTER FUNCTION presence.forget_devices(timestamptz, integer) SECURITY DEFINER;

DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['presence_service', 'presence_consumer', 'presence_admin'] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
    EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN
      NULL;
    END;
  END LOOP;
  IF (SELECT count(*) FROM pg_roles WHERE rolname IN ('presence_service', 'presence_consumer', 'presence_admin')) < 3 THEN
    RETURN;
  END IF;

  GRANT USAGE ON SCHEMA presence TO presence_service, presence_consumer, presence_admin;
  GRANT EXECUTE ON FUNCTION presence.at_ms(bigint), presence.to_ms(timestamptz), presence.newest_seq(), presence.oldest_seq(),
                            presence.check_cursor(bigint), presence.tenant_events(text, bigint, integer)
    TO presence_service, presence_consumer, presence_admin;
  GRANT SELECT ON presence.outbox, presence.outbox_horizon TO presence_service, presence_consumer, presence_admin;

  GRANT EXECUTE ON FUNCTION presence.create_consumer(text, text), presence.poll(text, integer), presence.commit(text, bigint),
                            presence.seek(text, bigint)
    TO presence_consumer, presence_admin;

  GRANT SELECT ON presence.migration, presence.deployment, presence.directory_state, presence.directory_tenant,
                  presence.directory_token, presence.tenant_stats, presence.device, presence.partition_state
    TO presence_service, presence_admin;
  GRANT INSERT, UPDATE ON presence.deployment TO presence_service;
  GRANT EXECUTE ON FUNCTION presence.record_partitions(integer), presence.device_rows(text, text[]),
                            presence.append(integer, text[], text[], bigint[], bigint[], text[], text[], bigint[], bigint[],
                                            bigint[], bigint[], bigint[], text[], uuid[], uuid[]),
                            presence.reject(integer, text, json, boolean, text, text),
                            presence.make_day(date), presence.drop_day(timestamptz),
                            presence.clean_default(timestamptz, integer), presence.forget_devices(timestamptz, integer)
    TO presence_service;
  GRANT EXECUTE ON PROCEDURE presence.maintain(bigint, bigint) TO presence_service;

  GRANT SELECT, INSERT, UPDATE ON presence.tenant, presence.token TO presence_admin;
  GRANT USAGE ON SEQUENCE presence.tenant_generation TO presence_admin;
  GRANT SELECT ON presence.rejected, presence.consumer, presence.overview TO presence_admin;
  GRANT EXECUTE ON FUNCTION presence.device_rows(text, text[]), presence.retry_rejected(bigint) TO presence_admin;
END $$;
