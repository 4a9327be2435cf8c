'use strict'

// SQL in process: statements, types, transactions, streams, COPY, notifications, errors.

const test = require('node:test')
const assert = require('node:assert/strict')
const { once } = require('node:events')
const path = require('node:path')
const { pipeline } = require('node:stream/promises')
const { Readable } = require('node:stream')
const { setTimeout: sleep } = require('node:timers/promises')
const { open, DatabaseError, Interval, copyRow, identifier } = require('..')
const { template } = require('../lib/testing')
const { scratch } = require('./scratch')

const birds = template(async (db) => {
  await db.script(`
    CREATE TABLE birds (name text PRIMARY KEY, grams float8);
    INSERT INTO birds VALUES ('bee', 1.95), ('anna', 4.3), ('giant', 20.2);
  `)
})

async function failsWith(code, promise) {
  const error = await promise.then(() => assert.fail(`nothing failed, and ${code} was expected`), (error) => error)
  assert.equal(error.code, code, `${error.stack}`)
  return error
}

test('a query gives rows, fields, a command and a count', async (t) => {
  const db = await birds(t)
  const result = await db.query('SELECT name, grams FROM birds WHERE grams < $1 ORDER BY grams', [10])
  assert.deepEqual(result.rows, [{ name: 'bee', grams: 1.95 }, { name: 'anna', grams: 4.3 }])
  assert.deepEqual(result.fields, [
    { name: 'name', dataTypeID: 25, type: 'text' },
    { name: 'grams', dataTypeID: 701, type: 'double precision' },
  ])
  assert.deepEqual([result.command, result.rowCount], ['SELECT', 2])
  const updated = await db.query('UPDATE birds SET grams = grams + 1')
  assert.deepEqual([updated.command, updated.rowCount, updated.rows], ['UPDATE', 3, []])
  const created = await db.query('CREATE TABLE nests (id int)')
  assert.deepEqual([created.command, created.rowCount], ['CREATE', null])
})

test('rows as arrays keep columns of one name apart', async (t) => {
  const db = await birds(t)
  const { rows } = await db.query('SELECT 1 AS a, 2 AS a, 3::bigint AS b', [], { rowMode: 'array' })
  assert.deepEqual(rows, [[1, 2, 3n]])
  assert.deepEqual((await db.query('SELECT 1::bigint AS a, 2 AS a')).rows, [{ a: 2 }])
  assert.deepEqual((await db.query(`SELECT 1 AS "__proto__", 'q' AS "a""b"`)).rows[0]['a"b'], 'q')
})

test('values come back as they were given', async (t) => {
  const db = await birds(t)
  const moment = new Date('2026-11-30T07:08:09.123Z')
  const cases = [
    ['boolean', true], ['boolean', false], ['int', -5], ['smallint', 7], ['oid', 4000000000],
    ['bigint', 9223372036854775807n], ['bigint', -1n],
    ['real', 0.1], ['float8', 1e300], ['float8', -0.5], ['float8', NaN], ['float8', -Infinity], ['real', Infinity],
    ['numeric', '12345678901234567890.123'], ['text', 'a "b" \\ \n\t\u0001 ü 🐦'], ['varchar', ''],
    ['bytea', Buffer.from([0, 255, 34, 92])], ['uuid', '3f2504e0-4f89-41d3-9a0c-0305e82c3301'],
    ['json', { a: [1, null, 'x'] }], ['jsonb', { deep: { er: [true] } }],
    ['timestamptz', moment], ['timestamp', moment], ['date', '2026-11-30'], ['time', '07:08:09.5'],
    ['int[]', [1, null, 3]], ['int[]', [[1, 2], [3, 4]]], ['int[]', []], ['bigint[]', [1n, 2n]], ['text[]', ['a,b', '"', '\\', 'NULL', '', null]],
    ['float8[]', [1.5, Infinity]], ['bytea[]', [Buffer.from('x')]], ['timestamptz[]', [moment]], ['jsonb[]', [{ a: 1 }]], ['boolean[]', [true, false]],
    ['interval', new Interval({ years: 1, months: 2, days: -3, hours: 4, minutes: 5, seconds: 6, milliseconds: 7.5 })],
    ['interval[]', [[new Interval({ days: 1 })], [new Interval({})]]],
    ['inet', '10.0.0.1'], ['int4range', '[1,5)'],
  ]
  for (const [type, value] of cases) {
    const { rows } = await db.query(`SELECT $1::${type} AS v, NULL::${type} AS n`, [value])
    assert.deepEqual(rows, [{ v: value, n: null }], `${type} ${value}`)
    const asText = await db.query(`SELECT $1::${type}::text AS v`, [rows[0].v])
    assert.equal(typeof asText.rows[0].v, 'string')
  }
  const infinite = await db.query("SELECT 'infinity'::timestamptz AS a, '-infinity'::timestamp AS b")
  assert.deepEqual(infinite.rows, [{ a: Infinity, b: -Infinity }])
  await db.query("CREATE TYPE mood AS ENUM ('calm', 'angry')")
  const moods = await db.query("SELECT 'calm'::mood AS m, ARRAY['calm', 'angry']::mood[] AS a, row(1, 'x') AS r")
  assert.deepEqual(moods.rows, [{ m: 'calm', a: '{calm,angry}', r: '(1,x)' }])
})

test('bigint is a BigInt, and a number or a string where that is asked for', async (t) => {
  const db = await birds(t)
  const ask = async (bigint, text) => (await db.query(`SELECT ${text}::bigint AS v`, [], { bigint })).rows[0].v
  assert.equal(await ask(undefined, '5'), 5n)
  assert.equal(await ask('number', '5'), 5)
  assert.equal(await ask('string', '5'), '5')
  await failsWith('22003', ask('number', '9007199254740993'))
  // The connection goes on after an error in a value.
  assert.equal(await ask('number', '6'), 6)
  await assert.rejects(open(path.join(scratch(t), 'db'), { bigint: 'float' }), /the option bigint/)
})

test('what is no value is refused before anything runs', async (t) => {
  const db = await birds(t)
  await failsWith('22021', db.query('SELECT $1', ['\ud800']))
  await failsWith('22007', db.query('SELECT $1', [new Date(NaN)]))
  await failsWith('42804', db.query('SELECT $1', [() => 1]))
  await failsWith('22021', db.query('SELECT $1::text', ['a\0b']))
})

test('errors have what PostgreSQL says of them', async (t) => {
  const db = await birds(t)
  const twice = await failsWith('23505', db.query("INSERT INTO birds VALUES ('bee')"))
  assert.ok(twice instanceof DatabaseError && twice instanceof Error)
  assert.deepEqual(
    [twice.severity, twice.detail, twice.schema, twice.table, twice.constraint],
    ['ERROR', 'Key (name)=(bee) already exists.', 'public', 'birds', 'birds_pkey']
  )
  assert.equal((await failsWith('42703', db.query('SELECT nothing FROM birds'))).position, '8')
  assert.match((await failsWith('42601', db.query('SELEC 1'))).stack, /sql\.test\.js/)
  assert.ok((await failsWith('42883', db.query('SELECT nothing(1)'))).hint)
})

test('a script is one transaction, unless it says otherwise', async (t) => {
  const db = await birds(t)
  const results = await db.script("SELECT 1 AS a; INSERT INTO birds VALUES ('x'); SELECT count(*)::int AS n FROM birds;")
  assert.deepEqual(results.map(({ command, rows }) => [command, rows]), [['SELECT', [{ a: 1 }]], ['INSERT', []], ['SELECT', [{ n: 4 }]]])
  await failsWith('23505', db.script("INSERT INTO birds VALUES ('y'); INSERT INTO birds VALUES ('bee')"))
  assert.equal((await db.query("SELECT count(*)::int AS n FROM birds WHERE name = 'y'")).rows[0].n, 0)
  const own = "BEGIN; INSERT INTO birds VALUES ('z'); COMMIT; INSERT INTO birds VALUES ('bee')"
  await failsWith('23505', db.script(own))
  assert.equal((await db.query("SELECT count(*)::int AS n FROM birds WHERE name = 'z'")).rows[0].n, 1)
})

test('a transaction commits, or changes nothing', async (t) => {
  const db = await birds(t)
  const given = await db.transaction(async (conn) => {
    await conn.query("INSERT INTO birds VALUES ('x')")
    return 'given'
  })
  assert.equal(given, 'given')
  await assert.rejects(
    db.transaction(async (conn) => {
      await conn.query("INSERT INTO birds VALUES ('y')")
      throw new TypeError('of the program')
    }),
    TypeError
  )
  // One whose failed statement was caught has changed nothing, which must not pass for success.
  await failsWith('25P02', db.transaction(async (conn) => {
    await conn.query("INSERT INTO birds VALUES ('z')")
    await conn.query('SELECT 1/0').catch(() => {})
  }))
  const names = await db.query("SELECT name FROM birds WHERE name IN ('x', 'y', 'z')")
  assert.deepEqual(names.rows, [{ name: 'x' }])
  await failsWith('25006', db.transaction((conn) => conn.query('DELETE FROM birds'), { readOnly: true }))
  const conn = await db.connect()
  await failsWith('25001', conn.transaction(() => conn.transaction(() => {})))
  await assert.rejects(db.transaction(() => {}, { isolation: 'chaos' }), /isolation/)
  const level = await db.transaction((c) => c.query('SHOW transaction_isolation'), { isolation: 'read committed' })
  assert.deepEqual(level.rows, [{ transaction_isolation: 'read committed' }])
})

test('a transaction that had a conflict runs again', async (t) => {
  const db = await birds(t)
  await db.query('CREATE TABLE counts (n int)')
  await db.query('INSERT INTO counts VALUES (0)')
  let attempts = 0
  const add = () =>
    db.transaction(async (conn) => {
      attempts++
      const { n } = (await conn.query('SELECT n FROM counts')).rows[0]
      await sleep(1)
      await conn.query('UPDATE counts SET n = $1', [n + 1])
    }, { attempts: 1000 })
  await Promise.all(Array.from({ length: 6 }, add))
  assert.equal((await db.query('SELECT n FROM counts')).rows[0].n, 6)
  assert.ok(attempts > 6, `${attempts} attempts: there was no conflict`)
})

test('more statements that wait for a lock than libuv has threads do not keep its owner from going on', async (t) => {
  const db = await birds(t)
  const owner = await db.connect()
  await owner.query('BEGIN')
  await owner.query("SELECT * FROM birds WHERE name = 'bee' FOR UPDATE")
  const others = await Promise.all(Array.from({ length: 12 }, () => db.connect()))
  const waiting = others.map((conn) => conn.query("UPDATE birds SET grams = grams + 1 WHERE name = 'bee'"))
  await sleep(50)
  await owner.query('COMMIT')
  for (const { rowCount } of await Promise.all(waiting)) assert.equal(rowCount, 1)
})

test('a prepared statement knows its columns and parameters', async (t) => {
  const db = await birds(t)
  const conn = await db.connect()
  const lighter = await conn.prepare('SELECT name FROM birds WHERE grams < $1 ORDER BY name')
  assert.deepEqual([lighter.params, lighter.fields.map(({ name }) => name)], [[701], ['name']])
  assert.deepEqual((await lighter.query([5])).rows, [{ name: 'anna' }, { name: 'bee' }])
  assert.deepEqual((await lighter.query([2])).rows, [{ name: 'bee' }])
  await failsWith('42P01', conn.prepare('SELECT * FROM nothing'))
})

test('executeMany is one transaction', async (t) => {
  const db = await birds(t)
  await db.query('CREATE TABLE many (id int PRIMARY KEY, name text)')
  async function* rows() {
    for (let id = 0; id < 10000; id++) yield [id, `bird ${id}`]
  }
  assert.equal(await db.executeMany('INSERT INTO many VALUES ($1, $2)', rows()), 10000)
  await failsWith('23505', db.executeMany('INSERT INTO many VALUES ($1, $2)', [[20000, 'x'], [5, 'y']]))
  assert.equal((await db.query('SELECT count(*)::int AS n FROM many')).rows[0].n, 10000)
  assert.equal(await db.executeMany('INSERT INTO many VALUES ($1, $2)', []), 0)
})

test('a large result comes in pieces, and all of it', async (t) => {
  const db = await birds(t)
  const { rows, rowCount } = await db.query("SELECT n::bigint, repeat('x', 20) AS x FROM generate_series(1, 100000) AS s (n)")
  assert.deepEqual([rows.length, rowCount, rows[99999].n], [100000, 100000, 100000n])
  const sum = rows.reduce((sum, { n }) => sum + n, 0n)
  assert.equal(sum, 5000050000n)
  // An error in a late piece is the statement's.
  await failsWith('22012', db.query('SELECT 1 / (99000 - n) FROM generate_series(1, 100000) AS s (n)'))
})

test('a stream computes no more than is asked for', async (t) => {
  const db = await birds(t)
  let sum = 0
  for await (const { n } of db.stream('SELECT n FROM generate_series(1, 1000000000) AS s (n)')) {
    sum += n
    if (n === 1000) break
  }
  assert.equal(sum, 500500)
  const conn = await db.connect()
  const stream = conn.stream('SELECT n FROM generate_series(1, 100000) AS s (n)')
  await stream.next()
  await failsWith('55000', conn.query('SELECT 1'))
  await stream.return()
  assert.equal((await conn.query('SELECT 1 AS one')).rows[0].one, 1)
  const all = await Readable.from(conn.stream('SELECT 1 AS a UNION ALL SELECT 2')).toArray()
  assert.deepEqual(all, [{ a: 1 }, { a: 2 }])
})

test('COPY in and out are streams', async (t) => {
  const db = await birds(t)
  const lines = Array.from({ length: 20000 }, (_, n) => copyRow([`copy\t${n}\n\\`, n % 3 ? n : null]))
  const into = await db.copyFrom('COPY birds FROM STDIN')
  await pipeline(Readable.from(lines), into)
  assert.equal(into.rowCount, 20000)
  let text = ''
  const from = await db.copyTo("COPY (SELECT * FROM birds WHERE name LIKE 'copy%' ORDER BY grams LIMIT 2) TO STDOUT")
  for await (const chunk of from) text += chunk
  assert.equal(text, 'copy\\t1\\n\\\\\t1\ncopy\\t2\\n\\\\\t2\n')

  const bad = await db.copyFrom('COPY birds FROM STDIN')
  await failsWith('22P02', pipeline(Readable.from(['new\tnot a number\n']), bad))
  const left = await db.copyFrom('COPY birds FROM STDIN')
  left.write('left\t1\n')
  left.destroy()
  await once(left, 'close')
  await failsWith('42601', pipeline(Readable.from([]), await db.copyFrom('COPY birds TO STDOUT')))
  const endless = await db.copyTo('COPY (SELECT n FROM generate_series(1, 1000000000) AS s (n)) TO STDOUT')
  for await (const _ of endless) break
  assert.equal((await db.query("SELECT count(*)::int AS n FROM birds WHERE name IN ('new', 'left')")).rows[0].n, 0)
})

test('a signal ends a statement, also one that waits its turn', async (t) => {
  const db = await birds(t)
  const conn = await db.connect()
  const stop = new AbortController()
  const endless = conn.query('SELECT count(*) FROM generate_series(1, 1000000000000)', [], { signal: stop.signal })
  const behind = assert.rejects(conn.query('SELECT 1', [], { signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' })
  setTimeout(() => stop.abort(new Error('enough')), 30)
  await assert.rejects(endless, /enough/)
  await behind
  assert.equal((await conn.query('SELECT 2 AS two')).rows[0].two, 2)
  await assert.rejects(conn.query('SELECT 1', [], { signal: AbortSignal.abort() }), { name: 'AbortError' })
  const rows = conn.stream('SELECT n FROM generate_series(1, 1000000000) AS s (n)', [], { signal: AbortSignal.timeout(50) })
  await assert.rejects(async () => { for await (const _ of rows); }, { name: 'TimeoutError' })
})

test('statements of one connection run in the order of their calls', async (t) => {
  const db = await birds(t)
  const conn = await db.connect()
  const answers = await Promise.all([
    conn.query('CREATE TABLE a (n int)'), conn.query('INSERT INTO a VALUES (1)'),
    conn.query('SELECT nothing').catch((error) => error.code), conn.query('SELECT n FROM a'),
  ])
  assert.deepEqual([answers[2], answers[3].rows], ['42703', [{ n: 1 }]])
})

test('notifications arrive, those of a transaction after it', async (t) => {
  const db = await birds(t)
  const listener = await db.listen('nests', 'a "b"')
  const heard = []
  listener.on('notification', ({ channel, payload }) => heard.push([channel, payload]))
  await db.query("NOTIFY nests, 'two eggs'")
  await db.query(`NOTIFY ${identifier('a "b"')}, 'ü'`)
  while (heard.length < 2) await sleep(1)
  assert.deepEqual(heard, [['nests', 'two eggs'], ['a "b"', 'ü']])
  await listener.query('BEGIN')
  await db.query("NOTIFY nests, 'late'")
  await sleep(30)
  assert.equal(heard.length, 2)
  await listener.query('COMMIT')
  while (heard.length < 3) await sleep(1)
  await listener.unlisten()
  await db.query("NOTIFY nests, 'nobody'")
  await sleep(30)
  assert.equal(heard.length, 3)
})

test('notices are told', async (t) => {
  const db = await birds(t)
  const conn = await db.connect()
  const told = once(conn, 'notice')
  await conn.query('DROP TABLE IF EXISTS nothing')
  const [notice] = await told
  assert.deepEqual([notice.severity, notice.code], ['NOTICE', '00000'])
})

test('use after close is an error, and closing twice is none', async (t) => {
  const dir = scratch(t)
  const db = await open(path.join(dir, 'db'))
  const conn = await db.connect()
  const running = failsWith('57014', conn.query('SELECT count(*) FROM generate_series(1, 1000000000000)'))
  // Nobody waits for ever.
  const behind = failsWith('08003', conn.query('SELECT 1'))
  const other = await db.connect()
  const stream = other.stream('SELECT n FROM generate_series(1, 100000000) AS s (n)')
  const [, late] = [stream.next(), failsWith('08003', other.query('SELECT 1'))]
  await stream.next()
  const closing = db.close()
  await Promise.all([running, behind, late])
  await closing
  await db.close()
  await conn.close()
  await failsWith('08003', conn.query('SELECT 1'))
  await failsWith('08003', db.query('SELECT 1'))
  await failsWith('08003', db.connect())
  await assert.rejects(async () => { for await (const _ of stream); }, /closed/)
  // The directory is free.
  const again = await open(path.join(dir, 'db'), { create: false })
  await again.close()
  await assert.rejects(open(path.join(dir, 'none'), { create: false }), DatabaseError)
  await assert.rejects(open(path.join(dir, 'db'), { nothing: 1 }), /there is no option nothing/)
})

test('a directory that is opened twice is one database', async (t) => {
  // By any of its names, also before it is there.
  const above = scratch(t)
  require('node:fs').mkdirSync(path.join(above, 'real'))
  require('node:fs').symlinkSync('real', path.join(above, 'link'))
  for (let round = 0; round < 5; round++) {
    const dir = path.join(above, 'real', `db ${round}`)
    const names = [dir, `${dir}/../db ${round}`, `${above}/link/none/../db ${round}`, `${above}/link/../link/db ${round}/`]
    const [one, ...others] = await Promise.all(names.map((name) => open(name)))
    await one.query('CREATE TABLE a (n int)')
    await one.close()
    for (const other of others) {
      assert.deepEqual((await other.query('SELECT * FROM a')).rows, [])
      await other.close()
    }
  }
})

test('a backup is written while others write', async (t) => {
  const db = await birds(t)
  const file = path.join(scratch(t), 'backup')
  await Promise.all([db.backup(file), db.query("INSERT INTO birds VALUES ('late')")])
  assert.ok(require('node:fs').statSync(file).size > 4096)
})

test('await using closes', async (t) => {
  const dispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')
  const db = await open(path.join(scratch(t), 'db'))
  await db[dispose]()
  await failsWith('08003', db.query('SELECT 1'))
})
