//! Pings: while there is work, a small task goes to one pool after the other, and measures how long
//! it waited and how long its work took. While nobody works none is sent. One is sent at a time:
//! several would be a reason to wake another thread.
//!
//! The work is a product of matrices of 11 × 11, as in YDB's self-ping. If it takes longer than
//! usual, another process uses the CPU.
//!
//! Not here: when to send one (`worker`).

use std::hint::black_box;
use std::sync::Arc;

use crate::pool::Pool;
use crate::shared::Shared;
use crate::task::{self, Meta};

const SIDE: usize = 11;

/// Sends a ping to a pool.
pub(crate) fn send(shared: &Arc<Shared>, part: usize, pool: Pool) {
    if shared.stopping.is_set() {
        return;
    }
    let sent_ns = shared.clock.now_ns();
    let shared_by_ping = Arc::clone(shared);
    drop(task::spawn(shared, part, Meta::brief(pool), async move {
        let shared = shared_by_ping;
        let begun_ns = shared.clock.now_ns();
        shared.counts.ping[pool.index()].record(begun_ns.saturating_sub(sent_ns));
        black_box(product(black_box(sent_ns)));
        shared.counts.ping_work.record(shared.clock.now_ns().saturating_sub(begun_ns));
    }));
}

fn product(seed: u64) -> u64 {
    let matrix = |factor: u64| {
        let mut matrix = [[0_u64; SIDE]; SIDE];
        let cells = matrix.iter_mut().flatten().enumerate();
        cells.for_each(|(index, cell)| *cell = seed.wrapping_add(index as u64).wrapping_mul(factor));
        matrix
    };
    let (a, b) = (matrix(3), matrix(5));
    let mut sum = 0_u64;
    for row in &a {
        for column in 0..SIDE {
            let cell =
                row.iter().zip(&b).fold(0_u64, |cell, (x, line)| cell.wrapping_add(x.wrapping_mul(line[column])));
            sum = sum.wrapping_add(cell);
        }
    }
    sum
}
