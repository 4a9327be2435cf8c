//! The trigrams that all texts have which match a pattern.
//!
//! A run of characters that a text has to contain has trigrams of its own: those inside of its
//! words, and, where a word of the run begins or ends in sight, those with the blanks around it.

use super::Query;
use super::trigram::{Trigram, of_word};
use crate::error::Result;
use crate::letters;
use crate::pulse;
use crate::regular::{Flags, Required, required};

/// Trigrams that a query asks for at most: of longer patterns the first ones.
const TRIGRAMS_MAX: usize = 512;

/// What a run of characters in lower case asks for. `begins` and `ends`: nothing but the text's edge,
/// or what is part of no word, is before it and behind it.
fn of_run(run: &str, begins: bool, ends: bool) -> Result<Query> {
    pulse::work(run.len())?;
    let mut trigrams: Vec<Trigram> = Vec::new();
    let mut rest = run;
    while let Some(start) = rest.find(letters::is_alnum) {
        let is_first = rest.len() == run.len() && start == 0;
        let word = &rest[start..];
        let end = word.find(|c| !letters::is_alnum(c));
        let (word, behind) = word.split_at(end.unwrap_or(word.len()));
        of_word(word, begins || !is_first, ends || end.is_some(), &mut trigrams);
        rest = behind;
        if trigrams.len() > TRIGRAMS_MAX {
            trigrams.truncate(TRIGRAMS_MAX);
            break;
        }
    }
    Ok(Query::all_of(trigrams.iter().map(|trigram| Query::token(trigram))))
}

/// `LIKE`
pub(super) fn of_like(pattern: &str) -> Result<Query> {
    let mut all = Vec::new();
    let (mut run, mut begins) = (String::new(), true);
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '%' | '_' => {
                all.push(of_run(&run, begins, false)?);
                (run, begins) = (String::new(), false);
            }
            '\\' => run.extend(characters.next().map(letters::lower)),
            c => run.push(letters::lower(c)),
        }
    }
    all.push(of_run(&run, begins, true)?);
    Ok(Query::all_of(all))
}

/// `~` and `~*`
pub(super) fn of_regular(pattern: &str, ignores_case: bool) -> Result<Query> {
    let flags = Flags { ignore_case: ignores_case, ..Flags::default() };
    of_required(&required(pattern, flags)?)
}

fn of_required(required: &Required) -> Result<Query> {
    Ok(match required {
        Required::Run { text, begins, ends } => of_run(text, *begins, *ends)?,
        Required::All(parts) => Query::all_of(parts.iter().map(of_required).collect::<Result<Vec<_>>>()?),
        Required::OneOf(parts) => Query::any_of(parts.iter().map(of_required).collect::<Result<Vec<_>>>()?),
    })
}
