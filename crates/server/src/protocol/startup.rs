//! The first packet of a client: a request for encryption, for a cancellation, or for a session.

use colibri_sql::{Error, SqlState};

use super::{Reader, violation};
use crate::replication::peer;

/// The longest packet before the login, in bytes: PostgreSQL's limit.
pub(crate) const STARTUP_BYTES_MAX: usize = 10_000;

const CANCEL: i32 = 80_877_102;
const SSL: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const VERSION_3: i32 = 3;

/// A packet before the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Startup<'a> {
    /// Asks for TLS.
    Ssl,
    /// Asks for encryption by GSSAPI.
    Gss,
    /// Asks for the statement of another session to be cancelled.
    Cancel { pid: i32, key: &'a [u8] },
    /// Another node of the cluster asks for something.
    Peer(peer::Request),
    /// Asks for a session.
    Session { minor: u16, parameters: Vec<(&'a str, &'a str)> },
}

/// How long the packet is that these bytes begin with, its length included; `None` if that cannot
/// be told yet.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(first) = bytes.first_chunk::<4>() else { return Ok(None) };
    match usize::try_from(i32::from_be_bytes(*first)) {
        Ok(length @ 8..=STARTUP_BYTES_MAX) => Ok(Some(length)),
        _ => Err(violation("invalid length of startup packet")),
    }
}

/// Reads a whole packet, without its length.
pub(crate) fn parse(packet: &[u8]) -> Result<Startup<'_>, Error> {
    let mut reader = Reader::new(packet);
    match reader.i32()? {
        SSL => reader.end().map(|()| Startup::Ssl),
        GSS => reader.end().map(|()| Startup::Gss),
        peer::CODE => {
            let request = peer::Request::read(reader.rest());
            request.map(Startup::Peer).ok_or_else(|| violation("invalid request of another node"))
        }
        CANCEL => Ok(Startup::Cancel { pid: reader.i32()?, key: reader.rest() }),
        version if version >> 16 == VERSION_3 => {
            let mut parameters = Vec::new();
            loop {
                match reader.string()? {
                    "" => break,
                    name => parameters.push((name, reader.string()?)),
                }
            }
            if reader.end().is_err() {
                return Err(violation("invalid startup packet layout: expected terminator as last byte"));
            }
            Ok(Startup::Session { minor: version as u16, parameters })
        }
        version => {
            let (major, minor) = (version >> 16, version & 0xffff);
            let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0");
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

/// The settings in the parameter `options`, which is written as on a command line: `-c name=value`,
/// `--name=value`.
pub(crate) fn options(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut words = words(text).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next().ok_or_else(|| violation("option requires an argument -- 'c'"))?,
            Some(rest) => rest.to_owned(),
            None => match word.strip_prefix("--") {
                Some(rest) => rest.to_owned(),
                None => return Err(violation(format!("invalid command-line argument for server process: {word}"))),
            },
        };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("-c {setting} requires a value")));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// Words between blanks; a backslash takes the next character as it is.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            blank if blank.is_ascii_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_session_is_asked_for_with_parameters() {
        let mut packet = (3_i32 << 16).to_be_bytes().to_vec();
        packet.extend(b"user\0me\0database\0birds\0\0");
        let parameters = vec![("user", "me"), ("database", "birds")];
        assert_eq!(parse(&packet).unwrap(), Startup::Session { minor: 0, parameters });
        for cut in 0..packet.len() {
            assert!(parse(&packet[..cut]).is_err(), "{cut}");
        }
        packet.push(0);
        assert!(parse(&packet).is_err());
    }

    #[test]
    fn other_packets_are_told_apart() {
        assert_eq!(parse(&SSL.to_be_bytes()).unwrap(), Startup::Ssl);
        assert_eq!(parse(&GSS.to_be_bytes()).unwrap(), Startup::Gss);
        let cancel = [CANCEL.to_be_bytes(), 7i32.to_be_bytes(), 9i32.to_be_bytes()].concat();
        assert_eq!(parse(&cancel).unwrap(), Startup::Cancel { pid: 7, key: &9i32.to_be_bytes() });
        assert_eq!(parse(&(2_i32 << 16).to_be_bytes()).unwrap_err().state().0, "0A000");
    }

    #[test]
    fn no_length_is_believed_that_cannot_be() {
        for wrong in [0, 4, 7, 10_001, i32::MAX, -1, i32::MIN] {
            assert!(length(&wrong.to_be_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(length(&[0, 0]).unwrap(), None);
        assert_eq!(length(&8i32.to_be_bytes()).unwrap(), Some(8));
    }

    #[test]
    fn options_are_words_of_a_command_line() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let settings = options(text).unwrap();
            let settings: Vec<_> = settings.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(settings, expected, "{text}");
        };
        check("", &[]);
        check("-c statement_timeout=5s", &[("statement_timeout", "5s")]);
        check("-cgeqo=off  --lock-timeout=1", &[("geqo", "off"), ("lock_timeout", "1")]);
        check(r"-c search_path=a\ b", &[("search_path", "a b")]);
        assert!(options("-c").is_err());
        assert!(options("-c name").is_err());
        assert!(options("name=value").is_err());
    }
}
