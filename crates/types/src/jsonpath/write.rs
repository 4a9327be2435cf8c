//! A path as its text, in PostgreSQL's form.

use super::{Head, LAST_LEVEL, Path, Program, Step};
use crate::error::Result;
use crate::json_text::write_quoted;

impl Program {
    /// Its text.
    pub(super) fn text(&self) -> Result<String> {
        let mut out = String::from(if self.is_strict { "strict " } else { "" });
        write(&self.path, true, &mut out)?;
        Ok(out)
    }
}

/// How closely what a path begins with binds.
fn priority(path: &Path) -> u8 {
    if path.steps.is_empty() { priority_of_head(&path.head) } else { 6 }
}

fn priority_of_head(head: &Head) -> u8 {
    use super::Arithmetic::{Add, Subtract};
    match head {
        Head::Or(..) => 0,
        Head::And(..) => 1,
        Head::Compare(..) | Head::StartsWith(..) => 2,
        Head::Arithmetic(Add | Subtract, ..) => 3,
        Head::Arithmetic(..) => 4,
        Head::Sign(..) => 5,
        _ => 6,
    }
}

/// Appends a path; `brackets` says whether an operation needs them.
fn write(path: &Path, brackets: bool, out: &mut String) -> Result<()> {
    let has_steps = !path.steps.is_empty();
    // What has steps behind it needs them to stay one.
    let brackets = brackets || has_steps;
    let own = priority_of_head(&path.head);
    let inner = |operand: &Path, out: &mut String| write(operand, priority(operand) <= own, out);
    let open = |out: &mut String| out.push_str(if brackets { "(" } else { "" });
    let close = |out: &mut String| out.push_str(if brackets { ")" } else { "" });
    let between = |symbol: &str, left: &Path, right: &Path, out: &mut String| -> Result<()> {
        open(out);
        inner(left, out)?;
        out.push_str(&format!(" {symbol} "));
        inner(right, out)?;
        close(out);
        Ok(())
    };
    match &path.head {
        Head::Root => out.push('$'),
        Head::Current => out.push('@'),
        Head::Last => out.push_str("last"),
        Head::Null => out.push_str("null"),
        Head::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Head::Number(number) => {
            out.push_str(if has_steps { "(" } else { "" });
            number.write(out);
            out.push_str(if has_steps { ")" } else { "" });
        }
        Head::String(text) => write_quoted(text, out)?,
        Head::Variable(name) => {
            out.push('$');
            write_quoted(name, out)?;
        }
        Head::Arithmetic(op, left, right) => between(op.symbol(), left, right, out)?,
        Head::And(left, right) => between("&&", left, right, out)?,
        Head::Or(left, right) => between("||", left, right, out)?,
        Head::Compare(op, left, right) => between(op.symbol(), left, right, out)?,
        Head::StartsWith(left, right) => between("starts with", left, right, out)?,
        Head::LikeRegex(left, pattern, letters) => {
            open(out);
            inner(left, out)?;
            out.push_str(" like_regex ");
            write_quoted(pattern, out)?;
            if !letters.is_empty() {
                out.push_str(&format!(" flag \"{letters}\""));
            }
            close(out);
        }
        Head::Sign(is_minus, operand) => {
            open(out);
            out.push(if *is_minus { '-' } else { '+' });
            inner(operand, out)?;
            close(out);
        }
        Head::Not(inner) => {
            out.push_str("!(");
            write(inner, false, out)?;
            out.push(')');
        }
        Head::IsUnknown(inner) => {
            out.push_str(if has_steps { "((" } else { "(" });
            write(inner, false, out)?;
            out.push_str(if has_steps { ") is unknown)" } else { ") is unknown" });
        }
        Head::Exists(inner) => {
            out.push_str("exists (");
            write(inner, false, out)?;
            out.push(')');
        }
    }
    path.steps.iter().try_for_each(|step| write_step(step, out))
}

fn write_step(step: &Step, out: &mut String) -> Result<()> {
    match step {
        Step::Key(key) => {
            out.push('.');
            write_quoted(key, out)?;
        }
        Step::AnyKey => out.push_str(".*"),
        Step::AnyElement => out.push_str("[*]"),
        Step::Elements(list) => {
            out.push('[');
            for (at, (from, to)) in list.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(from, false, out)?;
                if let Some(to) = to {
                    out.push_str(" to ");
                    write(to, false, out)?;
                }
            }
            out.push(']');
        }
        Step::AnyDepth(0, LAST_LEVEL) => out.push_str(".**"),
        Step::AnyDepth(from, to) => {
            let level = |level: &u32| if *level == LAST_LEVEL { "last".to_owned() } else { level.to_string() };
            out.push_str(".**{");
            out.push_str(&level(from));
            if from != to {
                out.push_str(" to ");
                out.push_str(&level(to));
            }
            out.push('}');
        }
        Step::Filter(filter) => {
            out.push_str("?(");
            write(filter, false, out)?;
            out.push(')');
        }
        Step::Method(method) => out.push_str(&format!(".{}()", method.name())),
        Step::DateTime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                write_quoted(template, out)?;
            }
            out.push(')');
        }
    }
    Ok(())
}
