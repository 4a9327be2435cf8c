'use strict'

// What node-postgres's interface makes of the texts of values, by the number of the type: the same
// as pg-types does, so that programs find what they are used to. `setTypeParser` changes it.

const { Interval, localDate } = require('./values')

const builtins = {
  BOOL: 16, BYTEA: 17, CHAR: 18, INT8: 20, INT2: 21, INT4: 23, REGPROC: 24, TEXT: 25, OID: 26, TID: 27, XID: 28, CID: 29,
  JSON: 114, XML: 142, CIDR: 650, FLOAT4: 700, FLOAT8: 701, CIRCLE: 718, MACADDR8: 774, MONEY: 790, MACADDR: 829, INET: 869,
  BPCHAR: 1042, VARCHAR: 1043, DATE: 1082, TIME: 1083, TIMESTAMP: 1114, TIMESTAMPTZ: 1184, INTERVAL: 1186, TIMETZ: 1266,
  BIT: 1560, VARBIT: 1562, NUMERIC: 1700, UUID: 2950, TSVECTOR: 3614, TSQUERY: 3615, JSONB: 3802,
}

const asIs = (text) => text
const integer = (text) => parseInt(text, 10)
const boolean = (text) => text === 't' || text === 'true'
const bytes = (text) => (text.startsWith('\\x') ? Buffer.from(text.slice(2), 'hex') : Buffer.from(text, 'latin1'))

const MOMENT = /^(\d{1,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?( BC)?$/

/** Milliseconds since 1970 of a date or a time, as if it were of UTC, less the zone's distance. */
function parseMoment(text) {
  const parts = MOMENT.exec(text)
  if (parts === null) return null
  const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', sign, ...zone] = parts
  const isBefore = parts[12] !== undefined
  const date = new Date(0)
  date.setUTCFullYear(isBefore ? 1 - Number(year) : Number(year), month - 1, day)
  date.setUTCHours(hour, minute, second, Math.trunc(Number(`0.${fraction || 0}`) * 1000))
  if (sign === undefined) return date.getTime()
  const away = (Number(zone[0]) * 3600 + Number(zone[1] ?? 0) * 60 + Number(zone[2] ?? 0)) * 1000
  return date.getTime() - (sign === '-' ? -away : away)
}

function ofMoment(make) {
  return (text) => {
    if (text === 'infinity') return Infinity
    if (text === '-infinity') return -Infinity
    const ms = parseMoment(text)
    // Another DateStyle is not read.
    return ms === null ? null : make(ms)
  }
}

const INTERVAL_UNITS = { year: 'years', mon: 'months', month: 'months', day: 'days' }

function interval(text) {
  const parts = {}
  for (const [, number, unit] of text.matchAll(/([+-]?\d+) (year|month|mon|day)s?/g)) {
    if (Number(number) !== 0) parts[INTERVAL_UNITS[unit]] = Number(number)
  }
  const time = /([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?/.exec(text)
  if (time !== null) {
    const sign = time[1] === '-' ? -1 : 1
    const [hours, minutes, seconds] = [time[2], time[3], time[4]].map(Number)
    const milliseconds = time[5] === undefined ? 0 : Number(`0.${time[5]}`) * 1000
    for (const [name, value] of Object.entries({ hours, minutes, seconds, milliseconds })) {
      if (value !== 0) parts[name] = sign * value
    }
  }
  return new Interval(parts)
}

function point(text) {
  const [x, y] = text.slice(1, -1).split(',').map(Number)
  return { x, y }
}

function circle(text) {
  const parts = /^<\(([^,]+),([^)]+)\),([^>]+)>$/.exec(text)
  return parts && { x: Number(parts[1]), y: Number(parts[2]), radius: Number(parts[3]) }
}

/** Reads an array as PostgreSQL writes it; `make` is called with the text of each element. */
function parseArray(text, make) {
  // Bounds that do not begin with 1 are written before it.
  let at = text.indexOf('{')
  const read = () => {
    const values = []
    at++
    if (text[at] === '}') {
      at++
      return values
    }
    for (;;) {
      if (text[at] === '{') {
        values.push(read())
      } else if (text[at] === '"') {
        let value = ''
        at++
        while (text[at] !== '"') {
          if (text[at] === '\\') at++
          value += text[at++]
        }
        at++
        values.push(make(value))
      } else {
        let end = at
        while (text[end] !== ',' && text[end] !== '}') end++
        const value = text.slice(at, end)
        at = end
        values.push(value === 'NULL' ? null : make(value))
      }
      if (text[at++] === '}') return values
    }
  }
  return read()
}

const arrayOf = (make) => (text) => parseArray(text, make)

const local = ofMoment(localDate)
const absolute = ofMoment((ms) => new Date(ms))

const DEFAULTS = new Map([
  [16, boolean], [17, bytes], [21, integer], [23, integer], [26, integer], [700, parseFloat], [701, parseFloat],
  [114, JSON.parse], [3802, JSON.parse], [600, point], [718, circle],
  [1082, local], [1114, local], [1184, absolute], [1186, interval],
])
for (const [array, make] of [
  [1000, boolean], [1001, bytes], [1005, integer], [1007, integer], [1028, integer], [1021, parseFloat], [1022, parseFloat],
  [1231, parseFloat], [1016, asIs], [199, JSON.parse], [3807, JSON.parse], [1017, point], [1115, local], [1182, local],
  [1185, absolute], [1187, interval],
  // char, varchar, text, name, regproc, xml, cidr, inet, macaddr, money, time, timetz, uuid, bit and ranges as texts
  ...[1002, 1003, 1008, 1009, 1014, 1015, 143, 651, 1041, 1040, 791, 1183, 1270, 2951, 1561, 1563].map((oid) => [oid, asIs]),
  ...[3905, 3907, 3909, 3911, 3913, 3927].map((oid) => [oid, asIs]),
]) {
  DEFAULTS.set(array, arrayOf(make))
}

/** Parsers that may be changed, over those of another. */
class Types {
  #over
  #parsers = new Map()

  constructor(over) {
    this.#over = over
    this.builtins = builtins
  }

  setTypeParser(oid, format, parse) {
    if (typeof format === 'function') parse = format
    else if (format === 'binary') return
    this.#parsers.set(Number(oid), parse)
  }

  getTypeParser(oid, format) {
    const own = this.#parsers.get(Number(oid))
    if (own !== undefined) return own
    if (this.#over !== undefined) return this.#over.getTypeParser(oid, format)
    return DEFAULTS.get(Number(oid)) ?? asIs
  }
}

/** Those of the whole program. */
const types = new Types()
types.arrayParser = { create: (text, make = asIs) => ({ parse: () => parseArray(text, make) }) }

module.exports = { types, Types, parseArray }
