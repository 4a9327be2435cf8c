"""Colibri: an embedded transactional database that speaks PostgreSQL's SQL.

    import colibri

    with colibri.connect("birds") as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS birds (name text PRIMARY KEY, grams float8)")
        conn.execute("INSERT INTO birds VALUES (%s, %s) ON CONFLICT DO NOTHING", ("bee hummingbird", 1.95))
        for name, grams in conn.execute("SELECT name, grams FROM birds"):
            print(name, grams)

This module is DB-API 2.0 (PEP 249). `colibri.aio` is the same for asyncio, `colibri.kv` the key-value
interface, `colibri.errors` has a class for each kind of error.
"""

import datetime as _datetime
import os as _os
import threading as _threading
import time as _time
import weakref as _weakref

from . import _colibri, errors
from ._colibri import Cursor, Database, __version__
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

apilevel = "2.0"
# Threads may share the module and connections, which take turns.
threadsafety = 2
# As psycopg's: %s and %(name)s. Statements without % may have $1, $2 and so on.
paramstyle = "pyformat"

__all__ = [
    "BINARY", "Binary", "Connection", "Copy", "Cursor", "DATETIME", "DataError", "Database", "DatabaseError", "Date",
    "DateFromTicks", "Error", "IntegrityError", "InterfaceError", "InternalError", "Json", "NUMBER", "Notify",
    "NotSupportedError", "OperationalError", "ProgrammingError", "ROWID", "STRING", "Time", "TimeFromTicks", "Timestamp",
    "TimestampFromTicks", "Warning", "apilevel", "connect", "errors", "paramstyle", "threadsafety",
]

# ---- types of DB-API ----

Binary = bytes
Date = _datetime.date
Time = _datetime.time
Timestamp = _datetime.datetime


def DateFromTicks(ticks):
    return Date(*_time.localtime(ticks)[:3])


def TimeFromTicks(ticks):
    return Time(*_time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks):
    return Timestamp(*_time.localtime(ticks)[:6])


class _Types:
    """Equal to the numbers of some types, as DB-API's type objects are."""

    def __init__(self, *oids):
        self.oids = frozenset(oids)

    def __eq__(self, other):
        return other in self.oids if isinstance(other, int) else NotImplemented

    def __hash__(self):
        return hash(self.oids)


STRING = _Types(18, 19, 25, 1042, 1043)
BINARY = _Types(17)
NUMBER = _Types(20, 21, 23, 700, 701, 1700)
DATETIME = _Types(1082, 1083, 1114, 1184, 1186, 1266)
ROWID = _Types(26)


class Json:
    """A parameter that is written as JSON: for lists, numbers and texts, which would be themselves otherwise."""

    def __init__(self, value, dumps=None):
        self.value = value
        self.dumps = dumps

    def __colibri__(self):
        if self.dumps is not None:
            return self.dumps(self.value)
        import json

        return json.dumps(self.value)


class Notify:
    """What NOTIFY of another connection said."""

    __slots__ = ("channel", "payload", "pid")

    def __init__(self, channel, payload, pid):
        self.channel, self.payload, self.pid = channel, payload, pid

    def __repr__(self):
        return f"Notify(channel={self.channel!r}, payload={self.payload!r}, pid={self.pid})"


# ---- COPY ----

_ESCAPES = str.maketrans({"\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"})


def _copy_text(value):
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\\\x" + bytes(value).hex()
    return str(value).translate(_ESCAPES)


class Copy:
    """A COPY that runs: `write` or `write_row` for COPY … FROM STDIN, iteration for COPY … TO STDOUT."""

    def __init__(self, connection, sql, is_in):
        self._connection = connection
        self._is_in = is_in
        self.rowcount = -1
        if is_in:
            connection.copy_in(sql)
        else:
            connection.copy_out(sql)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self._is_in and kind is None:
            self.rowcount = self._connection.copy_done()
        elif not self._connection.closed:
            self._connection.copy_cancel()

    def write(self, data):
        """Takes a piece of the data; pieces need not end with rows."""
        self._connection.copy_send(data.encode() if isinstance(data, str) else bytes(data))

    def write_row(self, row):
        """Takes a row, for COPY in text format."""
        self.write("\t".join(map(_copy_text, row)) + "\n")

    def read(self):
        """The next piece of the data, b"" at the end."""
        return self._connection.copy_receive() or b""

    def __iter__(self):
        while True:
            data = self._connection.copy_receive()
            if data is None:
                return
            yield data


# ---- connections ----


class Connection:
    """A session. Threads may share it; they take turns.

    As a context manager it commits at the end, or rolls back after an exception, and is closed.
    """

    # DB-API: the exceptions as attributes.
    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, database, user=None, autocommit=False):
        self._database = database
        self._session = database.connect(user)
        self._session.autocommit = autocommit
        session = self._session
        self.cursor = session.cursor
        self.execute = session.execute
        self.executescript = session.executescript
        self.commit = session.commit
        self.rollback = session.rollback
        self.cancel = session.cancel
        self.fileno = session.fileno
        self.setting = session.setting
        self.arrow = session.arrow

    def close(self):
        self._session.close()
        self._database = None

    def fresh(self, *, user=None, autocommit=None):
        """A connection to a copy of what is committed here, which goes with its last connection.

        The copy is made in about a commit's time, whatever the size of the database.
        """
        if self._database is None:
            raise InterfaceError("it is closed")
        return Connection(self._database.fresh(), user, self.autocommit if autocommit is None else autocommit)

    def executemany(self, sql, seq_of_parameters):
        return self.cursor().executemany(sql, seq_of_parameters)

    def copy(self, sql):
        """A COPY, as a context manager: `COPY … FROM STDIN` or `COPY … TO STDOUT`."""
        words = sql.upper().split()
        return Copy(self._session, sql, "STDIN" in words)

    def fetch_df(self, sql, params=None):
        """The rows of a statement as a DataFrame of pandas."""
        import pyarrow

        return pyarrow.table(self.arrow(sql, params)).to_pandas()

    def notifies(self, timeout=0.0):
        """The notifications that have arrived, after LISTEN; waits for the first as many seconds as `timeout` says."""
        for pid, channel, payload in self._session.take_notifications(timeout):
            yield Notify(channel, payload, pid)

    @property
    def notices(self):
        """The messages that were no errors since the last look: pairs of severity and a dict."""
        return self._session.take_notices()

    def transaction(self, run, attempts=10):
        """Runs `run(connection)` in a transaction. After a conflict with others (40001, 40P01) it runs again."""
        for attempt in range(1, attempts + 1):
            try:
                result = run(self)
                self.commit()
                return result
            except errors.Retryable:
                self.rollback()
                if attempt == attempts:
                    raise
                if attempt > 1:
                    import random

                    _time.sleep(random.random() * min(0.0005 * 2**attempt, 0.1))
            except BaseException:
                if not self.closed:
                    self.rollback()
                raise

    @property
    def autocommit(self):
        return self._session.autocommit

    @autocommit.setter
    def autocommit(self, value):
        self._session.autocommit = bool(value)

    @property
    def closed(self):
        return self._session.closed

    @property
    def transaction_status(self):
        """"idle", "open" or "failed"."""
        return self._session.transaction_status

    _LEVELS = ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED")

    @property
    def isolation_level(self):
        """Of the transactions that begin from now on; None is the database's default."""
        begin = self._session.begin_statement
        return begin.split("LEVEL ", 1)[1] if "LEVEL " in begin else None

    @isolation_level.setter
    def isolation_level(self, level):
        if level is None:
            self._session.begin_statement = "BEGIN"
            return
        level = level.upper().replace("_", " ")
        if level not in self._LEVELS:
            raise ProgrammingError(f"there is no isolation level {level}")
        self._session.begin_statement = f"BEGIN ISOLATION LEVEL {level}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    def __repr__(self):
        return f"<colibri.Connection {'closed' if self.closed else self.transaction_status}>"


# A process has a database open once; all its connections share that.
_open = _weakref.WeakValueDictionary()
_open_lock = _threading.Lock()


def _forked():
    # What the parent has opened is not this process's.
    global _open, _open_lock
    for known in list(_open.values()):
        known.leave_to_parent()
    _open = _weakref.WeakValueDictionary()
    _open_lock = _threading.Lock()


_os.register_at_fork(after_in_child=_forked)


def database(path, *, durability="sync", create=True):
    """The database in a directory, opened if no connection of this process has it open."""
    with _open_lock:
        key = _os.path.realpath(path)
        known = _open.get(key)
        if known is None:
            known = _open[key] = Database(key, durability, create)
        return known


def connect(path, *, user=None, autocommit=False, durability="sync", create=True):
    """Opens a session on the database in a directory, which is made if there is none.

    durability: "sync": a commit returns once it is on disk; "lazy": at once, and a crash of the system may lose the
    last second; "nosync": data are on disk when the database is closed. It holds for all connections of the process
    to this database; the first one decides.
    """
    return Connection(database(path, durability=durability, create=create), user, autocommit)
