// Sequelize: sync, associations, queries, transactions, introspection.
const { assert, step, database } = require("./steps.cjs");
const { Sequelize, DataTypes, Op } = require("sequelize");

(async () => {
  const db = new Sequelize(database.database, database.user, "", { host: database.host, port: database.port, dialect: "postgres", logging: false });
  const User = db.define("User", {
    name: { type: DataTypes.STRING(40), unique: true }, kind: { type: DataTypes.ENUM("a", "b"), defaultValue: "a" },
    settings: DataTypes.JSONB, tags: DataTypes.ARRAY(DataTypes.STRING), born: DataTypes.DATEONLY, token: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
    money: DataTypes.DECIMAL(10, 2), span: DataTypes.RANGE(DataTypes.INTEGER),
  }, { indexes: [{ fields: ["settings"], using: "gin" }, { fields: ["kind"], where: { kind: "a" } }] });
  const Post = db.define("Post", { title: DataTypes.TEXT }, { paranoid: true, version: true });
  User.hasMany(Post, { onDelete: "CASCADE" });
  Post.belongsTo(User);
  await step("authenticate", () => db.authenticate());
  await step("sync", () => db.sync({ force: true }));
  await step("sync alter", () => db.sync({ alter: true }));
  await step("create", async () => {
    const user = await User.create({ name: "x", settings: { a: { b: 1 } }, tags: ["p", "q"], born: "2000-01-02", money: "1.50", span: [1, 5] });
    assert.equal(user.kind, "a");
    await user.createPost({ title: "t" });
  });
  await step("bulk create with update on duplicate", async () => {
    await User.bulkCreate([{ name: "x", money: 2 }, { name: "y", money: 3 }], { updateOnDuplicate: ["money"], conflictAttributes: ["name"] });
    assert.equal(await User.count(), 2);
  });
  await step("find with include", async () => {
    const users = await User.findAll({ include: [{ model: Post, required: true }], where: { "settings.a.b": 1, tags: { [Op.contains]: ["p"] } } });
    assert.equal(users[0].Posts[0].title, "t");
  });
  await step("findOrCreate", async () => {
    const [, created] = await User.findOrCreate({ where: { name: "z" }, defaults: { kind: "b" } });
    assert.equal(created, true);
    assert.equal((await User.findOrCreate({ where: { name: "z" } }))[1], false);
  });
  await step("upsert", async () => assert.equal((await User.upsert({ name: "z", money: 9 }))[0].money, "9.00"));
  await step("aggregate", async () => assert.equal(Number(await User.sum("money")), 14));
  await step("optimistic lock and paranoid delete", async () => {
    const post = await Post.findOne();
    await post.update({ title: "u" });
    await post.destroy();
    assert.equal(await Post.count(), 0);
    await post.restore();
  });
  await step("transaction", async () => {
    await assert.rejects(db.transaction({ isolationLevel: "SERIALIZABLE" }, async (transaction) => {
      await User.destroy({ where: {}, transaction });
      throw new Error("no");
    }));
    assert.equal(await User.count(), 3);
  });
  await step("query interface", async () => {
    const q = db.getQueryInterface();
    await q.addColumn("Users", "extra", { type: DataTypes.INTEGER, allowNull: false, defaultValue: 1 });
    await q.changeColumn("Users", "extra", { type: DataTypes.BIGINT });
    await q.renameColumn("Users", "extra", "more");
    assert.equal((await q.describeTable("Users")).more.type, "BIGINT");
    assert.ok((await q.showIndex("Users")).length >= 4);
    assert.ok((await q.getForeignKeyReferencesForTable("Posts")).length === 1);
    await q.addConstraint("Users", { fields: ["more"], type: "check", where: { more: { [Op.gt]: 0 } } });
    await q.removeColumn("Users", "more");
  });
  await db.close();
})();
