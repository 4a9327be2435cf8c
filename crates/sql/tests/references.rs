//! Referential actions against a simple model: parents whose keys change places at random, and what
//! refers to them.

#![allow(clippy::unwrap_used)]

mod clients;

use std::collections::{BTreeMap, BTreeSet};

use clients::TestDatabase;

const KEYS: i64 = 9;
const STATEMENTS: usize = 15;

/// Children of one parent table, for each action one; `unique` and `deep` make a chain, `tree`
/// refers to itself.
const SETUP: &str = "
    CREATE TABLE p (a int, b int DEFAULT 0, PRIMARY KEY (a, b));
    CREATE TABLE follow (n int PRIMARY KEY, a int, b int,
        FOREIGN KEY (a, b) REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE INDEX ON follow (b, a);
    CREATE TABLE forget (n int PRIMARY KEY, a int, b int,
        FOREIGN KEY (b, a) REFERENCES p (b, a) ON UPDATE SET NULL ON DELETE SET NULL);
    CREATE TABLE fall (n int PRIMARY KEY, a int DEFAULT 0, b int DEFAULT 0,
        FOREIGN KEY (a, b) REFERENCES p ON UPDATE SET DEFAULT ON DELETE SET DEFAULT);
    CREATE TABLE sole (n int, a int, b int, UNIQUE (b, a),
        FOREIGN KEY (a, b) REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE deep (n int, a int, b int,
        FOREIGN KEY (a, b) REFERENCES sole (a, b) ON UPDATE CASCADE ON DELETE CASCADE,
        FOREIGN KEY (a, b) REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON UPDATE CASCADE ON DELETE CASCADE);
    INSERT INTO p VALUES (0, 0)";

type Pair = (i64, i64);
/// What rows refer to, by their numbers, or just in order.
type Rows = BTreeMap<i64, Option<Pair>>;

#[derive(Default)]
struct Model {
    parents: BTreeSet<Pair>,
    follow: Rows,
    forget: Rows,
    fall: Rows,
    sole: Rows,
    deep: Rows,
    tree: BTreeMap<i64, Option<i64>>,
}

fn shown(rows: &Rows) -> Vec<String> {
    let text = |(n, pair): (&i64, &Option<Pair>)| match pair {
        Some((a, b)) => format!("{n} {a} {b}"),
        None => format!("{n} NULL NULL"),
    };
    rows.iter().map(text).collect()
}

impl Model {
    /// Each parent gets the key that `to` says; those without one go.
    fn change(&mut self, to: &dyn Fn(Pair) -> Option<Pair>) {
        let is_changed = |pair: Pair| to(pair) != Some(pair);
        for rows in [&mut self.follow, &mut self.sole, &mut self.deep] {
            rows.retain(|_, pair| pair.is_none_or(|pair| to(pair).is_some()));
            rows.values_mut().for_each(|pair| *pair = pair.and_then(to));
        }
        for pair in self.forget.values_mut().filter(|pair| pair.is_some_and(is_changed)) {
            *pair = None;
        }
        for pair in self.fall.values_mut().filter(|pair| pair.is_some_and(is_changed)) {
            *pair = Some((0, 0));
        }
        self.parents = self.parents.iter().filter_map(|&pair| to(pair)).collect();
    }

    fn change_tree(&mut self, to: &dyn Fn(i64) -> i64) {
        self.tree = self.tree.iter().map(|(&id, up)| (to(id), up.map(to))).collect();
    }

    fn delete_tree(&mut self, root: i64) {
        let mut gone = vec![root];
        while let Some(id) = gone.pop() {
            if self.tree.remove(&id).is_some() {
                gone.extend(self.tree.iter().filter(|(_, up)| **up == Some(id)).map(|(id, _)| *id));
            }
        }
    }

    #[track_caller]
    fn check(&self, database: &TestDatabase, what: &str) {
        for (name, rows) in [
            ("follow", &self.follow),
            ("forget", &self.forget),
            ("fall", &self.fall),
            ("sole", &self.sole),
            ("deep", &self.deep),
        ] {
            assert_eq!(database.now(&format!("SELECT n, a, b FROM {name} ORDER BY n")), shown(rows), "{name}: {what}");
        }
        let parents: Vec<String> = self.parents.iter().map(|(a, b)| format!("{a} {b}")).collect();
        assert_eq!(database.now("SELECT a, b FROM p ORDER BY a, b"), parents, "{what}");
        let tree: Vec<String> = self
            .tree
            .iter()
            .map(|(id, up)| format!("{id} {}", up.map_or("NULL".into(), |up| up.to_string())))
            .collect();
        assert_eq!(database.now("SELECT id, up FROM tree ORDER BY id"), tree, "{what}");
        assert_eq!(database.engine.check().unwrap(), Vec::<String>::new(), "{what}");
    }
}

fn values<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Fills the tables that lie below the parents there are.
fn fill(random: &mut fastrand::Rng, database: &TestDatabase, model: &mut Model) {
    let pairs: Vec<Pair> = (1..=KEYS).map(|a| (a, random.i64(0..3))).collect();
    database.now(&format!("INSERT INTO p VALUES {}", values(&pairs, |(a, b)| format!("({a}, {b})"))));
    model.parents.extend(pairs.iter().copied().chain([(0, 0)]));
    for n in 1..30 {
        let (a, b) = pairs[random.usize(..pairs.len())];
        for (name, rows) in [("follow", &mut model.follow), ("forget", &mut model.forget), ("fall", &mut model.fall)] {
            database.now(&format!("INSERT INTO {name} VALUES ({n}, {a}, {b})"));
            rows.insert(n, Some((a, b)));
        }
    }
    for (n, &(a, b)) in (0..).zip(pairs.iter().filter(|_| random.u8(..4) > 0)) {
        for name in ["sole", "deep"] {
            database.now(&format!("INSERT INTO {name} VALUES ({n}, {a}, {b})"));
        }
        model.sole.insert(n, Some((a, b)));
        model.deep.insert(n, Some((a, b)));
    }
    for id in 1..=KEYS {
        let up = (id > 1 && random.bool()).then(|| random.i64(1..id));
        let shown = up.map_or("NULL".to_owned(), |up| up.to_string());
        database.now(&format!("INSERT INTO tree VALUES ({id}, {shown})"));
        model.tree.insert(id, up);
    }
}

/// Bug: each event looked for referring rows in a state that earlier events of the same statement
/// had changed. Consequence: `UPDATE p SET id = id + 1` carried the children of 1 along with those
/// of 2 and 3, to 4. Fix: the rows of a round are found before the first one changes.
#[test]
fn rows_follow_the_keys_that_they_refer_to_whatever_places_these_change() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (database, mut model) = (TestDatabase::new(SETUP), Model::default());
        fill(&mut random, &database, &mut model);
        model.check(&database, "at first");
        for _ in 0..STATEMENTS {
            let (text, what) = change(&mut random, &mut model);
            database.now(&text);
            model.check(&database, &format!("seed {seed}, {what}: {text}"));
        }
    }
}

/// A statement at random, which the model has carried out.
fn change(random: &mut fastrand::Rng, model: &mut Model) -> (String, &'static str) {
    let mut olds: Vec<Pair> = model.parents.iter().copied().filter(|&pair| pair != (0, 0)).collect();
    random.shuffle(&mut olds);
    match random.u8(..8) {
        // The keys of some parents change places, and some get new ones.
        0..4 => {
            olds.truncate(random.usize(1..=olds.len().max(1)));
            let mut news = olds.clone();
            random.shuffle(&mut news);
            if random.bool() {
                let last = model.parents.iter().map(|(a, _)| *a).max().unwrap_or(0);
                (1..).zip(&mut news).for_each(|(by, (a, _))| *a = last + by);
            }
            let moves: Vec<(Pair, Pair)> = olds.into_iter().zip(news).collect();
            if moves.is_empty() {
                return ("SELECT 1".to_owned(), "nothing");
            }
            let list = values(&moves, |((a, b), (c, d))| format!("({a}, {b}, {c}, {d})"));
            let map: BTreeMap<Pair, Pair> = moves.into_iter().collect();
            model.change(&|pair| Some(map.get(&pair).copied().unwrap_or(pair)));
            let text = format!(
                "UPDATE p SET a = m.c, b = m.d FROM (VALUES {list}) AS m(a, b, c, d) WHERE p.a = m.a AND p.b = m.b"
            );
            (text, "moves")
        }
        4 => {
            let by = random.i64(1..4);
            model.change(&|(a, b)| if a == 0 { Some((a, b)) } else { Some((a + by, b)) });
            (format!("UPDATE p SET a = a + {by} WHERE a > 0"), "a step")
        }
        5 => {
            let gone: Vec<Pair> = olds.into_iter().take(2).collect();
            model.change(&|pair| (!gone.contains(&pair)).then_some(pair));
            let list = values(&gone, |(a, b)| format!("({a}, {b})"));
            if gone.is_empty() {
                return ("SELECT 1".to_owned(), "nothing");
            }
            (format!("DELETE FROM p WHERE (a, b) IN ({list})"), "deletes")
        }
        6 => {
            let sum = model.tree.keys().next().unwrap_or(&0) + model.tree.keys().next_back().unwrap_or(&0);
            let mirrored = model.tree.keys().all(|id| model.tree.contains_key(&(sum - id)));
            let by = if mirrored { sum } else { 100 };
            let to = move |id: i64| if mirrored { by - id } else { id + by };
            model.change_tree(&to);
            let expr = if mirrored { format!("{by} - id") } else { format!("id + {by}") };
            (format!("UPDATE tree SET id = {expr}"), "mirrors the tree")
        }
        _ => {
            let ids: Vec<i64> = model.tree.keys().copied().collect();
            let Some(&root) = ids.get(random.usize(..ids.len().max(1))) else {
                return ("SELECT 1".to_owned(), "nothing");
            };
            model.delete_tree(root);
            (format!("DELETE FROM tree WHERE id = {root}"), "prunes the tree")
        }
    }
}

/// Bug: violations named no schema. Consequence: programs that look at the fields of an error
/// (libpq's SCHEMA NAME) could not tell tables of the same name apart. Fix: every violation says
/// schema, table, and column or constraint.
#[test]
fn violations_name_the_schema_the_table_and_the_column_or_constraint() {
    let setup = "CREATE SCHEMA s;
        CREATE TABLE s.p (a int PRIMARY KEY, b int NOT NULL CONSTRAINT low CHECK (b < 10), c int UNIQUE);
        CREATE TABLE s.q (a int CONSTRAINT up REFERENCES s.p);
        INSERT INTO s.p VALUES (1, 1, 1), (2, 2, 2); INSERT INTO s.q VALUES (1), (NULL)";
    let db = TestDatabase::new(setup);
    let mut session = db.session();
    for (statement, table, column, constraint) in [
        ("INSERT INTO s.p VALUES (3, NULL, 3)", "p", Some("b"), None),
        ("INSERT INTO s.p VALUES (NULL, 1, 3)", "p", Some("a"), None),
        ("UPDATE s.p SET b = NULL", "p", Some("b"), None),
        ("UPDATE s.p SET b = b + NULL", "p", Some("b"), None),
        ("INSERT INTO s.p VALUES (3, 30, 3)", "p", None, Some("low")),
        ("INSERT INTO s.p VALUES (1, 1, 3)", "p", None, Some("p_pkey")),
        ("UPDATE s.p SET c = 1", "p", None, Some("p_c_key")),
        ("INSERT INTO s.q VALUES (9)", "q", None, Some("up")),
        ("DELETE FROM s.p WHERE a = 1", "q", None, Some("up")),
        ("ALTER TABLE s.q ALTER a SET NOT NULL", "q", Some("a"), None),
        ("ALTER TABLE s.q ADD d int NOT NULL", "q", Some("d"), None),
        ("ALTER TABLE s.p ADD CONSTRAINT high CHECK (b > 1)", "p", None, Some("high")),
        ("ALTER TABLE s.p ADD d int UNIQUE DEFAULT 1", "p", None, Some("p_d_key")),
        ("ALTER TABLE s.q ADD d int DEFAULT 7 CONSTRAINT f REFERENCES s.p", "q", None, Some("f")),
    ] {
        let error = session.run(statement).unwrap_err();
        let report = error.report();
        assert_eq!(report.schema.as_deref(), Some("s"), "{statement}: {error}");
        assert_eq!(report.table.as_deref(), Some(table), "{statement}: {error}");
        assert_eq!(report.column.as_deref(), column, "{statement}: {error}");
        assert_eq!(report.constraint.as_deref(), constraint, "{statement}: {error}");
    }
}
