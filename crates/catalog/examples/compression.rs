//! What compression of long values costs and saves: rows with a document of JSON, or of random bytes,
//! are written and read, compressed or not.
//!
//! ```text
//! compression                       bytes of rows by the length of their documents
//! compression KIND BYTES METHOD OPERATION ROUNDS    for counting instructions, by `perf stat`
//!     KIND json|text|noise    METHOD none|lz4    OPERATION none|write|read|skip
//! ```
//! `skip` reads the number beside the document, and not the document.

use colibri_catalog::row::RowFormat;
use colibri_types::types::Modifier;
use colibri_types::{Datum, Env, Type, text_io};

const WORDS: [&str; 24] = [
    "order",
    "street",
    "Berlin",
    "customer",
    "delivery",
    "invoice",
    "paid",
    "open",
    "Anna",
    "Schmidt",
    "colour",
    "green",
    "quantity",
    "warehouse",
    "north",
    "parcel",
    "return",
    "garden",
    "chair",
    "table",
    "lamp",
    "express",
    "note",
    "comment",
];
const ROWS: usize = 64;

/// A document as applications have them: objects of the same keys with values that differ.
fn json(random: &mut fastrand::Rng, bytes: usize) -> String {
    let word = |random: &mut fastrand::Rng| *random.choice(&WORDS).unwrap_or(&"");
    let mut text =
        format!("{{\"id\": {}, \"customer\": \"{} {}\", \"items\": [", random.u32(..), word(random), word(random));
    while text.len() + 100 < bytes {
        let (name, note) = (word(random), format!("{} {} {}", word(random), word(random), word(random)));
        text += &format!(
            "{{\"sku\": \"{:08x}\", \"name\": \"{name}\", \"price\": {}.{:02}, \"quantity\": {}, \"note\": \"{note}\"}}, ",
            random.u32(..),
            random.u8(..),
            random.u8(..100),
            random.u8(1..9)
        );
    }
    text + "null]}"
}

fn document(kind: &str, bytes: usize, random: &mut fastrand::Rng) -> (Type, Datum) {
    match kind {
        "json" => {
            let text = json(random, bytes);
            let value = text_io::parse(Type::Jsonb, Modifier::NONE, &text, &Env::default());
            (Type::Jsonb, value.expect("the text is JSON"))
        }
        "text" => {
            let mut text = String::new();
            while text.len() < bytes {
                text += random.choice(&WORDS).unwrap_or(&"");
                text.push(' ');
            }
            (Type::Text, Datum::text(&text))
        }
        _ => (Type::Bytea, Datum::Bytes((0..bytes).map(|_| random.u8(..)).collect())),
    }
}

/// Rows of a number and a document, and what they are made of.
fn rows(kind: &str, bytes: usize, method: &str) -> (RowFormat, Vec<[Datum; 2]>, Vec<Vec<u8>>) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut values = Vec::new();
    let mut ty = Type::Text;
    for number in 0..ROWS {
        let (of, document) = document(kind, bytes, &mut random);
        ty = of;
        values.push([Datum::Int(number as i64), document]);
    }
    let format = RowFormat::new(0, &[Type::Int4, ty]).compressing(|_| method == "lz4");
    let rows = values.iter().map(|row| written(&format, row)).collect();
    (format, values, rows)
}

fn written(format: &RowFormat, row: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    format.encode(row, &mut out).expect("a row that can be written");
    out
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, bytes, method, operation, rounds] = &args[..] else {
        for kind in ["json", "text", "noise"] {
            for bytes in [300, 500, 700, 1_000, 2_000, 10_000, 100_000] {
                let total = |method| rows(kind, bytes, method).2.iter().map(Vec::len).sum::<usize>() / ROWS;
                println!("{kind} {bytes}: none {}, lz4 {}", total("none"), total("lz4"));
            }
        }
        return;
    };
    let (format, values, rows) = rows(kind, bytes.parse().expect("BYTES"), method);
    let mut buffer = Vec::new();
    for _ in 0..rounds.parse().expect("ROUNDS") {
        for (row, values) in rows.iter().zip(&values) {
            match operation.as_str() {
                "write" => {
                    buffer.clear();
                    format.encode(values, &mut buffer).expect("a row that can be written");
                }
                "read" => _ = std::hint::black_box(format.get(row, 1).expect("a row")),
                "skip" => _ = std::hint::black_box(format.get(row, 0).expect("a row")),
                _ => {}
            }
        }
    }
}
