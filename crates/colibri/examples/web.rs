//! A small web service that keeps its data in itself: `cargo run --example web`, and then
//! `curl -X POST localhost:8080/birds/anna` and `curl localhost:8080/birds`.
//!
//! hyper is the HTTP library under most others, and by itself brings little along; tokio is what
//! services run on, here with one thread. Colibri's futures run on it as on any other: a request
//! that waits for a commit waits without a thread, and requests that commit at the same time share
//! a flush of the disk.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use colibri::sql::{AsyncConnection, Database, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

const BIRD_CHARS_MAX: usize = 60;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or("web-birds".to_owned());
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        // The port first: if it is in use, no database is made in vain, and none that they have
        // open is asked for.
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| format!("cannot listen on {address}: {error}; end whoever listens there"))?;
        let db = open(dir.as_ref()).map_err(|error| error.to_string())?;
        println!("http://{address}/birds");
        serve(listener, db).await?;
        Ok(())
    })
}

fn open(dir: &std::path::Path) -> Result<Database> {
    let db = Database::open(dir)?;
    db.connect().batch("CREATE TABLE IF NOT EXISTS birds (name text PRIMARY KEY, seen bigint NOT NULL)")?;
    Ok(db)
}

/// One task and one session for each connection; HTTP/1.1 has one request at a time on it.
async fn serve(listener: TcpListener, db: Database) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let session = Arc::new(Mutex::new(db.connect_async()));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let session = Arc::clone(&session);
                async move { Ok::<_, Infallible>(answer(&request, &mut *session.lock().await).await) }
            });
            // A client that goes away in the middle is its own affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: &Request<Incoming>, session: &mut AsyncConnection) -> Response<String> {
    let path: Vec<_> = request.uri().path().trim_matches('/').split('/').collect();
    let outcome = match (request.method(), &path[..]) {
        (&Method::GET, ["birds"]) => list(session).await,
        (&Method::POST, ["birds", name]) if (1..=BIRD_CHARS_MAX).contains(&name.len()) => see(session, name).await,
        _ => return respond(StatusCode::NOT_FOUND, "GET /birds, or POST /birds/NAME\n".to_owned()),
    };
    match outcome {
        Ok(text) => respond(StatusCode::OK, text),
        Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn respond(status: StatusCode, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response
}

async fn list(session: &mut AsyncConnection) -> Result<String> {
    let rows = session.query("SELECT name, seen FROM birds ORDER BY seen DESC, name", ()).await?;
    rows.iter().map(|row| Ok(format!("{} {}\n", row.get::<_, &str>("name")?, row.get::<_, i64>("seen")?))).collect()
}

/// Answered when it is on disk.
async fn see(session: &mut AsyncConnection, name: &str) -> Result<String> {
    let upsert =
        "INSERT INTO birds VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET seen = birds.seen + 1 RETURNING seen";
    let row = session.query_row(upsert, (name,)).await?;
    Ok(format!("{}\n", row.get::<_, i64>("seen")?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        let request = format!("{request} HTTP/1.1\r\nHost: birds\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn birds_are_counted_for_all_who_ask_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(dir.path()).expect("a database");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket");
        // The thread goes on until the test's process ends.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
            runtime.block_on(async { serve(TcpListener::from_std(listener).expect("a socket"), db).await })
        });

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..5).for_each(|_| assert!(ask(address, "POST /birds/anna").starts_with("HTTP/1.1 200")))
                });
            }
        });
        ask(address, "POST /birds/rufous");
        assert!(ask(address, "GET /birds").ends_with("\r\n\r\nanna 20\nrufous 1\n"));
        assert!(ask(address, "DELETE /birds").starts_with("HTTP/1.1 404"));
    }
}
