//! The shapes: statements of `shapes.sql` with their names.

use super::draw::Template;

/// The statements, in the order of the file.
const TEXT: &str = include_str!("shapes.sql");

/// A statement as applications send it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// The kind of software that sends such statements: `django`, `report`.
    pub(super) source: &'static str,
    /// What it does.
    pub(super) name: &'static str,
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

    /// # Errors
    /// What is wrong with it.
    fn parse(head: &'static str, sql: &'static str) -> Result<Self, String> {
        let told = |what: String| format!("{head}: {what}");
        let (source, name) = head.split_once("] ").ok_or_else(|| told("no source in brackets".to_owned()))?;
        let (name, is_ordered) = flag(name, " (ordered)");
        let (name, writes) = flag(name, " (writes)");
        let template = Template::parse(sql).map_err(told)?;
        Ok(Self { source, name, is_ordered, writes, template })
    }
}

fn flag(name: &'static str, flag: &str) -> (&'static str, bool) {
    name.strip_suffix(flag).map_or((name, false), |name| (name, true))
}

/// All of them.
///
/// # Errors
/// What is wrong in the file.
pub(super) fn shapes() -> Result<Vec<Shape>, String> {
    let mut shapes = Vec::new();
    for part in TEXT.split("\n-- [").skip(1) {
        let (head, sql) = part.split_once('\n').ok_or_else(|| format!("{part:?} has no statement"))?;
        shapes.push(Shape::parse(head, sql.trim())?);
    }
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_shape_can_be_read_and_has_a_name_of_its_own() {
        let shapes = shapes().unwrap();
        assert!(shapes.len() >= 150, "{}", shapes.len());
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
