'use strict'

// node-postgres's interface: `Client` and `Pool` whose database is in the process, so that what is
// built upon `pg` runs on it as it is. What has no meaning without a server (hosts, TLS, passwords)
// is ignored.

const { EventEmitter } = require('node:events')
const { native, call } = require('./native')
const { DatabaseError, interfaceError } = require('./errors')
const { Session, Reader, ofTag } = require('./session')
const { types, Types } = require('./types')
const { toParam } = require('./values')

const defaults = { user: 'colibri', max: 10, durability: 'sync', create: true }

/** The directory that a configuration names. */
function pathOf({ path, connectionString, database }) {
  if (path !== undefined) return String(path)
  if (connectionString !== undefined) return String(connectionString).replace(/^(colibri|file):(\/\/)?/, '')
  const named = database ?? defaults.database ?? process.env.PGDATABASE
  if (named === undefined) throw interfaceError('name the directory of the database: new Pool({ path: "birds" })')
  return String(named)
}

function configOf(config) {
  return typeof config === 'string' ? { connectionString: config } : config ?? {}
}

/** Calls back, or gives a promise if there is no function to call. */
function answer(promise, callback) {
  if (typeof callback !== 'function') return promise
  promise.then(
    (value) => process.nextTick(callback, null, value),
    (error) => process.nextTick(callback, error)
  )
  return undefined
}

class Result {
  constructor({ reader, rows, tag }, rowMode) {
    Object.assign(this, { ...ofTag(tag), oid: null, rows, fields: fieldsOf(reader.columns), rowAsArray: rowMode === 'array' })
    if (this.command === 'INSERT') this.oid = 0
    if (rowMode !== 'array') {
      const names = reader.columns.map(([name]) => name)
      this.rows = rows.map((row) => objectOf(names, row))
    }
  }
}

function fieldsOf(columns) {
  return columns.map(([name, dataTypeID]) => ({
    name, tableID: 0, columnID: 0, dataTypeID, dataTypeSize: -1, dataTypeModifier: -1, format: 'text',
  }))
}

function objectOf(names, values) {
  const row = {}
  for (let place = 0; place < names.length; place++) row[names[place]] = values[place]
  return row
}

/** What of a call of `query` is which. */
function queryOf(config, values, callback) {
  if (typeof values === 'function') [values, callback] = [undefined, values]
  const query = typeof config === 'string' ? { text: config } : { ...config }
  if (values !== undefined) query.values = values
  callback ??= query.callback
  if (typeof query.text !== 'string') throw new TypeError('Client was passed a null or undefined query')
  return { query, callback }
}

class Client extends EventEmitter {
  #config
  #session = new Session()
  #database = new native.Database()
  #types = new Types(types)
  #connecting = null
  #ending = null
  /** When the cursor that is being closed is. */
  #closed = null

  constructor(config) {
    super()
    this.#config = configOf(config)
    const { user = defaults.user } = this.#config
    Object.assign(this, { user, host: null, port: null, password: null, ssl: false, _ending: false })
    this.database = pathOf(this.#config)
    if (this.#config.types !== undefined) this.#types = this.#config.types
    this.#session.on('notification', (told) => this.emit('notification', told))
    this.#session.on('notice', (notice) => this.emit('notice', notice))
    // Those that look at the protocol's connection find somebody who never says anything.
    this.connection = new EventEmitter()
  }

  get processID() {
    return this.#session.number
  }

  connect(callback) {
    if (this.#connecting !== null) {
      return answer(Promise.reject(new Error('Client has already been connected. You cannot reuse a client.')), callback)
    }
    const { durability = defaults.durability, create = defaults.create } = this.#config
    const connect = async () => {
      await call(this.#database, 'open', this.database, durability, create)
      await this.#session.open(this.#database, this.user)
      this.emit('connect')
      return this
    }
    this.#connecting = connect()
    return answer(this.#connecting, callback)
  }

  #parser(queryTypes) {
    const from = queryTypes ?? this.#types
    return (oid) => from.getTypeParser(oid, 'text')
  }

  #reader(queryTypes) {
    const parserOf = this.#parser(queryTypes)
    return new Reader('text', (columns) => columns.map(([, oid]) => parserOf(oid)))
  }

  query(config, values, callback) {
    if (config === null || config === undefined) throw new TypeError('Client was passed a null or undefined query')
    if (typeof config.submit === 'function') return this.#submit(config)
    const { query, callback: told } = queryOf(config, values, callback)
    return answer(this.#run(query), told)
  }

  async #run({ text, values, rowMode, types: queryTypes, name }) {
    if (this.#connecting === null) throw interfaceError('the client is not connected: call connect() first', '08003')
    await this.#connecting
    await this.#closed
    if (this.#ending !== null) throw interfaceError('Client was closed and is not queryable', '08003')
    const params = (values ?? []).map(toParam)
    const several = params.length === 0 && name === undefined
    const results = await this.#session.run(text, params, () => this.#reader(queryTypes), { several })
    if (Array.isArray(results)) return results.map((result) => new Result(result, rowMode))
    return new Result(results, rowMode)
  }

  /** What pg-cursor and pg-query-stream make: reads rows as they are asked for. */
  #submit(submittable) {
    const cursor = submittable.cursor ?? submittable
    const { rowMode, types: queryTypes } = { ...cursor._conf, ...submittable.config }
    const reader = this.#reader(queryTypes)
    const pieces = this.#connected(() => this.#session.pieces(cursor.text, cursor.values ?? [], reader))
    let [rows, at, isOver, tail] = [[], 0, false, Promise.resolve()]
    const read = async (count) => {
      const some = []
      while (some.length < count && !isOver) {
        if (at === rows.length) {
          const next = await pieces.next()
          isOver = next.done
          rows = next.value ?? []
          at = 0
        } else {
          const taken = rows.slice(at, at + count - some.length)
          some.push(...taken)
          at += taken.length
        }
      }
      const names = reader.columns.map(([name]) => name)
      return rowMode === 'array' ? some : some.map((row) => objectOf(names, row))
    }
    const result = () => ({ command: 'SELECT', rowCount: null, rows: [], fields: fieldsOf(reader.columns) })
    cursor.read = (count, callback) => {
      const reading = tail.then(() => read(count))
      tail = reading.catch(() => {})
      if (typeof callback !== 'function') return reading
      reading.then((some) => callback(null, some, result()), (error) => callback(error))
      return undefined
    }
    cursor.close = (callback) => {
      const closing = tail.then(() => pieces.return()).then(() => {
        isOver = true
        cursor.emit?.('end')
      })
      this.#closed = closing.catch(() => {})
      return answer(closing, callback)
    }
    return submittable
  }

  async *#connected(begin) {
    await this.#connecting
    await this.#closed
    yield* begin()
  }

  setTypeParser(oid, format, parse) {
    return this.#types.setTypeParser(oid, format, parse)
  }

  getTypeParser(oid, format) {
    return this.#types.getTypeParser(oid, format)
  }

  escapeIdentifier(name) {
    return escapeIdentifier(name)
  }

  escapeLiteral(text) {
    return escapeLiteral(text)
  }

  /** Nothing keeps the process alive but what runs, and LISTEN. */
  ref() {}

  unref() {}

  /** Whether a transaction is open, or may be. */
  get isBusy() {
    return this.#session.state !== 'I'
  }

  end(callback) {
    this._ending = true
    const end = async () => {
      await this.#connecting?.catch(() => {})
      await this.#session.close()
      await call(this.#database, 'close')
      this.emit('end')
    }
    this.#ending ??= end()
    return answer(this.#ending, callback)
  }
}

class Pool extends EventEmitter {
  #idle = []
  #clients = new Set()
  #waiting = []
  #ending = null

  constructor(config) {
    super()
    this.options = { max: defaults.max, ...configOf(config) }
    this.options.path = pathOf(this.options)
    this.Client = this.options.Client ?? Client
    this.ended = false
  }

  get totalCount() {
    return this.#clients.size
  }

  get idleCount() {
    return this.#idle.length
  }

  get waitingCount() {
    return this.#waiting.length
  }

  get ending() {
    return this.#ending !== null
  }

  connect(callback) {
    const acquired = this.#acquire()
    if (typeof callback !== 'function') return acquired
    acquired.then(
      (client) => process.nextTick(callback, undefined, client, client.release),
      (error) => process.nextTick(callback, error, undefined, () => {})
    )
    return undefined
  }

  async #acquire() {
    if (this.#ending !== null) throw new Error('Cannot use a pool after calling end on the pool')
    const idle = this.#idle.pop()
    if (idle !== undefined) return this.#lend(idle)
    if (this.#clients.size >= this.options.max) return this.#wait()
    const client = new this.Client(this.options)
    this.#clients.add(client)
    try {
      await client.connect()
      await this.options.onConnect?.(client)
    } catch (error) {
      this.#remove(client)
      throw error
    }
    this.emit('connect', client)
    return this.#lend(client)
  }

  #wait() {
    return new Promise((resolve, reject) => {
      const waiting = { resolve, reject }
      const patience = this.options.connectionTimeoutMillis
      if (patience) {
        waiting.timer = setTimeout(() => {
          this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
          reject(new Error('timeout exceeded when trying to connect'))
        }, patience)
      }
      this.#waiting.push(waiting)
    })
  }

  #lend(client) {
    let isLent = true
    client.release = (error) => {
      if (!isLent) throw new Error('Release called on client which has already been released to the pool.')
      isLent = false
      this.#release(client, error)
    }
    this.emit('acquire', client)
    return client
  }

  async #release(client, error) {
    this.emit('release', error, client)
    // What the client has left open is nobody's.
    const isGood = !error && !client._ending && (!client.isBusy || (await client.query('ROLLBACK').then(() => true, () => false)))
    if (!isGood || this.#ending !== null) {
      this.#remove(client)
      if (this.#ending === null && this.#waiting.length > 0) this.#serve(this.#acquire())
      return
    }
    if (this.#waiting.length > 0) this.#serve(Promise.resolve(this.#lend(client)))
    else this.#idle.push(client)
  }

  #serve(acquired) {
    const { resolve, reject, timer } = this.#waiting.shift()
    clearTimeout(timer)
    acquired.then(resolve, reject)
  }

  #remove(client) {
    this.#clients.delete(client)
    this.emit('remove', client)
    return client.end().catch((error) => this.emit('error', error, client))
  }

  query(config, values, callback) {
    if (typeof values === 'function') [values, callback] = [undefined, values]
    const run = async () => {
      const client = await this.#acquire()
      try {
        const result = await client.query(config, values)
        client.release()
        return result
      } catch (error) {
        client.release(error instanceof DatabaseError ? undefined : error)
        throw error
      }
    }
    return answer(run(), callback)
  }

  end(callback) {
    const end = async () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('Cannot use a pool after calling end on the pool'))
      await Promise.all(this.#idle.splice(0).map((client) => this.#remove(client)))
      // Clients that are lent end when they are released.
      while (this.#clients.size > 0) await new Promise((resolve) => this.once('remove', resolve))
      this.ended = true
    }
    this.#ending ??= Promise.resolve().then(end)
    return answer(this.#ending, callback)
  }
}

function escapeIdentifier(name) {
  return `"${String(name).replaceAll('"', '""')}"`
}

function escapeLiteral(text) {
  const quoted = `'${String(text).replaceAll("'", "''").replaceAll('\\', '\\\\')}'`
  return String(text).includes('\\') ? ` E${quoted}` : quoted
}

module.exports = { Client, Pool, Result, types, TypeOverrides: Types, DatabaseError, defaults, escapeIdentifier, escapeLiteral }
