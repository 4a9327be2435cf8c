// Knex: migrations, schema changes, queries.
const { assert, step, database } = require("./steps.cjs");

(async () => {
  const knex = require("knex")({ client: "pg", connection: database, pool: { min: 0, max: 4 } });
  const migrations = [
    {
      name: "1",
      up: async (knex) => {
        await knex.schema.createTable("users", (t) => {
          t.increments("id"); t.string("email").notNullable().unique(); t.jsonb("settings").defaultTo("{}");
          t.enu("kind", ["admin", "guest"], { useNative: true, enumName: "user_kind" }); t.timestamps(true, true);
          t.specificType("tags", "text[]"); t.decimal("balance", 12, 2); t.uuid("token").defaultTo(knex.fn.uuid()); t.index(["email", "kind"]);
        });
        await knex.schema.createTable("posts", (t) => {
          t.bigIncrements("id"); t.integer("user_id").references("users.id").onDelete("CASCADE").deferrable("deferred"); t.text("title");
        });
      },
      down: (knex) => knex.schema.dropTable("posts").dropTable("users").raw("DROP TYPE user_kind"),
    },
    {
      name: "2",
      up: (knex) => knex.schema.alterTable("users", (t) => {
        t.string("name", 40).comment("a name"); t.renameColumn("balance", "money"); t.string("email", 100).notNullable().alter();
        t.check("money > 0", [], "money_positive");
      }),
      down: (knex) => knex.schema.alterTable("users", (t) => t.dropColumn("name")),
    },
  ];
  const migrationSource = { getMigrations: async () => migrations, getMigrationName: (m) => m.name, getMigration: async (m) => m };
  await step("migrate up", () => knex.migrate.latest({ migrationSource }));
  await step("migration status", async () => assert.equal(await knex.migrate.status({ migrationSource }), 0));
  await step("insert returning", async () => {
    const [user] = await knex("users").insert({ email: "a@b", kind: "admin", settings: { a: 1 }, tags: ["x"], money: 5 }).returning("*");
    assert.deepEqual([user.id, user.kind, user.settings, user.tags], [1, "admin", { a: 1 }, ["x"]]);
  });
  await step("upsert", async () => {
    await knex("users").insert({ email: "a@b", kind: "guest" }).onConflict("email").merge(["kind"]);
    assert.equal((await knex("users").first()).kind, "guest");
  });
  await step("join, group, window, CTE", async () => {
    await knex("posts").insert([{ user_id: 1, title: "one" }, { user_id: 1, title: "two" }]);
    const rows = await knex.with("p", knex("posts").select("*").rowNumber("n", "id", "user_id")).select("u.email").max("p.n as m")
      .from("users as u").join("p", "p.user_id", "u.id").groupBy("u.email").havingRaw("count(*) > 1");
    assert.deepEqual(rows, [{ email: "a@b", m: "2" }]);
  });
  await step("json", async () => {
    const rows = await knex("users").jsonExtract("settings", "$.a", "a").whereJsonSupersetOf("settings", { a: 1 });
    assert.equal(rows[0].a, 1);
  });
  await step("transaction rolls back", async () => {
    await assert.rejects(knex.transaction(async (trx) => { await trx("posts").delete(); throw new Error("no"); }));
    assert.equal((await knex("posts").count({ n: "*" }))[0].n, "2");
  });
  await step("lock rows", () => knex.transaction((trx) => trx("posts").forUpdate().skipLocked().select("*")));
  await step("introspection", async () => {
    assert.equal(await knex.schema.hasTable("users"), true);
    assert.equal((await knex("users").columnInfo()).email.maxLength, 100);
  });
  await step("migrate down", () => knex.migrate.rollback({ migrationSource }, true));
  await knex.destroy();
})();
