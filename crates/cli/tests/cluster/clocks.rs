//! Clocks of single servers that jump, without touching that of the machine: a few lines of C in
//! front of the system's library, which add what a file says to the time of day. Clocks that only
//! go forward are left alone, as they are where somebody sets the time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::program;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *offset_s;
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) offset_s = map;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    int done = syscall(SYS_clock_gettime, clock, time);
    if (done == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *offset_s;
    return done;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The clock of the servers of one machine.
pub(super) struct Clocks {
    library: PathBuf,
    offset: PathBuf,
}

impl Clocks {
    /// `None` where there is no C compiler.
    pub(super) fn new(dir: &Path, machine: usize) -> Option<Self> {
        let library = dir.join("clocks.so");
        if !library.exists() {
            let source = dir.join("clocks.c");
            fs::write(&source, SOURCE).unwrap();
            let mut command = Command::new(program("cc")?);
            command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
            let made = command.stdin(Stdio::null()).output().ok()?;
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let clocks = Self { library, offset: dir.join(format!("clock{machine}")) };
        clocks.set(0);
        Some(clocks)
    }

    /// Has a server that is started have this clock.
    pub(super) fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_OFFSET_FILE", &self.offset);
    }

    /// Shifts the clock by this many seconds. Running servers see the new time at once.
    pub(super) fn set(&self, by_s: i64) {
        use std::os::unix::fs::FileExt as _;
        let file = fs::File::options().create(true).truncate(false).write(true).open(&self.offset).unwrap();
        file.write_all_at(&by_s.to_le_bytes(), 0).unwrap();
    }
}

/// What makes a clock jump has to do so, or the faults above would be none.
#[test]
fn a_server_with_a_clock_of_its_own_tells_that_time() {
    let test = "a_server_with_a_clock_of_its_own_tells_that_time";
    let dir = tempfile::tempdir().unwrap();
    let Some(clocks) = Clocks::new(dir.path(), 1) else {
        return crate::support::not_run(test, "there is no C compiler (cc)");
    };
    let hours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        clocks.apply(&mut command);
        command.arg("sql").arg(dir.path().join("db")).args(["-c", "SELECT extract(epoch FROM now())::bigint"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told: i64 = said.split_ascii_whitespace().find_map(|word| word.parse().ok()).unwrap_or_else(|| {
            panic!("{said}{}", String::from_utf8_lossy(&output.stderr));
        });
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        (told - now + if told >= now { 60 } else { -60 }) / 3_600
    };
    assert_eq!(hours(), 0);
    clocks.set(-3_600);
    assert_eq!(hours(), -1);
    clocks.set(7_200);
    assert_eq!(hours(), 2);
}
