//! Letters without accents, as the extension `unaccent` has them.
//!
//! `unaccent.rules` is the extension's list: of each line, the letter and what stands for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::dictionary::in_pieces;
use crate::error::Result;
use crate::letters::trim;
use crate::pulse;

static RULES: LazyLock<HashMap<char, &'static str>> = LazyLock::new(|| {
    let rule = |line: &'static str| {
        let (letter, rest) = line.split_at(line.chars().next()?.len_utf8());
        let plain = trim(rest);
        Some((letter.chars().next()?, plain))
    };
    include_str!("unaccent.rules").lines().filter_map(rule).collect()
});

/// A text without accents; the text itself if it has none.
///
/// # Errors
/// 57014 if the statement was cancelled.
pub fn unaccented(text: &str) -> Result<Cow<'_, str>> {
    // As long as nothing changes, no text is made.
    let mut plain: Option<String> = None;
    let mut done = 0;
    for piece in in_pieces(text) {
        pulse::work(if piece.is_ascii() { piece.len() / 32 } else { piece.len() })?;
        if piece.is_ascii() || !piece.chars().any(|c| RULES.contains_key(&c)) {
            if let Some(plain) = &mut plain {
                plain.push_str(piece);
            }
        } else {
            let plain = plain.get_or_insert_with(|| text[..done].to_owned());
            for c in piece.chars() {
                match RULES.get(&c) {
                    Some(stands_for) => plain.push_str(stands_for),
                    None => plain.push(c),
                }
            }
        }
        done += piece.len();
    }
    Ok(plain.map_or(Cow::Borrowed(text), Cow::Owned))
}
