//! PostgreSQL 15, where it is installed, as another server to compare with.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// PostgreSQL 15 in a directory of its own, on a Unix socket.
pub(crate) struct Postgres {
    process: std::process::Child,
    dir: tempfile::TempDir,
}

/// Where its programs are.
pub(crate) const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

impl Postgres {
    /// `None`, visibly, where there is none.
    pub(crate) fn start() -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        if !Path::new(PROGRAMS).join("initdb").exists() {
            // Past the test harness, which would keep it to itself.
            _ = writeln!(std::io::stderr(), "SKIPPED: no PostgreSQL 15");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        // It refuses to run as root; its own user comes with it.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let command = |program: &str| {
            let program = format!("{PROGRAMS}/{program}");
            let mut command = Command::new(if is_root { "runuser" } else { &program });
            if is_root {
                command.args(["-u", "postgres", "--", &program]);
            }
            command.current_dir(dir.path()).arg("-D").arg(dir.path().join("data"));
            command
        };
        let made = command("initdb").args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N"]).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let process = command("postgres")
            .args(["-h", "", "-F", "-k"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, dir };
        for _ in 0..600 {
            if server.psql().args(["-c", "SELECT 1"]).output().unwrap().status.success() {
                return Some(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("PostgreSQL does not start");
    }

    pub(crate) fn psql(&self) -> Command {
        let mut psql = Command::new(format!("{PROGRAMS}/psql"));
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(self.dir.path());
        psql
    }

    /// The directory of its socket, which stands for a host.
    pub(crate) fn host(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// Runs SQL from a file in one transaction.
    pub(crate) fn load(&self, sql: &str) {
        let mut child = self
            .psql()
            .args(["-1", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{sql}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn ask(&self, sql: &str) -> String {
        let output = self.psql().args(["-c", sql]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server itself: runuser in front of it does not hand the signal on, and ends when the
        // server has.
        let pid = std::fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap_or_default();
        match pid.lines().next() {
            Some(pid) => _ = Command::new("kill").args(["-INT", pid]).status(),
            None => _ = self.process.kill(),
        }
        _ = self.process.wait();
    }
}
