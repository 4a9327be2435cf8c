//! The energy that the machine's processors used, from the counters of RAPL.
//!
//! ```text
//! /sys/class/powercap/intel-rapl:0/        a package: counted
//!                     intel-rapl:0:0/      a part of it: not counted again
//!                     intel-rapl:1/        another package, or `psys`, which has the packages in it: not counted
//! ```
//!
//! Invariants
//! - It is the energy of all packages together, for whatever runs on them: no part of it belongs to
//!   one process.
//! - Where it cannot be read, a sentence says why, and there is no number.
//!
//! Not here: memory, disks, and everything else outside the packages.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const POWERCAP: &str = "/sys/class/powercap";

/// The counters of all packages.
#[derive(Debug)]
pub(crate) struct Packages {
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    counter: PathBuf,
    /// The largest value; after it the counter starts again at zero.
    range_uj: u64,
}

/// All counters at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    at: Instant,
    /// Microjoules, one for each package.
    counters: Vec<u64>,
}

/// The energy that the machine's packages used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Energy {
    pub(crate) joules: f64,
    pub(crate) watts: f64,
}

impl Packages {
    /// Those of this machine, or why there are none.
    pub(crate) fn find() -> Result<Self, String> {
        Self::find_in(Path::new(POWERCAP))
    }

    fn find_in(powercap: &Path) -> Result<Self, String> {
        let entries = match fs::read_dir(powercap) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(format!("the kernel shows no {POWERCAP}, as in most virtual machines"));
            }
            Err(error) => return Err(format!("{POWERCAP}: {error}")),
        };
        let zones = entries.flatten().map(|entry| entry.path()).filter(|zone| is_zone(zone));
        let named =
            |zone: &PathBuf| fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with("package"));
        let mut zones: Vec<_> = zones.filter(named).collect();
        zones.sort();
        if zones.is_empty() {
            return Err(format!("there is no package in {POWERCAP}"));
        }
        let packages = zones.into_iter().map(|zone| {
            let range_uj = read(&zone.join("max_energy_range_uj"))?;
            Ok(Package { counter: zone.join("energy_uj"), range_uj })
        });
        let packages = Self { packages: packages.collect::<Result<_, String>>()? };
        // On most systems only root may read them.
        packages.read().map(|_| packages)
    }

    pub(crate) fn read(&self) -> Result<Reading, String> {
        let counters = self.packages.iter().map(|package| read(&package.counter)).collect::<Result<_, _>>()?;
        Ok(Reading { at: Instant::now(), counters })
    }

    /// What was taken between two readings, if no counter wrapped around twice.
    pub(crate) fn between(&self, earlier: &Reading, later: &Reading) -> Energy {
        let counters = earlier.counters.iter().zip(&later.counters);
        let taken = self.packages.iter().zip(counters).map(|(package, (&then, &now))| package.taken(then, now));
        energy(taken.sum(), later.at.saturating_duration_since(earlier.at))
    }
}

fn energy(microjoules: u64, elapsed: Duration) -> Energy {
    let joules = microjoules as f64 / 1e6;
    Energy { joules, watts: joules / elapsed.as_secs_f64().max(f64::MIN_POSITIVE) }
}

impl Package {
    fn taken(&self, then: u64, now: u64) -> u64 {
        if now >= then { now - then } else { (self.range_uj + now).saturating_sub(then) }
    }
}

/// Whether it is a zone that is in no other, of the interface that every machine with RAPL has.
fn is_zone(path: &Path) -> bool {
    let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("intel-rapl:"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn read(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{} holds no number", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(powercap: &Path, zone: &str, name: &str, energy_uj: &str) {
        let zone = powercap.join(zone);
        fs::create_dir_all(&zone).unwrap();
        for (file, text) in [("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", "1000000\n")] {
            fs::write(zone.join(file), text).unwrap();
        }
    }

    #[test]
    fn only_packages_are_summed() {
        let powercap = tempfile::tempdir().unwrap();
        zone(powercap.path(), "intel-rapl:0", "package-0\n", "400000\n");
        zone(powercap.path(), "intel-rapl:0:0", "core\n", "1\n");
        zone(powercap.path(), "intel-rapl:1", "package-1\n", "900000\n");
        zone(powercap.path(), "intel-rapl:2", "psys\n", "5\n");
        zone(powercap.path(), "intel-rapl-mmio:0", "package-0\n", "400000\n");
        let packages = Packages::find_in(powercap.path()).unwrap();
        let first = packages.read().unwrap();
        assert_eq!(first.counters, [400_000, 900_000]);
        // The second package's counter wraps around.
        zone(powercap.path(), "intel-rapl:0", "package-0\n", "650000\n");
        zone(powercap.path(), "intel-rapl:1", "package-1\n", "150000\n");
        let energy = packages.between(&first, &packages.read().unwrap());
        assert!((energy.joules - 0.5).abs() < 1e-9 && energy.watts > 0.0, "{energy:?}");
    }

    #[test]
    fn watts_are_joules_a_second() {
        assert_eq!(energy(3_000_000, Duration::from_secs(2)), Energy { joules: 3.0, watts: 1.5 });
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let powercap = tempfile::tempdir().unwrap();
        let reason = || Packages::find_in(powercap.path()).unwrap_err();
        assert!(reason().contains("no package"), "{}", reason());
        zone(powercap.path(), "intel-rapl:0", "package-0\n", "many\n");
        assert!(reason().contains("holds no number"), "{}", reason());
        fs::remove_file(powercap.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert!(reason().contains("energy_uj"), "{}", reason());
        let missing = Packages::find_in(&powercap.path().join("missing")).unwrap_err();
        assert!(missing.contains("virtual machines"), "{missing}");
    }
}
