//! Roles, passwords, TLS.

use std::io::{Read, Write};
use std::path::Path;

use super::support::{Server, Wire};

/// A certificate and its key, as `NAME.crt` and `NAME.key`.
fn certificate(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let base = dir.join("server");
    std::fs::write(base.with_extension("crt"), made.cert.pem()).unwrap();
    std::fs::write(base.with_extension("key"), made.signing_key.serialize_pem()).unwrap();
    base.to_str().unwrap().to_owned()
}

fn with_password(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "right\nanother line\n").unwrap();
    let mut all = vec![("auth", "scram-sha-256"), ("password", file.to_str().unwrap())];
    all.extend_from_slice(options);
    let server = Server::start(&dir.path().join("server"), &all);
    (dir, server)
}

/// Runs psql; what it says, or the error.
fn psql(server: &Server, conninfo: &str, password: &str) -> Option<Result<String, String>> {
    let conninfo =
        format!("host=localhost hostaddr=127.0.0.1 port={} dbname=postgres {conninfo}", server.address.port());
    let args = ["-X", "-At", "-c", "SELECT current_user", &conninfo];
    let run = std::process::Command::new("psql").args(args).env("PGPASSWORD", password).output();
    let Ok(run) = run else {
        eprintln!("SKIPPED: psql is not installed");
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Some(if run.status.success() { Ok(text(&run.stdout)) } else { Err(text(&run.stderr)) })
}

#[test]
fn a_server_that_others_can_reach_does_not_start_without_passwords() {
    let dir = tempfile::tempdir().unwrap();
    let log = Server::try_start(dir.path(), &[("listen", "0.0.0.0:0")]).err().unwrap();
    assert!(log.contains("can be reached from elsewhere"), "{log}");
    Server::start(dir.path(), &[("listen", "0.0.0.0:0"), ("auth", "trust")]);
}

#[test]
fn roles_that_are_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let error = server.connect_as("nobody-by-this-name", "postgres").err().unwrap();
    assert_eq!(error.code(), "28000");
    let error = Wire::connect(server.address, &[("database", "postgres")]).err().unwrap();
    assert_eq!(error.code(), "28000");
    super::support::until("it is logged", || server.log().contains("refused"));
}

#[test]
fn psql_logs_in_with_the_right_password_only() {
    let (_dir, server) = with_password(&[]);
    let Some(right) = psql(&server, "user=postgres", "right") else { return };
    assert_eq!(right.unwrap(), "postgres");
    let wrong = psql(&server, "user=postgres", "wrong").unwrap().unwrap_err();
    // Nothing tells a name that is not there from a password that is wrong.
    let nobody = psql(&server, "user=nobody-by-this-name", "wrong").unwrap().unwrap_err();
    let without_name = |text: &str| text.replace("nobody-by-this-name", "postgres");
    assert_eq!(without_name(&wrong), without_name(&nobody));
    assert!(wrong.contains("password authentication failed for user \"postgres\""), "{wrong}");
    assert!(!server.log().contains("right"), "{}", server.log());
}

#[test]
fn psql_binds_its_login_to_the_encrypted_connection() {
    let files = tempfile::tempdir().unwrap();
    let base = certificate(files.path());
    let (_dir, server) = with_password(&[("tls", &base)]);
    for conninfo in ["sslmode=require", "sslmode=require channel_binding=require", "sslmode=disable"] {
        let Some(run) = psql(&server, &format!("user=postgres {conninfo}"), "right") else { return };
        assert_eq!(run.unwrap(), "postgres", "{conninfo}");
    }
    let verified = format!("user=postgres sslmode=verify-full sslrootcert={base}.crt");
    assert_eq!(psql(&server, &verified, "right").unwrap().unwrap(), "postgres");
    let wrong = psql(&server, "user=postgres sslmode=require channel_binding=require", "wrong").unwrap().unwrap_err();
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    // Without encryption there is nothing to bind to.
    psql(&server, "user=postgres sslmode=disable channel_binding=require", "right").unwrap().unwrap_err();
    // Certificates are read again when asked.
    let old = std::fs::read(format!("{base}.crt")).unwrap();
    certificate(files.path());
    server.signal("-HUP");
    super::support::until("the new certificate is used", || server.log().contains("reloaded"));
    assert_eq!(psql(&server, &verified, "right").unwrap().unwrap(), "postgres");
    std::fs::write(format!("{base}.crt"), old).unwrap();
    psql(&server, &verified, "right").unwrap().unwrap_err();
}

#[test]
fn what_is_sent_before_encryption_is_not_taken_for_what_comes_after() {
    let files = tempfile::tempdir().unwrap();
    let (_dir, server) = with_password(&[("tls", &certificate(files.path()))]);
    let mut stream = Wire::open(server.address);
    let mut bytes = 8_i32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_103_i32.to_be_bytes());
    bytes.extend_from_slice(&super::support::startup(&[("user", "postgres")]));
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert_eq!(answer[0], b'S');
    assert!(answer.windows(5).any(|window| window == b"08P01"), "{answer:?}");
    assert!(!answer.windows(5).any(|window| window == b"\0\0\0\x0a" as &[u8]), "no login is begun");
}

#[test]
fn bytes_that_are_no_tls_end_the_connection() {
    let files = tempfile::tempdir().unwrap();
    let (_dir, server) = with_password(&[("tls", &certificate(files.path())), ("login_ms", "500")]);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], b"\x16\x03\x01"] {
        let mut stream = Wire::open(server.address);
        let mut bytes = 8_i32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&80_877_103_i32.to_be_bytes());
        stream.write_all(&bytes).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        _ = stream.write_all(garbage);
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest);
    }
    assert!(!server.log().contains("panic"), "{}", server.log());
    assert!(psql(&server, "user=postgres sslmode=require", "right").is_none_or(|run| run.is_ok()));
}
