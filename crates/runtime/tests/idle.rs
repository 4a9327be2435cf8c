//! Nothing happens while nobody asks: no thread wakes up, nothing is written, no CPU time is used.
//!
//! The kernel's own counters are asked, of the threads of the runtime.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use colibri_runtime::net::TcpListener;
use colibri_runtime::{Builder, Handle, Pool, Runtime, mailbox, sleep, spawn};

/// Context switches, nanoseconds of CPU time, and bytes written, of all threads of a runtime so
/// far.
fn spent(name: &str) -> (u64, u64, u64) {
    let mut spent = (0, 0, 0);
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if !fs::read_to_string(task.join("comm")).unwrap().starts_with(name) {
            continue;
        }
        let status = fs::read_to_string(task.join("status")).unwrap();
        let switches = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        spent.0 += switches.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum::<u64>();
        let schedstat = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        spent.1 += schedstat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        let io = fs::read_to_string(task.join("io")).unwrap();
        let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        spent.2 += bytes.unwrap().parse::<u64>().unwrap();
    }
    spent
}

/// Timers far away, silent connections, an actor without messages, and a reader that has read once.
fn idle_server(runtime: &Runtime) -> Vec<std::net::TcpStream> {
    for n in 0..1_000 {
        drop(runtime.spawn(Pool::User, async move { sleep(Duration::from_secs(86_400 + n)).await }));
    }
    while runtime.counters().timers < 1_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (mailbox, mut inbox) = mailbox::<()>(1, colibri_runtime::WhenFull::Wait);
    drop(runtime.spawn(Pool::Batch, async move {
        let _mailbox = mailbox;
        inbox.recv().await
    }));
    let address = runtime.block_on(async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(spawn(Pool::System, async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                drop(spawn(Pool::User, async move {
                    while stream.read(&mut [0; 64]).await.unwrap() > 0 {
                        let text = Handle::current().counters().to_prometheus();
                        stream.write_all(text.as_bytes()).await.unwrap();
                    }
                }));
            }
        }));
        address
    });
    let mut connections: Vec<_> = (0..101).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let reader = connections.last_mut().unwrap();
    reader.write_all(b"metrics").unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("colibri_runtime_blocking_calls_total 0\n") {
        let mut part = [0; 8_192];
        let read = reader.read(&mut part).unwrap();
        text.extend_from_slice(&part[..read]);
    }
    assert!(String::from_utf8_lossy(&text).contains("colibri_runtime_timers 1000\n"));
    connections
}

/// Bug: the threads were called as this file is. Consequence: a thread of the test harness, which
/// has its name from the file and says after a minute that a test takes long, was counted, and so
/// were the bytes that it said. Fix: each test has a name of its own for them, and only what they
/// write counts.
fn stays_idle(name: &str, window: Duration) {
    let runtime = Builder::new().threads(2).name(name).build().unwrap();
    let connections = idle_server(&runtime);
    // What has to be done for the last reader is done.
    std::thread::sleep(Duration::from_millis(300));
    let before = spent(name);
    assert!(before.0 > 0, "the threads are found");
    std::thread::sleep(window);
    let after = spent(name);
    assert_eq!(after, before, "switches, nanoseconds and bytes in {window:?}");
    drop(connections);
}

#[test]
fn an_idle_runtime_does_nothing_at_all() {
    stays_idle("quiet", Duration::from_secs(3));
}

#[test]
#[ignore = "a minute: cargo test -p colibri-runtime --test idle -- --ignored"]
fn an_idle_runtime_does_nothing_at_all_for_a_minute() {
    stays_idle("silent", Duration::from_secs(60));
}
