//! The shapes of a set: the statements of its `shapes.sql` with their names.
//!
//! | a line | begins |
//! | --- | --- |
//! | `-- [source] name` | one shape, whose statement follows |
//! | `-- [source]` | a section: each line that follows is a shape, named by its number |
//!
//! `(ordered)` and `(writes)` at the end of such a line say so of the shapes behind it.

use super::draw::Template;

/// A statement as applications send it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// The kind of software that sends such statements: `django`, `report`.
    pub(super) source: &'static str,
    /// What it does, or its number and how it begins.
    pub(super) name: String,
    /// The order of its rows is a part of the answer.
    pub(super) is_ordered: bool,
    /// Whether it runs in a transaction that is rolled back.
    pub(super) writes: bool,
    pub(super) template: Template,
}

impl Shape {
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.source, self.name)
    }

    /// What a heading begins: one shape, or one for each line.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(head: &'static str, statements: &'static str) -> Result<Vec<Self>, String> {
        let told = |what: String| format!("{head}: {what}");
        let (source, name) = head.split_once(']').ok_or_else(|| told("no source in brackets".to_owned()))?;
        let (name, is_ordered) = flag(name, " (ordered)");
        let (name, writes) = flag(name, " (writes)");
        let shape = |name: String, sql: &str| {
            let template = Template::parse(sql).map_err(told)?;
            Ok(Self { source, name, is_ordered, writes, template })
        };
        match name.trim() {
            "" => (1..).zip(statements.lines()).map(|(number, sql)| shape(numbered(number, sql), sql)).collect(),
            name => Ok(vec![shape(name.to_owned(), statements)?]),
        }
    }
}

/// A name for a statement that has none.
fn numbered(number: usize, sql: &str) -> String {
    let begin: String = sql.chars().take(40).collect();
    format!("{number}, {begin}")
}

fn flag(name: &'static str, flag: &str) -> (&'static str, bool) {
    name.strip_suffix(flag).map_or((name, false), |name| (name, true))
}

/// All of a file's, in its order.
///
/// # Errors
/// What is wrong in the file.
pub(super) fn shapes(text: &'static str) -> Result<Vec<Shape>, String> {
    let mut shapes = Vec::new();
    for part in text.split("\n-- [").skip(1) {
        let (head, statements) = part.split_once('\n').ok_or_else(|| format!("{part:?} has no statement"))?;
        shapes.extend(Shape::parse(head, statements.trim())?);
    }
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::ValueEnum as _;

    use super::super::set::Set;
    use super::*;

    #[test]
    fn every_shape_can_be_read_and_has_a_name_of_its_own() {
        for set in Set::value_variants() {
            let shapes = shapes(set.shapes()).unwrap();
            let least = if *set == Set::Introspection { 40 } else { 150 };
            assert!(shapes.len() >= least, "{}", shapes.len());
            let titles: HashSet<_> = shapes.iter().map(Shape::title).collect();
            assert_eq!(titles.len(), shapes.len());
            for shape in &shapes {
                let sql = shape.template.prepared();
                assert!(!sql.contains("\n"), "{}: a statement is a line", shape.title());
                let lower = sql.to_lowercase();
                let changes =
                    ["insert into", "update ", "delete from", "for update"].iter().any(|word| lower.contains(word));
                assert_eq!(shape.writes, changes, "{}", shape.title());
            }
        }
    }

    #[test]
    fn a_heading_without_a_name_begins_a_section() {
        let shapes = shapes("\n-- [a] one (ordered)\nSELECT 1\n\n-- [b] (writes)\nUPDATE t\nDELETE FROM t\n").unwrap();
        let found: Vec<_> = shapes.iter().map(|shape| (shape.title(), shape.is_ordered, shape.writes)).collect();
        let told = |title: &str, is_ordered, writes| (title.to_owned(), is_ordered, writes);
        let expected = [
            told("a: one", true, false),
            told("b: 1, UPDATE t", false, true),
            told("b: 2, DELETE FROM t", false, true),
        ];
        assert_eq!(found, expected);
    }
}
