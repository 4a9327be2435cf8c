import { EventEmitter } from 'node:events'
import { Readable, Writable } from 'node:stream'

export interface OpenOptions {
  /** When a commit returns: when it is on disk, or at once. Default: `'sync'`. */
  durability?: 'sync' | 'lazy' | 'nosync'
  /** Whether a database is made if there is none. Default: true. */
  create?: boolean
  /** The user of connections. Default: `'colibri'`. */
  user?: string
  /** What `bigint` becomes. Default: `'bigint'`. */
  bigint?: 'bigint' | 'number' | 'string'
  /** How many connections the calls of a database use at most. Default: 8. */
  connectionsMax?: number
}

export interface RunOptions {
  /** Ends the statement, whose promise is rejected with the signal's reason then. */
  signal?: AbortSignal | null
}

export interface QueryOptions extends RunOptions {
  rowMode?: 'object' | 'array'
  bigint?: 'bigint' | 'number' | 'string'
}

export interface TransactionOptions extends RunOptions {
  isolation?: 'serializable' | 'repeatable read' | 'read committed'
  readOnly?: boolean
  /** How often the function runs at most, if it has conflicts with others. Default: 10. */
  attempts?: number
}

export interface Field {
  name: string
  /** PostgreSQL's number of the type. */
  dataTypeID: number
  /** The type, as SQL writes it. */
  type: string
}

export interface Result<Row = any> {
  rows: Row[]
  fields: Field[]
  /** The first word of PostgreSQL's command tag: `'SELECT'`. */
  command: string
  /** Rows inserted, changed, deleted or returned; null for commands that have none. */
  rowCount: number | null
}

export interface Notification {
  channel: string
  payload: string
  processId: number
}

/** Values of SQL: see docs/NODE.md for which type becomes which. */
export type Parameter = unknown

type Rows = Iterable<Parameter[]> | AsyncIterable<Parameter[]>

interface Statements {
  query<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): Promise<Result<Row>>
  script(sql: string, options?: QueryOptions): Promise<Result[]>
  stream<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): AsyncGenerator<Row, void, void>
  executeMany(sql: string, rows: Rows, options?: RunOptions): Promise<number>
  transaction<T>(run: (connection: Connection) => T | Promise<T>, options?: TransactionOptions): Promise<T>
  close(): Promise<void>
}

/** A stream whose data become rows. */
export interface CopyFrom extends Writable {
  /** How many rows, at its end. */
  rowCount: number | null
}

/** An open database, with connections for its own calls. */
export class Database implements Statements, AsyncDisposable {
  private constructor()
  static open(path: string, options?: OpenOptions): Promise<Database>
  connect(options?: { user?: string }): Promise<Connection>
  query<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): Promise<Result<Row>>
  script(sql: string, options?: QueryOptions): Promise<Result[]>
  stream<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): AsyncGenerator<Row, void, void>
  executeMany(sql: string, rows: Rows, options?: RunOptions): Promise<number>
  transaction<T>(run: (connection: Connection) => T | Promise<T>, options?: TransactionOptions): Promise<T>
  copyFrom(sql: string): Promise<CopyFrom>
  copyTo(sql: string): Promise<Readable>
  /** A connection that listens to channels, and emits 'notification'. */
  listen(...channels: string[]): Promise<Connection>
  backup(file: string): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** A session. Statements of one connection run one after the other. */
export class Connection extends EventEmitter implements Statements, AsyncDisposable {
  private constructor()
  /** What `pg_backend_pid()` gives. */
  readonly number: number
  /** Idle, in a transaction, in one that failed; '?' after an error. */
  readonly state: 'I' | 'T' | 'E' | '?'
  readonly isClosed: boolean
  query<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): Promise<Result<Row>>
  script(sql: string, options?: QueryOptions): Promise<Result[]>
  stream<Row = any>(sql: string, params?: readonly Parameter[], options?: QueryOptions): AsyncGenerator<Row, void, void>
  executeMany(sql: string, rows: Rows, options?: RunOptions): Promise<number>
  transaction<T>(run: (connection: Connection) => T | Promise<T>, options?: TransactionOptions): Promise<T>
  prepare(sql: string, options?: RunOptions): Promise<Statement>
  copyFrom(sql: string): CopyFrom
  copyTo(sql: string): Readable
  listen(channel: string): Promise<void>
  /** Without a channel: to none any more. */
  unlisten(channel?: string): Promise<void>
  /** Ends the running statement with the error 57014. */
  cancel(): void
  rollback(): Promise<void>
  close(): Promise<void>
  on(event: 'notification', listener: (notification: Notification) => void): this
  on(event: 'notice', listener: (notice: DatabaseError) => void): this
  on(event: 'end', listener: () => void): this
  [Symbol.asyncDispose](): Promise<void>
}

/** A prepared statement. */
export class Statement {
  private constructor()
  readonly text: string
  readonly fields: Field[]
  /** PostgreSQL's numbers of the parameters' types. */
  readonly params: number[]
  query<Row = any>(params?: readonly Parameter[], options?: QueryOptions): Promise<Result<Row>>
  stream<Row = any>(params?: readonly Parameter[], options?: QueryOptions): AsyncGenerator<Row, void, void>
  executeMany(rows: Rows, options?: RunOptions): Promise<number>
}

/** An error of the database. */
export class DatabaseError extends Error {
  /** PostgreSQL's SQLSTATE. */
  code: string
  severity: string
  detail?: string
  hint?: string
  /** Where in the statement, in characters from 1. */
  position?: string
  where?: string
  schema?: string
  table?: string
  column?: string
  dataType?: string
  constraint?: string
  /** Whether running the transaction once more may succeed. */
  readonly isRetryable: boolean
}

/** A length of time. Parts that are 0 are not there. */
export class Interval {
  constructor(parts: Partial<Interval>)
  years?: number
  months?: number
  days?: number
  hours?: number
  minutes?: number
  seconds?: number
  milliseconds?: number
  toPostgres(): string
}

/** Opens a directory, and makes a database there if there is none. */
export function open(path: string, options?: OpenOptions): Promise<Database>
/** A row of a COPY in its text format, with the newline. */
export function copyRow(values: readonly Parameter[]): string
/** A name as SQL takes it, in quotes. */
export function identifier(name: string): string
