import { Database, OpenOptions } from './index'
import { RootDatabase } from './kv'

/** What is needed of a test's context: that of node:test has it. */
export interface TestContext {
  after(run: () => Promise<void> | void): void
}

/** Gives each test a copy of the database that `make` has filled, once. */
export function template(
  make: (database: Database) => unknown,
  options?: OpenOptions
): (t: TestContext) => Promise<Database>

/** A branch of a database of keys and values for a test, which is dropped after it. */
export function branchFor<V, K>(t: TestContext, database: RootDatabase<V, K>): Promise<RootDatabase<V, K>>
