#!/usr/bin/env python3
"""How long a branch of a live database takes over the wire, from CREATE DATABASE sent to the first answer of a query in it.

    scripts/branches.py target/release/colibri [--megabytes 1024] [--branches 300] [--dir DIR] [--pg-bin /usr/lib/postgresql/15/bin]

The model has so many megabytes in one table and a writer that goes on. Each branch is made on one connection, and read on a new one, as a test does it.
PostgreSQL makes a few databases after the same model (without the writer, which it refuses). Beside the figures are the median times of a flush of 4 KiB
and of a new connection to a database that is open, on the same file system in the same run. In DIR on a disk that is what a durable branch costs; in
memory (/dev/shm) there are no flushes. Nothing is left behind. As root, PostgreSQL runs as the user `postgres`.
"""

import argparse
import itertools
import os
import pathlib
import socket
import struct
import tempfile
import threading
import time

import servers

MODEL = """
CREATE TABLE t (id int PRIMARY KEY, x text NOT NULL);
INSERT INTO t SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, {rows}) n;
"""


class Wire:
    """A connection that speaks just enough of the protocol, so that a client's own work is not measured."""

    def __init__(self, server, database):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        body = struct.pack("!i", 196608) + f"user\0{server.user}\0database\0{database}\0\0".encode()
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def until_ready(self):
        while True:
            while len(self.buffer) >= 5:
                length = struct.unpack_from("!i", self.buffer, 1)[0] + 1
                if len(self.buffer) < length:
                    break
                kind, body, self.buffer = self.buffer[:1], self.buffer[5:length], self.buffer[length:]
                if kind == b"E":
                    raise SystemExit(body.replace(b"\0", b" ").decode())
                if kind == b"Z":
                    return
            got = self.socket.recv(1 << 16)
            if not got:
                raise SystemExit("the connection has ended")
            self.buffer += got

    def run(self, text):
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def close(self):
        self.socket.close()


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(part * len(times)))] * 1e3


def line(name, times):
    print(f"| {name} | {len(times)} | {percentile(times, 0.5):.2f} | {percentile(times, 0.99):.2f} |")


def flushes(directory, count=200):
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(4096))
        for _ in range(count):
            begin = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return times


def make(server, count, name):
    made, dropped = [], []
    control = Wire(server, "postgres")
    for n in range(count):
        begin = time.perf_counter()
        control.run(f"CREATE DATABASE b{n} TEMPLATE model")
        wire = Wire(server, f"b{n}")
        wire.run("SELECT x FROM t WHERE id = 7")
        made.append(time.perf_counter() - begin)
        wire.run("UPDATE t SET x = 'mine' WHERE id = 7")
        wire.close()
        begin = time.perf_counter()
        control.run(f"DROP DATABASE b{n} WITH (FORCE)")
        dropped.append(time.perf_counter() - begin)
    line(f"{name}: made and read", made)
    line(f"{name}: dropped", dropped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_arguments(parser)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--branches", type=int, default=300)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."), help="where the files are made")
    args = parser.parse_args()
    servers.check_programs(parser, args)
    with tempfile.TemporaryDirectory(prefix="branches.", dir=args.dir) as directory:
        os.chmod(directory, 0o755)
        directory = pathlib.Path(directory)
        colibri = servers.Colibri(args.colibri, directory)
        postgres = servers.Postgres(args.pg_bin, directory)
        with servers.started([colibri, postgres]):
            measure(args, directory, colibri, postgres)


def measure(args, directory, colibri, postgres):
    rows = args.megabytes * 1024 * 1024 // 1000
    for server in (postgres, colibri):
        server.psql("CREATE DATABASE model;")
        server.psql(MODEL.format(rows=rows), "model")
    print("| | times | p50, ms | p99, ms |\n| --- | ---: | ---: | ---: |")
    make(postgres, 5, "PostgreSQL")
    make(colibri, args.branches, "Colibri")
    stop = threading.Event()

    def write():
        wire = Wire(colibri, "model")
        for n in itertools.count():
            wire.run(f"UPDATE t SET x = repeat('changed', 100) WHERE id = {n * 7919 % rows + 1}")
            if stop.wait(0.002):
                return

    writer = threading.Thread(target=write)
    writer.start()
    make(colibri, args.branches, "Colibri, beside a writer")
    stop.set()
    writer.join()
    line("a flush of 4 KiB", flushes(directory))
    held, connects = Wire(colibri, "model"), []
    for _ in range(args.branches):
        begin = time.perf_counter()
        wire = Wire(colibri, "model")
        wire.run("SELECT x FROM t WHERE id = 7")
        connects.append(time.perf_counter() - begin)
        wire.close()
    held.close()
    line("a connection and a query, no branch", connects)


if __name__ == "__main__":
    main()
