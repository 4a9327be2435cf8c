#!/usr/bin/env python3
"""Load tools that others wrote, as they are published, against Colibri and PostgreSQL in turn; medians and ratios.

    scripts/foreign_tools.py target/release/colibri
    scripts/foreign_tools.py target/release/colibri --tools sysbench,pgbench --tests "oltp_read|TPC-B" --time 10 --repeat 5
    scripts/foreign_tools.py target/release/colibri --min-ratio 1.5 --min-ratio 'go-tpc: TPC-C=3' --json foreign.json

Both servers run side by side for the whole time, listen on loopback, and keep their files in one directory. They are as
durable as they are by default, and have the same isolation level. A line is a tool, a test and a number of clients; each round runs it on
both servers in turn. Lines beside a busy process have another process on the machine that computes without end.
The output is a table for docs/BENCHMARKS.md; `scripts/benchmark_tables.py foreign` makes it again from the JSON.

Ratios are Colibri's throughput over PostgreSQL's, or PostgreSQL's time over Colibri's: above 1, Colibri is faster. CPU is that
of the server's processes.

Tools are found in PATH; a tool that is missing is named and skipped. The script's own directory of tools (--tools-dir) is
searched first. `--install` puts the tools there that are not system packages. By hand:

    sysbench   apt-get install sysbench
    pgbench    apt-get install postgresql-contrib, or the package of PostgreSQL's server
    go-tpc     go install github.com/pingcap/go-tpc/cmd/go-tpc@{go_tpc}
    go-ycsb    in an empty directory, as its go.mod replaces a module, which `go install` refuses:
                 go mod init ycsb
                 go mod edit -replace {thrift}
                 go get github.com/pingcap/go-ycsb/cmd/go-ycsb@{go_ycsb}
                 go install github.com/pingcap/go-ycsb/cmd/go-ycsb
    psycopg    pip install 'psycopg[binary]', for the python3 that runs this script
    jdbc       a JDK, and in --tools-dir: {jars}
                 (mvn dependency:copy -Dartifact=… -DoutputDirectory=…)

Exit code: 0, or 1 if a run failed, a ratio is below --min-ratio, or nothing was measured; 2 for wrong arguments.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import benchmark_tables
import servers

GO_TPC, GO_YCSB = "v1.0.12", "v1.0.3"
# What go-ycsb's own go.mod says.
THRIFT = "github.com/apache/thrift=github.com/apache/thrift@v0.0.0-20171203172758-327ebb6c2b6d"
JARS = ["com.zaxxer:HikariCP:5.1.0", "org.postgresql:postgresql:42.7.4", "org.slf4j:slf4j-api:2.0.13"]

SYSBENCH_ROWS = 100_000
PGBENCH_SCALE = 10
TPCC_WAREHOUSES = 1
YCSB_RECORDS = 10_000
# How long a run may take beyond its time, and a preparation at all.
HANG_S = 60
PREPARE_S_MAX = 900


class Failed(Exception):
    """A tool that did not end well: what it said, or that it hangs."""


def run(command, timeout_s, env=None, cwd=None, interrupt_after_s=None):
    """What a command prints. It and what it started end with it, also when it hangs."""
    shown = " ".join(map(str, command))
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env=env, cwd=cwd)
        try:
            if interrupt_after_s:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(interrupt_after_s)
                process.send_signal(signal.SIGINT)
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read()
    if code is None:
        raise Failed(f"`{shown}` did not end within {timeout_s:.0f} s: {last_lines(text)}")
    if code != 0:
        raise Failed(f"`{shown}` ended with {code}: {last_lines(text)}")
    return text


def last_lines(text):
    return " / ".join(line.strip() for line in text.strip().splitlines()[-5:])[:600]


def measured(server, command, seconds=None, **how):
    """What a command prints, with the CPU seconds of the server and the seconds that passed."""
    before, began = servers.cpu_seconds(server.pid), time.monotonic()
    text = run(command, (seconds or PREPARE_S_MAX) + HANG_S, **how)
    return text, servers.cpu_seconds(server.pid) - before, time.monotonic() - began


def rated(rate, cpu_s, operations, p95_ms, p99_ms, errors=0):
    if operations == 0:
        raise Failed("it did nothing")
    return {"rate": rate, "p95_ms": p95_ms, "p99_ms": p99_ms, "cpu_us": cpu_s * 1e6 / operations, "errors": errors}


def timed(seconds, cpu_s):
    """A run of which only the time is asked."""
    return {"seconds": seconds, "cpu_us": cpu_s * 1e6}


def percentile(latencies, share):
    """Of pairs of a latency and how often it was seen, sorted by latency."""
    ahead = share * sum(count for _, count in latencies)
    for latency, count in latencies:
        ahead -= count
        if ahead <= 0:
            return latency
    return None


def clients(count):
    return "1 client" if count == 1 else f"{count} clients"


class Line:
    """One line of the table: how to make the data for it, and one run of it."""

    def __init__(self, tool, test, unit, measure, prepare=None, count=1, busy=False, once=False):
        beside = ", beside a busy process" if busy else ""
        of_count = f", {clients(count)}" if count else ""
        self.tool, self.name, self.unit = tool, f"{tool}: {test}{of_count}{beside}", unit
        self.measure, self.prepare, self.count, self.busy, self.once = measure, prepare, count, busy, once


class Sysbench:
    """Its OLTP tests, and the two that read random points and ranges."""
    name = "sysbench"
    how = "apt-get install sysbench"
    tests = ["oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_update_index",
             "oltp_update_non_index", "oltp_insert", "oltp_delete", "select_random_points", "select_random_ranges"]
    beside_busy = ["oltp_point_select", "oltp_read_write"]

    def __init__(self, tools):
        self.program = tools.program("sysbench")

    def sysbench(self, server, test, *options):
        return [self.program, test, "--db-driver=pgsql", "--pgsql-host=127.0.0.1", f"--pgsql-port={server.port}",
                f"--pgsql-user={server.user}", "--pgsql-db=sysbench", f"--table-size={SYSBENCH_ROWS}", *options]

    def lines(self):
        for busy in (False, True):
            for test in self.beside_busy if busy else self.tests:
                for count in (1, 8, 64):
                    yield Line(self.name, test, "transactions", self.run(test, count), self.fill(test), count, busy)

    def fill(self, test):
        def prepare(server):
            server.psql("DROP TABLE IF EXISTS sbtest1", "sysbench")
            run(self.sysbench(server, test, "prepare"), PREPARE_S_MAX)
            server.psql("ANALYZE", "sysbench")

        return prepare

    def run(self, test, count):
        def measure(server, seconds):
            if test == "oltp_delete":  # Else the second run finds fewer rows than the first.
                self.fill(test)(server)
            command = self.sysbench(server, test, f"--threads={count}", f"--time={seconds}", "--histogram", "run")
            text, cpu_s, _ = measured(server, command, seconds)
            return self.read(text, cpu_s)

        return measure

    @staticmethod
    def read(text, cpu_s):
        done, rate = re.search(r"transactions: +(\d+) +\(([\d.]+) per sec", text).groups()
        ignored = re.search(r"ignored errors: +(\d+)", text).group(1)
        latencies = [(float(ms), int(count)) for ms, count in re.findall(r"^ *([\d.]+) \|\** +(\d+)$", text, re.M)]
        return rated(float(rate), cpu_s, int(done), percentile(latencies, 0.95), percentile(latencies, 0.99), int(ignored))


# Transactions of several statements, as a shop or a booking has them.
TRANSFER = """\\set from random(1, 100000 * :scale)
\\set to random(1, 100000 * :scale)
\\set delta random(1, 5000)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :from FOR UPDATE;
UPDATE pgbench_accounts SET abalance = abalance - :delta WHERE aid = :from;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :to RETURNING abalance;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :to, :delta, CURRENT_TIMESTAMP);
COMMIT;
"""
LOOK_UPS = """\\set a random(1, 100000 * :scale)
\\set b random(1, 10 * :scale)
\\set c random(1, :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :a;
SELECT t.tbalance, b.bbalance FROM pgbench_tellers t JOIN pgbench_branches b USING (bid) WHERE t.tid = :b;
SELECT count(*), sum(tbalance) FROM pgbench_tellers WHERE bid = :c;
SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 20 ORDER BY aid DESC LIMIT 10;
"""
TOGETHER = "\\set a random(1, 100000 * :scale)\n" + "\\;\n".join(
    f"SELECT abalance FROM pgbench_accounts WHERE aid = :a + {step}" for step in range(4)) + ";\n"
PIPELINE = "\\set a random(1, 100000 * :scale)\n\\startpipeline\n" + "".join(
    f"SELECT abalance FROM pgbench_accounts WHERE aid = :a + {step};\n" for step in range(4)) + "\\endpipeline\n"


class Pgbench:
    """Its own three scripts, and scripts with several statements in all the ways it can send them."""
    name = "pgbench"
    how = "apt-get install postgresql-contrib, or PostgreSQL's server"
    modes = ["simple", "extended", "prepared"]
    tests = [
        ("select only", ["-b", "select-only"], modes),
        ("TPC-B", ["-b", "tpcb-like"], modes),
        ("simple update", ["-b", "simple-update"], modes),
        ("a transfer in five statements", TRANSFER, modes),
        ("four look-ups", LOOK_UPS, modes),
        ("four statements in one message", TOGETHER, modes[:1]),
        ("four statements in a pipeline", PIPELINE, modes[1:]),
    ]

    def __init__(self, tools):
        self.program, self.directory = tools.program("pgbench"), tools.scratch
        self.filled = set()

    def lines(self):
        for busy in (False, True):
            for test, script, modes in self.tests:
                for mode in modes:
                    for count in (1, 8, 64):
                        measure = self.run(script, mode, count)
                        yield Line(self.name, f"{test}, {mode}", "transactions", measure, self.fill, count, busy)

    def fill(self, server):
        if server.name not in self.filled:
            run([self.program, "-i", "-q", "-s", PGBENCH_SCALE, server.url("pgbench")], PREPARE_S_MAX)
            server.psql("ANALYZE", "pgbench")
            self.filled.add(server.name)

    def run(self, script, mode, count):
        def measure(server, seconds):
            options = script
            if isinstance(script, str):
                path = self.directory / "script.sql"
                path.write_text(script)
                options = ["-f", path, "-D", f"scale={PGBENCH_SCALE}"]
            options = [*options, "-M", mode, "-c", count, "-j", min(count, 2)]
            result = pgbench(server, *options, seconds=seconds, database="pgbench", program=self.program)
            return rated(result["tps"], result["server_us"] / 1e6, 1, result["p95"], result["p99"], result["failed"])

        return measure


def pgbench(server, *options, seconds=None, database="postgres", program="pgbench"):
    """Runs it. With `seconds`, its results: transactions a second, percentiles of the latency in ms, failed transactions,
    and the CPU of the server and of pgbench by transaction in µs."""
    with tempfile.TemporaryDirectory() as directory:
        command = [program, "-n", *options]
        if seconds:
            # A tenth of the transactions is enough for percentiles, and costs pgbench little.
            command += ["-T", seconds, "-l", "--sampling-rate=0.1", f"--log-prefix={directory}/log", "--verbose-errors"]
        own = os.times()
        text, cpu_s, _ = measured(server, [*command, server.url(database)], seconds)
        own_after = os.times()
        if not seconds:
            return {}
        latencies = []
        for log in pathlib.Path(directory).glob("log*"):
            with open(log) as rows:
                # A transaction that failed has no latency but the word `failed`.
                latencies += [int(took) for row in rows if (took := row.split()[2]).isdigit()]
    latencies.sort()
    count = max(int(re.search(r"transactions actually processed: (\d+)", text).group(1)), 1)
    failed = re.search(r"failed transactions: (\d+)", text)
    rank = lambda share: latencies[min(int(len(latencies) * share), len(latencies) - 1)] / 1000 if latencies else 0.0
    result = {
        "tps": float(re.search(r"^tps = ([\d.]+)", text, re.M).group(1)),
        "failed": int(failed.group(1)) if failed else 0,
        "p50": rank(0.5), "p95": rank(0.95), "p99": rank(0.99),
        "server_us": cpu_s * 1e6 / count,
        "client_us": (own_after.children_user + own_after.children_system - own.children_user - own.children_system)
        * 1e6 / count,
    }
    if result["failed"] > 0:
        print(f"{server.name}, why transactions failed: {last_lines(text)}", file=sys.stderr, flush=True)
    return result


class GoTpc:
    """TPC-C: loading, a run, the consistency conditions. Its TPC-H asks in MySQL's dialect, whatever the server."""
    name = "go-tpc"
    how = f"go install github.com/pingcap/go-tpc/cmd/go-tpc@{GO_TPC}, or --install"

    def __init__(self, tools):
        self.program, self.loaded = tools.program("go-tpc"), set()

    def tpcc(self, server, what, *options):
        return [self.program, "tpcc", what, "-d", "postgres", "-H", "127.0.0.1", "-P", server.port, "-U", server.user, "-D", "go_tpc",
                "--conn-params", "sslmode=disable", "--warehouses", TPCC_WAREHOUSES, "-T", 8, *options]

    def lines(self):
        size = f"TPC-C, {TPCC_WAREHOUSES} warehouse" + ("s" if TPCC_WAREHOUSES > 1 else "")
        yield Line(self.name, f"{size}, prepare", "time", self.prepare, count=8, once=True)
        yield Line(self.name, f"{size}, run", "new orders a minute", self.run, self.load, count=8)
        yield Line(self.name, f"{size}, check", "time", self.check, self.load, count=8)

    def load(self, server):
        if server.name not in self.loaded:
            self.prepare(server)

    def prepare(self, server, _seconds=None):
        text, cpu_s, seconds = measured(server, self.tpcc(server, "prepare", "--no-check"))
        self.look(text)
        # PostgreSQL would do so by itself, but some time later.
        server.psql("ANALYZE", "go_tpc")
        self.loaded.add(server.name)
        return timed(seconds, cpu_s)

    def check(self, server, _seconds):
        text, cpu_s, seconds = measured(server, self.tpcc(server, "check"))
        self.look(text)
        return timed(seconds, cpu_s)

    def run(self, server, seconds):
        text, cpu_s, _ = measured(server, self.tpcc(server, "run", "--time", f"{seconds}s"), seconds)
        done = errors = 0
        for kind, count in re.findall(r"\[Summary\] (\w+) .*Count: (\d+)", text):
            if kind.endswith("_ERR"):
                errors += int(count)
            else:
                done += int(count)
        order = re.search(r"\[Summary\] NEW_ORDER - .*95th\(ms\): ([\d.]+), 99th\(ms\): ([\d.]+)", text)
        if not order:
            raise Failed(f"no new order was taken: {last_lines(text)}")
        rate = float(re.search(r"tpmC: ([\d.]+)", text).group(1))
        return rated(rate, cpu_s, done, float(order.group(1)), float(order.group(2)), errors)

    @staticmethod
    def look(text):
        """It ends well though conditions do not hold or statements failed, and says so in its output alone."""
        bad = [line for line in text.splitlines() if re.search(r"(?i)\b(error|failed|panic|doesn't|not ok)\b", line)]
        if bad:
            raise Failed(" / ".join(bad[:3]))


class GoYcsb:
    """YCSB's core workloads, as their files say."""
    name = "go-ycsb"
    how = "see the commands in --help, or --install"
    workloads = {
        "A, half updates": {"readproportion": 0.5, "updateproportion": 0.5},
        "B, a twentieth updates": {"readproportion": 0.95, "updateproportion": 0.05},
        "C, reads": {"readproportion": 1, "updateproportion": 0},
        "D, the latest, a twentieth inserts": {"readproportion": 0.95, "updateproportion": 0, "insertproportion": 0.05,
                                               "requestdistribution": "latest"},
        "E, ranges, a twentieth inserts": {"readproportion": 0, "updateproportion": 0, "scanproportion": 0.95,
                                           "insertproportion": 0.05, "maxscanlength": 100},
        "F, read, modify, write": {"readproportion": 0.5, "updateproportion": 0, "readmodifywriteproportion": 0.5},
    }

    def __init__(self, tools):
        self.program, self.loaded = tools.program("go-ycsb"), set()

    def go_ycsb(self, server, what, count, workload, operations):
        properties = {"pg.host": "127.0.0.1", "pg.port": server.port, "pg.user": server.user, "pg.db": "go_ycsb",
                      "pg.sslmode": "disable", "workload": "core", "recordcount": YCSB_RECORDS, "threadcount": count,
                      "operationcount": operations, "requestdistribution": "zipfian", **workload}
        return [self.program, what, "pg", *(word for of in properties.items() for word in ("-p", f"{of[0]}={of[1]}"))]

    def lines(self):
        for test, workload in self.workloads.items():
            for count in (1, 8):
                yield Line(self.name, test, "operations", self.run(workload, count), self.load, count)

    def load(self, server):
        """Once; a copy of the rows stays for the runs to begin with."""
        if server.name not in self.loaded:
            text = run(self.go_ycsb(server, "load", 8, {}, YCSB_RECORDS), PREPARE_S_MAX)
            if "_ERROR" in text:
                raise Failed(last_lines(text))
            server.psql("CREATE TABLE loaded AS SELECT * FROM usertable", "go_ycsb")
            self.loaded.add(server.name)

    def run(self, workload, count):
        def measure(server, seconds):
            if "insertproportion" in workload:  # Else the keys that it inserts are there from the run before.
                server.psql("TRUNCATE usertable; INSERT INTO usertable SELECT * FROM loaded; ANALYZE", "go_ycsb")
            # It knows no time; an interrupt ends it with its results.
            command = self.go_ycsb(server, "run", count, workload, 2_000_000_000)
            text, cpu_s, _ = measured(server, command, seconds, interrupt_after_s=seconds)
            return self.read(text, cpu_s, count)

        return measure

    @staticmethod
    def read(text, cpu_s, count):
        end = text[text.rfind("Run finished"):]
        total = re.search(r"^TOTAL +- .*Count: (\d+), OPS: ([\d.]+),.* 95th\(us\): (\d+), 99th\(us\): (\d+)", end, re.M)
        if not total:
            raise Failed(last_lines(text))
        done, rate, p95_us, p99_us = (float(part) for part in total.groups())
        errors = sum(int(errors) for errors in re.findall(r"_ERROR +- .*Count: (\d+)", end))
        # The interrupt itself may fail one operation of each thread.
        return rated(rate, cpu_s, int(done), p95_us / 1000, p99_us / 1000, max(errors - count, 0))


# Point reads, a connection a thread of one process. Prints how many a second, and p95 and p99 in ms.
PSYCOPG_LOOP = """
import sys, threading, time, psycopg
url, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
took, failed, until = [[] for _ in range(count)], [], time.monotonic() + seconds
def loop(place):
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            while (began := time.monotonic()) < until:
                key = len(took[place]) % 1000 + 1
                connection.execute("SELECT value FROM points WHERE id = %s", (key,)).fetchone()
                took[place].append(time.monotonic() - began)
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=loop, args=(place,)) for place in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if failed:
    sys.exit(f"{type(failed[0]).__name__}: {failed[0]}")
every = sorted(latency for of_one in took for latency in of_one)
rank = lambda share: every[min(int(len(every) * share), len(every) - 1)] * 1000
print(len(every), len(every) / seconds, rank(0.95), rank(0.99))
"""

# The same through a pool of half as many connections as threads. Needs the jars in the class path.
JDBC_POOL = """
import com.zaxxer.hikari.*;
import java.util.*;
import java.util.concurrent.*;

public class Pool {
    public static void main(String[] args) throws Exception {
        var config = new HikariConfig();
        config.setJdbcUrl(args[0]);
        int threads = Integer.parseInt(args[1]);
        long seconds = Long.parseLong(args[2]);
        config.setMaximumPoolSize(Math.max(threads / 2, 1));
        var every = new ArrayList<Long>();
        var workers = Executors.newFixedThreadPool(threads);
        try (var pool = new HikariDataSource(config)) {
            long until = System.nanoTime() + seconds * 1_000_000_000L;
            var loops = new ArrayList<Future<List<Long>>>();
            for (int place = 0; place < threads; place++)
                loops.add(workers.submit(() -> {
                    var took = new ArrayList<Long>();
                    for (long began; (began = System.nanoTime()) < until; took.add(System.nanoTime() - began))
                        try (var connection = pool.getConnection();
                                var point = connection.prepareStatement("SELECT value FROM points WHERE id = ?")) {
                            point.setInt(1, took.size() % 1000 + 1);
                            try (var rows = point.executeQuery()) {
                                rows.next();
                                rows.getString(1);
                            }
                        }
                    return took;
                }));
            for (var loop : loops)
                every.addAll(loop.get());
        } finally {
            workers.shutdown();
        }
        Collections.sort(every);
        System.out.printf(Locale.ROOT, "%d %f %f %f%n", every.size(), every.size() / (double) seconds,
                every.get(every.size() * 95 / 100) / 1e6, every.get(every.size() * 99 / 100) / 1e6);
    }
}
"""


class Loop:
    """Point reads by a library, from a loop of this script's own."""

    def __init__(self):
        self.filled = set()

    def lines(self):
        for busy in (False, True):
            for count in (1, 8, 64):
                yield Line(self.name, self.test, "transactions", self.run(count), self.fill, count, busy)

    def fill(self, server):
        if server.name not in self.filled:
            server.psql("CREATE TABLE IF NOT EXISTS points (id int PRIMARY KEY, value text); TRUNCATE points; "
                        "INSERT INTO points SELECT i, 'value ' || i FROM generate_series(1, 1000) i; ANALYZE", "loops")
            self.filled.add(server.name)

    def run(self, count):
        def measure(server, seconds):
            text, cpu_s, _ = measured(server, self.command(server, count, seconds), seconds)
            done, rate, p95_ms, p99_ms = map(float, text.strip().splitlines()[-1].split())
            return rated(rate, cpu_s, int(done), p95_ms, p99_ms)

        return measure


class Psycopg(Loop):
    name = "psycopg"
    how = "pip install 'psycopg[binary]', or --install"
    test = "point reads in a loop"

    def __init__(self, tools):
        super().__init__()
        self.python = tools.python_with("psycopg")

    def command(self, server, count, seconds):
        return [self.python, "-c", PSYCOPG_LOOP, server.url("loops"), count, seconds]


class Jdbc(Loop):
    name = "jdbc"
    how = "a JDK, and the jars named in --help, or --install"
    test = "point reads through a pool of half as many connections"

    def __init__(self, tools):
        super().__init__()
        self.jars = [tools.file(jar.split(":")[1] + "-" + jar.split(":")[2] + ".jar") for jar in JARS]
        self.classes = tools.scratch / "classes"
        source = tools.scratch / "Pool.java"
        source.write_text(JDBC_POOL)
        run([tools.program("javac"), "-cp", self.path(), "-d", self.classes, source], PREPARE_S_MAX)
        self.java = tools.program("java")

    def path(self):
        return ":".join(map(str, [*self.jars, self.classes]))

    def command(self, server, count, seconds):
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/loops?user={server.user}&sslmode=disable"
        return [self.java, "-cp", self.path(), "Pool", url, count, seconds]


TOOLS = [Sysbench, Pgbench, GoTpc, GoYcsb, Psycopg, Jdbc]


class Missing(Exception):
    pass


class Tools:
    """Where tools are: in a directory of this script's, or in PATH."""

    def __init__(self, directory, scratch):
        self.directory, self.scratch = directory, scratch

    def program(self, name):
        found = shutil.which(name, path=f"{self.directory / 'bin'}:{os.environ['PATH']}")
        if not found:
            raise Missing(f"{name} is neither in PATH nor in {self.directory / 'bin'}")
        return found

    def file(self, name):
        if not (self.directory / name).exists():
            raise Missing(f"{name} is not in {self.directory}")
        return self.directory / name

    def python_with(self, module):
        for python in (self.directory / "venv/bin/python", pathlib.Path(sys.executable)):
            if python.exists() and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
                return python
        raise Missing(f"no Python with {module}")

    def install(self, names):
        """By the commands of --help. Each ends with its error on the terminal; its tool is then missing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "GOBIN": str(self.directory / "bin"), "GOPATH": str(self.directory / "go"), "GOFLAGS": "-modcacherw"}
        commands = {
            "go-tpc": [["go", "install", f"github.com/pingcap/go-tpc/cmd/go-tpc@{GO_TPC}"]],
            "go-ycsb": [["go", "mod", "init", "ycsb"], ["go", "mod", "edit", "-replace", THRIFT],
                        ["go", "get", f"github.com/pingcap/go-ycsb/cmd/go-ycsb@{GO_YCSB}"],
                        ["go", "install", "github.com/pingcap/go-ycsb/cmd/go-ycsb"]],
            "psycopg": [[sys.executable, "-m", "venv", self.directory / "venv"],
                        [self.directory / "venv/bin/pip", "install", "-q", "psycopg[binary]"]],
            "jdbc": [["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={jar}", f"-DoutputDirectory={self.directory}"] for jar in JARS],
        }
        for name in names:
            with tempfile.TemporaryDirectory() as directory:
                for command in commands.get(name, []):
                    print(f"$ {' '.join(map(str, command))}", file=sys.stderr, flush=True)
                    try:
                        run(command, PREPARE_S_MAX, env=env, cwd=directory)
                    except (Failed, OSError) as error:
                        print(f"{name} could not be installed: {error}", file=sys.stderr)
                        break


def measure(line, both, arguments):
    """All runs of a line by server, and why runs failed."""
    runs, failures = {server.name: [] for server in both}, {}

    def attempt(server, what):
        if server.name in failures:
            return
        try:
            what(server)
        except Failed as failure:
            failures[server.name] = str(failure)
            if not server.answers():
                failures[server.name] += " (and the server no longer answers)"
                with contextlib.suppress(OSError, SystemExit):
                    server.stop()
                server.start()

    if line.prepare:
        for server in both:
            attempt(server, line.prepare)
    with servers.busy() if line.busy else contextlib.nullcontext():
        for server in servers.in_turn(both, 1 if line.once else arguments.repeat):
            attempt(server, lambda server: runs[server.name].append(line.measure(server, arguments.time)))
    return {"line": line.name, "unit": line.unit, "runs": runs, "failures": failures}


def wanted(line, arguments):
    if arguments.clients and line.count not in arguments.clients or arguments.quiet and line.busy:
        return False
    if arguments.tests:
        return arguments.tests.search(line.name)
    return True


def least(bounds, name):
    """The bound that a line has to reach: of those that fit, the last one given."""
    found = None
    for bound in bounds:
        part, _, ratio = bound.rpartition("=")
        if part.lower() in name.lower():
            found = float(ratio)
    return found


def judge(results, bounds):
    """What is wrong, in words."""
    for result in results:
        for server, failure in result["failures"].items():
            yield f"{result['line']}: {server}: {failure}"
        ratio, bound = benchmark_tables.foreign_ratio(result), least(bounds, result["line"])
        if ratio is not None and bound is not None and ratio < bound:
            yield f"{result['line']}: {ratio:.2f} times PostgreSQL, and at least {bound:.2f} is asked"


def pattern(text):
    try:
        return re.compile(text, re.I)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is no regular expression: {error}") from None


def parse():
    text = __doc__.format(go_tpc=GO_TPC, go_ycsb=GO_YCSB, thrift=THRIFT, jars=", ".join(JARS))
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_arguments(parser)
    names = [tool.name for tool in TOOLS]
    parser.add_argument("--tools", default=",".join(names), help=f"of these (all by default): {', '.join(names)}")
    parser.add_argument("--tests", type=pattern, help="only lines in whose names this regular expression is found; --list shows them")
    parser.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",")], help="only lines with so many, as 1,8")
    parser.add_argument("--quiet", action="store_true", help="no lines beside a busy process")
    parser.add_argument("--time", type=int, default=5, help="seconds of each run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each line on each server")
    parser.add_argument("--isolation", default="read committed", choices=["read committed", "repeatable read", "serializable"],
                        help="of both servers, where a tool asks for none")
    parser.add_argument("--min-ratio", action="append", default=[], metavar="[NAME=]RATIO",
                        help="the least ratio of all lines, or of those whose names contain NAME; the last one that fits counts")
    parser.add_argument("--json", help="where all runs go")
    parser.add_argument("--dir", help="a new directory for the servers' files; removed in the end (default: a temporary one)")
    parser.add_argument("--tools-dir", type=pathlib.Path, default=pathlib.Path.home() / ".cache/colibri-foreign-tools",
                        help="where --install puts tools, and where they are looked for first")
    parser.add_argument("--install", action="store_true", help="first install the tools into --tools-dir, by the commands above")
    parser.add_argument("--list", action="store_true", help="print the names of the lines, and end")
    arguments = parser.parse_args()
    servers.check_programs(parser, arguments)
    arguments.tools = arguments.tools.split(",")
    unknown = [name for name in arguments.tools if name not in names]
    if unknown:
        parser.error(f"no such tool: {', '.join(unknown)} (there are {', '.join(names)})")
    if arguments.time < 1 or arguments.repeat < 1:
        parser.error("--time and --repeat are at least one")
    for bound in arguments.min_ratio:
        try:
            float(bound.rpartition("=")[2])
        except ValueError:
            parser.error(f"--min-ratio {bound} is neither a number nor NAME=NUMBER")
    if arguments.dir and os.path.exists(arguments.dir):
        parser.error(f"{arguments.dir} exists: name a directory that does not")
    return arguments


@contextlib.contextmanager
def directory_of(arguments):
    """The servers' directory, which everybody may enter, as PostgreSQL may have another user."""
    path = pathlib.Path(arguments.dir or tempfile.mkdtemp(prefix="foreign-tools"))
    path.mkdir(parents=True, exist_ok=True)
    try:
        path.chmod(0o755)
        yield path.resolve()
    finally:
        shutil.rmtree(path)


def machine():
    models = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{os.cpu_count()} CPUs ({models[0] if models else platform.machine()}), Linux {platform.release()}"


def find(arguments, directory):
    """The lines of all tools that are there."""
    tools = Tools(arguments.tools_dir, directory)
    if arguments.install:
        tools.install(arguments.tools)
    lines = []
    for tool in TOOLS:
        if tool.name in arguments.tools:
            try:
                lines += [line for line in tool(tools).lines() if wanted(line, arguments)]
            except (Missing, Failed) as error:
                print(f"{tool.name} is skipped: {error} ({tool.how})", file=sys.stderr, flush=True)
    return lines


def main():
    arguments = parse()
    with directory_of(arguments) as directory:
        lines, results = find(arguments, directory), []
        if arguments.list:
            return print("\n".join(line.name for line in lines))
        if not lines:
            sys.exit("no tool is there that has such a line: nothing was measured")
        level = arguments.isolation
        both = [servers.Colibri(arguments.colibri, directory, ["--isolation", level.replace(" ", "-")]),
                servers.Postgres(arguments.pg_bin, directory, {"default_transaction_isolation": level})]
        with servers.started(both):
            for server in both:
                for database in ("sysbench", "pgbench", "go_tpc", "go_ycsb", "loops"):
                    server.psql(f"CREATE DATABASE {database}")
            about = {"date": datetime.date.today().isoformat(), "command": " ".join(map(shlex.quote, sys.argv)), "machine": machine(),
                     "colibri": run([arguments.colibri, "--version"], HANG_S).strip(),
                     "postgresql": "PostgreSQL " + both[1].psql("SHOW server_version"),
                     "isolation": level, "time_s": arguments.time, "repeat": arguments.repeat}
            print(benchmark_tables.foreign_head(about), flush=True)
            for line in lines:
                results.append(measure(line, both, arguments))
                print(benchmark_tables.foreign_row(results[-1]), flush=True)
                if arguments.json:
                    pathlib.Path(arguments.json).write_text(json.dumps({"about": about, "lines": results}, indent=1))
    wrong = list(judge(results, arguments.min_ratio))
    for what in wrong:
        print(what, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
