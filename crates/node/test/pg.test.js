'use strict'

// node-postgres's interface, and what others have built upon it, as it is: kysely, knex, drizzle,
// pg-query-stream. scripts/test-node installs them.

const test = require('node:test')
const assert = require('node:assert/strict')
const { once } = require('node:events')
const { createRequire } = require('node:module')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const pg = require('../lib/pg')
const { scratch } = require('./scratch')

const LIBRARIES = process.env.COLIBRI_NODE_LIBRARIES
const library = (name) => createRequire(path.join(LIBRARIES, 'package.json'))(name)
const needs = LIBRARIES === undefined ? { skip: 'npm could not install the libraries' } : {}

async function poolOf(t, options = {}) {
  const pool = new pg.Pool({ path: path.join(scratch(t), 'db'), durability: 'nosync', ...options })
  t.after(() => pool.end())
  await pool.query('CREATE TABLE birds (id serial PRIMARY KEY, name text UNIQUE, grams numeric)')
  return pool
}

test('a result has what node-postgres gives', async (t) => {
  const pool = await poolOf(t)
  const inserted = await pool.query('INSERT INTO birds (name, grams) VALUES ($1, $2) RETURNING id', ['bee', 1.95])
  assert.deepEqual([inserted.command, inserted.rowCount, inserted.oid, inserted.rows], ['INSERT', 1, 0, [{ id: 1 }]])
  const { rows, fields } = await pool.query({ text: 'SELECT count(*), sum(grams), now() AS at FROM birds' })
  assert.deepEqual([rows[0].count, rows[0].sum, rows[0].at instanceof Date], ['1', '1.95', true])
  assert.deepEqual(fields[0], { name: 'count', tableID: 0, columnID: 0, dataTypeID: 20, dataTypeSize: -1, dataTypeModifier: -1, format: 'text' })
  const arrays = await pool.query({ text: 'SELECT 1, $1::text', values: ['x'], rowMode: 'array', name: 'one' })
  assert.deepEqual(arrays.rows, [[1, 'x']])
  const several = await pool.query('SELECT 1 AS a; SELECT 2 AS b')
  assert.deepEqual(several.map((result) => result.rows[0]), [{ a: 1 }, { b: 2 }])
  const error = await pool.query("INSERT INTO birds (name) VALUES ('bee')").catch((error) => error)
  assert.deepEqual([error.code, error.constraint, error.table], ['23505', 'birds_name_key', 'birds'])
  assert.ok(error instanceof pg.DatabaseError)
})

test('callbacks are called, with clients and with the pool', async (t) => {
  const pool = await poolOf(t)
  const called = (run) => new Promise((resolve) => run((...given) => resolve(given)))
  const [error, client, release] = await called((told) => pool.connect(told))
  assert.equal(error, undefined)
  const [none, result] = await called((told) => client.query('SELECT $1::int AS n', [5], told))
  assert.deepEqual([none, result.rows], [null, [{ n: 5 }]])
  const [failed] = await called((told) => client.query('SELEC', told))
  assert.equal(failed.code, '42601')
  release()
  assert.throws(release, /already been released/)
  const [, counted] = await called((told) => pool.query('SELECT 1 AS one', told))
  assert.equal(counted.rows[0].one, 1)
  const own = new pg.Client({ database: pool.options.path })
  await called((told) => own.connect(told))
  assert.equal((await own.query('SELECT pg_backend_pid() AS pid')).rows[0].pid, own.processID)
  await called((told) => own.end(told))
  await assert.rejects(own.query('SELECT 1'), /closed/)
})

test('a pool lends as many clients as it may, and what a client leaves open is rolled back', async (t) => {
  const pool = await poolOf(t, { max: 2, connectionTimeoutMillis: 50 })
  const [one, two] = [await pool.connect(), await pool.connect()]
  await assert.rejects(pool.connect(), /timeout exceeded/)
  await one.query('BEGIN')
  await one.query("INSERT INTO birds (name) VALUES ('left')")
  const waiting = pool.connect()
  assert.deepEqual([pool.totalCount, pool.idleCount, pool.waitingCount], [2, 0, 1])
  one.release()
  const third = await waiting
  assert.equal((await third.query('SELECT count(*)::int AS n FROM birds')).rows[0].n, 0)
  third.release()
  two.release(true)
  await sleep(20)
  assert.deepEqual([pool.totalCount, pool.idleCount], [1, 1])
  await pool.end()
  await assert.rejects(pool.connect(), /after calling end/)
})

test('a client hears notifications and notices', async (t) => {
  const pool = await poolOf(t)
  const client = await pool.connect()
  await client.query('LISTEN nests')
  const told = once(client, 'notification')
  await pool.query("NOTIFY nests, 'egg'")
  const [{ channel, payload }] = await told
  assert.deepEqual([channel, payload], ['nests', 'egg'])
  const noticed = once(client, 'notice')
  await client.query('DROP TABLE IF EXISTS nothing')
  assert.equal((await noticed)[0].severity, 'NOTICE')
  await client.query('UNLISTEN *')
  client.release()
})

test('parsers of types may be changed, for all, for a client and for a query', async (t) => {
  const pool = await poolOf(t)
  const client = await pool.connect()
  client.setTypeParser(20, (text) => BigInt(text))
  assert.equal((await client.query('SELECT 5::bigint AS n')).rows[0].n, 5n)
  const types = { getTypeParser: (oid) => (text) => `${oid}: ${text}` }
  assert.equal((await client.query({ text: 'SELECT 5::bigint AS n', types })).rows[0].n, '20: 5')
  client.release(true)
  assert.equal((await pool.query('SELECT 5::bigint AS n')).rows[0].n, '5')
})

test('names and texts are escaped', async (t) => {
  const pool = await poolOf(t)
  for (const text of ["it's", 'a\\b', '"', "\\'"]) {
    const { rows } = await pool.query(`SELECT ${pg.escapeLiteral(text)} AS ${pg.escapeIdentifier(text)}`)
    assert.deepEqual(rows, [{ [text]: text }])
  }
})

test('texts become the values that pg-types makes of them', needs, async (t) => {
  const theirs = library('pg-types')
  const pool = await poolOf(t)
  const literals = {
    boolean: ['true', 'false'], int: ['-5'], smallint: ['7'], oid: ['9'], bigint: ['12345678901'], real: ['0.1', 'NaN'],
    float8: ['1e300', '-Infinity'], numeric: ['1.50'], text: ['a "b"'], bytea: ['\\x00ff22'], json: ['{"a": [1]}'], jsonb: ['[1, null]'],
    date: ['2026-11-30', '0044-03-15 BC', 'infinity', '0050-01-02', '12345-01-01'],
    timestamp: ['2026-11-30 07:08:09.123456', '-infinity', '1999-01-01 00:00:00'],
    timestamptz: ['2026-11-30 07:08:09.5+02', '0001-01-01 00:00:00+00', '2000-06-01 12:00:00-05:30'],
    interval: ['1 year 2 months -3 days 04:05:06.5', '-00:00:01.25', '0', '100 days'], point: ['(1.5,-2)'], circle: ['<(1,2),3>'], uuid: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301'],
    'int[]': ['{1,NULL,3}', '{}', '{{1,2},{3,4}}', '[2:3]={5,6}'], 'bigint[]': ['{1}'], 'text[]': ['{a,"b,c","\\"","\\\\","NULL",NULL,""}'],
    'float8[]': ['{1.5,NaN}'], 'numeric[]': ['{1.5}'], 'boolean[]': ['{t,f}'], 'date[]': ['{2026-11-30}'], 'timestamptz[]': ['{"2026-11-30 07:08:09+00"}'],
    'jsonb[]': ['{"{\\"a\\": 1}"}'], 'bytea[]': ['{"\\\\x00ff"}'], 'interval[]': ['{"1 day"}'], 'uuid[]': ['{3f2504e0-4f89-41d3-9a0c-0305e82c3301}'], 'point[]': ['{"(1,2)"}'],
    inet: ['10.0.0.1/8'], money: ['1.5'], time: ['07:08:09'], int4range: ['[1,5)'],
  }
  const plain = (value) => {
    if (value === null || typeof value !== 'object' || value instanceof Date || Buffer.isBuffer(value)) return value
    if (Array.isArray(value)) return value.map(plain)
    return Object.fromEntries(Object.entries(value))
  }
  for (const [type, texts] of Object.entries(literals)) {
    for (const text of texts) {
      const raw = { getTypeParser: () => (value) => value }
      const { rows, fields } = await pool.query({ text: `SELECT $1::${type} AS v`, values: [text], types: raw })
      const expected = theirs.getTypeParser(fields[0].dataTypeID, 'text')(rows[0].v)
      const found = (await pool.query(`SELECT $1::${type} AS v`, [text])).rows[0].v
      assert.deepEqual(plain(found), plain(expected), `${type} ${text}`)
      if (type === 'interval') assert.equal(found.toPostgres() && typeof expected.toPostgres(), 'string')
    }
  }
})

test('pg-query-stream reads rows as they are asked for', needs, async (t) => {
  const QueryStream = library('pg-query-stream')
  const pool = await poolOf(t)
  const client = await pool.connect()
  let sum = 0
  for await (const { n } of client.query(new QueryStream('SELECT n FROM generate_series(1, $1) AS s (n)', [100000]))) {
    sum += n
    if (n === 1000) break
  }
  assert.equal(sum, 500500)
  const rows = await client.query(new QueryStream('SELECT 1 AS a UNION ALL SELECT 2')).toArray()
  assert.deepEqual(rows, [{ a: 1 }, { a: 2 }])
  const failing = client.query(new QueryStream('SELECT 1 / (5 - n) AS x FROM generate_series(1, 10) AS s (n)'))
  await assert.rejects(failing.toArray(), { code: '22012' })
  assert.equal((await client.query('SELECT 1 AS one')).rows[0].one, 1)
  client.release()
})

test('pg-cursor reads some rows, and is closed', needs, async (t) => {
  const Cursor = library('pg-cursor')
  const pool = await poolOf(t)
  const client = await pool.connect()
  const cursor = client.query(new Cursor('SELECT n FROM generate_series(1, 10000) AS s (n)'))
  const read = []
  for (const count of [1, 7, 2000, 3]) read.push(...(await cursor.read(count)).map(({ n }) => n))
  assert.deepEqual(read, Array.from({ length: 2011 }, (_, n) => n + 1))
  await cursor.close()
  const arrays = client.query(new Cursor('SELECT 1, 2', [], { rowMode: 'array' }))
  assert.deepEqual([await arrays.read(10), await arrays.read(10)], [[[1, 2]], []])
  client.release()
})

test('kysely runs on it', needs, async (t) => {
  const { Kysely, PostgresDialect, sql } = library('kysely')
  const pool = await poolOf(t)
  const db = new Kysely({ dialect: new PostgresDialect({ pool, cursor: library('pg-cursor') }) })
  await db.schema.createTable('nests').addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('bird', 'integer', (column) => column.references('birds.id').onDelete('cascade')).addColumn('eggs', 'jsonb').execute()
  const bee = await db.insertInto('birds').values({ name: 'bee', grams: '1.95' }).returningAll().executeTakeFirstOrThrow()
  assert.deepEqual(bee, { id: 1, name: 'bee', grams: '1.95' })
  await db.transaction().execute(async (trx) => {
    await trx.insertInto('nests').values([{ bird: bee.id, eggs: JSON.stringify(['white']) }, { bird: bee.id, eggs: '[]' }]).execute()
  })
  await assert.rejects(db.transaction().execute(async (trx) => {
    await trx.deleteFrom('nests').execute()
    throw new Error('no')
  }), /no/)
  const joined = await db.selectFrom('birds').innerJoin('nests', 'nests.bird', 'birds.id')
    .select(['birds.name', 'nests.eggs']).where(sql`jsonb_array_length(eggs)`, '>', 0).execute()
  assert.deepEqual(joined, [{ name: 'bee', eggs: ['white'] }])
  const upserted = await db.insertInto('birds').values({ name: 'bee', grams: '2' })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ grams: '2' })).returning('grams').execute()
  assert.deepEqual(upserted, [{ grams: '2' }])
  const seen = []
  for await (const { id } of db.selectFrom('nests').select('id').orderBy('id').stream(1)) seen.push(id)
  assert.deepEqual(seen, [1, 2])
  const tables = await db.introspection.getTables()
  assert.deepEqual(tables.map(({ name }) => name).sort(), ['birds', 'nests'])
  await db.schema.dropTable('nests').execute()
  await db.destroy()
})

test('knex runs on it, with migrations', needs, async (t) => {
  const knex = library('knex')
  const Postgres = library('knex/lib/dialects/postgres/index.js')
  class Colibri extends Postgres {
    _driver() {
      return pg
    }
  }
  const db = knex({ client: Colibri, connection: { database: path.join(scratch(t), 'db') }, pool: { min: 0, max: 4 } })
  const migrations = {
    birds: {
      up: (k) => k.schema.createTable('birds', (table) => {
        table.increments('id')
        table.string('name').notNullable().unique()
        table.decimal('grams', 10, 2)
        table.jsonb('colors')
        table.timestamps(true, true)
      }),
      down: (k) => k.schema.dropTable('birds'),
    },
    nests: {
      up: (k) => k.schema.createTable('nests', (table) => {
        table.increments()
        table.integer('bird_id').references('birds.id').index()
      }).alterTable('birds', (table) => table.text('note').defaultTo('none')),
      down: (k) => k.schema.dropTable('nests'),
    },
  }
  const migrationSource = {
    getMigrations: async () => Object.keys(migrations),
    getMigrationName: (name) => name,
    getMigration: async (name) => migrations[name],
  }
  const [, ran] = await db.migrate.latest({ migrationSource })
  assert.deepEqual(ran, ['birds', 'nests'])
  const [bee] = await db('birds').insert([{ name: 'bee', grams: 1.95, colors: JSON.stringify(['green']) }, { name: 'anna', grams: 4.3 }]).returning('*')
  assert.deepEqual([bee.id, bee.grams, bee.colors, bee.note, bee.created_at instanceof Date], [1, '1.95', ['green'], 'none', true])
  assert.deepEqual(await db('birds').where('grams', '>', 2).pluck('name'), ['anna'])
  assert.equal(await db('birds').where({ name: 'bee' }).update({ grams: 2 }), 1)
  await db.transaction(async (trx) => {
    await trx('nests').insert({ bird_id: bee.id })
    await assert.rejects(trx.transaction(async (inner) => {
      await inner('nests').insert({ bird_id: 1 })
      throw new Error('inner')
    }), /inner/)
  })
  assert.equal(Number((await db('nests').count())[0].count), 1)
  await assert.rejects(db('birds').insert({ name: 'bee' }), { code: '23505' })
  assert.ok(await db.schema.hasColumn('birds', 'note'))
  assert.deepEqual(Object.keys(await db('nests').columnInfo()), ['id', 'bird_id'])
  const { rows } = await db.raw('SELECT ?::int + ? AS n', [1, 2])
  assert.deepEqual(rows, [{ n: 3 }])
  const [batch] = await db.migrate.rollback({ migrationSource }, true)
  assert.equal(batch, 1)
  await db.destroy()
})

test('drizzle runs on it', needs, async (t) => {
  const { drizzle } = library('drizzle-orm/node-postgres')
  const { eq, sql, relations } = library('drizzle-orm')
  const { pgTable, serial, text, integer, timestamp, bigint, jsonb, date } = library('drizzle-orm/pg-core')
  const pool = await poolOf(t)
  const owls = pgTable('owls', {
    id: serial('id').primaryKey(), name: text('name').notNull(), seen: timestamp('seen', { withTimezone: true }), day: date('day'),
    count: bigint('count', { mode: 'bigint' }), tags: jsonb('tags'),
  })
  const owlets = pgTable('owlets', { id: serial('id').primaryKey(), owl: integer('owl').references(() => owls.id) })
  const schema = {
    owls, owlets,
    owlRelations: relations(owls, ({ many }) => ({ young: many(owlets) })),
    owletRelations: relations(owlets, ({ one }) => ({ parent: one(owls, { fields: [owlets.owl], references: [owls.id] }) })),
  }
  const db = drizzle(pool, { schema })
  await db.execute(sql`CREATE TABLE owls (id serial PRIMARY KEY, name text NOT NULL, seen timestamptz, day date, count bigint, tags jsonb)`)
  await db.execute(sql`CREATE TABLE owlets (id serial PRIMARY KEY, owl int REFERENCES owls)`)
  const seen = new Date('2026-11-30T07:08:09.000Z')
  const [tawny] = await db.insert(owls).values({ name: 'tawny', seen, day: '2026-11-30', count: 5n, tags: { a: 1 } }).returning()
  assert.deepEqual(tawny, { id: 1, name: 'tawny', seen, day: '2026-11-30', count: 5n, tags: { a: 1 } })
  await db.transaction(async (tx) => {
    await tx.insert(owlets).values([{ owl: 1 }, { owl: 1 }])
  })
  const found = await db.query.owls.findMany({ with: { young: true } })
  assert.deepEqual(found[0].young, [{ id: 1, owl: 1 }, { id: 2, owl: 1 }])
  await db.update(owls).set({ name: 'barn' }).where(eq(owls.id, 1))
  assert.deepEqual(await db.select({ name: owls.name }).from(owls).leftJoin(owlets, eq(owls.id, owlets.owl)), [{ name: 'barn' }, { name: 'barn' }])
  const statement = db.select().from(owls).where(eq(owls.name, sql.placeholder('name'))).prepare('by_name')
  assert.equal((await statement.execute({ name: 'barn' })).length, 1)
})
