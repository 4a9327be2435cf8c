// TypeORM: synchronization, migrations, repositories, relations.
require("reflect-metadata");
const { assert, step, database } = require("./steps.cjs");
const { DataSource, EntitySchema } = require("typeorm");

const User = new EntitySchema({
  name: "User", tableName: "users",
  columns: {
    id: { type: "uuid", primary: true, generated: "uuid" }, name: { type: "varchar", length: 40, unique: true },
    kind: { type: "enum", enum: ["a", "b"], default: "a" }, settings: { type: "jsonb", default: {} }, tags: { type: "text", array: true, nullable: true },
    made: { type: "timestamptz", createDate: true }, version: { type: "int", version: true }, money: { type: "numeric", precision: 10, scale: 2, nullable: true },
    doubled: { type: "numeric", asExpression: "money * 2", generatedType: "STORED", nullable: true },
  },
  indices: [{ columns: ["kind", "name"] }, { columns: ["made"], where: "kind = 'a'" }],
  checks: [{ expression: "money > 0" }],
  relations: { posts: { type: "one-to-many", target: "Post", inverseSide: "user" } },
});
const Post = new EntitySchema({
  name: "Post", tableName: "posts",
  columns: { id: { type: "int", primary: true, generated: "increment" }, title: { type: "text" }, gone: { type: "timestamp", deleteDate: true } },
  relations: { user: { type: "many-to-one", target: "User", inverseSide: "posts", onDelete: "CASCADE", deferrable: "INITIALLY DEFERRED" } },
});

(async () => {
  const { user: username, ...rest } = database;
  const db = new DataSource({ type: "postgres", username, ...rest, entities: [User, Post], logging: false });
  await step("initialize", () => db.initialize());
  await step("synchronize", () => db.synchronize());
  await step("synchronize again changes nothing", async () => {
    const { upQueries } = await db.driver.createSchemaBuilder().log();
    assert.deepEqual(upQueries.map(({ query }) => query), []);
  });
  const users = db.getRepository("User");
  const posts = db.getRepository("Post");
  await step("save", async () => {
    const user = await users.save({ name: "x", settings: { a: 1 }, tags: ["p"], money: "2.50" });
    await posts.save([{ title: "one", user }, { title: "two", user }]);
    assert.equal(user.version, 1);
  });
  await step("find with relations", async () => {
    const [user] = await users.find({ relations: { posts: true }, order: { name: "ASC" }, take: 5 });
    assert.deepEqual([user.posts.length, user.doubled, user.settings], [2, "5.00", { a: 1 }]);
  });
  await step("query builder", async () => {
    const rows = await users.createQueryBuilder("u").leftJoin("u.posts", "p").select("u.name", "name").addSelect("count(p.id)", "n")
      .groupBy("u.name").having("count(p.id) > :n", { n: 1 }).getRawMany();
    assert.deepEqual(rows, [{ name: "x", n: "2" }]);
  });
  await step("upsert", () => users.upsert([{ name: "x", kind: "b" }], ["name"]));
  await step("soft delete", async () => {
    await posts.softDelete({ title: "one" });
    assert.equal(await posts.count(), 1);
  });
  await step("lock in a transaction", () => db.transaction("SERIALIZABLE", (m) => m.getRepository("User").find({ lock: { mode: "pessimistic_write" } })));
  await step("migration", async () => {
    const runner = db.createQueryRunner();
    const { Table, TableColumn, TableForeignKey, TableIndex } = require("typeorm");
    await runner.createTable(new Table({ name: "extra", columns: [{ name: "id", type: "serial", isPrimary: true }, { name: "who", type: "uuid", isNullable: true }] }), true);
    await runner.createForeignKey("extra", new TableForeignKey({ columnNames: ["who"], referencedColumnNames: ["id"], referencedTableName: "users" }));
    await runner.createIndex("extra", new TableIndex({ columnNames: ["who"], isUnique: true }));
    await runner.addColumn("extra", new TableColumn({ name: "n", type: "int", default: 5 }));
    await runner.changeColumn("extra", "n", new TableColumn({ name: "m", type: "int", isNullable: true }));
    assert.equal((await runner.getTable("extra")).foreignKeys.length, 1);
    await runner.dropTable("extra");
    await runner.release();
  });
  await step("drop", () => db.dropDatabase());
  await db.destroy();
})();
