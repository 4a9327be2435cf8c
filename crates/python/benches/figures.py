"""What the Python package costs, beside sqlite3 and DuckDB: `figures.py DIRECTORY ROUNDS`, run by scripts/embedded-figures.

Durability is equal: commits are not flushed, on either side. Each figure is a median, and each ratio one of ratios of a round.
"""

import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time

import colibri

ROWS = 100_000
DATA = [(n, f"name {n % 1000}", n * 0.5) for n in range(ROWS)]


def fresh(directory, name):
    path = os.path.join(directory, name)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):
        os.unlink(path)
    return path


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def executemany_colibri(directory):
    with colibri.connect(fresh(directory, "colibri"), durability="nosync") as conn:
        conn.execute("CREATE TABLE t (id int PRIMARY KEY, name text, x float8)")
        conn.commit()

        def run():
            conn.executemany("INSERT INTO t VALUES (%s, %s, %s)", DATA)
            conn.commit()

        return timed(run)


def executemany_sqlite(directory):
    conn = sqlite3.connect(fresh(directory, "sqlite"))
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = OFF")
    conn.execute("CREATE TABLE t (id integer PRIMARY KEY, name text, x real)")
    conn.commit()

    def run():
        conn.executemany("INSERT INTO t VALUES (?, ?, ?)", DATA)
        conn.commit()

    taken = timed(run)
    conn.close()
    return taken


def point_query(directory):
    """Microseconds of a query of one row by its key, with `autocommit`."""
    with colibri.connect(os.path.join(directory, "colibri"), durability="nosync", autocommit=True) as conn:
        cursor = conn.cursor()

        def run():
            for n in range(20_000):
                cursor.execute("SELECT name FROM t WHERE id = %s", (n * 37 % ROWS,)).fetchone()

        run()
        return timed(run) / 20_000 * 1e6


def import_and_open(directory):
    """Milliseconds that a process takes longer that imports the package and opens a database."""
    path = os.path.join(directory, "colibri")
    one = f"import colibri; colibri.connect({path!r}).close()"
    run = lambda code: timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))  # noqa: E731
    return (run(one) - run("pass")) * 1e3


def arrow_colibri(directory):
    import pyarrow

    with colibri.connect(os.path.join(directory, "colibri"), durability="nosync") as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS big AS SELECT n AS id, 'name ' || n % 1000 AS name, n * 0.5::float8 AS x FROM generate_series(1, 1000000) AS s (n)")
        conn.commit()
        return timed(lambda: pyarrow.table(conn.arrow("SELECT id, name, x FROM big")))


def arrow_duckdb(directory):
    import duckdb

    path = os.path.join(directory, "duckdb")
    is_new = not os.path.exists(path)
    with duckdb.connect(path, config={"threads": 1}) as conn:
        if is_new:
            conn.execute("CREATE TABLE big AS SELECT n::int AS id, 'name ' || n % 1000 AS name, n * 0.5::double AS x FROM generate_series(1, 1000000) AS s (n)")
        # The method's name has changed.
        name = "to_arrow_table" if hasattr(conn, "to_arrow_table") else "fetch_arrow_table"
        return timed(lambda: getattr(conn.execute("SELECT id, name, x FROM big"), name)())


def beside(what, ours, theirs, name, directory, rounds):
    try:
        pairs = [(ours(directory), theirs(directory)) for _ in range(rounds)]
    except ImportError as missing:
        print(f"Python, {what}: not measured, {missing}")
        return
    ratios = [theirs / ours for ours, theirs in pairs]
    mine, other = (statistics.median(side) * 1e3 for side in zip(*pairs))
    print(
        f"Python, {what}: Colibri {mine:.1f} ms, {name} {other:.1f} ms; "
        f"speed as a ratio: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
    )


def main(directory, rounds):
    beside("executemany of 100,000 rows", executemany_colibri, executemany_sqlite, "sqlite3", directory, rounds)
    queries = [point_query(directory) for _ in range(rounds)]
    print(f"Python, a query of a row by its key: {statistics.median(queries):.1f} µs")
    opened = [import_and_open(directory) for _ in range(rounds)]
    print(f"Python, import and open: {statistics.median(opened):.1f} ms")
    beside("1,000,000 rows to Arrow", arrow_colibri, arrow_duckdb, "DuckDB with one thread", directory, rounds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
