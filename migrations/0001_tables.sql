-- Tables of the presence service. Times in tables are timestamptz with whole milliseconds; arguments of functions are integer
-- milliseconds since 1970 (presence.at_ms, presence.to_ms).

CREATE FUNCTION presence.at_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + ms * interval '1 millisecond' $$;

CREATE FUNCTION presence.to_ms(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT round(extract(epoch FROM at) * 1000)::bigint $$;

-- One row, made by the first process that starts: how this database is divided.
CREATE TABLE presence.deployment (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  partitions integer NOT NULL CHECK (partitions BETWEEN 1 AND 16384),
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Records the number at the first call; answers the one recorded.
CREATE FUNCTION presence.record_partitions(wanted integer) RETURNS integer
LANGUAGE sql AS $$
  INSERT INTO presence.deployment (partitions) VALUES (wanted)
  ON CONFLICT (only_row) DO UPDATE SET partitions = deployment.partitions
  RETURNING partitions
$$;

-- ------------------------------------------------------------------------------------------------------------- tenants, tokens

-- Grows with every tenant made, so that a tenant deleted and made again is told from its predecessor.
CREATE SEQUENCE presence.tenant_generation;

CREATE TABLE presence.tenant (
  id text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  generation bigint NOT NULL DEFAULT nextval('presence.tenant_generation'),
  default_ttl_ms bigint NOT NULL DEFAULT 90000,
  min_ttl_ms bigint NOT NULL DEFAULT 1000 CHECK (min_ttl_ms >= 100),
  max_ttl_ms bigint NOT NULL DEFAULT 2592000000 CHECK (max_ttl_ms <= 2592000000),
  max_devices bigint NOT NULL DEFAULT 10000 CHECK (max_devices >= 1),
  buckets integer NOT NULL CHECK (buckets >= 1), -- fixed: a device's place depends on it
  heartbeats_per_second bigint NOT NULL DEFAULT 0 CHECK (heartbeats_per_second >= 0), -- 0 = unlimited
  deleting boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (min_ttl_ms <= default_ttl_ms AND default_ttl_ms <= max_ttl_ms)
);

CREATE TABLE presence.token (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" REFERENCES presence.tenant (id) ON DELETE CASCADE, -- null: an admin token
  sha256 bytea NOT NULL UNIQUE CHECK (length(sha256) = 32),                 -- of the secret, which is not kept
  scopes text[] NOT NULL CHECK (scopes <@ ARRAY['device', 'read', 'events', 'admin'] AND cardinality(scopes) > 0),
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((tenant IS NULL) = ('admin' = ANY (scopes)))
);
CREATE INDEX token_by_tenant ON presence.token (tenant);

-- One number that changes with every change of tenant and token. A writer holds the row until its COMMIT, so versions become
-- visible in order: who has seen version n has nothing older to come.
CREATE TABLE presence.directory_version (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version bigint NOT NULL
);
INSERT INTO presence.directory_version (version) VALUES (1);

CREATE FUNCTION presence.bump_directory_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE presence.directory_version SET version = version + 1;
  RETURN NULL;
END $$;

CREATE TRIGGER directory_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON presence.tenant
  FOR EACH STATEMENT EXECUTE FUNCTION presence.bump_directory_version();
CREATE TRIGGER directory_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON presence.token
  FOR EACH STATEMENT EXECUTE FUNCTION presence.bump_directory_version();

-- Device rows per tenant, kept by whatever inserts or deletes them: the device limit must not need a count(*).
CREATE TABLE presence.tenant_stats (
  tenant text COLLATE "C" PRIMARY KEY,
  known bigint NOT NULL
) WITH (fillfactor = 50);

-- What a process loads when the version has changed. `version` is read first: rows read afterwards are at least as new.
CREATE VIEW presence.directory_state AS
  SELECT version, presence.to_ms(clock_timestamp()) AS now_ms FROM presence.directory_version;

CREATE VIEW presence.directory_tenant AS
  SELECT t.id, t.generation, t.buckets, t.default_ttl_ms, t.min_ttl_ms, t.max_ttl_ms, t.max_devices, t.heartbeats_per_second,
         coalesce(s.known, 0) AS known, t.deleting
  FROM presence.tenant t LEFT JOIN presence.tenant_stats s ON s.tenant = t.id;

CREATE VIEW presence.directory_token AS
  SELECT id, sha256, tenant, scopes, presence.to_ms(expires_at) AS expires_ms, revoked_at IS NOT NULL AS revoked
  FROM presence.token;

-- ------------------------------------------------------------------------------------------------------------ devices, outbox

-- A device's last known state, and the guard of presence.append: a transition counts only where it moves the row forward.
CREATE TABLE presence.device (
  tenant text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  state text NOT NULL CHECK (state IN ('online', 'offline')),
  session text NOT NULL GENERATED ALWAYS AS (session_ms::text || '-' || session_seq::text) STORED,
  session_ms bigint NOT NULL CHECK (session_ms >= 0), -- sessions are compared as the pair of numbers (ms, seq)
  session_seq bigint NOT NULL CHECK (session_seq >= 0),
  online_since timestamptz NOT NULL,
  last_seen timestamptz,  -- online: the heartbeat that opened the session; null: lost with Redis
  offline_at timestamptz,
  reason text CHECK (reason IN ('timeout', 'disconnect', 'state_lost')),
  ttl_ms bigint NOT NULL,
  meta json,              -- json, not jsonb: the bytes as sent
  first_seen timestamptz NOT NULL,
  partition integer NOT NULL,
  offline_id uuid NOT NULL, -- id of the event that closes this session: SQL has no SHA-1 to compute it
  PRIMARY KEY (tenant, device),
  CHECK ((state = 'offline') = (offline_at IS NOT NULL) AND (state = 'offline') = (reason IS NOT NULL))
) WITH (fillfactor = 80);

-- The rows of some devices, in the order asked; nulls where there is none.
CREATE FUNCTION presence.device_rows(of_tenant text, of_devices text[])
RETURNS TABLE (state text, session_ms bigint, session_seq bigint, online_since_ms bigint, last_seen_ms bigint,
               offline_at_ms bigint, ttl_ms bigint, reason text, meta json)
LANGUAGE sql STABLE AS $$
  SELECT d.state, d.session_ms, d.session_seq, presence.to_ms(d.online_since), presence.to_ms(d.last_seen),
         presence.to_ms(d.offline_at), d.ttl_ms, d.reason, d.meta
  FROM unnest(of_devices) WITH ORDINALITY AS asked (device, ord)
       LEFT JOIN presence.device d ON d.tenant = of_tenant AND d.device = asked.device
  ORDER BY asked.ord
$$;

-- Insert-only. Rows become visible in the order of seq: see presence.append. The columns are those of Debezium's outbox event
-- router with its defaults (https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html).
CREATE TABLE presence.outbox (
  seq bigint NOT NULL,
  id uuid NOT NULL,
  aggregatetype text NOT NULL DEFAULT 'device',
  aggregateid text COLLATE "C" NOT NULL,
  type text NOT NULL,
  payload jsonb NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  session text NOT NULL,
  occurred_at timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL,
  PRIMARY KEY (seq, recorded_at)
) PARTITION BY RANGE (recorded_at);
CREATE INDEX outbox_by_tenant ON presence.outbox (tenant, seq);
CREATE TABLE presence.outbox_default PARTITION OF presence.outbox DEFAULT; -- only what no day covers

-- CACHE 1: a session that drew numbers ahead would use them out of order.
CREATE SEQUENCE presence.outbox_seq CACHE 1;

-- The newest recorded_at: the next one is never before it, whatever the host's clock does.
CREATE TABLE presence.outbox_clock (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  recorded_at timestamptz NOT NULL
) WITH (fillfactor = 10);
INSERT INTO presence.outbox_clock (recorded_at) VALUES (clock_timestamp());

-- The highest seq that retention has dropped: everything up to it is gone, everything above is kept.
CREATE TABLE presence.outbox_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  dropped_seq bigint NOT NULL
);
INSERT INTO presence.outbox_horizon (dropped_seq) VALUES (0);

-- The highest session of a partition that has reached this database: a new Redis server must not give out a lower one.
CREATE TABLE presence.partition_state (
  partition integer PRIMARY KEY,
  session_ms bigint NOT NULL,
  session_seq bigint NOT NULL
) WITH (fillfactor = 10);

-- Stream entries that could not become rows, once each.
CREATE TABLE presence.rejected (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  rejected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  partition integer NOT NULL,
  entry text NOT NULL,  -- the id of the event refused, or of the stream entry that could not be read
  error text NOT NULL,
  sqlstate text,        -- null: PostgreSQL was not asked
  fields json NOT NULL, -- json, not jsonb: it must take what jsonb refuses
  retryable boolean NOT NULL,
  UNIQUE (partition, entry)
);
