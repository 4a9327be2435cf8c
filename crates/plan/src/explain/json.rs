//! A plan as JSON, as programs read it that show plans: PostgreSQL's keys and form, as far as the
//! operators are alike.
//!
//! The tree is the one that the lines show: an operator belongs to the last one before it that
//! stands further left.

use super::usage::Figure;
use super::{Actual, ExplainOptions, Part, What};

/// Keys whose values are lists whatever their length.
const LISTS: [&str; 4] = ["Sort Key", "Presorted Key", "Group Key", "Output"];

enum Value {
    Text(String),
    Number(String),
    List(Vec<Value>),
    Object(Vec<(&'static str, Value)>),
}

/// The text.
pub(super) fn plan(parts: &[Part], options: ExplainOptions, summary: &[(&str, f64)]) -> String {
    let mut parts = parts.iter().peekable();
    let root = operator(&mut parts, options, None).unwrap_or(Value::Object(Vec::new()));
    let mut text = String::from("[\n  {\n    \"Plan\": ");
    write(&root, 4, &mut text);
    for (name, ms) in summary {
        text += &format!(",\n    \"{name}\": {ms:.3}");
    }
    text + "\n  }\n]"
}

type Parts<'p> = std::iter::Peekable<std::slice::Iter<'p, Part>>;

/// An operator with all that belongs to it.
fn operator(parts: &mut Parts<'_>, options: ExplainOptions, note: Option<&str>) -> Option<Value> {
    let Part { indent, what: What::Operator { label, rows, actual, .. } } = parts.next()? else { return None };
    let mut object = described(label);
    if let Some(note) = note {
        let relationship = note.split(' ').next().filter(|kind| *kind != "CTE").unwrap_or("InitPlan");
        object.push(("Parent Relationship", Value::Text(relationship.to_owned())));
        object.push(("Subplan Name", Value::Text(note.to_owned())));
    }
    if let Some(rows) = rows {
        object.push(("Plan Rows", Value::Number(format!("{rows:.0}"))));
    }
    if let Some(actual) = actual {
        did(actual.unwrap_or_default(), options, &mut object);
    }
    let (mut plans, mut note) = (Vec::new(), None);
    while let Some(part) = parts.next_if(|part| part.indent > *indent && !matches!(part.what, What::Operator { .. })) {
        keep(part, &mut object, &mut note);
    }
    while let Some(part) = parts.peek().filter(|part| part.indent > *indent) {
        match &part.what {
            What::Operator { .. } => plans.extend(operator(parts, options, note.take())),
            _ => {
                keep(part, &mut object, &mut note);
                parts.next();
            }
        }
    }
    if !plans.is_empty() {
        object.push(("Plans", Value::List(plans)));
    }
    Some(Value::Object(object))
}

fn keep<'p>(part: &'p Part, object: &mut Vec<(&'static str, Value)>, note: &mut Option<&'p str>) {
    match &part.what {
        What::Property { name, values } if LISTS.contains(name) => {
            object.push((name, Value::List(values.iter().cloned().map(Value::Text).collect())));
        }
        What::Property { name, values } => object.push((name, Value::Text(values.join(", ")))),
        What::Usage(usage) => object.extend(usage.figures().into_iter().map(|(name, figure)| match figure {
            Figure::Word(word) => (name, Value::Text(word.to_owned())),
            Figure::Number(number) => (name, Value::Number(number.to_string())),
        })),
        What::Note(text) => *note = Some(text),
        What::Operator { .. } => {}
    }
}

/// What an operator did; nothing if it never ran.
fn did(actual: Actual, options: ExplainOptions, object: &mut Vec<(&'static str, Value)>) {
    let each = |sum: f64| sum / actual.loops.max(1) as f64;
    if options.timing {
        let ms = each(actual.time.as_secs_f64() * 1e3);
        object.push(("Actual Total Time", Value::Number(format!("{ms:.3}"))));
    }
    object.push(("Actual Rows", Value::Number(format!("{:.0}", each(actual.rows as f64)))));
    object.push(("Actual Loops", Value::Number(actual.loops.to_string())));
}

/// What a line's beginning says, by keys: `Index Scan Backward using t_pkey on t`.
fn described(label: &str) -> Vec<(&'static str, Value)> {
    let (name, target) = label.split_once(" on ").map_or((label, None), |(name, target)| (name, Some(target)));
    let (name, index) = name.split_once(" using ").map_or((name, None), |(name, index)| (name, Some(index)));
    let (name, is_backward) = name.strip_suffix(" Backward").map_or((name, false), |name| (name, true));
    let mut keys: Vec<(&'static str, &str)> = Vec::new();
    let node = match name {
        "Insert" | "Update" | "Delete" => {
            keys.push(("Operation", name));
            "ModifyTable"
        }
        "Aggregate" => {
            keys.push(("Strategy", "Plain"));
            name
        }
        "HashAggregate" => {
            keys.push(("Strategy", "Hashed"));
            "Aggregate"
        }
        "GroupAggregate" => {
            keys.push(("Strategy", "Sorted"));
            "Aggregate"
        }
        "Nested Loop" | "Hash Join" | "Merge Join" => {
            keys.push(("Join Type", "Inner"));
            name
        }
        _ => match (name.strip_prefix("HashSetOp "), name.strip_suffix(" Join")) {
            (Some(command), _) => {
                keys.extend([("Strategy", "Hashed"), ("Command", command)]);
                "SetOp"
            }
            (None, Some(join)) => {
                let (node, kind) = join.rsplit_once(' ').unwrap_or((join, "Inner"));
                keys.push(("Join Type", kind));
                match node {
                    "Hash" => "Hash Join",
                    "Merge" => "Merge Join",
                    "Adaptive" => "Adaptive Join",
                    node => node,
                }
            }
            (None, None) => name,
        },
    };
    if name.starts_with("Index") {
        keys.push(("Scan Direction", if is_backward { "Backward" } else { "Forward" }));
    }
    keys.extend(index.map(|index| ("Index Name", index)));
    let target_key = match name {
        "Function Scan" => "Function Name",
        "CTE Scan" | "WorkTable Scan" => "CTE Name",
        "Values Scan" => "Alias",
        _ => "Relation Name",
    };
    // As PostgreSQL names relations here: without their schema.
    let target = target.map(|target| target.strip_prefix("pg_catalog.").unwrap_or(target));
    keys.extend(target.map(|target| (target_key, target.trim_matches('"'))));
    let text = |(key, value): (&'static str, &str)| (key, Value::Text(value.to_owned()));
    std::iter::once(("Node Type", node)).chain(keys).map(text).collect()
}

fn write(value: &Value, indent: usize, text: &mut String) {
    let (open, items, close): (char, Vec<(Option<&str>, &Value)>, char) = match value {
        Value::Text(value) => {
            text.push_str(&serde_json::Value::from(value.as_str()).to_string());
            return;
        }
        Value::Number(value) => return text.push_str(value),
        // A short one is one line.
        Value::List(values) if values.iter().all(|value| matches!(value, Value::Text(_))) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                write(value, indent, text);
            }
            return text.push(']');
        }
        Value::List(values) => ('[', values.iter().map(|value| (None, value)).collect(), ']'),
        Value::Object(fields) => ('{', fields.iter().map(|(name, value)| (Some(*name), value)).collect(), '}'),
    };
    text.push(open);
    for (at, (name, value)) in items.into_iter().enumerate() {
        text.push_str(if at > 0 { ",\n" } else { "\n" });
        text.extend(std::iter::repeat_n(' ', indent + 2));
        if let Some(name) = name {
            *text += &format!("\"{name}\": ");
        }
        write(value, indent + 2, text);
    }
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', indent));
    text.push(close);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn labels_are_taken_apart() {
        let check = |label: &str, expected: &[(&str, &str)]| {
            let found: Vec<(&str, String)> = described(label)
                .into_iter()
                .map(|(key, value)| match value {
                    Value::Text(text) => (key, text),
                    _ => panic!("{key} is no text"),
                })
                .collect();
            let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (*key, value.as_str())).collect();
            assert_eq!(found, expected, "{label}");
        };
        check("Sort", &[("Node Type", "Sort")]);
        check("Merge Anti Join", &[("Node Type", "Merge Join"), ("Join Type", "Anti")]);
        check("Merge Join", &[("Node Type", "Merge Join"), ("Join Type", "Inner")]);
        check("Adaptive Join", &[("Node Type", "Adaptive Join"), ("Join Type", "Inner")]);
        check("Seq Scan on t", &[("Node Type", "Seq Scan"), ("Relation Name", "t")]);
        let index = [("Scan Direction", "Backward"), ("Index Name", "t_b"), ("Relation Name", "t")];
        check("Index Only Scan Backward using t_b on t", &[&[("Node Type", "Index Only Scan")][..], &index].concat());
        check("Nested Loop Left Join", &[("Node Type", "Nested Loop"), ("Join Type", "Left")]);
        check("Hash Anti Join", &[("Node Type", "Hash Join"), ("Join Type", "Anti")]);
        check("Hash Join", &[("Node Type", "Hash Join"), ("Join Type", "Inner")]);
        check("Update on t", &[("Node Type", "ModifyTable"), ("Operation", "Update"), ("Relation Name", "t")]);
        let set = [("Node Type", "SetOp"), ("Strategy", "Hashed"), ("Command", "Except All")];
        check("HashSetOp Except All", &set);
    }
}
