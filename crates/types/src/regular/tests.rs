//! What no SQL shows: that work and memory are bounded.

use super::{Flags, Regular, Span};
use crate::error::Result;

fn found(pattern: &str, text: &str) -> Result<Option<Vec<Option<Span>>>> {
    Regular::new(pattern, Flags::default())?.search(text)?.find(0)
}

/// Bug: alternatives were tried in the order in which they stand, so `.|...` matched one character.
/// Consequence: `regexp_match` and `regexp_replace` gave other answers than PostgreSQL. Fix: the
/// longest of the matches that begin first counts, unless the pattern prefers the shortest.
#[test]
fn a_match_is_the_longest_of_those_that_begin_first() -> Result<()> {
    assert_eq!(found(".|...", "xyz")?, Some(vec![Some((0, 3))]));
    assert_eq!(found("(b|bc)", "abc")?, Some(vec![Some((1, 3)), Some((1, 3))]));
    assert_eq!(found("b+?c*", "abbcc")?, Some(vec![Some((1, 2))]));
    Ok(())
}

#[test]
fn nested_repetitions_take_time_linear_in_the_text() -> Result<()> {
    let text = "a".repeat(100_000);
    assert_eq!(found("(a*)*b", &text)?, None);
    assert_eq!(found("(x+x+)+y|(a|aa)+$", &text)?.map(|groups| groups[0]), Some(Some((0, 100_000))));
    assert_eq!(found("a.*b|b", &format!("{text}c{text}"))?, None);
    Ok(())
}

#[test]
fn patterns_that_would_become_too_large_are_refused() {
    for pattern in
        ["((((a{200}){200}){200}){200})", &"(".repeat(5000), &format!("{}{}", "(".repeat(300), ")".repeat(300))]
    {
        assert!(Regular::new(pattern, Flags::default()).is_err());
    }
}

#[test]
fn back_references_run_out_of_steps_and_not_of_time() -> Result<()> {
    let regular = Regular::new(r"^(a*)(a*)(a*)(a*)\1\2\3\4b$", Flags::default())?;
    let text = format!("{}cb", "a".repeat(400));
    // The automaton knows already that nothing matches.
    assert_eq!(regular.search(&text)?.find(0)?, None);
    let text = format!("{}b", "a".repeat(401));
    let mut search = regular.search(&text)?;
    search.fuel = 100_000;
    assert!(search.find(0).is_err_and(|error| error.state() == crate::error::SqlState::PROGRAM_LIMIT));
    Ok(())
}

#[test]
fn the_states_kept_are_thrown_away_when_they_are_too_many() -> Result<()> {
    // Each text of 16 letters is a state of its own.
    let pattern = "(a|b)*a(a|b){16}c";
    let mut text = String::new();
    let mut seed = 1u32;
    for _ in 0..40_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(if seed >> 31 == 0 { 'a' } else { 'b' });
    }
    assert_eq!(found(pattern, &text)?, None);
    text.push_str("abbbbbbbbbbbbbbbbc");
    assert!(found(pattern, &text)?.is_some());
    Ok(())
}
