"""A fresh database for each test, on a server with `--ephemeral model`."""

import uuid

import psycopg
import pytest


@pytest.fixture(scope="session")
def model():
    """The database that each test begins with. Migrations go here."""
    with psycopg.connect("dbname=postgres", autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS model")
        server.execute("CREATE DATABASE model")
    with psycopg.connect("dbname=model") as schema:
        schema.execute("CREATE TABLE birds (name text PRIMARY KEY, beats int NOT NULL)")
        schema.execute("INSERT INTO birds VALUES ('colibri', 80)")


@pytest.fixture
def db(model):
    """A connection to a database that nobody else has. It goes when the connection is closed."""
    with psycopg.connect(dbname=f"test_{uuid.uuid4().hex}", autocommit=True) as connection:
        yield connection
