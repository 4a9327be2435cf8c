"""What Django's backend for PostgreSQL uses of psycopg2, over this package.

Parameters become literals of the statement, as psycopg2 makes them: what Django writes for PostgreSQL relies on that,
since a literal takes the type of its place and a parameter has one of its own.
"""

import atexit
import collections
import datetime
import decimal
import enum
import ipaddress
import json
import os
import types
import uuid

import colibri
from colibri import errors
from colibri.errors import (  # Django asks the driver for them.
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

__all__ = [
    "Binary", "DataError", "DatabaseError", "Error", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError",
    "OperationalError", "ProgrammingError", "connect", "errors", "extensions", "extras",
]

Binary = bytes

# The version of psycopg2 whose interface this is.
__version__ = "2.9.9"

# ---- literals ----


class Json:
    """A value that is written as JSON."""

    def __init__(self, adapted, dumps=None):
        self.adapted = adapted
        self._dumps = dumps

    def dumps(self, value):
        return (self._dumps or json.dumps)(value)


class Jsonb(Json):
    pass


class Inet:
    """An address."""

    def __init__(self, addr):
        self.addr = addr


def text_literal(text):
    if "\0" in text:
        raise DataError("a text has the character 0x00")
    quoted = text.replace("'", "''")
    if "\\" not in text:
        return f"'{quoted}'"
    # It means the same whatever standard_conforming_strings says. A letter before it would be of another word.
    return " E'" + quoted.replace("\\", "\\\\") + "'"


def _array(values):
    if not values:
        return "'{}'"
    return "ARRAY[" + ",".join(literal(value) for value in values) + "]"


def _float(value):
    text = repr(value)
    if text in ("nan", "inf", "-inf"):
        return f"'{text}'::float"
    return text if value >= 0 else " " + text


def _timedelta(value):
    return f"'{value.days} days {value.seconds}.{value.microseconds:06} seconds'::interval"


def _number(value):
    text = format(value, "f") if isinstance(value, decimal.Decimal) and value.is_finite() else str(value)
    # A minus sign behind another would begin a comment.
    return text if text[0] != "-" else " " + text


def literal(value):
    """A value as a literal of SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum) and not isinstance(value, (str, int, float)):
        return literal(value.value)
    if isinstance(value, str):
        return text_literal(str(value))
    if isinstance(value, int):
        return _number(int(value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, decimal.Decimal):
        return _number(value) if value.is_finite() else f"'{value}'::numeric"
    if isinstance(value, datetime.datetime):
        return f"'{value.isoformat()}'::{'timestamp' if value.tzinfo is None else 'timestamptz'}"
    if isinstance(value, datetime.date):
        return f"'{value.isoformat()}'::date"
    if isinstance(value, datetime.time):
        return f"'{value.isoformat()}'::{'time' if value.tzinfo is None else 'timetz'}"
    if isinstance(value, datetime.timedelta):
        return _timedelta(value)
    if isinstance(value, uuid.UUID):
        return f"'{value}'::uuid"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_literal(f"\\x{bytes(value).hex()}") + "::bytea"
    if isinstance(value, Json):
        return text_literal(value.dumps(value.adapted)) + ("::jsonb" if isinstance(value, Jsonb) else "")
    if isinstance(value, Inet):
        return f"{text_literal(str(value.addr))}::inet"
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return f"'{value}'::inet"
    if isinstance(value, list):
        return _array(value)
    if isinstance(value, tuple):
        return "(" + ",".join(literal(part) for part in value) + ")"
    raise ProgrammingError(f"a value of type {type(value).__name__} is no parameter of a statement")


def mogrified(sql, params):
    """A statement with literals in the places of `%s` and `%(name)s`."""
    sql = str(sql)
    if params is None:
        return sql
    if isinstance(params, dict):
        return sql % {name: literal(value) for name, value in params.items()}
    # What making a literal raises, such as an encoder of JSON, goes to who asked.
    literals = tuple(literal(value) for value in params)
    try:
        return sql % literals
    except TypeError as error:
        raise ProgrammingError(f"the statement and its {len(params)} parameters do not fit: {error}") from error


# ---- connections ----

Column = collections.namedtuple("Column", "name type_code display_size internal_size precision scale null_ok")
_TIMESTAMPTZ_OID = 1184
_NUMERIC_OID = 1700


def _column(name, oid, type_name):
    """A column, with what stands in brackets behind its type: `numeric(8,2)`, `character varying(50)`."""
    _, _, brackets = type_name.partition("(")
    numbers = [int(number) for number in brackets.partition(")")[0].split(",") if number.lstrip("-").isdigit()]
    if oid == _NUMERIC_OID:
        precision, scale = (*numbers, None, None)[:2]
        return Column(name, oid, None, precision, precision, scale, None)
    return Column(name, oid, None, numbers[0] if numbers else None, None, None, None)


class cursor:
    """A cursor with psycopg2's attributes. Its rows are in memory once a statement has run."""

    # What makes a time zone of a distance from UTC; without it times come without a zone, as local ones.
    tzinfo_factory = None

    def __init__(self, connection):
        self.connection = connection
        self._cursor = connection._connection.cursor()
        # Django reads JSON itself.
        self._cursor.json_is_text = True
        self.query = None
        self._converters = []
        self._fetchone = self._cursor.fetchone

    def mogrify(self, sql, params=None):
        return mogrified(sql, params).encode()

    def execute(self, sql, params=None):
        text = mogrified(sql, params)
        self.query = text.encode()
        self._cursor.execute(text)
        converters = {_TIMESTAMPTZ_OID: self._moment}
        oids = [column[1] for column in self._cursor.description or []]
        self._converters = [(place, converters[oid]) for place, oid in enumerate(oids) if oid in converters]

    def executemany(self, sql, seq_of_params):
        count = 0
        for params in seq_of_params:
            self.execute(sql, params)
            count += max(self.rowcount, 0)
        return count

    def callproc(self, name, params=()):
        self.execute(f"SELECT * FROM {name}({', '.join(['%s'] * len(params))})", params)

    def _converted(self, row):
        if row is None or not self._converters:
            return row
        row = list(row)
        for place, convert in self._converters:
            if row[place] is not None:
                row[place] = convert(row[place])
        return tuple(row)

    def _moment(self, value):
        if self.tzinfo_factory is None:
            return value.astimezone(self.connection.zone()).replace(tzinfo=None)
        zone = self.tzinfo_factory(datetime.timedelta())
        return value if zone is None else value.astimezone(zone)

    def fetchone(self):
        return self._converted(self._fetchone())

    def fetchmany(self, size=None):
        rows = self._cursor.fetchmany(self._cursor.arraysize if size is None else size)
        return [self._converted(row) for row in rows] if self._converters else rows

    def fetchall(self):
        rows = self._cursor.fetchall()
        return [self._converted(row) for row in rows] if self._converters else rows

    def __iter__(self):
        while (row := self.fetchone()) is not None:
            yield row

    def copy_expert(self, sql, file, size=8192):
        with self.connection._connection.copy(sql) as copy:
            if copy._is_in:
                while data := file.read(size):
                    copy.write(data)
            else:
                for data in copy:
                    file.write(data.decode() if hasattr(file, "encoding") else data)

    @property
    def description(self):
        described = self._cursor.description
        if described is None:
            return None
        return [_column(column[0], column[1], name) for column, name in zip(described, self._cursor.type_names)]

    @property
    def rowcount(self):
        return self._cursor.rowcount

    @property
    def statusmessage(self):
        return self._cursor.statusmessage

    @property
    def closed(self):
        return self._cursor.closed

    def close(self):
        self._cursor.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()


class _Info:
    """What is known of a session."""

    def __init__(self, connection):
        self._setting = connection.setting

    def parameter_status(self, name):
        return self._setting(name)

    @property
    def server_version(self):
        return int(self._setting("server_version_num"))


class connection:
    """A session with psycopg2's attributes."""

    def __init__(self, path, **options):
        # They are psycopg2's, and say nothing here.
        for name in ("cursor_factory", "client_encoding"):
            options.pop(name, None)
        self._connection = colibri.connect(path, **options)
        self.database = self._connection._database
        self.info = _Info(self._connection)
        self.notices = []
        self._zone = (None, None)
        self.commit, self.rollback = self._connection.commit, self._connection.rollback
        self.cancel = self._connection.cancel

    def close(self):
        self._connection.close()
        self.database = None

    def cursor(self, name=None, **_options):
        return cursor(self)

    def zone(self):
        """The zone of the session."""
        import zoneinfo

        name = self._connection.setting("TimeZone")
        if self._zone[0] != name:
            self._zone = (name, zoneinfo.ZoneInfo(name))
        return self._zone[1]

    @property
    def closed(self):
        return self._connection.closed

    @property
    def autocommit(self):
        return self._connection.autocommit

    @autocommit.setter
    def autocommit(self, value):
        self._connection.autocommit = value

    @property
    def isolation_level(self):
        return self._connection.isolation_level

    @isolation_level.setter
    def isolation_level(self, level):
        self._connection.isolation_level = getattr(level, "name", level)


# Databases stay open when their last connection is closed, as Django does after each request.
_held = {}
atexit.register(_held.clear)
# What the parent has open is not the child's.
os.register_at_fork(after_in_child=_held.clear)


def connect(path, **options):
    key = os.path.realpath(path)
    made = connection(path, **options)
    if key not in _held:
        _held[key] = made.database
    return made


def let_go(path):
    """Closes a database when its last connection is closed, or now."""
    _held.pop(os.path.realpath(path), None)


# ---- the modules of psycopg2 that Django looks into ----


def _nothing(*_arguments, **_options):
    """What is registered with psycopg2 is done here already."""


class IsolationLevel(enum.IntEnum):
    """With psycopg2's numbers."""

    READ_COMMITTED = 1
    REPEATABLE_READ = 2
    SERIALIZABLE = 3
    READ_UNCOMMITTED = 4


extensions = types.ModuleType("psycopg2.extensions")
extensions.__dict__.update(
    cursor=cursor, connection=connection, register_adapter=_nothing, register_type=_nothing, new_array_type=_nothing,
    QuotedString=None, UNICODE=None,
)
extras = types.ModuleType("psycopg2.extras")
extras.__dict__.update(register_uuid=_nothing, register_default_jsonb=_nothing, Json=Json, Inet=Inet)

sql = types.ModuleType("psycopg2.sql")
sql.quote = lambda value, connection=None: literal(value)

# What Django's module `psycopg_any` has.
psycopg_any = types.ModuleType("django.db.backends.postgresql.psycopg_any")


def _mogrify(sql, params, connection):
    return mogrified(sql, params)


psycopg_any.__dict__.update(
    Inet=Inet, Jsonb=Jsonb, IsolationLevel=IsolationLevel, errors=errors, is_psycopg3=False, mogrify=_mogrify, sql=sql,
)
