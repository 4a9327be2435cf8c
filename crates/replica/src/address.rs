//! Where a cluster is: `etcd://[user:password@]h1:2379,h2:2379,h3:2379/NAME`.
//!
//! With `etcds://` the connections use TLS. Then `?ca=FILE` names the certificates that are
//! trusted, and `&cert=FILE&key=FILE` the client's own, where etcd asks for one. `quota=BYTES`
//! (also `8GiB`, `500MiB`) is the quota that etcd was started with: versions before 3.6 do not tell
//! it. User, password, name and files may have bytes written as `%` and two hexadecimal digits.

use std::fmt;
use std::path::PathBuf;

use crate::quota::QUOTA_BYTES_DEFAULT;

/// The port that etcd serves clients on.
const PORT_DEFAULT: u16 = 2379;

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Files of TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of who may have signed the server's.
    pub ca: PathBuf,
    /// The client's certificate with its chain, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Hosts with ports; one at least.
    pub endpoints: Vec<String>,
    /// The cluster's name: several clusters may use one etcd.
    pub name: String,
    /// The user, if etcd asks for one.
    pub credentials: Option<Credentials>,
    /// Files of TLS, if connections use it.
    pub tls: Option<Tls>,
    /// The quota of etcd's database in bytes, for versions that do not tell it.
    pub quota_bytes: u64,
}

/// What is wrong with an address. No message contains the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins with something else.
    #[error("a cluster's address begins with etcd:// or etcds://")]
    Scheme,
    /// A host is missing.
    #[error("the address has no host, or a comma too many: etcd://h1:2379,h2:2379/NAME")]
    Host,
    /// A port is no number.
    #[error("{0:?} has no valid port")]
    Port(String),
    /// The cluster's name is missing.
    #[error("the address has no name of the cluster: put /NAME behind the hosts")]
    Name,
    /// There is something behind the name.
    #[error("a cluster's name has no slash: write it as %2F")]
    NameWithSlash,
    /// A user without a password.
    #[error("user and password are written user:password@")]
    Password,
    /// A per cent sign without two hexadecimal digits.
    #[error("a per cent sign has to be followed by two hexadecimal digits, and the text has to be UTF-8")]
    Escape,
    /// An option that does not exist.
    #[error("{0:?} is no option: ca, cert, key and quota are")]
    Option(String),
    /// A quota that is no number of bytes.
    #[error("{0:?} is no number of bytes, such as 2147483648, 500MiB or 8GiB")]
    Quota(String),
    /// TLS without its files, or the files without TLS.
    #[error("etcds:// needs ?ca=FILE; cert=FILE and key=FILE come together; etcd:// has none of them")]
    Tls,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (uses_tls, rest) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(AddressError::Scheme),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = rest.split_once('/').ok_or(AddressError::Name)?;
        let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        if name.contains('/') {
            return Err(AddressError::NameWithSlash);
        }
        let name = unescape(name)?;
        if name.is_empty() {
            return Err(AddressError::Name);
        }
        let credentials = user.map(|user| {
            let (user, password) = user.split_once(':').ok_or(AddressError::Password)?;
            Ok(Credentials { user: unescape(user)?, password: unescape(password)? })
        });
        let endpoints = hosts.split(',').map(endpoint).collect::<Result<_, _>>()?;
        let Options { ca, cert, key, quota_bytes } = Options::parse(options)?;
        let tls = match (uses_tls, ca, cert, key) {
            (false, None, None, None) => None,
            (true, Some(ca), None, None) => Some(Tls { ca, client: None }),
            (true, Some(ca), Some(cert), Some(key)) => Some(Tls { ca, client: Some((cert, key)) }),
            _ => return Err(AddressError::Tls),
        };
        let quota_bytes = quota_bytes.unwrap_or(QUOTA_BYTES_DEFAULT);
        Ok(Self { endpoints, name, credentials: credentials.transpose()?, tls, quota_bytes })
    }
}

#[derive(Default)]
struct Options {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    quota_bytes: Option<u64>,
}

impl Options {
    fn parse(text: &str) -> Result<Self, AddressError> {
        let mut options = Self::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| AddressError::Option(option.to_owned()))?;
            let value = unescape(value)?;
            match name {
                "ca" => options.ca = Some(value.into()),
                "cert" => options.cert = Some(value.into()),
                "key" => options.key = Some(value.into()),
                "quota" => options.quota_bytes = Some(bytes(&value).ok_or(AddressError::Quota(value))?),
                _ => return Err(AddressError::Option(name.to_owned())),
            }
        }
        Ok(options)
    }
}

/// A host with its port; `[::1]:2379` for IPv6.
fn endpoint(text: &str) -> Result<String, AddressError> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    if host.is_empty() {
        return Err(AddressError::Host);
    }
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    if host.contains(|sign: char| sign.is_whitespace()) || (host.contains([':', '[', ']']) && !is_ipv6) {
        return Err(AddressError::Port(text.to_owned()));
    }
    let port = match port {
        None => PORT_DEFAULT,
        Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or_else(|| AddressError::Port(text.to_owned()))?,
    };
    Ok(format!("{host}:{port}"))
}

fn bytes(text: &str) -> Option<u64> {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];
    let (number, unit) = units.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)))?;
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

fn unescape(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(AddressError::Escape)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| AddressError::Escape)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_all_their_parts() {
        let plain = Address::parse("etcd://h1,10.0.0.2:1234,[::1]:99/prod").unwrap();
        assert_eq!(plain.endpoints, ["h1:2379", "10.0.0.2:1234", "[::1]:99"]);
        assert_eq!((plain.name.as_str(), plain.credentials, plain.tls), ("prod", None, None));
        assert_eq!(plain.quota_bytes, QUOTA_BYTES_DEFAULT);
        let full = "etcds://us%40er:p%3Aw@h1:1,h2:2/a%2Fb?ca=/c.pem&cert=/a%20b.pem&key=/k.pem&quota=8GiB";
        let full = Address::parse(full).unwrap();
        assert_eq!(full.credentials, Some(Credentials { user: "us@er".to_owned(), password: "p:w".to_owned() }));
        assert_eq!((full.name.as_str(), full.quota_bytes), ("a/b", 8 << 30));
        let client = Some(("/a b.pem".into(), "/k.pem".into()));
        assert_eq!(full.tls, Some(Tls { ca: "/c.pem".into(), client }));
    }

    #[test]
    fn mistakes_are_told_and_the_password_is_not() {
        for (text, error) in [
            ("http://h/n", AddressError::Scheme),
            ("etcd://h", AddressError::Name),
            ("etcd://h/", AddressError::Name),
            ("etcd://h/a/b", AddressError::NameWithSlash),
            ("etcd:///n", AddressError::Host),
            ("etcd://h,,g/n", AddressError::Host),
            ("etcd://h:x/n", AddressError::Port("h:x".to_owned())),
            ("etcd://h:0/n", AddressError::Port("h:0".to_owned())),
            ("etcd://::1/n", AddressError::Port("::1".to_owned())),
            ("etcd://user@h/n", AddressError::Password),
            ("etcd://h/%2", AddressError::Escape),
            ("etcd://h/%ff", AddressError::Escape),
            ("etcd://h/n?tls=1", AddressError::Option("tls".to_owned())),
            ("etcd://h/n?quota=much", AddressError::Quota("much".to_owned())),
            ("etcd://h/n?quota=0", AddressError::Quota("0".to_owned())),
            ("etcds://h/n", AddressError::Tls),
            ("etcd://h/n?ca=f", AddressError::Tls),
            ("etcds://h/n?ca=f&cert=f", AddressError::Tls),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text}");
        }
        let address = Address::parse("etcd://me:secret@h/n").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
