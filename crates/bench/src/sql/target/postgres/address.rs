//! `postgres://USER:PASSWORD@HOST:PORT/DATABASE?host=DIR`: the address of a server, and the user
//! and database there.
//!
//! A host that begins with `/`, here or behind `?host=`, is a directory with a Unix socket. What is
//! left out is taken from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD` and `PGDATABASE`, as other
//! clients do.

use std::fmt;
use std::path::PathBuf;

const PORT: u16 = 5432;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: String,
}

/// Decodes `%20` and the like.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or_else(|| format!("{text:?}: a % without two digits behind it"))?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not UTF-8"))
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let env = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        Self::parse_with(url, env)
    }

    fn parse_with(url: &str, env: impl Fn(&str, &str) -> String) -> Result<Self, String> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| {
            format!("{url:?} does not begin with postgres://, by whose protocol servers are measured")
        })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (place, ""),
        };
        let or = |text: &str, name: &str, default: &str| match text {
            "" => Ok(env(name, default)),
            text => decoded(text),
        };
        let mut host = or(host.trim_matches(['[', ']']), "PGHOST", "localhost")?;
        let mut port = or(port, "PGPORT", &PORT.to_string())?;
        let mut user = or(user, "PGUSER", "postgres")?;
        let mut password = or(password, "PGPASSWORD", "")?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match name {
                "host" => host = value,
                "port" => port = value,
                "user" => user = value,
                "password" => password = value,
                "sslmode" if matches!(value.as_str(), "disable" | "allow" | "prefer") => {}
                "application_name" | "connect_timeout" => {}
                _ => return Err(format!("{name}={value} is not supported")),
            }
        }
        let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
        let database = or(database, "PGDATABASE", &user)?;
        Ok(Self { user, password, host, port, database })
    }

    /// The Unix socket, if it is one.
    pub(super) fn socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| PathBuf::from(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, host, port, database, .. } = self;
        match host.starts_with('/') {
            true => write!(f, "postgres://{user}@:{port}/{database}?host={host}"),
            false => write!(f, "postgres://{user}@{host}:{port}/{database}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, String> {
        Address::parse_with(url, |_, default| default.to_owned())
    }

    #[test]
    fn all_parts_and_none_are_understood() {
        let full = parse("postgres://me:p%40ss@db.example:6000/shop").unwrap();
        assert_eq!((full.user.as_str(), full.password.as_str(), full.host.as_str()), ("me", "p@ss", "db.example"));
        assert_eq!((full.port, full.database.as_str()), (6000, "shop"));
        let bare = parse("postgresql://").unwrap();
        assert_eq!((bare.user.as_str(), bare.host.as_str(), bare.port), ("postgres", "localhost", 5432));
        assert_eq!(bare.database, "postgres");
        assert_eq!(parse("postgres://[::1]:7/x").unwrap().host, "::1");
        assert_eq!(parse("postgres://[::1]/x").unwrap().port, 5432);
        assert_eq!(
            Address::parse_with("postgres:///x", |name, _| name.to_owned()).unwrap_err(),
            "\"PGPORT\" is no port"
        );
    }

    #[test]
    fn a_directory_is_a_unix_socket() {
        let address = parse("postgres://me@/shop?host=/run/pg&port=7").unwrap();
        assert_eq!(address.socket(), Some(PathBuf::from("/run/pg/.s.PGSQL.7")));
        assert_eq!(address.to_string(), "postgres://me@:7/shop?host=/run/pg");
        assert_eq!(parse("postgres://me@localhost/shop").unwrap().socket(), None);
    }

    #[test]
    fn passwords_are_not_shown_and_nonsense_is_refused() {
        assert!(!parse("postgres://me:secret@h/x").unwrap().to_string().contains("secret"));
        for url in ["mysql://x", "postgres://h:99999/x", "postgres://h/x?sslmode=require", "postgres://h/%4"] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
