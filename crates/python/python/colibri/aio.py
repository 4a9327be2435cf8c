"""Colibri for asyncio: connections whose statements wait for locks and for the disk without a thread.

    import asyncio, colibri.aio

    async def main():
        async with await colibri.aio.connect("birds") as conn:
            await conn.execute("CREATE TABLE IF NOT EXISTS birds (name text PRIMARY KEY)")
            async for (name,) in await conn.execute("SELECT name FROM birds"):
                print(name)

    asyncio.run(main())

A connection runs one statement at a time; tasks that share it take turns. A call that is cancelled ends its statement.
"""

import asyncio

from . import Connection, Notify, database, errors

__all__ = ["AsyncConnection", "AsyncCursor", "connect"]


class AsyncCursor:
    """A cursor whose `execute` is to be awaited. Its rows are in memory then."""

    def __init__(self, connection):
        self.connection = connection
        self._cursor = connection._session.cursor()
        cursor = self._cursor
        self._fetchone, self._fetchmany, self._fetchall = cursor.fetchone, cursor.fetchmany, cursor.fetchall
        self.fetch_arrow = cursor.fetch_arrow

    async def execute(self, operation, parameters=None):
        async with self.connection._turn:
            self._cursor.start(operation, parameters)
            await self.connection._drive(self._cursor)
        return self

    async def executemany(self, operation, seq_of_parameters):
        # A transaction, and so one connection to itself: another thread runs it.
        async with self.connection._turn:
            await asyncio.to_thread(self._cursor.executemany, operation, seq_of_parameters)
        return self

    async def fetchone(self):
        return self._fetchone()

    async def fetchmany(self, size=None):
        return self._fetchmany(size)

    async def fetchall(self):
        return self._fetchall()

    @property
    def description(self):
        return self._cursor.description

    @property
    def rowcount(self):
        return self._cursor.rowcount

    @property
    def statusmessage(self):
        return self._cursor.statusmessage

    async def close(self):
        self._cursor.close()

    def __aiter__(self):
        return self

    async def __anext__(self):
        row = self._fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, value, traceback):
        self._cursor.close()


class AsyncConnection:
    """A session."""

    def __init__(self, path_database, user=None, autocommit=False):
        self._blocking = Connection(path_database, user, autocommit)
        self._session = self._blocking._session
        self._turn = asyncio.Lock()
        self.cancel = self._session.cancel
        self.fileno = self._session.fileno

    async def _readable(self, timeout=None):
        """Waits until the descriptor is readable."""
        loop, fd = asyncio.get_running_loop(), self._session.fileno()
        ready = loop.create_future()
        loop.add_reader(fd, lambda: ready.done() or ready.set_result(None))
        try:
            await asyncio.wait_for(ready, timeout)
        finally:
            loop.remove_reader(fd)

    async def _drive(self, cursor):
        try:
            while not cursor.poll():
                await self._readable()
        except asyncio.CancelledError:
            self._session.stop()
            raise

    def cursor(self):
        return AsyncCursor(self)

    async def execute(self, sql, params=None):
        return await self.cursor().execute(sql, params)

    async def executemany(self, sql, seq_of_parameters):
        return await self.cursor().executemany(sql, seq_of_parameters)

    async def _end(self, how):
        async with self._turn:
            if self._session.transaction_status == "idle":
                return
            failed = self._session.transaction_status == "failed"
            cursor = self._session.cursor()
            cursor.start(how)
            await self._drive(cursor)
            if failed and how == "COMMIT":
                raise errors.InFailedSqlTransaction("the transaction was rolled back, since a statement in it failed")

    async def commit(self):
        await self._end("COMMIT")

    async def rollback(self):
        await self._end("ROLLBACK")

    async def transaction(self, run, attempts=10):
        """Awaits `run(connection)` in a transaction. After a conflict with others (40001, 40P01) it runs again."""
        for attempt in range(1, attempts + 1):
            try:
                result = await run(self)
                await self.commit()
                return result
            except errors.Retryable:
                await self.rollback()
                if attempt == attempts:
                    raise
                await asyncio.sleep(0 if attempt == 1 else min(0.0005 * 2**attempt, 0.1))
            except BaseException:
                await self.rollback()
                raise

    async def notifies(self, timeout=None):
        """The next notifications, after LISTEN: waits for the first; none after `timeout` seconds."""
        while True:
            async with self._turn:
                told = [Notify(channel, payload, pid) for pid, channel, payload in self._session.take_notifications()]
            if told:
                return told
            try:
                await self._readable(timeout)
            except asyncio.TimeoutError:
                return []

    @property
    def autocommit(self):
        return self._session.autocommit

    async def set_autocommit(self, value):
        self._session.autocommit = bool(value)

    @property
    def closed(self):
        return self._session.closed

    async def close(self):
        self._blocking.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, value, traceback):
        if self.closed:
            return
        try:
            if kind is None:
                await self.commit()
            else:
                await self.rollback()
        finally:
            await self.close()


async def connect(path, *, user=None, autocommit=False, durability="sync", create=True):
    """As `colibri.connect`."""
    return AsyncConnection(database(path, durability=durability, create=create), user, autocommit)
