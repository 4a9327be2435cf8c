//! Documents and queries out of text.

use std::collections::HashMap;

use super::configuration::Configuration;
use super::query::{Operator, Query};
use super::query_text::{Style, read_with};
use super::tokens::Tokens;
use super::vector::{LEXEME_BYTES_MAX, POSITIONS_MAX, Position, VectorBuilder};
use crate::error::{Error, Result, SqlState};

/// Lexemes of more bytes than this in all make no document, however they are counted.
const BYTES_MAX: usize = 1 << 24;

/// The words of a document in the making.
#[derive(Debug, Default)]
pub struct Words {
    words: HashMap<String, Vec<Position>>,
    bytes: usize,
    place: usize,
}

/// Each word of a text that counts: its place, from 1 on, and what it is looked for as.
fn each_word(
    configuration: &Configuration,
    text: &str,
    place: &mut usize,
    mut each: impl FnMut(usize, String) -> Result<()>,
) -> Result<()> {
    let mut tokens = Tokens::new(text);
    while let Some(token) = tokens.next_token()? {
        if token.text.len() >= LEXEME_BYTES_MAX {
            continue;
        }
        // Stop words have places.
        if let Some(lexeme) = configuration.lexize(token.kind, token.text)? {
            *place += 1;
            if let Some(lexeme) = lexeme {
                each(*place, lexeme)?;
            }
        }
    }
    Ok(())
}

impl Words {
    /// Adds the words of a text.
    ///
    /// # Errors
    /// 54000 if they are too many.
    pub fn add(&mut self, configuration: &Configuration, text: &str) -> Result<()> {
        let mut place = self.place;
        let result = each_word(configuration, text, &mut place, |place, lexeme| self.put(place, lexeme));
        self.place = place;
        result
    }

    /// Adds the words of a text that is not the continuation of those before it: a place is left out
    /// between them.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_apart(&mut self, configuration: &Configuration, text: &str) -> Result<()> {
        let mut place = self.place;
        let mut count = 0;
        each_word(configuration, text, &mut place, |place, lexeme| {
            count += 1;
            self.put(place, lexeme)
        })?;
        self.place = place + usize::from(count > 0);
        Ok(())
    }

    fn put(&mut self, place: usize, lexeme: String) -> Result<()> {
        let position = Position::new(place, 0);
        if let Some(positions) = self.words.get_mut(&lexeme) {
            if positions.len() < POSITIONS_MAX - 1 && positions.last() != Some(&position) {
                positions.push(position);
            }
            return Ok(());
        }
        self.bytes += lexeme.len();
        if self.bytes > BYTES_MAX {
            let message = format!("string is too long for tsvector ({} bytes, max 1048575 bytes)", self.bytes);
            return Err(Error::new(SqlState("54000"), message));
        }
        self.words.insert(lexeme, vec![position]);
        Ok(())
    }

    /// The document, as the bytes of a `tsvector`.
    ///
    /// # Errors
    /// 54000 if it takes a megabyte.
    pub fn finish(self) -> Result<Box<[u8]>> {
        let mut builder = VectorBuilder::default();
        for (lexeme, positions) in self.words {
            builder.push_at(lexeme, positions);
        }
        builder.finish_with(POSITIONS_MAX - 1)
    }
}

/// A text as a document.
///
/// # Errors
/// As [`Words`].
pub fn document(configuration: &Configuration, text: &str) -> Result<Box<[u8]>> {
    let mut words = Words::default();
    words.add(configuration, text)?;
    words.finish()
}

/// A text as a query, each operand of which is a text: its words are joined by `operator`.
fn query(configuration: &Configuration, text: &str, style: Style, operator: Operator) -> Result<Query> {
    let query = read_with(text, style, &mut |maker, operand, weights, is_prefix| {
        let (mut count, mut before) = (0, 0);
        each_word(configuration, operand, &mut 0, |place, lexeme| {
            // Between two words, those that are not looked for keep their places.
            while before > 0 && before + 1 < place {
                maker.push_stop();
                if count > 0 {
                    maker.join(operator);
                }
                count += 1;
                before += 1;
            }
            before = place;
            maker.push(&lexeme, weights, is_prefix, text)?;
            if count > 0 {
                maker.join(operator);
            }
            count += 1;
            Ok(())
        })?;
        if count == 0 {
            maker.push_stop();
        }
        Ok(())
    })?;
    Ok(query.without_stops())
}

/// `to_tsquery`: operators between texts, whose words have to follow each other.
///
/// # Errors
/// 42601 if it is no query, 54000 if it is too long.
pub fn query_of_text(configuration: &Configuration, text: &str) -> Result<Query> {
    query(configuration, text, Style::Full, Operator::Phrase(1))
}

/// `plainto_tsquery` and `phraseto_tsquery`: all words of a text, anywhere or in its order.
///
/// # Errors
/// 54000 if it is too long.
pub fn plain_query(configuration: &Configuration, text: &str, is_phrase: bool) -> Result<Query> {
    let operator = if is_phrase { Operator::Phrase(1) } else { Operator::And };
    query(configuration, text, Style::Plain, operator)
}

/// `websearch_to_tsquery`: what somebody has typed into a search box.
///
/// # Errors
/// 54000 if it is too long.
pub fn web_query(configuration: &Configuration, text: &str) -> Result<Query> {
    query(configuration, text, Style::Web, Operator::Phrase(1))
}
