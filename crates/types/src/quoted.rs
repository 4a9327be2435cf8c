//! The texts of rows and ranges: items between commas, which may be quoted.
//!
//! Invariant: only bytes of ASCII are looked for and left out, so what is left is UTF-8.

use crate::error::Result;
use crate::letters::is_blank;
use crate::pulse;

/// Reads a text from left to right.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// At the beginning of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Where it is.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes on behind blanks.
    pub(crate) fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Goes behind a byte, if it comes next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Goes behind a word, if it comes next, in letters of either case.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes().get(self.at..self.at + word.len());
        let is_next = found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    /// The text up to one of some bytes that is not quoted, without quotes; `Some(None)` if there
    /// is no text before that, `None` if the whole ends first.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub(crate) fn item(&mut self, stops: &[u8]) -> Result<Option<Option<String>>> {
        if self.peek().is_some_and(|byte| stops.contains(&byte)) {
            return Ok(Some(None));
        }
        let mut out: Vec<u8> = Vec::new();
        let mut quoted = false;
        loop {
            pulse::work(1)?;
            let Some(byte) = self.peek() else { return Ok(None) };
            if !quoted && stops.contains(&byte) {
                break;
            }
            self.at += 1;
            match byte {
                b'\\' => {
                    let Some(next) = self.peek() else { return Ok(None) };
                    out.push(next);
                    self.at += 1;
                }
                b'"' if !quoted => quoted = true,
                b'"' if self.eat(b'"') => out.push(b'"'),
                b'"' => quoted = false,
                byte => out.push(byte),
            }
        }
        Ok(Some(String::from_utf8(out).ok()))
    }

    /// Goes behind the next of some bytes that is not quoted; `None` if the whole ends first.
    pub(crate) fn skip_item(&mut self, stops: &[u8]) -> Option<()> {
        let mut quoted = false;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'\\' => {
                    self.peek()?;
                    self.at += 1;
                }
                b'"' if quoted && self.eat(b'"') => {}
                b'"' => quoted = !quoted,
                byte if !quoted && stops.contains(&byte) => return Some(()),
                _ => {}
            }
        }
    }
}
