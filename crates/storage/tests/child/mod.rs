//! The test binary as a process of its own: it runs itself again with a role, and the two talk over
//! pipes, a line at a time. A test file that uses this has a test named [`ENTRY`] that calls
//! [`Role::of_this_process`].
//!
//! Nothing here waits for ever: a child that says nothing for [`PATIENCE`] fails the test, and
//! [`Alarm`] ends a process that hangs elsewhere.

#![allow(dead_code, reason = "each test file is a crate of its own and uses what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The test that children run.
pub(crate) const ENTRY: &str = "a_child_process_plays_its_role";
/// How long a line of the other side may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const ROLE: &str = "COLIBRI_TEST_ROLE";
const DIR: &str = "COLIBRI_TEST_DIR";
/// Tells what a child says from what the test harness prints.
const MARK: &str = "@ ";

/// A process that runs this test binary in a role.
pub(crate) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Child {
    /// Starts a child on a directory.
    pub(crate) fn start(role: &str, dir: &Path) -> Self {
        Self::start_by(&mut Command::new(std::env::current_exe().unwrap()), role, dir)
    }

    /// Starts a child by a command that runs the command its further arguments make, in
    /// circumstances of its own.
    pub(crate) fn start_under(wrapper: &[&str], role: &str, dir: &Path) -> Self {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(std::env::current_exe().unwrap());
        Self::start_by(&mut command, role, dir)
    }

    /// Starts a child by a command that runs this test binary with the arguments it is given.
    pub(crate) fn start_by(command: &mut Command, role: &str, dir: &Path) -> Self {
        let mut process = command
            .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The harness may have begun the line.
                if let Some(at) = line.find(MARK)
                    && said.send(line[at + MARK.len()..].to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { input: process.stdin.take(), process, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line the child says.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the child says something before it ends or time is up")
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Kills the child with SIGKILL, and gives what it said until then and nobody has heard yet.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // The pipe is closed now, so this ends.
        self.lines.iter().collect()
    }

    /// Closes the child's input and waits for it to end well.
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                assert!(status.success(), "the child failed: {status}");
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the child does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a child process is to do.
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
}

impl Role {
    /// The role of this process, if it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        Some(Self { name, dir: std::env::var_os(DIR)?.into() })
    }

    /// Says a line to the parent.
    pub(crate) fn say(&self, line: &str) {
        println!("{MARK}{line}");
    }

    /// The parent's next line; `None` when it has no more.
    pub(crate) fn hear(&self) -> Option<String> {
        let mut line = String::new();
        let bytes = std::io::stdin().read_line(&mut line).unwrap();
        (bytes > 0).then(|| line.trim_end().to_owned())
    }
}

/// Ends the process if it is not dropped in time: for calls that hang when they are wrong.
pub(crate) struct Alarm(Arc<AtomicBool>);

impl Alarm {
    pub(crate) fn set(what: &'static str, time: Duration) -> Self {
        let off = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let off = Arc::clone(&off);
            move || {
                // In small steps, of which only one passes while the process is stopped.
                for _ in 0..100 {
                    std::thread::sleep(time / 100);
                    if off.load(Ordering::Acquire) {
                        return;
                    }
                }
                eprintln!("after {time:?} still not done: {what}");
                std::process::abort();
            }
        });
        Self(off)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
