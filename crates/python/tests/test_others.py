"""asyncio, Arrow, keys and values, processes, SQLAlchemy, and the examples of the documentation."""

import asyncio
import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

import colibri
import colibri.aio
import colibri.kv
from colibri import errors


def test_asyncio(tmp_path):
    async def main():
        async with await colibri.aio.connect(tmp_path / "db", durability="nosync") as conn:
            await conn.execute("CREATE TABLE t (a int PRIMARY KEY)")
            await conn.executemany("INSERT INTO t VALUES (%s)", [(n,) for n in range(1000)])
            await conn.commit()
            assert [row async for row in await conn.execute("SELECT a FROM t WHERE a < 3 ORDER BY a")] == [(0,), (1,), (2,)]
            # Others run meanwhile.
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            await conn.execute("SELECT pg_sleep(0.3)")
            assert ticks > 5
            before = ticks
            await conn.execute("SELECT count(*) FROM generate_series(1, 3000000)")
            assert ticks > before + 2
            ticking.cancel()
            await conn.commit()

            # A lock that another connection has.
            other = await colibri.aio.connect(tmp_path / "db")
            await other.execute("UPDATE t SET a = -1 WHERE a = 1")
            waiting = asyncio.create_task(conn.execute("DELETE FROM t WHERE a = 1"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await other.rollback()
            assert (await waiting).rowcount == 1
            await conn.rollback()
            # A time limit ends the statement, and the connection goes on.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(conn.execute("SELECT pg_sleep(60)"), 0.05)
            await conn.rollback()
            assert await (await conn.execute("SELECT 42")).fetchone() == (42,)
            with pytest.raises(errors.DivisionByZero):
                await conn.execute("SELECT 1 / 0")
            await conn.rollback()

            await conn.execute("LISTEN nests")
            await conn.commit()
            assert await conn.notifies(0.01) == []
            listening = asyncio.create_task(conn.notifies(60))
            await asyncio.sleep(0.02)
            await other.execute("NOTIFY nests, 'egg'")
            await other.commit()
            assert [told.payload for told in await listening] == ["egg"]
            await other.close()

    asyncio.run(main())


def test_arrow(conn):
    pyarrow = pytest.importorskip("pyarrow")
    sql = """
        SELECT n::int AS i, (n % 30000)::int2 AS s, n::int8 AS l, n / 2.0::float8 AS d, n % 2 = 0 AS b, 'x' || n AS t,
            CASE WHEN n % 3 = 0 THEN NULL ELSE n::numeric(12,3) / 8 END::numeric(12,3) AS q, decode(lpad(n::text, 6, '0'), 'hex') AS y,
            date '2000-01-01' + n::int AS day, timestamptz '2000-01-01 00:00Z' + n * interval '1 s' AS at,
            ARRAY[n, NULL] AS pair, jsonb_build_object('n', n) AS j, time '00:00' + n * interval '1 us' AS clock,
            md5(n::text)::uuid AS u
        FROM generate_series(1, 70000) AS s (n)"""
    direct = pyarrow.table(conn.arrow(sql))
    assert direct.num_rows == 70000
    cursor = conn.execute(sql)
    first = cursor.fetchone()
    rest = pyarrow.table(cursor.fetch_arrow())
    assert rest.num_rows == 69999 and rest.equals(direct.slice(1))
    assert first[0] == direct["i"][0].as_py() == 1
    assert [str(field.type) for field in direct.schema][:7] == [
        "int32", "int16", "int64", "double", "bool", "string", "decimal128(12, 3)",
    ]
    # Row by row they are the values that fetchall gives.
    rows = conn.execute(sql).fetchall()
    for place in (0, 1, 2, 65535, 65536, 69999):
        for column, name in enumerate(direct.column_names[:11]):
            assert direct[name][place].as_py() == rows[place][column], name
    with pytest.raises(colibri.InterfaceError):
        stream = conn.arrow("SELECT 1")
        pyarrow.table(stream)
        pyarrow.table(stream)
    # An error on the way, and a stream that nobody reads.
    with pytest.raises(Exception, match="division by zero"):
        pyarrow.table(conn.arrow("SELECT 1 / (5 - n) FROM generate_series(1, 10) AS s (n)"))
    conn.rollback()
    conn.arrow("SELECT 1")
    assert conn.execute("SELECT 5").fetchone() == (5,)


def test_keys_and_values(tmp_path):
    with colibri.kv.open(tmp_path / "kv") as env:
        tags = env.open_db(b"tags", dupsort=True)
        with env.begin(write=True) as txn:
            for n in range(1000):
                assert txn.put(b"%04d" % n, b"v%d" % n)
            assert not txn.put(b"0001", b"x", overwrite=False)
            assert txn.put(b"k", b"2", db=tags) and txn.put(b"k", b"1", db=tags)
            assert not txn.put(b"k", b"1", dupdata=False, db=tags)
        with env.begin() as txn:
            assert txn.get(b"0007") == b"v7" and txn.get(b"x") is None and txn.get(b"x", b"d") == b"d"
            assert txn.get(b"k", db=tags) == b"1"
            assert [key for key, _ in txn.cursor()] == [b"%04d" % n for n in range(1000)]
            assert list(txn.cursor(tags)) == [(b"k", b"1"), (b"k", b"2")]
            cursor = txn.cursor()
            assert cursor.set_range(b"0500x") and cursor.item() == (b"0501", b"v501")
            assert cursor.prev() and cursor.key() == b"0500"
            assert cursor.last() and cursor.key() == b"0999" and not cursor.next() and cursor.key() == b""
            assert cursor.set_key(b"0003") and not cursor.set_key(b"3")
            assert (txn.count(), txn.count(b"0100", b"0200"), txn.rank(b"0100")) == (1000, 100, 100)
            with pytest.raises(colibri.InterfaceError):
                txn.put(b"x", b"y")
        with env.begin(write=True) as txn:
            cursor, seen = txn.cursor(), []
            # A cursor of a transaction that writes sees what it writes.
            for key, _ in cursor:
                seen.append(key)
                txn.delete(key)
                if key == b"0009":
                    break
            assert seen == [b"%04d" % n for n in range(10)]
            assert txn.delete_range(b"0500") == 500 and txn.count() == 490
            assert txn.delete(b"k", b"1", db=tags) and txn.pop(b"k", db=tags) == b"2"
            txn.abort()
        with pytest.raises(ZeroDivisionError):
            with env.begin(write=True) as txn:
                txn.put(b"x", b"y")
                1 / 0
        with env.begin() as txn:
            assert txn.count() == 1000 and txn.get(b"x") is None


def test_a_forked_process_refuses_what_its_parent_has_open(tmp_path):
    conn = colibri.connect(tmp_path / "db")
    conn.execute("CREATE TABLE t (a int)")
    conn.commit()
    conn.execute("INSERT INTO t VALUES (0)")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                conn.execute("INSERT INTO t VALUES (1)")
            except colibri.InterfaceError:
                own = colibri.connect(tmp_path / "child")
                # What the parent has open is reached through the parent.
                guest = colibri.connect(tmp_path / "db")
                guest.execute("INSERT INTO t VALUES (2)")
                guest.commit()
                if own.execute("SELECT 6 * 7").fetchone() == (42,):
                    status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    conn.commit()
    assert conn.execute("SELECT a FROM t ORDER BY a").fetchall() == [(0,), (2,)]
    conn.close()


def _work(path, rounds):
    """A worker: adds to a counter, and inserts many rows at once. Module level, as `spawn` looks it up."""
    conn = colibri.connect(path)
    for _ in range(rounds):
        conn.transaction(lambda conn: conn.execute("UPDATE counters SET n = n + 1"))
    conn.cursor().executemany("INSERT INTO rows VALUES (%s)", [(f"row {n}",) for n in range(2000)])
    conn.commit()
    conn.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_four_workers_share_a_database(tmp_path, method):
    import multiprocessing

    context = multiprocessing.get_context(method)
    with colibri.connect(tmp_path / "db") as conn:
        conn.execute("CREATE TABLE counters (n int)")
        conn.execute("INSERT INTO counters VALUES (0)")
        conn.execute("CREATE TABLE rows (t text)")
        conn.commit()
        workers = [context.Process(target=_work, args=(str(tmp_path / "db"), 50)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        assert [worker.exitcode for worker in workers] == [0] * 4
        assert conn.execute("SELECT n, (SELECT count(*) FROM rows) FROM counters").fetchone() == (200, 8000)


def test_asyncio_in_a_second_process(tmp_path):
    script = """
import asyncio, sys, colibri, colibri.aio

async def main():
    async with await colibri.aio.connect(sys.argv[1]) as conn:
        await conn.execute("INSERT INTO t SELECT n FROM generate_series(1, 1000) AS s (n)")
        await conn.commit()
        ticks = 0
        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)
        ticking = asyncio.create_task(tick())
        await conn.execute("SELECT pg_sleep(0.2)")
        ticking.cancel()
        assert ticks > 10, ticks
        print(len([row async for row in await conn.execute("SELECT a FROM t")]))
asyncio.run(main())
"""
    with colibri.connect(tmp_path / "db") as conn:
        conn.execute("CREATE TABLE t (a int)")
        conn.commit()
        ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / "db")], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1000\n", "")
        assert conn.execute("SELECT sum(a) FROM t").fetchone() == (500500,)


def test_a_connection_whose_owner_is_killed_says_so(tmp_path):
    path = str(tmp_path / "db")
    script = """
import sys, colibri
conn = colibri.connect(sys.argv[1], autocommit=True)
conn.execute("CREATE TABLE t (a int)")
print("ready", flush=True)
sys.stdin.read()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "ready\n"
    conn = colibri.connect(path)
    conn.execute("INSERT INTO t VALUES (1)")
    owner.kill()
    owner.wait()
    with pytest.raises(colibri.OperationalError) as raised:
        conn.commit()
    assert raised.value.sqlstate in ("08006", "40003")
    conn.close()
    with colibri.connect(path) as again:
        assert again.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_process_that_is_killed_leaves_what_it_has_committed(tmp_path):
    program = f"""
import colibri
conn = colibri.connect({str(tmp_path / "db")!r})
conn.execute("CREATE TABLE t (a int)")
for n in range(1000000):
    conn.execute("INSERT INTO t VALUES (%s)", (n,))
    conn.commit()
    print(n, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    told = [int(child.stdout.readline()) for _ in range(20)]
    with colibri.connect(tmp_path / "db") as guest:
        assert guest.execute("SELECT count(*) FROM t").fetchone()[0] >= 20
    child.send_signal(signal.SIGKILL)
    child.wait()
    with colibri.connect(tmp_path / "db") as conn:
        values = [row[0] for row in conn.execute("SELECT a FROM t ORDER BY a")]
    assert values == list(range(len(values))) and len(values) > told[-1]


def test_a_database_can_be_opened_again_when_all_is_closed(tmp_path):
    for n in range(3):
        conn = colibri.connect(tmp_path / "db", autocommit=True)
        conn.execute("CREATE TABLE IF NOT EXISTS t (a int)")
        conn.close()
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", f"import colibri; colibri.connect({str(tmp_path / 'db')!r}).close()"], check=True)
        assert time.monotonic() - started < 10


def test_sqlalchemy(tmp_path):
    sa = pytest.importorskip("sqlalchemy")
    from sqlalchemy import orm

    from colibri.sqlalchemy import ColibriDialect

    engine = sa.create_engine(f"colibri:///{tmp_path / 'db'}?durability=nosync")
    assert isinstance(engine.dialect, ColibriDialect)

    class Base(orm.DeclarativeBase):
        pass

    class Nest(Base):
        __tablename__ = "nests"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        place: orm.Mapped[str]
        more = sa.Column(sa.JSON)
        height = sa.Column(sa.Numeric(8, 2))
        birds: orm.Mapped[list["Bird"]] = orm.relationship(back_populates="nest")

    class Bird(Base):
        __tablename__ = "birds"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        name: orm.Mapped[str] = orm.mapped_column(unique=True)
        nest_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("nests.id"))
        nest: orm.Mapped[Nest] = orm.relationship(back_populates="birds")

    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Nest(place="oak", more={"eggs": [1, 2]}, height="3.25", birds=[Bird(name=f"bird {n}") for n in range(200)]))
        session.commit()
        nest = session.scalars(sa.select(Nest)).one()
        assert nest.more == {"eggs": [1, 2]} and str(nest.height) == "3.25" and len(nest.birds) == 200
        found = session.scalars(sa.select(Bird.name).where(Bird.name.like("%9")).order_by(Bird.id)).all()
        assert found[:2] == ["bird 9", "bird 19"]
        session.add(Bird(name="bird 1", nest=nest))
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
        session.rollback()
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["birds", "nests"]
    assert [column["name"] for column in inspector.get_columns("birds")] == ["id", "name", "nest_id"]
    assert inspector.get_foreign_keys("birds")[0]["referred_table"] == "nests"
    # The same statements again, on a connection that has rolled back: names of the catalogue are parameters in them.
    again = sa.inspect(engine)
    assert again.get_foreign_keys("birds")[0]["referred_table"] == "nests" and again.get_pk_constraint("nests")["name"]
    moment = datetime.datetime(2026, 5, 4, 3, 2, 1)
    with engine.connect() as conn:
        assert conn.scalar(sa.select(sa.cast(sa.literal(moment, sa.Date), sa.Text))) == "2026-05-04"
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert set(reflected.tables) == {"birds", "nests"}
    engine.dispose()


def test_a_fresh_copy(tmp_path):
    with colibri.connect(tmp_path / "db", autocommit=True) as conn:
        conn.execute("CREATE TABLE t (a int)")
        with conn.fresh() as copy, copy.fresh(autocommit=True) as other:
            assert copy.autocommit
            copy.execute("INSERT INTO t VALUES (1)")
            assert copy.execute("SELECT count(*) FROM t").fetchone() == (1,)
            assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(colibri.InterfaceError):
        conn.fresh()


def test_branches_of_keys_and_values(tmp_path):
    with colibri.kv.open(tmp_path / "kv") as env:
        with env.begin(write=True) as txn:
            txn.put(b"a", b"1")
        with env.branch("draft") as draft:
            with draft.begin(write=True) as txn:
                txn.put(b"a", b"2")
            with env.begin() as txn:
                assert txn.get(b"a") == b"1"
            with pytest.raises(colibri.Error):
                env.branch("draft")
        with env.branch("draft", create=False) as draft, draft.begin() as txn:
            assert txn.get(b"a") == b"2"
        assert env.branches() == ["main", "draft"]
        env.reset_branch("draft")
        with env.branch("draft", create=False) as draft, draft.begin() as txn:
            assert txn.get(b"a") == b"1"
        env.drop_branch("draft")
        assert env.branches() == ["main"]
        with pytest.raises(colibri.Error):
            env.branch("draft", create=False)


def test_the_fixture_gives_each_test_its_own_database(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def colibri_schema():
            return "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"

        @pytest.mark.parametrize("n", range(3))
        def test_it(colibri_db, n):
            assert colibri_db.execute("SELECT count(*) FROM t").fetchone() == (1,)
            colibri_db.execute("INSERT INTO t VALUES (2)")
            colibri_db.commit()

        def test_a_path(colibri_path):
            import colibri
            with colibri.connect(colibri_path) as conn:
                assert conn.execute("SELECT count(*) FROM t").fetchone() == (1,)

        @pytest.fixture(scope="session")
        def colibri_kv_template(colibri_kv_template):
            with colibri_kv_template.begin(write=True) as txn:
                txn.put(b"a", b"1")
            return colibri_kv_template

        @pytest.mark.parametrize("n", range(2))
        def test_keys(colibri_kv, n):
            with colibri_kv.begin(write=True) as txn:
                assert txn.pop(b"a") == b"1"
        """
    )
    # The plugin is found by its entry point.
    pytester.runpytest_inprocess().assert_outcomes(passed=6)


DOCS = pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md"


@pytest.mark.parametrize("number", range(len(re.findall(r"```python\n", DOCS.read_text())) if DOCS.exists() else 0))
def test_examples_of_the_documentation(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)[number]
    if "sqlalchemy" in example:
        pytest.importorskip("sqlalchemy")
    if "pyarrow" in example:
        pytest.importorskip("pyarrow")
    subprocess.run([sys.executable, "-c", example], check=True)
