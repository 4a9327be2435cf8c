"""Answers requests for a database file of DuckDB or SQLite: a line of JSON each, as outer.rs describes."""

import json
import os
import sys

engine, path = sys.argv[1:]

# Answers go where standard output went. What a package prints by itself, such as how far a query is, goes elsewhere.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

if engine == "duckdb":
    import duckdb

    connection = duckdb.connect(path)
    connection.execute("SET enable_progress_bar = false")
    version = duckdb.__version__
else:
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA cache_size = -1048576")
    version = sqlite3.sqlite_version


def copy(into, file):
    if engine == "duckdb":
        options = "FORMAT csv, DELIMITER '\t', NULLSTR '\\N', HEADER false, QUOTE '', ESCAPE '', AUTO_DETECT false"
        return connection.execute(f"COPY {into} FROM '{file}' ({options})").fetchone()[0]
    with open(file, encoding="utf-8", newline="\n") as lines:
        rows = [[None if cell == "\\N" else cell for cell in line.rstrip("\n").split("\t")] for line in lines]
    if rows:
        places = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {into} VALUES ({places})", rows)
    return len(rows)


def answer(request):
    if "version" in request:
        return {"rows": [[version]]}
    if "copy" in request:
        return {"affected": copy(request["copy"], request["file"])}
    cursor = connection.execute(request["sql"])
    if cursor.description is None:
        return {"affected": max(cursor.rowcount, 0)}
    rows = cursor.fetchall()
    # DuckDB tells as a row how many rows a change has changed.
    is_count = engine == "duckdb" and cursor.description[0][0] == "Count" and len(rows) == 1
    affected = rows[0][0] if is_count else len(rows)
    return {"rows": [[None if cell is None else str(cell) for cell in row] for row in rows], "affected": affected}


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except Exception as error:  # Whatever the package raises is the answer.
        told = {"error": str(error)}
    print(json.dumps(told), file=answers, flush=True)
