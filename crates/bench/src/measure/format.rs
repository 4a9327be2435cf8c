//! Numbers, durations and tables as text.

use std::fmt::Write as _;
use std::time::Duration;

/// Columns as wide as their widest cell; the first ones, which are names, to the left, numbers to
/// the right.
pub(crate) fn align(cells: &[Vec<String>], name_columns: usize) -> String {
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        cells.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in cells {
        let mut rendered = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _infallible = match column < name_columns {
                true => write!(rendered, "{cell:<width$}  "),
                false => write!(rendered, "{cell:>width$}  "),
            };
        }
        text.push_str(rendered.trim_end());
        text.push('\n');
    }
    text
}

/// A count with its thousands apart.
pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that matter, as far as whole numbers allow.
pub(crate) fn significant(value: f64) -> String {
    match value {
        v if v >= 1000.0 => whole(v),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// A duration for progress lines.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
