'use strict'

// Values between SQL and JavaScript.
//
// `toParam` makes a parameter: null, a string as the type's input takes it, or a Buffer.
// `converterOf` gives what makes a value of JavaScript of what crates/node/src/rows.rs has written.
// `lib/types.js` reads the texts that node-postgres's interface gets.

const { interfaceError } = require('./errors')

const INT8 = 20

/** A length of time, with the names that postgres-interval has. */
class Interval {
  constructor(parts) {
    Object.assign(this, parts)
  }

  /** Of months, days and microseconds. */
  static of(months, days, seconds, micros) {
    const parts = {}
    const set = (name, value) => {
      if (value !== 0) parts[name] = value
    }
    set('years', Math.trunc(months / 12))
    set('months', months % 12)
    set('days', days)
    set('hours', Math.trunc(seconds / 3600))
    set('minutes', Math.trunc(seconds / 60) % 60)
    set('seconds', seconds % 60)
    set('milliseconds', micros / 1000)
    return new Interval(parts)
  }

  /** As PostgreSQL takes it. */
  toPostgres() {
    const units = ['years', 'months', 'days', 'hours', 'minutes']
    const parts = units.filter((unit) => this[unit]).map((unit) => `${this[unit]} ${unit}`)
    const micros = Math.round((this.seconds ?? 0) * 1e6 + (this.milliseconds ?? 0) * 1e3)
    if (micros !== 0 || parts.length === 0) {
      const [whole, rest] = [Math.trunc(Math.abs(micros) / 1e6), Math.abs(micros) % 1e6]
      parts.push(`${micros < 0 ? '-' : ''}${whole}${rest ? `.${String(rest).padStart(6, '0')}` : ''} seconds`)
    }
    return parts.join(' ')
  }

  toString() {
    return this.toPostgres()
  }
}

// ---- parameters ----

const two = (number) => String(number).padStart(2, '0')

/** A moment as local time with its distance from UTC, so that it fits both kinds of timestamps. */
function dateToText(date) {
  if (Number.isNaN(date.getTime())) throw interfaceError('an invalid Date is no parameter', '22007')
  const minutes = -date.getTimezoneOffset()
  const away = Math.abs(minutes)
  let year = date.getFullYear()
  const isBefore = year < 1
  if (isBefore) year = 1 - year
  const day = `${String(year).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  const zone = `${minutes < 0 ? '-' : '+'}${two(Math.trunc(away / 60))}:${two(away % 60)}`
  return `${day}T${time}.${String(date.getMilliseconds()).padStart(3, '0')}${zone}${isBefore ? ' BC' : ''}`
}

/** An array as PostgreSQL writes it. */
function arrayToText(values) {
  const element = (value) => {
    if (value === null || value === undefined) return 'NULL'
    if (Array.isArray(value)) return arrayToText(value)
    const param = toParam(value)
    const text = Buffer.isBuffer(param) ? `\\x${param.toString('hex')}` : param
    return `"${text.replace(/[\\"]/g, '\\$&')}"`
  }
  return `{${values.map(element).join(',')}}`
}

/** A value as a parameter. */
function toParam(value) {
  switch (typeof value) {
    case 'string':
      // Half of a surrogate pair is no text, and would become another.
      if (!value.isWellFormed?.() && /[\ud800-\udfff]/u.test(value)) {
        throw interfaceError('a string has half of a surrogate pair', '22021')
      }
      return value
    case 'number':
    case 'bigint':
      return String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'undefined':
      return null
    case 'object':
      break
    default:
      throw interfaceError(`a ${typeof value} is no parameter of a statement`, '42804')
  }
  if (value === null || Buffer.isBuffer(value)) return value
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof ArrayBuffer) return Buffer.from(value)
  if (value instanceof Date) return dateToText(value)
  if (Array.isArray(value)) return arrayToText(value)
  if (typeof value.toPostgres === 'function') return toParam(value.toPostgres(toParam))
  return toParam(JSON.stringify(value))
}

// ---- columns ----

function bigintConverter(as) {
  switch (as) {
    case 'bigint':
      return BigInt
    case 'string':
      return null
    case 'number':
      return (text) => {
        const number = Number(text)
        if (!Number.isSafeInteger(number)) {
          throw interfaceError(`the bigint ${text} is no number of JavaScript without loss`, '22003')
        }
        return number
      }
    default:
      throw interfaceError(`the option bigint is "bigint", "number" or "string", not ${JSON.stringify(as)}`)
  }
}

/** A time without a zone is one of the local zone, as node-postgres has it. */
function localDate(ms) {
  if (typeof ms === 'string') return Number(ms)
  const utc = new Date(ms)
  const local = new Date(
    utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate(),
    utc.getUTCHours(), utc.getUTCMinutes(), utc.getUTCSeconds(), utc.getUTCMilliseconds()
  )
  // The constructor takes years below 100 as those of the last century.
  if (utc.getUTCFullYear() < 100 && utc.getUTCFullYear() >= 0) local.setFullYear(utc.getUTCFullYear())
  return local
}

const float = (value) => (typeof value === 'string' ? Number(value) : value)
const bytes = (hex) => Buffer.from(hex, 'hex')
const moment = (ms) => (typeof ms === 'string' ? Number(ms) : new Date(ms))
const interval = ([months, days, seconds, micros]) => Interval.of(months, days, seconds, micros)

/** By the numbers of types; those that are not here are as JSON has them. */
const CONVERTERS = new Map([
  [700, float], [701, float], [17, bytes], [1114, localDate], [1184, moment], [1186, interval],
])
/** Types of arrays, and of their elements. */
const ELEMENTS = new Map([
  [1016, INT8], [1021, 700], [1022, 701], [1001, 17], [1115, 1114], [1185, 1184], [1187, 1186],
])

/** A converter of arrays: those of intervals have intervals as their innermost arrays. */
function arrayConverter(convert, isLeaf) {
  const each = (value) => (value === null ? null : isLeaf(value) ? convert(value) : value.map(each))
  return (values) => values.map(each)
}

/** What makes a value of JavaScript of one of a type; null if it is one already. */
function converterOf(oid, options) {
  if (oid === INT8) return bigintConverter(options.bigint)
  const convert = CONVERTERS.get(oid)
  if (convert !== undefined) return convert
  const element = ELEMENTS.get(oid)
  if (element === undefined) return null
  const ofElement = converterOf(element, options)
  if (ofElement === null) return null
  const isLeaf = element === 1186 ? (value) => !Array.isArray(value) || typeof value[0] === 'number' : (value) => !Array.isArray(value)
  return arrayConverter(ofElement, isLeaf)
}

module.exports = { toParam, converterOf, Interval, dateToText, localDate }
