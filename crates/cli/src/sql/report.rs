//! Errors and notices of statements, as psql prints them: what, where, and what to do.

use colibri::sql::Error;
use colibri::sql::engine::Notice;
use unicode_width::UnicodeWidthStr;

/// Columns of a line that is shown at most.
const SHOWN_COLUMNS_MAX: usize = 72;

/// The lines of an error. `place` comes before the first: a script and its line.
pub(crate) fn lines_of(error: &Error, statement: &str, place: &str) -> String {
    lines("ERROR", error, statement, place)
}

/// The lines of a notice or a warning.
pub(crate) fn lines_of_notice(notice: &Notice, statement: &str, place: &str) -> String {
    lines(notice.severity.name(), &notice.report, statement, place)
}

fn lines(severity: &str, error: &Error, statement: &str, place: &str) -> String {
    let report = error.report();
    let mut text = format!("{place}{severity}:  {}\n", report.message);
    if let Some(position) = report.position {
        text.push_str(&pointer(statement, position as usize));
    }
    let more = [("DETAIL", &report.detail), ("HINT", &report.hint), ("CONTEXT", &report.context)];
    for (name, value) in more {
        if let Some(value) = value {
            text.push_str(&format!("{name}:  {value}\n"));
        }
    }
    text
}

/// The line of a statement that a position, in characters from 1, is in, and a caret below that.
fn pointer(statement: &str, position: usize) -> String {
    let (mut number, mut before) = (1, position.saturating_sub(1));
    let mut line: Vec<char> = Vec::new();
    for (index, text) in statement.split('\n').enumerate() {
        line = text.trim_end_matches('\r').chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
        number = index + 1;
        let length = text.chars().count();
        if before <= length {
            break;
        }
        before -= length + 1;
    }
    let before = before.min(line.len());
    // Of a long line, what is around the place.
    let (start, cut_before) = match before.checked_sub(SHOWN_COLUMNS_MAX * 2 / 3) {
        Some(start) if line.len() > SHOWN_COLUMNS_MAX && start > 0 => (start, "..."),
        _ => (0, ""),
    };
    let end = line.len().min(start + SHOWN_COLUMNS_MAX);
    let cut_behind = if end < line.len() { "..." } else { "" };
    let shown: String = line[start..end].iter().collect();
    let lead = format!("LINE {number}: {cut_before}");
    let indent = lead.width() + line[start..before].iter().collect::<String>().width();
    format!("{lead}{shown}{cut_behind}\n{}^\n", " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_place() {
        assert_eq!(pointer("SELECT x", 8), "LINE 1: SELECT x\n               ^\n");
        assert_eq!(pointer("SELECT\n\tx;", 9), "LINE 2:  x;\n         ^\n");
        assert_eq!(pointer("SELECT '日本', x", 14), "LINE 1: SELECT '日本', x\n                       ^\n");
        let long = format!("SELECT {}x", "1 + ".repeat(50));
        let shown = pointer(&long, 208);
        assert!(shown.starts_with("LINE 1: ...") && shown.lines().all(|line| line.len() < 90), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0].find('x'), lines[1].find('^'));
        assert_eq!(pointer("", 1), "LINE 1: \n        ^\n");
    }
}
