"""What pgcli does in its first minute: it connects, reads the catalogue for its completion, and runs statements."""

import logging
import os

import psycopg
from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgcompleter import PGCompleter
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial

# It writes down each error that a statement of its user's has.
logging.disable(logging.CRITICAL)
special = PGSpecial()
execute = PGExecute("postgres", "postgres", "", os.environ["PGHOST"], os.environ["PGPORT"], "")


def run(text):
    """The rows, or the status, of each statement."""
    answers = []
    for title, rows, headers, status, sql, success, is_special in execute.run(text, special):
        assert success, (sql, status)
        answers.append(list(rows) if headers else status)
    return answers


assert run("CREATE TABLE birds (id int PRIMARY KEY, name text NOT NULL)") == ["CREATE TABLE"]
run("CREATE TABLE sightings (bird int REFERENCES birds, at timestamptz); CREATE VIEW all_birds AS SELECT * FROM birds")
assert run("INSERT INTO birds VALUES (1, 'colibri')") == ["INSERT 0 1"]
assert run("SELECT * FROM birds; SELECT 2 AS n") == [[(1, "colibri")], [(2,)]]

# Its completion.
assert "public" in execute.schemata()
assert ("public", "birds") in list(execute.tables())
assert ("public", "all_birds") in list(execute.views())
assert ("public", "birds", "name", "text", False, None) in list(execute.table_columns())
assert [key.parenttable for key in execute.foreignkeys()] == ["birds"]
assert "postgres" in execute.databases()
assert any(name == "int4" for _, name in execute.datatypes()) or list(execute.datatypes()) == []
assert "public" in execute.search_path()
completer = PGCompleter(pgspecial=special)
for name, refresh in CompletionRefresher.refreshers.items():
    if name != "functions":
        refresh(completer, execute)

# What is typed.
for command in ["\\d", "\\dt", "\\d birds", "\\l", "\\dn", "\\du", "\\di", "\\dv", "\\x", "\\x"]:
    run(command)
try:
    run("SELECT nope FROM birds")
    raise AssertionError("no error")
except psycopg.errors.UndefinedColumn:
    pass
assert run("SELECT count(*) FROM birds") == [[(1,)]]
execute.conn.close()
print("ok")
