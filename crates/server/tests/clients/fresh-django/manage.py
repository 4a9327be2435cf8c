"""A Django project in one file, whose tests begin with a database that is there already."""

import os
import sys

from django.conf import settings

settings.configure(
    INSTALLED_APPS=["birds"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
            "USER": os.environ["PGUSER"],
            "NAME": os.environ["PGDATABASE"],
            # The tests' database is a branch of this one: its tables and rows are there at once.
            "TEST": {"NAME": "test_birds", "TEMPLATE": "model"},
        }
    },
)

if __name__ == "__main__":
    if sys.argv[1:] == ["prepare"]:
        import psycopg

        with psycopg.connect(autocommit=True) as server:
            server.execute("CREATE DATABASE model")
        os.environ["PGDATABASE"] = "model"
        with psycopg.connect() as schema:
            schema.execute("CREATE TABLE species (id bigserial PRIMARY KEY, name text NOT NULL)")
            schema.execute("INSERT INTO species (name) SELECT 'bird ' || n FROM generate_series(1, 1000) n")
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
