#!/usr/bin/env python3
"""Random grants and revocations by several roles, as a statement list for
`against-postgres --record`: random.py SEED COUNT > FILE.sql

After each, the lists of all objects are looked at; now and then what each role
may do. Roles are members of each other, with and without INHERIT, own objects,
and pass privileges on in chains and circles."""
import random
import sys

seed, count = int(sys.argv[1]), int(sys.argv[2])
pick = random.Random(seed)
ROLES = [f"r{n}" for n in range(1, 7)]
TABLE = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
OBJECTS = {
    "TABLE t1": TABLE,
    "TABLE t2": TABLE,
    "TABLE v1": TABLE,
    "SEQUENCE s1": ["USAGE", "SELECT", "UPDATE"],
    "SCHEMA sc": ["USAGE", "CREATE"],
    "DATABASE slt": ["CREATE", "CONNECT", "TEMPORARY"],
}

def say(text, mark="%"):
    print(f"{mark}{text};\n")

def grantees():
    chosen = pick.sample(ROLES, pick.choice([1, 1, 1, 2, 3]))
    if pick.random() < 0.1:
        chosen.append("PUBLIC")
    return ", ".join(chosen)

def privileges(known):
    if pick.random() < 0.2:
        return pick.choice(["ALL", "ALL PRIVILEGES"])
    # Few of them, so that chains meet.
    return ", ".join(pick.sample(known[:3], pick.choice([1, 1, 2])))

def change():
    kind = pick.random()
    target = pick.choice(list(OBJECTS))
    what = privileges(OBJECTS[target])
    if kind < 0.5:
        option = " WITH GRANT OPTION" if pick.random() < 0.6 else ""
        by = " GRANTED BY CURRENT_USER" if pick.random() < 0.05 else ""
        return f"GRANT {what} ON {target} TO {grantees()}{option}{by}"
    if kind < 0.85:
        only = "GRANT OPTION FOR " if pick.random() < 0.3 else ""
        how = pick.choice(["", " CASCADE", " CASCADE", " RESTRICT"])
        return f"REVOKE {only}{what} ON {target} FROM {grantees()}{how}"
    if kind < 0.90:
        group, member = pick.sample(ROLES, 2)
        if pick.random() < 0.6:
            option = " WITH ADMIN OPTION" if pick.random() < 0.3 else ""
            return f"GRANT {group} TO {member}{option}"
        only = "ADMIN OPTION FOR " if pick.random() < 0.3 else ""
        return f"REVOKE {only}{group} FROM {member}"
    if kind < 0.95:
        kind, name = pick.choice([("TABLE", "t1"), ("TABLE", "t2"), ("VIEW", "v1"), ("SEQUENCE", "s1"), ("SCHEMA", "sc")])
        return f"ALTER {kind} {name} OWNER TO {pick.choice(ROLES)}"
    if kind < 0.97:
        return f"REASSIGN OWNED BY {pick.choice(ROLES)} TO {pick.choice(ROLES)}"
    return f"GRANT {what} ON ALL TABLES IN SCHEMA public TO {grantees()}"

print(f"# Random grants, revocations, memberships and owners (random.py {seed} {count}).\n")
for role in ROLES:
    say(f"CREATE ROLE {role}" + (" NOINHERIT" if role == "r6" else ""), "")
for group, member in [("r1", "r2"), ("r2", "r3"), ("r4", "r6")]:
    say(f"GRANT {group} TO {member}", "")
for text in ["CREATE TABLE t1 (a int)", "CREATE TABLE t2 (a int)", "CREATE VIEW v1 AS SELECT a FROM t1",
             "CREATE SEQUENCE s1", "CREATE SCHEMA sc", "ALTER TABLE t1 OWNER TO r1", "ALTER SEQUENCE s1 OWNER TO r4",
             "ALTER SCHEMA sc OWNER TO r5"]:
    say(text, "")
# Lists that nobody has changed are NULL, and one database serves several files.
say("GRANT CONNECT ON DATABASE slt TO PUBLIC", "")
for number in range(count):
    if pick.random() < 0.4:
        say("RESET ROLE" if pick.random() < 0.25 else f"SET ROLE {pick.choice(ROLES)}")
    say(change())
    say("SELECT relname, relowner::regrole, relacl FROM pg_class WHERE relname IN ('t1', 't2', 'v1', 's1') ORDER BY 1")
    if number % 5 == 4:
        say("SELECT nspacl, nspowner::regrole FROM pg_namespace WHERE nspname = 'sc'")
        say("SELECT datacl FROM pg_database WHERE datname = 'slt'")
        say("SELECT r.rolname, g.rolname, m.admin_option FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member "
            "JOIN pg_roles g ON g.oid = m.roleid WHERE g.rolname LIKE 'r_' ORDER BY 1, 2")
        say("SELECT r.rolname, t.t, p.p, has_table_privilege(r.rolname::text, t.t, p.p), "
            "has_table_privilege(r.rolname::text, t.t, p.p || ' WITH GRANT OPTION') FROM pg_roles r, "
            "(VALUES ('t1'), ('v1')) t(t), (VALUES ('SELECT'), ('INSERT'), ('TRUNCATE, DELETE')) p(p) "
            "WHERE r.rolname LIKE 'r_' ORDER BY 1, 2, 3")
        say("SELECT r.rolname, has_sequence_privilege(r.rolname::text, 's1', 'USAGE'), "
            "has_schema_privilege(r.rolname::text, 'sc', 'CREATE, USAGE WITH GRANT OPTION'), "
            "has_database_privilege(r.rolname::text, 'slt', 'CREATE'), pg_has_role(r.rolname::text, 'r1', 'USAGE'), "
            "pg_has_role(r.rolname::text, 'r4', 'MEMBER'), pg_has_role(r.rolname::text, 'r2', 'USAGE WITH ADMIN OPTION') "
            "FROM pg_roles r WHERE r.rolname LIKE 'r_' ORDER BY 1")
say("RESET ROLE", "")
for text in ["DROP VIEW v1", "DROP TABLE t1", "DROP TABLE t2", "DROP SEQUENCE s1", "DROP SCHEMA sc",
             f"REVOKE ALL ON DATABASE slt FROM {', '.join(ROLES)} CASCADE"]:
    say(text, "")
say(f"DROP OWNED BY {', '.join(ROLES)}")
for role in ROLES:
    say(f"DROP OWNED BY {role}")
    say(f"DROP ROLE {role}")
