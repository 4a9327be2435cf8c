//! Statements of three sessions that write to the same few rows, change the schema and go to
//! savepoints and back, at both levels of isolation: no panic, no error that says that we are at
//! fault, nobody waits when all others have ended, foreign keys hold, and tables, indexes and
//! counts fit together, also when the database is opened again.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use colibri_sql::{Datum, Engine, Progress, Rows, Running, Session};
use colibri_storage::{Database, Durability, Options};
use colibri_txn::LockWait;
use libfuzzer_sys::fuzz_target;

const SCHEMA: &str = "CREATE TABLE p (id int PRIMARY KEY, code int UNIQUE, n int NOT NULL DEFAULT 0);
    CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON UPDATE CASCADE, code int REFERENCES p (code) ON DELETE SET NULL, t text);
    CREATE INDEX ON c (p, t DESC); INSERT INTO p SELECT g, g, 0 FROM generate_series(0, 7) AS g";
const OPERATIONS_MAX: usize = 120;

#[derive(Arbitrary, Debug)]
enum Operation {
    Begin {
        read_committed: bool,
    },
    Commit,
    Rollback,
    Savepoint(u8),
    RollbackTo(u8),
    InsertParent {
        id: u8,
        code: u8,
    },
    InsertChild {
        id: u8,
        parent: Option<u8>,
        code: Option<u8>,
        length: u16,
    },
    InsertMany {
        from: u8,
        count: u8,
    },
    Upsert {
        id: u8,
        code: u8,
    },
    Add {
        id: u8,
    },
    MoveParent {
        id: u8,
        to: u8,
    },
    Recode {
        id: u8,
        to: u8,
    },
    ChangeChild {
        id: u8,
        parent: u8,
        length: u16,
    },
    ChangeMany {
        below: u8,
    },
    DeleteParent {
        id: u8,
    },
    DeleteChildren {
        below: u8,
    },
    Read {
        what: u8,
    },
    LockRows {
        id: u8,
        how: u8,
    },
    Schema {
        what: u8,
    },
    /// Goes on with a statement that waited or was interrupted.
    Step,
    Reopen,
}

#[derive(Arbitrary, Debug)]
struct Input {
    slices: bool,
    operations: Vec<(u8, Operation)>,
}

fn text(operation: &Operation) -> String {
    let key = |id: u8| id % 12;
    let or_null = |id: Option<u8>| id.map_or_else(|| "NULL".to_owned(), |id| key(id).to_string());
    match *operation {
        Operation::Begin { read_committed: true } => "BEGIN ISOLATION LEVEL READ COMMITTED".into(),
        Operation::Begin { read_committed: false } => "BEGIN".into(),
        Operation::Commit => "COMMIT".into(),
        Operation::Rollback => "ROLLBACK".into(),
        Operation::Savepoint(n) => format!("SAVEPOINT s{}", n % 3),
        Operation::RollbackTo(n) => format!("ROLLBACK TO s{}", n % 3),
        Operation::InsertParent { id, code } => format!("INSERT INTO p VALUES ({}, {})", key(id), key(code)),
        Operation::InsertChild { id, parent, code, length } => {
            let (parent, code) = (or_null(parent), or_null(code));
            format!("INSERT INTO c VALUES ({}, {parent}, {code}, repeat('x', {}))", key(id), length % 3000)
        }
        Operation::InsertMany { from, count } => {
            format!(
                "INSERT INTO c SELECT g, g % 8 FROM generate_series({from}, {from} + {count}) AS g ON CONFLICT DO NOTHING"
            )
        }
        Operation::Upsert { id, code } => {
            format!("INSERT INTO p VALUES ({}, {}) ON CONFLICT (code) DO UPDATE SET n = p.n + 1", key(id), key(code))
        }
        Operation::Add { id } => format!("UPDATE p SET n = n + 1 WHERE id = {}", key(id)),
        Operation::MoveParent { id, to } => format!("UPDATE p SET id = {} WHERE id = {}", key(to), key(id)),
        Operation::Recode { id, to } => format!("UPDATE p SET code = {} WHERE id = {}", key(to), key(id)),
        Operation::ChangeChild { id, parent, length } => {
            format!("UPDATE c SET p = {}, t = repeat('y', {}) WHERE id = {}", key(parent), length % 3000, key(id))
        }
        Operation::ChangeMany { below } => {
            format!("UPDATE c SET id = -id, t = id::text WHERE id < {below} RETURNING id")
        }
        Operation::DeleteParent { id } => format!("DELETE FROM p WHERE id = {}", key(id)),
        Operation::DeleteChildren { below } => format!("DELETE FROM c WHERE p < {} RETURNING *", key(below)),
        Operation::Read { what } => match what % 6 {
            0 => "SELECT count(*) FROM c".into(),
            1 => "SELECT p.id, count(c.id) FROM p LEFT JOIN c ON c.p = p.id GROUP BY p.id ORDER BY 2 DESC".into(),
            2 => "SELECT * FROM c WHERE p = 3 ORDER BY t DESC LIMIT 2".into(),
            3 => "SELECT sum(n) FROM p WHERE code IN (SELECT code FROM c)".into(),
            4 => "SELECT id FROM p WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.p = p.id)".into(),
            _ => "SELECT max(id), min(code) FROM p".into(),
        },
        Operation::LockRows { id, how } => {
            let how = ["UPDATE", "SHARE", "UPDATE NOWAIT", "UPDATE SKIP LOCKED"][usize::from(how % 4)];
            format!("SELECT * FROM p WHERE id >= {} FOR {how}", key(id))
        }
        Operation::Schema { what } => match what % 10 {
            0 => "CREATE INDEX IF NOT EXISTS made ON c (code, id DESC)".into(),
            1 => "DROP INDEX IF EXISTS made".into(),
            2 => "ALTER TABLE c ADD COLUMN IF NOT EXISTS extra int DEFAULT 7".into(),
            3 => "ALTER TABLE c DROP COLUMN IF EXISTS extra".into(),
            4 => "CREATE UNIQUE INDEX IF NOT EXISTS made_unique ON c (t)".into(),
            5 => "TRUNCATE c".into(),
            6 => "CREATE TABLE IF NOT EXISTS made_table AS SELECT * FROM p".into(),
            7 => "DROP TABLE IF EXISTS made_table".into(),
            8 => "ALTER TABLE p ADD CONSTRAINT small CHECK (n < 5)".into(),
            _ => "ALTER TABLE p DROP CONSTRAINT IF EXISTS small".into(),
        },
        Operation::Step | Operation::Reopen => String::new(),
    }
}

struct Client {
    session: Session,
    running: Option<Running>,
    wait: Option<LockWait>,
}

impl Client {
    fn new(engine: &Arc<Engine>) -> Self {
        Self { session: Session::new(engine, "postgres"), running: None, wait: None }
    }

    fn send(&mut self, text: &str, budget_rows: i64) {
        if self.running.is_some() {
            return self.step(budget_rows);
        }
        match self.session.prepare(text, &[]).and_then(|prepared| self.session.start(&prepared, Vec::new())) {
            Ok(running) => {
                self.running = Some(running);
                self.step(budget_rows);
            }
            Err(error) => look_at(&error, text),
        }
    }

    fn step(&mut self, budget_rows: i64) {
        if self.wait.as_ref().is_some_and(|wait| !wait.is_over()) {
            return;
        }
        self.wait = None;
        let Some(running) = &mut self.running else { return };
        loop {
            match self.session.step(running, &mut Rows::default(), budget_rows) {
                Ok(Progress::Rows) => {}
                Ok(Progress::Yield | Progress::Sleep(_)) => return,
                Ok(Progress::Commits(turn)) => turn.wait(),
                Ok(Progress::Fetch(wait)) => wait.wait(),
                Ok(Progress::Wait(wait)) if wait.is_over() => {}
                Ok(Progress::Wait(wait)) => {
                    self.wait = Some(wait);
                    return;
                }
                Ok(Progress::Done(_)) => break,
                Err(error) => {
                    look_at(&error, "what was going on");
                    break;
                }
            }
        }
        self.running = None;
    }
}

fn look_at(error: &colibri_sql::Error, text: &str) {
    let code = error.state().0;
    // PostgreSQL, too, says so of a number that nothing has.
    let is_meant = error.to_string().starts_with("could not open relation with OID");
    assert!(is_meant || !code.starts_with("XX"), "{text}: {code}: {error}");
}

fn check(engine: &Arc<Engine>) {
    assert_eq!(engine.check().expect("the database can be read"), [""; 0]);
    let orphans = "SELECT count(*) FROM c WHERE p NOT IN (SELECT id FROM p) OR code NOT IN (SELECT code FROM p WHERE code IS NOT NULL)";
    let answers = Session::new(engine, "postgres").run(orphans).expect("a query that is right");
    assert_eq!(answers[0].rows.row(0)[0], Datum::Int(0), "children without parents");
}

fuzz_target!(|input: Input| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let open = || {
        let options = Options::new().durability(Durability::NoSync);
        Engine::open(Database::open(dir.path(), &options).expect("the database opens")).expect("it is whole")
    };
    let mut engine = open();
    Session::new(&engine, "postgres").run(SCHEMA).expect("the schema is right");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(&engine)).collect();
    let budget_rows = if input.slices { 3 } else { i64::MAX };
    for (client, operation) in input.operations.iter().take(OPERATIONS_MAX) {
        if matches!(operation, Operation::Reopen) {
            clients.clear();
            check(&engine);
            drop(engine);
            engine = open();
            clients = (0..3).map(|_| Client::new(&engine)).collect();
            continue;
        }
        clients[usize::from(client % 3)].send(&text(operation), budget_rows);
    }
    // Each in turn ends, so whoever waits for it can go on.
    for _ in 0..3 {
        for client in &mut clients {
            client.step(i64::MAX);
            if client.running.is_none() {
                client.send("ROLLBACK", i64::MAX);
            }
        }
    }
    assert!(clients.iter().all(|client| client.running.is_none()), "somebody waits for nobody");
    clients.clear();
    check(&engine);
});
