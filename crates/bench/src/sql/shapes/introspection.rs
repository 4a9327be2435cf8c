//! What object-relational mappers, drivers and tools ask of the catalogue, over a schema of 300
//! tables of an application with keys, indexes, views and comments.
//!
//! Invariants
//! - The schema depends on the scale alone. `app_t2`, of which most statements ask, is there at every
//!   scale.
//! - No column comes after an index on an expression was made: numbers of columns are PostgreSQL's.

use super::set::Scale;
use crate::sql::workload::load::{Data, PartRows};

/// Tables at scale 1.
const TABLES: i64 = 300;
/// The fewest.
const TABLES_MIN: i64 = 4;
/// One table of so many has a view.
const VIEW_EACH: i64 = 15;
/// One table of so many has a comment.
const COMMENT_EACH: i64 = 10;
/// One table of so many has a CHECK.
const CHECK_EACH: i64 = 5;

/// The schema, for loading. Its tables are empty but for one.
#[derive(Debug)]
pub(super) struct Introspection(pub(super) Scale);

impl Introspection {
    fn count(&self) -> i64 {
        self.0.of(TABLES).max(TABLES_MIN)
    }
}

impl Data for Introspection {
    fn fingerprint(&self) -> String {
        format!("introspection 1, {} tables", self.count())
    }

    fn tables(&self) -> Vec<String> {
        let mut all = vec!["CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')".to_owned()];
        all.extend((0..self.count()).map(table));
        all
    }

    fn indexes(&self) -> Vec<String> {
        (0..self.count()).flat_map(made_for).collect()
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["app_t0"]
    }

    fn parts(&self) -> u32 {
        1
    }

    fn rows(&self) -> u64 {
        1
    }

    fn generate(&self, _: u32, rows: &mut PartRows) {
        rows.set_statement("INSERT INTO app_t0 (name, org_id) VALUES ('one', 1)".to_owned());
    }
}

fn table(number: i64) -> String {
    // One that was made before.
    let parent = match number {
        0 => "bigint".to_owned(),
        _ => format!("bigint REFERENCES app_t{} (id) ON DELETE CASCADE", number * 5 / 7),
    };
    let check = if number % CHECK_EACH == 0 { ", CHECK (amount >= 0)" } else { "" };
    format!(
        "CREATE TABLE app_t{number} (id bigserial PRIMARY KEY, name varchar(80) NOT NULL, email text, \
         org_id bigint NOT NULL, parent_id {parent}, created_at timestamptz NOT NULL DEFAULT now(), \
         updated_at timestamptz, amount numeric(12,2) DEFAULT 0, active boolean NOT NULL DEFAULT true, data jsonb, \
         m mood{check})"
    )
}

/// What is made for a table once it is there.
fn made_for(number: i64) -> Vec<String> {
    let mut all = vec![
        format!("CREATE INDEX app_t{number}_org ON app_t{number} (org_id, created_at)"),
        format!("CREATE UNIQUE INDEX app_t{number}_email ON app_t{number} (lower(email)) WHERE active"),
    ];
    if number % COMMENT_EACH == 0 {
        all.push(format!("COMMENT ON TABLE app_t{number} IS 'table {number}'"));
        all.push(format!("COMMENT ON COLUMN app_t{number}.name IS 'its name'"));
    }
    if number % VIEW_EACH == 1 {
        all.push(format!(
            "CREATE VIEW app_v{number} AS SELECT a.id, a.name, b.email FROM app_t{number} a \
             JOIN app_t{} b ON a.parent_id = b.id WHERE a.active",
            number - 1
        ));
    }
    all
}
