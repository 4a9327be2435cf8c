#!/usr/bin/env python3
"""Sorts, joins and groups over ten times work_mem: Colibri's server beside PostgreSQL's, in turn, medians of the rounds.

    scripts/spilling.py target/release/colibri [--pg-bin /usr/lib/postgresql/15/bin] [--rows 400000] [--work-mem 4MB] [--rounds 3]

Both servers listen on loopback and keep their files below the same directory. PostgreSQL runs without parallel workers and
without JIT, as Colibri runs a statement on one thread, and both with the same work_mem. Each statement gives one row, which has to be the same from both.
With the rows and the work_mem above, what a statement keeps is at least ten times work_mem in both. Needs psql; as root, PostgreSQL runs as the user `postgres`.
Nothing is left behind.
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

import servers

TABLES = """
CREATE TABLE a (i int PRIMARY KEY, g int, t text);
INSERT INTO a SELECT i, (i::bigint * 7919 % {rows})::int, md5(i::text) FROM generate_series(1, {rows}) i;
CREATE TABLE b (i int PRIMARY KEY, g int, t text);
INSERT INTO b SELECT i, (i::bigint * 104729 % {rows})::int, md5((i + {rows} / 2)::text) FROM generate_series(1, {rows}) i;
ANALYZE;
"""

STATEMENTS = {
    "sort by a text": "SELECT count(*), max(t) FROM (SELECT i, g, t FROM a ORDER BY t COLLATE \"C\" OFFSET 1) x",
    "sort by a number": "SELECT count(*), max(t) FROM (SELECT i, g, t FROM a ORDER BY g, i OFFSET 1) x",
    "join": "SELECT count(*), sum(a.i), sum(b.i) FROM a JOIN b ON a.t = b.t AND length(a.t) + length(b.t) > 0",
    "left join": "SELECT count(*), sum(a.i), sum(b.i), max(b.t) FROM a LEFT JOIN b ON a.t = b.t",
    "full join": "SELECT count(*), sum(a.i), sum(b.i), max(b.t) FROM a FULL JOIN b ON a.t = b.t",
    "group by a text": "SELECT count(*), sum(c), max(m) FROM (SELECT t, count(*) AS c, max(g) AS m FROM a GROUP BY t) x",
    "group by a number": "SELECT count(*), sum(c), max(m) FROM (SELECT g, count(*) AS c, max(t) AS m FROM a GROUP BY g) x",
    "distinct": "SELECT count(*), max(t) FROM (SELECT DISTINCT g, t FROM a) x",
    "count distinct": "SELECT count(DISTINCT t) FROM a",
    "except": "SELECT count(*), max(t) FROM (SELECT t FROM a EXCEPT SELECT t FROM b) x",
    "read twice": "WITH w AS MATERIALIZED (SELECT i, t FROM a) SELECT count(*), max(x.t) FROM w x JOIN w y ON x.i = y.i + 1",
}


# Both run a statement on one thread, and nothing runs beside it.
POSTGRES_SETTINGS = {"max_parallel_workers_per_gather": 0, "jit": "off", "autovacuum": "off", "shared_buffers": "256MB"}


def timed(server, work_mem, statement):
    said = server.psql(f"SET work_mem = '{work_mem}';\n\\timing on\n{statement};\n")
    rows, time_ms = re.fullmatch(r"(?s)(.*)Time: ([0-9.]+) ms.*", said).groups()
    return rows.strip(), float(time_ms)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_arguments(parser)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--work-mem", default="4MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="statements whose names contain this")
    args = parser.parse_args()
    servers.check_programs(parser, args)
    if args.rows < 1 or args.rounds < 1:
        parser.error("--rows and --rounds are at least 1")
    with tempfile.TemporaryDirectory(prefix="spilling") as directory:
        path = pathlib.Path(directory)
        path.chmod(0o755)
        both = [servers.Colibri(args.colibri, path),
                servers.Postgres(args.pg_bin, path, POSTGRES_SETTINGS, ["-E", "UTF8", "--locale=C.UTF-8"])]
        with servers.started(both):
            compare(args, both)


def compare(args, both):
    for server in both:
        server.psql(TABLES.format(rows=args.rows))
    print(f"{args.rows} rows, work_mem {args.work_mem}, medians of {args.rounds} rounds, ms\n")
    print("| statement | PostgreSQL | Colibri | times |\n| --- | ---: | ---: | ---: |")
    for name, statement in STATEMENTS.items():
        if args.only not in name:
            continue
        times_ms, rows = {}, {}
        for server in servers.in_turn(both, args.rounds):
            rows[server.name], time_ms = timed(server, args.work_mem, statement)
            times_ms.setdefault(server.name, []).append(time_ms)
        if len(set(rows.values())) != 1:
            sys.exit(f"{name}: {rows}")
        theirs, ours = (statistics.median(times_ms[server]) for server in ("PostgreSQL", "Colibri"))
        print(f"| {name} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
