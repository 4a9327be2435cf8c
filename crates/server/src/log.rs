//! The server's log: one line an event, on standard error.
//!
//! ```text
//! 2026-05-04T12:00:00.123Z info ready listen=127.0.0.1:5432 databases=1
//! {"time":"2026-05-04T12:00:00.123Z","level":"info","event":"ready","listen":"127.0.0.1:5432","databases":"1"}
//! ```
//!
//! A line is written with one call, so that lines of several threads do not mix. Passwords and
//! verifiers never get here.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::str::FromStr;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Words and `key=value`.
    #[default]
    Text,
    /// An object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?} is no format of the log: text or json")),
        }
    }
}

/// The level of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// The log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
}

impl Log {
    pub(crate) fn info(self, event: &str, fields: &[(&str, &dyn Display)]) {
        self.write(Level::Info, event, fields);
    }

    pub(crate) fn warn(self, event: &str, fields: &[(&str, &dyn Display)]) {
        self.write(Level::Warn, event, fields);
    }

    pub(crate) fn error(self, event: &str, fields: &[(&str, &dyn Display)]) {
        self.write(Level::Error, event, fields);
    }

    fn write(self, level: Level, event: &str, fields: &[(&str, &dyn Display)]) {
        let time = jiff::Timestamp::now();
        let line = line(self.format, &format!("{time:.3}"), level, event, fields);
        // Standard error is closed: there is nowhere to report that.
        _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn line(format: LogFormat, time: &str, level: Level, event: &str, fields: &[(&str, &dyn Display)]) -> String {
    let mut line = String::with_capacity(128);
    match format {
        LogFormat::Text => {
            _ = write!(line, "{time} {} {event}", level.name());
            for (name, value) in fields {
                let value = value.to_string();
                let is_word = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"' || c == '=');
                _ = if is_word { write!(line, " {name}={value}") } else { write!(line, " {name}={value:?}") };
            }
        }
        LogFormat::Json => {
            let mut object = serde_json::Map::new();
            for (name, value) in [("time", time), ("level", level.name()), ("event", event)] {
                object.insert(name.to_owned(), value.into());
            }
            for (name, value) in fields {
                object.insert((*name).to_owned(), value.to_string().into());
            }
            line = serde_json::Value::Object(object).to_string();
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_blanks_are_quoted() {
        let text = line(LogFormat::Text, "T", Level::Warn, "slow", &[("ms", &12), ("query", &"SELECT\n\"a\"")]);
        assert_eq!(text, "T warn slow ms=12 query=\"SELECT\\n\\\"a\\\"\"\n");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let text = line(LogFormat::Json, "T", Level::Info, "ready", &[("listen", &"a\nb")]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["event"], "ready");
        assert_eq!(value["listen"], "a\nb");
        assert_eq!(text.matches('\n').count(), 1);
    }
}
