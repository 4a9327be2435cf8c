//! `colibri serve`: a server for PostgreSQL's clients.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use colibri_runtime::Cpus;
use colibri_server::{Auth, ClusterOptions, LogFormat, Options};

use crate::database::{is_database, is_of_a_server};
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;

/// Serve databases to PostgreSQL's clients
///
/// The directory holds all databases of the server, each in databases/NAME. A directory that is not
/// there is made, with the database `postgres` and two superusers: `postgres`, and the system user
/// who runs the command; given a key, it and all its databases are encrypted. The server does nothing while no client asks for anything. SIGTERM ends it
/// when transactions are over, SIGINT ends it at once, and SIGHUP has it read certificates again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  colibri serve nest\n  psql -h 127.0.0.1 -U postgres\n\n  \
                        colibri serve nest --listen 127.0.0.1:5433 --socket /tmp --metrics 127.0.0.1:9187\n  \
                        colibri serve nest --listen 0.0.0.0:5432 --auth scram-sha-256 --password-file secret \\\n    \
                        --tls-cert server.crt --tls-key server.key\n  \
                        colibri serve nest --tiny --idle-exit 5m\n  \
                        colibri serve nest --cluster etcd://h1:2379,h2:2379,h3:2379/birds --listen 10.0.0.1:5432")]
pub(crate) struct ServeArgs {
    /// Directory of the server
    #[arg(default_value = "colibri-data")]
    dir: PathBuf,
    /// Where to listen, HOST:PORT; may be given more than once; `none` for nowhere
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5432")]
    listen: Vec<String>,
    /// Directory to make a Unix socket in
    #[arg(long, value_name = "DIR")]
    socket: Option<PathBuf>,
    /// Sessions at the same time, at most
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Transactions that may be prepared at the same time (PREPARE TRANSACTION), in each database;
    /// none in a cluster
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=262_143))]
    max_prepared_transactions: u32,
    /// CPUs to use, such as 2 or 0.5 [default: all that this process may use]
    #[arg(long, value_name = "CPUS")]
    cpus: Option<Cpus>,
    /// One thread, and 4 MB for what a statement sorts and hashes
    #[arg(long)]
    tiny: bool,
    /// Isolation of transactions that ask for none, unless their database, their role or their
    /// client says otherwise [default: serializable]
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(["serializable", "repeatable-read", "read-committed"]))]
    isolation: Option<String>,
    /// End when nobody has been connected for so long, such as 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_exit: Option<Duration>,
    /// Where to serve metrics and a dashboard, by HTTP
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Certificate of the server, with those of its issuers behind it (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients that do not ask for TLS, but for those of Unix sockets and of loopback
    /// addresses (127.0.0.1, ::1)
    #[arg(long, requires = "tls_cert")]
    tls_only: bool,
    /// How clients log in [default: trust, if nobody can connect from elsewhere]
    #[arg(long, value_name = "HOW", value_parser = one_of::<Auth>(&["trust", "scram-sha-256"]))]
    auth: Option<Auth>,
    /// File whose first line becomes the password of the superuser postgres, if that has none
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How lines of the log look
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = one_of::<LogFormat>(&["text", "json"]))]
    log_format: LogFormat,
    /// Log statements that take longer, such as 250ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    log_slow: Option<Duration>,
    /// How long transactions may go on after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    grace: Duration,
    /// How long a database stays open after the last session
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    database_keep: Duration,
    /// Make a database that a client asks for and that is not there after the model of this one, as a
    /// branch of it, and drop it when its last connection ends: for tests
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "cluster")]
    ephemeral: Option<String>,
    /// Keep what databases were for so long, such as 1h, so that CREATE DATABASE … TEMPLATE … AS OF …
    /// can go back [default: nothing is kept]
    #[arg(long, value_name = "TIME", value_parser = retention, conflicts_with = "cluster")]
    retention: Option<Duration>,
    /// The bytes that this may take in each file, such as 10GB: the oldest states go before their time
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "retention")]
    retention_size: Option<u64>,
    /// Be a node of the cluster of this name in this etcd: its servers have copies of all databases
    #[arg(long, value_name = "etcd://HOST:PORT,…/NAME")]
    cluster: Option<String>,
    /// Name of the node [default: that of the last start, or of the machine]
    #[arg(long, value_name = "ID", requires = "cluster")]
    node: Option<String>,
    /// Where clients and other nodes reach this server, HOST:PORT [default: where it listens]
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    advertise: Option<String>,
    /// Directory with copies of databases to begin with, each in one named after its number; or the
    /// address of an object store: s3://BUCKET/PREFIX, https://HOST/PATH
    #[arg(long, value_name = "DIR|URL", requires = "cluster")]
    base: Option<PathBuf>,
    /// Have sessions that write on a standby go on at the leader of their database, unless they set
    /// colibri.forward to off
    #[arg(long, requires = "cluster")]
    forward_writes: bool,
    /// How long others wait for this node when it is silent, before they lead its databases
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = lease, requires = "cluster")]
    lease: Duration,
    #[command(flatten)]
    key: KeyArgs,
}

/// A choice of the server's, whose names help and completions have, too.
fn one_of<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// A time for which something is kept.
fn retention(text: &str) -> std::result::Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it keeps nothing: leave the option out, or give a time".to_owned()),
        time => Ok(time),
    }
}

/// A number with a unit.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let bad = || format!("{text:?} is no time: give a number with a unit (ms, s, m, h, d), such as 5m");
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(bad)
}

/// A number of bytes with a unit.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let bad = || format!("{text:?} is no size: give a number with a unit (B, kB, MB, GB, TB), such as 10GB");
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let unit = match &text[digits..] {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).ok_or_else(bad)
}

/// How long a lease lives. A shorter one ends with each pause of the network or of etcd; with a longer
/// one nobody would follow a dead leader.
fn lease(text: &str) -> std::result::Result<Duration, String> {
    let lives = duration(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(600)).contains(&lives) {
        true => Ok(lives),
        false => Err("a lease lives from 1s to 10m".to_owned()),
    }
}

/// A directory that a server can have: its own, an empty one, or none yet.
fn ensure_for_a_server(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::NotADirectory { path: dir.to_owned() });
    }
    match is_database(dir) && !is_of_a_server(dir) {
        true => Err(Failure::OneDatabase { dir: dir.to_owned() }),
        false => Ok(()),
    }
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    ensure_for_a_server(&args.dir)?;
    let encryption_key = args.key.read()?;
    let mut options = Options::new(args.dir);
    options.encryption_key = encryption_key;
    options.listen = args.listen.into_iter().filter(|address| address != "none").collect();
    // Or systemd does it, and hands its sockets on.
    let is_activated = std::env::var_os("LISTEN_FDS").is_some();
    if options.listen.is_empty() && args.socket.is_none() && !is_activated {
        return Err(Failure::ListensNowhere);
    }
    options.socket_dir = args.socket;
    options.connections_max = args.max_connections as usize;
    options.prepared_max = args.max_prepared_transactions as usize;
    options.cpus = args.cpus;
    options.tiny = args.tiny;
    options.isolation = args.isolation.map(|level| match level.as_str() {
        "read-committed" => "read committed",
        "repeatable-read" => "repeatable read",
        _ => "serializable",
    });
    options.idle_exit = args.idle_exit;
    options.metrics = args.metrics;
    options.tls = args.tls_cert.zip(args.tls_key);
    options.tls_only = args.tls_only;
    options.auth = args.auth;
    options.password_file = args.password_file;
    options.log_format = args.log_format;
    options.slow_statement = args.log_slow;
    options.grace = args.grace;
    options.database_keep = args.database_keep;
    options.ephemeral = args.ephemeral;
    options.retention = args.retention.map(|age| (age, args.retention_size));
    let (node, advertise, base, lease) = (args.node, args.advertise, args.base, args.lease);
    options.cluster = args.cluster.map(|address| ClusterOptions { address, node, advertise, base, lease });
    options.forward_writes = args.forward_writes;
    options.give_memory_back = crate::allocator::give_memory_back;
    Ok(colibri_server::serve(options)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(duration("5m").unwrap(), Duration::from_secs(300));
        for wrong in ["", "5", "m", "-5m", "5y", "1.5h", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("64kB").unwrap(), 64 << 10);
        assert_eq!(bytes("10GB").unwrap(), 10 << 30);
        for wrong in ["", "5", "MB", "-5MB", "5mb", "1.5GB", "99999999999TB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_lease_is_neither_a_moment_nor_a_day() {
        for lives in ["1s", "4s", "10m", "1500ms"] {
            assert_eq!(lease(lives), duration(lives));
        }
        for wrong in ["0s", "999ms", "11m", "1d", "4"] {
            assert!(lease(wrong).is_err(), "{wrong}");
        }
    }
}
