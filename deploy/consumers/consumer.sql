-- One turn of a named consumer, for psql:  psql -X -v ON_ERROR_STOP=1 -v name=billing -f consumer.sql
-- Rows are handled and the cursor moves in one transaction: what fails half-way comes again, what is committed never does.
SELECT presence.create_consumer(:'name', 'oldest')
 WHERE NOT EXISTS (SELECT FROM presence.reader WHERE kind = 'consumer' AND name = :'name') \g /dev/null

CREATE TABLE IF NOT EXISTS offline_log (event uuid PRIMARY KEY, tenant text, device text, reason text, at timestamptz);

BEGIN;
CREATE TEMPORARY TABLE page ON COMMIT DROP AS SELECT * FROM presence.poll(:'name', 1000); -- locks the cursor
INSERT INTO offline_log
  SELECT id, tenant, device, payload->>'reason', occurred_at FROM page WHERE type = 'presence.device.offline'
  ON CONFLICT (event) DO NOTHING; -- only a seek() backwards makes rows come twice
SELECT seq, id, type, tenant, device, session, payload->>'reason' AS reason FROM page ORDER BY seq;
SELECT presence.commit(:'name', max(seq)) FROM page HAVING count(*) > 0 \g /dev/null
COMMIT;
