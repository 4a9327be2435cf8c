//! Facts about the machine that the server runs on: its user, its memory, its limits.

use std::fs;
use std::os::unix::net::UnixDatagram;

use rustix::process::{Resource, getrlimit, getuid, setrlimit};

/// What a statement may keep in memory, as a part of what there is.
const WORK_PART: u64 = 32;
const WORK_BYTES_MIN: u64 = 4 << 20;
const WORK_BYTES_MAX: u64 = 256 << 20;

/// What all statements may keep together, as a part of what there is: eight times as much as one
/// operator.
const KEPT_PART: u64 = 4;
const KEPT_BYTES_MIN: usize = 32 << 20;

/// The name of the user that this process belongs to.
pub(crate) fn user_name() -> Option<String> {
    let uid = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").ok()?;
    // name:password:uid:…
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// The machine's name.
pub(crate) fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_ascii().to_owned()).filter(|name| !name.is_empty())
}

/// Asks for as many descriptors as connections need. If they are not given, connections fail that
/// find none.
pub(crate) fn allow_descriptors(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| wanted.min(maximum)));
        _ = setrlimit(Resource::Nofile, limit);
    }
}

/// The memory that this process may use, in bytes: its control group's, or the machine's.
fn memory_bytes() -> Option<u64> {
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let read = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = read(&format!("/sys/fs/cgroup{path}/memory.max")).or_else(|| read("/sys/fs/cgroup/memory.max"));
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let machine = machine.map(|kilobytes| kilobytes << 10);
    match (limit, machine) {
        (Some(limit), Some(machine)) => Some(limit.min(machine)),
        (limit, machine) => limit.or(machine),
    }
}

/// Bytes that the statements of all sessions may keep in memory together.
pub(crate) fn kept_bytes_max() -> usize {
    let bytes = memory_bytes().map(|bytes| usize::try_from(bytes / KEPT_PART).unwrap_or(usize::MAX));
    bytes.map_or(usize::MAX, |bytes| bytes.max(KEPT_BYTES_MIN))
}

/// Settings that sessions begin with because of the machine's size.
pub(crate) fn session_defaults(tiny: bool) -> Vec<(&'static str, String)> {
    let work_bytes = match memory_bytes() {
        _ if tiny => WORK_BYTES_MIN,
        Some(bytes) => (bytes / WORK_PART).clamp(WORK_BYTES_MIN, WORK_BYTES_MAX),
        None => WORK_BYTES_MAX,
    };
    if work_bytes == WORK_BYTES_MAX { Vec::new() } else { vec![("work_mem", format!("{}kB", work_bytes >> 10))] }
}

/// Notifies systemd of the server's state, if it asked for that.
pub(crate) fn notify(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else { return };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    // A failed notification has no consequences.
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_tiny_server_gives_statements_little_memory() {
        assert_eq!(session_defaults(true), [("work_mem", "4096kB".to_owned())]);
        assert!(memory_bytes().unwrap() > 0);
        assert!((KEPT_BYTES_MIN..usize::MAX).contains(&kept_bytes_max()));
    }
}
