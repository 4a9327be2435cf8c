//! Tables for people: words to the left, numbers to the right.

use std::io::{self, Write};

/// Prints rows, the first `words` columns of which are words.
pub(crate) fn print<const N: usize>(rows: &[[String; N]], words: usize, out: &mut impl Write) -> io::Result<()> {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = [" ", "  "][usize::from(column >= words)];
            match column {
                0 => write!(out, "{cell:<width$}")?,
                column if column < words => write!(out, "{gap}{cell:<width$}")?,
                _ => write!(out, "{gap}{cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
