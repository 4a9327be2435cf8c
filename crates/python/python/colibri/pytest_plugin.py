"""Fixtures for pytest: a fresh database for each test.

The schema is made once a session, by a fixture of yours that overrides `colibri_schema`; each test gets a copy of it.
"""

import shutil

import pytest


@pytest.fixture(scope="session")
def colibri_schema():
    """Statements that each test's database begins with. Override it."""
    return ""


@pytest.fixture(scope="session")
def colibri_template(colibri_schema, tmp_path_factory):
    """A directory with a database that has the schema."""
    import colibri

    path = tmp_path_factory.mktemp("colibri") / "template"
    conn = colibri.connect(path, autocommit=True)
    if colibri_schema:
        conn.executescript(colibri_schema)
    conn.close()
    return path


@pytest.fixture
def colibri_path(colibri_template, tmp_path):
    """A directory with a database of this test's own."""
    path = tmp_path / "colibri"
    shutil.copytree(colibri_template, path)
    return path


@pytest.fixture
def colibri_db(colibri_path):
    """A connection to a database of this test's own. Tests are not durable, and so fast."""
    import colibri

    conn = colibri.connect(colibri_path, durability="nosync")
    yield conn
    if not conn.closed:
        conn.close()
