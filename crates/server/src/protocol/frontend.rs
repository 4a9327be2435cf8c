//! Messages of clients after the startup.

use colibri_sql::wire::Format;
use colibri_sql::{Error, SqlState};

use smallvec::SmallVec;

use super::{Reader, violation};

/// Bytes of a kind and a length.
pub(crate) const HEADER_BYTES: usize = 5;
/// The longest message of those that carry little, in bytes: PostgreSQL's limit.
const SMALL_BYTES_MAX: usize = 10_000;
/// The longest message before the login, in bytes.
pub(crate) const LOGIN_BYTES_MAX: usize = 65_535;

/// The kind and length of a message that has not arrived completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) body_bytes: usize,
}

/// A statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// The format codes of parameters or of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Formats {
    /// One for all.
    All(Format),
    Each(SmallVec<[Format; 16]>),
}

impl Formats {
    /// The format of the value at `index`.
    pub(crate) fn of(&self, index: usize) -> Format {
        match self {
            Self::All(format) => *format,
            Self::Each(formats) => formats.get(index).copied().unwrap_or_default(),
        }
    }

    /// Checks that there is one for each of `count` values; `complain` makes the error from the
    /// number of codes and `count`.
    pub(crate) fn check(&self, count: usize, complain: impl FnOnce(usize, usize) -> String) -> Result<(), Error> {
        match self {
            Self::Each(formats) if formats.len() != count => Err(violation(complain(formats.len(), count))),
            _ => Ok(()),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Codes::read(reader)?.formats()
    }
}

/// Format codes as they came. They are checked when the statement is known.
#[derive(Debug)]
pub(crate) struct Codes(SmallVec<[i16; 16]>);

impl Codes {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let count = reader.count()?;
        let codes = reader.bytes(2 * count)?.as_chunks().0;
        Ok(Self(codes.iter().map(|code| i16::from_be_bytes(*code)).collect()))
    }

    /// The number of codes, if it has to be the number of values.
    pub(crate) fn count(&self) -> Option<usize> {
        (self.0.len() > 1).then_some(self.0.len())
    }

    /// The formats.
    ///
    /// # Errors
    /// 22023 if one of them is none.
    pub(crate) fn formats(&self) -> Result<Formats, Error> {
        Ok(match self.0[..] {
            [] => Formats::All(Format::Text),
            [code] => Formats::All(format_of(code)?),
            ref codes => Formats::Each(codes.iter().map(|&code| format_of(code)).collect::<Result<_, _>>()?),
        })
    }
}

fn format_of(code: i16) -> Result<Format, Error> {
    match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Error::new(SqlState::BAD_PARAMETER, format!("unsupported format code: {other}"))),
    }
}

/// A message, as it lies in the buffer.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        text: &'a str,
        types: Vec<u32>,
    },
    Bind(Bind<'a>),
    Describe(Target<'a>),
    Execute {
        portal: &'a str,
        rows_max: usize,
    },
    Close(Target<'a>),
    Sync,
    Flush,
    Terminate,
    /// A message of a COPY that has ended already.
    StrayCopy,
    FunctionCall,
}

/// Bind, whose parameters are read once the statement is known.
#[derive(Debug)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) formats: Codes,
    pub(crate) count: usize,
    values: Reader<'a>,
}

impl<'a> Bind<'a> {
    /// The next parameter, `None` for NULL. To be called `count` times, before [`Bind::results`].
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Error> {
        match self.values.i32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.values.bytes(length).map(Some),
                Err(_) => Err(violation("invalid message format")),
            },
        }
    }

    /// The formats of the columns, which come last.
    pub(crate) fn results(mut self) -> Result<Formats, Error> {
        let results = Formats::read(&mut self.values)?;
        self.values.end()?;
        Ok(results)
    }
}

/// The kind and length of the next message; `None` if too few bytes have come.
///
/// # Errors
/// 08P01 if it is none, or too long. The stream cannot be understood after that.
pub(crate) fn header(bytes: &[u8], bytes_max: usize) -> Result<Option<Header>, Error> {
    let Some(&[kind, ref length @ ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return match bytes.first() {
            Some(&kind) => limit(kind, bytes_max).map(|_| None),
            None => Ok(None),
        };
    };
    let limit = limit(kind, bytes_max)?;
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) if length >= 4 && length <= limit => Ok(Some(Header { kind, body_bytes: length - 4 })),
        _ => Err(violation("invalid message length")),
    }
}

/// How long a message of a kind may be.
fn limit(kind: u8, bytes_max: usize) -> Result<usize, Error> {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Ok(bytes_max),
        b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'c' | b'f' => Ok(SMALL_BYTES_MAX.min(bytes_max)),
        b'p' => Ok(LOGIN_BYTES_MAX.min(bytes_max)),
        other => Err(violation(format!("invalid frontend message type {other}"))),
    }
}

/// Reads a message.
///
/// # Errors
/// 08P01 if the body is none of its kind; 22021 if text is not UTF-8. The messages behind it can be
/// understood.
pub(crate) fn parse(kind: u8, body: &[u8]) -> Result<Message<'_>, Error> {
    let mut reader = Reader::new(body);
    let message = match kind {
        b'Q' => Message::Query(reader.string()?),
        b'P' => {
            let (name, text, count) = (reader.string()?, reader.string()?, reader.count()?);
            let types = (0..count).map(|_| Ok(reader.i32()? as u32)).collect::<Result<_, Error>>()?;
            Message::Parse { name, text, types }
        }
        b'B' => {
            let (portal, statement) = (reader.string()?, reader.string()?);
            let formats = Codes::read(&mut reader)?;
            let count = reader.count()?;
            return Ok(Message::Bind(Bind { portal, statement, formats, count, values: reader }));
        }
        b'D' => Message::Describe(target(&mut reader, "DESCRIBE")?),
        b'C' => Message::Close(target(&mut reader, "CLOSE")?),
        b'E' => {
            let portal = reader.string()?;
            // Zero means no limit; PostgreSQL accepts negative numbers for that as well.
            let rows_max = usize::try_from(reader.i32()?).ok().filter(|&rows| rows > 0).unwrap_or(usize::MAX);
            Message::Execute { portal, rows_max }
        }
        b'S' => Message::Sync,
        b'H' => Message::Flush,
        b'X' => Message::Terminate,
        b'd' | b'c' | b'f' => return Ok(Message::StrayCopy),
        b'F' => return Ok(Message::FunctionCall),
        other => return Err(violation(format!("invalid frontend message type {other}"))),
    };
    reader.end()?;
    Ok(message)
}

fn target<'a>(reader: &mut Reader<'a>, what: &str) -> Result<Target<'a>, Error> {
    match reader.u8()? {
        b'S' => Ok(Target::Statement(reader.string()?)),
        b'P' => Ok(Target::Portal(reader.string()?)),
        other => Err(violation(format!("invalid {what} message subtype {other}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    #[test]
    fn a_header_names_kind_and_length() {
        assert_eq!(header(b"Q\0\0\0\x09", BYTES_MAX).unwrap(), Some(Header { kind: b'Q', body_bytes: 5 }));
        for short in [&b""[..], b"Q", b"Q\0\0\0"] {
            assert_eq!(header(short, BYTES_MAX).unwrap(), None);
        }
    }

    #[test]
    fn lengths_and_kinds_that_cannot_be_are_refused_at_once() {
        for wrong in [&b"Q\0\0\0\x03"[..], b"Q\xff\xff\xff\xff", b"Q\x7f\xff\xff\xff", b"S\0\0\xff\xff", b"!", b"\0\0"]
        {
            assert_eq!(header(wrong, BYTES_MAX).unwrap_err().state().0, "08P01", "{wrong:?}");
        }
    }

    #[test]
    fn bind_gives_its_parameters_one_by_one() {
        let body = b"p\0s\0\0\x01\0\x01\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0\0\x02\0\0\0\x01";
        let Message::Bind(mut bind) = parse(b'B', body).unwrap() else { panic!("not a bind") };
        assert_eq!((bind.portal, bind.statement, bind.count), ("p", "s", 3));
        assert_eq!(bind.formats.formats().unwrap(), Formats::All(Format::Binary));
        assert_eq!(bind.value().unwrap(), Some(&b"ab"[..]));
        assert_eq!(bind.value().unwrap(), None);
        assert_eq!(bind.value().unwrap(), Some(&b""[..]));
        let results = bind.results().unwrap();
        assert_eq!((results.of(0), results.of(1)), (Format::Text, Format::Binary));
        assert!(results.check(2, |_, _| String::new()).is_ok() && results.check(3, |_, _| String::new()).is_err());
    }

    #[test]
    fn bodies_that_end_early_or_late_are_refused() {
        let whole: [(u8, &[u8]); 8] = [
            (b'Q', b"SELECT 1\0"),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'D', b"Sname\0"),
            (b'C', b"P\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
            (b'H', b""),
            (b'X', b""),
        ];
        for (kind, body) in whole {
            parse(kind, body).unwrap();
            for cut in 0..body.len() {
                assert!(parse(kind, &body[..cut]).is_err(), "{kind} {cut}");
            }
            assert!(parse(kind, &[body, b"\0"].concat()).is_err(), "{kind}");
        }
        assert!(parse(b'Q', b"\xff\0").is_err());
        assert!(parse(b'D', b"X\0").is_err());
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100_000 {
            let body: Vec<u8> =
                (0..random.usize(..40)).map(|_| *random.choice(b"\0\0\0\x01\x02SPab\xff").unwrap()).collect();
            let kind = *random.choice(b"QPBDCESHXdcfF!").unwrap();
            _ = header(&body, BYTES_MAX);
            if let Ok(Message::Bind(mut bind)) = parse(kind, &body) {
                let values = (0..bind.count).try_for_each(|_| bind.value().map(drop));
                _ = values.and_then(|()| bind.results());
            }
        }
    }
}
