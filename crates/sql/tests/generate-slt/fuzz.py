#!/usr/bin/env python3
"""Differential fuzzing: statements drawn at random, answered by PostgreSQL and
by us, compared by rows, types of columns and SQLSTATE.

    fuzz.py [--seconds N] [--statements N] [--seed N] [--keep DIR] [--kind KIND]

Each seed makes one slt file of some thousand statements, with PostgreSQL's
answers; the test `slt` runs it, with the literals in the text and with each
lifted out of it. Files that do not agree stay in DIR, a temporary directory
otherwise, and the exit code says so. A seed makes the same file each time.
The last line says how many statements of each kind there were.

Seeds take turns: a file of mixed statements, one of what texts mean, one of
sessions, and so on through TURNS below. --kind chooses one kind alone.

Mixed statements: the queries of generate.py over tables of integers, numerics and
text; expressions of every type, JSON among them, of constants and over a table with a column of
each type, right and wrong ones; groups, set operations and joins over that
table; queries within queries, whole rows among them; random changes; changes of keys
that foreign keys with all actions refer to; assignments to parts of arrays. Texts (texts.py): regular expressions, dates,
intervals, pictures, blanks. Sessions, in which a statement changes what later
ones mean: settings (settings.py), zones and styles (zones.py), sequences
(sequences.py). Privileges (../rights/random.py) need roles, and so the test
`rights`.

A difference that is a mistake becomes a record in a file of ../slt, one that is
meant a line in docs/SQL.md, and, if it comes again and again, a rule in
`is_known` below.

Whether an operand that cannot matter is evaluated, and so an error in it met, is
nobody's promise: where, of mixed statements, only one of both gives an error of
class 22 (data), or both give different ones, the file counts as agreeing and the
statements stand in a file of their own.
"""
import argparse, collections, importlib.machinery, importlib.util, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True  # nothing is left in the tree
import generate  # noqa: E402
import sequences  # noqa: E402
import settings  # noqa: E402
import texts  # noqa: E402
import zones  # noqa: E402


def load(name, path):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


pg = load("against_postgres", os.path.join(HERE, "..", "against-postgres"))

# --- expressions of every type -------------------------------------------------

LEAVES = {
    "num": ["0", "1", "-1", "2", "3", "7", "100", "32767::smallint", "(-32768)::smallint", "2147483647", "-2147483648", "2147483648",
            "9223372036854775807", "-9223372036854775808", "0.5", "1.50", "-2.25", "1e10", "12345678901234567890", "0.001", "1.5::float8",
            "1e15::float8", "'-0'::float8", "'NaN'::float8", "2.5::real", "0.1::real", "'Infinity'::float8", "NULL::int"],
    "text": ["'abc'", "''", "'a'", "'Abc def'", "'été'", "' x '", "'a%b_c'", "'12'", "'-3.5'", "'true'", "'2024-02-29'", "'longer text'::varchar(6)", "'a\\b'", "NULL::text", "'B'", "'ß'", "E'tab\\t'"],
    "bool": ["true", "false", "NULL::boolean", "'t'", "'off'::boolean"],
    "date": ["date '2024-02-29'", "date '1999-12-31'", "date '2000-01-01'", "date '0044-03-15 BC'", "date 'infinity'", "NULL::date",
             "date '2023-03-26'"],
    "ts": ["timestamp '2024-02-29 10:20:30'", "timestamp '1999-12-31 23:59:59.999999'", "timestamp '2000-01-01'", "timestamp '-infinity'",
           "timestamp '0001-01-01 00:00:00'", "NULL::timestamp", "timestamp '2024-10-27 02:30:00'"],
    "tstz": ["timestamptz '2024-02-29 10:20:30+02'", "timestamptz '2024-03-31 01:30:00+00'", "timestamptz '1970-01-01 00:00:00+00'", "NULL::timestamptz"],
    "iv": ["interval '1 day'", "interval '1 mon 2 days 03:04:05.678'", "interval '-1 year -3 hours'", "interval '36 hours'", "interval '0'",
           "interval '1 day -00:00:01'", "NULL::interval", "interval '1.5 months'"],
    "time": ["time '10:20:30'", "time '00:00'", "time '23:59:59.999999'", "time '24:00'", "NULL::time"],
    "bytea": ["'\\x'::bytea", "'\\x00ff'::bytea", "'\\x616263'::bytea", "'abc'::bytea", "NULL::bytea"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'::uuid", "'{ffffffff-ffff-ffff-ffff-ffffffffffff}'::uuid", "NULL::uuid"],
    "jb": ["'{}'::jsonb", "'[]'::jsonb", "'null'::jsonb", "'1.50'::jsonb", "'\"a\"'::jsonb", "'true'::jsonb", "'[1, \"a\", null, [2]]'::jsonb",
           "'{\"a\": 1, \"b\": [1, 2, {\"c\": \"x\"}]}'::jsonb", "'{\"b\": {\"a\": null}, \"aa\": -0.5}'::jsonb", "'[{\"a\": 1}, {\"a\": 2}]'::jsonb", "NULL::jsonb"],
    "js": ["'{}'::json", "'[1 , 2]'::json", "'{\"a\" : 1, \"a\":\"x\"}'::json", "'\"a\\u0041\"'::json", "'{\"b\": [1,{\"c\":null}]}'::json", "NULL::json"],
}
FIELDS = ["year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "doy", "isodow", "isoyear", "decade", "century", "millennium",
          "epoch", "milliseconds", "microseconds"]
TRUNC = ["year", "month", "day", "hour", "minute", "second", "quarter", "week", "decade", "century", "millennium"]
ZONES = ["'UTC'", "'Europe/Berlin'", "'America/New_York'", "'+05:30'", "interval '2 hours'"]

# What makes a value of a type: templates with {type} for an argument, {k} for a small number, {f}, {u} and {z} for fields, units and zones.
MAKERS = {
    "num": ["({num} + {num})", "({num} - {num})", "({num} * {num})", "({num} / {num})", "({num} % {num})", "(- {num})", "(+ {num})", "(@ {num})",
            "abs({num})", "round({num})", "floor({num})", "ceil({num})", "trunc({num})", "sign({num})", "round({num}, {k})", "trunc({num}, {k})",
            "mod({num}, {num})", "div({num}, {num})", "greatest({num}, {num})", "least({num}, {num}, {num})", "coalesce({num}, {num})", "nullif({num}, {num})",
            "CASE WHEN {bool} THEN {num} ELSE {num} END", "CASE {num} WHEN {num} THEN {num} WHEN {num} THEN {num} END", "length({text})", "char_length({text})",
            "octet_length({text})", "strpos({text}, {text})", "position({text} in {text})", "ascii({text})", "({num})::smallint", "({num})::int", "({num})::bigint",
            "({num})::numeric", "({num})::numeric(5,2)", "({num})::float8", "({num})::real", "({text})::int", "({text})::numeric", "({date} - {date})",
            "extract({f} from {ts})", "extract({f} from {date})", "extract({f} from {iv})", "extract({f} from {tstz})", "date_part('{f}', {ts})",
            "({num} & {num})", "({num} | {num})", "({num} # {num})", "(~ {num})", "({num} << {k})", "({num} >> {k})", "({bool})::int", "length({bytea})",
            "(SELECT {num})", "(SELECT count(*) FROM (SELECT {num} AS q) s WHERE {bool})", "(SELECT sum(q) FROM (VALUES ({num}), ({num})) v(q))",
            "(SELECT avg(q) FROM (VALUES ({num}), ({num})) v(q))", "(SELECT max(q) FROM (SELECT {num} AS q UNION ALL SELECT {num}) v)", "gcd({num}, {num})",
            "lcm({num}, {num})", "scale({num})", "min_scale({num})", "trim_scale({num})", "({num} ^ {k})", "sqrt({num})",
            "get_byte({bytea}, {k})", "bit_length({text})", "jsonb_array_length({jb})", "json_array_length({js})", "({jb})::numeric", "({jb})::int",
            "(SELECT count(*) FROM jsonb_array_elements({jb}))", "(SELECT count(*) FROM jsonb_object_keys({jb}))"],
    "text": ["({text} || {text})", "({text} || {num})", "upper({text})", "lower({text})", "initcap({text})", "reverse({text})", "substr({text}, {k})",
             "substr({text}, {k}, {k})", "substring({text} from {k} for {k})", "left({text}, {k})", "right({text}, {k})", "lpad({text}, {k})",
             "rpad({text}, {k}, {text})", "replace({text}, {text}, {text})", "repeat({text}, {k})", "trim({text})", "ltrim({text}, {text})", "btrim({text}, {text})",
             "split_part({text}, {text}, {k})", "translate({text}, {text}, {text})", "concat({text}, {num}, {bool}, {date})", "concat_ws({text}, {text}, {num})",
             "md5({text})", "({num})::text", "({bool})::text", "({date})::text", "({ts})::text", "({tstz})::text", "({iv})::text", "({time})::text",
             "({bytea})::text", "({uuid})::text", "({text})::varchar(3)", "({text})::text", "coalesce({text}, {text})", "nullif({text}, {text})",
             "CASE WHEN {bool} THEN {text} ELSE {text} END", "greatest({text}, {text})", "least({text}, {text})", "to_hex({k})", "quote_literal({text})",
             "quote_ident({text})", "quote_nullable({text})", "overlay({text} placing {text} from {k})", "format('%s|%I|%L', {text}, 'a b', {text})",
             "encode({bytea}, 'hex')", "encode({bytea}, 'base64')", "encode({bytea}, 'escape')", "to_char({ts}, 'YYYY-MM-DD HH24:MI:SS')", "to_char({date}, 'Day, DD Mon YYYY')",
             "to_char(({num})::numeric(8,2), '999,990.99')", "to_char({k}, 'S0000')", "overlay({text} placing {text} from {k} for {k})", "to_char({iv}, 'DD HH24:MI')", "(SELECT string_agg(q, ',' ORDER BY q) FROM (VALUES ({text}), ({text})) v(q))",
             "regexp_replace({text}, '[a-c]+', 'X')", "regexp_replace({text}, '(.)b', '<\\1>', 'g')", "substring({text} from '[a-z]+')", "chr(64 + abs({k}))", "({jb} ->> {k})", "({jb} ->> {text})", "({jb} #>> ARRAY['b', '2', 'c'])", "({jb})::text", "({js})::text", "({js} ->> {k})",
             "({js} ->> {text})", "({js} -> 'b')::text", "jsonb_typeof({jb})", "json_typeof({js})", "jsonb_pretty({jb})", "to_json({text})::text", "to_json({num})::text",
             "json_strip_nulls({js})::text", "json_build_array({text}, {num}, {bool}, {date}, {jb})::text", "json_build_object({text}, {ts}, 'k', {js})::text",
             "(SELECT json_agg(q)::text FROM (VALUES ({text}), ({text})) v(q))", "(SELECT string_agg(q, ',') FROM jsonb_array_elements_text({jb}) q)"],
    "bool": ["({num} {c} {num})", "({num} {c} {num})", "({text} {c} {text})", "({bool} {c} {bool})", "({date} {c} {date})", "({date} {c} {ts})", "({ts} {c} {ts})",
             "({tstz} {c} {tstz})", "({iv} {c} {iv})", "({time} {c} {time})", "({bytea} {c} {bytea})", "({uuid} {c} {uuid})", "({bool} AND {bool})", "({bool} OR {bool})",
             "(NOT {bool})", "({num} IS NULL)", "({text} IS NOT NULL)", "({num} BETWEEN {num} AND {num})", "({date} NOT BETWEEN {date} AND {ts})",
             "({num} IN ({num}, {num}))", "({text} NOT IN ({text}, {text}))", "({text} LIKE {text})", "({text} NOT ILIKE {text})", "({text} LIKE '%b%')", "({text} ~ '^[a-z]')",
             "({text} ~* 'B')", "({bool} IS TRUE)", "({bool} IS NOT FALSE)", "({bool} IS UNKNOWN)", "({num} IS DISTINCT FROM {num})", "({text})::boolean", "({num})::int::boolean",
             "(({num}, {text}) {c} ({num}, {text}))", "EXISTS (SELECT 1 WHERE {bool})", "({num} IN (SELECT {num} UNION ALL SELECT {num}))",
             "({num} {c} ALL (SELECT {num} WHERE {bool}))", "({num} {c} ANY (VALUES ({num}), ({num})))", "coalesce({bool}, {bool})", "starts_with({text}, {text})", "({jb} {c} {jb})", "({jb} @> {jb})", "({jb} <@ {jb})",
             "({jb} ? {text})", "({jb} ?| ARRAY[{text}, 'a'])", "({jb} ?& ARRAY[{text}])", "({jb})::boolean", "({jb} @? '$.a[*] ? (@ > 1)')", "({jb} @@ '$.a == 1')",
             "jsonb_path_exists({jb}, 'strict $[*].a')", "({jb} IN ({jb}, {jb}))",
             "(ROW({num}, {date}) IS NULL)", "(SELECT bool_and(q) FROM (VALUES ({bool}), ({bool})) v(q))", "isfinite({ts})"],
    "date": ["({date} + {k})", "({date} - {k})", "({ts})::date", "({tstz})::date", "({text})::date", "greatest({date}, {date})", "coalesce({date}, {date})",
             "make_date(2000 + {k}, 1 + abs({k}), 28)", "to_date('2024-' || (1 + abs({k}))::text, 'YYYY-MM')"],
    "ts": ["({ts} + {iv})", "({ts} - {iv})", "({date} + {iv})", "({date} + {time})", "({date})::timestamp", "({tstz})::timestamp", "date_trunc('{u}', {ts})",
           "({tstz} AT TIME ZONE {z})", "({ts})::timestamp(3)", "least({ts}, {ts})", "to_timestamp({k})::timestamp", "make_timestamp(2024, 2, 29, {k}, 5, 6.5)",
           "date_bin({iv}, {ts}, timestamp '2000-01-01')"],
    "tstz": ["({tstz} + {iv})", "({tstz} - {iv})", "({ts} AT TIME ZONE {z})", "({ts})::timestamptz", "({date})::timestamptz", "date_trunc('{u}', {tstz})", "to_timestamp({num})"],
    "iv": ["({iv} + {iv})", "({iv} - {iv})", "({iv} * {num})", "({iv} / {num})", "({num} * {iv})", "(- {iv})", "({ts} - {ts})", "({tstz} - {tstz})", "({time} - {time})",
           "age({ts}, {ts})", "justify_hours({iv})", "justify_days({iv})", "justify_interval({iv})", "({time})::interval", "date_trunc('{u}', {iv})", "({text})::interval",
           "make_interval({k}, {k}, {k}, {k}, {k}, {k}, 1.5)", "(SELECT sum(q) FROM (VALUES ({iv}), ({iv})) v(q))", "(SELECT avg(q) FROM (VALUES ({iv}), ({iv})) v(q))"],
    "time": ["({time} + {iv})", "({time} - {iv})", "({ts})::time", "({iv})::time", "({tstz})::time", "({time})::time(1)", "make_time({k}, {k}, 1.5)"],
    "bytea": ["({bytea} || {bytea})", "substring({bytea} from {k} for {k})", "decode({text}, 'hex')", "decode({text}, 'base64')", "convert_to({text}, 'UTF8')", "({text})::bytea",
              "set_byte({bytea}, {k}, {k})", "sha256({bytea})", "btrim({bytea}, {bytea})", "overlay({bytea} placing {bytea} from {k})"],
    "uuid": ["({text})::uuid", "coalesce({uuid}, {uuid})"],
    "jb": ["({jb} -> {k})", "({jb} -> {text})", "({jb} -> 'b')", "({jb} #> ARRAY['b', '2'])", "({jb} || {jb})", "({jb} - {text})", "({jb} - {k})", "({jb} - ARRAY['a', {text}])",
           "({jb} #- ARRAY['b', '0'])", "({jb} #- ARRAY['a', {text}])", "jsonb_set({jb}, ARRAY['a'], {jb})", "jsonb_set({jb}, ARRAY[{text}, 'b'], {jb}, {bool})",
           "jsonb_insert({jb}, ARRAY['0'], {jb}, {bool})", "jsonb_set_lax({jb}, ARRAY['a'], {jb}, true, 'delete_key')", "jsonb_strip_nulls({jb})", "to_jsonb({text})", "to_jsonb({bool})",
           "to_jsonb({date})", "to_jsonb({ts})", "to_jsonb(({num})::numeric)", "to_jsonb({iv})", "to_jsonb(ARRAY[{text}, {text}])", "to_jsonb(ROW({text}, {bool}))", "({js})::jsonb",
           "({text})::jsonb", "jsonb_build_array({text}, {jb}, {bool})", "jsonb_build_object({text}, {jb})", "jsonb_build_object('a', {num}, {text}, {date})", "({jb})['a']", "({jb})['b'][{k}]",
           "coalesce({jb}, {jb})", "greatest({jb}, {jb})", "jsonb_path_query_array({jb}, '$.**.a')", "jsonb_path_query_first({jb}, '$.b[last]')", "jsonb_path_query_array({jb}, '$[*] ? (@.a > $x)', {jb})",
           "(SELECT jsonb_agg(q) FROM (VALUES ({jb}), ({jb})) v(q))", "(SELECT jsonb_agg(DISTINCT q) FROM (VALUES ({text}), ({text})) v(q))",
           "(SELECT jsonb_object_agg(q, r) FROM (VALUES ({text}, {jb})) v(q, r))", "(SELECT jsonb_agg(e ORDER BY e) FROM jsonb_array_elements({jb}) e)"],
    "js": ["({js} -> {k})", "({js} -> {text})", "({js} #> ARRAY['b', '1'])", "({jb})::json", "({text})::json", "to_json({ts})", "row_to_json(ROW({text}, {jb}))", "coalesce({js}, {js})"],
}
TYPES = {"num": None, "text": "text", "bool": "boolean", "date": "date", "ts": "timestamp", "tstz": "timestamptz", "iv": "interval", "time": "time",
         "bytea": "bytea", "uuid": "uuid", "jb": "jsonb", "js": "json"}
# A table with a column of each type.
COLUMNS = [("i2", "smallint", "num"), ("i4", "int", "num"), ("i8", "bigint", "num"), ("n", "numeric", "num"), ("n2", "numeric(8,2)", "num"), ("f8", "float8", "num"),
           ("t", "text", "text"), ("v", "varchar(20)", "text"), ("b", "boolean", "bool"), ("d", "date", "date"), ("ts", "timestamp", "ts"),
           ("tz", "timestamptz", "tstz"), ("iv", "interval", "iv"), ("ti", "time", "time"), ("by", "bytea", "bytea"), ("u", "uuid", "uuid"), ("jb", "jsonb", "jb")]


class Typed:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.columns = {}

    def make(self, kind, depth):
        r = self.r
        # Now and then something of another type, which is an error or a conversion.
        if r.random() < 0.015:
            kind = r.choice(list(LEAVES))
        if depth <= 0 or r.random() < 0.25:
            if kind in self.columns and r.random() < 0.7:
                return r.choice(self.columns[kind])
            return r.choice(LEAVES[kind])
        template = r.choice(MAKERS[kind])

        def fill(m):
            what = m.group(1)
            if what == "k": return str(r.choice([0, 1, 2, 3, 4, -1, -2, 5]))
            if what == "f": return r.choice(FIELDS)
            if what == "u": return r.choice(TRUNC)
            if what == "z": return r.choice(ZONES)
            if what == "c": return r.choice(["=", "<>", "<", "<=", ">", ">="])
            return self.make(what, depth - 1)
        return re.sub(r"\{(\w+)\}", fill, template)

    def kind(self):
        return self.r.choice(["num", "num", "num", "text", "text", "bool", "bool", "date", "ts", "ts", "tstz", "iv", "iv", "time", "bytea", "uuid", "jb", "jb", "js"])

    def constant(self):
        return f"SELECT x, pg_typeof(x) FROM (SELECT {self.make(self.kind(), self.r.choice([1, 1, 2, 2, 3]))} AS x) s"

    def table(self):
        r = self.r
        names = ", ".join(f"{c} {t}" for c, t, _ in COLUMNS)
        out = [f"CREATE TABLE ty (id int PRIMARY KEY, {names});"]
        fits = {"i2": ["0", "1", "-1", "32767", "7"], "i4": ["0", "1", "2147483647", "-5", "7"], "i8": ["0", "9223372036854775807", "-9223372036854775808", "7"],
                "n": ["0", "0.00", "1.50", "12345678901234567890", "-0.001"], "n2": ["0", "1.5", "-2.25", "999999.99"], "f8": ["0", "'-0'", "1.5", "'NaN'", "'Infinity'", "1e-10"],
                "v": ["'a'", "'abc'", "''", "'été'"]}
        for i in range(14):
            row = []
            for c, t, kind in COLUMNS:
                v = r.choice(fits.get(c) or LEAVES[kind])
                row.append("NULL" if r.random() < 0.15 else v)
            out.append(f"%INSERT INTO ty VALUES ({i}, {', '.join(row)});")
        out += ["CREATE INDEX ON ty (n, t);", "CREATE INDEX ON ty (ts DESC);", "CREATE INDEX ON ty (f8 DESC NULLS LAST, i2);",
                "CREATE INDEX ON ty (d, iv);", "CREATE INDEX ON ty (by);", "CREATE INDEX ON ty (jb);", "CREATE INDEX ON ty (tz);", "CREATE INDEX ON ty (i8);"]
        return out

    def over_table(self):
        r = self.r
        self.columns = {}
        for c, _, kind in COLUMNS:
            self.columns.setdefault(kind, []).append(c)
        k = r.randrange(8)
        if k == 0:
            q = f"SELECT id, {self.make(self.kind(), 2)} FROM ty WHERE {self.make('bool', 2)} ORDER BY id"
        elif k == 1:
            q = f"SELECT id FROM ty WHERE {self.make('bool', 3)} ORDER BY id"
        elif k == 2:
            q = f"SELECT id, {self.make('num', 1)} FROM ty WHERE {self.make('bool', 1)} AND {self.make('bool', 1)} ORDER BY 1"
        elif k == 3:
            key = r.choice(COLUMNS)
            q = f"SELECT id FROM ty WHERE {key[0]} {r.choice(['=', '<', '>=', '<>', '>'])} {r.choice(LEAVES[key[2]])} ORDER BY {key[0]}{r.choice(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}, id{r.choice(['', ' LIMIT 4'])}"
        elif k == 4:
            key = r.choice(COLUMNS)
            agg = r.choice(["count(*)", f"count(DISTINCT {key[0]})", f"min({key[0]})", f"max({key[0]})"])
            q = f"SELECT {agg}, sum({self.make('num', 1)}) FROM ty WHERE {self.make('bool', 1)}"
        elif k == 5:
            key = r.choice(["i4", "i2", "t", "b", "d", "u", "ti", "jb"])
            q = f"SELECT {key}, count(*), max({self.make(r.choice(['num', 'text', 'date', 'ts']), 1)}) FROM ty GROUP BY {key} HAVING {r.choice(['count(*) > 0', 'bool_or(' + self.make('bool', 1) + ')'])} ORDER BY 1"
        elif k == 6:
            kind = self.kind()
            q = f"SELECT {self.make(kind, 1)} AS x FROM ty {r.choice(['UNION ALL', 'EXCEPT', 'INTERSECT', 'UNION'])} SELECT {self.make(kind, 1)} FROM ty"
        else:
            a, b = r.choice(COLUMNS), r.choice(COLUMNS)
            b = r.choice([c for c in COLUMNS if c[2] == a[2]])
            q = f"SELECT x.id, y.id FROM ty x {r.choice(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} ty y ON x.{a[0]} = y.{b[0]} ORDER BY 1, 2"
        self.columns = {}
        return q


# --- where errors show ------------------------------------------------------------

class Folded:
    """Expressions that fail for some values, among constants, NULLs, and what need not be evaluated: over tables of one row
    and of none, so that it is determined whether they fail. Functions in FROM, and aggregates of outer queries."""
    TABLES = ["CREATE TABLE one (a int, b int, n int, s text, r int[]);", "INSERT INTO one VALUES (0, 1, NULL, 'x', '{0,2}');",
              "CREATE TABLE none (a int, b int, n int, s text, r int[]);",
              "CREATE TABLE few (a int, b int);", "INSERT INTO few VALUES (0, 1), (1, 1), (2, 3);"]

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.alias = ""

    def column(self):
        return self.alias + self.r.choice(["a", "b", "n"])

    def number(self, depth):
        r = self.r
        if depth <= 0 or r.random() < 0.2:
            return r.choice([self.column(), self.column(), "0", "1", "2", "NULL", "NULL::int"])
        def sub(): return self.number(depth - 1)
        k = r.randrange(12)
        if k < 4: return f"({sub()} {r.choice('+-*//%')} {sub()})"
        if k == 4: return f"CASE WHEN {self.truth(depth - 1)} THEN {sub()} ELSE {sub()} END"
        if k == 5: return f"CASE {sub()} WHEN {sub()} THEN {sub()} WHEN {sub()} THEN {sub()} END"
        if k == 6: return f"coalesce({sub()}, {sub()}, {sub()})"
        if k == 7: return f"nullif({sub()}, {sub()})"
        if k == 8: return f"{r.choice(['greatest', 'least'])}({sub()}, {sub()})"
        if k == 9: return f"{r.choice(['abs', '- '])}({sub()})"
        if k == 10: return f"length({r.choice([self.alias + 's', 'NULL', repr('abc')])} || ({sub()})::text)"
        return f"(ARRAY[{sub()}, {sub()}])[{r.choice(['1', '2', self.column()])}]"

    def truth(self, depth):
        r = self.r
        if depth <= 0 or r.random() < 0.15:
            return r.choice(["true", "false", "NULL::bool", f"{self.column()} > 0", f"{self.column()} IS NULL"])
        def sub(): return self.truth(depth - 1)
        def num(): return self.number(depth - 1)
        k = r.randrange(10)
        if k < 3: return f"({sub()} {r.choice(['AND', 'OR'])} {sub()})"
        if k == 3: return f"(NOT {sub()})"
        if k == 4: return f"(({num()}) IS {r.choice(['', 'NOT '])}NULL)"
        if k == 5: return f"(({sub()}) IS {r.choice(['', 'NOT '])}{r.choice(['TRUE', 'FALSE', 'UNKNOWN'])})"
        if k == 6: return f"({num()} {r.choice(['', 'NOT '])}BETWEEN {num()} AND {num()})"
        if k == 7: return f"({num()} IS {r.choice(['', 'NOT '])}DISTINCT FROM {num()})"
        return f"({num()} {r.choice(['=', '<>', '<', '>='])} {num()})"

    def statement(self):
        r, table = self.r, self.r.choice(["one", "one", "none"])
        k = r.randrange(9)
        if k < 3: return f"SELECT {self.number(3)} FROM {table}"
        if k == 3: return f"SELECT {self.truth(3)} FROM {table}"
        if k == 4: return f"SELECT 1 FROM {table} WHERE {self.truth(3)}"
        if k == 5: return f"SELECT {self.number(1)} FROM {table} WHERE {self.truth(2)} AND {self.truth(1)}"
        if k == 6: return f"SELECT a, g FROM few f LEFT JOIN LATERAL generate_series({r.choice(['1', 'f.a'])}, {r.choice(['f.b', 'f.a + 1'])}) g ON {r.choice(['true', 'g > 1', 'g = f.b'])} ORDER BY 1, 2"
        if k == 7:
            inner = r.choice(["sum(f.a)", "count(f.b)", "max(f.a + f.b)", "count(*)", "sum(g.b)", "max(f.a + g.b)", "sum(f.a) + sum(g.b)"])
            return f"SELECT (SELECT {inner} FROM few g{r.choice(['', ' WHERE g.a > 0', ' WHERE g.a = f.a'])}) FROM few f{r.choice(['', ' GROUP BY f.b', ' GROUP BY f.b, f.a'])} ORDER BY 1"
        return f"SELECT f.a, q.* FROM few f, LATERAL (SELECT {r.choice(['f.a + g.a', 'g.b', 'max(g.a)', 'count(*)', 'f.b'])} AS x FROM few g WHERE g.a {r.choice(['<', '>=', '='])} f.a{r.choice(['', ' LIMIT 1'])}) q ORDER BY 1, 2"


# --- queries within queries -----------------------------------------------------

class Nested(generate.Gen):
    """Queries whose parts are queries: derived tables under outer joins, subqueries in ON, HAVING and the list, correlated
    over two levels, set operations and limits in IN, and changes that read other tables."""

    def column(self, s, kinds="i"):
        found = [c for c, k in s if k in kinds]
        return self.r.choice(found) if found else "1"

    def source(self, alias, depth):
        """Something for FROM with the columns it has."""
        r = self.r
        k = r.randrange(8) if depth > 0 else 0
        t = r.choice(list(generate.TABLES))
        s = self.scope("", t)
        if k < 4:
            return f"{t} {alias}", self.scope(alias, t)
        where = f" WHERE {self.expr(s, 'b', 1)}" if r.random() < 0.5 else ""
        if k == 4:
            a, b = self.column(s), self.column(s, "int")
            kind = dict(s)[b]
            return (f"(SELECT {a} AS k, {b} AS v FROM {t}{where}) {alias}", [(f"{alias}.k", "i"), (f"{alias}.v", kind)])
        if k == 5:
            a = self.column(s)
            return (f"(SELECT {a} AS k, count(*)::int AS c, min({self.column(s, 't')}) AS m FROM {t}{where} GROUP BY {a}) {alias}",
                    [(f"{alias}.k", "i"), (f"{alias}.c", "i"), (f"{alias}.m", "t")])
        if k == 6:
            u = r.choice(list(generate.TABLES))
            op = r.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
            return (f"(SELECT {self.column(s)} AS k FROM {t}{where} {op} SELECT {self.column(self.scope('', u))} FROM {u}) {alias}", [(f"{alias}.k", "i")])
        return (f"(SELECT id AS k, {self.column(s)} AS v FROM {t}{where} ORDER BY id {r.choice(['', 'DESC'])} LIMIT {r.randrange(0, 9)}) {alias}",
                [(f"{alias}.k", "i"), (f"{alias}.v", "i")])

    def condition(self, s, depth):
        """Over the columns of `s`, with queries in it while there is depth."""
        r = self.r
        if depth <= 0 or r.random() < 0.3:
            return self.expr(s, "b", 1)
        alias = f"s{depth}{r.randrange(100)}"
        text, own = self.source(alias, depth - 1)
        both = s + own
        link = f"{self.column(own)} {r.choice(['=', '=', '=', '<', '<>'])} {self.column(s)}" if r.random() < 0.7 else r.choice(["true", "true", "false", "NULL::boolean"])
        more = f" AND {self.condition(both, depth - 1)}" if r.random() < 0.5 else ""
        k = r.randrange(9)
        no = r.choice(["", "NOT "])
        if k < 2: return f"{no}EXISTS (SELECT {r.choice(['1', '*', 'NULL'])} FROM {text} WHERE {link}{more})"
        if k < 4: return f"{self.column(s)} {no}IN (SELECT {self.column(own)} FROM {text} WHERE {link}{more})"
        if k == 4: return f"{self.column(s)} {r.choice(['=', '<', '>=', '<>'])} {r.choice(['ANY', 'ALL'])} (SELECT {self.column(own)} FROM {text} WHERE {link}{more})"
        if k == 5: return f"(SELECT {r.choice(['count(*)', 'max(' + self.column(own) + ')', 'sum(' + self.column(own) + ')'])} FROM {text} WHERE {link}{more}) {r.choice(['>', '=', 'IS DISTINCT FROM', '<='])} {r.choice([self.column(s), '1', '0'])}"
        if k == 6: return f"({self.condition(s, depth - 1)} {r.choice(['AND', 'OR'])} {self.condition(s, depth - 1)})"
        if k == 7: return f"({self.column(s)}, {self.column(s)}) {no}IN (SELECT {self.column(own)}, {self.column(own)} FROM {text} WHERE {link}{more})"
        return f"coalesce((SELECT {self.expr(both, 'b', 1)} FROM {text} WHERE {link}{more} ORDER BY {', '.join(c for c, _ in own)} LIMIT 1), {r.choice(['true', 'false'])})"

    def joined(self, count, depth):
        r = self.r
        text, s = self.source("j0", depth)
        for i in range(1, count):
            other, own = self.source(f"j{i}", depth)
            how = r.choice(["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "JOIN"])
            if how == "CROSS JOIN":
                text += f" CROSS JOIN {other}"
                s = s + own
                continue
            on = f"{self.column(s)} = {self.column(own)}"
            k = r.random()
            if how != "FULL JOIN":
                if k < 0.25: on += f" AND {self.condition(s + own, depth - 1)}"
                elif k < 0.32: on = self.condition(s + own, depth - 1)
                elif k < 0.38: on = r.choice(["true", "false", "NULL", "1 = 0", "2 > 1"])
            elif k < 0.2:
                on += f" AND {self.expr(s + own, 'b', 1)}"
            if r.random() < 0.2 and how != "FULL JOIN":
                last, more = self.source(f"i{i}", depth - 1)
                other = f"({other} {r.choice(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} {last} ON {self.column(own)} = {self.column(more)})"
                own = own + more
            text += f" {how} {other} ON {on}"
            s = s + own
        return text, s

    def row(self, text, s):
        """The name of a table in FROM, if there is one. (Of a query under an outer join a row of NULLs counts as missing: see docs/SQL.md.)"""
        tables = "|".join(generate.TABLES)
        names = sorted({c.split(".")[0] for c, _ in s})
        return self.r.choice([name for name in names if re.search(rf"\b({tables}) {name}\b", text)] or [None])

    def q_nested(self):
        r = self.r
        text, s = self.joined(r.choice([1, 2, 2, 3, 4]), 2)
        where = f" WHERE {self.condition(s, 2)}" if r.random() < 0.7 else ""
        outs = [self.column(s, "int") for _ in range(r.randrange(1, 4))]
        if r.random() < 0.3:
            outs.append(self.expr(s, r.choice("itb"), 1))
        if r.random() < 0.2:
            outs.append(f"({self.condition(s, 1)})")
        if r.random() < 0.2:
            row = self.row(text, s)
            outs += [] if row is None else [r.choice([f"{row}::text", f"row_to_json({row})::text", f"{row} IS NULL", f"{row} IS NOT NULL", f"{row}.*", f"{row} = {row}",
                                  f"({row} IS DISTINCT FROM {row})", f"ROW({row}.*, 1)::text", f"coalesce({row}, NULL)::text"])]
        distinct = r.choice(["", "", "DISTINCT "])
        order = ", ".join(str(i + 1) + r.choice(["", " DESC", " NULLS FIRST"]) for i in range(len(outs)))
        return f"SELECT {distinct}{', '.join(outs)} FROM {text}{where} ORDER BY {order} LIMIT {r.randrange(1, 25)}"

    def q_nested_group(self):
        r = self.r
        text, s = self.joined(r.choice([1, 2, 2, 3]), 2)
        where = f" WHERE {self.condition(s, 1)}" if r.random() < 0.5 else ""
        keys = [self.column(s, "it") for _ in range(r.randrange(0, 3))]
        aggs = [self.aggregate(s, r.choice([0, 1])) for _ in range(r.randrange(1, 3))]
        if r.random() < 0.2:
            row = self.row(text, s)
            aggs += [] if row is None else [r.choice([f"count({row})", f"count(DISTINCT {row})", f"json_agg({row} ORDER BY {row})::text", f"array_agg({row} ORDER BY {row})::text"])]
        if keys and r.random() < 0.4:
            other, own = self.source("g", 1)
            aggs.append(f"(SELECT count(*) FROM {other} WHERE {self.column(own, 'i')} = {next((k for k in keys if dict(s)[k] == 'i'), '1')})")
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if r.random() < 0.4:
            other, own = self.source("h", 1)
            having = " HAVING " + r.choice([f"count(*) > (SELECT count(*) / 4 FROM {other})", f"EXISTS (SELECT 1 FROM {other} WHERE {self.column(own)} = count(*))",
                                            f"max({self.column(s)}) IN (SELECT {self.column(own)} FROM {other})", "count(*) BETWEEN 1 AND 5"])
        count = len(keys) + len(aggs)
        return f"SELECT {', '.join(keys + aggs)} FROM {text}{where}{group}{having} ORDER BY {', '.join(str(i + 1) for i in range(count))} LIMIT 30"

    def q_distinct_on(self):
        r = self.r
        text, s = self.joined(r.choice([1, 2]), 1)
        key = self.column(s, "it")
        rest = [c for c, _ in s]
        return f"SELECT DISTINCT ON ({key}) {', '.join(rest)} FROM {text} WHERE {self.condition(s, 1)} ORDER BY {key}{r.choice(['', ' DESC', ' NULLS FIRST'])}, {', '.join(rest)}"

    def change(self):
        """A change that reads other tables, and is taken back; what it gave and what it left."""
        r = self.r
        t = r.choice(list(generate.TABLES))
        s = self.scope(t, t)
        ints = [c for c, k in generate.TABLES[t] if k == "i" and c != "id"]
        c = r.choice(ints)
        other, own = self.source("o", 1)
        k = r.randrange(9)
        if k == 0: q = f"UPDATE {t} SET {c} = (SELECT max({self.column(own)}) FROM {other} WHERE {self.column(own)} = {self.column(s)}) WHERE {self.condition(s, 1)}"
        elif k == 1: q = f"UPDATE {t} SET {c} = {c} + 1 FROM (SELECT DISTINCT {self.column(own)} AS k FROM {other}) f WHERE f.k = {self.column(s)} AND {self.expr(s, 'b', 1)}"
        elif k == 2: q = f"DELETE FROM {t} USING {other} WHERE {self.column(own)} = {self.column(s)} AND {self.condition(s + own, 1)}"
        elif k == 3: q = f"DELETE FROM {t} WHERE {self.condition(s, 2)}"
        elif k == 4: q = f"WITH x AS (UPDATE {t} SET {c} = {c} + 1 WHERE {self.condition(s, 1)} RETURNING id AS x_id, {c} AS n) SELECT {t}.id, {t}.{c}, x.n FROM {t} LEFT JOIN x ON x.x_id = {t}.id ORDER BY 1"
        elif k == 5:
            # Nobody reads them: the last one comes first.
            q = f"WITH x AS (UPDATE {t} SET {c} = 1 WHERE {self.condition(s, 1)}), y AS (DELETE FROM {t} WHERE {self.condition(s, 1)}), z AS (UPDATE {t} SET {c} = {c} + 2 WHERE {self.condition(s, 1)})"
            q += r.choice([f" SELECT count(*), sum({c}) FROM {t}", f" UPDATE {t} SET {c} = {c} * 2 WHERE {self.condition(s, 1)}", f" DELETE FROM {t} WHERE {self.condition(s, 1)}"])
        elif k == 6: q = f"WITH x AS (DELETE FROM {t} WHERE {self.condition(s, 1)} RETURNING id AS x_id, {c} AS n) INSERT INTO {t} (id, {c}) SELECT x_id + {r.choice([0, 1, 1000])}, n FROM x"
        elif k == 7:
            actions = [r.choice(["WHEN MATCHED", f"WHEN MATCHED AND {self.condition(s, 1)}"]) + " THEN " + r.choice([f"UPDATE SET {c} = f.k", f"UPDATE SET {c} = {c} + 1", "DELETE", "DO NOTHING"]) for _ in range(r.randrange(3))]
            actions += [f"WHEN NOT MATCHED{r.choice(['', ' AND f.k > 3'])} THEN " + r.choice([f"INSERT (id, {c}) VALUES (f.k + 2000, f.k)", "DO NOTHING"]) for _ in range(r.randrange(2) if actions else 1)]
            q = f"MERGE INTO {t} USING (SELECT DISTINCT {self.column(own, 'i')} AS k FROM {other}) f ON f.k = {self.column(s, 'i')} {' '.join(actions)}"
        else: q = f"INSERT INTO {t} (id, {c}) SELECT id + {r.choice([0, 1, 1000])}, {c} FROM {t} WHERE {self.condition(s, 1)} ON CONFLICT (id) DO {r.choice(['NOTHING', f'UPDATE SET {c} = excluded.{c} + {t}.id WHERE {t}.id % 2 = 0'])}"
        return ["BEGIN", q, f"SELECT * FROM {t} ORDER BY id", "ROLLBACK"]

    def statements(self):
        k = self.r.randrange(10)
        if k == 0:
            return self.change()
        return [self.q_nested() if k < 6 else self.q_nested_group() if k < 9 else self.q_distinct_on()]


# --- parts of arrays --------------------------------------------------------------

class Parts:
    """Assignments to elements and slices of arrays, of which many fail; each answers with what it has made."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    @staticmethod
    def tables():
        return ["CREATE TABLE parts (id int PRIMARY KEY, v int[], t varchar(3)[] DEFAULT '{p,q}');",
                "INSERT INTO parts VALUES (1, '{1,2,3}'), (2, NULL), (3, '{}'), (4, '{{1,2},{3,4}}'), (5, '[0:1]={8,9}');"]

    def bound(self):
        return self.r.choice(["1", "2", "3", "0", "-1", "4", "6", "id", "NULL", "length('ab')"])

    def subscripts(self):
        r = self.r
        def one():
            k = r.randrange(8)
            if k < 4: return f"[{self.bound()}]"
            if k < 7: return f"[{self.bound()}:{self.bound()}]"
            return r.choice(["[:2]", "[2:]", "[:]"])
        return "".join(one() for _ in range(r.choice([1, 1, 1, 2, 2, 3])))

    def assignment(self):
        r = self.r
        column, at = r.choice(["v", "v", "t"]), self.subscripts()
        if ":" in at:
            value = r.choice(["'{7,8,9}'", "'{{5,6},{7,8}}'", "NULL", "'{}'", f"{column}[1:2]", column, "'{1}'", "7"])
        elif column == "v":
            value = r.choice(["7", "NULL", "v[1]", "v[2] + 1", "1.6", "'5'", "'x'", "id", "'{1}'::int[]"])
        else:
            value = r.choice(["'abc'", "'abcd'", "NULL", "t[1]", "id::text", "7"])
        return f"{column}{at}", value

    def statements(self):
        r = self.r
        drawn = [self.assignment() for _ in range(r.choice([1, 1, 2]))]
        k = r.randrange(6)
        if k < 4:
            sets = ", ".join(f"{target} = {value}" for target, value in drawn)
            change = f"UPDATE parts SET {sets} WHERE id = {r.randrange(1, 6)} RETURNING *"
        else:
            values = [value if not re.search(r"[vt]\[|\bid\b|^[vt]$", value) else "NULL" for _, value in drawn]
            targets = [re.sub(r"\bid\b", "2", target) for target, _ in drawn]
            rows = f"VALUES (9, {', '.join(values)})" if k == 4 else f"SELECT 9, {', '.join(values)}"
            change = f"INSERT INTO parts (id, {', '.join(targets)}) {rows} RETURNING *"
        return ["BEGIN", change, "ROLLBACK"]


# --- foreign keys ----------------------------------------------------------------

class Family:
    """Tables that refer to each other and to themselves with all actions, and changes of keys that others refer to. New keys
    are ones that no row has: whether PostgreSQL takes keys that change places depends on the order of the rows."""

    TABLES = [f"fam{i}" for i in range(5)]
    ACTIONS = ["NO ACTION", "RESTRICT", "CASCADE", "CASCADE", "CASCADE", "SET NULL", "SET NULL", "SET DEFAULT"]

    def __init__(self, seed):
        self.r = random.Random(f"family {seed}")
        self.fresh = 100

    def tables(self):
        r = self.r
        out = [f"CREATE TABLE fam0 (id int PRIMARY KEY, r int, s int DEFAULT {r.randrange(4)}, UNIQUE (id, s));"]
        for i, name in enumerate(self.TABLES[1:], 1):
            columns = []
            for column in "rs":
                rule = r.choice(["", "", "", " NOT NULL", " UNIQUE", f" CHECK ({column} < 5000)"])
                target = self.TABLES[r.randrange(0, i + 1)]
                columns.append(f"{column} int DEFAULT {r.choice(['NULL', '0', '1'])}{rule} REFERENCES {target} (id)"
                               f" ON DELETE {r.choice(self.ACTIONS)} ON UPDATE {r.choice(self.ACTIONS)}")
            own = f" REFERENCES {self.TABLES[i - 1]} ON DELETE CASCADE ON UPDATE CASCADE" if r.random() < 0.4 else ""
            both = ""
            if r.random() < 0.4:
                both = f", FOREIGN KEY (r, s) REFERENCES fam0 (id, s) ON DELETE {r.choice(self.ACTIONS)} ON UPDATE {r.choice(self.ACTIONS)}"
            out.append(f"CREATE TABLE {name} (id int PRIMARY KEY{own}, {', '.join(columns)}{both});")
        for name in self.TABLES:
            for i in range(8):
                out.append(f"%INSERT INTO {name} VALUES ({i}, {self.value()}, {self.value()});")
        return out

    def value(self):
        return self.r.choice(["NULL", "0", "1", "2", "3", "4", "5"])

    def where(self):
        r = self.r
        return r.choice([f"id = {r.randrange(8)}", f"id % 3 = {r.randrange(3)}", f"r = {r.randrange(6)}", f"s IS NULL", "true",
                         f"id IN ({r.randrange(8)}, {r.randrange(8)}, {r.randrange(8)})"])

    def statements(self):
        r = self.r
        name = r.choice(self.TABLES)
        k = r.randrange(8)
        if k < 2:
            change = f"DELETE FROM {name} WHERE {self.where()}"
        elif k < 5:
            self.fresh += 2000
            change = f"UPDATE {name} SET id = id + {self.fresh} WHERE {self.where()}"
        elif k == 5:
            change = f"UPDATE {name} SET {r.choice('rs')} = {self.value()} WHERE {self.where()}"
        else:
            change = f"INSERT INTO {name} VALUES ({r.randrange(12)}, {self.value()}, {self.value()})"
        return [change] + [f"SELECT * FROM {table} ORDER BY id, r, s" for table in self.TABLES]


# --- one file -------------------------------------------------------------------


def is_known(sql, result, conn):
    """What is meant to differ, or is not supported: see docs/SQL.md."""
    code = result.error[0] if result.error else None
    shown = "\n".join("\t".join(v or "" for v in row) for row in result.rows)
    # A numeric has 38 digits at most, and no NaN and infinities.
    if any(oid == 1700 for _, oid in result.columns or []) and re.search(r"NaN|Infinity", shown):
        return True
    if re.search(r"\d{39}|\d{20,}\.\d+|\d+\.\d{30,}", shown):
        return True
    if any(len(number) > 39 for number in re.findall(r"\d+\.\d+", shown)):
        return True
    if code is None and keeps_any(sql, conn):
        return True
    return code == "0A000"


def keeps_any(sql, conn):
    """Whether a column's INTERSECT meets values that are equal and look different (`0` and `-0`): which one stands for both is nobody's promise.
    PostgreSQL takes those of the side for which it expects fewer."""
    sides = pg.top_level(sql).count(" INTERSECT ") == 1 and re.fullmatch(r"(SELECT .+ AS x FROM ty) INTERSECT (SELECT .+)", sql)
    if not sides:
        return False
    both = f"({sides[1]} UNION ALL {sides[2]})"
    found = conn.run(f"SELECT 1 FROM {both} l JOIN {both} r ON l.x = r.x AND l.x::text <> r.x::text LIMIT 1")
    return bool(found.rows)


SESSIONS = {"settings": settings.Session, "sequences": sequences.Sequences, "zones": zones.Zones}
TEXTS = list(texts.Texts.KINDS)
# What the seeds make in turn.
TURNS = ["mixed", "mixed", "mixed", "settings", "regexp", "sequences", "texts", "zones", "privileges", "regexp", "mixed", "arrays"]


def mixed(seed, count):
    """Statements with their kinds."""
    drawn, gen, typed, nested, folded, family, parts = texts.Texts(seed), generate.Gen(seed), Typed(seed), Nested(seed), Folded(seed), Family(seed), Parts(seed)
    for sql in gen.tables() + typed.table() + Folded.TABLES + family.tables() + parts.tables():
        yield "tables", sql
    kinds = generate.RANDOM["random_mixed"][2]
    for _ in range(count):
        k = typed.r.random()
        if k < 0.03:
            yield from (("references", f"%{sql};") for sql in family.statements())
        elif k < 0.05:
            yield from (("parts", f"%{sql};") for sql in parts.statements())
        elif k < 0.1:
            kind = drawn.r.choice(TEXTS)
            yield kind, f"%{drawn.statement(kind)};"
        elif k < 0.25:
            yield "expressions", f"%{typed.constant()};"
        elif k < 0.35:
            yield "folded", f"%{folded.statement()};"
        elif k < 0.55:
            yield "columns", f"?{typed.over_table()};"
        elif k < 0.75:
            yield from (("nested", f"?{sql};") for sql in nested.statements())
        else:
            yield "queries", f"?{getattr(gen, gen.r.choice(kinds))()};"


def privileges(seed, count):
    """The statement list of ../rights/random.py. After each change it looks at the lists of privileges."""
    script = os.path.join(HERE, "..", "rights", "random.py")
    drawn = subprocess.run([sys.executable, script, str(seed), str(count // 3)], capture_output=True, text=True, check=True)
    for line in drawn.stdout.splitlines():
        if line.endswith(";") and not line.startswith("#"):
            yield "privileges", line


def statements(seed, count, kind):
    """(kind, statement) pairs. A statement begins with `%` if it may fail, with `?` if only its success is compared."""
    if kind == "mixed":
        yield from mixed(seed, count)
    elif kind == "privileges":
        yield from privileges(seed, count)
    elif kind == "parts":
        parts = Parts(seed)
        yield from (("tables", sql) for sql in parts.tables())
        for _ in range(count // 3):
            yield from (("parts", f"%{sql};") for sql in parts.statements())
    elif kind == "references":
        family = Family(seed)
        yield from (("tables", sql) for sql in family.tables())
        for _ in range(count // 6):
            yield from (("references", f"%{sql};") for sql in family.statements())
    elif kind in TEXTS or kind == "texts":
        drawn = texts.Texts(seed)
        for _ in range(count):
            own = drawn.r.choice(TEXTS) if kind == "texts" else kind
            yield own, f"%{drawn.statement(own)};"


def records_of(seed, count, conn, kind, path):
    """The records of one file, with their kinds."""
    if kind in SESSIONS:
        # What is kept decides what later statements mean, so no record is left out.
        session = SESSIONS[kind](seed)
        for number, sql in enumerate(session.statements(count), 1):
            result = conn.run(sql)
            session.failed = bool(result.error)
            if not (kind == "zones" and is_known(sql, result, conn)):
                yield kind, pg.answer(number, sql, result, path, conn)
        return
    for number, (own, line) in enumerate(statements(seed, count, kind), 1):
        mark, sql = (line[0], line[1:-1]) if line[0] in "?%" else ("", line[:-1])
        if len(sql) > 1200:
            continue
        result = conn.run(sql)
        # Which rows a failing expression meets, and in which order, is nobody's promise.
        if (mark == "?" and result.error) or is_known(sql, result, conn):
            continue
        if mark == "" and result.error:
            raise SystemExit(f"{sql}: {result.error}")
        yield own, pg.answer(number, sql, result, path, conn) if result.columns is None or result.error else query(number, sql, result)


def write_file(path, seed, count, conn, kind):
    """Writes one file; says how many statements of each kind are in it."""
    found = list(records_of(seed, count, conn, kind, path))
    pg.write(path, [record for _, record in found])
    if kind in ("mixed", "references", "parts"):
        tables = [*generate.TABLES, "ty", "one", "none", "few"] if kind == "mixed" else []
        own = {"mixed": [*Family.TABLES, "parts"], "references": Family.TABLES, "parts": ["parts"]}
        for table in tables + own[kind]:
            conn.run(f"DROP TABLE {table} CASCADE")
    return collections.Counter(own for own, _ in found)


def differences(output, mixed):
    """What the test says of a file, apart: differences, and, among mixed statements, errors met by one side only. The other
    kinds are of single expressions of constants, where it is determined which error is met."""
    wrong, moods = [], []
    for block in output.split("---- fuzz_")[1:]:
        text = re.sub(r"\n\nat .*", "", block, flags=re.S)
        ours = re.search(r"(?:query|statement) failed: (\w{5})|but got error:\s*(\w{5})", text)
        ours = ours and (ours[1] or ours[2])
        theirs = re.search(r"\(regex\) (\w{5})", text)
        data = [code for code in (ours, theirs and theirs[1]) if code]
        eager = mixed and ("expected to fail, but actually succeed" in text or (data and all(code[:2] == "22" for code in data)))
        limits = "NaN or infinity as a value of type numeric", "infinity as a part", "not supported for type", "cannot be binned", \
            "time without time zone) does not exist", "bytea ~~", "~~ bytea"
        # PostgreSQL 15 computes on with what does not fit an interval, and with infinity as if it were a time.
        wraps = "22008: interval out of range" in text or re.search(r"\[SQL\] SELECT age\(.*'infinity'", text)
        (moods if eager or wraps or any(limit in text for limit in limits) else wrong).append(text)
    return wrong, moods


def query(number, sql, result):
    ordered = re.search(r"(?i)\border\s+by\b", pg.top_level(sql))
    sort = len(result.rows) > 1 and not ordered
    return pg.Record(number, "query", pg.letters(result.columns) or "T", sql, pg.render_rows(result.rows, sort), sort)


def test_program(name, keep):
    """A copy of a test's program, so that the tree may be built meanwhile."""
    cargo = ["cargo", "test", "-q", "-p", "colibri-sql", "--test", name, "--no-run", "--message-format=json"]
    said = subprocess.run(cargo, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = [m["executable"] for m in map(json.loads, said) if m.get("executable") and m["target"]["name"] == name]
    return shutil.copy(built[0], os.path.join(keep, f"test-{name}"))


def compare(program, directory, name, kind):
    """Runs one file. Gives the differences, and the errors that one side alone has met."""
    env = dict(os.environ, COLIBRI_SLT_DIR=directory, COLIBRI_SLT=name, COLIBRI_RIGHTS_DIR=directory)
    try:
        run = subprocess.run([program], env=env, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        return ["it does not end"], []
    if run.returncode == 0:
        return [], []
    if kind == "privileges":
        return re.split(r"\n(?=\S+\.slt: )", run.stdout + run.stderr)[1:] or [run.stdout + run.stderr], []
    found, moods = differences(run.stdout, kind == "mixed")
    return (found, moods) if found or moods else ([run.stdout + run.stderr], [])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seconds", type=float, help="end after so long (default: 60, without --statements)")
    ap.add_argument("--statements", type=int, help="end after so many statements")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=3000, help="statements of one file")
    ap.add_argument("--kind", choices=["mixed", "texts", "references", "parts", "privileges", *SESSIONS, *TEXTS], help="only statements of this kind")
    ap.add_argument("--keep", help="where files go that do not agree")
    a = ap.parse_args()
    if a.seconds is None and a.statements is None:
        a.seconds = 60
    # So that whoever ends this process ends PostgreSQL's, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    keep = a.keep or tempfile.mkdtemp(prefix="colibri-fuzz-")
    os.makedirs(keep, exist_ok=True)
    kinds = [a.kind] if a.kind else TURNS
    programs = {name: test_program(name, keep) for name in ["slt"] * (kinds != ["privileges"]) + ["rights"] * ("privileges" in kinds)}
    server, seed, total, wrong, eager = pg.Server(), a.seed, collections.Counter(), 0, 0
    end = time.time() + a.seconds if a.seconds is not None else float("inf")
    try:
        host, port = server.start()
        while time.time() < end and (a.statements is None or sum(total.values()) < a.statements):
            kind = kinds[seed % len(kinds)]
            name = f"fuzz_{seed}_{kind}"
            # The test `rights` runs all files of a directory.
            directory = os.path.join(keep, name) if kind == "privileges" else keep
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, name + ".slt")
            # Grants in circles cannot be taken back, so roles stay: they get a server of their own.
            apart = pg.Server() if kind == "privileges" else None
            try:
                conn = pg.Conn(*(apart.start() if apart else (host, port)), pg.DB)
                total += write_file(path, seed, a.count, conn, kind)
                conn.close()
            finally:
                if apart:
                    apart.stop()
            found, moods = compare(programs["rights" if kind == "privileges" else "slt"], directory, name, kind)
            eager += len(moods)
            with open(os.path.join(keep, "eager.txt"), "a", encoding="utf-8") as f:
                f.writelines(moods)
            if found:
                wrong += 1
                with open(path[:-4] + ".txt", "w", encoding="utf-8") as f:
                    f.write("\n".join(found))
                print(f"seed {seed}: {len(found)} differences, see {path[:-4]}.txt", flush=True)
            else:
                os.remove(path)
            seed += 1
    finally:
        server.stop()
    print(f"seeds {a.seed} to {seed - 1}: {sum(total.values())} statements, each twice; {wrong} files do not agree; "
          f"{eager} times only one side met an error in a value, see {keep}/eager.txt")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(total.items())))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
