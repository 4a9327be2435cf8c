use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::*;

/// Answers one request with these bytes, and then ends the connection. Gives the request's head.
fn answer(bytes: &'static [u8]) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = head_of(&mut stream);
        stream.write_all(bytes).unwrap();
        head
    });
    (port, asked)
}

fn head_of(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// What is told of an object, and what came of it.
fn got(bytes: &'static [u8]) -> (io::Result<bool>, Vec<u8>) {
    let (port, asked) = answer(bytes);
    let store = ObjectStore::of_url(&format!("http://127.0.0.1:{port}/base")).unwrap();
    let mut object = Vec::new();
    let told = store.get("5/data", &mut object);
    asked.join().unwrap();
    (told, object)
}

#[test]
fn an_object_comes_whole_with_a_length_or_in_pieces() {
    let whole = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 7\r\nX: y\r\n\r\ncolibri, and more";
    let pieces =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncol\r\n4;x=y\r\nibri\r\n0\r\nTrailer: z\r\n\r\n";
    for bytes in [&whole[..], &pieces[..]] {
        let (told, object) = got(bytes);
        assert!(told.unwrap());
        assert_eq!(object, b"colibri");
    }
    assert!(!got(b"HTTP/1.0 404 Not Found\r\n\r\nwhat?").0.unwrap(), "there is none");
}

#[test]
fn what_is_no_whole_object_is_an_error() {
    for (bytes, why) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncoli"[..], "breaks off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncoli", "breaks off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncoli\r\n", "breaks off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncolibri\r\n0\r\n\r\n", "longer than it says"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nten\r\ncolibri\r\n0\r\n\r\n", "no length"),
        (b"HTTP/1.1 200 OK\r\n\r\ncolibri", "how long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no valid length"),
        (b"HTTP/1.1 200 OK\r\nContent-Len", "breaks off"),
        (b"HTTP/1.1 200 OK\r\nContent\r\n\r\n", "none of HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "none of HTTP"),
        (b"", "breaks off"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n<Code>AccessDenied\n</Code>", "answers 403: <Code>AccessDenied </Code>"),
        (b"HTTP/1.1 301 Moved\r\nLocation: x\r\n\r\nelsewhere", "answers 301: elsewhere"),
        (b"HTTP/1.1 206 Partial\r\nContent-Length: 1\r\n\r\nc", "answers 206"),
    ] {
        let error = got(bytes).0.unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("127.0.0.1:"), "{}: {error}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_head_without_an_end_is_not_read_for_ever() {
    let lines: &'static [u8] = [&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n".repeat(20_000)].concat().leak();
    let line: &'static [u8] = [&b"HTTP/1.1 200 OK\r\nA: "[..], &b"b".repeat(100_000)].concat().leak();
    for head in [lines, line] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            head_of(&mut stream);
            // The other side ends the connection before all is sent.
            _ = stream.write_all(head);
            _ = stream.read(&mut [0]);
        });
        let store = ObjectStore::of_url(&format!("http://127.0.0.1:{port}/")).unwrap();
        assert!(store.get("5/data", &mut Vec::new()).is_err());
        server.join().unwrap();
    }
}

#[test]
fn a_request_names_the_object_and_keeps_the_query() {
    let (port, asked) = answer(b"HTTP/1.1 404 Not Found\r\n\r\n");
    let store = ObjectStore::of_url(&format!("http://127.0.0.1:{port}/a%20b/?sig=x%2B")).unwrap();
    assert_eq!(store.address_of("5/data"), format!("http://127.0.0.1:{port}/a%20b/5/data"), "without the signature");
    assert!(!store.get("5/data", &mut Vec::new()).unwrap());
    let head = asked.join().unwrap();
    assert!(head.starts_with("GET /a%20b/5/data?sig=x%2B HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nHost: 127.0.0.1:{port}\r\n")), "{head}");
}

fn s3(place: &str, variables: &'static [(&str, &str)]) -> Result<ObjectStore, String> {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    ObjectStore::of_s3(place, &variable)
}

#[test]
fn buckets_are_paths_of_an_endpoint_and_requests_are_signed() {
    let store = s3("birds/a b+c/", &[]).unwrap();
    assert_eq!((store.server.host.as_str(), store.server.port), ("s3.us-east-1.amazonaws.com", 443));
    assert_eq!(store.address_of("5/data"), "s3://birds/a b+c/5/data");
    let request = store.request("5/data");
    assert!(request.starts_with("GET /birds/a%20b%2Bc/5/data HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("Authorization"), "a public bucket");
    let keys = &[
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "token"),
        ("AWS_REGION", "eu-west-3"),
        ("AWS_ENDPOINT_URL", "http://[::1]:9000/minio/"),
    ];
    let store = s3("birds", keys).unwrap();
    assert_eq!((store.server.host.as_str(), store.server.port, store.server.has_tls), ("::1", 9000, false));
    let request = store.request("5/data");
    assert!(request.starts_with("GET /minio/birds/5/data HTTP/1.1\r\nHost: [::1]:9000\r\n"), "{request}");
    for part in [
        "\r\nx-amz-security-token: token\r\n",
        "/eu-west-3/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, ",
        "\r\nAuthorization: AWS4-HMAC-SHA256 Credential=id/",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
    assert!(!request.contains("secret"));
}

#[test]
fn addresses_that_are_none_are_told() {
    for url in
        ["http://", "http:///x", "https://h:port/", "http://h:70000/", "http://h/a b", "http://u@h/", "http://[::1/x"]
    {
        assert!(ObjectStore::of_url(url).is_err(), "{url}");
    }
    for place in ["", "/x", "a?b", "a b/x"] {
        assert!(s3(place, &[]).is_err(), "{place}");
    }
    assert!(s3("b", &[("AWS_ACCESS_KEY_ID", "id")]).is_err(), "half of a key");
    assert!(s3("b", &[("AWS_ENDPOINT_URL", "ftp://h")]).is_err());
    assert!(s3("b", &[("AWS_REGION", "a\r\nX: y")]).is_err());
    assert!(ObjectStore::named("/var/lib/base").is_none() && ObjectStore::named("s3:x").is_none());
    let (port, _) = answer(b"");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_ne!(port, nobody);
    let store = ObjectStore::of_url(&format!("http://127.0.0.1:{nobody}/")).unwrap();
    let error = store.get("5/data", &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_server_with_tls_has_to_be_certified_for_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (trusted, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&trusted, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let other = dir.path().join("other.pem");
    std::fs::write(&other, rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem())
        .unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    for (host, trusted, is_right) in
        [("localhost", &trusted, true), ("127.0.0.1", &trusted, false), ("localhost", &other, false)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::clone(&config);
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let connection = rustls::ServerConnection::new(config).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            if stream.read(&mut [0; 4096]).is_ok() {
                _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncolibri");
                _ = stream.flush();
            }
        });
        let mut store = ObjectStore::of_url(&format!("https://{host}:{port}/b")).unwrap();
        store.trusted = Some(trusted.clone());
        let mut object = Vec::new();
        let told = store.get("5/data", &mut object);
        assert_eq!(told.is_ok(), is_right, "{host}: {told:?}");
        assert_eq!(object == b"colibri", is_right);
        drop(told);
        server.join().unwrap();
    }
}
