#!/usr/bin/env python3
"""Makes statement lists for the files random_*.slt and matrix_*.slt.

    generate.py DIR          write them to DIR
    generate.py --record     make them and have PostgreSQL answer them; the
                             answers go to ../slt

The same program always makes the same lists: every list has a seed of its own.
The format is that of `against-postgres --record`; the marks `?` and `%` before
a statement are explained there.
"""
import os, random, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


# --- random queries ----------------------------------------------------------

WORDS = ["a", "b", "abc", "Abc", "x y", "", "zz", "ab", "B", "foo", "bar", "été", "a%b", "10", "9"]

# name -> columns with their kinds; `id` is a primary key, never NULL.
TABLES = {
    "r1": [("id", "i"), ("a", "i"), ("b", "i"), ("n", "n"), ("t", "t"), ("f", "b")],
    "r2": [("id", "i"), ("a", "i"), ("c", "i"), ("n", "n"), ("s", "t")],
    "r3": [("id", "i"), ("b", "i"), ("c", "i"), ("t", "t"), ("s", "t")],
}
TYPES = {"i": "int", "n": "numeric(6,2)", "t": "text", "b": "boolean"}
SIZES = {"r1": 30, "r2": 20, "r3": 12}


def sql_text(s):
    return "'" + s.replace("'", "''") + "'"


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def value(self, kind, null=0.15):
        r = self.r
        if r.random() < null:
            return "NULL"
        if kind == "i":
            return str(r.choice([0, 1, 2, 3, 4, 5, 7, 10, -1, -3, 20]))
        if kind == "n":
            return r.choice(["0.00", "1.50", "2.25", "-1.10", "10.00", "3.33", "99.99", "0.01", "-20.00", "5.00"])
        if kind == "t":
            return sql_text(r.choice(WORDS))
        return r.choice(["true", "false"])

    def tables(self):
        out = []
        for name, cols in TABLES.items():
            defs = ", ".join(f"{c} {TYPES[k]}" + (" PRIMARY KEY" if c == "id" else "") for c, k in cols)
            out.append(f"CREATE TABLE {name} ({defs});")
            rows = []
            for i in range(1, SIZES[name] + 1):
                rows.append("(" + ", ".join(str(i) if c == "id" else self.value(k) for c, k in cols) + ")")
            out.append(f"INSERT INTO {name} VALUES\n " + ",\n ".join(rows) + ";")
        out += ["CREATE INDEX r1_a ON r1 (a);", "CREATE INDEX r1_t ON r1 (t, b DESC);",
                "CREATE INDEX r2_a ON r2 (a, c);", "CREATE INDEX r3_c ON r3 (c DESC NULLS LAST);"]
        return out

    # An expression of a kind over the columns in `scope`: [(text, kind)].
    def expr(self, scope, kind, depth):
        r = self.r
        cols = [c for c, k in scope if k == kind]
        if depth <= 0 or r.random() < 0.2:
            if cols and r.random() < 0.75:
                return r.choice(cols)
            if kind == "b" and depth <= 0:
                return self.comparison(scope, 0)
            v = self.value(kind, 0.03)
            return v if v != "NULL" else f"NULL::{TYPES[kind]}"
        return getattr(self, "expr_" + kind)(scope, depth - 1)

    def expr_i(self, s, d):
        r, e = self.r, self.expr
        k = r.randrange(14)
        if k < 3: return f"({e(s, 'i', d)} {r.choice('+-')} {e(s, 'i', d)})"
        if k == 3: return f"({e(s, 'i', 0)} * {e(s, 'i', 0)})"
        if k == 4: return f"({e(s, 'i', d)} / nullif({e(s, 'i', 0)}, 0))"
        if k == 5: return f"({e(s, 'i', d)} % nullif({e(s, 'i', 0)}, 0))"
        if k == 6: return f"abs({e(s, 'i', d)})"
        if k == 7: return f"length({e(s, 't', d)})"
        if k == 8: return f"coalesce({e(s, 'i', d)}, {e(s, 'i', 0)})"
        if k == 9: return f"nullif({e(s, 'i', d)}, {e(s, 'i', 0)})"
        if k == 10: return f"CASE WHEN {e(s, 'b', d)} THEN {e(s, 'i', d)} ELSE {e(s, 'i', 0)} END"
        if k == 11: return f"{r.choice(['greatest', 'least'])}({e(s, 'i', d)}, {e(s, 'i', 0)})"
        if k == 12: return f"(- {e(s, 'i', d)})"
        return f"{r.choice(['round', 'floor', 'ceil', 'trunc'])}({e(s, 'n', d)})::int"

    def expr_n(self, s, d):
        r, e = self.r, self.expr
        k = r.randrange(10)
        if k < 3: return f"({e(s, 'n', d)} {r.choice('+-')} {e(s, r.choice('ni'), d)})"
        if k == 3: return f"({e(s, 'n', 0)} * {e(s, r.choice('ni'), 0)})"
        if k == 4: return f"round({e(s, 'n', 0)} / nullif({e(s, r.choice('ni'), 0)}, 0), {r.randrange(5)})"
        if k == 5: return f"round({e(s, 'n', d)}, {r.choice([0, 1, 2, -1])})"
        if k == 6: return f"coalesce({e(s, 'n', d)}, {e(s, 'n', 0)})"
        if k == 7: return f"CASE WHEN {e(s, 'b', d)} THEN {e(s, 'n', d)} ELSE {e(s, 'i', 0)} END"
        if k == 8: return f"abs({e(s, 'n', d)})"
        return f"({e(s, 'i', d)})::numeric(8,2)"

    def expr_t(self, s, d):
        r, e = self.r, self.expr
        k = r.randrange(13)
        if k < 2: return f"({e(s, 't', d)} || {e(s, 't', 0)})"
        if k == 2: return f"{r.choice(['upper', 'lower', 'reverse', 'trim', 'initcap'])}({e(s, 't', d)})"
        if k == 3: return f"substr({e(s, 't', d)}, {r.randrange(1, 4)}, {r.randrange(0, 4)})"
        if k == 4: return f"{r.choice(['left', 'right'])}({e(s, 't', d)}, {r.randrange(-2, 4)})"
        if k == 5: return f"coalesce({e(s, 't', d)}, {e(s, 't', 0)})"
        if k == 6: return f"concat({e(s, 't', d)}, {e(s, r.choice('in'), 0)})"
        if k == 7: return f"replace({e(s, 't', d)}, {sql_text(r.choice('abx'))}, {sql_text(r.choice(['', 'Q', 'zz']))})"
        if k == 8: return f"CASE WHEN {e(s, 'b', d)} THEN {e(s, 't', d)} ELSE {e(s, 't', 0)} END"
        if k == 9: return f"({e(s, 'i', d)})::text"
        if k == 10: return f"lpad({e(s, 't', d)}, {r.randrange(1, 6)}, '*')"
        if k == 11: return f"nullif({e(s, 't', d)}, {e(s, 't', 0)})"
        return f"concat_ws('-', {e(s, 't', 0)}, {e(s, 't', 0)}, {e(s, 'i', 0)})"

    def comparison(self, s, d):
        r, e = self.r, self.expr
        k = r.choice("iiinntt")
        other = r.choice("in") if k in "in" else "t"
        op = r.choice(["=", "<>", "<", "<=", ">", ">=", "=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return f"({e(s, k, d)} {op} {e(s, other, d)})"

    def expr_b(self, s, d):
        r, e = self.r, self.expr
        k = r.randrange(16)
        if k < 5: return self.comparison(s, d)
        if k == 5: return f"({e(s, 'b', d)} AND {e(s, 'b', d)})"
        if k == 6: return f"({e(s, 'b', d)} OR {e(s, 'b', d)})"
        if k == 7: return f"(NOT {e(s, 'b', d)})"
        kind = r.choice("iint")
        x = e(s, kind, d)
        if k == 8: return f"({x} IS {r.choice(['', 'NOT '])}NULL)"
        if k in (9, 10):
            items = ", ".join(self.value(kind, 0.08) for _ in range(r.randrange(1, 5)))
            return f"({x} {r.choice(['', 'NOT '])}IN ({items}))"
        if k == 11:
            return f"({x} {r.choice(['', 'NOT '])}BETWEEN {r.choice(['', 'SYMMETRIC '])}{e(s, kind, 0)} AND {e(s, kind, 0)})"
        if k == 12:
            return f"({e(s, 't', d)} {r.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} {sql_text(r.choice(['a%', '%b%', '_', '%', 'ab_', '', '%B', 'x%y', '1%']))})"
        if k == 13: return f"({e(s, 'b', d)} IS {r.choice(['', 'NOT '])}{r.choice(['TRUE', 'FALSE', 'UNKNOWN'])})"
        if k == 14 and kind == "i":
            return f"(({e(s, 'i', 0)}, {e(s, 'i', 0)}) {r.choice(['<', '>', '=', '<=', '>=', '<>'])} ({e(s, 'i', 0)}, {e(s, 'i', 0)}))"
        return f"(coalesce({e(s, 'b', d)}, {r.choice(['true', 'false'])}))"

    def scope(self, alias, table):
        return [(f"{alias}.{c}" if alias else c, k) for c, k in TABLES[table]]

    def order(self, n, all_columns=True):
        r = self.r
        keys = list(range(1, n + 1))
        r.shuffle(keys)
        return ", ".join(str(k) + r.choice(["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"]) for k in keys)

    def tail(self, n):
        """ORDER BY every column, perhaps with a limit; or nothing."""
        r = self.r
        if r.random() < 0.3:
            return ""
        s = f" ORDER BY {self.order(n)}"
        if r.random() < 0.3:
            s += f" LIMIT {r.randrange(0, 12)}"
        if r.random() < 0.15:
            s += f" OFFSET {r.randrange(0, 6)}"
        return s

    # Queries over one table.
    def q_where(self):
        t = self.r.choice(list(TABLES))
        s = self.scope("", t)
        return f"SELECT id FROM {t} WHERE {self.expr(s, 'b', 3)} ORDER BY id" + self.r.choice(["", " DESC", " DESC LIMIT 5"])

    def q_list(self):
        t = self.r.choice(list(TABLES))
        s = self.scope("", t)
        n = self.r.randrange(1, 4)
        outs = ", ".join(self.expr(s, self.r.choice("iintb"), 3) for _ in range(n))
        where = f" WHERE {self.expr(s, 'b', 2)}" if self.r.random() < 0.6 else ""
        return f"SELECT id, {outs} FROM {t}{where}{self.tail(n + 1)}"

    def q_order(self):
        t = self.r.choice(list(TABLES))
        s = self.scope("", t)
        keys = ", ".join(self.expr(s, self.r.choice("iintb"), 2) + self.r.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
                         for _ in range(self.r.randrange(1, 3)))
        # A constant is not allowed as a key.
        return f"SELECT id FROM {t} WHERE {self.expr(s, 'b', 1)} ORDER BY {keys}, id" + self.r.choice(["", f" LIMIT {self.r.randrange(1, 8)}"])

    def q_distinct(self):
        t = self.r.choice(list(TABLES))
        s = self.scope("", t)
        n = self.r.randrange(1, 4)
        outs = ", ".join(self.expr(s, self.r.choice("iitb"), self.r.choice([0, 0, 1, 2])) for _ in range(n))
        return f"SELECT DISTINCT {outs} FROM {t} WHERE {self.expr(s, 'b', 1)}{self.tail(n)}"

    # Aggregates.
    def aggregate(self, s, d):
        r = self.r
        k = r.randrange(9)
        f = f" FILTER (WHERE {self.expr(s, 'b', 1)})" if r.random() < 0.15 else ""
        dist = "DISTINCT " if r.random() < 0.15 else ""
        if k == 0: return "count(*)" + f
        if k == 1: return f"count({dist}{self.expr(s, r.choice('int'), d)}){f}"
        if k == 2: return f"sum({dist}{self.expr(s, 'i', d)}){f}"
        if k == 3: return f"sum({self.expr(s, 'n', d)}){f}"
        if k == 4: return f"avg({dist}{self.expr(s, 'i', d)}){f}"
        if k == 5: return f"round(avg({self.expr(s, 'n', d)}){f}, 4)"
        if k == 6: return f"{r.choice(['min', 'max'])}({self.expr(s, r.choice('iit'), d)}){f}"
        if k == 7: return f"{r.choice(['bool_and', 'bool_or'])}({self.expr(s, 'b', d)}){f}"
        x = self.expr(s, "t", d)
        return f"string_agg({x}, ',' ORDER BY {x}){f}"

    def grouped(self, s, source):
        r = self.r
        keys = [self.expr(s, r.choice("iitb"), r.choice([0, 0, 1, 2])) for _ in range(r.randrange(0, 3))]
        # Constants as keys would be ordinals or errors.
        keys = [k if any(c in k for c, _ in s) else r.choice([c for c, kk in s if kk != "n"]) for k in keys]
        aggs = [self.aggregate(s, r.choice([0, 1, 2])) for _ in range(r.randrange(1, 4))]
        group = ""
        if keys:
            group = " GROUP BY " + ", ".join(str(i + 1) if r.random() < 0.3 else k for i, k in enumerate(keys))
        having = ""
        if r.random() < 0.25:
            having = f" HAVING {r.choice(['count(*)', self.aggregate(s, 0)])} {r.choice(['> 1', 'IS NOT NULL', '<> 2'])}"
        return f"SELECT {', '.join(keys + aggs)} FROM {source}{group}{having}{self.tail(len(keys) + len(aggs))}"

    def q_group(self):
        t = self.r.choice(list(TABLES))
        s = self.scope("", t)
        where = f" WHERE {self.expr(s, 'b', 2)}" if self.r.random() < 0.5 else ""
        return self.grouped(s, t + where)

    # Joins.
    def join(self, how_many):
        r = self.r
        ts = [r.choice(list(TABLES)) for _ in range(how_many)]
        s, text = self.scope("x0", ts[0]), f"{ts[0]} x0"
        for i, t in enumerate(ts[1:], 1):
            new = self.scope(f"x{i}", t)
            kind = r.choice("iiiit")
            left = r.choice([c for c, k in s if k == kind])
            right = r.choice([c for c, k in new if k == kind])
            on = f"{left} = {right}"
            if r.random() < 0.3:
                on += f" AND {self.expr(s + new, 'b', 1)}"
            how = r.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            text += f" {how} {t} x{i} ON {on}"
            s = s + new
        return s, text

    def q_join(self):
        r = self.r
        n = r.choice([2, 2, 2, 3])
        s, text = self.join(n)
        outs = [f"x{i}.id" for i in range(n)]
        if r.random() < 0.4:
            outs.append(self.expr(s, r.choice("itb"), 2))
        where = f" WHERE {self.expr(s, 'b', 2)}" if r.random() < 0.6 else ""
        q = f"SELECT {', '.join(outs)} FROM {text}{where} ORDER BY {self.order(len(outs))} LIMIT {r.randrange(3, 15)}"
        return q

    def q_join_group(self):
        s, text = self.join(self.r.choice([2, 2, 3]))
        where = f" WHERE {self.expr(s, 'b', 1)}" if self.r.random() < 0.4 else ""
        return self.grouped(s, text + where)

    def q_comma(self):
        r = self.r
        a, b = r.choice(list(TABLES)), r.choice(list(TABLES))
        s1, s2 = self.scope("x", a), self.scope("y", b)
        ci = lambda s: r.choice([c for c, k in s if k == "i"])
        cond = f"{ci(s1)} {r.choice(['=', '=', '<', '>'])} {ci(s2)} AND {self.expr(s1 + s2, 'b', 2)}"
        return f"SELECT count(*), sum(x.id), sum(y.id), min(x.id), max(y.id) FROM {a} x, {b} y WHERE {cond}"

    # Subqueries and set operations.
    def q_sub(self):
        r = self.r
        a, b = r.choice(list(TABLES)), r.choice(list(TABLES))
        s1, s2 = self.scope("x", a), self.scope("y", b)
        ci = lambda s: r.choice([c for c, k in s if k == "i"])
        both = f"{ci(s2)} {r.choice(['=', '=', '<', '<>'])} {ci(s1)}"
        inner = f" AND {self.expr(s1 + s2, 'b', 1)}" if r.random() < 0.4 else ""
        k = r.randrange(6)
        if k == 0:
            return f"SELECT x.id FROM {a} x WHERE {r.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {b} y WHERE {both}{inner}) ORDER BY 1"
        if k == 1:
            return f"SELECT x.id FROM {a} x WHERE {ci(s1)} {r.choice(['', 'NOT '])}IN (SELECT {ci(s2)} FROM {b} y WHERE {self.expr(s2, 'b', 1)}) ORDER BY 1"
        if k == 2:
            return f"SELECT x.id, (SELECT {self.aggregate(s2, 0)} FROM {b} y WHERE {both}{inner}) FROM {a} x ORDER BY 1"
        if k == 3:
            op = r.choice(["=", "<>", "<", ">=", ">"])
            return f"SELECT x.id FROM {a} x WHERE {ci(s1)} {op} {r.choice(['ANY', 'ALL'])} (SELECT {ci(s2)} FROM {b} y WHERE {self.expr(s2, 'b', 1)}) ORDER BY 1"
        if k == 4:
            return f"SELECT x.id, {ci(s1)} IN (SELECT {ci(s2)} FROM {b} y WHERE {both}{inner}) FROM {a} x WHERE {self.expr(s1, 'b', 1)} ORDER BY 1"
        return (f"SELECT s.k, s.c, x.id FROM (SELECT {ci(s2)} AS k, count(*) AS c FROM {b} y WHERE {self.expr(s2, 'b', 1)} GROUP BY 1) s "
                f"{r.choice(['JOIN', 'LEFT JOIN'])} {a} x ON {ci(s1)} = s.k ORDER BY 1, 2, 3 LIMIT 15")

    def q_set(self):
        r = self.r
        n = r.randrange(1, 3)
        kinds = [r.choice("iit") for _ in range(n)]
        parts = []
        for _ in range(r.choice([2, 2, 2, 3])):
            t = r.choice(list(TABLES))
            s = self.scope("", t)
            parts.append(f"SELECT {', '.join(self.expr(s, k, r.choice([0, 0, 1])) for k in kinds)} FROM {t} WHERE {self.expr(s, 'b', 1)}")
        text = parts[0]
        for p in parts[1:]:
            text += f" {r.choice(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT', 'INTERSECT ALL', 'EXCEPT ALL'])} {p}"
        return f"{text} ORDER BY {self.order(n)}" + (f" LIMIT {r.randrange(1, 10)}" if r.random() < 0.5 else "")

    def q_with(self):
        r = self.r
        a, b = r.choice(list(TABLES)), r.choice(list(TABLES))
        s1, s2 = self.scope("", a), self.scope("", b)
        ci = lambda s: r.choice([c for c, k in s if k == "i"])
        return (f"WITH p AS (SELECT {ci(s1)} AS k, {self.expr(s1, r.choice('it'), 1)} AS v FROM {a} WHERE {self.expr(s1, 'b', 1)}), "
                f"q AS (SELECT {ci(s2)} AS k, count(*) AS c FROM {b} GROUP BY 1) "
                f"SELECT p.k, p.v, q.c FROM p {r.choice(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} q USING (k) ORDER BY 1, 2, 3 LIMIT 12")


# What each file holds: seed, number of statements, kinds of queries.
RANDOM = {
    "random_where": (101, 420, ["q_where"], "conditions in WHERE"),
    "random_expressions": (102, 320, ["q_list", "q_list", "q_order"], "expressions in the select list and in ORDER BY"),
    "random_groups": (103, 330, ["q_group", "q_group", "q_distinct"], "GROUP BY, HAVING, aggregates and DISTINCT"),
    "random_joins": (104, 340, ["q_join", "q_join", "q_join_group", "q_comma"], "joins of two and three tables"),
    "random_subqueries": (105, 360, ["q_sub", "q_sub", "q_set", "q_with"], "subqueries, set operations and WITH"),
    "random_mixed": (106, 400, ["q_where", "q_list", "q_order", "q_distinct", "q_group", "q_join", "q_join_group", "q_comma", "q_sub", "q_set", "q_with"], "all kinds of queries"),
}


def random_file(seed, count, kinds, about):
    g = Gen(seed)
    out = [f"# Random queries over three small tables of integers, numerics, text and NULLs:\n# {about}. Made by ../generate-slt/generate.py."]
    out += g.tables()
    seen = set()
    while len(seen) < count:
        q = getattr(g, g.r.choice(kinds))()
        if q not in seen and len(q) < 700:
            seen.add(q)
            out.append("?" + q + ";")
    out += [f"DROP TABLE {t};" for t in TABLES]
    return out


# Random changes: after every few the whole table is looked at.
def random_changes():
    g = Gen(107)
    r = g.r
    out = ["# Random INSERT, UPDATE and DELETE statements over three small tables, in and out\n# of transactions with savepoints, with the tables' sums after every one.\n# Made by ../generate-slt/generate.py."]
    out += g.tables()
    look = {t: f"SELECT count(*), sum(id), " + ", ".join(f"sum({c})" if k in "in" else f"count(DISTINCT {c})" if k == "b" else f"md5(string_agg({c}, ',' ORDER BY {c}))" for c, k in cols[1:]) + f" FROM {t};" for t, cols in TABLES.items()}
    next_id, points = 100, []
    in_tx = False
    for step in range(220):
        t = r.choice(list(TABLES))
        cols = TABLES[t]
        s = g.scope("", t)
        k = r.randrange(13)
        if k < 3:
            rows = []
            for _ in range(r.randrange(1, 4)):
                next_id += 1
                rows.append("(" + ", ".join(str(next_id) if c == "id" else g.value(kk) for c, kk in cols) + ")")
            out.append(f"INSERT INTO {t} VALUES {', '.join(rows)};")
        elif k < 6:
            c, kk = r.choice(cols[1:])
            # Small values, so that nothing overflows however often it is done.
            e = {"i": "(%s) %% 100", "n": "round((%s) %% 100, 2)", "t": "left(%s, 12)", "b": "%s"}[kk] % g.expr(s, kk, 2)
            out.append(f"UPDATE {t} SET {c} = {e} WHERE {g.expr(s, 'b', 2)};")
        elif k == 6:
            out.append(f"DELETE FROM {t} WHERE {g.expr(s, 'b', 1)} AND id % {r.randrange(3, 7)} = 0;")
        elif k == 7:
            t2 = r.choice([x for x in TABLES if x != t])
            out.append(f"UPDATE {t} SET {[c for c, kk in cols if kk == 'i'][1]} = s.m FROM (SELECT id, max({[c for c, kk in TABLES[t2] if kk == 'i'][1]}) AS m FROM {t2} GROUP BY id) s WHERE s.id = {t}.id AND s.m IS NOT NULL;")
        elif k == 8:
            names = ", ".join(c for c, _ in cols)
            vals = ", ".join(str(r.randrange(1, 30)) if c == "id" else g.value(kk) for c, kk in cols)
            c, _ = r.choice(cols[1:])
            out.append(f"INSERT INTO {t} ({names}) VALUES ({vals}) ON CONFLICT (id) DO {r.choice(['NOTHING', f'UPDATE SET {c} = EXCLUDED.{c}'])};")
        elif k == 9:
            out.append(f"UPDATE {t} SET id = id + 1000 WHERE id = {r.randrange(1, 20)};")
        elif not in_tx:
            out.append("BEGIN;")
            in_tx, points = True, []
        elif k == 10:
            out.append(r.choice(["COMMIT;", "ROLLBACK;", "ROLLBACK;"]))
            in_tx = False
        elif k == 11 or not points:
            name = f"s{len(points)}"
            points.append(name)
            out.append(f"SAVEPOINT {name};")
        else:
            at = r.randrange(len(points))
            out.append(f"{r.choice(['ROLLBACK TO', 'ROLLBACK TO', 'RELEASE'])} {points[at]};")
            points = points[:at] if out[-1].startswith("RELEASE") else points[:at + 1]
        if out[-1].split()[0] in ("INSERT", "UPDATE", "DELETE"):
            out.append(look[t])
        elif out[-1].split()[0] in ("ROLLBACK", "COMMIT"):
            out += [look[x] for x in TABLES]
    if in_tx:
        out.append("COMMIT;")
    out += [look[x] for x in TABLES]
    out += [f"DROP TABLE {t};" for t in TABLES]
    return out


# --- every type with every other ---------------------------------------------

VALUES = [
    "2::smallint", "7", "5000000000", "2.50", "1.5::real", "2.5::float8", "'12'", "'abc'::text", "'ab'::varchar(5)", "'ab'::char(4)",
    "true", "date '2024-02-29'", "time '10:20:30'", "timestamp '2024-02-29 10:20:30'", "timestamptz '2024-02-29 10:20:30+02'",
    "interval '1 day 02:00'", "'\\x0102'::bytea", "'00000000-0000-0000-0000-000000000001'::uuid", "NULL",
]
CASTS = VALUES + [
    "0", "-1", "32768", "2147483648", "9223372036854775808", "-2.5", "0.5", "99999.5", "'NaN'::float8", "'Infinity'::real", "'NaN'::numeric", "1e10::float8",
    "' 42 '::text", "'1.5'::text", "'t'::text", "''::text", "'2024-02-29'::text", "'10:20:30'::text", "'2024-02-29 10:20:30'::text", "'3 hours'::text", "'\\x00'::text",
    "'1e3'::text", "false", "date 'infinity'", "interval '-1 mon 25:00:00'", "timestamp '1999-12-31 23:59:59.999'",
]
TARGETS = ["smallint", "int", "bigint", "numeric", "numeric(4,1)", "real", "float8", "text", "varchar(4)", "char(4)", "boolean", "date", "time",
           "timestamp", "timestamptz", "interval", "bytea", "uuid"]


def matrix_casts():
    out = ["# Every type cast to every other one: values, and errors where there is no cast\n# or the value does not fit. Made by ../generate-slt/generate.py."]
    for v in CASTS:
        out += [f"%= ({v})::{t}" for t in TARGETS if not (v == "NULL" and t not in ("int", "text", "date"))]
    return out


def matrix_operators():
    out = ["# Operators over every pair of types: results, their types, and errors. Made by\n# ../generate-slt/generate.py."]
    numbers = [v for v in VALUES[:7]] + ["interval '1 day 02:00'"]
    for op in ["+", "-"]:
        out += [f"%= x, pg_typeof(x) FROM (SELECT {a} {op} {b} AS x) s" for a in VALUES for b in VALUES]
    for op in ["*", "/", "%"]:
        out += [f"%= x, pg_typeof(x) FROM (SELECT {a} {op} {b} AS x) s" for a in numbers for b in numbers]
    for op in ["<", "||"]:
        out += [f"%= x, pg_typeof(x) FROM (SELECT {a} {op} {b} AS x) s" for a in VALUES for b in VALUES]
    return out


def matrix_common_types():
    out = ["# The common type of every pair of types, in CASE and UNION. Made by\n# ../generate-slt/generate.py."]
    for a in VALUES:
        for b in VALUES:
            out.append(f"%= x, pg_typeof(x) FROM (SELECT CASE WHEN true THEN {a} ELSE {b} END AS x) s")
    return out


def matrix_assignment():
    columns = ["smallint", "int", "numeric(4,1)", "float8", "text", "varchar(4)", "boolean", "date", "timestamp", "interval"]
    out = ["# Every type assigned to columns of the others, which needs an assignment cast\n# (or a literal). Made by ../generate-slt/generate.py."]
    out.append("CREATE TABLE m (" + ", ".join(f"c{i} {t}" for i, t in enumerate(columns)) + ");")
    for v in VALUES[:-1]:
        out += [f"%INSERT INTO m (c{i}) VALUES ({v});" for i in range(len(columns))]
    for i in range(len(columns)):
        out.append(f"SELECT c{i} FROM m WHERE c{i} IS NOT NULL ORDER BY c{i};")
    out.append("DROP TABLE m;")
    return out


def matrix_compare():
    r = random.Random(108)
    sets = {
        "int": ["0", "1", "-1", "2147483647", "-2147483648", "NULL"],
        "bigint": ["0", "1", "-9223372036854775808", "9223372036854775807", "NULL"],
        "numeric": ["0", "0.00", "1.5", "1.50", "-1.5", "'NaN'", "1e20", "NULL"],
        "float8": ["0", "'-0'", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "1e300", "NULL"],
        "text": ["''", "'a'", "'A'", "'a '", "'ab'", "'é'", "'10'", "'9'", "NULL"],
        "char(3)": ["''", "'a'", "'a '", "'ab'", "'A'", "NULL"],
        "boolean": ["true", "false", "NULL"],
        "date": ["'2024-01-01'", "'2023-12-31'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "NULL"],
        "time": ["'00:00'", "'24:00'", "'12:30:00.5'", "NULL"],
        "timestamp": ["'2024-01-01'", "'2024-01-01 00:00:00.000001'", "'infinity'", "'1900-01-01'", "NULL"],
        "timestamptz": ["'2024-01-01 00:00+00'", "'2024-01-01 01:00+01'", "'2024-01-01 00:00+01'", "NULL"],
        "interval": ["'1 day'", "'24:00'", "'1 mon'", "'30 days'", "'-1 day'", "'0'", "NULL"],
        "uuid": ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"],
        "bytea": ["'\\x'", "'\\x00'", "'\\x0001'", "'\\xff'", "NULL"],
    }
    out = ["# Comparisons of pairs of values of each type, and the order of all of them.\n# Made by ../generate-slt/generate.py."]
    for t, vs in sets.items():
        pairs = [(a, b) for a in vs for b in vs]
        for a, b in pairs if len(pairs) <= 16 else r.sample(pairs, 16):
            x, y = f"CAST({a} AS {t})", f"CAST({b} AS {t})"
            out.append(f"= {x} = {y}, {x} <> {y}, {x} < {y}, {x} <= {y}, {x} > {y}, {x} >= {y}, {x} IS DISTINCT FROM {y}")
        out.append("SELECT x FROM (VALUES " + ", ".join(f"(CAST({v} AS {t}))" for v in vs) + ") v(x) ORDER BY x, x::text;")
        out.append("SELECT x FROM (VALUES " + ", ".join(f"(CAST({v} AS {t}))" for v in vs) + ") v(x) ORDER BY x DESC NULLS LAST, x::text;")
        out.append("SELECT count(DISTINCT x), count(x), count(*) FROM (VALUES " + ", ".join(f"(CAST({v} AS {t}))" for v in vs) + ") v(x);")
    return out


def write_all(d):
    files = {name: random_file(*spec) for name, spec in RANDOM.items()}
    files.update(random_changes=random_changes(), matrix_casts=matrix_casts(), matrix_operators=matrix_operators(),
                 matrix_common_types=matrix_common_types(), matrix_assignment=matrix_assignment(), matrix_compare=matrix_compare())
    paths = []
    for name, lines in files.items():
        paths.append(os.path.join(d, name + ".sql"))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    return paths


if __name__ == "__main__":
    args = sys.argv[1:]
    if args[:1] == ["--record"]:
        with tempfile.TemporaryDirectory() as d:
            paths = write_all(d)
            sys.exit(subprocess.call([os.path.join(HERE, "..", "against-postgres"), "--record", *args[1:], *paths]))
    elif len(args) == 1:
        write_all(args[0])
    else:
        sys.exit(__doc__)
