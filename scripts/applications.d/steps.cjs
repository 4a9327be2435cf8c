// What the scripts of steps share: each step says `ok NAME` or `not ok NAME: why`.
const assert = require("node:assert/strict");

async function step(name, work) {
  let timer;
  const limit = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("took more than 30 s")), 30_000); });
  try {
    await Promise.race([work(), limit]);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}: ${String(error.message).split("\n")[0]} ${error.code ?? error.parent?.code ?? ""}`);
  } finally {
    clearTimeout(timer);
  }
}

const database = {
  host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: process.env.PGDATABASE,
};
const url = `postgres://${database.user}@${database.host}:${database.port}/${database.database}`;

module.exports = { assert, step, database, url };
