'use strict'

// Keys and values: the storage engine below SQL, with the names that the package lmdb has.
//
// Reading is synchronous, as with lmdb: a key is found in less time than a thread is told to look
// for it. All reads of a turn of the event loop see one state, unless something was committed
// meanwhile. Writing is on other threads: what is written while a commit is under way goes together
// into the next one.

const { AsyncLocalStorage } = require('node:async_hooks')
const { native, call } = require('./native')
const { errorOf, interfaceError } = require('./errors')

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')
const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose')
const DEFAULTS = { durability: 'sync', create: true, readOnly: false, mapSize: undefined }
const ENCODINGS = { encoding: 'string', keyEncoding: 'string', dupSort: false }
/** Entries, and about how many bytes of them, that a range reads at a time. */
const PAGE_ENTRIES = 1000
const PAGE_BYTES = 64 << 10
/** What a transaction's function gives to have it rolled back. */
const ABORT = Symbol('abort')

/** Files whose writer the running function has. */
const writing = new AsyncLocalStorage()

/** Calls the native module at once. */
function now(run) {
  try {
    return run()
  } catch (error) {
    throw error.message?.startsWith('{"severity"') ? errorOf(JSON.parse(error.message)) : error
  }
}

// ---- what keys and values are made of ----

function textOrBytes(value, what) {
  if (typeof value === 'string') {
    if (!value.isWellFormed?.() && /[\ud800-\udfff]/u.test(value)) {
      throw interfaceError(`a ${what} has half of a surrogate pair`, '22021')
    }
    return value
  }
  if (Buffer.isBuffer(value)) return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  throw new TypeError(`a ${what} is a string or a Buffer, not ${value === null ? 'null' : typeof value}`)
}

const ENCODE = {
  string: (value) => textOrBytes(value, 'value'),
  binary: (value) => textOrBytes(value, 'value'),
  json: (value) => {
    const text = JSON.stringify(value)
    if (text === undefined) throw new TypeError(`a ${typeof value} has no form in JSON`)
    return text
  },
}
const DECODE = { string: (bytes) => bytes.toString(), binary: (bytes) => bytes, json: (bytes) => JSON.parse(bytes.toString()) }

/** The parts of what `range` and `getMany` of the native module give. */
function* parts(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at)
    yield bytes.subarray(at + 4, end)
    at = end
  }
}

/** What `getRange` and its kin give: it is read as far as it is asked for, each time anew. */
class RangeIterable {
  #entries

  constructor(entries) {
    this.#entries = entries
  }

  [Symbol.iterator]() {
    return this.#entries()
  }

  async *[Symbol.asyncIterator]() {
    yield* this.#entries()
  }

  map(make) {
    const entries = this.#entries
    return new RangeIterable(function* () {
      for (const entry of entries()) yield make(entry)
    })
  }

  filter(isWanted) {
    const entries = this.#entries
    return new RangeIterable(function* () {
      for (const entry of entries()) if (isWanted(entry)) yield entry
    })
  }

  get asArray() {
    return [...this]
  }
}

/** Reading, of a named database, in something that has a native transaction. */
class Reading {
  constructor(root, table, options) {
    this.root = root
    this.table = table
    this.options = options
    this.encode = ENCODE[options.encoding]
    this.decode = DECODE[options.encoding]
    this.decodeKey = DECODE[options.keyEncoding]
  }

  /** The native transaction to read in. */
  _reader(options) {
    return options?.transaction?._native ?? this.root._snapshot()
  }

  /** The value of a key; undefined if there is none. Where keys have many values, the first. */
  get(key, options) {
    const bytes = textOrBytes(key, 'key')
    const reader = this._reader(options)
    if (this.options.encoding === 'binary') return now(() => reader.get(this.table, bytes)) ?? undefined
    const text = now(() => reader.getText(this.table, bytes))
    if (text === null || text === undefined) return undefined
    return this.options.encoding === 'json' ? JSON.parse(text) : text
  }

  getBinary(key, options) {
    return now(() => this._reader(options).get(this.table, textOrBytes(key, 'key'))) ?? undefined
  }

  /** Whether a key is there; with a value, whether it has that. */
  doesExist(key, value, options) {
    const wanted = value === undefined ? undefined : this.encode(value)
    return now(() => this._reader(options).has(this.table, textOrBytes(key, 'key'), wanted))
  }

  /** How many entries there are; with `start` and `end` those from the one on and below the other. */
  getCount({ start, end, transaction } = {}) {
    const [low, high] = [start, end].map((key) => (key === undefined ? undefined : textOrBytes(key, 'key')))
    return now(() => this._reader({ transaction }).count(this.table, low, high))
  }

  /** A transaction of its own for a range, and what ends it. */
  _rangeReader(transaction) {
    if (transaction !== undefined) return [transaction._native, () => {}]
    const snapshot = this.root._newSnapshot()
    return [snapshot, () => snapshot.release()]
  }

  #range(options, keysOnly, make) {
    const { start, end, reverse = false, limit = Infinity, offset = 0, transaction } = options ?? {}
    const [low, high] = [start, end].map((key) => (key === undefined ? undefined : textOrBytes(key, 'key')))
    const read = function* () {
      const [reader, release] = this._rangeReader(transaction)
      try {
        let [left, skip] = [limit, offset]
        const span = { start: low, end: high, reverse, keysOnly, bytesMax: PAGE_BYTES }
        while (left > 0) {
          span.limit = Math.min(PAGE_ENTRIES, left + skip)
          const entries = [...parts(now(() => reader.range(this.table, span)))]
          if (entries.length === 0) return
          const width = keysOnly ? 1 : 2
          for (let at = 0; at < entries.length; at += width) {
            if (skip > 0) {
              skip--
              continue
            }
            if (left-- <= 0) return
            yield make(entries[at], entries[at + 1])
          }
          span.afterKey = entries[entries.length - width]
          span.afterValue = keysOnly ? undefined : entries[entries.length - 1]
        }
      } finally {
        release()
      }
    }
    return new RangeIterable(read.bind(this))
  }

  /** Entries in the order of their keys; `reverse` from the last one down. */
  getRange(options) {
    return this.#range(options, false, (key, value) => ({ key: this.decodeKey(key), value: this.decode(value) }))
  }

  /** Keys, each once. */
  getKeys(options) {
    return this.#range(options, true, (key) => this.decodeKey(key))
  }

  /** The values of a key, where keys have many. */
  getValues(key, { reverse = false, limit, offset, transaction } = {}) {
    const bytes = Buffer.from(textOrBytes(key, 'key'))
    const behind = Buffer.concat([bytes, Buffer.from([0])])
    // From the last one down the range begins with its start, and ends before its end.
    const bounds = reverse ? { start: bytes } : { start: bytes, end: behind }
    const entries = this.#range({ ...bounds, reverse, limit, offset, transaction }, false, (found, value) => [found, value])
    const decode = this.decode
    return new RangeIterable(function* () {
      for (const [found, value] of entries) {
        if (!found.equals(bytes)) return
        yield decode(value)
      }
    })
  }
}

/** A named database. */
class Store extends Reading {
  /** The values of keys, in their order, read on another thread; undefined for those that are not there. */
  async getMany(keys) {
    const wanted = keys.map((key) => textOrBytes(key, 'key'))
    const snapshot = this.root._newSnapshot()
    try {
      const found = [...parts((await call(snapshot, 'getMany', this.table, wanted)) ?? Buffer.alloc(0))]
      let at = 0
      return wanted.map((key) => {
        if (at >= found.length || !found[at].equals(typeof key === 'string' ? Buffer.from(key) : key)) return undefined
        at += 2
        return this.decode(found[at - 1])
      })
    } finally {
      snapshot.release()
    }
  }

  /** Has keys and their values read into memory by another thread, so that `get` does not wait for the disk. */
  async prefetch(keys) {
    await this.getMany(keys)
  }

  /** Stores a value. */
  put(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), this.encode(value)]
    return this.root._change((batch) => batch.put(this.table, k, v))
  }

  /** Stores a value unless the key is there; gives whether it did. */
  insert(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), this.encode(value)]
    return this.root._change((batch) => batch.insert(this.table, k, v))
  }

  /** Deletes a key, or one of its values; gives whether it was there. */
  remove(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), value === undefined ? undefined : this.encode(value)]
    return this.root._change((batch) => batch.remove(this.table, k, v))
  }

  /** Empties it. */
  clearAsync() {
    return this.root._change((batch) => batch.clear(this.table)).then(() => {})
  }

  /** Removes it, with all that is in it. */
  drop() {
    return this.root._change((batch) => batch.drop(this.table)).then(() => {})
  }

  /**
   * Awaits `run(transaction)`, and commits what that has changed, unless it fails or gives ABORT. One
   * runs at a time, and sees its own changes.
   */
  transaction(run) {
    return this.root._transaction((txn) => run(new WriteTransaction(this, txn)))
  }

  /** What is committed now; `done` ends it. */
  useReadTransaction() {
    return new ReadTransaction(this, this.root._newSnapshot())
  }
}

/** One state of the database, whatever is committed meanwhile. */
class ReadTransaction extends Reading {
  constructor(store, transaction) {
    super(store.root, store.table, store.options)
    this._native = transaction
  }

  _reader() {
    return this._native
  }

  _rangeReader() {
    return [this._native, () => {}]
  }

  /** The same state of another named database. */
  of(store) {
    return new this.constructor(store, this._native)
  }

  done() {
    this._native.release()
  }

  [dispose]() {
    this.done()
  }
}

/** An open transaction, with the calls of a named database. They act at once. */
class WriteTransaction extends ReadTransaction {
  put(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), this.encode(value)]
    now(() => this._native.put(this.table, k, v))
  }

  insert(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), this.encode(value)]
    return now(() => this._native.insert(this.table, k, v))
  }

  remove(key, value) {
    const [k, v] = [textOrBytes(key, 'key'), value === undefined ? undefined : this.encode(value)]
    return now(() => this._native.remove(this.table, k, v))
  }

  /** Deletes the entries from `start` on and below `end`; gives how many there were. */
  removeRange({ start, end } = {}) {
    const [low, high] = [start, end].map((key) => (key === undefined ? undefined : textOrBytes(key, 'key')))
    return now(() => this._native.removeRange(this.table, low, high))
  }

  clear() {
    now(() => this._native.clear(this.table))
  }

  done() {
    throw interfaceError('a transaction ends with its function')
  }
}

function optionsOf(given, defaults) {
  const options = { ...defaults }
  for (const [name, value] of Object.entries(given)) if (value !== undefined) options[name] = value
  for (const name of ['encoding', 'keyEncoding']) {
    if (DECODE[options[name]] === undefined || (name === 'keyEncoding' && options[name] === 'json')) {
      throw interfaceError(`${name} is ${name === 'encoding' ? '"string", "binary" or "json"' : '"string" or "binary"'}, not ${JSON.stringify(options[name])}`)
    }
  }
  return options
}

/** The main database of a file, and the others in it. */
class RootDatabase extends Store {
  #env
  #turn = null
  /** Changes that go together into the next commit. */
  #group = null
  #tail = Promise.resolve()
  #closing = null

  constructor(env, options) {
    super(undefined, new native.KeyTable('main', options.dupSort), options)
    this.root = this
    this.#env = env
  }

  #check() {
    if (this.#closing !== null) throw interfaceError('the database is closed', '08003')
    if (writing.getStore()?.has(this)) {
      throw interfaceError('within a transaction use what its function is given: this would wait for its end', '25001')
    }
  }

  _newSnapshot() {
    if (this.#closing !== null) throw interfaceError('the database is closed', '08003')
    return now(() => this.#env.snapshot())
  }

  /** What reads of this turn of the event loop see. */
  _snapshot() {
    if (this.#turn === null) {
      this.#turn = this._newSnapshot()
      setImmediate(() => this.#forget())
    }
    return this.#turn
  }

  #forget() {
    this.#turn?.release()
    this.#turn = null
  }

  /** Runs a function that may write, behind those before it. */
  #write(run) {
    // Changes that are asked for later are made later.
    this.#group = null
    const done = this.#tail.then(run)
    this.#tail = done.catch(() => {})
    return done
  }

  /** Adds a change to the next commit; gives whether it has changed something. */
  async _change(apply) {
    this.#check()
    return new Promise((resolve, reject) => {
      if (this.#group === null) {
        const group = []
        this.#write(() => {
          if (this.#group === group) this.#group = null
          return this.#commit(group)
        })
        this.#group = group
      }
      this.#group.push({ apply, resolve, reject })
    })
  }

  async #commit(changes) {
    const batch = new native.Batch()
    try {
      for (const { apply } of changes) apply(batch)
      const done = await call(this.#env, 'write', batch)
      // Whoever is told of it sees it.
      this.#forget()
      changes.forEach(({ resolve }, place) => resolve(done[place] === 1))
    } catch (error) {
      if (changes.length === 1) return changes[0].reject(error)
      // One that cannot be made does not keep the others from being made.
      for (const change of changes) await this.#commit([change])
    }
  }

  async _transaction(run) {
    this.#check()
    // What was asked for before goes first.
    return this.#write(async () => {
      const txn = new native.KeyTransaction()
      await call(this.#env, 'begin', txn)
      let result
      try {
        result = await writing.run(new Set(writing.getStore()).add(this), run, txn)
      } catch (error) {
        await call(txn, 'abort')
        throw error
      }
      await call(txn, result === ABORT ? 'abort' : 'commit')
      this.#forget()
      return result
    })
  }

  /** A named database, made if there is none. */
  async openDB(name, options = {}) {
    if (typeof name === 'object') [name, options] = [name.name, name]
    this.#check()
    const { encoding, keyEncoding } = this.options
    const all = optionsOf({ ...options }, { ...ENCODINGS, encoding, keyEncoding })
    await this.#write(() => call(this.#env, 'openTable', String(name), all.dupSort))
    return new Store(this, new native.KeyTable(String(name), all.dupSort), all)
  }

  /** When what was written before is committed. */
  get committed() {
    return this.#tail.then(() => true)
  }

  /** When what was written before is on disk. */
  get flushed() {
    return this.#tail.then(() => call(this.#env, 'sync')).then(() => true)
  }

  /** Copies what is committed to a new database. */
  async backup(path, compact = false) {
    this.#check()
    await call(this.#env, 'copy', String(path), compact)
  }

  async #openBranch(name, make) {
    this.#check()
    const env = new native.Environment()
    await this.#write(() => call(this.#env, 'branch', env, String(name), make))
    return new RootDatabase(env, this.options)
  }

  /** Makes a branch of what is committed, and opens it. It costs a few pages, whatever the size. */
  branch(name) {
    return this.#openBranch(name, true)
  }

  openBranch(name) {
    return this.#openBranch(name, false)
  }

  async dropBranch(name) {
    this.#check()
    await this.#write(() => call(this.#env, 'dropBranch', String(name)))
  }

  /** Names of branches, the main one's first. */
  async branches() {
    this.#check()
    return JSON.parse(await call(this.#env, 'branches'))
  }

  /** Closes it, behind what was written before. */
  close() {
    if (this.#closing === null) {
      this.#closing = this.#tail.then(() => {
        this.#forget()
        return call(this.#env, 'close')
      }).then(() => {})
    }
    return this.#closing
  }

  [asyncDispose]() {
    return this.close()
  }
}

/** Opens a directory, and makes a database of keys and values there if there is none. */
async function open(path, options = {}) {
  const known = { ...DEFAULTS, ...ENCODINGS }
  const unknown = Object.keys(options).find((name) => !(name in known))
  if (unknown !== undefined) throw interfaceError(`there is no option ${unknown}`)
  const all = optionsOf(options, known)
  const env = new native.Environment()
  await call(env, 'open', String(path), all.durability, all.create, all.readOnly, all.mapSize)
  if (!all.readOnly) await call(env, 'openTable', 'main', all.dupSort)
  return new RootDatabase(env, all)
}

module.exports = { open, ABORT, RangeIterable }
