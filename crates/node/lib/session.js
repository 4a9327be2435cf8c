'use strict'

// A session: one thing at a time, in the order in which it was asked for.
//
// Invariants:
// 1. Who has the turn is the only one that calls the native connection, but for `cancel` and `close`.
// 2. A stream and a COPY keep the turn from their first row to their last. Meanwhile other calls are
//    refused, since one that waited within the loop over the rows would wait forever.

const { EventEmitter } = require('node:events')
const { Readable, Writable } = require('node:stream')
const { native, call, listen, unlisten, keepAlive, letGo } = require('./native')
const { errorOf, interfaceError } = require('./errors')
const { toParam } = require('./values')

/** Bytes of rows that are read at a time. */
const PIECE_BYTES = 128 << 10
/** Values of `executeMany` that are handed over at a time. */
const MANY_VALUES = 8192
/** How often a cancel is repeated: it has no effect on a statement that has not begun yet. */
const CANCEL_MS = 5

const FORMS = { object: 0, array: 1, text: 2 }

/** Command and number of rows of PostgreSQL's tag. */
function ofTag(tag) {
  const parts = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/.exec(tag)
  if (parts === null) return { command: tag, rowCount: null }
  const count = parts[3] ?? parts[2]
  return { command: parts[1], rowCount: count === undefined ? null : Number(count) }
}

/** Makes values of JavaScript of rows of JSON, in place. */
function convertRows(rows, keys, converters) {
  for (let place = 0; place < keys.length; place++) {
    const convert = converters[place]
    if (convert === null) continue
    const key = keys[place]
    for (const row of rows) {
      const value = row[key]
      if (value !== null) row[key] = convert(value)
    }
  }
  return rows
}

/**
 * How a statement is run, and what is made of its rows.
 * `form`: 'object', 'array' or 'text', which are arrays of texts.
 * `convertersOf(columns)`: what makes a value of each column; null for those that stay.
 */
class Reader {
  constructor(form, convertersOf) {
    this.form = FORMS[form]
    this.convertersOf = convertersOf
    this.columns = []
    this.keys = []
    this.converters = []
  }

  /** The rows of an answer. */
  rowsOf(answer) {
    if (answer.columns !== undefined) {
      this.columns = answer.columns
      this.converters = this.convertersOf(answer.columns)
      let names = answer.columns.map(([name]) => name)
      if (this.form === FORMS.object) {
        // Of columns with one name the last one stays.
        this.converters = this.converters.filter((_, place) => names.lastIndexOf(names[place]) === place)
        names = names.filter((name, place) => names.lastIndexOf(name) === place)
        this.keys = names
      } else {
        this.keys = names.map((_, place) => place)
      }
    }
    return convertRows(answer.rows ?? [], this.keys, this.converters)
  }
}

class Session extends EventEmitter {
  #native = new native.Connection()
  #isTaken = false
  /** Who waits for the turn. */
  #queue = []
  /** What keeps the turn for longer than a call. */
  #keeper = null
  #closing = null
  #hearing = 0
  #isTold = false
  /** 'I' idle, 'T' in a transaction, 'E' in one that failed, '?' after an error. */
  state = 'I'
  /** What `pg_backend_pid` gives. */
  number = 0

  async open(database, user) {
    this.number = JSON.parse(await call(database, 'connect', this.#native, user))
  }

  get isClosed() {
    return this.#closing !== null
  }

  // ---- turns ----

  #check() {
    if (this.#closing !== null) throw interfaceError('the connection is closed', '08003')
    if (this.#keeper !== null) throw interfaceError(`${this.#keeper} of this connection is open`, '55000')
  }

  /** Waits for the turn. */
  async #turn(signal) {
    this.#check()
    signal?.throwIfAborted()
    if (!this.#isTaken) {
      this.#isTaken = true
      return
    }
    await new Promise((resolve, reject) => {
      const waiting = { resolve, reject }
      this.#queue.push(waiting)
      if (signal === undefined || signal === null) return
      const stop = () => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', stop, { once: true })
      waiting.resolve = () => {
        signal.removeEventListener('abort', stop)
        resolve()
      }
    })
  }

  /** Gives the turn to the next one. */
  #leave() {
    this.#keeper = null
    const next = this.#queue.shift()
    if (next !== undefined) next.resolve()
    else this.#isTaken = false
    // Notifications that have arrived meanwhile wait for the end of a transaction.
    if (this.#isTold && this.state === 'I' && this.#closing === null) this.#hear()
  }

  /** Runs a function that has the turn. */
  async #inTurn(run, signal) {
    await this.#turn(signal)
    try {
      return await this.#until(run(), signal)
    } finally {
      this.#leave()
    }
  }

  /** Awaits what runs, and cancels it when the signal says so. */
  async #until(running, signal) {
    if (signal === undefined || signal === null) return running
    let timer
    const cancel = () => {
      this.cancel()
      timer = setInterval(() => this.cancel(), CANCEL_MS)
    }
    signal.addEventListener('abort', cancel, { once: true })
    if (signal.aborted) cancel()
    try {
      return await running
    } catch (error) {
      throw signal.aborted && error.code === '57014' ? signal.reason : error
    } finally {
      clearInterval(timer)
      signal.removeEventListener('abort', cancel)
    }
  }

  /** Calls the native connection; gives its answer. */
  async #ask(method, ...args) {
    let json
    try {
      json = await call(this.#native, method, ...args)
    } catch (error) {
      this.state = '?'
      // The native module tells errors without the calls that have led to them.
      Error.captureStackTrace(error)
      throw error
    }
    if (typeof json !== 'string') return json
    const answer = JSON.parse(json)
    if (answer.state !== undefined) this.state = answer.state
    if (answer.notices !== undefined) for (const notice of answer.notices) this.emit('notice', errorOf(notice))
    return answer
  }

  /** Ends the running statement with the error 57014. */
  cancel() {
    this.#native.cancel()
  }

  // ---- statements ----

  /** Runs a statement; gives `{ reader, rows, tag }`, or an array of them of a text with several. */
  run(sql, params, makeReader, { signal, several = false } = {}) {
    // Errors of parameters are told before anything is waited for.
    const values = params.map(toParam)
    return this.#inTurn(async () => {
      let reader = makeReader()
      let answer = await this.#ask('query', sql, values, reader.form, PIECE_BYTES, several)
      if (answer.results !== undefined) {
        return answer.results.map((each) => {
          reader = makeReader()
          return this.#ended(reader, reader.rowsOf(each), each.tag)
        })
      }
      let rows = reader.rowsOf(answer)
      let next = null
      try {
        while (answer.tag === undefined) {
          // The next rows are computed while these are converted.
          answer = await this.#ask('next', PIECE_BYTES)
          next = answer.tag === undefined ? this.#ask('next', PIECE_BYTES) : null
          rows = append(rows, reader.rowsOf(answer))
          while (next !== null) {
            answer = await next
            next = answer.tag === undefined ? this.#ask('next', PIECE_BYTES) : null
            rows = append(rows, reader.rowsOf(answer))
          }
        }
      } catch (error) {
        await next?.catch(() => {})
        await this.#ask('stop').catch(() => {})
        throw error
      }
      return this.#ended(reader, rows, answer.tag)
    }, signal)
  }

  #ended(reader, rows, tag) {
    if (tag === 'LISTEN' || tag === 'UNLISTEN') this.#isTold = true
    return { reader, rows, tag }
  }

  /** The rows as they come: pieces of them. Nothing is computed ahead of what is asked for. */
  async *pieces(sql, params, reader, signal) {
    const values = params.map(toParam)
    await this.#turn(signal)
    this.#keeper = 'a stream of rows'
    let answer
    try {
      answer = await this.#until(this.#ask('query', sql, values, reader.form, PIECE_BYTES, false), signal)
      while (answer.tag === undefined) {
        yield reader.rowsOf(answer)
        signal?.throwIfAborted()
        answer = await this.#until(this.#ask('next', PIECE_BYTES), signal)
      }
    } finally {
      if (answer?.tag === undefined && this.#closing === null) await this.#ask('stop').catch(() => {})
      this.#leave()
    }
    // The connection is free while the last ones are looked at.
    yield reader.rowsOf(answer)
  }

  /** What is known of a statement before it runs: columns, and numbers of its parameters' types. */
  prepare(sql, signal) {
    return this.#inTurn(() => this.#ask('prepare', sql), signal)
  }

  /** Runs a statement for each of many arrays of parameters, in one transaction. */
  many(sql, rows, signal) {
    return this.#inTurn(async () => {
      const isOwn = this.state === 'I'
      if (isOwn) await this.#ask('query', 'BEGIN', [], FORMS.array, PIECE_BYTES, false)
      let affected = 0
      try {
        let [values, width] = [[], 0]
        const send = async () => {
          if (values.length > 0) affected += (await this.#ask('many', sql, values, width)).affected
          values = []
          signal?.throwIfAborted()
        }
        for await (const row of rows) {
          if (values.length > 0 && row.length !== width) await send()
          width = row.length
          if (width === 0) throw interfaceError('executeMany is for statements with parameters', '42601')
          for (const value of row) values.push(toParam(value))
          if (values.length >= MANY_VALUES) await send()
        }
        await send()
        if (isOwn) await this.#ask('query', 'COMMIT', [], FORMS.array, PIECE_BYTES, false)
      } catch (error) {
        if (isOwn) await this.#ask('query', 'ROLLBACK', [], FORMS.array, PIECE_BYTES, false).catch(() => {})
        throw error
      }
      return affected
    }, signal)
  }

  // ---- COPY ----

  /** A stream whose data become rows. `rowCount` is how many, at its end. */
  copyFrom(sql) {
    const session = this
    let [hasTurn, isOpen] = [false, false]
    const leave = () => {
      if (hasTurn) session.#leave()
    }
    const done = (promise, callback) => promise.then((value) => callback(null, value), callback)
    const stream = new Writable({
      highWaterMark: PIECE_BYTES,
      construct(callback) {
        done(begin(), callback)
      },
      write(chunk, _encoding, callback) {
        done(session.#ask('copySend', chunk).catch(failed), (error) => callback(error))
      },
      writev(chunks, callback) {
        const data = Buffer.concat(chunks.map(({ chunk }) => chunk))
        done(session.#ask('copySend', data).catch(failed), (error) => callback(error))
      },
      final(callback) {
        done(finish(), callback)
      },
      destroy(error, callback) {
        const cancel = isOpen ? session.#ask('copyCancel') : Promise.resolve()
        isOpen = false
        done(cancel.catch(() => {}).then(leave), () => callback(error))
      },
    })
    stream.rowCount = null
    const failed = (error) => {
      // The engine has ended it.
      isOpen = false
      throw error
    }
    async function begin() {
      await session.#turn()
      hasTurn = true
      session.#keeper = 'a COPY'
      await session.#ask('copy', sql, true)
      isOpen = true
    }
    async function finish() {
      stream.rowCount = (await session.#ask('copyEnd').catch(failed)).affected
      isOpen = false
    }
    return stream
  }

  /** A stream of the data of a COPY … TO STDOUT. */
  copyTo(sql) {
    const session = this
    let [hasTurn, isOpen] = [false, false]
    const done = (promise, callback) => promise.then((value) => callback(null, value), callback)
    async function begin() {
      await session.#turn()
      hasTurn = true
      session.#keeper = 'a COPY'
      await session.#ask('copy', sql, false)
      isOpen = true
    }
    return new Readable({
      highWaterMark: PIECE_BYTES,
      construct(callback) {
        done(begin(), callback)
      },
      read() {
        session.#ask('copyNext', PIECE_BYTES).then(
          (bytes) => {
            if (bytes === undefined) isOpen = false
            this.push(bytes ?? null)
          },
          (error) => {
            isOpen = false
            this.destroy(error)
          }
        )
      },
      destroy(error, callback) {
        const cancel = isOpen ? session.#ask('copyCancel') : Promise.resolve()
        isOpen = false
        const leave = () => {
          if (hasTurn) session.#leave()
        }
        done(cancel.catch(() => {}).then(leave), () => callback(error))
      },
    })
  }

  // ---- what others say ----

  /** Takes the notifications that have arrived, and looks whether any are waited for. */
  #hear() {
    this.#isTold = false
    const heard = async () => {
      if (this.#hearing === 0) {
        this.#hearing = listen(() => {
          this.#isTold = true
          // A transaction, or a stream, is waited for.
          if (this.#keeper === null && this.#closing === null) this.#hear()
        })
        await this.#ask('onNotification', this.#hearing)
      }
      const told = await this.#ask('notifications')
      const channels = await this.#ask('query', 'SELECT count(*)::int FROM pg_listening_channels()', [], FORMS.array, PIECE_BYTES, false)
      this.#stayFor(channels.rows[0][0] > 0)
      return told
    }
    const laterIfBusy = () => {
      this.#isTold = true
      return []
    }
    this.#inTurn(async () => (this.state === 'I' ? heard() : laterIfBusy())).then(
      (told) => {
        for (const [processId, channel, payload] of told) this.emit('notification', { processId, channel, payload, length: 0, name: 'notification' })
      },
      // The connection was closed, or is lost: the next call says so.
      () => this.#stayFor(false)
    )
  }

  #stays = false

  /** Keeps the process alive as long as something is listened to. */
  #stayFor(isListening) {
    const stays = isListening && this.#closing === null
    if (stays === this.#stays) return
    this.#stays = stays
    if (stays) keepAlive()
    else letGo()
  }

  /** Ends the session behind what runs; an open transaction is rolled back. */
  close() {
    if (this.#closing === null) {
      this.#closing = call(this.#native, 'close').then(() => void this.emit('end'))
      for (const { reject } of this.#queue.splice(0)) reject(interfaceError('the connection is closed', '08003'))
      this.#stayFor(false)
      if (this.#hearing !== 0) unlisten(this.#hearing)
    }
    return this.#closing
  }
}

function append(rows, more) {
  if (rows.length === 0) return more
  for (const row of more) rows.push(row)
  return rows
}

module.exports = { Session, Reader, ofTag }
