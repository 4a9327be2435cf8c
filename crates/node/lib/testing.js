'use strict'

// For tests: a database of its own for each, with what one of them has made.

const { mkdtemp, cp, rm } = require('node:fs/promises')
const { tmpdir } = require('node:os')
const path = require('node:path')
const { open } = require('..')

/**
 * A function that gives each test a database for SQL. `make(database)` fills the first one, once; a
 * test gets a copy of it, which is closed and removed after the test. Copies are not durable, and so
 * fast.
 */
function template(make, options = {}) {
  let made
  async function fill() {
    const dir = await mkdtemp(path.join(tmpdir(), 'colibri-template-'))
    process.once('exit', () => require('node:fs').rmSync(dir, { recursive: true, force: true }))
    const database = await open(path.join(dir, 'db'), { durability: 'nosync' })
    try {
      await make(database)
    } finally {
      await database.close()
    }
    return path.join(dir, 'db')
  }
  return async (t) => {
    made ??= fill()
    const from = await made
    const dir = await mkdtemp(path.join(tmpdir(), 'colibri-test-'))
    await cp(from, path.join(dir, 'db'), { recursive: true })
    const database = await open(path.join(dir, 'db'), { durability: 'nosync', ...options })
    t.after(async () => {
      await database.close()
      await rm(dir, { recursive: true, force: true })
    })
    return database
  }
}

let branchCount = 0

/** A branch of a database of keys and values for a test, which is dropped after it. */
async function branchFor(t, database) {
  const name = `test ${process.pid} ${++branchCount}`
  const branch = await database.branch(name)
  t.after(async () => {
    await branch.close()
    await database.dropBranch(name)
  })
  return branch
}

module.exports = { template, branchFor }
