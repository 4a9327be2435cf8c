use super::*;

fn written(mantissa: i64, scale: u8) -> String {
    let mut out = BytesMut::new();
    push_decimal(&mut out, mantissa, scale);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn decimals_are_exact_both_ways() {
    for (mantissa, scale, text) in [
        (0, 0, "0"),
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (12_345, 2, "123.45"),
        (-100, 1, "-10.0"),
        (7, 0, "7"),
    ] {
        assert_eq!(written(mantissa, scale), text);
        assert_eq!(decimal(text.as_bytes()), Some(Cell::Decimal { mantissa, scale }));
    }
    let digits = i64::MAX.to_string();
    assert_eq!(decimal(digits.as_bytes()), Some(Cell::Decimal { mantissa: i64::MAX, scale: 0 }));
    for text in ["", "-", "1.2.3", "NaN", "1e5", "92233720368547758070"] {
        assert_eq!(decimal(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_parameter_that_does_not_fit_is_an_error_and_not_another_number() {
    let mut out = BytesMut::new();
    let values = Values::default();
    assert!(write_cell(Cell::Int(1 << 40), oid::INT4, &values, &mut out).is_err());
    assert!(write_cell(Cell::Decimal { mantissa: 5, scale: 2 }, oid::INT4, &values, &mut out).is_err());
    out.clear();
    assert!(write_cell(Cell::Int(-2), oid::INT2, &values, &mut out).is_ok());
    assert_eq!(out.to_vec(), (-2_i16).to_be_bytes());
}

/// A server that accepts every client and answers the first statement after this time. With
/// `is_alone` it serves no other connection meanwhile.
fn slow_server(dir: &std::path::Path, answers_after: Duration, is_alone: bool) -> Postgres {
    use std::io::{Read, Write};
    const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    const DONE: &[u8] = b"C\0\0\0\x0bVACUUM\0Z\0\0\0\x05I";
    let listener = std::os::unix::net::UnixListener::bind(dir.join(".s.PGSQL.5432")).unwrap();
    std::thread::spawn(move || {
        let let_in = || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut startup = [0; 1024];
            _ = stream.read(&mut startup);
            _ = stream.write_all(LET_IN);
            stream
        };
        let mut first = let_in();
        let others = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut statement = [0; 1024];
                _ = first.read(&mut statement);
                std::thread::sleep(answers_after);
                _ = first.write_all(DONE);
            });
            // The number of connections is unknown: it depends on the thread that is waited for.
            (0..if is_alone { 0 } else { 3 }).map(|_| let_in()).collect::<Vec<_>>()
        });
        drop(others);
    });
    let url = format!("postgres://x@/x?host={}", dir.display());
    Postgres::new(&url).unwrap().with_patience(Duration::from_millis(100))
}

#[test]
fn a_statement_may_take_as_long_as_it_needs_while_the_server_answers_others() {
    let dir = tempfile::tempdir().unwrap();
    let target = slow_server(dir.path(), Duration::from_millis(390), false);
    block_on(async {
        let mut session = target.connect(&[]).await.unwrap();
        let begun = std::time::Instant::now();
        session.query("VACUUM").await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300), "three times it was silent for as long as is allowed");
    });
}

/// Bug: nothing but transactions had a limit. Consequence: loading waited for ever for a server
/// that had stopped. Fix: silence has a limit, too, if no other connection is answered either.
#[test]
fn a_statement_fails_if_the_server_answers_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let target = slow_server(dir.path(), Duration::from_secs(3), true);
    block_on(async {
        let mut session = target.connect(&[]).await.unwrap();
        let begun = std::time::Instant::now();
        let failure = session.query("VACUUM").await.err().unwrap();
        assert!(failure.to_string().contains("the server hangs"), "{failure}");
        assert!(begun.elapsed() < Duration::from_secs(2) && session.is_broken());
    });
}

/// A PostgreSQL of this machine, in a directory of its own, on a Unix socket.
struct TestServer {
    process: std::process::Child,
    dir: tempfile::TempDir,
}

const PASSWORD: &str = "p@ss word";

/// Where its programs are.
fn programs() -> Option<std::path::PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|dir| dir.join("initdb").exists() && dir.join("postgres").exists());
    found.sort();
    found.pop()
}

/// It refuses to run as root: the numbers of the user that its package made.
fn other_user() -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = passwd.lines().find(|line| line.starts_with("postgres:"))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl TestServer {
    /// `None` if there is no PostgreSQL, which is printed.
    fn start() -> Option<Self> {
        use std::os::unix::process::CommandExt;
        let Some(programs) = programs() else {
            eprintln!("SKIPPED: no PostgreSQL in /usr/lib/postgresql");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("password"), PASSWORD).unwrap();
        let mut user = None;
        if rustix::process::geteuid().is_root() {
            user = Some(other_user().expect("PostgreSQL is installed, and its user is not"));
            let (uid, gid) = user.unwrap();
            for path in [dir.path().to_owned(), dir.path().join("password")] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
            }
        }
        let command = |program: &str| {
            let mut command = std::process::Command::new(programs.join(program));
            command.current_dir(dir.path()).arg("-D").arg(dir.path().join("data"));
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let pwfile = format!("--pwfile={}", dir.path().join("password").display());
        let made = command("initdb")
            .args(["-A", "scram-sha-256", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", &pwfile])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let process = command("postgres")
            .arg("-k")
            .arg(dir.path())
            .args(["-h", "", "-F", "-c", "max_connections=50"])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { process, dir };
        for _ in 0..600 {
            if block_on(async { server.target().connect(&[]).await }).is_ok() {
                return Some(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("it does not start: {}", std::fs::read_to_string(server.dir.path().join("log")).unwrap());
    }

    fn url(&self) -> String {
        format!("postgres://postgres:p%40ss%20word@/postgres?host={}", self.dir.path().display())
    }

    fn target(&self) -> Arc<dyn Target> {
        Arc::new(Postgres::new(&self.url()).unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // A fast shutdown, which ends the backends, too.
        self.signal(rustix::process::Signal::INT);
        let _ended = self.process.wait();
    }
}

use std::sync::Arc;
use std::time::Duration;

use crate::sql::driver::{self, Pacing, Unwatched};
use crate::sql::target::{FIRST, Isolation, Kind, StatementId, texts};
use crate::sql::workload::load::load;
use crate::sql::workload::stock::{Mix, Stock};
use crate::sql::workload::tpcc::tests::{SMALL, plan};
use crate::sql::workload::tpcc::{Scale, Tpcc};
use crate::sql::workload::ycsb::{Letter, Ycsb};
use crate::sql::workload::{Verdict, Workload};

fn block_on<F: Future>(future: F) -> F::Output {
    driver::runtime(1).unwrap().block_on(future)
}

/// Loads, runs and checks, and drops the tables.
fn run_and_check(server: &TestServer, workload: Arc<dyn Workload>, isolation: Isolation) {
    let target = server.target();
    let rows = block_on(load(&target, &workload, 2, &Arc::default())).unwrap().rows;
    assert!(rows > 0);
    block_on(workload.prepare(&*target)).unwrap();
    let before = block_on(workload.mark(&*target)).unwrap().unwrap();
    let statements = texts(isolation, workload.statements());
    let plan = plan(Pacing::Closed, 8, 2.0);
    let measured = driver::run(&workload, &target, &statements, &plan, &mut Unwatched).unwrap();
    assert_eq!((measured.failed(), measured.ended_early.clone()), (0, None), "{:?}", measured.failures);
    assert!(measured.ended() > 0 && measured.connections == 8);
    let after = block_on(workload.mark(&*target)).unwrap().unwrap();
    let told = workload.reconcile(before, after, &measured.acknowledged).unwrap();
    assert_eq!(told.verdict, Verdict::Holds, "{told:?}");
    let findings = block_on(workload.check(&*target, &mut |_| {})).unwrap();
    for finding in findings {
        assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
    }
    let drops: Vec<String> = workload.data().table_names().iter().map(|table| format!("DROP TABLE {table}")).collect();
    let drops: Vec<&str> = drops.iter().map(String::as_str).chain(["DROP TABLE bench_data, bench_part"]).collect();
    block_on(async { target.connect(&[]).await?.execute_all(&drops).await }).unwrap();
}

#[test]
fn every_workload_passes_on_postgresql() {
    let Some(server) = TestServer::start() else { return };
    for isolation in [Isolation::Default, Isolation::RepeatableRead] {
        run_and_check(&server, Arc::new(Tpcc::new(Scale { warehouses: 2, ..SMALL }, 42)), isolation);
    }
    for letter in [Letter::A, Letter::D, Letter::E, Letter::F] {
        run_and_check(&server, Arc::new(Ycsb::new(letter, None, 500, 42, (0, 1))), Isolation::Default);
    }
    for mix in [Mix::AddRandOrder, Mix::PutRandOrder, Mix::PutSameOrder, Mix::RandUserHist] {
        run_and_check(&server, Arc::new(Stock::new(mix, 100, 50, 100, 42)), Isolation::Default);
    }
    let about = block_on(server.target().about());
    assert!(about.contains("PostgreSQL") && about.contains("synchronous_commit=on"), "{about}");
    assert!(!server.target().name().contains("word"));
}

#[test]
fn a_batch_that_fails_is_taken_back_and_the_connection_goes_on() {
    let Some(server) = TestServer::start() else { return };
    let statements: Vec<String> = Isolation::Default
        .control()
        .into_iter()
        .chain(["INSERT INTO t VALUES ($1, $2)", "SELECT id, name, n, at FROM t WHERE id = $1"].map(str::to_owned))
        .collect();
    let (insert, select) = (StatementId(FIRST), StatementId(FIRST + 1));
    block_on(async {
        let target = server.target();
        let made = "CREATE TABLE t (id int PRIMARY KEY, name text, n numeric(9,2) DEFAULT -12.50, at timestamp DEFAULT '2000-01-02')";
        target.connect(&[]).await.unwrap().execute_all(&[made]).await.unwrap();
        let mut session = target.connect(&statements).await.unwrap();
        session.call(BEGIN);
        session.call(insert).int(1).text("kept, ü".as_bytes());
        session.call(COMMIT);
        session.run().await.unwrap();
        assert_eq!(session.answer(1).affected(), 1);

        for commits in [true, false] {
            session.call(BEGIN);
            session.call(insert).int(2).text(b"not kept");
            session.call(insert).int(1).text(b"a duplicate");
            if commits {
                session.call(COMMIT);
            }
            let failure = session.run().await.unwrap_err();
            assert_eq!((failure.state(), failure.kind()), ("23505", Kind::Refused));
            assert!(!session.is_broken());
        }
        // A failure in a later exchange of a transaction.
        session.call(BEGIN);
        session.call(insert).int(3).text(b"not kept");
        session.run().await.unwrap();
        session.call(insert).int(1).text(b"a duplicate");
        session.run().await.unwrap_err();

        session.call(select).int(1);
        for id in 2..=3 {
            session.call(select).int(id);
        }
        session.run().await.unwrap();
        let answer = session.answer(0);
        assert_eq!((answer.int(0, 0), answer.text(0, 1)), (Some(1), Some("kept, ü".as_bytes())));
        assert_eq!((answer.decimal(0, 2, 2), answer.cell(0, 3)), (Some(-1_250), Cell::Time(86_400_000_000)));
        assert_eq!((session.answer(1).rows(), session.answer(2).rows()), (0, 0));

        let unknown = target.connect(&["SELECT nothing FROM nowhere".to_owned()]).await.err().unwrap();
        assert!(unknown.to_string().contains("42P01") && unknown.to_string().contains("nowhere"), "{unknown}");
        let wrong = Postgres::new(&server.url().replace("word", "guess")).unwrap();
        let refused = wrong.connect(&[]).await.err().unwrap();
        assert_eq!(refused.state(), "28P01", "{refused}");
    });
}

#[test]
fn a_server_that_is_killed_ends_the_run_with_a_reason_and_its_data_hold() {
    let Some(server) = TestServer::start() else { return };
    let target = server.target();
    let workload: Arc<dyn Workload> = Arc::new(Tpcc::new(SMALL, 42));
    block_on(load(&target, &workload, 1, &Arc::default())).unwrap();
    let statements = texts(Isolation::Default, workload.statements());
    let plan = driver::RunPlan { timeout: Duration::from_secs(2), ..plan(Pacing::Closed, 4, 60.0) };
    let measured = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            server.signal(rustix::process::Signal::QUIT);
        });
        let measured = driver::run(&workload, &target, &statements, &plan, &mut Unwatched).unwrap();
        killer.join().unwrap();
        measured
    });
    let reason = measured.ended_early.clone().unwrap();
    assert!(reason.contains("cannot be reached"), "{reason}");
    assert!(measured.seconds < 30.0 && measured.ended() > 0);
    assert!(!measured.failures.is_empty());
}
