"""Procrastinate: its schema, jobs, queueing locks, retries, the worker and what it listens to."""

import asyncio
import os

import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=f"host={os.environ['PGHOST']} port={os.environ['PGPORT']} "
                                                                          f"user=postgres dbname={os.environ['PGDATABASE']}"))
done = []


@app.task(queue="sums", name="add")
async def add(a, b):
    done.append(a + b)


@app.task(queue="sums", name="fails", retry=1)
async def fails():
    raise ValueError("no")


async def step(name, work):
    try:
        await asyncio.wait_for(work, 60)
        print(f"ok {name}", flush=True)
    except Exception as error:
        print(f"not ok {name}: {type(error).__name__} {error} {error.__cause__ or ''}".replace("\n", " "), flush=True)


async def defer():
    for n in range(10):
        await add.defer_async(a=n, b=1)
    await add.batch_defer_async({"a": 1, "b": 2}, {"a": 3, "b": 4})


async def work():
    await app.run_worker_async(wait=False, install_signal_handlers=False)
    assert len(done) == 12, done


async def lock():
    await add.configure(queueing_lock="one", schedule_in={"hours": 1}).defer_async(a=1, b=1)
    try:
        await add.configure(queueing_lock="one").defer_async(a=1, b=1)
    except procrastinate.exceptions.AlreadyEnqueued:
        return
    raise AssertionError("both were taken")


async def retry():
    await fails.defer_async()
    await app.run_worker_async(wait=False, install_signal_handlers=False)
    jobs = list(await app.job_manager.list_jobs_async(task="fails"))
    assert jobs[0].attempts >= 1, jobs


async def listen():
    before = len(done)
    worker = asyncio.create_task(app.run_worker_async(wait=True, install_signal_handlers=False, fetch_job_polling_interval=60))
    await asyncio.sleep(1)
    await add.defer_async(a=5, b=5)
    for _ in range(100):
        if len(done) > before:
            break
        await asyncio.sleep(0.1)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    assert len(done) == before + 1


async def manage():
    jobs = list(await app.job_manager.list_jobs_async(status="todo"))
    assert await app.job_manager.cancel_job_by_id_async(jobs[0].id)
    assert list(await app.job_manager.list_queues_async())
    await app.job_manager.delete_old_jobs(nb_hours=0, include_failed=True, include_cancelled=True)


async def main():
    async with app.open_async():
        await step("schema", app.schema_manager.apply_schema_async())
        await step("check connection", app.check_connection_async())
        await step("defer", defer())
        await step("work", work())
        await step("queueing lock", lock())
        await step("retry", retry())
        await step("told of new jobs", listen())
        await step("manage", manage())


asyncio.run(main())
