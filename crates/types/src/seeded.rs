//! Numbers at random, the same ones after the same seed.
//!
//! The generator is xoroshiro128**, seeded by SplitMix64, as PostgreSQL has it, so that a seed gives
//! the numbers that it gives there. A session that has set none uses one of the thread's.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bits of a number between 0 and 1.
const BITS: u32 = 52;

/// The generator of a session.
#[derive(Debug, Default)]
pub struct Seeded {
    /// Whether a seed was set. Pairs with itself: set behind the lock, and looked at before it.
    is_set: AtomicBool,
    state: Mutex<(u64, u64)>,
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Seeded {
    /// Sets the seed, a number from -1 to 1.
    pub fn set(&self, seed: f64) {
        let mut state = (((1_u64 << BITS) - 1) as f64 * seed) as i64 as u64;
        let (first, second) = (split_mix(&mut state), split_mix(&mut state));
        // All of it zero would give nothing but zeros.
        let known =
            if (first, second) == (0, 0) { (0x5851_f42d_4c95_7f2d, 0x1405_7b7e_f767_814f) } else { (first, second) };
        *self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = known;
        self.is_set.store(true, Ordering::Release);
    }

    /// A number from 0 on, below 1.
    pub fn next(&self) -> f64 {
        if !self.is_set.load(Ordering::Acquire) {
            return fastrand::f64();
        }
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (first, mixed) = (state.0, state.1 ^ state.0);
        let value = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        *state = (first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37));
        (value >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
    }
}
