#!/usr/bin/env python3
"""Full text search and network addresses drawn at random, with PostgreSQL's answers.

    searching.py --record [--seed N]    write ../slt/random_text_search.slt and
                                        ../slt/random_addresses.slt

A seed makes the same files each time.
"""
import argparse, os, random, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

PIECES = ["a", "foo", "Bar", "the", "1", "42", ".", "..", "-", "-", "+", "@", "/", "//", "://", ":", "_", "~", "?", "#",
          "&", "&amp;", "<", ">", "<a ", "</", "<!--", "-->", "'", '"', "\\", " ", " ", " ", "e", "x", "é", "привет",
          "http", "script", "=", "%", ";", "com", "org", "www.", "1.5", "a.b", "x@y.com", "cats", "running", "-5", "e-mail"]
WORDS = ["cat", "cats", "dog", "the", "running", "foxes", "fox", "a", "quick", "lazy", "jump", "42", "foo-bar", "of"]
LEXEMES = ["a", "b", "c", "ab", "abc"]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Draw(random.Random):
    def lexeme(self, marks=("",)):
        return self.choice(LEXEMES) + self.choice(marks)

    def query(self, depth, marks=("", "", "", ":*", ":A", ":B", ":CD", ":*A")):
        """An expression of `tsquery`."""
        kind = self.random()
        if depth == 0 or kind < 0.25:
            return self.lexeme(marks)
        side = lambda: f"({self.query(depth - 1, marks)})" if self.random() < 0.5 else self.query(depth - 1, marks)
        if kind < 0.4:
            return f"!({self.query(depth - 1, marks)})" if self.random() < 0.6 else "!" + self.query(0, marks)
        return side() + self.choice([" & ", " | ", " <-> ", " <2> ", " <0> ", " <3> "]) + side()

    def vector(self):
        """A text of `tsvector`."""
        places = ["", ":1", ":2A", ":3,5B", ":4C,6", ":1,2,3", ":7A"]
        return " ".join(self.lexeme(places) for _ in range(self.randint(0, 5)))

    def text(self, pieces, least, most, by=""):
        return by.join(self.choice(pieces) for _ in range(self.randint(least, most)))

    def searches(self):
        for _ in range(150):
            text = quoted(self.text(PIECES, 1, 14))
            yield (f"SELECT kind, token FROM (SELECT tokid AS kind, token, ordinality AS n FROM "
                   f"ts_parse('default', {text}) WITH ORDINALITY) x ORDER BY n")
        for _ in range(150):
            v, u, q, p = quoted(self.vector()), quoted(self.vector()), quoted(self.query(3)), quoted(self.query(2))
            part = quoted(self.choice(["a", "a & b", "b | c", "ab <-> a", "!a"]))
            by = quoted(self.choice(["", "x", "x & y", "x | y"]))
            norm = self.choice([0, 1, 2, 4, 8, 16, 32])
            yield (f"SELECT {q}::tsquery, {v}::tsvector @@ {q}::tsquery, strip({v}::tsvector) @@ {q}::tsquery, "
                   f"numnode({q}), querytree({q}), {v}::tsvector || {u}, {v}::tsvector < {u}, {q}::tsquery && {p}, "
                   f"{q}::tsquery <-> {p}, ts_rewrite({q}, {part}, {by})")
            yield f"SELECT ts_rank({v}::tsvector, {p}, {norm}), ts_rank_cd({v}::tsvector, {p}, {norm})"
        for _ in range(60):
            a, b = quoted(self.query(2, [""])), quoted(self.query(2, [""]))
            yield f"SELECT {a}::tsquery < {b}, {a}::tsquery = {b}, {a}::tsquery > {b}"
        options = ["MaxWords=5, MinWords=2", "MaxWords=8, MinWords=3, ShortWord=0", "MaxFragments=2",
                   "MaxFragments=3, MaxWords=6, MinWords=2", "HighlightAll=1",
                   'MaxFragments=2, MaxWords=3, MinWords=1, ShortWord=1, FragmentDelimiter=" / "',
                   "StartSel=<, StopSel=>, MaxWords=4, MinWords=1", "MinWords=15"]
        more = ["sleeps", "under", "tree.", "And", "then", "it", "http://x.org/y", "<b>", "</b>"]
        typed = ["or", "OR", "-cat", '"quick fox"', '"the"', "!", "(", ")", "&", ":*"]
        for _ in range(100):
            document = quoted(self.text(WORDS + more, 1, 70, " "))
            query = self.choice(WORDS)
            for _ in range(self.randint(0, 3)):
                query += self.choice([" & ", " | ", " & ", " <-> "]) + self.choice(["", "!"]) + self.choice(WORDS)
            query = f"to_tsquery('english', {quoted(query)})"
            yield f"SELECT {query}, ts_headline('english', {document}, {query}, {quoted(self.choice(options))})"
            text = quoted(self.text(WORDS + typed, 1, 6, " "))
            yield (f"SELECT websearch_to_tsquery('english', {text}), plainto_tsquery('english', {text}), "
                   f"phraseto_tsquery('english', {text}), to_tsvector('english', {text})")

    def v4(self):
        return ".".join(str(self.choice([0, 1, 10, 127, 128, 192, 224, 240, 255])) for _ in range(4))

    def v6(self):
        part = lambda: f"{self.randint(0, 65535):x}"
        return self.choice(["::", "::1", "1::", f"fe80::{part()}", f"2001:db8::1:{part()}", "::ffff:" + self.v4(),
                            "1:2:3:4:5:6:7:8", "0:0:1:0:0:0:0:1", "1:0:0:2::", "::" + self.v4()])

    def inet(self):
        if self.random() < 0.6:
            return self.v4() + self.choice(["", f"/{self.randint(0, 32)}"])
        return self.v6() + self.choice(["", f"/{self.randint(0, 128)}"])

    def addresses(self):
        for _ in range(100):
            a, b = f"{quoted(self.inet())}::inet", quoted(self.inet())
            yield (f"SELECT {a}, {a}::cidr, abbrev({a}::cidr), abbrev({a}), text({a}), broadcast({a}), hostmask({a}), "
                   f"netmask({a}), network({a}), ~{a}, {a} < {b}, {a} << {b}, {a} >>= {b}, {a} && {b}, "
                   f"inet_same_family({a}, {b})")
        for _ in range(40):
            a, b = f"'{self.v4()}/{self.randint(0, 32)}'::inet", f"'{self.v4()}'"
            yield (f"SELECT {a} & {b}, {a} | {b}, {a} - {b}, inet_merge({a}, {b}), "
                   f"set_masklen({a}, {self.randint(-1, 32)})")


def record(name, head, statements):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name + ".sql")
        with open(path, "w") as file:
            file.write("".join(statement + ";\n" for statement in statements))
        subprocess.run([os.path.join(HERE, "..", "against-postgres"), "--record", path], check=True)
    path = os.path.join(HERE, "..", "slt", name + ".slt")
    with open(path) as file:
        records = file.read()
    with open(path, "w") as file:
        file.write("".join(f"# {line}\n" for line in head) + "\n" + records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.record:
        sys.exit(parser.format_help())
    draw = Draw(args.seed)
    made = ["Made by ../generate-slt/searching.py."]
    record("random_text_search", ["Tokens, queries, documents, ranks and headlines drawn at random."] + made, list(draw.searches()))
    record("random_addresses", ["Addresses and networks drawn at random."] + made, list(draw.addresses()))
