-- Removing a device on demand.
--
-- Its row is the guard of presence.append. When the row goes, entries of its sessions may still be on their way: a publisher that was
-- killed between COMMIT and trim leaves them to the next one, a paused one holds them in memory, a Redis rolled back to an older
-- state has them again. So the guard stays behind, without the device, for as long as the outbox keeps rows.

CREATE TABLE presence.forgotten (
  tenant text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  session_ms bigint NOT NULL, -- the last session; its end was published
  session_seq bigint NOT NULL,
  forgotten_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, device)
);

-- As in 0002, with one guard more: what is up to the last session of a forgotten device is a repeat.
CREATE OR REPLACE FUNCTION presence.append(
  partition_number integer,
  tenants text[], devices text[], session_mss bigint[], session_seqs bigint[], states text[], reasons text[],
  online_since_mss bigint[], ttl_mss bigint[], last_seen_mss bigint[], offline_at_mss bigint[], detected_at_mss bigint[],
  metas text[], online_ids uuid[], offline_ids uuid[],
  OUT online bigint, OUT timeout bigint, OUT disconnect bigint, OUT state_lost bigint, -- rows written, by kind
  OUT repeats bigint,  -- entries that the guard refused: they are there already
  OUT repairs bigint)  -- rows among those written that make a history whole
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- One plan for ever, by the primary key: it must not depend on how small the table was when it was made.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
  batch_recorded_at timestamptz;
  last_seq bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);

  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'presence.append needs READ COMMITTED, not %', current_setting('transaction_isolation')
      USING ERRCODE = 'invalid_transaction_state';
  END IF;
  -- Whoever trims the stream afterwards relies on it. Valid until COMMIT, which a SET clause of the function would not be.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;

  UPDATE presence.outbox_clock SET recorded_at = greatest(recorded_at, clock_timestamp())
    RETURNING recorded_at INTO batch_recorded_at;

  WITH entry AS (
    SELECT e.tenant COLLATE "C" AS tenant, e.device COLLATE "C" AS device, -- as the table has them: bytes, no language
           session_ms, session_seq, state, reason, online_since_ms, ttl_ms, last_seen_ms, offline_at_ms, detected_at_ms, meta,
           online_id, offline_id, ord, ARRAY[session_ms, session_seq, CASE state WHEN 'online' THEN 0 ELSE 1 END] AS position
    FROM unnest(tenants, devices, session_mss, session_seqs, states, reasons, online_since_mss, ttl_mss, last_seen_mss,
                offline_at_mss, detected_at_mss, metas, online_ids, offline_ids) WITH ORDINALITY
         AS e (tenant, device, session_ms, session_seq, state, reason, online_since_ms, ttl_ms, last_seen_ms,
               offline_at_ms, detected_at_ms, meta, online_id, offline_id, ord)
  ), guarded AS (
    SELECT e.*,
           d.tenant IS NULL AS is_new,
           greatest(
             CASE WHEN d.tenant IS NOT NULL
                  THEN ARRAY[d.session_ms, d.session_seq, CASE d.state WHEN 'online' THEN 0 ELSE 1 END] END,
             CASE WHEN f.tenant IS NOT NULL THEN ARRAY[f.session_ms, f.session_seq, 1] END,
             max(e.position) OVER earlier) AS reached,
           d.state AS row_state, d.session_ms AS row_session_ms, d.session_seq AS row_session_seq,
           presence.to_ms(d.online_since) AS row_online_since_ms, d.ttl_ms AS row_ttl_ms, d.meta::text AS row_meta,
           d.offline_id AS row_offline_id
    FROM entry e LEFT JOIN presence.device d ON d.tenant = e.tenant AND d.device = e.device
                 LEFT JOIN presence.forgotten f ON f.tenant = e.tenant AND f.device = e.device
    WINDOW earlier AS (PARTITION BY e.tenant, e.device ORDER BY e.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  ), applied AS (
    SELECT *,
           lead(ord) OVER device_order IS NULL AS is_last,
           coalesce(lag(state) OVER device_order, row_state) AS before_state,
           coalesce(lag(session_ms) OVER device_order, row_session_ms) AS before_session_ms,
           coalesce(lag(session_seq) OVER device_order, row_session_seq) AS before_session_seq,
           coalesce(lag(online_since_ms) OVER device_order, row_online_since_ms) AS before_online_since_ms,
           coalesce(lag(ttl_ms) OVER device_order, row_ttl_ms) AS before_ttl_ms,
           CASE WHEN lag(ord) OVER device_order IS NULL THEN row_meta ELSE lag(meta) OVER device_order END AS before_meta,
           coalesce(lag(offline_id) OVER device_order, row_offline_id) AS before_offline_id
    FROM guarded
    WHERE reached IS NULL OR position > reached
    WINDOW device_order AS (PARTITION BY tenant, device ORDER BY ord)
  ), event AS (
    -- the session before, still open in the row: lost
    SELECT ord, 1 AS step, before_offline_id AS id, 'offline' AS state, tenant, device,
           before_session_ms AS session_ms, before_session_seq AS session_seq, before_online_since_ms AS online_since_ms,
           before_ttl_ms AS ttl_ms, before_meta AS meta, NULL::bigint AS last_seen_ms, online_since_ms AS offline_at_ms,
           'state_lost' AS reason, detected_at_ms
    FROM applied
    WHERE before_state = 'online' AND (session_ms, session_seq) > (before_session_ms, before_session_seq)
    UNION ALL
    -- the start that a lost server took along
    SELECT ord, 2, online_id, 'online', tenant, device, session_ms, session_seq, online_since_ms, ttl_ms, meta,
           NULL, NULL, NULL, NULL
    FROM applied
    WHERE state = 'offline'
      AND (before_state IS NULL OR (session_ms, session_seq) > (before_session_ms, before_session_seq))
    UNION ALL
    SELECT ord, 3, CASE state WHEN 'online' THEN online_id ELSE offline_id END, state, tenant, device, session_ms, session_seq,
           online_since_ms, ttl_ms, meta, last_seen_ms, offline_at_ms, reason, detected_at_ms
    FROM applied
  ), device_written AS (
    INSERT INTO presence.device AS d (tenant, device, state, session_ms, session_seq, online_since, last_seen, offline_at, reason,
                                      ttl_ms, meta, first_seen, partition, offline_id)
    SELECT tenant, device, state, session_ms, session_seq, presence.at_ms(online_since_ms), presence.at_ms(last_seen_ms),
           CASE state WHEN 'offline' THEN presence.at_ms(offline_at_ms) END, CASE state WHEN 'offline' THEN reason END,
           ttl_ms, meta::json, presence.at_ms(online_since_ms), partition_number, offline_id
    FROM applied
    WHERE is_last
    ON CONFLICT (tenant, device) DO UPDATE
    SET state = excluded.state, session_ms = excluded.session_ms, session_seq = excluded.session_seq,
        online_since = excluded.online_since, last_seen = excluded.last_seen, offline_at = excluded.offline_at,
        reason = excluded.reason, ttl_ms = excluded.ttl_ms, meta = excluded.meta, partition = excluded.partition,
        offline_id = excluded.offline_id
  ), stats_written AS (
    INSERT INTO presence.tenant_stats AS s (tenant, known)
    SELECT tenant, count(*) FROM applied WHERE is_last AND is_new GROUP BY tenant
    ON CONFLICT (tenant) DO UPDATE SET known = s.known + excluded.known
  ), state_written AS (
    INSERT INTO presence.partition_state AS p (partition, session_ms, session_seq)
    SELECT partition_number, session_ms, session_seq FROM entry ORDER BY session_ms DESC, session_seq DESC LIMIT 1
    ON CONFLICT (partition) DO UPDATE SET session_ms = excluded.session_ms, session_seq = excluded.session_seq
    WHERE (excluded.session_ms, excluded.session_seq) > (p.session_ms, p.session_seq)
  ), written AS (
    INSERT INTO presence.outbox (seq, id, aggregateid, type, payload, tenant, device, session, occurred_at, recorded_at)
    SELECT nextval('presence.outbox_seq'), id, tenant || '/' || device, 'presence.device.' || state,
           CASE state
             WHEN 'online' THEN jsonb_build_object(
               'tenant', tenant, 'device', device, 'session', session_ms || '-' || session_seq,
               'online_since_ms', online_since_ms, 'ttl_ms', ttl_ms, 'meta', meta::jsonb)
             ELSE jsonb_build_object(
               'tenant', tenant, 'device', device, 'session', session_ms || '-' || session_seq,
               'online_since_ms', online_since_ms, 'ttl_ms', ttl_ms, 'meta', meta::jsonb,
               'last_seen_ms', last_seen_ms, 'offline_at_ms', offline_at_ms, 'reason', reason,
               'detected_at_ms', detected_at_ms)
           END,
           tenant, device, session_ms || '-' || session_seq,
           presence.at_ms(CASE state WHEN 'online' THEN online_since_ms ELSE offline_at_ms END), batch_recorded_at
    FROM (SELECT * FROM event ORDER BY ord, step) AS in_order -- sorted before seq is drawn
    RETURNING seq
  )
  SELECT count(*) FILTER (WHERE e.state = 'online'), count(*) FILTER (WHERE e.reason = 'timeout'),
         count(*) FILTER (WHERE e.reason = 'disconnect'), count(*) FILTER (WHERE e.reason = 'state_lost'),
         (SELECT count(*) FROM entry) - (SELECT count(*) FROM applied), count(*) FILTER (WHERE e.step < 3),
         (SELECT max(seq) FROM written)
  FROM event e
  INTO online, timeout, disconnect, state_lost, repeats, repairs, last_seq;

  IF last_seq IS NOT NULL THEN
    PERFORM pg_notify('presence_outbox', last_seq::text); -- a hint only: readers poll as well
  END IF;
END $$;

-- Deletes the row of a device that is offline: 'forgotten'. Under the append's lock, so that the guard never reads a row that goes
-- away. Otherwise nothing is changed: 'online'; 'returned': a session later than the one named has been published (session_ms null:
-- whichever was the last); 'waiting': the end of the one named has not; 'unknown': there is no such row.
CREATE FUNCTION presence.forget_device(of_tenant text, of_device text, last_session_ms bigint, last_session_seq bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  d presence.device;
BEGIN
  PERFORM pg_advisory_xact_lock(7021947, 1);
  SELECT * INTO d FROM presence.device WHERE tenant = of_tenant AND device = of_device;
  IF NOT FOUND THEN
    RETURN 'unknown';
  ELSIF (d.session_ms, d.session_seq) > (last_session_ms, last_session_seq) THEN
    RETURN 'returned';
  ELSIF (d.session_ms, d.session_seq) < (last_session_ms, last_session_seq) THEN
    RETURN 'waiting';
  ELSIF d.state = 'online' THEN
    RETURN 'online';
  END IF;
  DELETE FROM presence.device WHERE tenant = of_tenant AND device = of_device;
  UPDATE presence.tenant_stats SET known = known - 1 WHERE tenant = of_tenant;
  INSERT INTO presence.forgotten (tenant, device, session_ms, session_seq)
  VALUES (of_tenant, of_device, d.session_ms, d.session_seq)
  ON CONFLICT (tenant, device) DO UPDATE
  SET session_ms = excluded.session_ms, session_seq = excluded.session_seq, forgotten_at = excluded.forgotten_at;
  RETURN 'forgotten';
END $$;

-- Deletes up to `most` guards from before `cutoff`; returns how many.
CREATE FUNCTION presence.clean_forgotten(cutoff timestamptz, most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  WITH gone AS (
    DELETE FROM presence.forgotten
    WHERE (tenant, device) IN (SELECT tenant, device FROM presence.forgotten WHERE forgotten_at < cutoff LIMIT most)
    RETURNING 1
  )
  SELECT count(*) FROM gone
$$;

-- As in 0003, with clean_forgotten.
CREATE OR REPLACE PROCEDURE presence.maintain(retention_days bigint, forget_days bigint)
LANGUAGE plpgsql AS $$
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
  give_up timestamptz := clock_timestamp() + interval '20 seconds';
  cutoff timestamptz := clock_timestamp() - retention_days * interval '1 day';
  forget_cutoff timestamptz := clock_timestamp() - forget_days * interval '1 day';
  more boolean;
BEGIN
  FOR ahead IN 0..3 LOOP
    PERFORM presence.make_day(today + ahead);
    COMMIT;
  END LOOP;
  more := true;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.drop_day(cutoff);
    COMMIT;
  END LOOP;
  more := true;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.clean_default(cutoff, 10000) = 10000;
    COMMIT;
  END LOOP;
  more := true;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.clean_forgotten(cutoff, 10000) = 10000;
    COMMIT;
  END LOOP;
  more := forget_days > 0;
  WHILE more AND clock_timestamp() < give_up LOOP
    more := presence.forget_devices(forget_cutoff, 1000) = 1000;
    COMMIT;
  END LOOP;
END $$;

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_service') THEN
    GRANT EXECUTE ON FUNCTION presence.forget_device(text, text, bigint, bigint), presence.clean_forgotten(timestamptz, integer)
      TO presence_service;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'presence_admin') THEN
    GRANT EXECUTE ON FUNCTION presence.forget_device(text, text, bigint, bigint) TO presence_admin;
  END IF;
END $$;
