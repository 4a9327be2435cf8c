// A fresh database for each test, on a server with `--ephemeral model`.
const { test, before, beforeEach, afterEach } = require("node:test");
const assert = require("node:assert");
const { randomUUID } = require("node:crypto");
const { Client } = require("pg");

async function connect(database) {
  const client = new Client({ database });
  await client.connect();
  return client;
}

// The database that each test begins with. Migrations go here.
before(async () => {
  const server = await connect("postgres");
  await server.query("CREATE DATABASE model");
  await server.end();
  const schema = await connect("model");
  await schema.query("CREATE TABLE birds (name text PRIMARY KEY, beats int NOT NULL)");
  await schema.query("INSERT INTO birds VALUES ('colibri', 80)");
  await schema.end();
});

let db;

beforeEach(async () => {
  db = await connect(`test_${randomUUID()}`);
});

// The database goes with the connection.
afterEach(() => db.end());

for (let round = 0; round < 20; round++) {
  test(`each begins anew, ${round}`, async () => {
    const found = await db.query("SELECT count(*)::int AS count FROM birds");
    assert.strictEqual(found.rows[0].count, 1);
    await db.query("INSERT INTO birds VALUES ('swift', 8)");
    await db.query("CREATE TABLE mine (a int)");
  });
}
