"""Fixtures for pytest: a fresh database for each test.

The schema is made once a session, by a fixture of yours that overrides `colibri_schema`; each test gets a copy of it,
which shares what the test does not change.
"""

import itertools
import shutil

import pytest


@pytest.fixture(scope="session")
def colibri_schema():
    """Statements that each test's database begins with. Override it."""
    return ""


@pytest.fixture(scope="session")
def colibri_template(colibri_schema, tmp_path_factory):
    """A connection to a database that has the schema. Tests are not durable, and so fast."""
    import colibri

    path = tmp_path_factory.mktemp("colibri") / "template"
    with colibri.connect(path, autocommit=True, durability="nosync") as conn:
        if colibri_schema:
            conn.executescript(colibri_schema)
        yield conn


@pytest.fixture
def colibri_db(colibri_template):
    """A connection to a database of this test's own. More of them are made by its `fresh`."""
    conn = colibri_template.fresh(autocommit=False)
    yield conn
    if not conn.closed:
        conn.close()


@pytest.fixture(scope="session")
def _colibri_directory(colibri_schema, tmp_path_factory):
    import colibri

    path = tmp_path_factory.mktemp("colibri") / "directory"
    with colibri.connect(path, autocommit=True) as conn:
        if colibri_schema:
            conn.executescript(colibri_schema)
    return path


@pytest.fixture
def colibri_path(_colibri_directory, tmp_path):
    """A directory with a database of this test's own, for code that opens one by its path."""
    path = tmp_path / "colibri"
    shutil.copytree(_colibri_directory, path)
    return path


@pytest.fixture(scope="session")
def colibri_kv_template(tmp_path_factory):
    """A database of keys and values, for each test's to begin with. Override it to put something in."""
    import colibri.kv

    with colibri.kv.open(tmp_path_factory.mktemp("colibri") / "kv", durability="nosync") as env:
        yield env


_branches = itertools.count(1)


@pytest.fixture
def colibri_kv(colibri_kv_template):
    """Keys and values of this test's own: a branch, which is dropped after the test."""
    name = f"test {next(_branches)}"
    with colibri_kv_template.branch(name) as env:
        yield env
    colibri_kv_template.drop_branch(name)
