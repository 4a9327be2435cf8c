'use strict'

// Keys and values.

const test = require('node:test')
const assert = require('node:assert/strict')
const path = require('node:path')
const { open, ABORT } = require('../lib/kv')
const { branchFor } = require('../lib/testing')
const { scratch } = require('./scratch')

async function fresh(t, options) {
  const env = await open(path.join(scratch(t), 'kv'), { durability: 'nosync', ...options })
  t.after(() => env.close())
  return env
}

test('what is put is found, and what is removed is not', async (t) => {
  const env = await fresh(t)
  assert.equal(env.get('bee'), undefined)
  assert.equal(await env.put('bee', '1.95'), true)
  assert.equal(env.get('bee'), '1.95')
  assert.deepEqual(env.getBinary('bee'), Buffer.from('1.95'))
  assert.deepEqual([env.doesExist('bee'), env.doesExist('bee', '1.95'), env.doesExist('bee', '2'), env.doesExist('x')], [true, true, false, false])
  assert.deepEqual([await env.insert('bee', '2'), await env.insert('anna', '4.3')], [false, true])
  assert.deepEqual([await env.remove('bee', '2'), await env.remove('bee'), await env.remove('bee')], [false, true, false])
  assert.deepEqual([env.get('bee'), env.get('anna'), env.getCount()], [undefined, '4.3', 1])
})

test('encodings: binary and JSON, and keys as Buffers', async (t) => {
  const env = await fresh(t)
  const bytes = await env.openDB('bytes', { encoding: 'binary', keyEncoding: 'binary' })
  await bytes.put(Buffer.from([0, 255]), new Uint8Array([1, 2]))
  await bytes.put('text', Buffer.alloc(0))
  assert.deepEqual(bytes.getRange().asArray, [
    { key: Buffer.from([0, 255]), value: Buffer.from([1, 2]) }, { key: Buffer.from('text'), value: Buffer.alloc(0) },
  ])
  const json = await env.openDB({ name: 'json', encoding: 'json' })
  await json.put('a', { list: [1, null], ü: '🐦' })
  assert.deepEqual(json.get('a'), { list: [1, null], ü: '🐦' })
  assert.throws(() => env.put('a', 5), TypeError)
  assert.throws(() => env.get(5), TypeError)
  assert.throws(() => env.put('\udc00', 'x'), { code: '22021' })
  await assert.rejects(env.openDB('x', { encoding: 'msgpack' }), /encoding/)
})

test('ranges agree with a sorted list, in both directions', async (t) => {
  const env = await fresh(t)
  const keys = Array.from({ length: 3000 }, (_, n) => `key ${String(n * 7 % 3000).padStart(4, '0')}`)
  await Promise.all(keys.map((key) => env.put(key, key.slice(4).repeat(20))))
  const sorted = [...keys].sort()
  const of = (options) => env.getKeys(options).asArray
  assert.deepEqual(of(), sorted)
  assert.deepEqual(env.getRange().map(({ key }) => key).asArray, sorted)
  assert.deepEqual(of({ reverse: true }), [...sorted].reverse())
  assert.deepEqual(env.getRange({ reverse: true }).map(({ key }) => key).asArray, [...sorted].reverse())
  const [low, high] = ['key 1000x', 'key 2000']
  const inside = sorted.filter((key) => key >= low && key < high)
  assert.deepEqual(of({ start: low, end: high }), inside)
  assert.equal(env.getCount({ start: low, end: high }), inside.length)
  assert.deepEqual(of({ start: high, end: low, reverse: true }), sorted.filter((key) => key <= high && key > low).reverse())
  assert.deepEqual(of({ start: low, limit: 5, offset: 2 }), inside.slice(2, 7))
  assert.deepEqual(env.getRange({ limit: 1500 }).asArray.length, 1500)
  assert.deepEqual(env.getKeys().filter((key) => key.endsWith('7')).asArray.length, 300)
  const seen = []
  for await (const { key } of env.getRange({ limit: 3 })) seen.push(key)
  assert.deepEqual(seen, sorted.slice(0, 3))
  for (const _ of env.getRange()) break
})

test('keys with many values', async (t) => {
  const env = await fresh(t)
  const colors = await env.openDB('colors', { dupSort: true })
  for (const [key, value] of [['a', 'red'], ['a', 'blue'], ['b', 'green'], ['a', 'red']]) await colors.put(key, value)
  assert.deepEqual(colors.getValues('a').asArray, ['blue', 'red'])
  assert.deepEqual(colors.getValues('a', { reverse: true }).asArray, ['red', 'blue'])
  assert.deepEqual(colors.getValues('c').asArray, [])
  assert.deepEqual(colors.getKeys().asArray, ['a', 'b'])
  assert.deepEqual([colors.get('a'), colors.getCount(), colors.doesExist('a', 'red')], ['blue', 3, true])
  assert.equal(await colors.remove('a', 'red'), true)
  assert.deepEqual(colors.getRange().asArray, [{ key: 'a', value: 'blue' }, { key: 'b', value: 'green' }])
  // More values than a range reads at a time.
  await Promise.all(Array.from({ length: 2500 }, (_, n) => colors.put('many', String(n).padStart(4, '0'))))
  const values = colors.getValues('many').asArray
  assert.deepEqual([values.length, values[0], values[2499]], [2500, '0000', '2499'])
  assert.deepEqual(colors.getValues('many', { reverse: true }).asArray, [...values].reverse())
  await assert.rejects(env.openDB('colors'), /many values/)
})

test('a transaction sees its changes, and others do not before it commits', async (t) => {
  const env = await fresh(t)
  const other = await env.openDB('other')
  await env.put('n', '1')
  const given = await env.transaction(async (txn) => {
    txn.put('n', String(Number(txn.get('n')) + 1))
    txn.of(other).put('x', 'y')
    await null
    assert.deepEqual([txn.get('n'), env.get('n'), other.get('x')], ['2', '1', undefined])
    assert.deepEqual(txn.getKeys().asArray, ['n'])
    await assert.rejects(env.put('n', '3'), { code: '25001' })
    return 'given'
  })
  assert.deepEqual([given, env.get('n'), other.get('x')], ['given', '2', 'y'])
  await assert.rejects(env.transaction((txn) => { txn.put('n', '9'); throw new TypeError('no') }), TypeError)
  assert.equal(await env.transaction((txn) => { txn.remove('n'); return ABORT }), ABORT)
  assert.equal(env.get('n'), '2')
  let kept
  await env.transaction((txn) => { kept = txn; txn.clear(); txn.insert('a', '1'); txn.put('b', '2') })
  assert.deepEqual(env.getKeys().asArray, ['a', 'b'])
  assert.throws(() => kept.get('a'), /ended/)
  assert.equal(await env.transaction((txn) => txn.removeRange({ start: 'a', end: 'b' })), 1)
})

test('changes are made in the order of their calls, whatever they are', async (t) => {
  const env = await fresh(t)
  const all = []
  for (let n = 0; n < 50; n++) {
    all.push(env.put('k', `${n} a`))
    all.push(env.transaction((txn) => { assert.equal(txn.get('k'), `${n} a`); txn.put('k', `${n} b`) }))
  }
  await Promise.all(all)
  assert.equal(env.get('k'), '49 b')
})

test('transactions that add to a number lose nothing', async (t) => {
  const env = await fresh(t)
  await env.put('n', '0')
  await Promise.all(Array.from({ length: 100 }, () => env.transaction(async (txn) => {
    const n = Number(txn.get('n'))
    await null
    txn.put('n', String(n + 1))
  })))
  assert.equal(env.get('n'), '100')
})

test('a change that cannot be made fails alone', async (t) => {
  const env = await fresh(t)
  const long = 'x'.repeat(100_000)
  const [good, bad, last] = await Promise.allSettled([env.put('a', '1'), env.put(long, '2'), env.put('b', '3')])
  assert.deepEqual([good.status, bad.status, last.status], ['fulfilled', 'rejected', 'fulfilled'])
  assert.deepEqual(env.getKeys().asArray, ['a', 'b'])
})

test('a snapshot stays as it is', async (t) => {
  const env = await fresh(t)
  await env.put('a', '1')
  const snapshot = env.useReadTransaction()
  const range = env.getRange()[Symbol.iterator]()
  assert.equal(range.next().value.key, 'a')
  await Promise.all([env.put('a', '2'), env.put('b', '3')])
  assert.deepEqual([snapshot.get('a'), env.get('a', { transaction: snapshot }), env.get('a')], ['1', '1', '2'])
  assert.deepEqual(snapshot.getKeys().asArray, ['a'])
  assert.deepEqual(env.getKeys({ transaction: snapshot }).asArray, ['a'])
  assert.equal(range.next().done, true)
  snapshot.done()
  snapshot.done()
  assert.throws(() => snapshot.get('a'), /ended/)
})

test('many values are read on another thread', async (t) => {
  const env = await fresh(t)
  await Promise.all(['a', 'b', 'c'].map((key) => env.put(key, key.toUpperCase())))
  assert.deepEqual(await env.getMany(['c', 'x', 'a', 'a', 'zz']), ['C', undefined, 'A', 'A', undefined])
  await env.prefetch(['a'])
  assert.deepEqual(await env.getMany([]), [])
})

test('databases are emptied and removed', async (t) => {
  const env = await fresh(t)
  const other = await env.openDB('other')
  await Promise.all([other.put('a', '1'), env.put('b', '2')])
  await other.clearAsync()
  assert.deepEqual([other.getCount(), env.get('b')], [0, '2'])
  await other.drop()
  assert.equal(other.get('a'), undefined)
  await assert.rejects(other.put('a', '1'))
})

test('a branch is a copy that costs nothing, and its own', async (t) => {
  const env = await fresh(t)
  await env.put('a', '1')
  await t.test('one test', async (t) => {
    const branch = await branchFor(t, env)
    await branch.put('a', '2')
    assert.deepEqual([branch.get('a'), env.get('a')], ['2', '1'])
    assert.equal((await env.branches()).length, 2)
  })
  await t.test('another', async (t) => assert.equal((await branchFor(t, env)).get('a'), '1'))
  assert.deepEqual(await env.branches(), ['main'])
  const draft = await env.branch('draft')
  await draft.put('d', '1')
  await draft.close()
  const again = await env.openBranch('draft')
  assert.equal(again.get('d'), '1')
  await again.close()
})

test('it is there after closing, and a copy of it too', async (t) => {
  const dir = scratch(t)
  const env = await open(path.join(dir, 'kv'))
  const pending = env.put('a', '1')
  await Promise.all([env.close(), env.close()])
  assert.equal(await pending, true)
  assert.throws(() => env.get('a'), { code: '08003' })
  await assert.rejects(env.put('a', '1'), { code: '08003' })
  await assert.rejects(env.transaction(() => {}), { code: '08003' })
  const again = await open(path.join(dir, 'kv'), { readOnly: true })
  assert.equal(again.get('a'), '1')
  await assert.rejects(again.put('a', '2'))
  await again.backup(path.join(dir, 'copy'), true)
  await again.flushed.catch(() => {})
  await again.close()
  const copy = await open(path.join(dir, 'copy'), { create: false })
  assert.equal(copy.get('a'), '1')
  await copy.put('b', '2')
  assert.equal(await copy.flushed, true)
  await copy.close()
  await assert.rejects(open(path.join(dir, 'none'), { create: false }))
})

test('a database that is opened twice is one', async (t) => {
  const dir = path.join(scratch(t), 'kv')
  const [one, two] = await Promise.all([open(dir), open(dir)])
  await one.put('a', '1')
  assert.equal(two.get('a'), '1')
  await one.close()
  await two.put('b', '2')
  await two.close()
})
