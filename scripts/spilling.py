#!/usr/bin/env python3
"""Sorts, joins and groups over ten times work_mem: Colibri's server beside PostgreSQL's, in turn, medians of the rounds.

    scripts/spilling.py target/release/colibri [--pg-bin /usr/lib/postgresql/15/bin] [--rows 400000] [--work-mem 4MB] [--rounds 3]

Both servers listen on loopback and keep their files below the same directory. PostgreSQL runs without parallel workers and
without JIT, as Colibri runs a statement on one thread, and both with the same work_mem. Each statement gives one row, which has to be the same from both.
With the rows and the work_mem above, what a statement keeps is at least ten times work_mem in both. Needs psql; as root, PostgreSQL runs as the user `postgres`.
Nothing is left behind.
"""

import argparse
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

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


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def psql(port, text):
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{text}\n{done.stderr}")
    return done.stdout


def timed(port, work_mem, statement):
    said = psql(port, f"SET work_mem = '{work_mem}';\n\\timing on\n{statement};\n")
    rows, time = re.fullmatch(r"(?s)(.*)Time: ([0-9.]+) ms.*", said).groups()
    return rows.strip(), float(time)


def start_postgres(bindir, directory):
    data = directory / "postgres"
    data.mkdir()
    as_user = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(data, user.pw_uid, user.pw_gid)
        directory.chmod(0o755)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    subprocess.run([*as_user, f"{bindir}/initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8"],
                   check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_parallel_workers_per_gather": 0,
                "jit": "off", "autovacuum": "off", "shared_buffers": "256MB"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    process = subprocess.Popen([*as_user, f"{bindir}/postgres", "-D", str(data), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, port


def start_colibri(binary, directory):
    port = free_port()
    process = subprocess.Popen([binary, "serve", str(directory / "colibri"), "--listen", f"127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, port


def wait_for(port):
    for _ in range(200):
        if subprocess.run(["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres", "-c", "SELECT 1"],
                          capture_output=True).returncode == 0:
            return
        subprocess.run(["sleep", "0.1"])
    raise SystemExit("a server did not start")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("colibri")
    parser.add_argument("--pg-bin", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--work-mem", default="4MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="statements whose names contain this")
    args = parser.parse_args()
    if not os.access(args.colibri, os.X_OK):
        sys.exit(f"{args.colibri} is no program that can be run")
    if args.rows < 1 or args.rounds < 1:
        sys.exit("--rows and --rounds are at least 1")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spilling"))
    servers = {}
    try:
        servers["Colibri"] = start_colibri(args.colibri, directory)
        servers["PostgreSQL"] = start_postgres(args.pg_bin, directory)
        for _, port in servers.values():
            wait_for(port)
            psql(port, TABLES.format(rows=args.rows))
        print(f"{args.rows} rows, work_mem {args.work_mem}, medians of {args.rounds} rounds, ms\n")
        print("| statement | PostgreSQL | Colibri | times |\n| --- | ---: | ---: | ---: |")
        for name, statement in STATEMENTS.items():
            if args.only not in name:
                continue
            times, rows = {}, {}
            for _ in range(args.rounds):
                for server, (_, port) in servers.items():
                    rows[server], time = timed(port, args.work_mem, statement)
                    times.setdefault(server, []).append(time)
            if len(set(rows.values())) != 1:
                raise SystemExit(f"{name}: {rows}")
            theirs, ours = statistics.median(times["PostgreSQL"]), statistics.median(times["Colibri"])
            print(f"| {name} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} |", flush=True)
    finally:
        for process, _ in servers.values():
            process.send_signal(signal.SIGINT)
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
