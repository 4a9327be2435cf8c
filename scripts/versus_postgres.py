#!/usr/bin/env python3
"""Colibri's server beside PostgreSQL's, by clients that others wrote: rounds of both in turn, medians of the rounds.

    scripts/versus_postgres.py target/release/colibri --pg-bin /usr/lib/postgresql/15/bin [--parts select,tpcb,…]

Both servers listen on loopback and keep their files below the same directory, with the durability they have by default
(fsync and synchronous_commit on; Colibri's `sync`). PostgreSQL's settings are those of initdb, but for more connections.
The part `clients` has 1, 8 and 64 of them (pgbench, sysbench, a loop over psycopg), on a quiet machine and beside a process
that computes without end.

Needs pgbench and psql, for `clients` sysbench and psycopg as well, and for `half` the right to make a group of cgroups' first version; as root, PostgreSQL runs as
the user `postgres`. Nothing is left behind.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def family(pid):
    """A process and all below it."""
    found, ahead = [], [pid]
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            try:
                ahead += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                pass
    return found


def of_family(pid, read):
    total = 0
    for member in family(pid):
        try:
            total += read(pathlib.Path(f"/proc/{member}"))
        except (OSError, StopIteration):
            pass
    return total


def cpu_seconds(pid):
    def read(proc):
        fields = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        # Of children that have ended, too.
        return sum(int(fields[at]) for at in (11, 12, 13, 14)) / TICKS

    return of_family(pid, read)


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


class Server:
    def __init__(self, name, directory):
        self.name, self.directory, self.port = name, directory, free_port()

    def url(self):
        return f"host=127.0.0.1 port={self.port} user={self.user} dbname=postgres sslmode=disable gssencmode=disable"

    def psql(self, sql):
        command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.url(), "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {sql}: {done.stderr}")
        return done.stdout.strip()

    def wait(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001)


class Colibri(Server):
    user = "postgres"

    def __init__(self, binary, directory, options=()):
        super().__init__("Colibri", directory / "colibri")
        self.binary, self.options = binary, options

    def start(self):
        command = [self.binary, "serve", str(self.directory), "--listen", f"127.0.0.1:{self.port}", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


class Postgres(Server):
    user = "postgres"

    def __init__(self, bin_directory, directory):
        super().__init__("PostgreSQL", directory / "postgres")
        self.bin = pathlib.Path(bin_directory)
        self.directory.mkdir()
        self.as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self.as_user:
            shutil.chown(self.directory, "postgres")
        self.run("initdb", "-D", self.directory, "-U", self.user, "-A", "trust", "--no-sync", stdout=subprocess.DEVNULL)
        with open(self.directory / "postgresql.conf", "a") as settings:
            settings.write(f"port = {self.port}\nunix_socket_directories = ''\nmax_connections = 200\n")

    def run(self, program, *arguments, **how):
        subprocess.run([*self.as_user, str(self.bin / program), *map(str, arguments)], check=True, cwd="/", **how)

    def start(self):
        self.run("pg_ctl", "-D", self.directory, "-l", self.directory / "log", "-w", "start", stdout=subprocess.DEVNULL)
        self.pid = int((self.directory / "postmaster.pid").read_text().split()[0])

    def stop(self):
        self.run("pg_ctl", "-D", self.directory, "-m", "fast", "-w", "stop", stdout=subprocess.DEVNULL)


def pgbench(server, *options, seconds=None):
    """Runs it; transactions a second, mean latency in ms, failures, and CPU of the server and of pgbench by transaction."""
    directory = tempfile.mkdtemp()
    command = ["pgbench", "-n", *map(str, options)]
    if seconds:
        # A tenth of the transactions is enough for percentiles, and costs pgbench little.
        command += ["-T", str(seconds), "-l", "--sampling-rate=0.1", f"--log-prefix={directory}/log", "--verbose-errors"]
    before, own = cpu_seconds(server.pid), os.times()
    done = subprocess.run([*command, server.url()], capture_output=True, text=True)
    after, own_after = cpu_seconds(server.pid), os.times()
    if done.returncode != 0:
        sys.exit(f"{server.name}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    lines = {line.split("=")[0].split(":")[0].strip(): line for line in done.stdout.splitlines()}
    result = {}
    if seconds:
        latencies = []
        for log in pathlib.Path(directory).glob("log*"):
            with open(log) as rows:
                # Of a transaction that failed it says so instead.
                latencies += [int(took) for row in rows if (took := row.split()[2]).isdigit()]
        latencies.sort()
        count = max(int(lines["number of transactions actually processed"].split(":")[1].split("/")[0]), 1)
        rank = lambda share: latencies[min(int(len(latencies) * share), len(latencies) - 1)] / 1000 if latencies else 0.0
        result = {
            "tps": float(lines["tps"].split("=")[1].split()[0]),
            "failed": int(lines.get("number of failed transactions", ": 0 (").split(":")[1].split("(")[0]),
            "p50": rank(0.5),
            "p99": rank(0.99),
            "server_us": (after - before) * 1e6 / count,
            "client_us": (own_after.children_user + own_after.children_system - own.children_user - own.children_system)
            * 1e6 / count,
        }
        if result["failed"] > 0:
            print(f"{server.name}, why transactions failed:\n{done.stderr}", file=sys.stderr, flush=True)
    shutil.rmtree(directory)
    return result


@contextlib.contextmanager
def busy():
    """Another process that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def sysbench(server, test, what, threads=1, seconds=1):
    """Runs it on a table of 100,000 rows; transactions a second."""
    command = ["sysbench", test, "--db-driver=pgsql", "--pgsql-host=127.0.0.1", f"--pgsql-port={server.port}",
               f"--pgsql-user={server.user}", "--pgsql-db=postgres", "--table-size=100000", f"--threads={threads}",
               f"--time={seconds}", what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    rates = [line for line in done.stdout.splitlines() if line.strip().startswith("transactions:")]
    return float(rates[0].split("(")[1].split()[0]) if rates else 0.0


PSYCOPG_LOOP = """
import sys, threading, time, psycopg
url, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
done, until = [0] * count, time.monotonic() + seconds
def loop(place):
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            connection.execute("SELECT abalance FROM pgbench_accounts WHERE aid = %s", (done[place] % 1000 + 1,)).fetchone()
            done[place] += 1
threads = [threading.Thread(target=loop, args=(place,)) for place in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(done) / seconds)
"""


def psycopg_loop(server, count, seconds):
    """Point reads from one process of Python's, a thread a connection; a second."""
    command = [sys.executable, "-c", PSYCOPG_LOOP, server.url(), str(count), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}: {done.stderr}")
    return float(done.stdout)


def median(rows, what):
    return statistics.median(row[what] for row in rows)


class Run:
    def __init__(self, arguments, directory):
        self.arguments, self.directory, self.results = arguments, directory, {}
        options = ["--isolation", arguments.isolation] if arguments.isolation else []
        self.servers = [Colibri(arguments.colibri, directory, options), Postgres(arguments.pg_bin, directory)]
        for server in self.servers:
            server.start()

    def stop(self):
        for server in self.servers:
            server.stop()

    def fill(self, scale):
        for server in self.servers:
            server.psql("DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")
            pgbench(server, "-i", "-q", "-s", scale)
            server.psql("VACUUM ANALYZE" if isinstance(server, Postgres) else "SELECT 1")

    def rounds(self, what, *options):
        """A part in rounds: both servers in turn, another one first each time."""
        rows = {server.name: [] for server in self.servers}
        for number in range(self.arguments.rounds):
            for server in self.servers[:: 1 if number % 2 == 0 else -1]:
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

    def clients(self):
        """What others' clients get, one, eight and sixty-four, quiet and beside a process that computes without end."""
        self.fill(10)
        for server in self.servers:
            sysbench(server, "oltp_read_write", "prepare")
        ways = [
            ("pgbench -S -M prepared", lambda server, count: pgbench(
                server, "-S", "-M", "prepared", "-c", count, "-j", min(count, 2), seconds=self.arguments.seconds)["tps"]),
            ("pgbench TPC-B -M prepared, scale 10", lambda server, count: pgbench(
                server, "-M", "prepared", "-c", count, "-j", min(count, 2), seconds=self.arguments.seconds)["tps"]),
            ("sysbench oltp_point_select", lambda server, count: sysbench(
                server, "oltp_point_select", "run", count, self.arguments.seconds)),
            ("sysbench oltp_read_write", lambda server, count: sysbench(
                server, "oltp_read_write", "run", count, self.arguments.seconds)),
            ("psycopg in a loop", lambda server, count: psycopg_loop(server, count, self.arguments.seconds)),
        ]
        if self.arguments.ways:
            ways = [way for way in ways if any(part in way[0] for part in self.arguments.ways.split(","))]
        for is_busy in (False, True):
            for what, measure in ways:
                for count in (1, 8, 64):
                    rates = {server.name: [] for server in self.servers}
                    with busy() if is_busy else contextlib.nullcontext():
                        for number in range(self.arguments.rounds):
                            for server in self.servers[:: 1 if number % 2 == 0 else -1]:
                                rates[server.name].append(measure(server, count))
                    ours, theirs = (statistics.median(rates[server.name]) for server in self.servers)
                    where = "beside a busy process" if is_busy else "quiet"
                    self.results[f"{what}, {count}, {where}"] = rates
                    print(f"{what}, {count} clients, {where}: {ours:,.0f} against {theirs:,.0f} transactions/s, "
                          f"{ours / max(theirs, 0.001):.2f} x", flush=True)

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
                server = Colibri(self.arguments.colibri, pathlib.Path(directory))
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


PARTS = ["select", "tpcb", "clients", "mixed", "half", "first", "idle"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("colibri", help="the program")
    parser.add_argument("--pg-bin", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--parts", default="select,tpcb,mixed,half,first,idle")
    parser.add_argument("--isolation", default=None, help="Colibri's, where a client asks for none (default: serializable)")
    parser.add_argument("--ways", default=None, help="of the part `clients` those alone whose name has one of these words")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--idle", type=int, default=60, help="seconds of idleness")
    parser.add_argument("--dir", default=None, help="where the servers keep their files")
    parser.add_argument("--json", default=None, help="where all single results go")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts.split(",") if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    for program in (arguments.colibri, pathlib.Path(arguments.pg_bin) / "initdb"):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not there, or not a program")
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("rounds and seconds are at least one")
    # So that the servers end with the script, whoever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        os.chmod(directory, 0o755)
        run = Run(arguments, pathlib.Path(directory))
        try:
            for part in arguments.parts.split(","):
                getattr(run, part)()
        finally:
            run.stop()
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(run.results, indent=1))


if __name__ == "__main__":
    main()
