//! A help desk and a shop, as `helpdesk/schema.sql` has them. The server makes the rows itself, by
//! the statements of `helpdesk/rows.sql`: each is a part.
//!
//! Invariants
//! - Rows depend on the scale alone: they are computed from their numbers, without any randomness.

use super::set::Scale;
use crate::sql::workload::load::{Data, PartRows, statements};

/// The tables in the order in which they are filled: those first that others refer to.
const TABLES: [&str; 14] = [
    "tenants",
    "users",
    "projects",
    "memberships",
    "tickets",
    "comments",
    "labels",
    "ticket_labels",
    "categories",
    "products",
    "customers",
    "orders",
    "order_items",
    "events",
];

/// The statements that fill them, in that order.
const ROWS: &str = include_str!("helpdesk/rows.sql");

/// All rows, for loading. One connection loads them: parts come behind those that they refer to.
#[derive(Debug)]
pub(super) struct HelpDesk(pub(super) Scale);

impl Data for HelpDesk {
    fn fingerprint(&self) -> String {
        format!("helpdesk 1, scale {}", self.0)
    }

    fn tables(&self) -> Vec<String> {
        statements(include_str!("helpdesk/schema.sql"))
    }

    fn indexes(&self) -> Vec<String> {
        statements(include_str!("helpdesk/indexes.sql"))
    }

    fn table_names(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    fn parts(&self) -> u32 {
        TABLES.len() as u32
    }

    /// Of most tables the exact number; of those that depend on others about as many.
    fn rows(&self) -> u64 {
        self.0.of(2_900_000) as u64
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let statements = statements(ROWS);
        rows.set_statement(scaled(&statements[part as usize], self.0));
    }
}

/// A statement with the counts in its braces as they are at a scale.
fn scaled(statement: &str, scale: Scale) -> String {
    let mut pieces = statement.split('{');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (usual, rest) = piece.split_once('}').unwrap_or((piece, ""));
        let usual: i64 = usual.parse().unwrap_or_else(|_| panic!("{usual:?} in rows.sql is not a number"));
        text += &scale.of(usual).to_string();
        text += rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_statement_that_fills_it() {
        for (part, table) in (0..).zip(TABLES) {
            let mut rows = PartRows::default();
            HelpDesk(Scale::new(1)).generate(part, &mut rows);
            let statement = rows.statement().unwrap();
            assert!(statement.contains(&format!("insert into {table} ")), "{statement}");
        }
        assert_eq!(statements(ROWS).len(), TABLES.len());
    }

    #[test]
    fn counts_in_braces_grow_with_the_scale() {
        assert_eq!(scaled("select {400}, 7 % {60000}", Scale::miniature()), "select 4, 7 % 600");
        assert_eq!(scaled("select {400}", Scale::new(3)), "select 1200");
    }
}
