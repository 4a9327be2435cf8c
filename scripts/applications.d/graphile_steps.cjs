// graphile-worker: its migrations, jobs, notifications, schedules.
const { assert, step, url } = require("./steps.cjs");
const { run, runMigrations, makeWorkerUtils, quickAddJob, runOnce } = require("graphile-worker");

(async () => {
  const { Logger } = require("graphile-worker");
  const logger = new Logger(() => () => {});
  const options = { connectionString: url, logger };
  const done = [];
  const taskList = { echo: async ({ n }) => { done.push(n); }, bad: async () => { throw new Error("no"); } };
  await step("migrate", () => runMigrations(options));
  await step("migrate again", () => runMigrations(options));
  await step("add and run once", async () => {
    for (let n = 0; n < 10; n += 1) await quickAddJob(options, "echo", { n });
    await runOnce({ ...options, taskList });
    assert.equal(done.length, 10);
  });
  await step("job key, priority, queue", async () => {
    const utils = await makeWorkerUtils(options);
    await utils.addJob("echo", { n: 100 }, { jobKey: "k", queueName: "q", priority: -5 });
    await utils.addJob("echo", { n: 101 }, { jobKey: "k", queueName: "q", jobKeyMode: "replace" });
    await runOnce({ ...options, taskList });
    assert.deepEqual(done.slice(-1), [101]);
    await utils.release();
  });
  await step("failed job is kept", async () => {
    const utils = await makeWorkerUtils(options);
    const job = await utils.addJob("bad", {}, { maxAttempts: 2 });
    await runOnce({ ...options, taskList });
    const { rows } = await utils.withPgClient((client) => client.query("SELECT attempts, last_error FROM graphile_worker.jobs WHERE id = $1", [job.id]));
    assert.deepEqual([rows[0].attempts, rows[0].last_error], [1, "no"]);
    await utils.permanentlyFailJobs([job.id], "given up");
    await utils.release();
  });
  await step("runner is told of new jobs", async () => {
    const before = done.length;
    const runner = await run({ ...options, taskList, concurrency: 4, pollInterval: 60_000, crontab: "0 4 * * * echo" });
    await new Promise((resolve) => setTimeout(resolve, 500));
    await runner.addJob("echo", { n: 200 });
    for (let waits = 0; done.length === before && waits < 50; waits += 1) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(done.length, before + 1);
    await runner.stop();
  });
  setTimeout(() => process.exit(0), 500);
})();
