//! Bytes that are no protocol, clients that vanish in every state, cancellations at any moment: the
//! server goes on, and loses nothing that it has acknowledged.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use super::support::{Server, Wire, startup, until};

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("message_bytes", "1000000")]);
    (dir, server)
}

fn seeded() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

/// Checks that the server is well, and that no session is left.
fn check_well(server: &Server) {
    assert!(!server.log().contains("panic"), "{}", server.log());
    let mut wire = server.connect();
    assert_eq!(wire.value("SELECT 1"), "1");
    drop(wire);
    let sockets = || {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    // Its listener, and the ends at which signals and their senders are.
    until("all sockets are closed", || sockets() <= 8);
}

/// A message of some kind with some body, mostly one that makes sense.
fn message(random: &mut fastrand::Rng) -> Vec<u8> {
    let bodies: [(u8, &[u8]); 18] = [
        (b'Q', b"SELECT 1\0"),
        (b'Q', b"BEGIN\0"),
        (b'Q', b"INSERT INTO t VALUES (1); SELECT 1/0\0"),
        (b'Q', b"COPY t FROM STDIN\0"),
        (b'Q', b"COPY t TO STDOUT (FORMAT binary)\0"),
        (b'P', b"s\0SELECT $1::int + a FROM t\0\0\0"),
        (b'P', b"\0INSERT INTO t VALUES ($1)\0\0\x01\0\0\0\x17"),
        (b'B', b"\0s\0\0\0\0\x01\0\0\0\x011\0\0"),
        (b'B', b"p\0\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x07\0\x01\0\x01"),
        (b'D', b"Ss\0"),
        (b'D', b"P\0"),
        (b'E', b"\0\0\0\0\0"),
        (b'E', b"p\0\0\0\0\x01"),
        (b'C', b"Ss\0"),
        (b'S', b""),
        (b'H', b""),
        (b'd', b"1\n2\n"),
        (b'c', b""),
    ];
    let (mut kind, body) = *random.choice(&bodies).unwrap();
    let mut body = body.to_vec();
    if random.u8(..6) == 0 && !body.is_empty() {
        let at = random.usize(..body.len());
        body[at] = random.u8(..);
    }
    if random.u8(..12) == 0 {
        body.truncate(random.usize(..=body.len()));
    }
    if random.u8(..40) == 0 {
        kind = random.u8(..);
    }
    let mut length = body.len() as i32 + 4;
    if random.u8(..60) == 0 {
        length = random.i32(..);
    }
    let mut message = vec![kind];
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(&body);
    message
}

#[test]
fn hostile_bytes_harm_nobody_but_who_sends_them() {
    let (_dir, server) = server();
    let mut bystander = server.connect();
    bystander.run("CREATE TABLE t (a int)");
    let mut random = seeded();
    let rounds = if cfg!(debug_assertions) { 300 } else { 3_000 };
    for round in 0..rounds {
        let mut stream = Wire::open(server.address);
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut bytes = match random.u8(..4) {
            0 => (0..random.usize(..200)).map(|_| random.u8(..)).collect(),
            1 => {
                let mut packet = startup(&[("user", "postgres")]);
                let at = random.usize(..packet.len());
                packet[at] = random.u8(..);
                packet
            }
            _ => startup(&[("user", "postgres")]),
        };
        for _ in 0..random.usize(..30) {
            bytes.extend(message(&mut random));
        }
        // In one piece or in many; with an end or without.
        let pieces = if random.bool() { bytes.len().max(1) } else { random.usize(1..40) };
        for piece in bytes.chunks(pieces) {
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        match random.u8(..4) {
            0 => {}
            1 => _ = stream.shutdown(Shutdown::Write),
            _ => _ = stream.read(&mut [0; 1_000]),
        }
        if round % 50 == 0 {
            assert_eq!(bystander.value("SELECT 1"), "1");
        }
    }
    drop(bystander);
    check_well(&server);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let (_dir, server) = server();
    let mut keeper = server.connect();
    keeper.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 1000)");
    let states: [&dyn Fn(&mut Wire); 9] = [
        &|_| {},
        &|wire| _ = wire.run("BEGIN; UPDATE t SET a = -1 WHERE a = 1"),
        &|wire| _ = wire.put(b'Q', b"SELECT count(*) FROM generate_series(1, 1000000000000)\0").flush(),
        &|wire| _ = wire.put(b'Q', b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)\0").flush(),
        &|wire| _ = wire.put(b'Q', b"COPY t FROM STDIN\0").put(b'd', b"-5\n-6\n").flush(),
        &|wire| _ = wire.put_raw(b"d\0\0\xff\xff-5\n").flush(),
        &|wire| _ = wire.parse("s", "SELECT * FROM t").bind("p", "s", &[]).execute("p", 10).put(b'H', b"").flush(),
        &|wire| _ = wire.put(b'Q', b"BEGIN; DELETE FROM t; SELECT pg_sleep(0)\0").flush(),
        &|wire| _ = wire.put_raw(b"Q\0\0").flush(),
    ];
    for round in 0..4 {
        for state in states {
            let mut wire = server.connect();
            state(&mut wire);
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            if round >= 2 {
                wire.stream().shutdown(Shutdown::Write).unwrap();
            }
        }
    }
    keeper.run("SET lock_timeout = '20s'; UPDATE t SET a = a WHERE a = 1");
    assert_eq!(keeper.value("SELECT count(*) FROM t"), "1000");
    assert_eq!(keeper.value("SELECT min(a) FROM t"), "1");
    drop(keeper);
    check_well(&server);
}

#[test]
fn cancellations_at_any_moment_lose_no_commit_and_make_none() {
    let (_dir, server) = server();
    server.connect().run("CREATE TABLE t (a int PRIMARY KEY)");
    let mut random = seeded();
    let mut wire = server.connect();
    let (pid, key, address) = (wire.pid, wire.key.clone(), server.address);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let canceller = std::thread::spawn({
        let (stop, mut random) = (std::sync::Arc::clone(&stop), random.fork());
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(random.u64(..3_000)));
                super::support::cancel(address, pid, &key);
            }
        }
    });
    let mut acknowledged = Vec::new();
    let (mut cancelled, mut doubtful) = (0, Vec::new());
    for value in 0..400 {
        let sql = if random.bool() {
            format!("INSERT INTO t VALUES ({value})")
        } else {
            format!("INSERT INTO t SELECT {value} FROM (SELECT count(*) FROM generate_series(1, 20000)) g")
        };
        match wire.query(&sql) {
            Ok(_) => acknowledged.push(value.to_string()),
            Err(error) => {
                assert_eq!(error.code(), "57014", "{error:?}");
                cancelled += 1;
                doubtful.push(value.to_string());
            }
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    canceller.join().unwrap();
    let rows = server.connect().run("SELECT a FROM t ORDER BY a").rows;
    let there: std::collections::HashSet<_> = rows.into_iter().map(|row| row[0].clone().unwrap()).collect();
    assert!(acknowledged.iter().all(|value| there.contains(value)));
    assert!(doubtful.iter().all(|value| !there.contains(value)));
    println!("{} acknowledged, {cancelled} cancelled", acknowledged.len());
    assert!(cancelled > 0);
    check_well(&server);
}

#[test]
fn thousands_of_connections_come_and_go() {
    let (_dir, server) = server();
    let come_and_go = |rounds| {
        for round in 0..rounds {
            if round % 3 == 0 {
                drop(Wire::open(server.address));
            } else {
                server.connect();
            }
        }
        check_well(&server);
        server.status("VmRSS")
    };
    // Bug: this test compared with the first connection, after which all that a process keeps is
    // still to come: arenas of the allocator for each thread, the pages of its own program. That is
    // about the 8 MB that it allowed. Fix: a first thousand comes and goes before.
    let before = come_and_go(1_000);
    let grown_kb = come_and_go(if cfg!(debug_assertions) { 1_000 } else { 10_000 }).saturating_sub(before);
    assert!(grown_kb < 2 << 10, "{grown_kb} kB more");
}

#[test]
fn connections_that_say_half_of_something_are_let_go_of() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("login_ms", "300"), ("connections", "20")]);
    let mut bystander = server.connect();
    // More connections than may log in: those that have not logged in do not count.
    let mut half: Vec<_> = (0..60).map(|_| Wire::open(server.address)).collect();
    let packet = startup(&[("user", "postgres")]);
    for (at, stream) in half.iter_mut().enumerate() {
        _ = stream.write_all(&packet[..at % packet.len()]);
    }
    assert_eq!(bystander.value("SELECT 1"), "1");
    for stream in &mut half {
        // Without a word, and in time.
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest[0] == b'E', "{rest:?}");
    }
    drop((half, bystander));
    check_well(&server);
}

#[test]
fn clients_that_vanish_in_a_pipeline_or_a_cursor_lose_what_was_not_committed_and_nothing_else() {
    let (_dir, server) = server();
    let mut keeper = server.connect();
    keeper.run("CREATE TABLE t (a int PRIMARY KEY)");
    let mut random = seeded();
    for round in 0..60 {
        let mut wire = server.connect();
        wire.parse("i", "INSERT INTO t VALUES ($1)");
        // Whole transactions, then one that never ends.
        for at in 0..3 {
            wire.bind("", "i", &[&(round * 100 + at).to_string()]).execute("", 0).sync();
        }
        wire.bind("", "i", &[&(round * 100 + 50).to_string()]).execute("", 0);
        wire.bind("", "i", &[&(round * 100 + 51).to_string()]).execute("", 0).put(b'H', b"");
        match random.u8(..3) {
            0 => _ = wire.flush(),
            1 => {
                wire.flush();
                for _ in 0..3 {
                    wire.answer().unwrap();
                }
            }
            _ => {
                wire.flush().stream().shutdown(Shutdown::Write).unwrap();
            }
        }
    }
    for _ in 0..20 {
        let mut wire = server.connect();
        wire.run("BEGIN; DECLARE c CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 1000000)");
        wire.put(b'Q', b"FETCH ALL FROM c\0").flush();
    }
    keeper.run("SET lock_timeout = '20s'");
    // Nothing of the transactions that have not ended is there or locked.
    assert_eq!(keeper.value("SELECT count(*) FROM t WHERE a % 100 >= 50"), "0");
    keeper.run("INSERT INTO t SELECT r * 100 + 50 FROM generate_series(0, 59) r");
    keeper.run("INSERT INTO t SELECT r * 100 + 51 FROM generate_series(0, 59) r");
    // What was sent whole is there whole, unless the connection was gone before it was read.
    let rows = keeper.run("SELECT a / 100, count(*) FROM t WHERE a % 100 < 50 GROUP BY 1").rows;
    assert!(rows.iter().all(|row| ["1", "2", "3"].contains(&row[1].as_deref().unwrap())), "{rows:?}");
    drop(keeper);
    check_well(&server);
}
