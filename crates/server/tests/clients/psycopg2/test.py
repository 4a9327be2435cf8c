"""What programs do with psycopg2: parameters, errors and what follows them, cursors by name, COPY, notices."""

import io

import psycopg2
import psycopg2.errors
import psycopg2.extras

conn = psycopg2.connect("")
with conn, conn.cursor() as cursor:
    cursor.execute("CREATE TABLE t (id serial PRIMARY KEY, s text, tags text[])")
    psycopg2.extras.execute_values(cursor, "INSERT INTO t (s, tags) VALUES %s", [(str(n), ["a", str(n)]) for n in range(500)])
    cursor.execute("SELECT s, tags FROM t WHERE id = %s", (3,))
    assert cursor.fetchone() == ("2", ["a", "2"])

# Rows piece by piece, by a cursor of the server.
with conn, conn.cursor("some rows") as cursor:
    cursor.itersize = 100
    cursor.execute("SELECT id FROM t ORDER BY id")
    with conn.cursor() as other:
        other.execute("DELETE FROM t WHERE id = 400")
    assert sum(1 for _ in cursor) == 500
with conn, conn.cursor("scrolled", scrollable=True) as cursor:
    cursor.execute("SELECT id FROM t ORDER BY id")
    assert [row[0] for row in cursor.fetchmany(3)] == [1, 2, 3]
    cursor.scroll(-2)
    assert cursor.fetchone() == (2,)

try:
    with conn, conn.cursor() as cursor:
        cursor.execute("INSERT INTO t (id) VALUES (1)")
    raise AssertionError("no error")
except psycopg2.errors.UniqueViolation as error:
    assert error.diag.constraint_name == "t_pkey"
with conn, conn.cursor() as cursor:
    cursor.copy_expert("COPY t (s) FROM STDIN WITH CSV DELIMITER AS ';'", io.StringIO("x\ny\n"))
    cursor.copy_from(io.StringIO("tab\tabbed\n".replace("\t", "\\t")), "t", columns=("s",))
    out = io.StringIO()
    cursor.copy_to(out, "t", columns=("s",), null="-")
    assert out.getvalue().endswith("x\ny\ntab\\tabbed\n")
    # psycopg2 sends as one text what others send one by one.
    cursor.execute("INSERT INTO t (s) VALUES ('z'); SELECT count(*) FROM t")
    assert cursor.fetchone() == (503,)
conn.autocommit = True
with conn.cursor() as cursor:
    cursor.execute("COMMIT")
    assert "there is no transaction in progress" in conn.notices[-1]
    cursor.execute("SELECT pg_advisory_lock(%s), pg_try_advisory_xact_lock(%s, %s)", (1, 2, 3))
    assert cursor.fetchone() == ("", True)
conn.reset()
conn.close()
print("ok")
