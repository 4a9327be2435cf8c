import { EventEmitter } from 'node:events'
import { DatabaseError, Notification } from './index'

export { DatabaseError }

export interface ClientConfig {
  /** The directory of the database; `database` and `connectionString` (`colibri:birds`) may name it as well. */
  path?: string
  database?: string
  connectionString?: string
  user?: string
  durability?: 'sync' | 'lazy' | 'nosync'
  create?: boolean
  types?: CustomTypes
  [ignored: string]: unknown
}

export interface PoolConfig extends ClientConfig {
  /** How many clients at most. Default: 10. */
  max?: number
  connectionTimeoutMillis?: number
  onConnect?: (client: Client) => void | Promise<void>
}

export type TypeParser = (text: string) => any

export interface CustomTypes {
  getTypeParser(oid: number, format?: 'text' | 'binary'): TypeParser
}

export interface QueryConfig {
  text: string
  values?: readonly any[]
  name?: string
  rowMode?: 'array'
  types?: CustomTypes
}

export interface FieldDef {
  name: string
  tableID: number
  columnID: number
  dataTypeID: number
  dataTypeSize: number
  dataTypeModifier: number
  format: string
}

export interface QueryResult<Row = any> {
  command: string
  rowCount: number | null
  oid: number | null
  rows: Row[]
  fields: FieldDef[]
}

export interface Submittable {
  submit(connection: any): void
}

type Callback<T> = (error: Error | null | undefined, value: T) => void

interface Queryable {
  query<T extends Submittable>(submittable: T): T
  query<Row = any>(query: string | QueryConfig, values?: readonly any[]): Promise<QueryResult<Row>>
  query<Row = any>(query: string | QueryConfig, callback: Callback<QueryResult<Row>>): void
  query<Row = any>(query: string | QueryConfig, values: readonly any[], callback: Callback<QueryResult<Row>>): void
}

export interface Client extends Queryable {}
export class Client extends EventEmitter {
  constructor(config?: string | ClientConfig)
  readonly processID: number
  readonly database: string
  readonly user: string
  connect(): Promise<Client>
  connect(callback: Callback<Client>): void
  end(): Promise<void>
  end(callback: Callback<void>): void
  setTypeParser(oid: number, parser: TypeParser): void
  getTypeParser(oid: number, format?: string): TypeParser
  escapeIdentifier(name: string): string
  escapeLiteral(text: string): string
  on(event: 'notification', listener: (notification: Notification) => void): this
  on(event: 'notice', listener: (notice: DatabaseError) => void): this
  on(event: string, listener: (...args: any[]) => void): this
}

export interface PoolClient extends Client {
  release(error?: Error | boolean): void
}

export interface Pool {
  query<Row = any>(query: string | QueryConfig, values?: readonly any[]): Promise<QueryResult<Row>>
  query<Row = any>(query: string | QueryConfig, callback: Callback<QueryResult<Row>>): void
  query<Row = any>(query: string | QueryConfig, values: readonly any[], callback: Callback<QueryResult<Row>>): void
}
export class Pool extends EventEmitter {
  constructor(config?: string | PoolConfig)
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
  readonly ending: boolean
  readonly ended: boolean
  readonly options: PoolConfig
  connect(): Promise<PoolClient>
  connect(callback: (error: Error | undefined, client: PoolClient | undefined, release: (error?: Error | boolean) => void) => void): void
  end(): Promise<void>
  end(callback: Callback<void>): void
}

export const types: CustomTypes & {
  builtins: Record<string, number>
  setTypeParser(oid: number, parser: TypeParser): void
  setTypeParser(oid: number, format: 'text' | 'binary', parser: TypeParser): void
}
export const defaults: Record<string, any>
export function escapeIdentifier(name: string): string
export function escapeLiteral(text: string): string
