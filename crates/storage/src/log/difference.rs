//! How a value differs from the one it replaces, if both have the same length. The log records the
//! difference where it is shorter than the value.
//!
//! ```text
//! 2 length of the values · then for each run of bytes that changed: 2 equal bytes before it · 2 its length · its bytes
//! ```
//! Most of what a transactional load writes are rows of which a counter or a balance changes.
//! Values are compared in words of eight bytes, so runs that lie closer together are joined.

const WORD: usize = size_of::<u64>();
/// Shorter values are recorded whole.
const BYTES_MIN: usize = 4 * WORD;

/// Writes the difference to `out`. Leaves `out` empty if more than half of the words changed, or
/// the lengths differ.
pub(crate) fn between(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if old.len() != new.len() || !(BYTES_MIN..=usize::from(u16::MAX)).contains(&new.len()) {
        return;
    }
    let ((old_words, old_tail), (new_words, new_tail)) = (old.as_chunks::<WORD>(), new.as_chunks::<WORD>());
    let changed = old_words.iter().zip(new_words).filter(|(old, new)| old != new).count();
    if changed > new_words.len() / 2 {
        return;
    }
    out.extend_from_slice(&(new.len() as u16).to_le_bytes());
    let mut behind = 0;
    let mut words = old_words.iter().zip(new_words).map(|(old, new)| old != new).enumerate();
    while let Some((first, _)) = words.find(|&(_, differs)| differs) {
        // The tail belongs to a run that reaches it, and is compared once more as part of it.
        let end = words.find(|&(_, differs)| !differs).map_or(new.len(), |(index, _)| index * WORD);
        push_run(old, new, first * WORD..end, &mut behind, out);
    }
    if behind <= new_words.len() * WORD && old_tail != new_tail {
        push_run(old, new, new_words.len() * WORD..new.len(), &mut behind, out);
    }
    debug_assert!(
        out.len() < new.len(),
        "four bytes stand before a run, and eight are equal for each word that changed"
    );
}

/// Adds a run, without the equal bytes at its ends.
fn push_run(old: &[u8], new: &[u8], run: std::ops::Range<usize>, behind: &mut usize, out: &mut Vec<u8>) {
    let differs = |&at: &usize| old[at] != new[at];
    let (Some(first), Some(last)) = (run.clone().find(differs), run.clone().rfind(differs)) else { return };
    for length in [first - *behind, last + 1 - first] {
        out.extend_from_slice(&(length as u16).to_le_bytes());
    }
    out.extend_from_slice(&new[first..=last]);
    *behind = last + 1;
}

/// The value that replaced `old`; `None` if the difference does not fit such a value.
pub(crate) fn apply(old: &[u8], difference: &[u8]) -> Option<Vec<u8>> {
    let (length, mut rest) = take_u16(difference)?;
    if old.len() != length {
        return None;
    }
    let mut new = old.to_vec();
    let mut at = 0;
    while !rest.is_empty() {
        let (equal, behind) = take_u16(rest)?;
        let (changed, behind) = take_u16(behind)?;
        let (bytes, behind) = behind.split_at_checked(changed)?;
        at += equal;
        new.get_mut(at..at + changed)?.copy_from_slice(bytes);
        at += changed;
        rest = behind;
    }
    Some(new)
}

fn take_u16(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u16::from_le_bytes(*number).into(), rest))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[track_caller]
    fn check(old: &[u8], new: &[u8], expected: &[u8]) {
        let mut difference = vec![7];
        between(old, new, &mut difference);
        assert_eq!(difference, expected);
        if !difference.is_empty() {
            assert_eq!(apply(old, &difference).as_deref(), Some(new));
        }
    }

    #[test]
    fn runs_are_as_short_as_what_changed() {
        let old = [1; 43];
        let mut new = old;
        check(&old, &new, &[43, 0]);
        new[9] = 2;
        check(&old, &new, &[43, 0, 9, 0, 1, 0, 2]);
        // Two words side by side are one run.
        new[17] = 3;
        check(&old, &new, &[43, 0, 9, 0, 9, 0, 2, 1, 1, 1, 1, 1, 1, 1, 3]);
        // So is the last word with the tail.
        let mut new = old;
        (new[38], new[42]) = (4, 5);
        check(&old, &new, &[43, 0, 38, 0, 5, 0, 4, 1, 1, 1, 5]);
        // The tail alone.
        let mut new = old;
        new[41] = 6;
        check(&old, &new, &[43, 0, 41, 0, 1, 0, 6]);
        new[0] = 7;
        check(&old, &new, &[43, 0, 0, 0, 1, 0, 7, 40, 0, 1, 0, 6]);
    }

    #[test]
    fn what_is_no_shorter_is_left_to_the_value() {
        check(&[0; 40], &[1; 40], &[]);
        check(&[0; 40], &[0; 41], &[]);
        check(&[0; BYTES_MIN - 1], &[0; BYTES_MIN - 1], &[]);
        check(&[0; 70_000], &[0; 70_000], &[]);
        // Half of the words changed, and the tail: the most that is a difference.
        let new: Vec<u8> = (0..39).map(|at| u8::from(at / 8 % 2 == 0) * 9).collect();
        let runs = [[0, 0, 8, 0].as_slice(), &[9; 8], &[8, 0, 8, 0], &[9; 8], &[8, 0, 7, 0], &[9; 7]].concat();
        check(&[0; 39], &new, &[[39, 0].as_slice(), &runs].concat());
        let new: Vec<u8> = (0..39).map(|at| u8::from(at / 8 != 1) * 9).collect();
        check(&[0; 39], &new, &[]);
    }

    #[test]
    fn a_difference_from_another_value_is_refused() {
        let mut difference = Vec::new();
        between(&[0; 40], &[[0; 39].as_slice(), &[1]].concat(), &mut difference);
        assert_eq!(apply(&[0; 41], &difference), None);
        for length in 0..difference.len() {
            let cut = &difference[..length];
            assert!(apply(&[0; 40], cut).is_none() || length == 2, "{cut:?}");
        }
        assert_eq!(apply(&[0; 40], &[40, 0, 39, 0, 2, 0, 1, 1]), None, "beyond the end");
        assert_eq!(apply(&[0; 40], &[40, 0, 255, 255, 255, 255]), None);
    }

    #[test]
    fn whatever_changed_comes_back() {
        let mut rng = StdRng::seed_from_u64(14);
        let mut written = 0;
        for _ in 0..20_000 {
            let old: Vec<u8> = (0..rng.random_range(0..200)).map(|_| rng.random_range(0..3)).collect();
            let mut new = old.clone();
            for _ in 0..rng.random_range(0..6) {
                let start = rng.random_range(0..=new.len());
                let end = new.len().min(start + rng.random_range(0..30));
                new[start..end].fill(rng.random());
            }
            let mut difference = Vec::new();
            between(&old, &new, &mut difference);
            if !difference.is_empty() {
                assert!(difference.len() < new.len());
                assert_eq!(apply(&old, &difference), Some(new));
                written += 1;
            }
        }
        assert!(written > 10_000, "{written}");
    }

    #[test]
    fn any_bytes_are_a_difference_or_refused() {
        let mut rng = StdRng::seed_from_u64(15);
        for _ in 0..20_000 {
            let old: Vec<u8> = (0..rng.random_range(0..60)).map(|_| rng.random()).collect();
            let mut bytes = vec![old.len() as u8, 0];
            bytes.extend((0..rng.random_range(0..40)).map(|_| rng.random::<u8>() >> rng.random_range(0..8)));
            assert!(apply(&old, &bytes).is_none_or(|new| new.len() == old.len()));
        }
    }
}
