//! Measures fenced appends through the crate, beside the same put without the crate's log, in turn:
//! `cargo run --release -p colibri-replica --example appending -- etcd://127.0.0.1:2379/measure`.
//!
//! Prints medians over rounds. For figures, give it an etcd that does nothing else.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

use colibri_replica::coordinator::{Compare, Coordinator, Operation, Revision, Txn};
use colibri_replica::etcd::{Etcd, EtcdOptions};
use colibri_replica::{
    Address, Appender, Campaign, Cluster, Database, Epoch, Held, JoinOptions, Leadership, Node, NodeId, Outcome,
    Replace, Reservation,
};

const ROUNDS: usize = 6;

type Failed = Box<dyn std::error::Error>;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn main() -> Result<(), Failed> {
    let address = std::env::args().nth(1).ok_or("usage: appending etcd://HOST:PORT/NAME")?;
    let address = Address::parse(&address)?;
    let etcd = Etcd::new(&address, EtcdOptions { request_timeout: Duration::from_secs(10), ..EtcdOptions::default() })?;
    let cluster = Cluster::new(etcd.clone(), &address.name);
    let node = Node { id: NodeId::new("measure")?, address: "-".to_owned() };
    let options =
        JoinOptions { lease_ttl: Duration::from_secs(60), replace: Replace::EarlierStart, ..JoinOptions::default() };
    let membership = block_on(cluster.join(node, options))?;
    let kept = membership.clone();
    std::thread::spawn(move || block_on(kept.keep_alive()));
    let db = Database("measure".to_owned());
    let Campaign::Elected(leadership) = block_on(membership.campaign(&db, Reservation::Ignore))? else {
        return Err("somebody else leads the database".into());
    };
    let mut raw = Raw { etcd, epoch: leadership.epoch(), next: leadership.epoch().0 << 32 };
    let mut appender = block_on(leadership.appender())?;

    println!("| one append under way | log p50, ms | log p99 | put p50, ms | put p99 |");
    for (bytes, count) in [(256, 300), (64 << 10, 100), ((1 << 20) - 40, 30)] {
        let value = vec![b'x'; bytes];
        let (mut by_log, mut by_put) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // The two take turns to be first: the first one waits for etcd to finish the trimming.
            for is_log in [round % 2 == 0, round % 2 != 0] {
                match is_log {
                    true => by_log.push(times(count, || block_on(appended(appender.stage(&value))))),
                    false => by_put.push(times(count, || block_on(raw.put(&value)))),
                }
            }
            trim(&leadership, &appender)?;
        }
        let [log50, log99, put50, put99] = [(&by_log, 0.5), (&by_log, 0.99), (&by_put, 0.5), (&by_put, 0.99)]
            .map(|(rounds, part)| median(rounds.iter().map(|times| percentile(times, part)).collect()));
        println!("| {bytes} B | {log50:.2} | {log99:.2} | {put50:.2} | {put99:.2} |");
    }
    println!("| appends under way | size | appends/s | MB/s | gaps of a hundred appends |");
    for (bytes, under_way, count) in [(256, 4, 800), (256, 16, 1600), (64 << 10, 4, 200), ((1 << 20) - 40, 4, 24)] {
        let value = vec![b'x'; bytes];
        let (mut rates, mut gaps) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            gaps += block_on(append_together(&mut appender, &value, under_way, count));
            rates.push(count as f64 / begun.elapsed().as_secs_f64());
            trim(&leadership, &appender)?;
        }
        let rate = median(rates);
        let gaps = gaps as f64 * 100.0 / (count * ROUNDS) as f64;
        println!("| {under_way} | {bytes} B | {rate:.0} | {:.1} | {gaps:.1} |", rate * bytes as f64 / 1e6);
    }
    block_on(membership.leave())?;
    Ok(())
}

async fn appended(staged: colibri_replica::Staged) -> usize {
    let mut gaps = 0;
    loop {
        match staged.append().await {
            Outcome::Appended => return gaps,
            Outcome::Gap { .. } => gaps += 1,
            other => panic!("{other:?}"),
        }
    }
}

/// Appends records, `under_way` of them at a time. Gives how many were refused because the record
/// before them was not there yet.
async fn append_together(appender: &mut Appender, value: &[u8], under_way: usize, count: usize) -> usize {
    let mut left = count;
    let mut gaps = 0;
    let mut running: Vec<Pin<Box<dyn Future<Output = usize>>>> = Vec::new();
    std::future::poll_fn(|context| {
        loop {
            while running.len() < under_way && left > 0 {
                left -= 1;
                running.push(Box::pin(appended(appender.stage(value))));
            }
            let before = running.len();
            running.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Ready(found) => {
                    gaps += found;
                    false
                }
                Poll::Pending => true,
            });
            if running.is_empty() && left == 0 {
                return Poll::Ready(());
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    gaps
}

/// The raw measure: one put with the two compares of a fence, and nothing else.
struct Raw {
    etcd: Arc<Etcd>,
    epoch: Epoch,
    next: u64,
}

impl Raw {
    async fn put(&mut self, value: &[u8]) {
        self.next += 1;
        let key = format!("/measure/{:016x}", self.next).into_bytes();
        let leader = b"/colibri/measure/leader/measure".to_vec();
        let txn = Txn {
            compares: vec![
                Compare::Created(leader, Revision(self.epoch.0)),
                Compare::Created(key.clone(), Revision::default()),
            ],
            then: vec![Operation::Put { key, value: value.to_vec(), lease: None }],
            otherwise: Vec::new(),
        };
        let done = self.etcd.transact(txn).await.expect("etcd answers");
        assert!(done.held, "name the cluster \"measure\"");
    }
}

fn trim(leadership: &Leadership, appender: &Appender) -> Result<(), Failed> {
    block_on(leadership.trim(&Held::elsewhere(appender.point())))?;
    Ok(())
}

/// Makes some calls, one after another. Gives the milliseconds that each took, the shortest first.
fn times<T>(count: usize, mut call: impl FnMut() -> T) -> Vec<f64> {
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            call();
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
