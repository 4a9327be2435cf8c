//! Random spawns, timers, sockets, mailboxes and pools, where every thread sleeps for ever unless
//! it is woken: a lost wake-up hangs the test.

#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use colibri_runtime::net::UnixStream;
use colibri_runtime::{
    Builder, Handle, Inbox, Mailbox, Pool, WhenFull, budget, mailbox, sleep, spawn, spawn_blocking, timeout,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What tasks share.
struct Pond {
    mailboxes: Vec<Mailbox<u64>>,
    steps: AtomicU64,
}

fn any_pool(rng: &mut StdRng) -> Pool {
    Pool::ALL[rng.random_range(0..4)]
}

/// A task that does random things, and spawns others that do, down to `depth`.
fn wander(pond: Arc<Pond>, seed: u64, depth: u32) -> Pin<Box<dyn Future<Output = ()> + std::marker::Send>> {
    Box::pin(wander_on(pond, seed, depth))
}

async fn wander_on(pond: Arc<Pond>, seed: u64, depth: u32) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut children = Vec::new();
    for _ in 0..rng.random_range(1..6) {
        pond.steps.fetch_add(1, Ordering::Relaxed);
        match rng.random_range(0..10) {
            0..3 if depth > 0 => {
                let (pond, seed) = (Arc::clone(&pond), rng.random());
                children.push(spawn(any_pool(&mut rng), wander(pond, seed, depth - 1)));
            }
            0..5 => sleep(Duration::from_micros(rng.random_range(0..3_000))).await,
            5 => budget::yield_now().await,
            6 => budget::move_to(any_pool(&mut rng)).await,
            7 => {
                let mailbox = &pond.mailboxes[rng.random_range(0..pond.mailboxes.len())];
                let _ = timeout(Duration::from_micros(rng.random_range(1..2_000)), mailbox.send(seed)).await;
            }
            8 => {
                let (a, b) = UnixStream::pair().unwrap();
                let bytes = rng.random_range(1..300_000);
                let writer = spawn(any_pool(&mut rng), async move { a.write_all(&vec![1; bytes]).await.unwrap() });
                let mut buffer = vec![0; rng.random_range(1..50_000)];
                let mut sum = 0;
                loop {
                    match b.read(&mut buffer).await.unwrap() {
                        0 => break,
                        read => sum += read,
                    }
                }
                assert_eq!(sum, bytes);
                writer.await.unwrap();
            }
            _ if rng.random_ratio(1, 10) => {
                spawn_blocking(|| std::thread::sleep(Duration::from_micros(300))).await.unwrap()
            }
            _ => {
                let until = Instant::now() + Duration::from_micros(rng.random_range(0..200));
                while Instant::now() < until {
                    if budget::is_over() {
                        budget::yield_now().await;
                    }
                }
            }
        }
        if rng.random_ratio(1, 8)
            && let Some(child) = children.pop()
        {
            let child: colibri_runtime::JoinHandle<()> = child;
            child.cancel();
        }
    }
    for child in children {
        child.await.unwrap();
    }
}

async fn read_all(mut inbox: Inbox<u64>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    while inbox.recv().await.is_some() {
        if rng.random_ratio(1, 4) {
            sleep(Duration::from_micros(rng.random_range(0..500))).await;
        }
    }
}

fn stress(duration: Duration) {
    let seed: u64 = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("COLIBRI_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let until = Instant::now() + duration;
    let mut steps = 0;
    while Instant::now() < until {
        let runtime =
            Builder::new().threads(rng.random_range(1..5)).ping(Some(Duration::from_millis(1))).build().unwrap();
        let mut pond = Pond { mailboxes: Vec::new(), steps: AtomicU64::new(0) };
        for _ in 0..3 {
            let (mailbox, inbox) = mailbox(rng.random_range(1..5), WhenFull::Wait);
            pond.mailboxes.push(mailbox);
            drop(runtime.spawn(any_pool(&mut rng), read_all(inbox, rng.random())));
        }
        let pond = Arc::new(pond);
        let (told, tell) = mpsc::channel();
        let tasks = 20;
        for _ in 0..tasks {
            let (pond, told, seed) = (Arc::clone(&pond), told.clone(), rng.random());
            drop(runtime.spawn(any_pool(&mut rng), async move {
                wander(pond, seed, 3).await;
                told.send(()).unwrap();
            }));
        }
        for _ in 0..tasks {
            if tell.recv_timeout(Duration::from_secs(60)).is_err() {
                panic!("a task is stuck with seed {seed}: {:#?}", runtime.counters());
            }
        }
        steps += pond.steps.load(Ordering::Relaxed);
        // The readers end when the last mailbox goes; now and then they are cancelled instead.
        if rng.random() {
            drop(pond);
            let report = runtime.shutdown(Duration::from_secs(60));
            assert_eq!((report.cancelled, report.abandoned, report.calls_abandoned), (0, 0, 0));
        } else {
            let report = runtime.shutdown(Duration::ZERO);
            assert_eq!((report.abandoned, report.calls_abandoned), (0, 0));
        }
    }
    println!("{steps} steps");
    assert!(steps > 1_000);
    assert!(Handle::try_current().is_none());
}

#[test]
fn nobody_sleeps_through_work() {
    stress(Duration::from_secs(5));
}

#[test]
#[ignore = "ten minutes: cargo test --release -p colibri-runtime --test stress -- --ignored"]
fn nobody_sleeps_through_work_for_minutes() {
    stress(Duration::from_secs(600));
}
