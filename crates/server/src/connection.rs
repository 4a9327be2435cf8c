//! A connection until its client has logged in: encryption, cancellations, authentication, choice
//! of the database.
//!
//! ```text
//! socket ─► [SSLRequest ─► TLS] ─► start ─► [SCRAM] ─► database opened ─► session (`session`)
//!             └ CancelRequest: done
//! ```
//!
//! Invariants: before the login a client learns nothing of roles and databases, and its data and
//! time are limited; bytes that came before encryption are not used after it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_runtime::timeout;
use colibri_sql::cluster::{self, Cluster};
use colibri_sql::encoding::Encoding;
use colibri_sql::{DefaultBy, Error, Session, SqlState};

use crate::auth::Auth;
use crate::auth::scram::{self, Binding, Exchange, MECHANISM, MECHANISM_PLUS};
use crate::link::{Ends, Link, Socket};
use crate::protocol::frontend::{HEADER_BYTES, LOGIN_BYTES_MAX};
use crate::protocol::startup::{self, Startup};
use crate::protocol::{Reader, backend, violation};
use crate::registry::Membership;
use crate::replication::relay::Package;
use crate::replication::{answer, forwarded, peer};
use crate::session::Client;
use crate::shared::Shared;
use crate::tls::Tls;

const NOT_ADMITTED: SqlState = SqlState("28000");
const WRONG_PASSWORD: SqlState = SqlState("28P01");
const CANNOT_CONNECT_NOW: SqlState = SqlState("57P03");

/// Connections that are reserved for superusers.
fn reserved(connections_max: usize) -> usize {
    (connections_max / 10).min(3)
}

/// The client's request.
struct Wanted {
    user: String,
    database: String,
    settings: Vec<(String, String)>,
}

/// Why there is no session.
enum Refusal {
    /// None was asked for, or the client has gone.
    Over,
    Told(Error),
    /// Another node of the cluster asks for something.
    Peer(peer::Request),
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Over
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Serves a connection until its end.
pub(crate) async fn serve(shared: Arc<Shared>, socket: Socket, _counted: Counted) {
    let mut link = Link::new(socket);
    // The state of the login is dropped after it.
    let login = Box::pin(timeout(shared.options.login_timeout, log_in(&shared, &mut link)));
    let refusal = match login.await {
        Ok(Ok((session, membership, lease))) => {
            let mut client = Client::new(Arc::clone(&shared), link, session, membership, lease);
            while let Some(away) = client.serve().await {
                // Behind a pointer: what it needs would be part of each idle connection.
                match Box::pin(away.relay()).await {
                    Some(back) => client = *back,
                    None => break,
                }
            }
            return;
        }
        Ok(Err(refusal)) => refusal,
        // Without a message, as PostgreSQL does.
        Err(_) => Refusal::Over,
    };
    if let Refusal::Peer(request) = &refusal {
        // Behind a pointer: what it needs would be part of each idle connection.
        return match request.what {
            peer::What::Session => Box::pin(serve_forwarded(&shared, link, request)).await,
            _ => Box::pin(serve_peer(&shared, &mut link, request)).await,
        };
    }
    if let Refusal::Told(error) = refusal {
        shared.counts.refused.add(1);
        let client = link.client().map_or_else(|| "local".to_owned(), |client| client.ip().to_string());
        shared.log.warn("refused", &[("client", &client), ("code", &error.state().0), ("error", &error)]);
        backend::error(&mut link.out, "FATAL", &error, Encoding::UTF8);
        _ = timeout(shared.options.login_timeout, link.close()).await;
    }
}

/// Answers another node of the cluster.
async fn serve_peer(shared: &Arc<Shared>, link: &mut Link, request: &peer::Request) {
    let served = match shared.directory.replication() {
        Some(node) => {
            let cancel = |pid: i32, key: &[u8]| {
                if shared.registry.cancel_with_key(pid, key) {
                    shared.counts.cancels.add(1);
                }
            };
            answer::serve(node, link, request, cancel).await
        }
        None => Err("this server is no node of a cluster".to_owned()),
    };
    if let Err(why) = served {
        refuse_peer(shared, link, &why);
    }
    _ = timeout(shared.options.login_timeout, link.close()).await;
}

/// Serves a session whose client is connected to another node of the cluster.
async fn serve_forwarded(shared: &Arc<Shared>, link: Link, request: &peer::Request) {
    match forwarded::serve(shared, link, request).await {
        // It does not go on elsewhere by itself: it returns to the other node.
        Ok(client) => drop(client.serve().await),
        Err((mut link, why)) => {
            if !why.is_empty() {
                refuse_peer(shared, &mut link, &why);
            }
            _ = timeout(shared.options.login_timeout, link.close()).await;
        }
    }
}

/// Counts a client of another node as connected, if the limit allows it. The ends are those of the
/// connection between the nodes.
pub(crate) fn admit_forwarded(shared: &Arc<Shared>, package: &Package, ends: Ends) -> Result<Membership, Error> {
    let cluster: Arc<dyn Cluster> = Arc::clone(&shared.directory) as _;
    let (_, info) = cluster::admit(&*cluster, &package.user, &package.database)?;
    let (_, is_superuser) = shared.directory.login(&package.user, shared.clock.now_us());
    let wanted = Wanted { user: package.user.clone(), database: package.database.clone(), settings: Vec::new() };
    admit(shared, Ends { client: package.client, ..ends }, &wanted, &info, is_superuser)
}

fn refuse_peer(shared: &Shared, link: &mut Link, why: &str) {
    let client = link.client().map_or_else(|| "local".to_owned(), |client| client.ip().to_string());
    shared.log.warn("peer_refused", &[("client", &client), ("error", &why)]);
    link.out.push(b'E');
    link.out.extend_from_slice(why.as_bytes());
}

/// Counts one connection, until it is dropped.
pub(crate) struct Counted(Arc<Shared>);

impl Counted {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.registry.connections.fetch_add(1, Ordering::AcqRel);
        shared.counts.connections.add(1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.registry.connections.fetch_sub(1, Ordering::AcqRel);
        self.0.news.ring();
    }
}

async fn log_in(
    shared: &Arc<Shared>,
    link: &mut Link,
) -> Result<(Session, Membership, crate::cluster::Lease), Refusal> {
    let wanted = start(shared, link).await?;
    let (verifier, is_superuser) = shared.directory.login(&wanted.user, shared.clock.now_us());
    if shared.auth == Auth::Scram {
        let proven = prove(shared, link, &wanted.user, verifier.as_deref()).await;
        if let Err(Refusal::Told(error)) = &proven
            && error.state() == WRONG_PASSWORD
        {
            shared.counts.logins_failed.add(1);
        }
        proven?;
    }
    if shared.is_ending() {
        return Err(Error::new(CANNOT_CONNECT_NOW, "the database system is shutting down").into());
    }
    // Held until the session has a lease.
    let _asked = match &shared.options.ephemeral {
        Some(template) => Some(shared.directory.ask_for(&wanted.database, &wanted.user, template).await?),
        None => None,
    };
    let cluster: Arc<dyn Cluster> = Arc::clone(&shared.directory) as _;
    let (_, info) = cluster::admit(&*cluster, &wanted.user, &wanted.database)?;
    let membership = admit(shared, link.ends(), &wanted, &info, is_superuser)?;
    if let Some(encryption) = link.tls().and_then(Tls::encryption) {
        membership.member.set_encryption(encryption);
    }
    let lease = shared.directory.lease(&wanted.database).await?;
    let mut session = Session::in_cluster(lease.engine(), &cluster, &wanted.user, membership.member.pid)?;
    for (name, value) in &shared.session_defaults {
        session.set_default(name, value, DefaultBy::Server)?;
    }
    for (name, value) in &wanted.settings {
        session.set_default(name, value, DefaultBy::Client)?;
    }
    Ok((session, membership, lease))
}

/// Reads the first packets, up to the startup message.
async fn start(shared: &Arc<Shared>, link: &mut Link) -> Result<Wanted, Refusal> {
    loop {
        let Some(packet) = link.startup_packet().await?? else { return Err(Refusal::Over) };
        match startup::parse(&packet)? {
            Startup::Ssl if link.tls().is_none() => {
                let certificate = shared.certificate.read().clone();
                link.out.push(if certificate.is_some() { b'S' } else { b'N' });
                link.flush().await?;
                if let Some(certificate) = certificate {
                    // An attacker in between may have injected it, to be taken for data of the
                    // client.
                    if !link.inbox.unread().is_empty() {
                        return Err(violation("received unencrypted data after SSL request").into());
                    }
                    let tls = Tls::new(certificate).map_err(|error| Error::internal(&error))?;
                    link.encrypt(tls);
                }
            }
            Startup::Ssl | Startup::Gss => {
                link.out.push(b'N');
                link.flush().await?;
            }
            Startup::Cancel { pid, key } => {
                // The client does not learn whether there was anything to cancel.
                if shared.registry.cancel_with_key(pid, key) {
                    shared.counts.cancels.add(1);
                }
                return Err(Refusal::Over);
            }
            Startup::Peer(request) => {
                expect_encrypted(shared, link)?;
                return Err(Refusal::Peer(request));
            }
            Startup::Session { minor, parameters } => {
                expect_encrypted(shared, link)?;
                return wanted(link, minor, &parameters);
            }
        }
    }
}

/// Refuses a connection that has to be encrypted and is not.
fn expect_encrypted(shared: &Shared, link: &Link) -> Result<(), Error> {
    let is_local = link.client().is_none_or(|client| client.ip().is_loopback());
    if shared.options.tls_only && link.tls().is_none() && !is_local {
        return Err(Error::new(NOT_ADMITTED, "the server takes encrypted connections only"));
    }
    Ok(())
}

fn wanted(link: &mut Link, minor: u16, parameters: &[(&str, &str)]) -> Result<Wanted, Refusal> {
    let (mut user, mut database) = ("", "");
    let mut settings = Vec::new();
    let mut unknown = Vec::new();
    for &(name, value) in parameters {
        match name {
            "user" => user = value,
            "database" => database = value,
            "replication" if !matches!(value, "false" | "off" | "no" | "0") => {
                return Err(Error::unsupported("replication").into());
            }
            "replication" => {}
            "options" => settings.extend(startup::options(value)?),
            option if option.starts_with("_pq_.") => unknown.push(option),
            setting => settings.push((setting.to_owned(), value.to_owned())),
        }
    }
    if user.is_empty() {
        return Err(Error::new(NOT_ADMITTED, "no PostgreSQL user name specified in startup packet").into());
    }
    if minor > 0 || !unknown.is_empty() {
        backend::negotiate_version(&mut link.out, &unknown);
    }
    let database = if database.is_empty() { user } else { database };
    Ok(Wanted { user: user.to_owned(), database: database.to_owned(), settings })
}

fn wrong_password(user: &str) -> Refusal {
    Error::new(WRONG_PASSWORD, format!("password authentication failed for user \"{user}\"")).into()
}

/// Makes the client prove that it knows the password.
async fn prove(shared: &Shared, link: &mut Link, user: &str, verifier: Option<&str>) -> Result<(), Refusal> {
    let end_point = link.tls().and_then(Tls::binding).map(<[u8]>::to_vec);
    let binding = end_point.as_deref().map_or(Binding::None, Binding::EndPoint);
    let mechanisms: &[&str] = match binding {
        Binding::None => &[MECHANISM],
        Binding::EndPoint(_) => &[MECHANISM_PLUS, MECHANISM],
    };
    backend::authentication_sasl(&mut link.out, mechanisms);
    link.flush().await?;
    let first = response(link).await?;
    let mut reader = Reader::new(&first);
    let mechanism = reader.string()?;
    if !mechanisms.contains(&mechanism) {
        return Err(violation("client selected an invalid SASL authentication mechanism").into());
    }
    let length = usize::try_from(reader.i32()?).map_err(|_| violation("the SASL response is empty"))?;
    let data = reader.bytes(length)?;
    let secret = &shared.directory.secret;
    let (exchange, answer) = Exchange::begin(verifier, secret, user, mechanism, binding, data)?;
    backend::authentication_sasl_continue(&mut link.out, &answer);
    link.flush().await?;
    let last = response(link).await?;
    match exchange.finish(&last)? {
        Some(answer) => {
            backend::authentication_sasl_final(&mut link.out, &answer);
            Ok(())
        }
        None => Err(wrong_password(user)),
    }
}

/// Waits for a client's message during the login.
async fn response(link: &mut Link) -> Result<Vec<u8>, Refusal> {
    let Some(header) = link.wait_message(LOGIN_BYTES_MAX).await?? else { return Err(Refusal::Over) };
    if header.kind != b'p' {
        return Err(violation(format!("expected SASL response, got message type {}", header.kind)).into());
    }
    let end = HEADER_BYTES + header.body_bytes;
    let body = link.inbox.unread()[HEADER_BYTES..end].to_vec();
    link.inbox.take(end);
    Ok(body)
}

/// Counts the client as connected, if the limit allows it.
fn admit(
    shared: &Arc<Shared>,
    ends: Ends,
    wanted: &Wanted,
    info: &cluster::DatabaseInfo,
    is_superuser: bool,
) -> Result<Membership, Error> {
    let (registry, max) = (&shared.registry, shared.options.connections_max);
    let too_many = |message: String| Error::new(SqlState::TOO_MANY_CONNECTIONS, message);
    let connected = registry.len();
    if connected >= max {
        return Err(too_many("sorry, too many clients already".to_owned())
            .hint(format!("At most {max} can be connected (--max-connections).")));
    }
    if !is_superuser {
        if connected >= max - reserved(max) {
            let message = "remaining connection slots are reserved for roles with the SUPERUSER attribute";
            return Err(too_many(message.to_owned()));
        }
        let limit = |limit: i32| usize::try_from(limit).unwrap_or(usize::MAX);
        let roles = shared.directory.roles();
        let of_role = roles.named(&wanted.user).map_or(-1, |role| role.connection_limit);
        if of_role >= 0 && registry.count(|member| member.user == wanted.user) >= limit(of_role) {
            return Err(too_many(format!("too many connections for role \"{}\"", wanted.user)));
        }
        if info.connection_limit >= 0
            && registry.count(|member| member.database == wanted.database) >= limit(info.connection_limit)
        {
            return Err(too_many(format!("too many connections for database \"{}\"", wanted.database)));
        }
    }
    Ok(registry.add(scram::random()?, &wanted.database, &wanted.user, ends))
}
