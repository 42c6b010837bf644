-- presence.append as in 0008, with less work for a device that is known. The same rows come out.
--
-- A row that is there is updated, not inserted in vain first; guards of forgotten devices are looked up only where there is no row;
-- what only a repair needs is computed only there. A new device is a plain INSERT: whatever makes rows holds the lock, so that none can
-- have come since the look.

-- A row's versions come and go on its own page, without new index entries, where half of the page is left for them. With a fifth
-- left, a fleet that goes offline at once filled it, and the table grew to the same size by itself.
ALTER TABLE presence.device SET (fillfactor = 50);

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
           d.online_since AS row_online_since, d.ttl_ms AS row_ttl_ms, d.meta::text AS row_meta, d.offline_id AS row_offline_id
    FROM entry e LEFT JOIN presence.device d ON d.tenant = e.tenant AND d.device = e.device
                 -- whoever has a row has gone on from its guard: null finds nothing, and does not look
                 LEFT JOIN presence.forgotten f ON f.tenant = e.tenant
                                                   AND f.device = CASE WHEN d.tenant IS NULL THEN e.device END
    WINDOW earlier AS (PARTITION BY e.tenant, e.device ORDER BY e.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  ), applied AS (
    SELECT *,
           lead(ord) OVER device_order IS NULL AS is_last,
           coalesce(lag(state) OVER device_order, row_state) AS before_state,
           coalesce(lag(session_ms) OVER device_order, row_session_ms) AS before_session_ms,
           coalesce(lag(session_seq) OVER device_order, row_session_seq) AS before_session_seq,
           lag(online_since_ms) OVER device_order AS before_online_since_ms,
           coalesce(lag(ttl_ms) OVER device_order, row_ttl_ms) AS before_ttl_ms,
           CASE WHEN lag(ord) OVER device_order IS NULL THEN row_meta ELSE lag(meta) OVER device_order END AS before_meta,
           coalesce(lag(offline_id) OVER device_order, row_offline_id) AS before_offline_id
    FROM guarded
    WHERE reached IS NULL OR position > reached
    WINDOW device_order AS (PARTITION BY tenant, device ORDER BY ord)
  ), event AS (
    -- the session before, still open in the row: lost
    SELECT ord, 1 AS step, before_offline_id AS id, 'offline' AS state, tenant, device,
           before_session_ms AS session_ms, before_session_seq AS session_seq,
           coalesce(before_online_since_ms, presence.to_ms(row_online_since)) AS online_since_ms, before_ttl_ms AS ttl_ms, before_meta AS meta, NULL::bigint AS last_seen_ms, online_since_ms AS offline_at_ms,
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
  ), device_changed AS (
    -- By its key, not by the place where it was found: a row that somebody edits by hand meanwhile must still be moved on.
    UPDATE presence.device d
    SET state = a.state, session_ms = a.session_ms, session_seq = a.session_seq, online_since = presence.at_ms(a.online_since_ms),
        last_seen = presence.at_ms(a.last_seen_ms), offline_at = CASE a.state WHEN 'offline' THEN presence.at_ms(a.offline_at_ms) END,
        reason = CASE a.state WHEN 'offline' THEN a.reason END, ttl_ms = a.ttl_ms, meta = a.meta::json,
        partition = partition_number, offline_id = a.offline_id
    FROM applied a
    WHERE a.is_last AND NOT a.is_new AND d.tenant = a.tenant AND d.device = a.device
  ), device_made AS (
    INSERT INTO presence.device (tenant, device, state, session_ms, session_seq, online_since, last_seen, offline_at, reason,
                                 ttl_ms, meta, first_seen, partition, offline_id)
    SELECT tenant, device, state, session_ms, session_seq, presence.at_ms(online_since_ms), presence.at_ms(last_seen_ms),
           CASE state WHEN 'offline' THEN presence.at_ms(offline_at_ms) END, CASE state WHEN 'offline' THEN reason END,
           ttl_ms, meta::json, presence.at_ms(online_since_ms), partition_number, offline_id
    FROM applied
    WHERE is_last AND is_new
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
               'tenant', tenant, 'device', device, 'session', session,
               'online_since_ms', online_since_ms, 'ttl_ms', ttl_ms, 'meta', meta::jsonb)
             ELSE jsonb_build_object(
               'tenant', tenant, 'device', device, 'session', session,
               'online_since_ms', online_since_ms, 'ttl_ms', ttl_ms, 'meta', meta::jsonb,
               'last_seen_ms', last_seen_ms, 'offline_at_ms', offline_at_ms, 'reason', reason,
               'detected_at_ms', detected_at_ms)
           END,
           tenant, device, session,
           presence.at_ms(CASE state WHEN 'online' THEN online_since_ms ELSE offline_at_ms END), batch_recorded_at
    FROM (SELECT *, session_ms || '-' || session_seq AS session FROM event ORDER BY ord, step) AS in_order -- sorted before seq is drawn
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

REVOKE ALL ON ALL ROUTINES IN SCHEMA presence FROM PUBLIC;
