//! Recipes that sessions share: plans of prepared statements, found by their texts.
//!
//! A recipe follows from its text, the types that were given for its parameters, the search path
//! and the catalogue; each session checks privileges itself. A recipe that depends on more is not
//! shared here.
//!
//! Invariants: a recipe lives as long as some session has a statement of it. Here are weak
//! references; those to recipes that are gone are removed before they are the majority.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use colibri_types::Type;
use parking_lot::Mutex;

use super::plans::Recipe;
use crate::surroundings::SearchPath;

/// With fewer references than this, none are removed.
const SWEEP_MIN: usize = 64;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    text: String,
    types: Vec<Option<Type>>,
    search_path: SearchPath,
}

impl Key {
    fn of(recipe: &Recipe) -> Self {
        let Recipe { text, param_hints, search_path, .. } = recipe;
        Self { text: text.clone(), types: param_hints.clone(), search_path: search_path.clone() }
    }
}

/// The recipes of a database.
#[derive(Default)]
pub(crate) struct Recipes(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_text: HashMap<Key, Weak<Recipe>>,
    /// The number of recipes at which the next sweep is due.
    sweep_at: usize,
}

impl Recipes {
    /// The recipe of a text in a version of the catalogue, if somebody has it.
    pub(super) fn find(
        &self,
        text: &str,
        types: &[Option<Type>],
        search_path: &SearchPath,
        version: u64,
    ) -> Option<Arc<Recipe>> {
        let key = Key { text: text.to_owned(), types: types.to_vec(), search_path: Arc::clone(search_path) };
        let known = self.0.lock().by_text.get(&key)?.upgrade()?;
        (known.version == version).then_some(known)
    }

    /// Publishes a recipe, in place of one for an older version of the catalogue or other sizes of
    /// tables.
    pub(super) fn keep(&self, recipe: &Arc<Recipe>) {
        let key = Key::of(recipe);
        let mut known = self.0.lock();
        let is_newer = |kept: Arc<Recipe>| kept.version > recipe.version;
        if known.by_text.get(&key).and_then(Weak::upgrade).is_some_and(is_newer) {
            // The session of this recipe sees an older state.
            return;
        }
        known.by_text.insert(key, Arc::downgrade(recipe));
        if known.by_text.len() >= known.sweep_at.max(SWEEP_MIN) {
            known.by_text.retain(|_, recipe| recipe.strong_count() > 0);
            known.sweep_at = 2 * known.by_text.len();
        }
    }

    /// Withdraws a recipe that is no longer valid.
    pub(super) fn forget(&self, recipe: &Arc<Recipe>) {
        let key = Key::of(recipe);
        let mut known = self.0.lock();
        if known.by_text.get(&key).is_some_and(|kept| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(recipe))) {
            known.by_text.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::session::{Engine, Prepared, Session};
    use colibri_types::Datum;

    struct World {
        engine: Arc<Engine>,
        _dir: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let options = colibri_storage::Options::new().durability(colibri_storage::Durability::NoSync);
            let engine = Engine::open(colibri_storage::Database::open(dir.path(), &options).unwrap()).unwrap();
            let world = Self { engine, _dir: dir };
            world.session().run("CREATE TABLE t (a int PRIMARY KEY, b int)").unwrap();
            world
        }

        fn session(&self) -> Session {
            Session::new(&self.engine, "me")
        }

        /// How many texts are known, with those that nobody has any more.
        fn known(&self) -> usize {
            self.engine.recipes().0.lock().by_text.len()
        }
    }

    const TEXT: &str = "SELECT b FROM t WHERE a = $1";

    fn prepare(session: &mut Session, text: &str) -> Arc<Prepared> {
        session.prepare(text, &[]).unwrap()
    }

    fn is_shared(a: &Prepared, b: &Prepared) -> bool {
        Arc::ptr_eq(&a.recipe, &b.recipe)
    }

    #[test]
    fn sessions_share_what_follows_from_text_and_catalogue() {
        let world = World::new();
        let (mut one, mut two) = (world.session(), world.session());
        let (a, b) = (prepare(&mut one, TEXT), prepare(&mut two, TEXT));
        assert!(is_shared(&a, &b) && !Arc::ptr_eq(&a, &b));
        // Both run it, by turns, on one thread.
        one.run("INSERT INTO t VALUES (1, 10), (2, 20)").unwrap();
        for (key, value) in [(1, 10), (2, 20), (1, 10)] {
            for (session, prepared) in [(&mut one, &a), (&mut two, &b)] {
                let answer = session.execute(prepared, vec![Datum::Int(key)]).unwrap();
                assert_eq!(answer.rows.row(0), [Datum::Int(value)]);
            }
        }
        let typed = two.prepare(TEXT, &[Some(Type::Int8)]).unwrap();
        assert!(!is_shared(&a, &typed));
        two.run("CREATE SCHEMA s; SET search_path = s, public").unwrap();
        assert!(!is_shared(&prepare(&mut one, TEXT), &prepare(&mut two, TEXT)));
    }

    #[test]
    fn what_depends_on_a_session_is_its_own() {
        let world = World::new();
        let (mut one, mut two) = (world.session(), world.session());
        for text in [
            "SELECT 't'::regclass",
            "SELECT '{2020-01-01}'::timestamptz[]",
            "SELECT 'epoch'::date",
            "SELECT '12:00+02'::time",
        ] {
            let (Ok(a), Ok(b)) = (one.prepare(text, &[]), two.prepare(text, &[])) else { continue };
            assert!(!is_shared(&a, &b), "{text}");
        }
        for text in [
            "SELECT '7'::int",
            "SELECT 'x' || 'y'",
            "SELECT '2020-01-01'::date",
            "SELECT '2020-01-01 10:00:00.5'::timestamp",
            "SELECT '1 day'::interval",
            "SELECT '{1,2}'::int[]",
            // Read when it is run.
            "SELECT '10:00 tomorrow'::timestamp",
        ] {
            assert!(is_shared(&prepare(&mut one, text), &prepare(&mut two, text)), "{text}");
        }
    }

    #[test]
    fn a_new_catalogue_makes_new_recipes_and_one_not_committed_makes_them_for_nobody_else() {
        let world = World::new();
        let (mut one, mut two) = (world.session(), world.session());
        let before = prepare(&mut one, "SELECT * FROM t");
        one.run("BEGIN; ALTER TABLE t ADD COLUMN c int").unwrap();
        let inside = prepare(&mut one, "SELECT * FROM t");
        assert_eq!((inside.columns.len(), prepare(&mut two, "SELECT * FROM t").columns.len()), (3, 2));
        one.run("COMMIT").unwrap();
        let (a, b) = (prepare(&mut one, "SELECT * FROM t"), prepare(&mut two, "SELECT * FROM t"));
        assert!(is_shared(&a, &b) && !is_shared(&a, &before) && !is_shared(&a, &inside));
        assert_eq!(a.columns.len(), 3);
    }

    #[test]
    fn a_plan_that_a_table_has_outgrown_is_made_anew_for_all_as_often_as_that_happens() {
        let world = World::new();
        let mut one = world.session();
        let text = "SELECT a FROM t WHERE b = $1";
        // A client keeps the statement that it has prepared, whatever becomes of its plan.
        let first = prepare(&mut one, text);
        let mut before = Arc::clone(&first);
        for rows in [2_000, 20_000] {
            one.run(&format!("DELETE FROM t; INSERT INTO t SELECT g, g FROM generate_series(1, {rows}) AS g")).unwrap();
            for _ in 0..40 {
                one.execute(&first, vec![Datum::Int(1)]).unwrap();
            }
            let (a, b) = (prepare(&mut one, text), prepare(&mut world.session(), text));
            assert!(is_shared(&a, &b) && !is_shared(&a, &before), "{rows} rows");
            before = a;
        }
    }

    #[test]
    fn what_an_older_state_of_the_catalogue_leads_to_takes_no_newer_recipes_place() {
        let world = World::new();
        let (mut old, mut new) = (world.session(), world.session());
        old.run("BEGIN; SELECT * FROM t").unwrap();
        // Because of what it has read the old one cannot move to where the table is.
        new.run("INSERT INTO t VALUES (1, 10); CREATE TABLE other (a int)").unwrap();
        let newer = prepare(&mut new, TEXT);
        // What is prepared is for the newest state; it runs as the transaction sees things.
        let prepared = prepare(&mut old, TEXT);
        assert!(is_shared(&prepared, &newer));
        assert_eq!(old.execute(&prepared, vec![Datum::Int(1)]).unwrap().rows.len(), 0);
        assert!(is_shared(&prepare(&mut world.session(), TEXT), &newer));
    }

    #[test]
    fn recipes_of_which_nobody_has_a_statement_are_swept_out() {
        let world = World::new();
        for round in 0..10 {
            let mut session = world.session();
            for n in 0..100 {
                prepare(&mut session, &format!("SELECT a + {round} + {n} FROM t"));
            }
        }
        assert!(world.known() <= 300, "{}", world.known());
        let mut session = world.session();
        let before = world.known();
        prepare(&mut session, "SELECT a + 9 + 99 FROM t");
        assert!(world.known() <= before.max(SWEEP_MIN));
    }
}
