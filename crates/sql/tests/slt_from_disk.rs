//! The files of `slt/` on the storage engine when pages come from the disk: statements go on where they
//! were.

#[path = "slt.rs"]
mod slt;

fn main() {
    slt::main();
}
