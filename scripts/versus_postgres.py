#!/usr/bin/env python3
"""Colibri's server beside PostgreSQL's with pgbench: mixed loads, half a core, start and idleness; medians of rounds in turn.

    scripts/versus_postgres.py target/release/colibri --pg-bin /usr/lib/postgresql/15/bin [--parts select,tpcb,…]

Both servers listen on loopback and keep their files below the same directory, with the durability they have by default
(fsync and synchronous_commit on; Colibri's `sync`). PostgreSQL's settings are those of initdb, but for more connections.
Other load tools, and pgbench with other numbers of clients: scripts/foreign_tools.py.

Needs pgbench and psql, and for `half` the right to make a group of cgroups' first version; as root, PostgreSQL runs as the
user `postgres`. Nothing is left behind.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from foreign_tools import pgbench
from servers import cpu_seconds, family, of_family


def written_bytes(pid):
    return of_family(pid, lambda proc: int(next(line for line in (proc / "io").read_text().splitlines()
                                                if line.startswith("write_bytes")).split()[1]))


def switches(pid):
    def read(proc):
        return sum(int(line.split()[1]) for task in proc.glob("task/*")
                   for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line)

    return of_family(pid, read)


def memory_kb(pid):
    """Proportional set: what processes share is counted once."""
    return of_family(pid, lambda proc: int(next(line for line in (proc / "smaps_rollup").read_text().splitlines()
                                                if line.startswith("Pss:")).split()[1]))


def median(rows, what):
    return statistics.median(row[what] for row in rows)


class Run:
    def __init__(self, arguments, directory):
        self.arguments, self.directory, self.results = arguments, directory, {}
        options = ["--isolation", arguments.isolation] if arguments.isolation else []
        self.servers = [servers.Colibri(arguments.colibri, directory, options), servers.Postgres(arguments.pg_bin, directory)]

    def fill(self, scale):
        for server in self.servers:
            server.psql("DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")
            pgbench(server, "-i", "-q", "-s", scale)
            server.psql("VACUUM ANALYZE" if isinstance(server, servers.Postgres) else "SELECT 1")

    def rounds(self, what, *options):
        """A part in rounds: both servers in turn, another one first each time."""
        rows = {server.name: [] for server in self.servers}
        for server in servers.in_turn(self.servers, self.arguments.rounds):
            rows[server.name].append(pgbench(server, *options, seconds=self.arguments.seconds))
        self.say(what, rows)
        return rows

    def say(self, what, rows):
        self.results[what] = rows
        ours, theirs = (rows[server.name] for server in self.servers)
        print(f"{what}: {median(ours, 'tps'):,.0f} against {median(theirs, 'tps'):,.0f} transactions/s, "
              f"{median(ours, 'tps') / median(theirs, 'tps'):.2f} x; p99 {median(ours, 'p99'):.2f} and "
              f"{median(theirs, 'p99'):.2f} ms; server's CPU {median(ours, 'server_us'):.1f} and "
              f"{median(theirs, 'server_us'):.1f} us, pgbench's {median(ours, 'client_us'):.1f} and "
              f"{median(theirs, 'client_us'):.1f} us a transaction; failed {sum(row['failed'] for row in ours)} and "
              f"{sum(row['failed'] for row in theirs)}", flush=True)

    def select(self):
        self.fill(10)
        for mode in ("prepared", "simple"):
            for clients in (1, 8):
                self.rounds(f"pgbench -S -M {mode}, {clients} clients", "-S", "-M", mode, "-c", clients, "-j", min(clients, 2))

    def tpcb(self):
        for scale in (10, 1):
            self.fill(scale)
            self.rounds(f"pgbench TPC-B, scale {scale}, 8 clients", "-c", 8, "-j", 2)
            self.rounds(f"pgbench TPC-B -M prepared, scale {scale}, 8 clients", "-M", "prepared", "-c", 8, "-j", 2)

    def idle(self):
        for clients in (0, 100):
            for server in self.servers:
                sockets = [connected(server) for _ in range(clients)]
                # What was written last is made steady after ten seconds, and a database that nobody uses is closed after sixty.
                time.sleep(15 if clients else 75)
                before = (cpu_seconds(server.pid), switches(server.pid), written_bytes(server.pid))
                time.sleep(self.arguments.idle)
                after = (cpu_seconds(server.pid), switches(server.pid), written_bytes(server.pid))
                cpu, switched, written = (b - a for a, b in zip(before, after))
                memory = memory_kb(server.pid)
                print(f"idle, {clients} clients, {self.arguments.idle} s: {server.name} {switched} switches, {written} bytes "
                      f"written, {cpu * 100 / self.arguments.idle:.2f} % CPU, {memory / 1024:.1f} MB", flush=True)
                self.results[f"idle, {clients} clients, {server.name}"] = {
                    "switches": switched, "bytes": written, "cpu_seconds": cpu, "memory_kb": memory}
                for connection in sockets:
                    connection.stdin.close()
                    connection.wait()

    def first(self):
        """From the start of the process in an empty directory to the answer of the first query."""
        times = []
        for _ in range(11):
            with tempfile.TemporaryDirectory(dir=self.arguments.dir) as directory:
                server = servers.Colibri(self.arguments.colibri, pathlib.Path(directory))
                began = time.monotonic()
                server.start()
                first_query(server.port)
                times.append((time.monotonic() - began) * 1000)
                server.stop()
        print(f"first query after start: median {statistics.median(times):.1f} ms, {min(times):.1f} to {max(times):.1f}")
        self.results["first query, ms"] = times

    def mixed(self):
        """p99 of point reads at half load, alone and beside queries that would take all there is."""
        self.fill(10)
        query = ("SELECT a.bid, count(*), sum(a.abalance + b.abalance) FROM pgbench_accounts a "
                 "JOIN pgbench_accounts b ON a.aid = b.aid GROUP BY a.bid")
        script = self.directory / "query.sql"
        script.write_text(f"{query};\n\\echo done\n" * 10_000)
        for server in self.servers:
            rate = pgbench(server, "-S", "-M", "prepared", "-c", 8, "-j", 2, seconds=self.arguments.seconds)["tps"] / 2
            alone, beside, queries = [], [], 0
            for _ in range(self.arguments.rounds):
                options = ("-S", "-M", "prepared", "-c", 8, "-j", 2, "-R", int(rate))
                alone.append(pgbench(server, *options, seconds=self.arguments.seconds))
                analyst = subprocess.Popen(["psql", "-XqAt", "-d", server.url(), "-f", script], stdout=subprocess.PIPE, text=True)
                time.sleep(1)
                beside.append(pgbench(server, *options, seconds=self.arguments.seconds))
                analyst.terminate()
                queries += analyst.communicate()[0].count("done")
            what = f"{server.name} beside queries"
            self.results[what] = {"rate": rate, "alone": alone, "beside": beside, "queries": queries}
            print(f"{what}, {rate:,.0f}/s: p99 {median(alone, 'p99'):.2f} alone, {median(beside, 'p99'):.2f} ms beside "
                  f"({median(beside, 'p99') / median(alone, 'p99'):.2f} x), p50 {median(alone, 'p50'):.2f} and "
                  f"{median(beside, 'p50'):.2f}; reached {median(beside, 'tps'):,.0f}/s; {queries} queries", flush=True)

    def half(self):
        """Servers in a group of half a core: throughput beside that of no limit, and latency at half of it."""
        self.fill(10)
        for server in self.servers:
            free = pgbench(server, "-S", "-M", "prepared", "-c", 8, "-j", 2, seconds=self.arguments.seconds)
            group = pathlib.Path(f"/sys/fs/cgroup/cpu/colibri-{os.getpid()}-{server.pid}")
            group.mkdir()
            try:
                (group / "cpu.cfs_period_us").write_text("10000")
                (group / "cpu.cfs_quota_us").write_text("5000")
                move(server, group)
                full, rated = [], []
                for _ in range(self.arguments.rounds):
                    full.append(pgbench(server, "-S", "-M", "prepared", "-c", 8, "-j", 2, seconds=self.arguments.seconds))
                    rate = int(median(full, "tps") / 2)
                    rated.append(pgbench(server, "-S", "-M", "prepared", "-c", 8, "-j", 2, "-R", rate, seconds=self.arguments.seconds))
            finally:
                move(server, group.parent)
                remove(group)
            self.results[f"{server.name} on half a core"] = {"free": free, "full": full, "half load": rated}
            print(f"{server.name} on half a core: {median(full, 'tps'):,.0f}/s of {free['tps']:,.0f} on all, server's CPU "
                  f"{median(full, 'server_us'):.1f} and {free['server_us']:.1f} us; p99 {median(full, 'p99'):.2f} ms; at half "
                  f"of that p50 {median(rated, 'p50'):.2f}, p99 {median(rated, 'p99'):.2f} ms", flush=True)


def remove(group):
    """Removes a group of cgroups, which may still hold a process that is about to end."""
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.1)
    group.rmdir()


def move(server, group):
    """Moves a server to a group of cgroups; new processes follow their parents."""
    for member in family(server.pid):
        try:
            (group / "cgroup.procs").write_text(str(member))
        except ProcessLookupError:
            pass  # A process of PostgreSQL's that has just ended.


def connected(server):
    """A client that has connected, asked once, and does nothing."""
    client = subprocess.Popen(["psql", "-XqAt", "-d", server.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.stdin.write("SELECT 1;\n")
    client.stdin.flush()
    client.stdout.readline()
    return client


def first_query(port):
    """Speaks the protocol itself: the time of psql's own start is not the server's."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        text = b"user\0postgres\0database\0postgres\0\0"
        connection.sendall((len(text) + 8).to_bytes(4, "big") + (196608).to_bytes(4, "big") + text)
        query = b"SELECT 41 + 1\0"
        connection.sendall(b"Q" + (len(query) + 4).to_bytes(4, "big") + query)
        answer = b""
        while b"42" not in answer or not answer.endswith(b"Z\0\0\0\x05I"):
            data = connection.recv(65536)
            if not data:
                sys.exit(f"the server ended the connection after {answer!r}")
            answer += data


PARTS = ["select", "tpcb", "mixed", "half", "first", "idle"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_arguments(parser)
    parser.add_argument("--parts", default="select,tpcb,mixed,half,first,idle")
    parser.add_argument("--isolation", default=None, help="Colibri's, where a client asks for none (default: serializable)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--idle", type=int, default=60, help="seconds of idleness")
    parser.add_argument("--dir", default=None, help="where the servers keep their files")
    parser.add_argument("--json", default=None, help="where all single results go")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts.split(",") if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    servers.check_programs(parser, arguments)
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("rounds and seconds are at least one")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        os.chmod(directory, 0o755)
        run = Run(arguments, pathlib.Path(directory))
        with servers.started(run.servers):
            for part in arguments.parts.split(","):
                getattr(run, part)()
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(run.results, indent=1))


if __name__ == "__main__":
    main()
