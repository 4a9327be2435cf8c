//! Answers of queries: rows of texts, and whether two answers are alike.
//!
//! Databases give averages and quotients with different numbers of digits, and some sum in floating
//! point. So numbers are alike if they are nearly equal, and everything else if its text is equal.
//!
//! Not here: the order of rows that a query leaves open. Queries decide it by further columns.

use crate::sql::target::{Answer, Cell};

/// NULL, in the file of answers.
const NULL: &str = "\\N";
const MICROS_A_DAY: i64 = 86_400_000_000;

/// Rows of cells as texts; NULL is `None`.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// The rows of an answer.
pub(crate) fn rows(answer: Answer<'_>) -> Rows {
    let cell = |row, column| match answer.cell(row, column) {
        Cell::Null => None,
        Cell::Int(value) => Some(value.to_string()),
        Cell::Decimal { mantissa, scale } => Some(decimal(mantissa, scale)),
        Cell::Text { .. } => {
            let text = answer.text(row, column).unwrap_or_default();
            Some(String::from_utf8_lossy(text).trim_end_matches(' ').to_owned())
        }
        Cell::Time(micros) => Some(timestamp(micros)),
    };
    (0..answer.rows()).map(|row| (0..answer.width()).map(|column| cell(row, column)).collect()).collect()
}

fn decimal(mantissa: i64, scale: u8) -> String {
    let sign = if mantissa < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", mantissa.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, part) = digits.split_at(digits.len() - usize::from(scale));
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// As PostgreSQL writes it, without parts of a second that are zero.
fn timestamp(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(MICROS_A_DAY), micros.rem_euclid(MICROS_A_DAY));
    let (seconds, part) = (rest / 1_000_000, rest % 1_000_000);
    let (year, month, day) = date(days);
    let part = if part == 0 { String::new() } else { format!(".{part:06}").trim_end_matches('0').to_owned() };
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{part}")
}

/// Year, month and day of a day that is counted from 2000-01-01.
pub(super) fn date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the day that some years have more is their last.
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + later, month, day)
}

/// Why two answers are not alike, if they are not. Numbers may be apart by `tolerance`, or by a
/// thousand-millionth of them.
pub(crate) fn difference(own: &Rows, others: &Rows, tolerance: f64) -> Option<String> {
    if own.len() != others.len() {
        return Some(format!("{} rows, and not {}", own.len(), others.len()));
    }
    for (number, (own, other)) in own.iter().zip(others).enumerate() {
        let is_alike = own.len() == other.len() && own.iter().zip(other).all(|(a, b)| alike(a, b, tolerance));
        if !is_alike {
            return Some(format!("row {}: {}, and not {}", number + 1, line(own), line(other)));
        }
    }
    None
}

fn alike(one: &Option<String>, other: &Option<String>, tolerance: f64) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one == other };
    if one == other {
        return true;
    }
    match (number(one), number(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= (one.abs().max(other.abs()) * 1e-9).max(tolerance),
        // Texts of fixed length have blanks at their ends, and a date may be written as the
        // midnight that it begins with.
        _ => plain(one) == plain(other),
    }
}

fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.');
    is_number.then(|| text.parse().ok())?
}

fn plain(text: &str) -> &str {
    let text = text.trim();
    text.strip_suffix(" 00:00:00").unwrap_or(text)
}

fn line(row: &[Option<String>]) -> String {
    let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or(NULL)).collect();
    cells.join("|").chars().take(160).collect()
}

/// Answers as a file: `-- NAME`, and below it the rows, with a tab between two cells.
pub(crate) fn write<'a>(answers: impl IntoIterator<Item = (&'a str, &'a Rows)>) -> String {
    let mut text = String::new();
    for (name, rows) in answers {
        text.push_str(&format!("-- {name}\n"));
        for row in rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or(NULL)).collect();
            text.push_str(&cells.join("\t"));
            text.push('\n');
        }
    }
    text
}

/// Reads such a file.
pub(crate) fn read(text: &str) -> Vec<(String, Rows)> {
    let mut answers: Vec<(String, Rows)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("-- "), answers.last_mut()) {
            (Some(name), _) => answers.push((name.to_owned(), Vec::new())),
            (None, Some((_, rows))) => {
                rows.push(line.split('\t').map(|cell| (cell != NULL).then(|| cell.to_owned())).collect());
            }
            (None, None) => {}
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(lines: &[&str]) -> Rows {
        lines
            .iter()
            .map(|line| line.split('|').map(|cell| (cell != "NULL").then(|| cell.to_owned())).collect())
            .collect()
    }

    #[test]
    fn numbers_are_alike_if_they_are_nearly_equal_and_texts_if_they_are_equal() {
        let same = |one: &str, other: &str| difference(&rows_of(&[one]), &rows_of(&[other]), 1e-6).is_none();
        assert!(same("0.0500000000000000|FRANCE|1995", "0.05|FRANCE|1995.0"));
        assert!(same("37734107.0000001", "37734107"));
        assert!(same("2013-07-15", "2013-07-15 00:00:00"));
        assert!(!same("25.52", "25.53"));
        assert!(!same("FRANCE", "GERMANY"));
        assert!(!same("NULL", "0"));
        assert!(!same("1|2", "1"));
        assert!(!same("13-701", "13-702"), "a phone number is no number");
        assert!(difference(&rows_of(&["1", "2"]), &rows_of(&["1"]), 1.0).is_some());
        assert!(difference(&rows_of(&["1", "2"]), &rows_of(&["2", "1"]), 0.1).is_some(), "the order counts");
    }

    #[test]
    fn a_file_of_answers_is_read_as_it_was_written() {
        let (one, other) = (rows_of(&["1|a b", "NULL|"]), Rows::new());
        let text = write([("q1", &one), ("q2", &other)]);
        assert_eq!(read(&text), [("q1".to_owned(), one), ("q2".to_owned(), other)]);
    }

    #[test]
    fn cells_are_written_as_postgresql_writes_them() {
        assert_eq!([decimal(-5, 2), decimal(12_345, 2), decimal(7, 0)], ["-0.05", "123.45", "7"]);
        assert_eq!(timestamp(0), "2000-01-01 00:00:00");
        assert_eq!(timestamp(-1_500_000), "1999-12-31 23:59:58.5");
        assert_eq!([date(59), date(60), date(366)], [(2000, 2, 29), (2000, 3, 1), (2001, 1, 1)]);
    }
}
