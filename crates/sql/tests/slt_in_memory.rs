//! The files of `slt/` on a store in memory: the seam below sessions lets nothing of the storage
//! engine through.

#[path = "slt.rs"]
mod slt;

fn main() {
    slt::main();
}
