//! The first bytes of both sides. Their form never changes, so that any two versions understand why
//! they cannot talk.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use super::frame::send;

// BETWEEN VERSIONS: never change these bytes.
const MAGIC: [u8; 12] = *b"colibri sql\n";
/// The most bytes of a text in a hello.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The number behind the version grows with every change of messages or of values in them.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// What a process that connects wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// A session of a user.
    Session(String),
    /// To end what a session is running.
    Cancel { number: i32, secret: u64 },
}

/// What it is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Welcome {
    Session {
        number: i32,
        secret: u64,
        owner: u32,
    },
    Done,
    Refused(String),
    /// The owner has another version: this one.
    OtherVersion(String),
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn take<const N: usize>(mut from: impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_text(mut from: impl Read) -> io::Result<String> {
    let length = usize::from(u16::from_le_bytes(take(&mut from)?));
    if length > TEXT_BYTES_MAX {
        return Err(invalid("a text is too long"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| invalid("a text is not UTF-8"))
}

fn begun(version: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_text(version, &mut out);
    out
}

/// The version of the other side.
fn take_version(mut from: impl Read) -> io::Result<String> {
    if take(&mut from)? != MAGIC {
        return Err(invalid("this is not the socket of a database"));
    }
    take_text(from)
}

/// Says what is wanted.
pub(super) fn say(stream: &UnixStream, version: &str, wish: &Wish) -> io::Result<()> {
    let mut out = begun(version);
    match wish {
        Wish::Session(user) => {
            out.push(0);
            put_text(user, &mut out);
        }
        Wish::Cancel { number, secret } => {
            out.push(1);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&secret.to_le_bytes());
        }
    }
    send(stream, &out)
}

/// Reads what is wanted; the other version, if it is one.
pub(super) fn hear(mut stream: &UnixStream) -> io::Result<Result<Wish, String>> {
    let version = take_version(stream)?;
    if version != VERSION {
        return Ok(Err(version));
    }
    match take(&mut stream)? {
        [0u8] => Ok(Ok(Wish::Session(take_text(stream)?))),
        [1] => Ok(Ok(Wish::Cancel {
            number: i32::from_le_bytes(take(&mut stream)?),
            secret: u64::from_le_bytes(take(&mut stream)?),
        })),
        _ => Err(invalid("an unknown wish")),
    }
}

/// Answers a hello. A process of another version reads the version alone.
pub(super) fn answer(stream: &UnixStream, welcome: &Welcome) -> io::Result<()> {
    let mut out = begun(VERSION);
    match welcome {
        Welcome::Session { number, secret, owner } => {
            out.push(0);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&secret.to_le_bytes());
            out.extend_from_slice(&owner.to_le_bytes());
        }
        Welcome::Done => out.push(1),
        Welcome::Refused(text) => {
            out.push(2);
            put_text(text, &mut out);
        }
        Welcome::OtherVersion(_) => out.push(3),
    }
    send(stream, &out)
}

/// Reads the answer to a hello.
pub(super) fn heed(mut stream: &UnixStream) -> io::Result<Welcome> {
    let version = take_version(stream)?;
    if version != VERSION {
        return Ok(Welcome::OtherVersion(version));
    }
    Ok(match take(&mut stream)? {
        [0u8] => Welcome::Session {
            number: i32::from_le_bytes(take(&mut stream)?),
            secret: u64::from_le_bytes(take(&mut stream)?),
            owner: u32::from_le_bytes(take(&mut stream)?),
        },
        [1] => Welcome::Done,
        [2] => Welcome::Refused(take_text(stream)?),
        _ => return Err(invalid("an unknown answer")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let (guest, owner) = UnixStream::pair().unwrap();
        for wish in [Wish::Session("Ada".to_owned()), Wish::Cancel { number: 7, secret: u64::MAX }] {
            say(&guest, VERSION, &wish).unwrap();
            assert_eq!(hear(&owner).unwrap(), Ok(wish));
        }
        for welcome in
            [Welcome::Session { number: 1, secret: 2, owner: 3 }, Welcome::Done, Welcome::Refused("é".repeat(10_000))]
        {
            answer(&owner, &welcome).unwrap();
            let heard = heed(&guest).unwrap();
            match (welcome, heard) {
                (Welcome::Refused(said), Welcome::Refused(heard)) => {
                    assert!(said.starts_with(&heard) && heard.len() > 1000)
                }
                (said, heard) => assert_eq!(said, heard),
            }
        }
    }

    #[test]
    fn another_version_is_told_by_its_name() {
        let (guest, owner) = UnixStream::pair().unwrap();
        say(&guest, "9.9.9/7", &Wish::Session(String::new())).unwrap();
        assert_eq!(hear(&owner).unwrap(), Err("9.9.9/7".to_owned()));
        send(&owner, &begun("9.9.9/7")).unwrap();
        assert_eq!(heed(&guest).unwrap(), Welcome::OtherVersion("9.9.9/7".to_owned()));
        send(&owner, b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        assert_eq!(heed(&guest).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
