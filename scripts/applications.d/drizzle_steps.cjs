// Drizzle: queries with its own types, relations, transactions.
const { assert, step, database } = require("./steps.cjs");
const { drizzle } = require("drizzle-orm/node-postgres");
const { eq, sql, count, relations, desc, arrayContains } = require("drizzle-orm");
const p = require("drizzle-orm/pg-core");
const { Pool } = require("pg");

const kind = p.pgEnum("kind", ["a", "b"]);
const users = p.pgTable("users", {
  id: p.serial("id").primaryKey(), name: p.varchar("name", { length: 40 }).notNull().unique(), kind: kind("kind").default("a"),
  data: p.jsonb("data"), tags: p.text("tags").array(), made: p.timestamp("made", { withTimezone: true }).defaultNow(), money: p.numeric("money", { precision: 10, scale: 2 }),
});
const posts = p.pgTable("posts", { id: p.integer("id").primaryKey().generatedAlwaysAsIdentity(), userId: p.integer("user_id").references(() => users.id), title: p.text("title") });
const schema = {
  users, posts, usersRelations: relations(users, ({ many }) => ({ posts: many(posts) })),
  postsRelations: relations(posts, ({ one }) => ({ user: one(users, { fields: [posts.userId], references: [users.id] }) })),
};

(async () => {
  const pool = new Pool(database);
  const db = drizzle(pool, { schema });
  await step("schema", () => db.execute(sql.raw(`
    CREATE TYPE "public"."kind" AS ENUM('a', 'b');
    CREATE TABLE "users" ("id" serial PRIMARY KEY NOT NULL, "name" varchar(40) NOT NULL, "kind" "kind" DEFAULT 'a', "data" jsonb, "tags" text[],
      "made" timestamp with time zone DEFAULT now(), "money" numeric(10, 2), CONSTRAINT "users_name_unique" UNIQUE("name"));
    CREATE TABLE "posts" ("id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "posts_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
      "user_id" integer, "title" text);
    DO $$ BEGIN
      ALTER TABLE "posts" ADD CONSTRAINT "posts_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;
    EXCEPTION WHEN duplicate_object THEN null;
    END $$;`)));
  await step("insert", async () => {
    const [user] = await db.insert(users).values({ name: "x", data: { a: 1 }, tags: ["p"], money: "1.50" }).returning();
    await db.insert(posts).values([{ userId: user.id, title: "one" }, { userId: user.id, title: "two" }]);
    await db.insert(users).values({ name: "x" }).onConflictDoUpdate({ target: users.name, set: { kind: "b" } });
  });
  await step("relational query", async () => {
    const rows = await db.query.users.findMany({ with: { posts: { orderBy: desc(posts.id), limit: 1 } }, extras: { lower: sql`lower(${users.name})`.as("lower") } });
    assert.deepEqual([rows[0].posts[0].title, rows[0].kind, rows[0].lower], ["two", "b", "x"]);
  });
  await step("join and aggregate", async () => {
    const rows = await db.select({ name: users.name, n: count() }).from(users).innerJoin(posts, eq(posts.userId, users.id)).where(arrayContains(users.tags, ["p"])).groupBy(users.name);
    assert.deepEqual(rows, [{ name: "x", n: 2 }]);
  });
  await step("prepared", async () => {
    const find = db.select().from(users).where(eq(users.id, sql.placeholder("id"))).prepare("find");
    for (const _ of [1, 2]) assert.equal((await find.execute({ id: 1 })).length, 1);
  });
  await step("union and subquery", async () => {
    const sub = db.select({ n: sql`count(*)`.as("n"), id: posts.userId }).from(posts).groupBy(posts.userId).as("sub");
    assert.equal((await db.select().from(users).leftJoin(sub, eq(sub.id, users.id)))[0].sub.n, "2");
  });
  await step("nested transaction", async () => {
    await db.transaction(async (tx) => {
      await assert.rejects(tx.transaction(async (inner) => { await inner.delete(posts); throw new Error("no"); }));
      assert.equal((await tx.select().from(posts)).length, 2);
    }, { isolationLevel: "repeatable read" });
  });
  await step("lock", () => db.transaction((tx) => tx.select().from(users).for("update", { skipLocked: true })));
  await pool.end();
})();
