//! A server from its start to its end.
//!
//! ```text
//! claim ─ sockets ─ directory ─ ready ─► accept … ─► asked to end ─► 1 no new clients  2 sessions end  3 databases close
//! ```
//!
//! | asked by | sessions end |
//! | --- | --- |
//! | SIGTERM, or no connection for `idle_exit` | when their transaction is over; after `grace` at once |
//! | SIGINT | at once: their transactions are rolled back |
//!
//! SIGHUP makes the server read its certificates again.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use colibri_runtime::net::UnixStream;
use colibri_runtime::{Builder, Cpus, JoinHandle, Pool, spawn, spawn_blocking, timeout};
use parking_lot::RwLock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::auth::Auth;
use crate::clock::Clock;
use crate::cluster::{Claim, Directory, Join, Unused};
use crate::connection;
use crate::counts::Counts;
use crate::error::ServeError;
use crate::listen::{self, Listener, Sockets};
use crate::log::Log;
use crate::machine;
use crate::options::Options;
use crate::registry::{Registry, Stop, Why};
use crate::shared::Shared;
use crate::tls::Certificate;

/// How long sessions may take that have to end at once.
const FAST_MAX: Duration = Duration::from_secs(5);
/// Connections beyond the limit that are accepted: for cancellations, and for the error that there
/// are too many.
const UNHEARD: usize = 100;
/// Descriptors of a connection, and of everything else.
const DESCRIPTORS_BESIDE: u64 = 256;

/// How the server is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Ending {
    No = 0,
    Graceful = 1,
    Fast = 2,
}

/// Runs a server until a signal or its idleness ends it.
///
/// This thread becomes one of the server's.
///
/// # Errors
/// If it cannot start. What goes wrong later is logged.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let log = Log { format: options.log_format };
    let cpus = if options.tiny { Cpus::new(1.0) } else { options.cpus };
    let mut builder = Builder::new().name("colibri").on_panic(move |report| {
        let pool = report.pool.map_or("blocking", Pool::name);
        log.error("panic", &[("pool", &pool), ("message", &report.message)]);
    });
    if let Some(cpus) = cpus {
        builder = builder.cpus(cpus);
    }
    if options.tiny {
        builder = builder.blocking(2, Duration::from_millis(100));
    }
    builder.run(Pool::System, run(options, log)).map_err(ServeError::system("cannot start threads"))?
}

async fn run(options: Options, log: Log) -> Result<(), ServeError> {
    machine::allow_descriptors(options.connections_max as u64 + DESCRIPTORS_BESIDE);
    let claim = Claim::new(&options.dir)?;
    let sockets = Sockets::open(&options)?;
    let server = Server::open(options, claim, log, sockets.clients.iter().find(|socket| socket.port().is_some()))?;
    server.show_sockets(&sockets);
    server.hear_signals()?;
    server.say_ready(&sockets);
    let listeners: Vec<Arc<Listener>> = sockets.clients.into_iter().map(Arc::new).collect();
    let mut accepting = server.accept(&listeners);
    server.serve_metrics(sockets.metrics);
    machine::notify("READY=1");
    let ending = loop {
        let told = server.until_told().await;
        for accepts in accepting {
            accepts.stop().await;
        }
        match told {
            Told::Signal(ending) => break ending,
            // Clients that connect from here on belong to the next server. A client that came in
            // the last moment still belongs to this one.
            Told::Idle { limit, connected } if server.is_alone_since(connected) => {
                server.shared.log.info("idle", &[("for_s", &limit.as_secs())]);
                break Ending::Graceful;
            }
            Told::Idle { .. } => accepting = server.accept(&listeners),
        }
    };
    machine::notify("STOPPING=1");
    drop(listeners);
    server.end(ending).await;
    Ok(())
}

/// Why the server ends.
enum Told {
    Signal(Ending),
    /// There was no connection for a while; holds the count of connections at its begin.
    Idle {
        limit: Duration,
        connected: u64,
    },
}

struct Server {
    shared: Arc<Shared>,
    ending: Arc<AtomicU8>,
}

impl Server {
    fn open(options: Options, claim: Claim, log: Log, listens: Option<&Listener>) -> Result<Self, ServeError> {
        let clock = Clock::new();
        let registry = Arc::new(Registry::new(clock));
        let storage = colibri_storage::Options::new()
            .readers_max((options.connections_max as u32).saturating_mul(2).clamp(1_024, 1 << 20));
        let storage = match options.retention.filter(|_| options.cluster.is_none()) {
            Some((age, bytes_max)) => {
                let retention = colibri_storage::Retention::new(age);
                storage.retention(bytes_max.map_or(retention, |bytes| retention.bytes_max(bytes)))
            }
            None => storage,
        };
        if options.cluster.is_some() && options.encryption_key.is_some() {
            return Err(ServeError::EncryptedNode);
        }
        let storage = storage.encryption_key(options.encryption_key.clone());
        let user = machine::user_name();
        let superusers: Vec<&str> = user.iter().map(String::as_str).collect();
        // What can be wrong comes first: a server that cannot start makes nothing.
        let certificate = match &options.tls {
            Some((certificates, key)) => Some(Arc::new(Certificate::load(certificates, key)?)),
            None => None,
        };
        let password = options.password_file.as_deref().map(read_password).transpose()?;
        let unused = Unused { keep: options.database_keep, give_memory_back: options.give_memory_back };
        let listens = listens.map(Listener::name);
        let join = options.cluster.as_ref().map(|cluster| Join { options: cluster, listens: listens.as_deref(), log });
        let directory =
            Directory::open(claim, &superusers, storage, unused, Arc::clone(&registry), clock, join.as_ref())?;
        if let Some(password) = password
            && directory.set_first_password(&password)?
        {
            log.info("password_set", &[("role", &"postgres")]);
        }
        if options.auth == Some(Auth::Scram) && !directory.has_passwords() {
            let way_out = "nobody can log in: end the server, and start it with --password-file FILE";
            log.warn("no_password", &[("meaning", &way_out)]);
        }
        directory.set("max_connections", options.connections_max);
        let prepared_max = if options.cluster.is_some() { 0 } else { options.prepared_max };
        directory.set(crate::cluster::PREPARED_MAX, prepared_max);
        directory.set("data_directory", options.dir.display());
        directory.set("ssl", if certificate.is_some() { "on" } else { "off" });
        let shared = Arc::new(Shared {
            auth: options.auth.unwrap_or(Auth::Trust),
            session_defaults: session_defaults(&options),
            directory,
            registry,
            counts: Counts::default(),
            log,
            clock,
            certificate: RwLock::new(certificate),
            is_ending: AtomicBool::new(false),
            news: crate::bell::Bell::default(),
            started: Instant::now(),
            options,
        });
        Ok(Self { shared, ending: Arc::new(AtomicU8::new(Ending::No as u8)) })
    }

    /// Says to clients where the server listens.
    fn show_sockets(&self, sockets: &Sockets) {
        let directory = &self.shared.directory;
        if let Some(dir) = &self.shared.options.socket_dir {
            directory.set("unix_socket_directories", dir.display());
        }
        let hosts: Vec<String> =
            sockets.clients.iter().filter(|listener| listener.port().is_some()).map(Listener::name).collect();
        directory.set("listen_addresses", hosts.join(","));
        directory.set("port", sockets.port());
    }

    /// Lets clients in.
    fn accept(&self, listeners: &[Arc<Listener>]) -> Vec<JoinHandle<()>> {
        let accept = |listener: &Arc<Listener>| {
            let shared = Arc::clone(&self.shared);
            listen::accept_all(Arc::clone(listener), shared.log, move |socket| {
                let heard_max = 2 * shared.options.connections_max + UNHEARD;
                if shared.registry.connections.load(Ordering::Acquire) < heard_max {
                    let counted = connection::Counted::new(&shared);
                    drop(spawn(Pool::User, connection::serve(Arc::clone(&shared), socket, counted)));
                } else {
                    shared.counts.refused.add(1);
                }
            })
        };
        listeners.iter().map(accept).collect()
    }

    /// Whether there is no connection, and there was none since the count of connections was taken.
    fn is_alone_since(&self, connected: u64) -> bool {
        self.shared.registry.connections.load(Ordering::Acquire) == 0
            && self.shared.counts.connections.get() == connected
    }

    /// Serves metrics.
    fn serve_metrics(&self, listeners: Vec<Listener>) {
        for listener in listeners {
            let shared = Arc::clone(&self.shared);
            drop(listen::accept_all(Arc::new(listener), self.shared.log, move |socket| {
                drop(spawn(Pool::Batch, crate::http::serve(Arc::clone(&shared), socket)));
            }));
        }
    }

    fn say_ready(&self, sockets: &Sockets) {
        let names = |listeners: &[Listener]| listeners.iter().map(Listener::name).collect::<Vec<_>>().join(",");
        let metrics = if sockets.metrics.is_empty() { "none".to_owned() } else { names(&sockets.metrics) };
        let fields: [(&str, &dyn std::fmt::Display); 5] = [
            ("listen", &names(&sockets.clients)),
            ("metrics", &metrics),
            ("dir", &self.shared.options.dir.display()),
            ("auth", &self.shared.auth.name()),
            ("pid", &std::process::id()),
        ];
        self.shared.log.info("ready", &fields);
    }

    fn hear_signals(&self) -> Result<(), ServeError> {
        let failed = || ServeError::system("cannot hear signals");
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed())?;
            signal_hook::low_level::pipe::register(signal, theirs).map_err(failed())?;
            let ours = UnixStream::from_std(ours).map_err(failed())?;
            let (shared, ending) = (Arc::clone(&self.shared), Arc::clone(&self.ending));
            drop(spawn(Pool::System, async move {
                let mut byte = [0; 16];
                while ours.read(&mut byte).await.is_ok_and(|read| read > 0) {
                    let told = match signal {
                        SIGTERM => Ending::Graceful,
                        SIGINT => Ending::Fast,
                        _ => {
                            reload(&shared);
                            continue;
                        }
                    };
                    ending.fetch_max(told as u8, Ordering::AcqRel);
                    shared.news.ring();
                }
            }));
        }
        Ok(())
    }

    fn told(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::No,
            1 => Ending::Graceful,
            _ => Ending::Fast,
        }
    }

    /// Waits until a signal ends the server, or it had no connection for `idle_exit`.
    async fn until_told(&self) -> Told {
        let shared = &self.shared;
        loop {
            let heard = shared.news.count();
            let (told, connected) = (self.told(), shared.counts.connections.get());
            if told != Ending::No {
                return Told::Signal(told);
            }
            let is_alone = shared.registry.connections.load(Ordering::Acquire) == 0;
            match shared.options.idle_exit.filter(|_| is_alone) {
                None => shared.news.wait(heard).await,
                Some(limit) => {
                    let nothing_new = timeout(limit, shared.news.wait(heard)).await.is_err();
                    if nothing_new && self.is_alone_since(connected) {
                        return Told::Idle { limit, connected };
                    }
                }
            }
        }
    }

    /// Ends sessions, then databases.
    async fn end(&self, ending: Ending) {
        let shared = &self.shared;
        shared.is_ending.store(true, Ordering::Release);
        let sessions = shared.registry.len();
        let how = if ending == Ending::Fast { "fast" } else { "graceful" };
        shared.log.info("ending", &[("how", &how), ("sessions", &sessions)]);
        if ending == Ending::Graceful {
            if shared.directory.replication().is_some() {
                // What clients begin meanwhile goes on at the new leaders.
                let directory = Arc::clone(&shared.directory);
                _ = spawn_blocking(move || directory.hand_over()).await;
            }
            shared.registry.stop(Stop::WhenIdle, Why::Administrator, |_| true);
            let grace = shared.options.grace;
            self.until_left(Instant::now() + grace, || self.told() == Ending::Fast).await;
        }
        shared.registry.stop(Stop::Now, Why::Administrator, |_| true);
        self.until_left(Instant::now() + FAST_MAX, || false).await;
        let directory = Arc::clone(&shared.directory);
        for error in spawn_blocking(move || directory.close()).await.unwrap_or_default() {
            shared.log.error("close_failed", &[("error", &error)]);
        }
        shared.log.info("ended", &[("sessions_cut_off", &shared.registry.len())]);
    }

    /// Waits until all sessions have ended, so long at most, or until something else says that it
    /// was long enough.
    async fn until_left(&self, until: Instant, is_enough: impl Fn() -> bool) {
        let shared = &self.shared;
        loop {
            let heard = shared.news.count();
            let left = until.saturating_duration_since(Instant::now());
            if shared.registry.len() == 0 || is_enough() || left.is_zero() {
                return;
            }
            // A session that has just begun was not asked to end yet.
            shared.registry.stop(Stop::WhenIdle, Why::Administrator, |_| true);
            _ = timeout(left, shared.news.wait(heard)).await;
        }
    }
}

/// The first line of a file.
fn read_password(file: &Path) -> Result<String, ServeError> {
    let bad = |source| ServeError::PasswordFile { path: file.display().to_string(), source };
    let text = fs::read_to_string(file).map_err(bad)?;
    match text.lines().next() {
        None | Some("") => Err(bad(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty"))),
        Some(password) => Ok(password.to_owned()),
    }
}

/// Reads certificates again; connections that begin from now on have the new ones.
fn reload(shared: &Shared) {
    let Some((certificates, key)) = &shared.options.tls else { return };
    match Certificate::load(certificates, key) {
        Ok(certificate) => {
            *shared.certificate.write() = Some(Arc::new(certificate));
            shared.log.info("reloaded", &[("certificate", &certificates.display())]);
        }
        Err(error) => shared.log.error("reload_failed", &[("error", &error)]),
    }
}

/// The default settings of sessions, which sources of higher rank replace.
fn session_defaults(options: &Options) -> Vec<(&'static str, String)> {
    let mut defaults = machine::session_defaults(options.tiny);
    defaults.extend(options.forward_writes.then(|| ("colibri.forward", "on".to_owned())));
    defaults.extend(options.isolation.map(|level| ("default_transaction_isolation", level.to_owned())));
    defaults
}
