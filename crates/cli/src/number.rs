//! Numbers for people.

/// Digits in groups of three: `1,048,576`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what it counts: `1 table`, `2 tables`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Bytes in the largest unit of which there are ten.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    match units.into_iter().find(|&(unit, _)| bytes >= 10 * unit) {
        Some((unit, name)) => format!("{} {name}", grouped(bytes.div_ceil(unit))),
        None => counted(bytes, "byte", "bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let texts = [0, 999, 1_000, 123_456, 1_048_576].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "123,456", "1,048,576"]);
    }

    #[test]
    fn sizes_have_at_least_two_digits() {
        let texts = [1, 9_999, 12_345, 9_000_001, 12_000_000, 25_000_000_000].map(size);
        assert_eq!(texts, ["1 byte", "9,999 bytes", "13 KB", "9,001 KB", "12 MB", "25 GB"]);
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        assert_eq!(counted(1, "entry", "entries"), "1 entry");
        assert_eq!(counted(0, "entry", "entries"), "0 entries");
    }
}
