"""Colibri's and PostgreSQL's servers, started side by side: what the scripts that compare them share.

Both listen on loopback only, keep their files below one directory, and are as durable as they are by default: a commit is
answered when it is on disk. As root, PostgreSQL runs as the user `postgres`.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
START_S_MAX = 30
STOP_S_MAX = 60


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
            with contextlib.suppress(OSError):
                ahead += [int(child) for child in (task / "children").read_text().split()]
    return found


def of_family(pid, read):
    total = 0
    for member in family(pid):
        with contextlib.suppress(OSError, StopIteration):
            total += read(pathlib.Path(f"/proc/{member}"))
    return total


def cpu_seconds(pid):
    """Of a process, all below it, and those of their children that have ended."""
    def read(proc):
        fields = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(fields[at]) for at in (11, 12, 13, 14)) / TICKS

    return of_family(pid, read)


class Server:
    user = "postgres"

    def __init__(self, name, directory):
        self.name, self.directory, self.port = name, directory, free_port()

    def url(self, database="postgres"):
        return f"host=127.0.0.1 port={self.port} user={self.user} dbname={database} sslmode=disable gssencmode=disable"

    def psql(self, text, database="postgres"):
        """What psql prints for statements and its own commands. An error ends the script."""
        command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.url(database)]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {text}: {done.stderr}")
        return done.stdout.strip()

    def wait(self):
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit(f"{self.name} does not listen after {START_S_MAX} s: see {self.log}")
                time.sleep(0.001)

    def answers(self):
        """Whether it still answers a query, and soon."""
        command = ["psql", "-XqAt", "-d", self.url(), "-c", "SELECT 1"]
        try:
            return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
        except subprocess.TimeoutExpired:
            return False


class Colibri(Server):
    def __init__(self, binary, directory, options=()):
        super().__init__("Colibri", directory / "colibri")
        self.binary, self.options, self.log = binary, options, directory / "colibri.log"

    def start(self):
        command = [self.binary, "serve", str(self.directory), "--listen", f"127.0.0.1:{self.port}", *self.options]
        with open(self.log, "a") as log:
            # A session of its own, as pg_ctl gives PostgreSQL: Linux divides CPU time between sessions first
            # (sched_autogroup). Bug: Colibri shared one with the busy process, and PostgreSQL did not. Consequence: beside
            # that process Colibri had a quarter of a CPU where PostgreSQL had half of one.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.pid = self.process.pid
        self.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            print(f"Colibri did not end within {STOP_S_MAX} s of SIGTERM, and was killed", file=sys.stderr)


class Postgres(Server):
    """With the settings of `initdb`, but for more connections and those given."""

    def __init__(self, bin_directory, directory, settings=None, initdb=()):
        super().__init__("PostgreSQL", directory / "postgres")
        self.bin, self.log = pathlib.Path(bin_directory), self.directory / "log"
        self.directory.mkdir()
        self.as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self.as_user:
            shutil.chown(self.directory, "postgres")
        self.run("initdb", "-D", self.directory, "-U", self.user, "-A", "trust", "--no-sync", *initdb, stdout=subprocess.DEVNULL)
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
                    "max_connections": 200, **(settings or {})}
        with open(self.directory / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def run(self, program, *arguments, **how):
        done = subprocess.run([*self.as_user, str(self.bin / program), *map(str, arguments)], cwd="/", **how)
        if done.returncode != 0:
            sys.exit(f"PostgreSQL's {program} ended with {done.returncode} (a directory that its user may not enter?)")

    def start(self):
        self.run("pg_ctl", "-D", self.directory, "-l", self.log, "-w", "start", stdout=subprocess.DEVNULL)
        self.pid = int((self.directory / "postmaster.pid").read_text().split()[0])

    def stop(self):
        self.run("pg_ctl", "-D", self.directory, "-m", "fast", "-w", "stop", stdout=subprocess.DEVNULL)


def in_turn(servers, rounds):
    """Each server once a round; another one is first each time."""
    for number in range(rounds):
        yield from servers[:: 1 if number % 2 == 0 else -1]


@contextlib.contextmanager
def started(servers):
    """All of them, until the block ends or SIGTERM ends the script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    running = []
    try:
        for server in servers:
            server.start()
            running.append(server)
        yield servers
    finally:
        for server in running:
            with contextlib.suppress(SystemExit):
                server.stop()


@contextlib.contextmanager
def busy():
    """Another process that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def add_arguments(parser):
    """The arguments that all scripts have that start both servers."""
    parser.add_argument("colibri", help="the program")
    parser.add_argument("--pg-bin", default="/usr/lib/postgresql/15/bin", help="the directory of PostgreSQL's programs")


def check_programs(parser, arguments):
    for program in (arguments.colibri, pathlib.Path(arguments.pg_bin) / "initdb"):
        if not os.access(program, os.X_OK) or os.path.isdir(program):
            parser.error(f"{program} is not there, or not a program")
