//! Letters without accents, as the extension `unaccent` has them.
//!
//! `unaccent.rules` is the extension's list: of each line, the letter and what stands for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

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
    pulse::work(text.len() / 4)?;
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text));
    }
    let Some(first) = text.char_indices().find(|(_, c)| RULES.contains_key(c)).map(|(at, _)| at) else {
        return Ok(Cow::Borrowed(text));
    };
    let mut plain = String::with_capacity(text.len());
    plain.push_str(&text[..first]);
    for c in text[first..].chars() {
        match RULES.get(&c) {
            Some(stands_for) => plain.push_str(stands_for),
            None => plain.push(c),
        }
    }
    pulse::work(text.len() / 2)?;
    Ok(Cow::Owned(plain))
}
