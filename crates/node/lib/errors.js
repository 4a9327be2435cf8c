'use strict'

// Errors, with the names that node-postgres gives their parts.

/** An error of the database. `code` is PostgreSQL's SQLSTATE. */
class DatabaseError extends Error {
  constructor(message) {
    super(message)
    this.name = 'DatabaseError'
  }

  /** Whether running the transaction once more may succeed: a conflict with others. */
  get isRetryable() {
    return this.code === '40001' || this.code === '40P01'
  }
}

/** An error of the native module's report. */
function errorOf({ message, ...parts }) {
  const error = new DatabaseError(message)
  // Messages are told without a stack of this thread's.
  return Object.assign(error, parts)
}

/** An error of this interface's rules: what was closed, or is used by another. */
function interfaceError(message, code = 'HY010') {
  return errorOf({ severity: 'ERROR', code, message })
}

module.exports = { DatabaseError, errorOf, interfaceError }
