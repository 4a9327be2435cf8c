//! Sessions when the leadership of their database moves: they go on, and their clients see no error.
//! Writes that reach a standby.

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Client, Etcd, Node, not_run, program, until};
use crate::{SOON, expect, sorted};

/// A statement that waits for a hand-over waits no longer than this on a busy machine. The goal is
/// half a second.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Has a node lead a database, as soon as that node is near enough to the log's end.
fn move_to(etcd: &Etcd, node: &Node) {
    until("the home is near enough", SOON, || etcd.cluster(&["move", "postgres", &node.name]).ok());
}

/// The port that a session is served at.
fn port(client: &mut Client) -> u16 {
    client.rows("SHOW port")[0].parse().unwrap()
}

/// Writers that insert what nobody else does, until they are told to end. Gives what was
/// acknowledged, and the longest statement. An error fails the test.
fn write_while(clients: Vec<Client>, what: impl FnOnce()) -> (Vec<String>, Duration) {
    static NEXT: AtomicU64 = AtomicU64::new(1_000);
    /// However `what` ends, the writers end.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let writers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let (mut acknowledged, mut longest) = (Vec::new(), Duration::ZERO);
                    for number in 0.. {
                        let x = NEXT.fetch_add(1, Ordering::Relaxed);
                        let began = Instant::now();
                        // By both protocols, with and without blocks.
                        match number % 3 {
                            0 => _ = client.rows(&format!("INSERT INTO t VALUES ({x})")),
                            1 => _ = client.parse_and_execute(&format!("INSERT INTO t VALUES ({x})")).unwrap(),
                            _ => {
                                client.rows("BEGIN");
                                client.rows(&format!("INSERT INTO t VALUES ({x})"));
                                client.rows("COMMIT");
                            }
                        }
                        longest = longest.max(began.elapsed());
                        acknowledged.push(x.to_string());
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    (acknowledged, longest)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        what();
        std::thread::sleep(Duration::from_millis(300));
        drop(over);
        let done: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let longest = done.iter().map(|(_, longest)| *longest).max().unwrap();
        (done.into_iter().flat_map(|(acknowledged, _)| acknowledged).collect(), longest)
    })
}

#[test]
fn a_planned_hand_over_is_no_error_of_any_session_and_a_short_wait() {
    let Some(etcd) = Etcd::start("a_planned_hand_over_is_no_error_of_any_session_and_a_short_wait", &[]) else {
        return;
    };
    let nodes = ["n1", "n2", "n3"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut first = leader.connect("postgres");
    first.rows("CREATE TABLE t (x bigint PRIMARY KEY); CREATE SEQUENCE s");
    for node in &standbys {
        expect(node, "postgres", "SELECT count(*) FROM t", &["0"]);
    }
    // What a session is goes with it.
    let mut idle = leader.connect("postgres");
    idle.rows("SET application_name = 'idle one'; SET timezone = 'Asia/Tokyo'; SET my.own = 'mine'");
    idle.rows("PREPARE p (int) AS SELECT $1 + (SELECT count(*) * 0 FROM t)");
    idle.prepare("q", "SELECT current_setting('application_name')").unwrap();
    idle.prepare("c", "COPY t TO STDOUT").unwrap();
    idle.rows("SELECT nextval('s')");
    let (mut total, mut leads) = (0, leader);
    // To each node, and back to where the clients are connected.
    for (node, expected_next) in [standbys[0], standbys[1], leader, standbys[1]].into_iter().zip(2..) {
        let clients = (0..4).map(|_| leads.connect("postgres")).collect();
        let mut open = leads.connect("postgres");
        leads = node;
        let (acknowledged, longest) = write_while(clients, || {
            // A transaction that is open when the hand-over begins ends as it would.
            open.rows("BEGIN; INSERT INTO t VALUES (1)");
            std::thread::scope(|scope| {
                let moving = scope.spawn(|| move_to(&etcd, node));
                std::thread::sleep(Duration::from_millis(100));
                open.rows("DELETE FROM t WHERE x = 1");
                open.rows("COMMIT");
                moving.join().unwrap();
            });
        });
        println!("to {}: {} acknowledged, the longest took {longest:?}", node.name, acknowledged.len());
        assert!(longest < WAIT_MAX, "{longest:?}");
        total += acknowledged.len();
        assert_eq!(etcd.leader("postgres").as_deref(), Some(&*node.name));
        assert_eq!(idle.execute("q").unwrap(), ["idle one"]);
        assert_eq!(port(&mut idle), node.port, "it is served by the leader");
        assert_eq!(idle.rows("EXECUTE p (6)"), ["6"]);
        assert_eq!(idle.rows("SHOW timezone"), ["Asia/Tokyo"]);
        assert_eq!(idle.rows("SELECT current_setting('my.own')"), ["mine"]);
        assert_eq!(idle.rows("SELECT currval('s')"), [(expected_next - 1).to_string()]);
        assert_eq!(idle.rows("SELECT nextval('s')"), [expected_next.to_string()], "no value is skipped");
        assert_eq!(idle.reported("in_hot_standby"), "off");
        idle.execute("c").unwrap();
        assert_eq!(open.rows("SELECT count(*) FROM t WHERE x = 1"), ["0"]);
        assert_eq!(idle.rows("SELECT count(*) FROM t"), [total.to_string()], "no commit is lost or doubled");
        let listed = idle.rows("SELECT count(*) FROM pg_prepared_statements");
        assert_eq!(listed, ["2"], "COPY is not listed");
    }
    for node in &nodes {
        expect(node, "postgres", "SELECT count(*) FROM t", &[&total.to_string()]);
    }
}

#[test]
fn a_statement_that_another_node_runs_is_cancelled_where_its_client_is() {
    let Some(etcd) = Etcd::start("a_statement_that_another_node_runs_is_cancelled_where_its_client_is", &[]) else {
        return;
    };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut client = leader.connect("postgres");
    client.rows("CREATE TABLE t (x int)");
    expect(standbys[0], "postgres", "SELECT count(*) FROM t", &["0"]);
    move_to(&etcd, standbys[0]);
    assert_eq!(port(&mut client), standbys[0].port);
    let cancel = client.canceller();
    let cancelling = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel();
    });
    let began = Instant::now();
    assert_eq!(client.code("SELECT pg_sleep(60)"), "57014");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    cancelling.join().unwrap();
    // Large answers and requests pass, too.
    let long = "x".repeat(3_000_000);
    assert_eq!(client.rows(&format!("SELECT length('{long}')")), ["3000000"]);
    assert_eq!(client.rows("SELECT repeat('y', 2000000)")[0].len(), 2_000_000);
    assert_eq!(
        client.rows("SELECT count(*) FROM (SELECT repeat('z', 1000) FROM generate_series(1, 5000)) r"),
        ["5000"]
    );
    assert_eq!(client.rows("SELECT repeat('z', 1000) FROM generate_series(1, 5000)").len(), 5000);
    // The leader's `pg_stat_activity` shows the client's own address, not that of the relaying node.
    let seen = standbys[0].query("postgres", "SELECT count(*) FROM pg_stat_activity WHERE client_addr = '127.0.0.1'");
    assert!(seen[0].parse::<u32>().unwrap() >= 2, "{seen:?}");
}

#[test]
fn sessions_that_cannot_move_stay_as_a_standbys_or_end() {
    let Some(etcd) = Etcd::start("sessions_that_cannot_move_stay_as_a_standbys_or_end", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut locks = leader.connect("postgres");
    locks.rows("CREATE TABLE t AS SELECT 1 AS x; SELECT pg_advisory_lock(7)");
    let mut holds = leader.connect("postgres");
    holds.rows("DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 3)");
    let mut listens = leader.connect("postgres");
    listens.rows("LISTEN news");
    let mut never_ends = leader.connect("postgres");
    never_ends.rows("BEGIN; INSERT INTO t VALUES (9)");
    expect(standbys[0], "postgres", "SELECT count(*) FROM t", &["1"]);
    // What an administrator asks for happens after a while, whatever is open.
    let began = Instant::now();
    move_to(&etcd, standbys[0]);
    assert!(began.elapsed() > Duration::from_secs(5), "it waits for transactions: {:?}", began.elapsed());
    assert_eq!(never_ends.code("COMMIT"), "57P01");
    let told = locks.run("SELECT 1").unwrap_err();
    assert_eq!(told.code, "57P01", "others may have its locks");
    assert!(told.message.contains("another server leads") && told.detail.contains("advisory locks"), "{told:?}");
    let told = listens.run("SELECT 1").unwrap_err();
    assert_eq!(told.code, "57P01", "it would miss notifications");
    assert!(told.message.contains("another server leads") && told.detail.contains("LISTEN"), "{told:?}");
    assert_eq!(holds.rows("FETCH 2 FROM c"), ["1", "2"]);
    assert_eq!(port(&mut holds), leader.port);
    assert_eq!(holds.code("INSERT INTO t VALUES (2)"), "25006");
    assert_eq!(holds.reported("in_hot_standby"), "on");
    assert_eq!(holds.rows("FETCH ALL FROM c"), ["3"]);
    assert_eq!(standbys[0].query("postgres", "SELECT x FROM t"), ["1"]);
}

/// A session with temporary objects stays where these are. They are as they were, to be read and
/// written; it is told that it is a standby's.
#[test]
fn temporary_objects_are_usable_as_before_when_another_node_leads() {
    let Some(etcd) = Etcd::start("temporary_objects_are_usable_as_before_when_another_node_leads", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut client = leader.connect("postgres");
    client.rows("CREATE TABLE t (x int); INSERT INTO t VALUES (1)");
    expect(standbys[0], "postgres", "SELECT x FROM t", &["1"]);
    client.rows("CREATE TEMP TABLE mine (id serial PRIMARY KEY, x int UNIQUE, y text DEFAULT 'd')");
    client.rows("CREATE TEMP TABLE plain (x int); INSERT INTO plain VALUES (1), (2)");
    client.rows("CREATE TEMP VIEW seen AS SELECT x FROM mine WHERE x > 1");
    client.rows("CREATE TEMP SEQUENCE s; SELECT nextval('s')");
    client.rows("INSERT INTO mine (x) VALUES (1), (2), (3)");
    client.rows("PREPARE p (int) AS INSERT INTO mine (x) VALUES ($1)");
    client.rows("DECLARE c CURSOR WITH HOLD FOR SELECT x FROM mine ORDER BY x");
    client.prepare("q", "SELECT count(*) FROM mine, t").unwrap();
    move_to(&etcd, standbys[0]);
    assert_eq!(client.rows("SELECT x FROM mine ORDER BY x"), ["1", "2", "3"]);
    assert_eq!((client.reported("in_hot_standby"), client.reported("default_transaction_read_only")), ("on", "on"));
    assert_eq!(port(&mut client), leader.port);
    client.rows("INSERT INTO mine (x) VALUES (4)");
    client.rows("EXECUTE p (5)");
    client.rows("INSERT INTO plain SELECT x FROM t");
    assert_eq!(client.rows("SELECT count(*) FROM plain"), ["3"], "no row was overwritten");
    assert_eq!(client.rows("SELECT max(id) FROM mine"), ["5"]);
    assert_eq!(client.code("INSERT INTO mine (x) VALUES (5)"), "23505");
    client.rows("UPDATE mine SET y = 'changed' WHERE x = 2; DELETE FROM mine WHERE x = 1");
    assert_eq!(client.rows("SELECT x FROM seen ORDER BY x"), ["2", "3", "4", "5"]);
    assert_eq!(client.rows("SELECT nextval('s')"), ["2"]);
    assert_eq!(client.rows("FETCH ALL FROM c"), ["1", "2", "3"]);
    client.rows("BEGIN; INSERT INTO mine (x) VALUES (6); SAVEPOINT a; INSERT INTO mine (x) VALUES (7); ROLLBACK TO a");
    client.rows("COMMIT");
    assert_eq!(client.rows("SELECT max(x) FROM mine"), ["6"]);
    assert_eq!(client.execute("q").unwrap(), ["5"]);
    // As in any transaction that only reads, temporary objects are neither made nor dropped.
    for sql in ["TRUNCATE plain", "DROP TABLE plain", "CREATE TEMP TABLE more (x int)"] {
        assert_eq!(client.code(sql), "25006", "{sql}");
    }
    // What all sessions see is not written here, whatever it is written from.
    for sql in ["INSERT INTO t SELECT x FROM mine", "CREATE TABLE u AS TABLE mine", "SELECT FROM t FOR UPDATE"] {
        let told = client.run(sql).unwrap_err();
        assert_eq!(told.code, "25006", "{sql}");
        assert!(told.hint.contains(&standbys[0].port.to_string()), "{sql}: {}", told.hint);
    }
    // It follows the new leader, and leads again where that comes back.
    standbys[0].connect("postgres").rows("INSERT INTO t VALUES (2)");
    until("it follows", SOON, || (client.rows("SELECT count(*) FROM t") == ["2"]).then_some(()));
    move_to(&etcd, leader);
    until("it may write again", SOON, || client.run("INSERT INTO t SELECT x FROM mine").ok());
    assert_eq!(client.reported("in_hot_standby"), "off");
    assert_eq!(client.rows("SELECT count(*) FROM t"), ["7"]);
    assert_eq!(client.rows("SELECT count(*) FROM mine"), ["5"]);
}

#[test]
fn a_write_that_reaches_a_standby_goes_on_at_the_leader_if_that_is_wished() {
    let Some(etcd) = Etcd::start("a_write_that_reaches_a_standby_goes_on_at_the_leader_if_that_is_wished", &[]) else {
        return;
    };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &["--forward-writes"]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let standby = standbys[0];
    leader.connect("postgres").rows("CREATE TABLE t (x int)");
    expect(standby, "postgres", "SELECT count(*) FROM t", &["0"]);
    // Reads stay where they are, and the first write takes the whole connection along.
    type Write = fn(&mut Client);
    let writes: [(&str, Write); 7] = [
        ("simple", |client| _ = client.rows("INSERT INTO t VALUES (1)")),
        ("extended", |client| _ = client.parse_and_execute("INSERT INTO t VALUES (1)").unwrap()),
        ("named", |client| {
            client.prepare("w", "INSERT INTO t VALUES (1)").unwrap();
            client.execute("w").unwrap();
            client.execute("w").unwrap();
        }),
        ("several", |client| _ = client.rows("SELECT 7; INSERT INTO t VALUES (1); SELECT 8")),
        ("block", |client| {
            client.rows("BEGIN");
            assert_eq!(client.rows("SELECT count(*) FROM t WHERE x > 5"), ["0"]);
            client.rows("INSERT INTO t VALUES (1)");
            client.rows("COMMIT");
        }),
        ("definition", |client| _ = client.rows("CREATE TABLE IF NOT EXISTS u (x int)")),
        ("locks", |client| _ = client.rows("SELECT x FROM t FOR UPDATE")),
    ];
    let mut count = 0;
    for (what, write) in writes {
        let mut client = standby.connect("postgres");
        client.rows("SET application_name = 'forwarded'");
        assert_eq!(port(&mut client), standby.port, "{what}");
        client.rows("BEGIN READ ONLY");
        assert_eq!(client.rows("SELECT pg_is_in_recovery()"), ["t"]);
        client.rows("COMMIT");
        write(&mut client);
        assert_eq!(port(&mut client), leader.port, "{what}");
        assert_eq!(client.rows("SHOW application_name"), ["forwarded"], "{what}");
        assert_eq!(client.reported("in_hot_standby"), "off", "{what}");
        count += match what {
            "named" => 2,
            "definition" | "locks" => 0,
            _ => 1,
        };
        assert_eq!(client.rows("SELECT count(*) FROM t"), [count.to_string()], "{what}: its own writes are seen");
    }
    // An error of the statement itself is that error.
    let mut client = standby.connect("postgres");
    assert_eq!(client.code("INSERT INTO t VALUES (1/0)"), "22012");
    // Who wishes otherwise is refused with the leader's address, and so is a transaction that began here.
    let mut stays = standby.try_connect_with("postgres", "-c colibri.forward=off").unwrap();
    let told = stays.run("INSERT INTO t VALUES (1)").unwrap_err();
    assert!(told.code == "25006" && told.hint.contains(&leader.port.to_string()), "{told:?}");
    stays.rows("BEGIN");
    assert_eq!(stays.code("INSERT INTO t VALUES (1)"), "25006");
    stays.rows("ROLLBACK; SET colibri.forward = on");
    stays.rows("INSERT INTO t VALUES (1)");
    assert_eq!(port(&mut stays), leader.port);
    let mut locks = standby.connect("postgres");
    locks.rows("SELECT pg_advisory_lock(1)");
    assert_eq!(locks.code("INSERT INTO t VALUES (1)"), "25006", "its locks are here");
    assert_eq!(locks.rows("SELECT 1"), ["1"]);
    // When the leader dies, its sessions are told, and new ones find the next leader.
    let mut nodes = nodes;
    let (dead, alive) = if nodes[0].port == standby_port(&etcd, &nodes) { (1, 0) } else { (0, 1) };
    nodes[dead].kill();
    let code = stays.run("SELECT 1").unwrap_err().code;
    assert!(["57P03", "40003"].contains(&code.as_str()), "{code}");
    expect(&nodes[alive], "postgres", "INSERT INTO t VALUES (77) RETURNING x", &["77"]);
}

fn standby_port(etcd: &Etcd, nodes: &[Node]) -> u16 {
    sorted(etcd, "postgres", nodes).1[0].port
}

#[test]
fn the_end_of_a_leader_hands_over_first() {
    let Some(etcd) = Etcd::start("the_end_of_a_leader_hands_over_first", &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &["--grace", "10s"]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let (at, to) = (usize::from(leader.name == "n2"), standbys[0].name.clone());
    leader.connect("postgres").rows("CREATE TABLE t (x int PRIMARY KEY)");
    expect(standbys[0], "postgres", "SELECT count(*) FROM t", &["0"]);
    // A session of the standby that is forwarded to the one that ends goes on where it was.
    let mut forwarded = standbys[0].try_connect_with("postgres", "-c colibri.forward=on").unwrap();
    forwarded.rows("INSERT INTO t VALUES (-1)");
    assert_eq!(port(&mut forwarded), leader.port);
    let mut idle = leader.connect("postgres");
    let mut writer = leader.connect("postgres");
    nodes[at].signal("-TERM");
    let began = Instant::now();
    let (mut acknowledged, mut end) = (0, String::new());
    for x in 0..100_000 {
        match writer.run(&format!("INSERT INTO t VALUES ({x})")) {
            Ok(_) => acknowledged += 1,
            Err(told) => {
                end = told.code;
                break;
            }
        }
    }
    assert!(end == "57P01" || end.is_empty(), "{end}: between transactions, and certain");
    etcd.wait_leader("postgres", |leader| leader == to);
    let other = &nodes[1 - at];
    other.connect("postgres").rows("INSERT INTO t VALUES (-2)");
    println!("led by {to} {:?} after SIGTERM; {acknowledged} acknowledged meanwhile", began.elapsed());
    forwarded.rows("INSERT INTO t VALUES (-3)");
    assert_eq!(port(&mut forwarded), other.port);
    assert!(idle.run("SELECT 1").is_err());
    assert_eq!(other.query("postgres", "SELECT count(*) FROM t WHERE x >= 0"), [acknowledged.to_string()]);
    nodes[at].end();
    assert!(!nodes[at].log().contains("close_failed"), "{}", nodes[at].log());
    // It is the home, or not, when it is back: leaders spread again by themselves.
    nodes[at].start_again(&etcd, &[]);
    expect(&nodes[at], "postgres", "SELECT count(*) FROM t WHERE x < 0", &["3"]);
}

#[test]
fn forwarded_connections_are_encrypted_and_their_users_are_those_who_logged_in() {
    let test = "forwarded_connections_are_encrypted_and_their_users_are_those_who_logged_in";
    let (Some(psql), Some(openssl)) = (program("psql"), program("openssl")) else {
        return not_run(test, "psql or openssl is not installed");
    };
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let path = |name: &str| etcd.dir.path().join(name).to_string_lossy().into_owned();
    let (key, certificate, password) = (path("key"), path("certificate"), path("password"));
    let made = Command::new(openssl)
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    assert!(made.unwrap().status.success());
    std::fs::write(&password, "secret\n").unwrap();
    let arguments = ["--auth", "scram-sha-256", "--password-file", &password, "--tls-cert", &certificate];
    let arguments = [&arguments[..], &["--tls-key", &key]].concat();
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &arguments));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let run = |node: &Node, user: &str, sql: &[&str]| {
        let to = format!(
            "host=127.0.0.1 port={} user={user} dbname=postgres sslmode=require options='-c colibri.forward=on'",
            node.port
        );
        let mut command = Command::new(&psql);
        command.args(["-XAtq", &to, "-v", "ON_ERROR_STOP=1"]).env("PGPASSWORD", "secret");
        sql.iter().for_each(|sql| _ = command.args(["-c", sql]));
        let output = command.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert_eq!(run(leader, "postgres", &["CREATE TABLE t (x text DEFAULT current_user)"]), "");
    assert_eq!(run(leader, "postgres", &["CREATE ROLE bird LOGIN PASSWORD 'secret'; GRANT ALL ON t TO bird"]), "");
    until("the standby has it", SOON, || (run(standbys[0], "bird", &["TABLE t"]).is_empty()).then_some(()));
    let said =
        run(standbys[0], "bird", &["INSERT INTO t DEFAULT VALUES", "TABLE t", "SHOW port", "SELECT session_user"]);
    assert_eq!(said, format!("bird\n{}\nbird\n", leader.port));
    let said = run(standbys[0], "bird", &["DROP TABLE t"]);
    assert!(said.contains("must be owner"), "{said}");
    let said = run(standbys[0], "nobody", &["SELECT 1"]);
    assert!(said.contains("password authentication failed"), "{said}");
    // Without the secret of the cluster nobody gets a session that way.
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", leader.port)).unwrap();
    let mut packet = [&41_i32.to_be_bytes()[..], b"COLI", &[7; 32], b"F"].concat();
    stream.write_all(&packet).unwrap();
    let mut answer = [0; 65];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], b'R');
    packet.clear();
    packet.resize(32, 0);
    stream.write_all(&packet).unwrap();
    let mut said = Vec::new();
    _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.starts_with('E') && said.contains("does not know the secret"), "{said}");
}
