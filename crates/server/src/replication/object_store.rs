//! Reading objects: from any server of HTTP, and from stores that speak S3 (`sign`).
//!
//! | address | what is asked for |
//! | --- | --- |
//! | `http://HOST[:PORT]/PATH[?QUERY]`, `https://…` | `PATH/NAME?QUERY`, so a query with a signature of its own is sent along |
//! | `s3://BUCKET[/PREFIX]` | `/BUCKET/PREFIX/NAME` of `$AWS_ENDPOINT_URL`, or of Amazon's in `$AWS_REGION`, signed with `$AWS_ACCESS_KEY_ID` and `$AWS_SECRET_ACCESS_KEY` |
//!
//! A request is one GET on a connection of its own, which blocks the thread. Certificates are those
//! of `$SSL_CERT_FILE`, or of the system.
//!
//! What it does not do: it writes nothing, lists nothing, follows no redirection, and knows no proxy.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::sign::{Keys, Moment, authorization};
use crate::tls;

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the server may send nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// What stands before an object, and what of an error is shown.
const HEAD_BYTES_MAX: u64 = 64 << 10;
const ERROR_BYTES_MAX: u64 = 400;

/// An object store, and a place in it.
pub(crate) struct ObjectStore {
    server: Server,
    /// In front of an object's name; ends without a slash.
    path: String,
    query: String,
    s3: Option<S3>,
    /// Those who may certify the server.
    trusted: Option<PathBuf>,
}

/// Where requests go.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    has_tls: bool,
    /// As in a URL, with the port if it is not the usual one.
    authority: String,
    host: String,
    port: u16,
}

struct S3 {
    region: String,
    /// Without them requests are not signed: the bucket has to be public.
    keys: Option<Keys>,
    /// `s3://BUCKET/PREFIX`
    shown: String,
}

/// How long the rest of an answer is.
enum Body {
    Bytes(u64),
    Chunks,
}

impl ObjectStore {
    /// The store of an address; `None` if it is no address of one.
    pub(crate) fn named(address: &str) -> Option<Result<Self, String>> {
        let is_url = address.starts_with("http://") || address.starts_with("https://");
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let store = match (is_url, address.strip_prefix("s3://")) {
            (true, _) => Self::of_url(address),
            (false, Some(place)) => Self::of_s3(place, &variable),
            (false, None) => return None,
        };
        Some(store.and_then(|store| match store.server.has_tls && store.trusted.is_none() {
            true => Err("no certificates are trusted here: set SSL_CERT_FILE".to_owned()),
            false => Ok(store),
        }))
    }

    fn of_url(url: &str) -> Result<Self, String> {
        let (url, query) = url.split_once('?').unwrap_or((url, ""));
        let (server, path) = Server::of(url)?;
        let path = path.trim_end_matches('/').to_owned();
        let is_sendable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_sendable(&path) || !is_sendable(query) {
            return Err(format!("{url:?} has signs that have to be escaped with %"));
        }
        Ok(Self { server, path, query: query.to_owned(), s3: None, trusted: tls::trusted() })
    }

    fn of_s3(place: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_of_a_name) {
            return Err(format!("{bucket:?} is no name of a bucket: s3://BUCKET/PREFIX"));
        }
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let keys = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Some(Keys { id, secret, token: variable("AWS_SESSION_TOKEN") }),
            (None, None) => None,
            _ => return Err("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY come together".to_owned()),
        };
        let sent = [Some(&region), keys.as_ref().map(|keys| &keys.id), keys.as_ref().and_then(|k| k.token.as_ref())];
        if sent.into_iter().flatten().any(|text| !text.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err("AWS_REGION, AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN has signs that none has".to_owned());
        }
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let (server, above) = Server::of(&endpoint)?;
        let prefix = prefix.trim_end_matches('/');
        let path = match prefix.is_empty() {
            true => format!("/{bucket}"),
            false => format!("/{bucket}/{}", escaped(prefix)),
        };
        let shown = format!("s3://{bucket}{}{prefix}", if prefix.is_empty() { "" } else { "/" });
        let path = format!("{}{path}", above.trim_end_matches('/'));
        let s3 = Some(S3 { region, keys, shown });
        Ok(Self { server, path, query: String::new(), s3, trusted: tls::trusted() })
    }

    /// What people know an object by. Without the query: it may hold a signature.
    pub(crate) fn address_of(&self, name: &str) -> String {
        let scheme = if self.server.has_tls { "https" } else { "http" };
        match &self.s3 {
            Some(s3) => format!("{}/{name}", s3.shown),
            None => format!("{scheme}://{}{}/{name}", self.server.authority, self.path),
        }
    }

    /// Writes an object to a file; gives whether there is one.
    ///
    /// # Errors
    /// If the store cannot be reached, refuses, or breaks off; or of the file.
    pub(crate) fn get(&self, name: &str, to: &mut impl Write) -> io::Result<bool> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.server.authority));
        let mut wire = self.server.connect(self.trusted.as_deref()).map_err(failed)?;
        wire.write_all(self.request(name).as_bytes()).and_then(|()| wire.flush()).map_err(failed)?;
        let mut wire = BufReader::with_capacity(256 << 10, wire);
        let (status, body) = read_head(&mut wire).map_err(failed)?;
        match (status, body) {
            (200, Body::Bytes(length)) => copy(&mut wire, length, to).map_err(failed)?,
            (200, Body::Chunks) => while copy_chunk(&mut wire, to).map_err(failed)? {},
            (404, _) => return Ok(false),
            (status, _) => {
                let mut why = Vec::new();
                // Connections may end without a proper goodbye; what has come is shown.
                _ = wire.take(ERROR_BYTES_MAX).read_to_end(&mut why);
                let why = String::from_utf8_lossy(&why);
                let why: String = why.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
                return Err(failed(io::Error::other(format!("it answers {status}: {}", why.trim_ascii()))));
            }
        }
        to.flush()?;
        Ok(true)
    }

    fn request(&self, name: &str) -> String {
        let path = format!("{}/{name}", self.path);
        let question = if self.query.is_empty() { "" } else { "?" };
        let mut request = format!("GET {path}{question}{} HTTP/1.1\r\nHost: {}\r\n", self.query, self.server.authority);
        if let Some(S3 { region, keys: Some(keys), .. }) = &self.s3 {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            for (name, value) in authorization(keys, region, &self.server.authority, &path, Moment::of(unix)) {
                request.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        request
            .push_str("Accept: */*\r\nAccept-Encoding: identity\r\nUser-Agent: colibri\r\nConnection: close\r\n\r\n");
        request
    }
}

trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

impl Server {
    /// Takes a URL apart into the server and the path.
    fn of(url: &str) -> Result<(Self, &str), String> {
        let bad = || format!("{url:?} is no http://HOST[:PORT]/PATH or https://…");
        let (has_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(bad()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_v6 = authority.starts_with('[');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !is_v6 || host.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (authority, if has_tls { 443 } else { 80 }),
        };
        let inside = match is_v6 {
            true => host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).ok_or_else(bad)?,
            false => host,
        };
        let is_of_a_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte) || is_v6 && byte == b':';
        if inside.is_empty() || !inside.bytes().all(is_of_a_host) {
            return Err(bad());
        }
        let server = Self { has_tls, authority: authority.to_owned(), host: inside.to_owned(), port };
        Ok((server, path))
    }

    fn connect(&self, trusted: Option<&Path>) -> io::Result<Box<dyn Wire>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(SILENCE_MAX))?;
                    stream.set_write_timeout(Some(SILENCE_MAX))?;
                    return match trusted.filter(|_| self.has_tls) {
                        Some(trusted) => Ok(Box::new(tls::connect_to(stream, &self.host, trusted)?)),
                        None => Ok(Box::new(stream)),
                    };
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Escapes all that is not free in a path, as S3 wants it.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read_line(wire: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    wire.take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\n") {
        Some(line) => Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()),
        None => Err(wrong("its answer breaks off, or is none of HTTP")),
    }
}

/// The status of an answer, and how what comes behind the head ends.
fn read_head(wire: &mut impl BufRead) -> io::Result<(u16, Body)> {
    let first = read_line(wire)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| wrong("its answer is none of HTTP"))?;
    let (mut length, mut is_chunked, mut bytes) = (None, false, 0);
    loop {
        let line = read_line(wire)?;
        bytes += line.len() as u64 + 2;
        if line.is_empty() {
            break;
        }
        if bytes > HEAD_BYTES_MAX {
            return Err(wrong("the head of its answer is too long"));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("its answer is none of HTTP"))?;
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().map_err(|_| wrong("it says no valid length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case("chunked");
        }
    }
    match (is_chunked, length) {
        (true, _) => Ok((status, Body::Chunks)),
        (false, Some(length)) => Ok((status, Body::Bytes(length))),
        // Nobody reads what comes with another status to its end.
        (false, None) if status != 200 => Ok((status, Body::Bytes(0))),
        (false, None) => Err(wrong("it does not say how long the object is")),
    }
}

fn copy(wire: &mut impl BufRead, length: u64, to: &mut impl Write) -> io::Result<()> {
    match io::copy(&mut wire.take(length), to)? == length {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the object breaks off")),
    }
}

/// Copies a piece of an object that comes in pieces; gives whether there are more.
fn copy_chunk(wire: &mut impl BufRead, to: &mut impl Write) -> io::Result<bool> {
    let line = read_line(wire)?;
    let digits = line.split(';').next().unwrap_or_default().trim_ascii();
    let length = u64::from_str_radix(digits, 16).map_err(|_| wrong("a piece of the object has no length"))?;
    copy(wire, length, to)?;
    // Behind the last piece may come more fields of the head, which say nothing of the object.
    if length > 0 && !read_line(wire)?.is_empty() {
        return Err(wrong("a piece of the object is longer than it says"));
    }
    Ok(length > 0)
}

#[cfg(test)]
mod tests;
