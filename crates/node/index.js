'use strict'

const { Database, Connection, Statement, copyRow, identifier } = require('./lib/database')
const { DatabaseError } = require('./lib/errors')
const { Interval } = require('./lib/values')

/** Opens a directory, and makes a database there if there is none. */
function open(path, options) {
  return Database.open(path, options)
}

module.exports = { open, Database, Connection, Statement, DatabaseError, Interval, copyRow, identifier }
