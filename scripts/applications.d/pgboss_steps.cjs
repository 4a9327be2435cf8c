// pg-boss: its schema, jobs, retries, schedules.
const { assert, step, url } = require("./steps.cjs");
const PgBoss = require("pg-boss");

(async () => {
  const boss = new PgBoss({ connectionString: url, superviseIntervalSeconds: 1 });
  boss.on("error", () => {});
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await step("start", () => boss.start());
  await step("create queues", async () => {
    await boss.createQueue("mail", { retryLimit: 2 });
    await boss.createQueue("single", { policy: "singleton" });
    assert.ok((await boss.getQueues()).length >= 2);
  });
  await step("send and work", async () => {
    const done = [];
    await boss.work("mail", { pollingIntervalSeconds: 0.5, batchSize: 10 }, async (jobs) => { done.push(...jobs.map(({ data }) => data.n)); });
    for (let n = 0; n < 20; n += 1) await boss.send("mail", { n });
    for (let waits = 0; done.length < 20 && waits < 100; waits += 1) await sleep(100);
    assert.equal(done.length, 20);
    await boss.offWork("mail");
  });
  await step("fetch, fail, retry, complete", async () => {
    const id = await boss.send("mail", { n: 99 }, { retryLimit: 1 });
    const [job] = await boss.fetch("mail");
    assert.equal(job.id, id);
    await boss.fail("mail", id, { why: "first" });
    const [again] = await boss.fetch("mail");
    await boss.complete("mail", again.id, { fine: true });
    assert.equal((await boss.getJobById("mail", id)).state, "completed");
  });
  await step("insert many, size, cancel, purge", async () => {
    await boss.insert([{ name: "mail", data: { n: 1 } }, { name: "mail", data: { n: 2 } }]);
    assert.equal(await boss.getQueueSize("mail"), 2);
    await boss.purgeQueue("mail");
    assert.equal(await boss.getQueueSize("mail"), 0);
  });
  await step("singleton", async () => {
    await boss.send("single", {}, { singletonKey: "k", singletonSeconds: 60 });
    assert.equal(await boss.send("single", {}, { singletonKey: "k", singletonSeconds: 60 }), null);
  });
  await step("schedule", async () => {
    await boss.schedule("mail", "* * * * *", { n: 7 });
    assert.equal((await boss.getSchedules()).length, 1);
    await boss.unschedule("mail");
  });
  await step("publish and subscribe", async () => { await boss.subscribe("event", "mail"); await boss.publish("event", { n: 5 }); });
  await step("maintain", () => boss.maintain());
  await step("stop", () => boss.stop({ graceful: false, wait: false }));
  setTimeout(() => process.exit(0), 1000);
})();
