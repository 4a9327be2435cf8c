//! Labels: keys of entries whose order the program's own function decides.
//!
//! The table cannot compare such keys. So each entry gets a label that sorts as bytes between those
//! of its neighbours, and the key goes into the value:
//! ```text
//! label  →  0         2     2 + n
//!           | n u16 | key | value |
//! ```
//! A label is eight bytes, big-endian, with more behind them where two neighbours have become too
//! close. A key is found by its rank, with a comparison for each step of a binary search.

/// From one label to the next one at either end of a table.
const STEP: u64 = 1 << 24;
const MIDDLE: u64 = 1 << 63;
const HEAD: usize = 8;
/// From this length on the whole table gets new labels.
pub(crate) const BYTES_MAX: usize = 200;

fn head(label: &[u8]) -> u64 {
    let mut bytes = [0; HEAD];
    let len = label.len().min(HEAD);
    bytes[..len].copy_from_slice(&label[..len]);
    u64::from_be_bytes(bytes)
}

/// The label of the entry at `rank`, when all labels are given anew. The table has `entries`
/// entries.
pub(crate) fn spaced(rank: u64, entries: u64) -> [u8; HEAD] {
    // In the middle half of all numbers, so that there is room at both ends.
    let step = (MIDDLE / (entries + 1)).max(1);
    (MIDDLE / 2 + rank * step).to_be_bytes()
}

/// A label between two others. `None` stands for an end of the table.
pub(crate) fn between(low: Option<&[u8]>, high: Option<&[u8]>) -> Vec<u8> {
    let number = match (low, high) {
        (None, None) => Some(MIDDLE),
        (Some(low), None) => head(low).checked_add(STEP),
        (None, Some(high)) => head(high).checked_sub(STEP),
        (Some(low), Some(high)) => {
            let (low, high) = (head(low), head(high));
            (high - low >= 2).then(|| low + (high - low) / 2)
        }
    };
    if let Some(number) = number {
        return number.to_be_bytes().to_vec();
    }
    // Digit by digit, as fractions to the base 256: the first place with room between the two.
    let (low, mut high) = (low.unwrap_or_default(), high);
    let mut label = Vec::with_capacity(low.len() + 2);
    loop {
        let at = label.len();
        let from = low.get(at).copied().map_or(0, u32::from);
        let to = high.map_or(256, |high| high.get(at).copied().map_or(0, u32::from));
        if to > from + 1 {
            label.push((from + (to - from) / 2) as u8);
            return label;
        }
        label.push(from as u8);
        if to > from {
            // Whatever follows is below `high` now.
            high = None;
        }
    }
}

/// The key and the value of an entry. `None` if it is malformed.
pub(crate) fn split(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = stored.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// Appends the beginning of an entry: the key, behind its length.
pub(crate) fn put_key(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn labels_lie_between_their_neighbours() {
        let mut rng = StdRng::seed_from_u64(3);
        for spot in [0.0, 0.5, 1.0, 2.0] {
            let mut labels: Vec<Vec<u8>> = Vec::new();
            for _ in 0..600 {
                let len = labels.len();
                let at = if spot > 1.0 { rng.random_range(0..=len) } else { (len as f64 * spot) as usize };
                let low = at.checked_sub(1).map(|at| labels[at].as_slice());
                let high = labels.get(at).map(Vec::as_slice);
                let label = between(low, high);
                assert!(low.is_none_or(|low| low < label.as_slice()), "{low:?} {label:?}");
                assert!(high.is_none_or(|high| label.as_slice() < high), "{label:?} {high:?}");
                labels.insert(at, label);
            }
        }
        let mut last = None;
        for rank in 0..1000 {
            let label = spaced(rank, 1000);
            assert!(last.is_none_or(|last| last < label));
            last = Some(label);
        }
    }
}
