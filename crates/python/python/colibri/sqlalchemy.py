"""A dialect for SQLAlchemy: `create_engine("colibri:///path/of/the/directory")`.

It is SQLAlchemy's dialect of PostgreSQL, with another driver. Options of the URL: `durability`, `user`.
"""

import datetime

from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql import INTERVAL, JSON, JSONB
from sqlalchemy.dialects.postgresql.base import PGDialect, PGExecutionContext
from sqlalchemy.engine.interfaces import BindTyping
from sqlalchemy.pool import QueuePool

__all__ = ["ColibriDialect"]


class _ExecutionContext(PGExecutionContext):
    def create_default_cursor(self):
        cursor = super().create_default_cursor()
        # Whoever gives the engine a function that reads JSON has it read the text.
        cursor.json_is_text = self.dialect._json_deserializer is not None
        return cursor


class _ReadByTheDriver:
    # The driver gives what json.loads gives, unless the engine has a function of its own.
    def result_processor(self, dialect, coltype):
        return None if dialect._json_deserializer is None else super().result_processor(dialect, coltype)


class _JSON(_ReadByTheDriver, JSON):
    render_bind_cast = True


class _JSONB(_ReadByTheDriver, JSONB):
    render_bind_cast = True


class _Interval(INTERVAL):
    render_bind_cast = True

    @classmethod
    def adapt_emulated_to_native(cls, interval, **_options):
        return cls(precision=interval.second_precision)


class _Numeric(sqltypes.Numeric):
    render_bind_cast = True

    def bind_processor(self, dialect):
        return None

    def result_processor(self, dialect, coltype):
        if self.asdecimal:
            return None
        return lambda value: None if value is None else float(value)


class _Float(sqltypes.Float):
    render_bind_cast = True

    def bind_processor(self, dialect):
        return None

    def result_processor(self, dialect, coltype):
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)
        import decimal

        return lambda value: None if value is None else decimal.Decimal(str(value))


class _Date(sqltypes.Date):
    render_bind_cast = True

    # The driver takes no moment for a date, as the time would be lost; who says Date means that.
    def bind_processor(self, dialect):
        return lambda value: value.date() if isinstance(value, datetime.datetime) else value


def _cast(base):
    """A type whose parameters are written with a cast: by themselves they would be texts where nothing else says more."""
    return type(f"_{base.__name__}", (base,), {"render_bind_cast": True})


_CAST = (
    sqltypes.Integer, sqltypes.SmallInteger, sqltypes.BigInteger, sqltypes.Boolean, sqltypes.String, sqltypes.LargeBinary,
    sqltypes.DateTime, sqltypes.Time, sqltypes.Uuid,
)


class ColibriDialect(PGDialect):
    driver = "colibri"
    name = "postgresql"
    default_paramstyle = "pyformat"
    supports_statement_cache = True
    supports_server_side_cursors = False
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    use_insertmanyvalues = True
    bind_typing = BindTyping.RENDER_CASTS
    execution_ctx_cls = _ExecutionContext

    colspecs = {
        **PGDialect.colspecs,
        **{base: _cast(PGDialect.colspecs.get(base, base)) for base in _CAST},
        sqltypes.Date: _Date,
        sqltypes.Interval: _Interval,
        INTERVAL: _Interval,
        sqltypes.JSON: _JSON,
        JSON: _JSON,
        JSONB: _JSONB,
        sqltypes.Numeric: _Numeric,
        sqltypes.Float: _Float,
    }

    @classmethod
    def import_dbapi(cls):
        import colibri

        return colibri

    @classmethod
    def get_pool_class(cls, url):
        return QueuePool

    def create_connect_args(self, url):
        options = dict(url.query)
        if url.username:
            options["user"] = url.username
        return [url.database or "colibri"], options

    def is_disconnect(self, e, connection, cursor):
        # The process that had the database open is gone; another connection opens it again.
        is_lost = getattr(e, "sqlstate", None) in ("08006", "40003")
        return is_lost or (connection is not None and connection.closed)

    def get_isolation_level_values(self, dbapi_connection):
        return ("AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED")

    def get_isolation_level(self, dbapi_connection):
        was_idle = dbapi_connection.transaction_status == "idle"
        level = super().get_isolation_level(dbapi_connection)
        if was_idle:
            # Asking has begun a transaction, within which the level cannot be changed.
            dbapi_connection.rollback()
        return level

    def set_isolation_level(self, dbapi_connection, level):
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            dbapi_connection.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn):
        return bool(dbapi_conn.autocommit)
