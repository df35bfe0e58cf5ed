// Limits of JavaScript libraries for Redis against a server that is not Redis.

import assert from 'node:assert/strict'
import { createClient } from 'redis'
import Redis from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RedisStore } from 'rate-limit-redis'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'

const port = Number(process.argv[2])

for (const RESP of [2, 3]) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP, name: 'test' })
  await client.connect()
  const throttle = () => client.sendCommand(['CL.THROTTLE', `node:${RESP}`, '1', '2', '60'])
  const replies = await Promise.all([throttle(), throttle(), throttle()])
  assert.deepEqual(replies.map((reply) => reply[0]), [0, 0, 1])
  assert.deepEqual(replies.map((reply) => reply[2]), [1, 0, 0])
  await assert.rejects(client.eval('return 1', { keys: [], arguments: [] }), /scripts are not executed/)

  const store = new RedisStore({ sendCommand: (...args) => client.sendCommand(args), prefix: `rl:${RESP}:` })
  await store.init({ windowMs: 60_000 })
  const hits = []
  for (let n = 0; n < 5; n++) hits.push((await store.increment('a')).totalHits)
  assert.deepEqual(hits, [1, 2, 3, 4, 5])
  const refused = await store.increment('a')
  assert.ok(refused.totalHits > 5)
  assert.ok(refused.resetTime > new Date())
  assert.equal((await store.get('a')).totalHits, 5)
  await store.decrement('a')
  assert.equal((await store.get('a')).totalHits, 4)
  await store.resetKey('a')
  // Rounding may keep one token for a moment.
  assert.ok((await store.increment('a')).totalHits <= 2)
  await client.close()
}

const ioredis = new Redis(port)

const limiter = new RateLimiterRedis({ storeClient: ioredis, points: 5, duration: 60 })
const consumed = []
for (let n = 0; n < 5; n++) consumed.push((await limiter.consume('a')).consumedPoints)
assert.deepEqual(consumed, [1, 2, 3, 4, 5])
const rejected = await limiter.consume('a').then(() => assert.fail('over the limit'), (result) => result)
assert.equal(rejected.remainingPoints, 0)
assert.ok(rejected.msBeforeNext > 0 && rejected.msBeforeNext <= 12_000, String(rejected.msBeforeNext))
assert.equal((await limiter.get('a')).consumedPoints, 5)
await limiter.reward('a', 2)
assert.equal((await limiter.get('a')).consumedPoints, 3)
assert.equal(await limiter.delete('a'), true)
// Rounding may keep one token for a moment.
assert.ok(((await limiter.get('a'))?.consumedPoints ?? 0) <= 1)

const app = Fastify()
await app.register(rateLimit, { max: 3, timeWindow: 60_000, redis: ioredis })
app.get('/', () => 'ok')
const codes = []
for (let n = 0; n < 4; n++) codes.push(await app.inject('/'))
assert.deepEqual(codes.map((reply) => reply.statusCode), [200, 200, 200, 429])
assert.equal(Number(codes[0].headers['x-ratelimit-remaining']), 2)
assert.ok(Number(codes[3].headers['retry-after']) <= 21)
await app.close()

ioredis.disconnect()
console.log('all is well')
