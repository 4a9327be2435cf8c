'use strict'

// Calls in any order, on what is open, closed or gone: each gives a value or an error that says why,
// and the process stays. A failing seed is told: COLIBRI_NODE_SEED=seed runs it again.

const test = require('node:test')
const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const path = require('node:path')
const { scratch } = require('./scratch')

const PACKAGE = JSON.stringify(path.join(__dirname, '..'))

const PROGRAM = `
const { open, DatabaseError } = require(${PACKAGE}), kv = require(${PACKAGE} + '/lib/kv'), pg = require(${PACKAGE} + '/lib/pg')
const { native } = require(${PACKAGE} + '/lib/native')
let seed = Number(process.argv[1])
const dir = process.argv[2]
function random(below) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return Math.floor((seed / 2 ** 32) * below)
}
const pick = (list) => list[random(list.length)]
const counts = { kept: 0, refused: 0 }
const settled = []
function told(error) {
  // What signals and streams say, what a type says, and what the database says.
  const is = error instanceof DatabaseError ? /^[0-9A-Z]{5}$/.test(error.code)
    : error instanceof TypeError || ['AbortError', 'TimeoutError'].includes(error.name) || /^ERR_STREAM/.test(error.code)
      || /pool|Client|timeout exceeded/.test(error.message)
  if (!is) { console.error(error); process.exit(3) }
  counts.refused++
}
function run(call) {
  try {
    const given = call()
    if (given?.then) settled.push(given.then(() => counts.kept++, told))
    else counts.kept++
  } catch (error) { told(error) }
}
const SQL = ['SELECT 1', 'BEGIN', 'COMMIT', 'ROLLBACK', 'SELEC', 'INSERT INTO a VALUES (1)', 'SELECT * FROM generate_series(1, 30000)', 'LISTEN x',
  "NOTIFY x, 'y'", 'SELECT pg_sleep(0.01)', 'COPY a TO STDOUT', 'SELECT $1::int', 'SELECT 1; SELECT 2']
async function main() {
  const db = await open(dir + '/sql', { connectionsMax: 3, durability: 'nosync' })
  await db.query('CREATE TABLE a (n int)')
  const env = await kv.open(dir + '/kv', { durability: 'nosync' })
  const pool = new pg.Pool({ path: dir + '/sql', max: 2, connectionTimeoutMillis: 200 })
  const conns = [], streams = [], snapshots = [], stores = [env], clients = []
  const signal = () => (random(4) ? undefined : AbortSignal.timeout(random(5)))
  const steps = [
    () => run(() => db.query(pick(SQL), random(2) ? [] : [pick([1, 'x', null, {}])], { signal: signal() })),
    () => run(() => db.script(pick(SQL))),
    () => run(async () => { conns.push(await db.connect()) }),
    () => run(() => pick(conns)?.query(pick(SQL), [], { signal: signal() })),
    () => run(() => pick(conns)?.prepare(pick(SQL))),
    () => run(() => pick(conns)?.executeMany('INSERT INTO a VALUES ($1)', [[1], [pick([2, 'x'])]])),
    () => run(() => pick(conns)?.transaction((c) => c.query(pick(SQL)), { attempts: 2 })),
    () => run(() => pick(conns)?.cancel()),
    () => run(() => random(3) ? undefined : pick(conns)?.close()),
    () => run(() => { const conn = pick(conns); if (conn) streams.push(conn.stream('SELECT * FROM generate_series(1, 30000)')) }),
    () => run(() => pick(streams)?.next()),
    () => run(() => pick(streams)?.return()),
    () => run(() => { const into = pick(conns)?.copyFrom('COPY a FROM STDIN'); into?.on('error', told); into?.write(pick(['1\\n', 'x\\n'])); random(2) ? into?.end() : into?.destroy() }),
    () => run(() => { const from = pick(conns)?.copyTo('COPY a TO STDOUT'); from?.on('error', told); random(2) ? from?.resume() : from?.destroy() }),
    () => run(() => env.put('k' + random(9), 'v')), () => run(() => env.put(5, 'v')), () => run(() => pick(stores).remove('k' + random(9))),
    () => run(async () => { stores.push(await env.openDB('s' + random(3), { dupSort: random(2) === 0 })) }),
    () => run(() => pick(stores).drop()),
    () => run(() => [...pick(stores).getRange({ reverse: random(2) === 0, start: random(2) ? 'k3' : undefined, limit: 5 })]),
    () => run(() => pick(stores).getMany(['k1', 'k2'])),
    () => run(() => pick(stores).transaction(async (txn) => { txn.put('k', 'v'); if (random(2)) await null; if (!random(4)) throw new TypeError(); txn.get('k') })),
    () => run(() => { snapshots.push(pick(stores).useReadTransaction()) }),
    () => run(() => pick(snapshots)?.get('k1')), () => run(() => pick(snapshots)?.done()),
    () => run(async () => { clients.push(await pool.connect()) }),
    () => run(() => pick(clients)?.query(pick(SQL))), () => run(() => { const at = random(clients.length); clients.splice(at, 1)[0]?.release(random(3) === 0) }),
    () => { const lost = new native.Connection(); run(() => lost.cancel()) },
    () => { if (!random(5)) global.gc() },
    () => run(() => new Promise(setImmediate)),
  ]
  for (let step = 0; step < 600; step++) {
    pick(steps)()
    if (!random(4)) await new Promise(setImmediate)
  }
  // Clients that are waited for are lent a little later.
  await new Promise((resolve) => setTimeout(resolve, 300))
  for (const client of clients.splice(0)) client.release()
  const ends = [() => db.close(), () => env.close(), () => pool.end()]
  while (ends.length) run(ends.splice(random(ends.length), 1)[0])
  for (let step = 0; step < 60; step++) pick(steps)()
  await Promise.allSettled(settled.splice(0))
  conns.length = streams.length = snapshots.length = 0
  global.gc()
  console.log(JSON.stringify(counts))
}
main().catch((error) => { console.error(error); process.exit(4) })
`

const seeds = process.env.COLIBRI_NODE_SEED ? [Number(process.env.COLIBRI_NODE_SEED)] : Array.from({ length: 4 }, () => Math.floor(Math.random() * 2 ** 31))

for (const seed of seeds) {
  test(`calls in any order, seed ${seed}`, (t) => {
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', '-e', PROGRAM, String(seed), scratch(t)], { encoding: 'utf8', timeout: 60_000 })
    assert.deepEqual([status, signal], [0, null], `seed ${seed}: ${stderr}${stdout}`)
    const { kept, refused } = JSON.parse(stdout)
    assert.ok(kept > 100 && refused > 20, `${kept} calls were kept and ${refused} refused: that tests little`)
  })
}

test('the native module refuses what is no object of its own', () => {
  const { native } = require('../lib/native')
  const connection = new native.Connection()
  assert.throws(() => connection.query({}, 1, 'SELECT 1', [], 0, 1, false))
  assert.throws(() => connection.query())
  assert.throws(() => native.Connection.prototype.cancel.call({}))
  assert.throws(() => new native.Hub('no function'))
  assert.throws(() => new native.KeyTransaction().get(new native.KeyTable('main', false), 'k'), /ended/)
})

const WORKER = `
  const { workerData } = require('node:worker_threads')
  const { open } = require(${PACKAGE}), kv = require(${PACKAGE} + '/lib/kv')
  Promise.all([open(workerData + '/sql'), kv.open(workerData + '/kv')]).then(async ([db, env]) => {
    db.listen('x').catch(() => {})
    for (;;) {
      const some = [db.query('SELECT * FROM generate_series(1, 5000)'), db.query("NOTIFY x, 'y'"), env.put('a', 'b'), env.transaction((txn) => txn.put('c', 'd')), db.query('SELEC')]
      await Promise.allSettled(some)
    }
  })`

test('threads of JavaScript that end at any moment leave nothing behind', async (t) => {
  const { Worker } = require('node:worker_threads')
  const { open } = require('..')
  const dir = scratch(t)
  for (let round = 0; round < 8; round++) {
    const workers = [1, 2].map(() => new Worker(WORKER, { eval: true, workerData: dir }))
    await new Promise((resolve) => setTimeout(resolve, 40 * round))
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  const db = await open(path.join(dir, 'sql'))
  assert.equal((await db.query('SELECT 1 AS one')).rows[0].one, 1)
  await db.close()
})
