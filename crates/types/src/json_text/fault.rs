//! What is wrong with a text that is to be JSON, and where.

use super::lexer::{Lexer, Token};
use super::{Expected, untranslatable};
use crate::error::{Error, SqlState};

/// What is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    EndsEarly,
    Unexpected(Expected),
    BadToken,
    BadEscape,
    BadUnicode,
    Unescaped(u8),
    TwoHighSurrogates,
    LoneLowSurrogate,
    Zero,
}

/// Bytes of the line that a message shows in front of the mistake.
const CONTEXT_BYTES: usize = 50;

impl Lexer<'_> {
    #[cold]
    pub(super) fn error(&self, fault: Fault) -> Error {
        let found = self.text();
        let detail = match fault {
            Fault::EndsEarly => "The input string ended unexpectedly.".to_owned(),
            Fault::Unexpected(expected) => {
                let what = match expected {
                    Expected::End => "end of input",
                    Expected::Value => "JSON value",
                    Expected::String => "string",
                    Expected::ArrayNext => "\",\" or \"]\"",
                    Expected::ObjectFirst => "string or \"}\"",
                    Expected::ObjectNext => "\",\" or \"}\"",
                    Expected::Colon => "\":\"",
                };
                format!("Expected {what}, but found \"{found}\".")
            }
            Fault::BadToken => format!("Token \"{found}\" is invalid."),
            Fault::BadEscape => format!("Escape sequence \"\\{found}\" is invalid."),
            Fault::BadUnicode => "\"\\u\" must be followed by four hexadecimal digits.".to_owned(),
            Fault::Unescaped(byte) => format!("Character with value 0x{byte:02x} must be escaped."),
            Fault::TwoHighSurrogates => "Unicode high surrogate must not follow a high surrogate.".to_owned(),
            Fault::LoneLowSurrogate => "Unicode low surrogate must follow a high surrogate.".to_owned(),
            Fault::Zero => "\\u0000 cannot be converted to text.".to_owned(),
        };
        let error = match fault {
            Fault::Zero => untranslatable(&detail),
            _ => Error::new(SqlState::BAD_TEXT, "invalid input syntax for type json").detail(detail),
        };
        error.context(self.context())
    }

    /// The line, up to the mistake.
    fn context(&self) -> String {
        let end = self.end.max(self.line_start);
        let mut start = self.line_start;
        while end - start >= CONTEXT_BYTES {
            start = self.text.ceil_char_boundary(start + 1);
        }
        if start - self.line_start <= 3 {
            start = self.line_start;
        }
        let before = if start > self.line_start { "..." } else { "" };
        let next = self.text.as_bytes().get(end);
        let goes_on = self.token != Token::End && next.is_some_and(|byte| !matches!(byte, b'\n' | b'\r'));
        let behind = if goes_on { "..." } else { "" };
        let shown = self.text.get(start..end).unwrap_or_default();
        format!("JSON data, line {}: {before}{shown}{behind}", self.line)
    }
}
