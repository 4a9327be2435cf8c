// node-postgres: types, prepared statements, transactions, notifications, errors, pools.
const { Client, Pool } = require("pg");
const { assert, step, database } = require("./steps.cjs");

(async () => {
  const client = new Client(database);
  const one = async (text, values) => Object.values((await client.query(text, values)).rows[0])[0];
  await step("connect", () => client.connect());
  await step("types", async () => {
    assert.equal(await one("SELECT $1::int", [5]), 5);
    assert.deepEqual(await one("SELECT $1::jsonb", [{ a: [1, null] }]), { a: [1, null] });
    assert.deepEqual(await one("SELECT $1::int[]", [[1, 2]]), [1, 2]);
    assert.deepEqual(await one("SELECT '{{a,b},{c,NULL}}'::text[]"), [["a", "b"], ["c", null]]);
    assert.equal((await one("SELECT timestamptz '2020-01-02 03:04:05.678+00'")).toISOString(), "2020-01-02T03:04:05.678Z");
    assert.equal((await one("SELECT interval '1 day 02:03:04'")).days, 1);
    assert.deepEqual(await one("SELECT $1::bytea", [Buffer.from([0, 255])]), Buffer.from([0, 255]));
    assert.equal(await one("SELECT 12345678901234567890.5::numeric"), "12345678901234567890.5");
  });
  await step("prepared statement", async () => {
    for (const n of [1, 2, 3]) {
      const { rows } = await client.query({ name: "n", text: "SELECT $1::int + 1 AS n", values: [n] });
      assert.equal(rows[0].n, n + 1);
    }
  });
  await step("rows as arrays and several statements", async () => {
    assert.deepEqual((await client.query({ text: "SELECT 1, 2", rowMode: "array" })).rows, [[1, 2]]);
    assert.equal((await client.query("SELECT 1; SELECT 2")).length, 2);
  });
  await step("transaction and savepoint", async () => {
    await client.query("CREATE TABLE items (id serial PRIMARY KEY, name text UNIQUE)");
    await client.query("BEGIN");
    await client.query("INSERT INTO items (name) VALUES ('a')");
    await client.query("SAVEPOINT s");
    await assert.rejects(client.query("INSERT INTO items (name) VALUES ('a')"), { code: "23505", constraint: "items_name_key", table: "items" });
    await client.query("ROLLBACK TO s");
    await client.query("COMMIT");
    assert.equal(await one("SELECT count(*)::int FROM items"), 1);
  });
  await step("error fields", async () => {
    await assert.rejects(client.query("SELECT * FROM missing"), { code: "42P01", severity: "ERROR", position: "15" });
  });
  await step("notification", async () => {
    const other = new Client(database);
    await other.connect();
    await other.query("LISTEN news");
    const told = new Promise((resolve) => other.once("notification", resolve));
    await client.query("SELECT pg_notify('news', 'hello')");
    assert.equal((await told).payload, "hello");
    await other.end();
  });
  await step("cancel", async () => {
    const other = new Client(database);
    await other.connect();
    const slow = other.query("SELECT pg_sleep(20)");
    setTimeout(() => client.query("SELECT pg_cancel_backend($1)", [other.processID]), 200);
    await assert.rejects(slow, { code: "57014" });
    await other.end();
  });
  await step("pool", async () => {
    const pool = new Pool({ ...database, max: 4 });
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => pool.query("SELECT $1::int AS n", [n])));
    assert.equal(answers.reduce((sum, { rows }) => sum + rows[0].n, 0), 780);
    await pool.end();
  });
  await client.end();
})();
