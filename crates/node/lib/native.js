'use strict'

// The native module, and promises of what it does.
//
// A call of the native module gets a number, runs on a thread of the pool, and its end is told to
// this thread's hub with that number. While something is awaited the process stays alive.

const path = require('node:path')
const { errorOf } = require('./errors')

function load() {
  const own = process.env.COLIBRI_NODE_ADDON
  if (own) return require(path.resolve(own))
  const name = `colibri.${process.platform}-${process.arch}.node`
  try {
    return require(path.join(__dirname, '..', name))
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error
    throw new Error(`colibri-db has no native module for ${process.platform} on ${process.arch} (${name}): run "npm run build" in its directory`)
  }
}

const native = load()

/** What is awaited, by its number. */
const awaited = new Map()
/** Functions that are called each time that their number is told. */
const listeners = new Map()
let last = 0

// A timer that never fires keeps the process alive as long as it is referenced.
const keeper = setInterval(() => {}, 2 ** 31 - 1)
keeper.unref()
let keeping = 0

function keepAlive() {
  if (keeping++ === 0) keeper.ref()
}

function letGo() {
  if (--keeping === 0) keeper.unref()
}

const hub = new native.Hub((id, succeeded, json, bytes) => {
  const waiting = awaited.get(id)
  if (waiting === undefined) {
    listeners.get(id)?.()
    return
  }
  awaited.delete(id)
  letGo()
  if (!succeeded) waiting.reject(errorOf(JSON.parse(json)))
  else if (json !== '') waiting.resolve(json)
  else waiting.resolve(bytes ?? undefined)
})

function nextId() {
  do last = (last + 1) >>> 0
  while (awaited.has(last) || listeners.has(last))
  return last
}

/** The promise of what `object[method](hub, id, ...args)` gives: JSON, bytes or nothing. */
function call(object, method, ...args) {
  return new Promise((resolve, reject) => {
    const id = nextId()
    awaited.set(id, { resolve, reject })
    keepAlive()
    try {
      object[method](hub, id, ...args)
    } catch (error) {
      awaited.delete(id)
      letGo()
      reject(error)
    }
  })
}

/** A number that has `listener` called when it is told. */
function listen(listener) {
  const id = nextId()
  listeners.set(id, listener)
  return id
}

function unlisten(id) {
  listeners.delete(id)
}

module.exports = { native, call, listen, unlisten, keepAlive, letGo }
