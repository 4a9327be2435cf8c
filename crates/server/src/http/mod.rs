//! Metrics by HTTP. Without a request nothing is computed, and nothing wakes up.
//!
//! | path | gives |
//! | --- | --- |
//! | `/metrics` | counters in Prometheus' text format |
//! | `/healthz` | `ok`; in a cluster that does not answer also for how long. The server itself is well |
//! | `/healthz?role=leader`, `?role=standby` | `ok` if the server leads the database `postgres`, or is a standby of it, and reaches the cluster; else 503. `&database=NAME` names another, with %-escapes |
//! | `/healthz?database=NAME` | 404 if there is none; in a cluster also who leads it, and how far this copy is behind. With `&lag_max=SECONDS` 503 if that is more, or is not known |
//! | `/` | a page for people, which asks for `/status.json` while it is looked at |
//!
//! Just enough of HTTP/1.1 for that: GET and HEAD, one request after the other. A client may stay
//! connected.

mod metrics;
mod status;

use std::sync::Arc;
use std::time::Duration;

use colibri_runtime::{spawn_blocking, timeout};

use crate::link::{Link, Socket};
use crate::shared::Shared;

const DASHBOARD: &str = include_str!("dashboard.html");
/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a request may take to come, from its first byte on, and an answer to be read.
const REQUEST_MAX: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 64;

/// What is asked for.
struct Request {
    path: String,
    /// What stands behind the question mark.
    query: String,
    is_head: bool,
    is_get: bool,
    keeps: bool,
    bytes: usize,
}

struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn text(status: &'static str, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.to_owned() }
    }
}

/// Reads a request, if all of it is there.
fn parse(bytes: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let bytes = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err("431 Request Header Fields Too Large"),
        Err(_) => return Err("400 Bad Request"),
    };
    let (path, query) = request.path.unwrap_or("/").split_once('?').unwrap_or((request.path.unwrap_or("/"), ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let header = |name: &str| request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    let says = |name: &str, value: &str| {
        header(name).is_some_and(|header| header.value.eq_ignore_ascii_case(value.as_bytes()))
    };
    // A body would be taken for the next request.
    let has_body =
        header("transfer-encoding").is_some() || header("content-length").is_some_and(|_| !says("content-length", "0"));
    let keeps = !has_body
        && if request.version == Some(1) { !says("connection", "close") } else { says("connection", "keep-alive") };
    let method = request.method.unwrap_or_default();
    Ok(Some(Request { path, query, is_head: method == "HEAD", is_get: method == "GET", keeps, bytes }))
}

/// Serves a connection until its end.
pub(crate) async fn serve(shared: Arc<Shared>, socket: Socket) {
    let mut link = Link::new(socket);
    let is_local = link.client().is_none_or(|client| client.ip().is_loopback());
    loop {
        if link.inbox.unread().is_empty() && !link.fill().await.unwrap_or(false) {
            return;
        }
        let request = match timeout(REQUEST_MAX, request(&mut link)).await {
            Ok(Ok(Some(request))) => request,
            Ok(Err(status)) => {
                write(&mut link, &Response::text(status, "this is no request\n"), false, false);
                _ = timeout(REQUEST_MAX, link.flush()).await;
                return;
            }
            Ok(Ok(None)) | Err(_) => return,
        };
        link.inbox.take(request.bytes);
        let response = answer(&shared, &request, is_local).await;
        write(&mut link, &response, request.keeps, request.is_head);
        if !matches!(timeout(REQUEST_MAX, link.flush()).await, Ok(Ok(()))) || !request.keeps {
            return;
        }
        link.shrink();
    }
}

async fn request(link: &mut Link) -> Result<Option<Request>, &'static str> {
    loop {
        if let Some(request) = parse(link.inbox.unread())? {
            return Ok(Some(request));
        }
        if !link.fill().await.unwrap_or(false) {
            return Ok(None);
        }
    }
}

async fn answer(shared: &Arc<Shared>, request: &Request, is_local: bool) -> Response {
    if !request.is_get && !request.is_head {
        return Response::text("405 Method Not Allowed", "GET and HEAD only\n");
    }
    let computed = |compute: fn(&Shared, bool) -> String| {
        let shared = Arc::clone(shared);
        // Figures of a database are read from its pages, which may have to come from the disk.
        spawn_blocking(move || compute(&shared, is_local))
    };
    let (content_type, computing) = match request.path.as_str() {
        "/healthz" => return health(shared, &request.query).await,
        "/" => {
            let (status, content_type) = ("200 OK", "text/html; charset=utf-8");
            return Response { status, content_type, body: DASHBOARD.to_owned() };
        }
        "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", computed(metrics::text)),
        "/status.json" => ("application/json", computed(status::json)),
        _ => return Response::text("404 Not Found", "there are /, /metrics and /healthz\n"),
    };
    match computing.await {
        Ok(body) => Response { status: "200 OK", content_type, body },
        Err(_) => Response::text("500 Internal Server Error", "it could not be computed\n"),
    }
}

/// Whether the server is what is asked for.
async fn health(shared: &Shared, query: &str) -> Response {
    let parts = query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")));
    let parts: Option<Vec<_>> = parts.map(|(name, value)| Some((unescaped(name)?, unescaped(value)?))).collect();
    let Some(parts) = parts else {
        return Response::text("400 Bad Request", "a name or a value is no UTF-8 with %-escapes\n");
    };
    let value = |name: &str| parts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let database = value("database").unwrap_or("postgres");
    if value("database").is_some() && !shared.directory.has_database(database) {
        return Response::text("404 Not Found", &format!("there is no database {database:?}\n"));
    }
    let (leads, follows) = match shared.directory.role_of(database) {
        // A server without a cluster is what leads there.
        None => (true, false),
        Some(role) => (role == Some(true), role == Some(false)),
    };
    let is_well = match value("role") {
        None => true,
        Some("leader") => leads,
        Some("standby") => follows,
        Some(_) => return Response::text("400 Bad Request", "role is leader or standby\n"),
    };
    let lag_max = match value("lag_max").map(str::parse::<f64>) {
        None => None,
        Some(Ok(seconds)) if seconds >= 0.0 => Some(seconds),
        Some(_) => return Response::text("400 Bad Request", "lag_max is a number of seconds\n"),
    };
    let (mut is_near, mut lines) = (true, String::new());
    if let Some(trouble) = shared.directory.replication().and_then(|node| node.trouble()) {
        lines = format!("cluster not reached: {trouble}\n");
    }
    if (value("database").is_some() || lag_max.is_some())
        && let (Some(node), Some(keeper)) = (shared.directory.replication(), shared.directory.keeper_named(database))
    {
        let told = status::lines_of(node, &keeper).await;
        let is_within = |seconds| told.0.and_then(|lag| lag.age).is_some_and(|age| age.as_secs_f64() <= seconds);
        // One that is closed catches up before sessions are let in.
        let is_closed = keeper.replica().is_none() && keeper.trouble().is_none();
        is_near = is_closed || lag_max.is_none_or(is_within);
        lines.push_str(&told.1);
    }
    match is_well && is_near {
        true => Response::text("200 OK", &format!("ok\n{lines}")),
        false => Response::text("503 Service Unavailable", &format!("no\n{lines}")),
    }
}

/// A name or a value of a query, in which `%` and two digits are a byte, and `+` is a space. `None`
/// if it is not UTF-8, or an escape is none.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'%' => {
                let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
                rest = &rest[2..];
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn write(link: &mut Link, response: &Response, keeps: bool, is_head: bool) {
    let connection = if keeps { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: {connection}\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; connect-src 'self'\r\n\r\n",
        response.status,
        response.content_type,
        response.body.len()
    );
    link.out.extend_from_slice(head.as_bytes());
    if !is_head {
        link.out.extend_from_slice(response.body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn escapes_of_queries_are_bytes_of_utf_8() {
        for (text, expected) in [
            ("birds", Some("birds")),
            ("my%20birds+x", Some("my birds x")),
            ("V%C3%B6gel%26%3d%25", Some("V\u{f6}gel&=%")),
            ("", Some("")),
            ("%", None),
            ("%4", None),
            ("%+4", None),
            ("%ff", None),
        ] {
            assert_eq!(unescaped(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn requests_are_read_when_they_are_whole() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\nrest";
        let request = parse(whole).unwrap().unwrap();
        assert_eq!((&*request.path, request.is_get, request.keeps), ("/metrics", true, true));
        assert_eq!(&whole[request.bytes..], b"rest");
        assert!(parse(&whole[..20]).unwrap().is_none());
        assert!(!parse(b"GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().keeps);
        assert!(!parse(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").unwrap().unwrap().keeps);
        assert!(!parse(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n").unwrap().unwrap().keeps);
        assert!(parse(b"\x16\x03\x01\x02").is_err());
        assert!(parse(&[b"GET / HTTP/1.1\r\n".to_vec(), vec![b'a'; REQUEST_BYTES_MAX]].concat()).is_err());
    }
}
