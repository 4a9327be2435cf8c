"""What programs do with psycopg 3: parameters, types, transactions, pipelines, COPY, cursors, errors."""

import datetime
import decimal
import logging
import threading
import uuid

import psycopg
from psycopg.rows import dict_row

# It writes down that a pipeline ends in an error, if it has been told of it by then.
logging.disable(logging.CRITICAL)

with psycopg.connect() as conn:
    conn.execute("CREATE TABLE t (id serial PRIMARY KEY, n bigint, x float8, d numeric(10,2), s text, b bytea,"
                 " day date, at timestamptz, ok boolean, u uuid)")
    conn.commit()
    values = (7, 1.5, decimal.Decimal("12.30"), "ä'\"\\", b"\x00\xff", datetime.date(2024, 2, 29),
              datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc), True, uuid.UUID(int=5))
    insert = "INSERT INTO t (n, x, d, s, b, day, at, ok, u) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id"
    assert conn.execute(insert, values).fetchone() == (1,)
    for binary in (False, True):
        row = conn.cursor(binary=binary).execute("SELECT n, x, d, s, b, day, at, ok, u FROM t").fetchone()
        assert row == values, row
    conn.rollback()
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)

    # Prepared from the sixth time on.
    for n in range(20):
        conn.execute("INSERT INTO t (n) VALUES (%s)", (n,))
    conn.commit()
    assert conn.execute("SELECT sum(n) FROM t WHERE n < %s", (10,)).fetchone() == (45,)

    # Nested transactions are savepoints.
    with conn.transaction():
        conn.execute("DELETE FROM t")
        try:
            with conn.transaction():
                conn.execute("SELECT 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
        raise psycopg.Rollback()
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (20,)
    conn.commit()

    try:
        conn.execute("SELECT nope FROM t")
        raise AssertionError("no error")
    except psycopg.errors.UndefinedColumn as error:
        assert error.diag.sqlstate == "42703" and error.diag.statement_position == "8"
    try:
        conn.execute("SELECT 1")
        raise AssertionError("no error")
    except psycopg.errors.InFailedSqlTransaction:
        conn.rollback()

    # A batch is a pipeline.
    cursor = conn.cursor()
    cursor.executemany("INSERT INTO t (n, s) VALUES (%s, %s)", [(n, str(n)) for n in range(100, 400)])
    assert cursor.rowcount == 300
    conn.commit()
    with conn.pipeline():
        cursors = [conn.execute("SELECT %s::int + 1", (n,)) for n in range(50)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(1, 51))
    conn.commit()

    # A pipeline that fails in its middle, and what comes behind it.
    for _ in range(3):
        try:
            with conn.pipeline():
                for divisor in (1, 0, 2):
                    conn.execute("SELECT 1 / %s::int", (divisor,))
            raise AssertionError("no error")
        except psycopg.errors.DivisionByZero:
            conn.rollback()
        assert conn.execute("SELECT 3").fetchone() == (3,)
        conn.rollback()

    with conn.cursor() as cursor:
        with cursor.copy("COPY t (n, s) FROM STDIN") as copy:
            for n in range(1000, 2000):
                copy.write_row((n, "line\t%d\n" % n))
        with cursor.copy("COPY (SELECT n, s FROM t WHERE n >= 1000 ORDER BY n) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8", "text"])
            rows = list(copy.rows())
        assert rows == [(n, "line\t%d\n" % n) for n in range(1000, 2000)], rows[:3]
    conn.commit()

    conn.row_factory = dict_row
    assert conn.execute("SELECT 1 AS one, NULL AS none").fetchone() == {"one": 1, "none": None}

    timer = threading.Timer(0.2, conn.cancel)
    timer.start()
    try:
        conn.execute("SELECT count(*) FROM generate_series(1, 1000000000000)")
        raise AssertionError("no error")
    except psycopg.errors.QueryCanceled:
        conn.rollback()

# A cursor with a name is one of the server's, which gives its rows as they are asked for.
with psycopg.connect() as conn:
    with conn.cursor(name="by \"name\"") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT n, s FROM t WHERE n >= %s ORDER BY n", (1000,))
        assert [column.name for column in cursor.description] == ["n", "s"]
        assert cursor.fetchone()[0] == 1000
        assert [n for n, _ in cursor.fetchmany(3)] == [1001, 1002, 1003]
        assert [n for n, _ in cursor] == list(range(1004, 2000))
        assert cursor.fetchone() is None
    # More than anybody would wait for.
    with conn.cursor(name="endless", binary=True) as cursor:
        cursor.execute("SELECT g FROM generate_series(1, 1000000000000) AS g (g)")
        assert cursor.fetchmany(5) == [(1,), (2,), (3,), (4,), (5,)]
    with conn.cursor(name="both ways", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM t WHERE n >= 1000 ORDER BY n")
        assert len(cursor.fetchall()) == 1000
        cursor.scroll(10, mode="absolute")
        assert cursor.fetchone() == (1010,)
        cursor.scroll(-3)
        assert cursor.fetchone() == (1008,)
    # What is written while it is read does not show in it.
    with conn.cursor(name="steady") as cursor:
        cursor.execute("SELECT n FROM t WHERE n >= 1000 ORDER BY n")
        for n, in cursor:
            if n % 100 == 0:
                conn.execute("INSERT INTO t (n) VALUES (%s)", (n + 5000,))
            assert n < 2000
    with conn.cursor(name="never executed"):
        conn.execute("SELECT 1")
    conn.rollback()

# One writer of two goes on: serializable transactions that conflict are told so.
with psycopg.connect() as one, psycopg.connect() as two:
    for conn in (one, two):
        conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        conn.execute("SELECT sum(n) FROM t").fetchone()
    one.execute("INSERT INTO t (n) VALUES (-1)")
    two.execute("INSERT INTO t (n) VALUES (-2)")
    one.commit()
    try:
        two.commit()
        raise AssertionError("both have committed")
    except psycopg.errors.SerializationFailure:
        pass

print("ok")
