//! The connection to one member of etcd at a time, with its time limits and its user's token.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::messages::{AuthenticateRequest, AuthenticateResponse};
use super::whole::Whole;
use super::{EtcdError, EtcdOptions};
use crate::address::{Address, Credentials, Tls};
use crate::coordinator::{Failure, Refusal};

/// The largest answer: a page of 16 entries of 1 MiB, or a batch of changes, with room to spare.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How many bytes of an answer may be under way before they are read.
const WINDOW_BYTES: u32 = 4 << 20;
/// etcd's name for the token in a request.
const TOKEN: &str = "token";
/// Asks etcd to end a stream when its member has lost touch with the others.
const NEEDS_LEADER: (&str, &str) = ("hasleader", "true");

/// The way to etcd.
pub(super) struct Link {
    endpoints: Vec<Endpoint>,
    credentials: Option<Credentials>,
    request_timeout: Duration,
    connect_timeout: Duration,
    current: AsyncMutex<Current>,
    token: Mutex<Option<MetadataValue<tonic::metadata::Ascii>>>,
    /// The number of connections that were given up. Watches wait for its change.
    given_up: watch::Sender<u64>,
}

struct Current {
    connected: Option<Connected>,
    /// The endpoint that is tried next.
    next: usize,
}

/// A connection, and how many were given up before it was made.
#[derive(Clone)]
pub(super) struct Connected {
    channel: Channel,
    number: u64,
}

/// Why a call has no answer, or has a refusal.
pub(super) enum CallError {
    /// No connection could be made.
    NotConnected(String),
    /// No answer in time.
    TimedOut,
    /// etcd, or the connection, has said so.
    Status(Status),
}

impl Link {
    pub(super) fn new(address: &Address, options: EtcdOptions) -> Result<Self, EtcdError> {
        let tls = address.tls.as_ref().map(tls_config).transpose()?;
        let endpoints = address.endpoints.iter().map(|host| {
            let setup = |e: tonic::transport::Error| EtcdError::Setup { endpoint: host.clone(), reason: reasons(&e) };
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
                .map_err(setup)?
                .connect_timeout(options.connect_timeout)
                .tcp_nodelay(true)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(2 * WINDOW_BYTES);
            match &tls {
                Some(tls) => endpoint.tls_config(tls.clone()).map_err(setup),
                None => Ok(endpoint),
            }
        });
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            credentials: address.credentials.clone(),
            request_timeout: options.request_timeout,
            connect_timeout: options.connect_timeout,
            current: AsyncMutex::new(Current { connected: None, next: 0 }),
            token: Mutex::new(None),
            given_up: watch::Sender::new(0),
        })
    }

    /// Tells when a connection is given up.
    pub(super) fn given_up(&self) -> watch::Receiver<u64> {
        self.given_up.subscribe()
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Has the next call get a new token.
    pub(super) fn forget_token(&self) {
        *self.token.lock() = None;
    }

    /// The connection; makes one, to the first member that can be reached.
    pub(super) async fn connected(&self) -> Result<Connected, CallError> {
        let mut current = self.current.lock().await;
        if let Some(connected) = &current.connected {
            return Ok(connected.clone());
        }
        let mut reason = String::new();
        for _ in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[current.next];
            // tonic's own limit is for TCP, and not for TLS behind it.
            match timeout(self.connect_timeout, endpoint.connect()).await {
                Ok(Ok(channel)) => {
                    let connected = Connected { channel, number: *self.given_up.borrow() };
                    current.connected = Some(connected.clone());
                    return Ok(connected);
                }
                Ok(Err(e)) => reason = format!("{}: {}", endpoint.uri(), reasons(&e)),
                Err(_) => reason = format!("{}: no connection in time", endpoint.uri()),
            }
            current.next = (current.next + 1) % self.endpoints.len();
        }
        Err(CallError::NotConnected(reason))
    }

    /// Gives a connection up, unless that was done already: the next call tries the next member.
    pub(super) async fn give_up(&self, connected: &Connected) {
        let mut current = self.current.lock().await;
        if current.connected.as_ref().is_some_and(|current| current.number == connected.number) {
            current.connected = None;
            current.next = (current.next + 1) % self.endpoints.len();
            self.given_up.send_modify(|number| *number += 1);
        }
    }

    /// A call with one request and one answer.
    pub(super) async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.call(|connected| {
            let request = request.clone();
            async move {
                let mut grpc = client(Whole(connected.channel)).await?;
                let request = self.with_token(Request::new(request)).await?;
                let path = PathAndQuery::from_static(path);
                let answer = grpc.unary(request, path, ProstCodec::<Q, A>::default()).await;
                Ok(answer.map_err(CallError::Status)?.into_inner())
            }
        })
        .await
    }

    /// A call on a stream: one request, and the first answer.
    pub(super) async fn first_of_stream<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.call(|connected| {
            let request = request.clone();
            async move {
                let requests = tokio_stream::once(request);
                let mut answers = self.stream::<Q, A, _>(&connected, path, requests).await?;
                let first = answers.message().await.map_err(CallError::Status)?;
                first.ok_or_else(|| CallError::Status(Status::unavailable("the stream ended without an answer")))
            }
        })
        .await
    }

    /// Opens a stream on a connection.
    pub(super) async fn stream<Q, A, S>(
        &self,
        connected: &Connected,
        path: &'static str,
        requests: S,
    ) -> Result<tonic::Streaming<A>, CallError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
        S: tokio_stream::Stream<Item = Q> + Send + 'static,
    {
        let mut grpc = client(connected.channel.clone()).await?;
        let mut request = self.with_token(Request::new(requests)).await?;
        request.metadata_mut().insert(NEEDS_LEADER.0, MetadataValue::from_static(NEEDS_LEADER.1));
        let path = PathAndQuery::from_static(path);
        let answer = grpc.streaming(request, path, ProstCodec::<Q, A>::default()).await;
        Ok(answer.map_err(CallError::Status)?.into_inner())
    }

    /// Runs a call within the time limit, once more if the token has become invalid, and gives the
    /// connection up if there is no answer.
    async fn call<T, F>(&self, call: impl Fn(Connected) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        for is_last in [false, true] {
            // Others may be trying to connect already, one member after the other.
            let connecting_max = self.connect_timeout * (self.endpoints.len() as u32 + 1);
            let connected = timeout(connecting_max, self.connected())
                .await
                .unwrap_or_else(|_| Err(CallError::NotConnected("no connection in time".to_owned())))?;
            let result = timeout(self.request_timeout, call(connected.clone())).await;
            let result = result.unwrap_or(Err(CallError::TimedOut));
            match &result {
                // etcd has not carried the request out; a new token may help.
                Err(CallError::Status(status)) if is_token_invalid(status) && !is_last => {
                    self.forget_token();
                    continue;
                }
                // Not connected, though there is a connection: the member gives no token.
                Err(CallError::TimedOut | CallError::NotConnected(_)) => self.give_up(&connected).await,
                Err(CallError::Status(status)) if is_no_answer(status) => self.give_up(&connected).await,
                _ => {}
            }
            return result;
        }
        unreachable!("the last round returns")
    }

    async fn with_token<T>(&self, mut request: Request<T>) -> Result<Request<T>, CallError> {
        if let Some(credentials) = &self.credentials {
            let token = self.token(credentials).await?;
            request.metadata_mut().insert(TOKEN, token);
        }
        Ok(request)
    }

    async fn token(&self, credentials: &Credentials) -> Result<MetadataValue<tonic::metadata::Ascii>, CallError> {
        if let Some(token) = self.token.lock().clone() {
            return Ok(token);
        }
        let mut grpc = client(Whole(self.connected().await?.channel)).await?;
        let request = AuthenticateRequest { name: credentials.user.clone(), password: credentials.password.clone() };
        let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        // What failed here was not the call itself, so it was not sent.
        let answer = grpc.unary(Request::new(request), path, codec).await.map_err(|status| match status.code() {
            Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition => CallError::Status(status),
            _ => CallError::NotConnected(format!("no token: {}", status.message())),
        })?;
        let token = MetadataValue::try_from(answer.into_inner().token)
            .map_err(|_| CallError::NotConnected("etcd has given a token that no request can carry".to_owned()))?;
        *self.token.lock() = Some(token.clone());
        Ok(token)
    }

    /// One call to each member, over connections of their own; `None` for those without an answer.
    pub(super) async fn each_member<Q, A>(&self, path: &'static str, request: Q) -> Vec<Option<A>>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut answers = Vec::new();
        for endpoint in &self.endpoints {
            let asking = async {
                let channel = endpoint.connect().await.ok()?;
                let mut grpc = client(Whole(channel)).await.ok()?;
                let request = self.with_token(Request::new(request.clone())).await.ok()?;
                let path = PathAndQuery::from_static(path);
                Some(grpc.unary(request, path, ProstCodec::<Q, A>::default()).await.ok()?.into_inner())
            };
            answers.push(timeout(self.request_timeout, asking).await.ok().flatten());
        }
        answers
    }
}

async fn client<C>(channel: C) -> Result<Grpc<C>, CallError>
where
    C: Service<http::Request<Body>, Response = http::Response<Body>, Error = tonic::transport::Error>,
{
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    match grpc.ready().await {
        Ok(()) => Ok(grpc),
        Err(e) => Err(CallError::Status(Status::unavailable(reasons(&e)))),
    }
}

fn tls_config(tls: &Tls) -> Result<ClientTlsConfig, EtcdError> {
    let read = |path: &Path| fs::read(path).map_err(|source| EtcdError::File { path: path.to_owned(), source });
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    Ok(match &tls.client {
        Some((cert, key)) => config.identity(Identity::from_pem(read(cert)?, read(key)?)),
        None => config,
    })
}

/// An error and what caused it: tonic's own text is "transport error".
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        source = error.source();
    }
    text
}

/// Whether a new token may help: the old one has expired, or users and roles have changed since.
fn is_token_invalid(status: &Status) -> bool {
    let text = status.message();
    status.code() == Code::Unauthenticated
        || text.contains("revision of auth store is old")
        || text.contains("auth: revision in header is old")
}

/// Whether the status says nothing of the request: the connection is gone, or the member cannot
/// reach the others.
fn is_no_answer(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal | Code::Aborted
    )
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotConnected(why) => Self::NotSent(why),
            CallError::TimedOut => Self::Unknown("no answer in time".to_owned()),
            CallError::Status(status) => failure(&status),
        }
    }
}

/// etcd's error texts are part of its interface (`rpctypes`); codes alone do not tell them apart.
fn failure(status: &Status) -> Failure {
    let text = status.message();
    if is_no_answer(status) {
        return Failure::Unknown(reasons(status));
    }
    match status.code() {
        Code::ResourceExhausted if text.contains("database space exceeded") => Failure::Refused(Refusal::NoSpace),
        Code::ResourceExhausted if text.contains("too many requests") => Failure::NotSent(text.to_owned()),
        Code::InvalidArgument if text.contains("request is too large") || text.contains("too many operations") => {
            Failure::Refused(Refusal::TooLarge)
        }
        // gRPC's own limit of a message, which etcd sets beside its own.
        Code::ResourceExhausted if text.contains("larger than max") => Failure::Refused(Refusal::TooLarge),
        Code::NotFound if text.contains("lease not found") => Failure::Refused(Refusal::NoLease),
        Code::Unauthenticated | Code::PermissionDenied => Failure::Refused(Refusal::NotAllowed(text.to_owned())),
        Code::InvalidArgument if text.contains("user") || text.contains("auth") => {
            Failure::Refused(Refusal::NotAllowed(text.to_owned()))
        }
        _ => Failure::Refused(Refusal::Other(format!("{:?}: {text}", status.code()))),
    }
}

/// A link that several tasks share.
pub(super) type SharedLink = Arc<Link>;
