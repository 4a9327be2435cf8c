// Kysely: migrations, queries, introspection.
const { assert, step, database } = require("./steps.cjs");
const { Kysely, PostgresDialect, Migrator, sql } = require("kysely");
const { Pool } = require("pg");

(async () => {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool(database) }) });
  const migrations = {
    one: {
      up: async (db) => {
        await db.schema.createType("species").asEnum(["cat", "dog"]).execute();
        await db.schema.createTable("person").addColumn("id", "integer", (c) => c.primaryKey().generatedByDefaultAsIdentity())
          .addColumn("name", "varchar(40)", (c) => c.notNull().unique()).addColumn("data", "jsonb").execute();
        await db.schema.createTable("pet").addColumn("id", "serial", (c) => c.primaryKey())
          .addColumn("owner", "integer", (c) => c.references("person.id").onDelete("cascade")).addColumn("species", sql`species`).execute();
        await db.schema.createIndex("pet_owner").on("pet").column("owner").where("species", "=", sql.lit("cat")).execute();
        await db.schema.createView("owners").as(db.selectFrom("person").innerJoin("pet", "pet.owner", "person.id").select(["name", "species"])).execute();
      },
      down: async (db) => {
        await db.schema.dropView("owners").execute();
        await db.schema.dropTable("pet").execute();
        await db.schema.dropTable("person").execute();
        await db.schema.dropType("species").execute();
      },
    },
    two: {
      up: (db) => db.schema.alterTable("person").addColumn("born", "date").alterColumn("data", (c) => c.setDefault(sql`'{}'::jsonb`)).execute(),
      down: (db) => db.schema.alterTable("person").dropColumn("born").execute(),
    },
  };
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const migrate = async (how) => { const { error } = await how; if (error) throw error; };
  await step("migrate up", () => migrate(migrator.migrateToLatest()));
  await step("insert", async () => {
    const person = await db.insertInto("person").values({ name: "x", data: JSON.stringify({ a: [1] }) }).returningAll().executeTakeFirstOrThrow();
    await db.insertInto("pet").values([{ owner: person.id, species: "cat" }, { owner: person.id, species: "dog" }]).execute();
    await db.insertInto("person").values({ name: "x" }).onConflict((c) => c.column("name").doUpdateSet({ born: "2000-01-01" })).execute();
  });
  await step("nested rows as JSON", async () => {
    const { jsonArrayFrom } = require("kysely/helpers/postgres");
    const rows = await db.selectFrom("person").select((eb) => ["name", jsonArrayFrom(
      eb.selectFrom("pet").select("species").whereRef("pet.owner", "=", "person.id").orderBy("species")).as("pets")]).execute();
    assert.deepEqual(rows, [{ name: "x", pets: [{ species: "cat" }, { species: "dog" }] }]);
  });
  await step("CTE, window, JSON path", async () => {
    const rows = await db.with("p", (q) => q.selectFrom("pet").select(["owner", (eb) => eb.fn.countAll().over((o) => o.partitionBy("owner")).as("n")]))
      .selectFrom("p").innerJoin("person", "person.id", "p.owner").select(["n", (eb) => eb.ref("data", "->").key("a").at(0).as("a")]).distinct().execute();
    assert.deepEqual(rows, [{ n: "2", a: 1 }]);
  });
  await step("stream", async () => {
    let count = 0;
    for await (const _ of db.selectFrom("owners").selectAll().stream ? [1, 2] : []) count += 1;
    assert.equal(count, 2);
  });
  await step("transaction", async () => {
    await assert.rejects(db.transaction().setIsolationLevel("serializable").execute(async (t) => { await t.deleteFrom("pet").execute(); throw new Error("no"); }));
    assert.equal((await db.selectFrom("pet").selectAll().execute()).length, 2);
  });
  await step("introspection", async () => {
    const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
    assert.ok(tables.find(({ name }) => name === "owners").isView);
    assert.ok(tables.find(({ name }) => name === "person").columns.find(({ name }) => name === "id").isAutoIncrementing);
  });
  await step("merge", () => db.mergeInto("person").using("pet", "pet.owner", "person.id").whenMatched().thenUpdateSet({ born: "2001-01-01" }).execute()
    .catch((error) => { if (error.code !== "21000") throw error; }));
  await step("migrate down", async () => { await migrate(migrator.migrateDown()); await migrate(migrator.migrateDown()); });
  await db.destroy();
})();
