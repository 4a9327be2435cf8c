"""What programs do with asyncpg in their first minutes: types, errors and what follows them, transactions, cursors, COPY,
prepared statements, pools."""

import asyncio
import datetime
import decimal
import uuid

import asyncpg
import asyncpg.introspection


async def fails(awaitable, error):
    try:
        # A server that keeps the error back until it is asked for more hangs here.
        await asyncio.wait_for(awaitable, 10)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


async def main():
    conn = await asyncpg.connect()
    await conn.execute("CREATE TABLE t (id int PRIMARY KEY, s text, d numeric(10,2), at timestamptz, tags text[], u uuid, j json)")
    row = (1, "ä", decimal.Decimal("1.50"), datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc), ["a", None, "b,c"],
           uuid.UUID(int=5), '{"a": [1, null]}')
    await conn.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)", *row)
    assert tuple(await conn.fetchrow("SELECT * FROM t")) == row
    assert await conn.fetchval("SELECT $1::text[]", [["a", "b"], ["c", "d"]]) == [["a", "b"], ["c", "d"]]

    # Arrays, and what asyncpg asks the catalogue for their types.
    at = row[3]
    for ty, value in [("int", [1, None, 3]), ("bigint", [1, 2**40]), ("smallint", [-1]), ("text", ["a", None, 'b,c"']), ("varchar", ["q"]),
                      ("timestamptz", [at, None]), ("timestamp", [at.replace(tzinfo=None)]), ("date", [at.date()]), ("bool", [True, None]),
                      ("float8", [1.5]), ("real", [2.5]), ("numeric", [decimal.Decimal("1.50")]), ("uuid", [uuid.UUID(int=5)]),
                      ("bytea", [b"ab"]), ("json", ['{"a": 1}']), ("interval", [datetime.timedelta(days=1)]), ("int", [])]:
        assert await conn.fetchval(f"SELECT $1::{ty}[]", value) == value, ty
    assert await conn.fetchval("SELECT count(*) FROM generate_series(1, 10) i WHERE i = ANY($1)", [1, 5, 50]) == 2
    pairs = await conn.fetch("SELECT * FROM unnest($1::int[], $2::text[])", [1, 2], ["a", "b"])
    assert [tuple(pair) for pair in pairs] == [(1, "a"), (2, "b")]
    assert await conn.fetchval("SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relname = 't'") == ["t"]
    for oids, least in [([1007], 2), ([1009, 1185, 1231], 6), ([23, 25], 2)]:
        types = await conn.fetch(asyncpg.introspection.INTRO_LOOKUP_TYPES, oids)
        assert len(types) >= least and set(oids) <= {ty["oid"] for ty in types}, types
    await conn.reload_schema_state()
    await conn.set_type_codec("numeric", encoder=str, decoder=str, schema="pg_catalog", format="text")
    assert await conn.fetchval("SELECT 1.50::numeric") == "1.50"
    await conn.reset_type_codec("numeric", schema="pg_catalog")

    # What fails, and what comes behind it.
    for _ in range(3):
        await fails(conn.fetch("SELEC 1"), asyncpg.PostgresSyntaxError)
        await fails(conn.fetch("SELECT nope FROM t"), asyncpg.UndefinedColumnError)
        await fails(conn.fetch("SELECT 1 / $1::int", 0), asyncpg.DivisionByZeroError)
        await fails(conn.execute("INSERT INTO t (id) VALUES ($1)", 1), asyncpg.UniqueViolationError)
        await fails(conn.execute("SELECT 1; SELEC 2"), asyncpg.PostgresSyntaxError)
        assert await conn.fetchval("SELECT 7") == 7
    assert (await conn.execute("UPDATE t SET s = 'x'")) == "UPDATE 1"
    await conn.executemany("INSERT INTO t (id, s) VALUES ($1, $2)", [(n, str(n)) for n in range(10, 1010)])
    await fails(conn.executemany("INSERT INTO t (id) VALUES ($1)", [(2000,), (10,), (2001,)]), asyncpg.UniqueViolationError)
    assert await conn.fetchval("SELECT count(*) FROM t") == 1001

    # Transactions within transactions.
    async with conn.transaction():
        await conn.execute("DELETE FROM t WHERE id >= 1000")
        try:
            async with conn.transaction():
                await conn.execute("DELETE FROM t")
                await conn.execute("SELECT 1/0")
        except asyncpg.DivisionByZeroError:
            pass
        assert await conn.fetchval("SELECT count(*) FROM t") == 991
    await fails(aborted(conn), asyncpg.InFailedSQLTransactionError)

    # Rows piece by piece, and a query by text among them.
    async with conn.transaction():
        seen = 0
        async for record in conn.cursor("SELECT id FROM t ORDER BY id", prefetch=100):
            seen += 1
            if seen % 250 == 0:
                await conn.execute("SELECT 1")
        assert seen == 991
        cursor = await conn.cursor("SELECT id FROM t WHERE id > $1 ORDER BY id", 10)
        assert [record["id"] for record in await cursor.fetch(2)] == [11, 12]
        assert await cursor.forward(5) == 5
        assert (await cursor.fetchrow())["id"] == 18

    statement = await conn.prepare("SELECT s FROM t WHERE id = $1")
    assert [parameter.name for parameter in statement.get_parameters()] == ["int4"]
    assert [attribute.name for attribute in statement.get_attributes()] == ["s"]
    assert await statement.fetchval(20) == "20"

    # COPY, both ways.
    assert await conn.copy_records_to_table("t", columns=["id", "s"], records=[(n, "c") for n in range(5000, 5100)]) == "COPY 100"
    lines = []

    async def take(data):
        lines.append(data)

    assert await conn.copy_from_query("SELECT id FROM t WHERE s = $1 ORDER BY id", "c", output=take, format="csv") == "COPY 100"
    assert b"".join(lines).startswith(b"5000\n5001\n")
    await fails(conn.copy_records_to_table("t", columns=["id"], records=[(1,)]), asyncpg.UniqueViolationError)

    told = []
    conn.add_log_listener(lambda _, message: told.append(message.sqlstate))
    await conn.execute("COMMIT")
    await asyncio.sleep(0)
    assert told == ["25P01"], told

    # What a pool does when a connection comes back.
    assert await conn.fetchval("SELECT pg_try_advisory_lock(1)")
    await conn.reset()
    async with asyncpg.create_pool(min_size=2, max_size=4) as pool:
        assert await pool.fetchval("SELECT pg_try_advisory_lock(1)")
        totals = await asyncio.gather(*(pool.fetchval("SELECT $1::int * 2", n) for n in range(40)))
        assert totals == [n * 2 for n in range(40)]
    await fails(conn.fetch("SELECT count(*) FROM generate_series(1, 1000000000)", timeout=0.2), asyncio.TimeoutError)
    assert await conn.fetchval("SELECT 1") == 1
    await conn.close()


async def aborted(conn):
    async with conn.transaction():
        try:
            await conn.execute("SELECT 1/0")
        except asyncpg.DivisionByZeroError:
            await conn.execute("SELECT 1")


asyncio.run(main())
print("ok")
