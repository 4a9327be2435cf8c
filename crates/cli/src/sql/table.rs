//! Results for people: aligned columns as psql prints them, a row below another or a value below
//! another.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// A heading.
pub(crate) struct Heading {
    pub(crate) name: String,
    /// Numbers end at the same place.
    pub(crate) to_the_right: bool,
}

impl Heading {
    pub(crate) fn left(name: &str) -> Self {
        Self { name: name.to_owned(), to_the_right: false }
    }
}

/// A value as text; NULL is nothing.
pub(crate) type Cell = Option<String>;

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|line| {
        line.chars().fold(String::new(), |mut shown, character| {
            match character {
                '\t' => shown.push_str(&" ".repeat(8 - shown.width() % 8)),
                '\r' => shown.push_str("\\r"),
                // Control characters could change the terminal.
                control if control.is_control() => shown.push_str(&format!("\\x{:02X}", u32::from(control))),
                other => shown.push(other),
            }
            shown
        })
    })
}

fn width(text: &str) -> usize {
    lines(text).map(|line| line.width()).max().unwrap_or(0)
}

fn spaces(count: usize) -> String {
    " ".repeat(count)
}

/// `(1 row)`
pub(crate) fn count_line(count: usize) -> String {
    if count == 1 { "(1 row)".to_owned() } else { format!("({count} rows)") }
}

/// Rows below each other, with their count.
pub(crate) fn print(
    title: Option<&str>,
    headings: &[Heading],
    rows: &[Vec<Cell>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            let cells = rows.iter().filter_map(|row| row.get(column)?.as_deref());
            cells.map(width).chain([width(&heading.name)]).max().unwrap_or(0)
        })
        .collect();
    if let Some(title) = title {
        let total = widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1);
        writeln!(out, "{}{title}", spaces(total.saturating_sub(title.width()) / 2))?;
    }
    if headings.is_empty() {
        writeln!(out, "--")?;
    } else {
        for (column, (heading, width)) in headings.iter().zip(&widths).enumerate() {
            let name: String = lines(&heading.name).collect::<Vec<_>>().join(" ");
            let free = width.saturating_sub(name.width());
            let bar = if column > 0 { "|" } else { "" };
            write!(out, "{bar} {}{name}{} ", spaces(free / 2), spaces(free - free / 2))?;
        }
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        writeln!(out, "\n{}", rule.join("+"))?;
    }
    for row in rows {
        print_row(headings, &widths, row, out)?;
    }
    if title.is_none() {
        writeln!(out, "{}", count_line(rows.len()))?;
    }
    Ok(())
}

/// A row: as many lines as its longest value has.
fn print_row(headings: &[Heading], widths: &[usize], row: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<Vec<String>> = row.iter().map(|cell| lines(cell.as_deref().unwrap_or("")).collect()).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        for (column, cell) in cells.iter().enumerate() {
            let text = cell.get(line).map_or("", String::as_str);
            let goes_on = line + 1 < cell.len();
            let free = widths[column].saturating_sub(text.width());
            let is_last = column + 1 == cells.len();
            let (before, after) = if headings[column].to_the_right { (free, 0) } else { (0, free) };
            let bar = if column > 0 { "|" } else { "" };
            write!(out, "{bar} {}{text}", spaces(before))?;
            match (goes_on, is_last) {
                (true, _) => write!(out, "{}+", spaces(after))?,
                (false, false) => write!(out, "{} ", spaces(after))?,
                (false, true) => {}
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Values below each other.
pub(crate) fn print_expanded(headings: &[Heading], rows: &[Vec<Cell>], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "(0 rows)");
    }
    let names = headings.iter().map(|heading| width(&heading.name)).max().unwrap_or(0);
    let values = rows.iter().flatten().filter_map(|cell| cell.as_deref()).map(width).max().unwrap_or(0);
    for (number, row) in rows.iter().enumerate() {
        let label = format!("-[ RECORD {} ]", number + 1);
        let rule = format!("{}+{}", "-".repeat(names + 1), "-".repeat(values + 1));
        let rest = rule.get(label.len()..).unwrap_or("");
        writeln!(out, "{label}{rest}")?;
        for (heading, cell) in headings.iter().zip(row) {
            let parts: Vec<String> = lines(cell.as_deref().unwrap_or("")).collect();
            for (line, text) in parts.iter().enumerate() {
                let name = if line == 0 { heading.name.as_str() } else { "" };
                let mark = if line + 1 < parts.len() {
                    format!("{}+", spaces(values.saturating_sub(text.width())))
                } else {
                    String::new()
                };
                let shown = format!("{name}{} | {text}{mark}", spaces(names.saturating_sub(name.width())));
                writeln!(out, "{}", shown.trim_end())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(row: &[&str]) -> Vec<Cell> {
        row.iter().map(|cell| (*cell != "NULL").then(|| (*cell).to_owned())).collect()
    }

    fn headings() -> Vec<Heading> {
        vec![Heading { name: "id".to_owned(), to_the_right: true }, Heading::left("name")]
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        let rows = [cells(&["1", "Ada"]), cells(&["200", "two\nlines"]), cells(&["NULL", "日本"])];
        print(None, &headings(), &rows, &mut out).expect("memory");
        let expected = " id  | name  \n-----+-------\n   1 | Ada\n 200 | two  +\n     | lines\n     | 日本\n(3 rows)\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn values_are_below_each_other() {
        let mut out = Vec::new();
        print_expanded(&headings(), &[cells(&["1", "a long name of a bird"])], &mut out).expect("memory");
        let expected = "-[ RECORD 1 ]---------------\nid   | 1\nname | a long name of a bird\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
