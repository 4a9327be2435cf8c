"""SQLAlchemy's compliance suite for dialects, as its README.dialects says to use it."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing import provision
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


@provision.temp_table_keyword_args.for_db("colibri")
def temporary(cfg, eng):
    return {"prefixes": ["TEMPORARY"]}


@provision.set_default_schema_on_connection.for_db("colibri")
def use_schema(cfg, connection, schema):
    before, connection.autocommit = connection.autocommit, True
    connection.execute(f"SET search_path = '{schema}'")
    connection.autocommit = before


def make_schemas(url, engine, follower):
    with engine.begin() as conn:
        for schema in ("test_schema", "test_schema_2"):
            conn.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")


# PostgreSQL's own hook adds nothing that this needs.
for database in ("colibri", "postgresql"):
    provision.post_configure_engine.fns[database] = make_schemas
