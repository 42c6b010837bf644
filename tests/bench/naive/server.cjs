// The presence service that one writes in an afternoon: a key with a TTL per device. A peer of the benchmark, started by
// tests/bench/stand.sh with PORT, REDIS_SOCKET and TOKEN; NODE_PATH says where fastify and ioredis are.
const fastify = require('fastify')();
const Redis = require('ioredis');

const TTL_MS = 90000;
const redis = new Redis({ path: process.env.REDIS_SOCKET, enableAutoPipelining: true });

// A heartbeat without a body may still say that it is JSON.
fastify.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => done(null, body));

fastify.addHook('onRequest', async (request, reply) => {
  if (request.headers.authorization !== `Bearer ${process.env.TOKEN}`) return reply.code(401).send({ error: 'unauthorized' });
});

fastify.post('/v1/tenants/:tenant/devices/:device/heartbeat', async (request, reply) => {
  const { tenant, device } = request.params;
  await redis.set(`naive:${tenant}:${device}`, Date.now(), 'PX', TTL_MS);
  return reply.code(204).send();
});

fastify.get('/v1/tenants/:tenant/devices/:device', async (request) => {
  const { tenant, device } = request.params;
  const seen = await redis.get(`naive:${tenant}:${device}`);
  return { device, state: seen === null ? 'offline' : 'online', last_seen_ms: seen === null ? null : Number(seen) };
});

fastify.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
