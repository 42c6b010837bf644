-- What must hold for every outbox, whatever happened before. Gives a row for each breach: rule, tenant, device, seq.
-- $1: true where Redis's clock was stepped, so that a detection may bear an earlier time than the deadline.
WITH events AS (
  SELECT o.seq, o.id, o.type, o.tenant, o.device, o.session, o.payload, o.recorded_at, o.occurred_at,
         split_part(o.type, '.', 3) AS kind,
         ARRAY[split_part(o.session, '-', 1)::numeric, split_part(o.session, '-', 2)::numeric] AS number,
         round(extract(epoch FROM o.occurred_at)::numeric * 1000, 3) AS occurred_ms
  FROM presence.outbox o
), told AS (
  SELECT e.*, lag(kind) OVER w AS kind_before, lag(session) OVER w AS session_before, lag(number) OVER w AS number_before,
         lag(payload) OVER w AS payload_before, row_number() OVER (PARTITION BY tenant, device ORDER BY seq DESC) AS from_last
  FROM events e
  WINDOW w AS (PARTITION BY tenant, device ORDER BY seq)
), breaches AS (
  SELECT 'a history begins with offline' AS rule, tenant, device, seq FROM told WHERE kind_before IS NULL AND kind <> 'online'
  UNION ALL
  SELECT 'online and offline do not alternate', tenant, device, seq FROM told WHERE kind = kind_before
  UNION ALL
  SELECT 'offline closes another session', tenant, device, seq FROM told WHERE kind = 'offline' AND session <> session_before
  UNION ALL
  SELECT 'sessions do not grow', tenant, device, seq FROM told WHERE kind = 'online' AND number <= number_before
  UNION ALL
  SELECT 'an id is used twice', tenant, device, max(seq) FROM events GROUP BY id, tenant, device HAVING count(*) > 1
  UNION ALL
  SELECT 'ids are used by several devices', min(tenant), min(device), max(seq) FROM events GROUP BY id HAVING count(*) > 1
  UNION ALL
  SELECT 'an id is no UUID of version 5', tenant, device, seq FROM events WHERE substr(id::text, 15, 1) <> '5'
  UNION ALL
  SELECT 'two rows of one kind for a session', tenant, device, max(seq) FROM events
  GROUP BY tenant, device, session, kind HAVING count(*) > 1
  UNION ALL
  SELECT 'recorded_at falls behind', tenant, device, seq
  FROM (SELECT tenant, device, seq, recorded_at < lag(recorded_at) OVER (ORDER BY seq) AS behind FROM events) r WHERE behind
  UNION ALL
  SELECT 'unknown type', tenant, device, seq FROM events
  WHERE type NOT IN ('presence.device.online', 'presence.device.offline')
  UNION ALL
  SELECT 'payload does not name its row', tenant, device, seq FROM events
  WHERE payload->>'tenant' <> tenant OR payload->>'device' <> device OR payload->>'session' <> session
  UNION ALL
  SELECT 'payload has other members', tenant, device, seq FROM events
  WHERE ARRAY(SELECT jsonb_object_keys(payload) ORDER BY 1) IS DISTINCT FROM
        CASE kind WHEN 'online' THEN ARRAY['device', 'meta', 'online_since_ms', 'session', 'tenant', 'ttl_ms']
        ELSE ARRAY['detected_at_ms', 'device', 'last_seen_ms', 'meta', 'offline_at_ms', 'online_since_ms', 'reason', 'session',
                   'tenant', 'ttl_ms'] END
  UNION ALL
  SELECT 'occurred_at is not the time of the payload', tenant, device, seq FROM events
  WHERE occurred_ms <> (payload->>CASE kind WHEN 'online' THEN 'online_since_ms' ELSE 'offline_at_ms' END)::numeric
  UNION ALL
  SELECT 'online and offline differ in online_since_ms', tenant, device, seq FROM told
  WHERE kind = 'offline' AND payload->'online_since_ms' <> payload_before->'online_since_ms'
  UNION ALL
  SELECT 'unknown reason', tenant, device, seq FROM events
  WHERE kind = 'offline' AND payload->>'reason' NOT IN ('timeout', 'disconnect', 'state_lost')
  UNION ALL
  SELECT 'timeout not at last_seen + ttl', tenant, device, seq FROM events
  WHERE kind = 'offline' AND payload->>'reason' = 'timeout' AND payload->>'last_seen_ms' IS NOT NULL AND
        (payload->>'offline_at_ms')::numeric <> (payload->>'last_seen_ms')::numeric + (payload->>'ttl_ms')::numeric
  UNION ALL
  SELECT 'ended before the last heartbeat', tenant, device, seq FROM events
  WHERE kind = 'offline' AND NOT $1::boolean AND (payload->>'offline_at_ms')::numeric < (payload->>'last_seen_ms')::numeric
  UNION ALL
  SELECT 'detected before it happened', tenant, device, seq FROM events
  WHERE kind = 'offline' AND NOT $1::boolean AND (payload->>'detected_at_ms')::numeric < (payload->>'offline_at_ms')::numeric
  UNION ALL
  SELECT 'meta is neither object nor null', tenant, device, seq FROM events
  WHERE jsonb_typeof(payload->'meta') NOT IN ('object', 'null')
  UNION ALL
  SELECT 'the device row is not the last event', t.tenant, t.device, t.seq
  FROM told t LEFT JOIN presence.device d USING (tenant, device) LEFT JOIN presence.forgotten f USING (tenant, device)
  WHERE t.from_last = 1 AND (d.state IS DISTINCT FROM t.kind OR d.session::text IS DISTINCT FROM t.session)
    AND NOT (d.state IS NULL AND t.kind = 'offline' AND f.session_ms || '-' || f.session_seq IS NOT DISTINCT FROM t.session)
)
SELECT * FROM breaches ORDER BY seq LIMIT 20;
