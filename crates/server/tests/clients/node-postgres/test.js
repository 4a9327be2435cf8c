// What programs do with node-postgres: pools, parameters, named statements, transactions, COPY, errors.
"use strict";
const assert = require("node:assert");
const { Client, Pool } = require("pg");
const copy = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

async function main() {
  const pool = new Pool({ max: 5 });
  await pool.query("CREATE TABLE t (id int PRIMARY KEY, s text, at timestamptz, ok boolean, x float8, b bytea)");
  const at = new Date(Date.UTC(2024, 1, 29, 12));
  await pool.query("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)", [1, "ä", at, true, 1.5, Buffer.from([0, 255])]);
  const { rows, fields } = await pool.query("SELECT * FROM t WHERE id = $1", [1]);
  assert.deepStrictEqual(rows, [{ id: 1, s: "ä", at, ok: true, x: 1.5, b: Buffer.from([0, 255]) }]);
  assert.deepStrictEqual(fields.map(field => field.dataTypeID), [23, 25, 1184, 16, 701, 17]);
  for (let n = 0; n < 5; n++) {
    const named = await pool.query({ name: "by-id", text: "SELECT s FROM t WHERE id = $1", values: [1], rowMode: "array" });
    assert.deepStrictEqual(named.rows, [["ä"]]);
  }
  const sums = await Promise.all([...Array(40).keys()].map(n => pool.query("SELECT $1::int * 2 AS n", [n])));
  assert.deepStrictEqual(sums.map(result => result.rows[0].n), [...Array(40).keys()].map(n => n * 2));

  const client = await pool.connect();
  const told = [];
  client.on("notice", notice => told.push(notice.code));
  await client.query("BEGIN");
  await client.query("INSERT INTO t (id) VALUES (2)");
  await assert.rejects(client.query("INSERT INTO t (id) VALUES (1)"), { code: "23505", table: "t", constraint: "t_pkey" });
  await assert.rejects(client.query("SELECT 1"), { code: "25P02" });
  await client.query("ROLLBACK");
  await client.query("ROLLBACK");
  assert.deepStrictEqual(told, ["25P01"]);
  const several = await client.query("SELECT 1 AS a; SELECT 2 AS b");
  assert.deepStrictEqual(several.map(result => result.rows[0]), [{ a: 1 }, { b: 2 }]);
  await pipeline(Readable.from(["10\tten\n", "11\televen\n"]), client.query(copy.from("COPY t (id, s) FROM STDIN")));
  let text = "";
  for await (const piece of client.query(copy.to("COPY (SELECT id, s FROM t WHERE id >= 10 ORDER BY id) TO STDOUT"))) text += piece;
  assert.strictEqual(text, "10\tten\n11\televen\n");
  client.release();
  await assert.rejects(pool.query("SELECT $1::int", ["x"]), { code: "22P02" });
  await assert.rejects(new Client({ database: "nope" }).connect(), { code: "3D000" });
  await pool.end();
  console.log("ok");
}
main().catch(error => { console.error(error); process.exit(1); });
