'use strict'

// A database in process: queries, transactions, streams, COPY, notifications.

const { native, call } = require('./native')
const { interfaceError } = require('./errors')
const { Session, Reader, ofTag } = require('./session')
const { converterOf, toParam } = require('./values')

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')
const DEFAULTS = { user: 'colibri', durability: 'sync', create: true, bigint: 'bigint', connectionsMax: 8 }
const ATTEMPTS_MAX = 10
const ISOLATIONS = { serializable: 'SERIALIZABLE', 'repeatable read': 'REPEATABLE READ', 'read committed': 'READ COMMITTED' }

/** What of a result is not rows. */
function resultOf({ reader, rows, tag }) {
  const fields = reader.columns.map(([name, dataTypeID, type]) => ({ name, dataTypeID, type }))
  return { rows, fields, ...ofTag(tag) }
}

/** What begins a transaction. */
function beginOf({ isolation, readOnly = false }) {
  if (isolation !== undefined && ISOLATIONS[isolation] === undefined) {
    throw interfaceError(`isolation is "serializable", "repeatable read" or "read committed", not ${JSON.stringify(isolation)}`)
  }
  const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${ISOLATIONS[isolation]}`
  return `BEGIN${level}${readOnly ? ' READ ONLY' : ''}`
}

/** None after the first attempt, then random ones that grow. */
function pause(attempt) {
  const ms = attempt === 1 ? 0 : Math.random() * Math.min(0.5 * 2 ** attempt, 100)
  return new Promise((resolve) => (ms < 1 ? setImmediate(resolve) : setTimeout(resolve, ms)))
}

/** A session. Statements of one connection run one after the other. */
class Connection extends Session {
  #options
  #isInTransaction = false

  constructor(options) {
    super()
    this.#options = options
  }

  #reader({ rowMode = 'object', bigint = this.#options.bigint } = {}) {
    if (rowMode !== 'object' && rowMode !== 'array') {
      throw interfaceError(`rowMode is "object" or "array", not ${JSON.stringify(rowMode)}`)
    }
    return new Reader(rowMode, (columns) => columns.map(([, oid]) => converterOf(oid, { bigint })))
  }

  /** Runs a statement, and takes its rows into memory. */
  async query(sql, params = [], options = {}) {
    return resultOf(await this.run(sql, params, () => this.#reader(options), { signal: options.signal }))
  }

  /** Runs all statements of a text, as one transaction unless they say otherwise; gives their results. */
  async script(sql, options = {}) {
    const results = await this.run(sql, [], () => this.#reader(options), { signal: options.signal, several: true })
    return (Array.isArray(results) ? results : [results]).map(resultOf)
  }

  /** The rows of a statement, as they are asked for. */
  async *stream(sql, params = [], options = {}) {
    for await (const rows of this.pieces(sql, params, this.#reader(options), options.signal)) yield* rows
  }

  /** A statement that is run many times. Its errors are told now, its plan is kept with the connection. */
  async prepare(sql, options = {}) {
    const { columns, params } = await super.prepare(sql, options.signal)
    return new Statement(this, sql, columns.map(([name, dataTypeID, type]) => ({ name, dataTypeID, type })), params)
  }

  /** Runs a statement for each of the arrays of parameters, as one transaction; gives the number of rows. */
  executeMany(sql, rows, options = {}) {
    return this.many(sql, rows, options.signal)
  }

  /**
   * Awaits `run(connection)` in a transaction, which commits if that succeeds. After a conflict with
   * others it runs again.
   */
  async transaction(run, options = {}) {
    const { attempts = ATTEMPTS_MAX, signal } = options
    if (this.#isInTransaction || this.state === 'T' || this.state === 'E') {
      throw interfaceError('there is already a transaction in progress', '25001')
    }
    const begin = beginOf(options)
    this.#isInTransaction = true
    try {
      for (let attempt = 1; ; attempt++) {
        await this.query(begin, [], { signal })
        try {
          const value = await run(this)
          const { command } = await this.query('COMMIT', [], { signal })
          if (command === 'ROLLBACK') {
            throw interfaceError('the transaction was rolled back, since a statement in it failed', '25P02')
          }
          return value
        } catch (error) {
          if (!this.isClosed) await this.rollback()
          if (error?.isRetryable !== true || attempt >= attempts || this.isClosed) throw error
        }
        await pause(attempt)
      }
    } finally {
      this.#isInTransaction = false
    }
  }

  /** Ends a transaction that is open; without one it has no effect. */
  async rollback() {
    if (this.state === 'I') return
    await this.query('ROLLBACK')
    // The warning that there was none is nobody's.
    this.state = 'I'
  }

  async listen(channel) {
    await this.query(`LISTEN ${identifier(channel)}`)
  }

  async unlisten(channel) {
    await this.query(channel === undefined ? 'UNLISTEN *' : `UNLISTEN ${identifier(channel)}`)
  }

  [asyncDispose]() {
    return this.close()
  }
}

/** A prepared statement. */
class Statement {
  #connection

  constructor(connection, text, fields, params) {
    this.#connection = connection
    this.text = text
    this.fields = fields
    /** PostgreSQL's numbers of the parameters' types. */
    this.params = params
  }

  query(params = [], options = {}) {
    return this.#connection.query(this.text, params, options)
  }

  stream(params = [], options = {}) {
    return this.#connection.stream(this.text, params, options)
  }

  executeMany(rows, options = {}) {
    return this.#connection.executeMany(this.text, rows, options)
  }
}

/** A name as SQL takes it, whatever is in it. */
function identifier(name) {
  return `"${String(name).replaceAll('"', '""')}"`
}

/** A row of a COPY in its text format, with the newline. */
function copyRow(values) {
  const escape = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
  const field = (value) => {
    const param = toParam(value)
    if (param === null) return '\\N'
    const text = Buffer.isBuffer(param) ? `\\x${param.toString('hex')}` : param
    return text.replace(/[\\\n\r\t]/g, (letter) => escape[letter])
  }
  return `${values.map(field).join('\t')}\n`
}

/** An open database, with connections for its own calls. */
class Database {
  #native
  #options
  #idle = []
  #count = 0
  #waiting = []
  #all = new Set()
  #closing = null

  static async open(path, options = {}) {
    const unknown = Object.keys(options).find((name) => DEFAULTS[name] === undefined)
    if (unknown !== undefined) throw interfaceError(`there is no option ${unknown}`)
    const database = new Database()
    database.#options = { ...DEFAULTS, ...options }
    // An option that is wrong is told of now.
    converterOf(20, database.#options)
    database.#native = new native.Database()
    await call(database.#native, 'open', String(path), database.#options.durability, database.#options.create)
    return database
  }

  #check() {
    if (this.#closing !== null) throw interfaceError('the database is closed', '08003')
  }

  /** A connection of one's own; `close` ends it. */
  async connect({ user = this.#options.user } = {}) {
    this.#check()
    const connection = new Connection(this.#options)
    await connection.open(this.#native, user)
    if (this.#closing !== null) {
      await connection.close()
      this.#check()
    }
    this.#all.add(connection)
    connection.once('end', () => this.#all.delete(connection))
    return connection
  }

  /** Runs a function with a connection that nobody else uses meanwhile. */
  async #with(run) {
    const connection = await this.#acquire()
    try {
      return await run(connection)
    } finally {
      await this.#release(connection)
    }
  }

  async #acquire() {
    this.#check()
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle
    if (this.#count >= this.#options.connectionsMax) {
      return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
    }
    this.#count++
    try {
      return await this.connect()
    } catch (error) {
      this.#count--
      throw error
    }
  }

  async #release(connection) {
    try {
      if (!connection.isClosed) await connection.rollback()
    } catch {
      // It is lost: another takes its place.
      await connection.close().catch(() => {})
    }
    if (connection.isClosed) {
      this.#count--
      const next = this.#waiting.shift()
      if (next !== undefined) this.#acquire().then(next.resolve, next.reject)
      return
    }
    const next = this.#waiting.shift()
    if (next !== undefined) next.resolve(connection)
    else this.#idle.push(connection)
  }

  query(sql, params, options) {
    return this.#with((connection) => connection.query(sql, params, options))
  }

  script(sql, options) {
    return this.#with((connection) => connection.script(sql, options))
  }

  async *stream(sql, params, options) {
    const connection = await this.#acquire()
    try {
      yield* connection.stream(sql, params, options)
    } finally {
      await this.#release(connection)
    }
  }

  executeMany(sql, rows, options) {
    return this.#with((connection) => connection.executeMany(sql, rows, options))
  }

  transaction(run, options) {
    return this.#with((connection) => connection.transaction(run, options))
  }

  /** A stream whose data become rows, by COPY … FROM STDIN. */
  async copyFrom(sql) {
    return this.#streaming((connection) => connection.copyFrom(sql))
  }

  /** A stream of the data of a COPY … TO STDOUT. */
  async copyTo(sql) {
    return this.#streaming((connection) => connection.copyTo(sql))
  }

  async #streaming(begin) {
    const connection = await this.#acquire()
    const stream = begin(connection)
    stream.once('close', () => this.#release(connection))
    return stream
  }

  /** A connection that listens to channels, and emits 'notification'. */
  async listen(...channels) {
    const connection = await this.connect()
    for (const channel of channels) await connection.listen(channel)
    return connection
  }

  /** Writes a full backup to a file. */
  async backup(path) {
    this.#check()
    await call(this.#native, 'backup', String(path))
  }

  /** Ends the connections and closes the database. What runs is cancelled. */
  close() {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close() {
    for (const { reject } of this.#waiting.splice(0)) reject(interfaceError('the database is closed', '08003'))
    const ends = [...this.#all].map((connection) => {
      connection.cancel()
      return connection.close()
    })
    await Promise.allSettled(ends)
    await call(this.#native, 'close')
  }

  [asyncDispose]() {
    return this.close()
  }
}

module.exports = { Database, Connection, Statement, copyRow, identifier }
