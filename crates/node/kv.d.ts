export type Bytes = string | Uint8Array

export interface DatabaseOptions {
  /** What values are. Default: `'string'`. */
  encoding?: 'string' | 'binary' | 'json'
  /** What keys are when they are read. Default: `'string'`. */
  keyEncoding?: 'string' | 'binary'
  /** Whether keys have many values. Default: false. */
  dupSort?: boolean
}

export interface OpenOptions extends DatabaseOptions {
  durability?: 'sync' | 'lazy' | 'nosync'
  create?: boolean
  readOnly?: boolean
  /** The largest size of the file, in bytes. */
  mapSize?: number
}

export interface ReadOptions {
  transaction?: ReadTransaction
}

export interface CountOptions extends ReadOptions {
  /** The first key. */
  start?: Bytes
  /** The key behind the last one. */
  end?: Bytes
}

export interface RangeOptions extends CountOptions {
  /** From `start` down to the key above `end`. */
  reverse?: boolean
  limit?: number
  offset?: number
}

/** Entries that are read as far as they are asked for, each time anew. */
export class RangeIterable<T> implements Iterable<T>, AsyncIterable<T> {
  [Symbol.iterator](): Iterator<T>
  [Symbol.asyncIterator](): AsyncIterator<T>
  map<U>(make: (entry: T) => U): RangeIterable<U>
  filter(isWanted: (entry: T) => boolean): RangeIterable<T>
  readonly asArray: T[]
}

export interface Reading<V = any, K = any> {
  get(key: Bytes, options?: ReadOptions): V | undefined
  getBinary(key: Bytes, options?: ReadOptions): Buffer | undefined
  doesExist(key: Bytes, value?: V, options?: ReadOptions): boolean
  getCount(options?: CountOptions): number
  getRange(options?: RangeOptions): RangeIterable<{ key: K; value: V }>
  getKeys(options?: RangeOptions): RangeIterable<K>
  getValues(key: Bytes, options?: Omit<RangeOptions, 'start' | 'end'>): RangeIterable<V>
}

/** One state, whatever is committed meanwhile. */
export interface ReadTransaction<V = any, K = any> extends Reading<V, K>, Disposable {
  of<V2 = any, K2 = any>(store: Store<V2, K2>): ReadTransaction<V2, K2>
  done(): void
}

/** An open transaction: its calls act at once. */
export interface WriteTransaction<V = any, K = any> extends Reading<V, K> {
  of<V2 = any, K2 = any>(store: Store<V2, K2>): WriteTransaction<V2, K2>
  put(key: Bytes, value: V): void
  insert(key: Bytes, value: V): boolean
  remove(key: Bytes, value?: V): boolean
  removeRange(range?: { start?: Bytes; end?: Bytes }): number
  clear(): void
}

/** A named database. */
export interface Store<V = any, K = any> extends Reading<V, K> {
  getMany(keys: readonly Bytes[]): Promise<(V | undefined)[]>
  prefetch(keys: readonly Bytes[]): Promise<void>
  put(key: Bytes, value: V): Promise<boolean>
  insert(key: Bytes, value: V): Promise<boolean>
  remove(key: Bytes, value?: V): Promise<boolean>
  clearAsync(): Promise<void>
  drop(): Promise<void>
  transaction<T>(run: (transaction: WriteTransaction<V, K>) => T | Promise<T>): Promise<T>
  useReadTransaction(): ReadTransaction<V, K>
}

/** The main database of a file, and the others in it. */
export interface RootDatabase<V = any, K = any> extends Store<V, K>, AsyncDisposable {
  openDB<V2 = any, K2 = any>(name: string, options?: DatabaseOptions): Promise<Store<V2, K2>>
  openDB<V2 = any, K2 = any>(options: DatabaseOptions & { name: string }): Promise<Store<V2, K2>>
  readonly committed: Promise<boolean>
  readonly flushed: Promise<boolean>
  backup(path: string, compact?: boolean): Promise<void>
  branch(name: string): Promise<RootDatabase<V, K>>
  openBranch(name: string): Promise<RootDatabase<V, K>>
  dropBranch(name: string): Promise<void>
  branches(): Promise<string[]>
  close(): Promise<void>
}

/** What a transaction's function gives to have it rolled back. */
export const ABORT: unique symbol
export function open<V = any, K = any>(path: string, options?: OpenOptions): Promise<RootDatabase<V, K>>
