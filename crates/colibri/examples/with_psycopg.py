#!/usr/bin/env python3
"""Python with psycopg against a server of Colibri's.

    pip install 'psycopg[binary]'
    colibri serve nest                 # in another terminal
    python3 with_psycopg.py                 # or: python3 with_psycopg.py 'host=127.0.0.1 port=5433 user=postgres'

Nothing here is particular to Colibri but one thing: transactions are serializable unless asked otherwise, so one that
meets a conflict is run again, as `attempt` does. Colibri does that by itself for single statements outside a transaction.
"""

import sys
import threading

import psycopg
from psycopg.rows import dict_row

WORKERS = 4
VISITS = 25


def attempt(connection, work):
    """Runs a transaction, again for as long as others were faster."""
    while True:
        try:
            with connection.transaction():
                return work(connection)
        except psycopg.errors.SerializationFailure:
            pass


def visit(connection):
    """Reads, decides, writes: the balance cannot change in between without this being run again."""
    left = connection.execute("SELECT nectar_ml FROM feeders WHERE id = %s", (1,)).fetchone()[0]
    if left < 5:
        return False
    connection.execute("UPDATE feeders SET nectar_ml = %s WHERE id = %s", (left - 5, 1))
    connection.execute("INSERT INTO visits (feeder, ml) VALUES (%s, %s)", (1, 5))
    return True


def bird(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for _ in range(VISITS):
            attempt(connection, visit)


def main():
    conninfo = sys.argv[1] if len(sys.argv) > 1 else "host=127.0.0.1 user=postgres"
    with psycopg.connect(conninfo, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("DROP TABLE IF EXISTS visits, feeders")
        connection.execute("CREATE TABLE feeders (id int PRIMARY KEY, nectar_ml int NOT NULL CHECK (nectar_ml >= 0))")
        connection.execute("CREATE TABLE visits (id serial PRIMARY KEY, feeder int REFERENCES feeders, ml int NOT NULL, at timestamptz DEFAULT now())")
        with connection.cursor().copy("COPY feeders FROM STDIN") as copy:
            copy.write_row((1, 400))
            copy.write_row((2, 0))

        birds = [threading.Thread(target=bird, args=(conninfo,)) for _ in range(WORKERS)]
        for thread in birds:
            thread.start()
        for thread in birds:
            thread.join()

        query = """SELECT feeders.id, nectar_ml, count(visits.id) AS visits, coalesce(sum(ml), 0)::int AS ml
                   FROM feeders LEFT JOIN visits ON feeder = feeders.id GROUP BY feeders.id, nectar_ml ORDER BY 1"""
        for row in connection.execute(query):
            print(f"feeder {row['id']}: {row['visits']} visits, {row['ml']} ml taken, {row['nectar_ml']} ml left")


if __name__ == "__main__":
    main()
