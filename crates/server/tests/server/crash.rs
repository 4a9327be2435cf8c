//! kill -9 under load: what was acknowledged is there at the next start, and nothing is there by
//! halves.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::support::{Message, Server, Wire};

const CLIENTS: usize = 4;

/// A query on a connection that may break: true if it was acknowledged.
pub(crate) fn acknowledged(stream: &mut TcpStream, sql: &str) -> bool {
    let mut message = vec![b'Q'];
    message.extend_from_slice(&(sql.len() as i32 + 5).to_be_bytes());
    message.extend_from_slice(sql.as_bytes());
    message.push(0);
    if stream.write_all(&message).is_err() {
        return false;
    }
    let mut is_done = false;
    loop {
        let mut header = [0; 5];
        if stream.read_exact(&mut header).is_err() {
            return false;
        }
        let mut body = vec![0; i32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4];
        if stream.read_exact(&mut body).is_err() {
            return false;
        }
        match header[0] {
            b'C' => is_done = true,
            b'E' => is_done = false,
            b'Z' => return is_done,
            _ => {}
        }
    }
}

/// Transfers between accounts, each noted in a history, until the server dies. The last
/// acknowledged one of each client.
///
/// One client in two sends a transaction as one text, which the server may run again by itself; the
/// others send statement by statement, as pgbench does.
fn load(server: &Server, round: usize) -> Vec<std::thread::JoinHandle<u64>> {
    let address = server.address;
    (0..CLIENTS)
        .map(|client| {
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed((round * CLIENTS + client) as u64);
                let Ok(wire) = Wire::connect(address, &[("user", "postgres")]) else { return 0 };
                let mut stream = wire.stream().try_clone().unwrap();
                let mut last = 0;
                loop {
                    let (from, to, next) = (random.u32(1..=20), random.u32(1..=20), last + 1);
                    let steps = [
                        "BEGIN".to_owned(),
                        format!("UPDATE accounts SET balance = balance - 1 WHERE id = {from}"),
                        format!("SELECT balance FROM accounts WHERE id = {from}"),
                        format!("UPDATE accounts SET balance = balance + 1 WHERE id = {to}"),
                        format!("INSERT INTO history VALUES ({round}, {client}, {next})"),
                        "COMMIT".to_owned(),
                    ];
                    let is_done = match client % 2 {
                        0 => acknowledged(&mut stream, &steps.join("; ")),
                        _ => steps.iter().all(|step| acknowledged(&mut stream, step)),
                    };
                    if is_done {
                        last = next;
                    } else if stream.peer_addr().is_err() || !acknowledged(&mut stream, "ROLLBACK") {
                        return last;
                    }
                }
            })
        })
        .collect()
}

fn crashes(rounds: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::new();
    let mut server = Server::start(dir.path(), &[]);
    let mut setup = server.connect();
    setup.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int)");
    setup.run("CREATE TABLE history (round int, client int, number int, PRIMARY KEY (round, client, number))");
    setup.run("INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 20) n");
    drop(setup);
    let known: Arc<Mutex<HashMap<(usize, usize), u64>>> = Arc::default();
    let mut total = 0;
    for round in 0..rounds {
        let clients = load(&server, round);
        std::thread::sleep(Duration::from_millis(random.u64(5..250)));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        for (client, last) in clients.into_iter().enumerate() {
            let last = last.join().unwrap();
            total += last;
            known.lock().unwrap().insert((round, client), last);
        }
        server = Server::start(dir.path(), &[]);
        let mut check = server.connect();
        assert_eq!(check.value("SELECT sum(balance) FROM accounts"), "0", "round {round}");
        let found = check.run("SELECT round, client, max(number), count(*) FROM history GROUP BY round, client").rows;
        let found: HashMap<(usize, usize), (u64, u64)> = found
            .into_iter()
            .map(|row| {
                let number = |at: usize| row[at].as_ref().unwrap().parse::<u64>().unwrap();
                ((number(0) as usize, number(1) as usize), (number(2), number(3)))
            })
            .collect();
        for (key, &last) in known.lock().unwrap().iter() {
            let (newest, count) = found.get(key).copied().unwrap_or_default();
            // One more may have committed without anybody being told.
            assert!(newest == last || newest == last + 1, "{key:?}: {last} acknowledged, {newest} found");
            assert_eq!(newest, count, "{key:?}: none is missing in between");
        }
    }
    println!("{rounds} crashes, {total} acknowledged transactions");
    assert!(total > 0);
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    crashes(4);
}

#[test]
#[ignore = "minutes; the nightly form"]
fn what_was_acknowledged_survives_hundreds_of_kill_9() {
    crashes(300);
}

#[test]
fn an_answer_is_one_write_however_many_messages_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut wire = server.connect();
    wire.parse("s", "SELECT a FROM generate_series(1, 3) AS g (a) WHERE a < $1").sync().flush().answer().unwrap();
    let calls = || {
        let text = std::fs::read_to_string(format!("/proc/{}/io", server.pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap();
        line.parse::<u64>().unwrap()
    };
    let before = calls();
    for _ in 0..100 {
        wire.bind("", "s", &["3"]).put(b'D', b"P\0").execute("", 0).sync().flush();
        while wire.receive().unwrap() != (Message { kind: b'Z', body: b"I".to_vec() }) {}
    }
    // Sockets are written to by calls that are not counted on every kernel; if they are, it is one
    // an answer.
    let made = calls() - before;
    assert!(made <= 110, "{made} writes for 100 answers");
}
