//! The directory in which a run makes its databases, and its removal: at the end, on an error, on a
//! signal.
//!
//! Invariants
//! - Only directories that this run made are removed.
//! - SIGINT and SIGTERM end the process with 128 and the signal's number, and leave nothing behind
//!   unless the run was to keep its databases. While the signal handler removes directories, a
//!   thread that makes or removes one waits, so that the run does not end before the handler, with
//!   an error about a missing directory.
//!
//! Not here: SIGHUP, so that `nohup` works, and signals that cannot be handled, such as SIGKILL.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::measure::output::tell;
use crate::measure::{Error, Result};

/// What a signal removes.
static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());
/// How often, and after what pause, removing is tried again on a signal: engines go on making files
/// meanwhile.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// Directories that a run made.
#[derive(Debug, Clone, PartialEq)]
struct Made {
    dir: PathBuf,
    /// The outer directory, if it is new, too.
    outer: Option<PathBuf>,
}

impl Made {
    fn remove(&self) -> std::io::Result<()> {
        fs::remove_dir_all(&self.dir)?;
        if let Some(outer) = &self.outer {
            let _not_empty_means_not_only_ours = fs::remove_dir(outer);
        }
        Ok(())
    }

    fn remove_under_load(&self) {
        for _ in 0..REMOVE_TRIES {
            match self.remove() {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::NotFound && !self.dir.exists() => return,
                Err(_) => std::thread::sleep(REMOVE_PAUSE),
            }
        }
        tell!("{} could not be removed", self.dir.display());
    }
}

/// The directory that holds a run's databases.
#[derive(Debug)]
pub(crate) struct Workplace {
    made: Made,
    keep: bool,
}

impl Workplace {
    /// Makes `outer` if it is not there, and a directory inside it that no other run uses.
    pub(crate) fn new(outer: &Path, keep: bool) -> Result<Self> {
        handle_signals()?;
        // Absolute, as the handler must find it wherever the process is by then.
        let outer = &std::path::absolute(outer).map_err(|error| Error::io("cannot create", outer, error))?;
        let mut places = lock();
        let new = match fs::create_dir(outer) {
            Ok(()) => Some(outer.clone()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && outer.is_dir() => None,
            Err(error) => return Err(Error::io("cannot create", outer, error)),
        };
        for attempt in 0.. {
            let dir = outer.join(format!("bench-{}-{attempt}", std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => {
                    let made = Made { dir, outer: new };
                    if !keep {
                        places.push(made.clone());
                    }
                    return Ok(Self { made, keep });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("cannot create", dir, error)),
            }
        }
        unreachable!("some number is free")
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.made.dir
    }

    pub(crate) fn make(&self, name: &str) -> Result<PathBuf> {
        let _no_signal = lock();
        let dir = self.made.dir.join(name);
        fs::create_dir(&dir).map_err(|error| Error::io("cannot create", &dir, error))?;
        Ok(dir)
    }

    pub(crate) fn remove(&self, dir: &Path) -> Result<()> {
        let _no_signal = lock();
        fs::remove_dir_all(dir).map_err(|error| Error::io("cannot remove", dir, error))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if !self.keep {
            let mut places = lock();
            let _leftovers_harm_nobody = self.made.remove();
            places.retain(|made| *made != self.made);
        }
    }
}

fn lock() -> MutexGuard<'static, Vec<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that waits for signals, once a process.
fn handle_signals() -> Result<()> {
    static STARTED: OnceLock<std::result::Result<(), std::io::ErrorKind>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.kind())?;
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                let places = lock();
                places.iter().for_each(Made::remove_under_load);
                tell!("interrupted");
                // At once: engines are at work, and what runs at a regular exit would be freed
                // under them.
                low_level::exit(128 + signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(wait).map(|_| ()).map_err(|error| error.kind())
    });
    started.map_err(|kind| Error::usage(format!("cannot handle signals: {kind}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_run_made_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("mine"), "precious").unwrap();
        let inner = {
            let workplace = Workplace::new(outer.path(), false).unwrap();
            let second = Workplace::new(outer.path(), false).unwrap();
            assert_ne!(workplace.dir(), second.dir());
            fs::write(workplace.dir().join("data"), "x").unwrap();
            workplace.dir().to_owned()
        };
        assert!(!inner.exists());
        assert!(outer.path().join("mine").exists());

        let new = outer.path().join("new");
        drop(Workplace::new(&new, false).unwrap());
        assert!(!new.exists());
        drop(Workplace::new(&new, true).unwrap());
        assert!(new.exists());
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Workplace::new(&file, false).unwrap_err().to_string().contains("cannot create"));
    }
}
