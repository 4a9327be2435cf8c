"""DB-API 2.0, statement by statement."""

import datetime
import decimal
import enum
import ipaddress
import pickle
import threading
import time
import uuid

import pytest

import colibri
from colibri import errors


def one(conn, sql, params=None):
    return conn.execute(sql, params).fetchone()[0]


def test_the_module_says_what_it_is():
    assert (colibri.apilevel, colibri.threadsafety, colibri.paramstyle) == ("2.0", 2, "pyformat")
    assert issubclass(colibri.IntegrityError, colibri.DatabaseError)
    assert issubclass(colibri.InterfaceError, colibri.Error)


def test_rows_are_fetched_in_all_ways(conn):
    cursor = conn.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("CREATE TABLE t (a int, b text)")
    assert cursor.description is None
    with pytest.raises(colibri.InterfaceError):
        cursor.fetchone()
    cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(n, f"row {n}") for n in range(10)])
    assert cursor.rowcount == 10
    cursor.execute("SELECT a, b FROM t ORDER BY a")
    assert [column[:2] for column in cursor.description] == [("a", 23), ("b", 25)]
    assert cursor.description[0][1] == colibri.NUMBER and cursor.description[1][1] == colibri.STRING
    assert cursor.rowcount == 10
    assert cursor.fetchone() == (0, "row 0")
    assert cursor.fetchmany() == [(1, "row 1")]
    assert cursor.fetchmany(3) == [(n, f"row {n}") for n in (2, 3, 4)]
    cursor.arraysize = 2
    assert len(cursor.fetchmany()) == 2
    assert next(cursor) == (7, "row 7")
    assert cursor.rownumber == 8
    assert cursor.fetchall() == [(8, "row 8"), (9, "row 9")]
    assert cursor.fetchone() is None and cursor.fetchall() == [] and list(cursor) == []
    assert cursor.statusmessage == "SELECT 10"
    cursor.close()
    with pytest.raises(colibri.InterfaceError):
        cursor.execute("SELECT 1")


def test_many_rows_come_in_order_from_several_blocks(conn):
    rows = conn.execute("SELECT n, repeat('x', 100) FROM generate_series(1, 50000) AS s (n)").fetchall()
    assert [row[0] for row in rows] == list(range(1, 50001))


@pytest.mark.parametrize(
    "cast, value",
    [
        ("bool", True),
        ("int2", -3),
        ("int4", 7),
        ("int8", -(2**63)),
        ("float8", 0.1),
        ("float4", 0.1),
        ("numeric", decimal.Decimal("123456789012345678901234567890.5")),
        ("numeric", decimal.Decimal("NaN")),
        ("text", "naïve \U0001f426"),
        ("bytea", b"\0\1\xff"),
        ("date", datetime.date(1, 1, 1)),
        ("date", datetime.date(9999, 12, 31)),
        ("time", datetime.time(23, 59, 59, 999999)),
        ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 1)),
        ("timestamptz", datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.timezone.utc)),
        ("interval", datetime.timedelta(days=-3, seconds=5, microseconds=7)),
        ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
        ("jsonb", {"a": [1, None, "x"]}),
        ("int[]", [1, None, 3]),
        ("text[]", [["a", "b"], ["c", "d"]]),
        ("int[]", []),
    ],
)
def test_values_come_back_as_they_were(conn, cast, value):
    back = one(conn, f"SELECT %s::{cast}", (value,))
    assert type(back) is type(value)
    # NaN is not equal to itself.
    assert back == value or back != back and value != value


def test_other_values_are_what_they_stand_for(conn):
    class Color(enum.Enum):
        RED = "red"

    class Name(str):
        pass

    zone = datetime.timezone(datetime.timedelta(hours=-5))
    moment = datetime.datetime(2024, 1, 1, 7, 0, tzinfo=zone)
    assert one(conn, "SELECT %s::timestamptz", (moment,)) == moment
    assert one(conn, "SELECT %s::text", (Color.RED,)) == "red"
    assert one(conn, "SELECT %s::text", (Name("x"),)) == "x"
    assert one(conn, "SELECT %s::bytea", (memoryview(b"abc"),)) == b"abc"
    assert one(conn, "SELECT %s::bytea", (bytearray(b"abc"),)) == b"abc"
    assert one(conn, "SELECT %s::inet", (ipaddress.ip_address("10.0.0.1"),)) == "10.0.0.1"
    assert one(conn, "SELECT %s::jsonb", (colibri.Json([1, "x"]),)) == [1, "x"]
    assert one(conn, "SELECT %s::numeric", (2**70,)) == 2**70
    assert one(conn, "SELECT %s", (None,)) is None
    assert one(conn, "SELECT '1 year 2 mons 3 days'::interval") == datetime.timedelta(days=365 + 60 + 3)
    assert one(conn, "SELECT int4range(1, 5)") == "[1,5)"
    with pytest.raises(TypeError):
        one(conn, "SELECT %s", (object(),))


@pytest.mark.parametrize("text", ["'infinity'::date", "'10000-01-01'::date", "'-infinity'::timestamptz", "'24:00'::time"])
def test_what_python_has_no_date_for_is_an_error(conn, text):
    cursor = conn.execute(f"SELECT {text}")
    with pytest.raises(errors.DatetimeFieldOverflow):
        cursor.fetchone()


def test_placeholders(conn):
    assert conn.execute("SELECT %s + 1, '%%', %s", (1, "x")).fetchone() == (2, "%", "x")
    assert conn.execute("SELECT %(b)s, %(a)s, %(b)s", {"a": "1", "b": "2", "c": 3}).fetchone() == ("2", "1", "2")
    assert conn.execute("SELECT $2::int, $1::int", (1, 2)).fetchone() == (2, 1)
    assert conn.execute("SELECT 'a%s', 5 % 3").fetchone() == ("a%s", 2)
    for sql, params in [
        ("SELECT %s, %(a)s", {"a": 1}),
        ("SELECT %d", (1,)),
        ("SELECT %(a)", {"a": 1}),
        ("SELECT %(a)s", {"b": 1}),
        ("SELECT %s::int, %s::int", (1,)),
        ("SELECT %s::int", (1, 2)),
    ]:
        with pytest.raises(colibri.Error):
            conn.execute(sql, params)
        conn.rollback()
    for sql, params in [("SELECT %(a)s", (1,)), ("SELECT %s", "x"), ("SELECT %s", {"a": 1}), ("SELECT %s", 5)]:
        with pytest.raises(TypeError):
            conn.execute(sql, params)


def test_errors_are_classes_by_their_code(conn):
    conn.execute("CREATE TABLE birds (name text PRIMARY KEY, grams int CHECK (grams > 0))")
    conn.execute("INSERT INTO birds VALUES ('bee', 2)")
    conn.commit()
    with pytest.raises(errors.UniqueViolation) as caught:
        conn.execute("INSERT INTO birds VALUES (%s, 3)", ("bee",))
    error = caught.value
    assert isinstance(error, colibri.IntegrityError) and error.sqlstate == "23505"
    assert (error.diag.constraint_name, error.diag.table_name) == ("birds_pkey", "birds")
    assert "(name)=(bee)" in error.diag.message_detail and error.diag.column_name is None
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.UniqueViolation and copy.diag.constraint_name == "birds_pkey" and str(copy) == str(error)
    assert conn.transaction_status == "failed"
    with pytest.raises(errors.InFailedSqlTransaction):
        conn.execute("SELECT 1")
    with pytest.raises(errors.InFailedSqlTransaction):
        conn.commit()
    for sql, expected in [
        ("INSERT INTO birds VALUES ('x', -1)", errors.CheckViolation),
        ("SELECT nothing", errors.UndefinedColumn),
        ("SELECT * FROM nothing", errors.UndefinedTable),
        ("SELEC 1", errors.SyntaxError),
        ("SELECT 1 / 0", errors.DivisionByZero),
        ("SELECT 'x'::int", errors.InvalidTextRepresentation),
    ]:
        with pytest.raises(expected) as caught:
            conn.execute(sql)
        assert isinstance(caught.value, colibri.DatabaseError)
        conn.rollback()
    with pytest.raises(colibri.ProgrammingError) as caught:
        conn.execute("SELECT 1 + nothing")
    assert caught.value.diag.statement_position == "12"
    assert errors.lookup("40001") is errors.SerializationFailure and issubclass(errors.DeadlockDetected, errors.Retryable)


def test_transactions(tmp_path):
    with colibri.connect(tmp_path / "db") as conn:
        conn.execute("CREATE TABLE t (a int)")
    assert conn.closed
    with pytest.raises(colibri.InterfaceError):
        conn.execute("SELECT 1")
    with pytest.raises(ZeroDivisionError):
        with colibri.connect(tmp_path / "db") as conn:
            conn.execute("INSERT INTO t VALUES (1)")
            1 / 0
    with colibri.connect(tmp_path / "db", autocommit=True) as conn:
        assert one(conn, "SELECT count(*) FROM t") == 0
        conn.execute("INSERT INTO t VALUES (2)")
        assert conn.transaction_status == "idle"
        conn.execute("BEGIN")
        with pytest.raises(errors.ActiveSqlTransaction):
            conn.autocommit = False
        conn.rollback()
        # All of them, or none.
        with pytest.raises(errors.InvalidTextRepresentation):
            conn.executemany("INSERT INTO t VALUES (%s)", [(3,), ("x",)])
        assert conn.transaction_status == "idle"
        conn.executemany("INSERT INTO t VALUES (%s)", ([n] for n in range(2500)))
        assert one(conn, "SELECT count(*) FROM t") == 2501
    with colibri.connect(tmp_path / "db") as conn:
        conn.isolation_level = "read committed"
        assert one(conn, "SHOW transaction_isolation") == "read committed"
        conn.rollback()
        conn.isolation_level = None
        with pytest.raises(colibri.ProgrammingError):
            conn.isolation_level = "none"


def test_a_transaction_runs_again_after_a_conflict(tmp_path):
    path = tmp_path / "db"
    with colibri.connect(path, durability="nosync") as conn:
        conn.execute("CREATE TABLE t (a int)")
        conn.execute("INSERT INTO t VALUES (0)")
    one_, other = colibri.connect(path), colibri.connect(path)
    runs = []

    def add(conn):
        runs.append(conn)
        value = one(conn, "SELECT a FROM t")
        if len(runs) == 1:
            other.execute("UPDATE t SET a = a + 10")
            other.commit()
        conn.execute("UPDATE t SET a = %s", (value + 1,))

    one_.transaction(add)
    assert len(runs) == 2 and one(other, "SELECT a FROM t") == 11
    one_.close(), other.close()


def test_several_statements_in_one_text(conn):
    conn.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert one(conn, "SELECT count(*) FROM t") == 2
    conn.executescript("DELETE FROM t; INSERT INTO t VALUES (3)")
    assert conn.execute("SELECT a FROM t").fetchall() == [(3,)]


def test_copy(conn):
    conn.execute("CREATE TABLE t (a int, b text)")
    rows = [(1, "a\tb\\c\nd"), (2, None), (3, "")]
    with conn.copy("COPY t FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    assert copy.rowcount == 3
    assert conn.execute("SELECT * FROM t ORDER BY a").fetchall() == rows
    with conn.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
        copy.write("4,x\n5,")
        copy.write(b"y\n")
    with conn.copy("COPY (SELECT a FROM t ORDER BY a) TO STDOUT") as copy:
        assert b"".join(copy) == b"1\n2\n3\n4\n5\n"
    conn.commit()
    with pytest.raises(ZeroDivisionError):
        with conn.copy("COPY t FROM STDIN") as copy:
            copy.write("6\tz\n")
            1 / 0
    conn.rollback()
    with pytest.raises(errors.InvalidTextRepresentation):
        with conn.copy("COPY t FROM STDIN") as copy:
            copy.write("x\tz\n")
    conn.rollback()
    assert one(conn, "SELECT count(*) FROM t") == 5


def test_listen(tmp_path):
    listener = colibri.connect(tmp_path / "db", autocommit=True, durability="nosync")
    other = colibri.connect(tmp_path / "db", autocommit=True)
    listener.execute("LISTEN nests")
    assert list(listener.notifies()) == [] and list(listener.notifies(0.01)) == []
    thread = threading.Timer(0.05, other.execute, ("NOTIFY nests, 'two eggs'",))
    thread.start()
    (told,) = listener.notifies(60)
    thread.join()
    assert (told.channel, told.payload) == ("nests", "two eggs")
    listener.execute("DROP TABLE IF EXISTS nothing")
    ((severity, notice),) = listener.notices
    assert severity == "NOTICE" and "nothing" in notice["message_primary"]
    listener.close(), other.close()


def test_a_statement_is_cancelled_from_another_thread(conn):
    thread = threading.Timer(0.1, conn.cancel)
    thread.start()
    with pytest.raises(errors.QueryCanceled):
        conn.execute("SELECT count(*) FROM generate_series(1, 1000000000000)")
    thread.join()


def test_others_run_while_a_statement_waits(conn):
    ticks = []
    thread = threading.Thread(target=lambda: conn.execute("SELECT pg_sleep(0.5)"))
    thread.start()
    while thread.is_alive():
        ticks.append(1)
        time.sleep(0.01)
    assert len(ticks) > 10


def test_threads_share_a_connection(conn):
    conn.execute("CREATE TABLE t (a int)")

    def insert(base):
        for n in range(200):
            conn.execute("INSERT INTO t VALUES (%s)", (base + n,))

    threads = [threading.Thread(target=insert, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one(conn, "SELECT count(DISTINCT a) FROM t") == 800


def test_names_in_parameters_are_looked_up(conn):
    # Not only by the first statement: a rollback and settings take away what the last one had of the catalogue.
    for before in ("SELECT 1", "SET timezone = 'UTC'", "SET TRANSACTION READ ONLY"):
        conn.execute(before)
        conn.rollback()
        found = conn.execute("SELECT %s::regclass::oid, %s::regtype::text", ("pg_catalog.pg_class", "int4")).fetchone()
        assert found == (1259, "integer"), before
