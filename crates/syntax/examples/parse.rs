//! Which statements of a file are read, and how long that takes.
//!
//! `cargo run --release -p colibri-syntax --example parse -- FILE [ROUNDS]` reads statements with
//! the character U+001E between them. It prints for each what is wrong with it, or `ok`, and to
//! the standard error how many were read, and the time for each.

use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(file), rounds) = (args.next(), args.next()) else {
        eprintln!("a file of statements is wanted");
        return;
    };
    let text = std::fs::read_to_string(&file).expect("the file can be read");
    let rounds: u32 = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(0);
    let statements: Vec<&str> = text.split('\u{1e}').collect();
    let mut read = 0;
    for statement in &statements {
        match colibri_syntax::parse(statement) {
            Ok(_) => {
                read += 1;
                println!("ok");
            }
            Err(error) => {
                let report = error.report();
                println!("{:?} {} {:?}", report.state, report.message.replace('\n', " "), report.position);
            }
        }
    }
    eprintln!("{read} of {} statements are read", statements.len());
    let began = Instant::now();
    for _ in 0..rounds {
        for statement in &statements {
            std::hint::black_box(colibri_syntax::parse(statement).is_ok());
        }
    }
    if rounds > 0 {
        let each = began.elapsed() / rounds / statements.len() as u32;
        eprintln!("{} ns for each", each.as_nanos());
    }
}
