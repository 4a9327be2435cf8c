'use strict'

// The event loop, threads and processes: who waits for whom, and what an end leaves behind.

const test = require('node:test')
const assert = require('node:assert/strict')
const { spawn, spawnSync } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')
const { createInterface } = require('node:readline')
const { Worker } = require('node:worker_threads')
const { performance, monitorEventLoopDelay } = require('node:perf_hooks')
const { open } = require('..')
const kv = require('../lib/kv')
const { scratch } = require('./scratch')

const PACKAGE = JSON.stringify(path.join(__dirname, '..'))

/** Runs a program, and gives what it writes. It has ended by itself. */
function run(program, ...args) {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['-e', program, ...args], { encoding: 'utf8', timeout: 60_000 })
  assert.equal(signal, null, `it was ended by ${signal}: ${stderr}`)
  return { status, stdout, stderr }
}

test('a timer keeps ticking while a long statement runs', async (t) => {
  const db = await open(path.join(scratch(t), 'db'))
  let ticks = 0
  const delay = monitorEventLoopDelay({ resolution: 5 })
  const timer = setInterval(() => ticks++, 5)
  delay.enable()
  const begun = performance.now()
  await db.query('SELECT sum(sqrt(n)) FROM generate_series(1, 3000000) AS s (n)')
  const ms = performance.now() - begun
  delay.disable()
  clearInterval(timer)
  await db.close()
  assert.ok(ms > 100, `the statement took ${ms} ms, which is no long one`)
  assert.ok(ticks > ms / 5 / 4, `${ticks} ticks of 5 ms in ${ms} ms`)
  assert.ok(delay.max / 1e6 < ms / 2, `the event loop stood still for ${delay.max / 1e6} ms of ${ms} ms`)
})

test('a process with open handles ends, and what was committed is there', async (t) => {
  const dir = path.join(scratch(t), 'db')
  const { status, stderr } = run(`
    const { open } = require(${PACKAGE}), kv = require(${PACKAGE} + '/lib/kv')
    open(${JSON.stringify(dir)}, { durability: 'lazy' }).then(async (db) => {
      await db.query('CREATE TABLE a (n int)')
      await db.query('INSERT INTO a VALUES (1)')
      const conn = await db.connect()
      await conn.query('BEGIN')
      await conn.query('INSERT INTO a VALUES (2)')
      const rows = db.stream('SELECT * FROM generate_series(1, 1000000)')
      await rows.next()
      const env = await kv.open(${JSON.stringify(`${dir}.kv`)})
      await env.put('a', '1')
      globalThis.kept = [db, conn, rows, env, env.useReadTransaction()]
    })`)
  assert.deepEqual([status, stderr], [0, ''])
  const db = await open(dir)
  assert.deepEqual((await db.query('SELECT n FROM a')).rows, [{ n: 1 }])
  await db.close()
})

test('a process does not end before what it has asked for', (t) => {
  const dir = path.join(scratch(t), 'db')
  const { status, stdout } = run(`
    require(${PACKAGE}).open(${JSON.stringify(dir)})
      .then((db) => db.query('SELECT count(*)::int AS n FROM generate_series(1, 1000000)'))
      .then(({ rows }) => console.log(rows[0].n))`)
  assert.deepEqual([status, stdout], [0, '1000000\n'])
})

test('process.exit ends it while statements run', (t) => {
  const dir = path.join(scratch(t), 'db')
  const { status } = run(`
    require(${PACKAGE}).open(${JSON.stringify(dir)}).then(async (db) => {
      await db.query('CREATE TABLE a (n int)')
      for (let i = 0; i < 4; i++) db.query('INSERT INTO a SELECT * FROM generate_series(1, 100000000)').catch(() => {})
      setTimeout(() => process.exit(7), 50)
    })`)
  assert.equal(status, 7)
})

test('listening keeps a process alive until it ends', (t) => {
  const dir = path.join(scratch(t), 'db')
  const { status, stdout } = run(`
    require(${PACKAGE}).open(${JSON.stringify(dir)}).then(async (db) => {
      const listener = await db.listen('nests')
      listener.on('notification', ({ payload }) => { console.log(payload); listener.close() })
      setTimeout(() => db.query("NOTIFY nests, 'egg'"), 50).unref()
      setTimeout(() => {}, 20)
    })`)
  // The timer of NOTIFY does not keep it alive: the listener does.
  assert.deepEqual([status, stdout], [0, 'egg\n'])
})

const WORKER = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { open } = require(${PACKAGE})
  open(workerData.dir).then(async (db) => {
    for (let n = 0; n < 20; n++) await db.query('INSERT INTO a VALUES ($1)', [n])
    if (workerData.leaves) { db.query('SELECT count(*) FROM generate_series(1, 1000000000000)').catch(() => {}) }
    parentPort.postMessage('done')
    if (!workerData.leaves) await db.close()
  })`

test('worker threads share a database, and may be ended while a statement runs', async (t) => {
  const dir = path.join(scratch(t), 'db')
  const db = await open(dir)
  await db.query('CREATE TABLE a (n int)')
  const work = async (leaves) => {
    const worker = new Worker(WORKER, { eval: true, workerData: { dir, leaves } })
    const exited = once(worker, 'exit')
    const [said] = await once(worker, 'message')
    assert.equal(said, 'done')
    if (leaves) await worker.terminate()
    await exited
  }
  await Promise.all([work(false), work(false), work(true)])
  assert.equal((await db.query('SELECT count(*)::int AS n FROM a')).rows[0].n, 60)
  await db.close()
  // What the worker left was ended: the directory is free.
  const again = await open(dir)
  await again.close()
})

const MEMBER = `
  const { open } = require(${PACKAGE})
  open(process.argv[1]).then(async (db) => {
    await db.query('INSERT INTO a VALUES (1)')
    console.log('ready')
    await new Promise((resolve) => process.stdin.once('data', resolve))
    const count = () => db.query('SELECT count(*)::int AS n FROM a').then(({ rows }) => rows[0].n, (error) => error.code)
    console.log(await count())
    // The next connection opens the database here.
    console.log(await count())
    await db.close()
    process.exit(0)
  })`

test('several processes use a database, also when the one that has it is killed', async (t) => {
  const dir = path.join(scratch(t), 'db')
  const first = await open(dir)
  await first.query('CREATE TABLE a (n int)')
  await first.close()
  const begin = async () => {
    const child = spawn(process.execPath, ['-e', MEMBER, dir], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    assert.equal((await lines.next()).value, 'ready')
    return { child, lines }
  }
  const [owner, guest] = [await begin(), await begin()]
  owner.child.kill('SIGKILL')
  await once(owner.child, 'exit')
  guest.child.stdin.write('\n')
  assert.match((await guest.lines.next()).value, /^(08006|40003)$/)
  assert.equal((await guest.lines.next()).value, '2')
  const [status] = await once(guest.child, 'exit')
  assert.equal(status, 0)
})

const OWNER = `
  const { open } = require(${PACKAGE})
  open(process.argv[1]).then(async (db) => {
    await db.query('CREATE TABLE a (n int PRIMARY KEY, x text)')
    console.log('ready')
    await new Promise((resolve) => process.stdin.once('data', resolve))
    await db.close()
    process.exit(0)
  })`

test('what runs in another process runs as here', async (t) => {
  const dir = path.join(scratch(t), 'db')
  const owner = spawn(process.execPath, ['-e', OWNER, dir], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => owner.kill('SIGKILL'))
  await once(owner.stdout, 'data')
  const db = await open(dir)
  assert.equal(await db.executeMany('INSERT INTO a VALUES ($1, $2)', Array.from({ length: 2000 }, (_, n) => [n, `x ${n}`])), 2000)
  let sum = 0
  for await (const { n } of db.stream('SELECT n FROM a')) sum += n
  assert.equal(sum, 1999000)
  const { rows } = await db.query("SELECT n::bigint AS b, now() AS t, '{1,2}'::int[] AS i, '[1]'::jsonb AS j FROM generate_series(1, 50000) AS s (n)")
  assert.deepEqual([rows.length, rows[49999].b, rows[0].t instanceof Date, rows[0].i, rows[0].j], [50000, 50000n, true, [1, 2], [1]])
  assert.deepEqual((await db.script("SELECT 1 AS one; INSERT INTO a VALUES (-1, 'new')")).map(({ rowCount }) => rowCount), [1, 1])
  await assert.rejects(db.query('INSERT INTO a VALUES (1)'), { code: '23505', constraint: 'a_pkey' })
  await assert.rejects(db.query('SELECT count(*) FROM generate_series(1, 1000000000000)', [], { signal: AbortSignal.timeout(30) }), { name: 'TimeoutError' })
  const into = await db.copyFrom('COPY a FROM STDIN')
  into.end('5000\tcopied\n')
  await once(into, 'close')
  assert.equal(into.rowCount, 1)
  const lines = await (await db.copyTo('COPY (SELECT * FROM a WHERE n > 1998 ORDER BY n) TO STDOUT')).toArray()
  assert.equal(Buffer.concat(lines).toString(), '1999\tx 1999\n5000\tcopied\n')
  const listener = await db.listen('nests')
  const told = once(listener, 'notification')
  await db.query("NOTIFY nests, 'egg'")
  assert.equal((await told)[0].payload, 'egg')
  await db.close()
  owner.stdin.write('\n')
  assert.deepEqual(await once(owner, 'exit'), [0, null])
})

test('a thousand promises at once, of SQL and of keys', async (t) => {
  const dir = scratch(t)
  const [db, env] = await Promise.all([open(path.join(dir, 'db')), kv.open(path.join(dir, 'kv'))])
  const sql = Array.from({ length: 1000 }, (_, n) => db.query('SELECT $1::int AS n', [n]))
  const keys = Array.from({ length: 1000 }, (_, n) => env.put(`key ${n}`, `${n}`))
  const answers = await Promise.all(sql)
  answers.forEach(({ rows }, n) => assert.equal(rows[0].n, n))
  await Promise.all(keys)
  assert.equal(env.getCount(), 1000)
  await Promise.all([db.close(), env.close()])
})
