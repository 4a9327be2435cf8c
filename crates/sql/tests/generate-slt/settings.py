#!/usr/bin/env python3
"""Settings, savepoints and modes of transactions drawn at random, with PostgreSQL's answers.

    settings.py --record              write ../slt/random_settings.slt (fixed seeds)
    settings.py [--seconds N] [--seed N] [--keep DIR]

The second form draws new files, seed by seed, has PostgreSQL answer them and the
test `slt` run them; what does not agree stays in DIR. A seed makes the same file
each time.

Behind every statement stands what some settings are now, so that a value that is
kept too long, or forgotten too early, shows at once.
"""
import argparse, importlib.machinery, importlib.util, os, random, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True  # nothing is left in the tree


def load(name, path):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


pg = load("against_postgres", os.path.join(HERE, "..", "against-postgres"))

# Values as they stand behind SET, right and wrong ones.
VALUES = {
    "app.a": ["'1'", "'two words'", "3", "word", "\"Quoted\"", "$$dollar$$", "-1.5", "DEFAULT", "a, b"],
    "app.b": ["'x'", "'it''s'", "on", "''", "E'tab\\t'", "DEFAULT"],
    "application_name": ["'x'", "\"X\"", "x y", "1e3", "'a, b'", "DEFAULT"],
    "statement_timeout": ["'1h'", "'90min'", "3600000", "'1.5h'", "'2 d'", "'x'", "-1", "'10 parsecs'", "DEFAULT"],
    "work_mem": ["'1MB'", "65536", "'0.5GB'", "63", "'1 XB'", "DEFAULT"],
    "enable_sort": ["on", "off", "0", "'yes'", "maybe", "2", "DEFAULT"],
    "search_path": ["'A', public", "public", "\"$user\", 'a b'", "''", "DEFAULT", "'a,b'", "select"],
    "timezone": ["'UTC'", "'europe/berlin'", "3", "-3.5", "'+02:00'", "'<+03>-03'", "'foo-3'", "'nowhere'", "'200'", "DEFAULT", "'+05:30'",
                 "'Asia/Kolkata'", "INTERVAL"],
    "random_page_cost": ["1.1", "'2'", "1e7", "-1", "'x'", "0.00001", "DEFAULT"],
    "constraint_exclusion": ["on", "partition", "'OFF'", "maybe", "DEFAULT"],
}
ZONES = ["'UTC'", "\"Europe/Berlin\"", "3", "-5", "5.5", "INTERVAL '+02:30' HOUR TO MINUTE", "INTERVAL '-1'  HOUR", "INTERVAL '1 day'", "LOCAL", "DEFAULT",
         "utc", "INTERVAL '3:04:05'"]
TEXTS = ["'1'", "''", "'on'", "'2h'", "NULL", "'a, b'", "'UTC'", "'4'", "'-2'"]
MODES = ["READ ONLY", "READ WRITE", "DEFERRABLE", "NOT DEFERRABLE", "READ ONLY, DEFERRABLE", "READ WRITE NOT DEFERRABLE"]
SHOWN = ["app.a", "app.b", "application_name", "statement_timeout", "enable_sort", "search_path", "timezone", "transaction_read_only", "transaction_deferrable"]


class Session:
    def __init__(self, seed):
        self.random = random.Random(f"settings {seed}")
        # Whether the last statement has failed, and savepoints that there may be.
        self.failed, self.saved = False, []

    def name(self):
        return self.random.choice(list(VALUES))

    def assignment(self):
        name = self.name()
        value = self.random.choice(VALUES[name])
        return f"{name} {self.random.choice(['=', 'TO'])} {value}"

    def statement(self):
        pick, savepoint = self.random.random(), self.random.choice(self.saved or ["s1"])
        if self.failed and self.random.random() < 0.7:
            return self.random.choice([f"ROLLBACK TO {savepoint}"] * 3 + ["ROLLBACK", "COMMIT"])
        if pick < 0.16:
            return f"SET {self.random.choice(['', 'SESSION '])}{self.assignment()}"
        if pick < 0.34:
            return f"SET LOCAL {self.assignment()}"
        if pick < 0.44:
            local = self.random.choice(["true", "true", "false", "NULL"])
            # work_mem has another default, which NULL would show.
            text = self.random.choice(TEXTS)
            name = "app.a" if text == "NULL" else self.name()
            return f"SELECT set_config('{name}', {text}, {local})"
        if pick < 0.48:
            return f"SET {self.random.choice(['', 'LOCAL '])}TIME ZONE {self.random.choice(ZONES)}"
        if pick < 0.53:
            return self.random.choice([f"RESET {self.name()}", f"RESET {self.name()}", "RESET ALL", "RESET TIME ZONE"])
        if pick < 0.57:
            return self.random.choice(["SET TRANSACTION ", "SET TRANSACTION ", "BEGIN ", "START TRANSACTION "]) + self.random.choice(MODES)
        if pick < 0.65:
            return "BEGIN"
        if pick < 0.74:
            self.saved.append(self.random.choice(["s1", "s2", "s3"]))
            return f"SAVEPOINT {self.saved[-1]}"
        if pick < 0.82:
            return f"ROLLBACK TO {savepoint}"
        if pick < 0.87:
            return f"RELEASE {savepoint}"
        if pick < 0.90:
            return self.random.choice(["SELECT 1 / 0", "SELECT set_config('app.a', 'lost', false), 1 / 0", "SET nosuch = 1"])
        self.saved = []
        if pick < 0.95:
            return self.random.choice(["COMMIT", "COMMIT AND CHAIN"])
        return self.random.choice(["ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN", "DISCARD ALL"])

    def statements(self, count):
        shown = ", ".join(f"current_setting('{name}', true)" for name in SHOWN)
        for _ in range(count):
            yield self.statement()
            # A query would be one too many for what may still be said of the transaction.
            if self.random.random() < 0.7:
                yield f"SHOW {self.random.choice(SHOWN[2:])}"
            else:
                yield f"SELECT {shown}"
        yield "ROLLBACK"
        yield "DISCARD ALL"


def write_file(path, seed, count, conn):
    records, session = [], Session(seed)
    for number, sql in enumerate(session.statements(count), 1):
        result = conn.run(sql)
        session.failed = bool(result.error)
        records.append(pg.answer(number, sql, result, path, conn))
    pg.write(path, records)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write("# Settings, savepoints and modes of transactions drawn at random. Made by\n# ../generate-slt/settings.py.\n\n" + text)
    return len(records)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--record", action="store_true")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=1500)
    ap.add_argument("--keep", help="where files go that do not agree")
    a = ap.parse_args()
    server, total, wrong, seed, end = pg.Server(), 0, 0, a.seed, time.time() + a.seconds
    keep = a.keep or tempfile.mkdtemp(prefix="colibri-settings-")
    os.makedirs(keep, exist_ok=True)
    try:
        host, port = server.start()
        if a.record:
            write_file(os.path.join(pg.SLT, "random_settings.slt"), 0, 365, pg.Conn(host, port, pg.DB))
            return
        while time.time() < end:
            path = os.path.join(keep, f"settings_{seed}.slt")
            total += write_file(path, seed, a.count, pg.Conn(host, port, pg.DB))
            cargo = ["cargo", "test", "-q", "-p", "colibri-sql", "--test", "slt"]
            env = dict(os.environ, COLIBRI_SLT_DIR=keep, COLIBRI_SLT=f"settings_{seed}")
            run = subprocess.run(cargo, env=env, capture_output=True, text=True)
            if run.returncode:
                wrong += 1
                with open(path[:-4] + ".txt", "w", encoding="utf-8") as f:
                    f.write(run.stdout + run.stderr)
                print(f"seed {seed} does not agree, see {path[:-4]}.txt", flush=True)
            else:
                os.remove(path)
            seed += 1
    finally:
        server.stop()
    print(f"seeds {a.seed} to {seed - 1}: {total} statements; {wrong} files do not agree")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
