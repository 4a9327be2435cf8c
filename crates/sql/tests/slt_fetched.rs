//! The files of `slt/` on a store in memory that has to fetch what it is asked for: statements go
//! on where they were.

#[path = "slt.rs"]
mod slt;

fn main() {
    slt::main();
}
