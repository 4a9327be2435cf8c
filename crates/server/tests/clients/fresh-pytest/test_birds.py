import psycopg
import pytest


@pytest.mark.parametrize("round", range(20))
def test_each_begins_anew(db, round):
    assert db.execute("SELECT count(*) FROM birds").fetchone() == (1,)
    db.execute("INSERT INTO birds VALUES ('swift', 8)")
    db.execute("CREATE TABLE mine (a int)")


def test_two_connections_are_in_one_database(db):
    db.execute("DELETE FROM birds")
    with psycopg.connect(dbname=db.info.dbname) as other:
        assert other.execute("SELECT count(*) FROM birds").fetchone() == (0,)
