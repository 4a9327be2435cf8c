// What programs do with postgres.js in their first minutes: types, errors and what follows them, transactions, cursors, COPY.
"use strict";
const assert = require("node:assert");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const postgres = require("postgres");

// A server that keeps an error back until it is asked for more hangs here.
const soon = promise => Promise.race([promise, new Promise((_, no) => setTimeout(() => no(new Error("no answer")), 10000).unref())]);

async function main() {
  const told = [];
  const sql = postgres({ max: 4, onnotice: notice => told.push(notice.code) });
  await sql`CREATE TABLE t (id int PRIMARY KEY, s text, tags text[], ns int[], at timestamptz)`;
  const at = new Date(Date.UTC(2024, 1, 29, 12));
  await sql`INSERT INTO t ${sql({ id: 1, s: "ä", tags: ["a", "b,c"], ns: [1, 2], at })}`;
  assert.deepStrictEqual([...(await sql`SELECT * FROM t`)], [{ id: 1, s: "ä", tags: ["a", "b,c"], ns: [1, 2], at }]);
  for (let n = 0; n < 3; n++) {
    await assert.rejects(soon(sql`SELEC 1`), { code: "42601" });
    await assert.rejects(soon(sql`SELECT nope FROM t`), { code: "42703" });
    await assert.rejects(soon(sql`SELECT 1 / ${0}::int`), { code: "22012" });
    await assert.rejects(soon(sql`INSERT INTO t (id) VALUES (${1})`), { code: "23505", constraint_name: "t_pkey" });
    await assert.rejects(soon(sql.unsafe("SELECT 1; SELEC 2")), { code: "42601" });
    assert.strictEqual((await soon(sql`SELECT 7 AS n`))[0].n, 7);
  }
  const inserted = await sql`INSERT INTO t ${sql([...Array(500).keys()].map(n => ({ id: n + 10, s: String(n) })))} RETURNING id`;
  assert.strictEqual(inserted.length, 500);

  const sums = await Promise.all([...Array(40).keys()].map(n => sql`SELECT ${n}::int * 2 AS n`));
  assert.deepStrictEqual(sums.map(rows => rows[0].n), [...Array(40).keys()].map(n => n * 2));

  await assert.rejects(soon(sql.begin(async sql => {
    await sql`DELETE FROM t`;
    await sql.savepoint(sql => sql`SELECT 1/0`).catch(error => assert.strictEqual(error.code, "22012"));
    assert.strictEqual((await sql`SELECT count(*)::int AS n FROM t`)[0].n, 0);
    throw new Error("back");
  })), { message: "back" });
  assert.strictEqual((await sql`SELECT count(*)::int AS n FROM t`)[0].n, 501);

  let seen = 0;
  await sql`SELECT id FROM t ORDER BY id`.cursor(100, rows => { seen += rows.length; });
  assert.strictEqual(seen, 501);
  const described = await sql`SELECT id, s FROM t WHERE id = ${1}`.describe();
  assert.deepStrictEqual(described.types, [23]);
  assert.deepStrictEqual(described.columns.map(column => column.name), ["id", "s"]);

  await pipeline(Readable.from(["7000\tx\n", "7001\ty\n"]), await sql`COPY t (id, s) FROM STDIN`.writable());
  let text = "";
  for await (const piece of await sql`COPY (SELECT id, s FROM t WHERE id >= 7000 ORDER BY id) TO STDOUT`.readable()) text += piece;
  assert.strictEqual(text, "7000\tx\n7001\ty\n");

  await sql`COMMIT`.simple();
  assert.deepStrictEqual(told, ["25P01"]);
  await sql.end();
}

main().then(() => console.log("ok"), error => { console.error(error); process.exit(1); });
