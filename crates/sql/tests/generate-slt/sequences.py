"""Sequences, identity columns and what transactions do to them, drawn at random.
fuzz.py runs them (`--kind sequences`)."""
import random

NAMES = ["s1", "s2", "s3", "t1_id_seq", "t2_id_seq", "nosuch"]
TYPES = ["smallint", "integer", "bigint", "int8", "numeric", "text"]
NUMBERS = ["0", "1", "-1", "2", "3", "5", "10", "-10", "100", "32767", "32768", "-32768", "2147483647", "2147483648", "9223372036854775807",
           "-9223372036854775808", "9223372036854775808"]


class Sequences:
    """`failed` says whether the last statement has failed: whoever runs the statements keeps it."""

    def __init__(self, seed):
        self.r = random.Random(f"sequences {seed}")
        self.failed, self.open = False, False

    def pick(self, *choices):
        return self.r.choice(choices)

    def number(self):
        return self.r.choice(NUMBERS if self.r.random() < 0.3 else NUMBERS[:9])

    def name(self):
        return self.r.choice(NAMES[:3]) if self.r.random() < 0.8 else self.r.choice(NAMES)

    def options(self, altered=False):
        return " ".join(self.listed_options(altered))

    def listed_options(self, altered=False):
        drawn = []
        for _ in range(self.r.randrange(1 if altered else 0, 4)):
            drawn.append(self.pick(f"INCREMENT {self.pick('', 'BY ')}{self.number()}", f"MINVALUE {self.number()}", f"MAXVALUE {self.pick('+5', '1.5', '99999999999999999999')}", "NO MINVALUE", f"MAXVALUE {self.number()}", "NO MAXVALUE",
                                   f"START {self.pick('', 'WITH ')}{self.number()}", f"CACHE {self.pick('1', '1', '0', '-1')}", "CYCLE", "CYCLE", "NO CYCLE",
                                   f"AS {self.r.choice(TYPES)}", *([f"RESTART{self.pick('', ' ' + self.number(), ' WITH ' + self.number())}"] * (3 if altered else 0)),
                                   f"OWNED BY {self.pick('NONE', 't1.id', 't2.n', 't1.nosuch', 'nosuch.id')}"))
        # Where one comes twice PostgreSQL refuses it only if it has something to do.
        kinds = {option.removeprefix("NO ").split(" ")[0]: option for option in drawn}
        return list(kinds.values())

    def identity(self):
        column = self.pick("id", "id", "id", "id", "n", "nosuch", "ctid")
        kind = self.pick("ALWAYS", "BY DEFAULT")
        options = self.pick("", "", f" ({self.options() or 'START 3'})", f" (SEQUENCE NAME {self.name()})")
        changes = [option if option.startswith("RESTART") else f"SET {option}" for option in self.listed_options(True)] + self.pick([], [f"SET GENERATED {kind}"])
        return f"ALTER {column} " + self.pick("DROP NOT NULL", "SET NOT NULL", "DROP DEFAULT", "SET DEFAULT 5", f"ADD GENERATED {kind} AS IDENTITY{options}", f"ADD GENERATED {kind} AS IDENTITY{options}",
                                              f"SET GENERATED {kind}", " ".join(changes) or "RESTART", " ".join(changes) or "RESTART", "DROP IDENTITY", "DROP IDENTITY IF EXISTS")

    def call(self):
        name = self.name()
        value = self.number()
        return self.pick(*[f"nextval('{name}')"] * 5, f"currval('{name}')", f"currval('{name}')", "lastval()", f"setval('{name}', {value})", f"setval('{name}', {value}, {self.pick('true', 'false', 'NULL')})",
                         f"nextval('public.{name}')", f"nextval('{name}'::regclass::oid)", f"setval('{name}'::regclass::oid, {value})", f"currval((SELECT oid FROM pg_class WHERE relname = '{name}'))", f"nextval('{name}'::regclass)", f"nextval('{name}'::text)", "nextval(NULL)", f"setval('{name}', NULL)", f"nextval('{self.pick('t1', 'S1', chr(34) + name + chr(34), 'a.b.c.d', '')}')",
                         f"pg_get_serial_sequence('{self.pick('t1', 't2', 'nosuch')}', '{self.pick('id', 'n', 'nosuch')}')")

    def query(self):
        r = self.r
        k = r.randrange(8)
        if k < 4: return f"SELECT {self.call()}"
        if k == 4: return f"SELECT {self.call()}, {self.call()}"
        if k == 5: return f"SELECT nextval('{self.name()}') FROM generate_series(1, {r.randrange(1, 5)})"
        if k == 6: return f"SELECT x, nextval('{self.name()}') FROM (VALUES (3), (1), (2)) v(x) ORDER BY {self.pick('x', '1 DESC', '2')} LIMIT {r.randrange(0, 4)}"
        return self.pick(f"SELECT nextval('{self.name()}') FROM (VALUES (1), (2)) v(x) WHERE x > {r.randrange(3)}", f"SELECT CASE WHEN {self.pick('true', 'false')} THEN nextval('{self.name()}') ELSE 0 END",
                         f"SELECT coalesce({r.randrange(3)}, nextval('{self.name()}'))", f"SELECT count(nextval('{self.name()}')) FROM (VALUES (1), (2), (3)) v(x)",
                         f"SELECT nextval('{self.name()}') IS NULL OR true", f"SELECT nextval('{self.name()}') UNION ALL SELECT nextval('{self.name()}')", f"SELECT (SELECT nextval('{self.name()}')) FROM (VALUES (1), (2)) v(x)")

    def definition(self):
        r = self.r
        k = r.randrange(14)
        if k < 5: return f"CREATE SEQUENCE {self.pick('', 'IF NOT EXISTS ')}{self.name()} {self.options()}"
        if k < 9: return f"ALTER SEQUENCE {self.pick('', '', 'IF EXISTS ')}{self.name()} {self.options(True)}"
        if k == 9: return f"DROP SEQUENCE {self.pick('', 'IF EXISTS ')}{self.name()}{self.pick('', '', ' CASCADE')}"
        if k == 10: return f"ALTER SEQUENCE {self.name()} RENAME TO {self.name()}"
        if k == 11: return f"ALTER TABLE t{self.pick('1', '2')} " + ", ".join(self.identity() for _ in range(r.choice([1, 1, 1, 2])))
        if k == 12: return self.pick(f"TRUNCATE t{self.pick('1', '2')}{self.pick('', ' RESTART IDENTITY', ' CONTINUE IDENTITY')}", f"ALTER TABLE t1 ALTER id TYPE {self.pick('bigint', 'smallint', 'int', 'text')}", f"DROP TABLE IF EXISTS t{self.pick('1', '2')}")
        return self.pick("CREATE TABLE IF NOT EXISTS t1 (id int GENERATED BY DEFAULT AS IDENTITY, n int)", f"CREATE TABLE IF NOT EXISTS t1 (id {self.pick('smallint', 'int', 'bigint', 'text')} GENERATED {self.pick('ALWAYS', 'BY DEFAULT')} AS IDENTITY ({self.options()}), n int)",
                         "CREATE TABLE IF NOT EXISTS t2 (id serial, n int)", f"CREATE TABLE IF NOT EXISTS t2 (id {self.pick('smallserial', 'bigserial', 'serial')}, n int DEFAULT nextval('{self.name()}'))")

    def change(self):
        t = self.pick("t1", "t2")
        return self.pick(f"INSERT INTO {t} (n) VALUES (1), (2) RETURNING *", f"INSERT INTO {t} VALUES ({self.pick('DEFAULT', '7', 'NULL')}, 3) RETURNING *", f"INSERT INTO {t} DEFAULT VALUES RETURNING id",
                         f"INSERT INTO {t} OVERRIDING {self.pick('SYSTEM', 'USER')} VALUE VALUES (70, 1) RETURNING *", f"UPDATE {t} SET id = {self.pick('DEFAULT', '9')} WHERE n = 1 RETURNING *", f"INSERT INTO {t} (n) SELECT g FROM generate_series(1, 3) g RETURNING id",
                         f"DELETE FROM {t}")

    def transaction(self):
        self.open = True
        return self.pick("BEGIN", "BEGIN", "BEGIN READ ONLY", "SAVEPOINT a", "SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK TO a", "RELEASE a", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK")

    def statement(self):
        if self.failed and self.r.random() < 0.6:
            return self.pick("ROLLBACK TO a", "ROLLBACK TO a", "ROLLBACK", "COMMIT")
        k = self.r.random()
        if k < 0.42: return self.query()
        if k < 0.66: return self.definition()
        if k < 0.74: return self.change()
        if k < 0.90: return self.transaction()
        if k < 0.94: return f"SELECT last_value, is_called FROM {self.name()}"
        if k < 0.95: return "DISCARD SEQUENCES"
        return "SELECT sequencename, data_type, start_value, min_value, max_value, increment_by, cycle, cache_size, last_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1"

    def statements(self, count):
        for _ in range(count):
            yield self.statement()
        yield "ROLLBACK"
        yield "DROP TABLE IF EXISTS t1, t2 CASCADE"
        yield "DROP SEQUENCE IF EXISTS s1, s2, s3, t1_id_seq, t2_id_seq, nosuch CASCADE"
        yield "DISCARD SEQUENCES"
