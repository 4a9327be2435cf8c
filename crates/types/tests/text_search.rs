//! Full text search at its limits, and what an index may rely on.

use colibri_types::SqlState;
use colibri_types::text_search::{Query, Vector, configuration_named, headline, is_match, lexemes_match};
use colibri_types::text_search::{lexemes_of, read_query, read_vector, rewritten};

fn query(text: &str) -> Query {
    read_query(text).expect(text)
}

fn state_of<T>(result: colibri_types::Result<T>) -> Option<SqlState> {
    result.err().map(|error| error.state())
}

/// Operators in lists of `&` and `|` by turns were not counted as depth, so a query of some hundred
/// kilobytes overflowed the stack and ended the process. Trees are no longer recursive.
#[test]
fn rewriting_takes_no_stack() {
    let deep = format!("{}x{}", "(a&b)&((c|d)|(".repeat(50_000), "))".repeat(50_000));
    let result = rewritten(&query(&deep), &query("x"), &query("y")).expect("it is not too large");
    assert_eq!(result.nodes().len(), query(&deep).nodes().len());
    let phrases = format!("{}x{}", "a <-> (".repeat(50_000), ")".repeat(50_000));
    let result = rewritten(&query(&phrases), &query("x"), &query("y | z")).expect("it is not too large");
    assert_eq!(result.nodes().len(), query(&phrases).nodes().len() + 2);
}

/// Each place that was found took a copy of what stands for it, whose size was looked at when all were
/// made: two texts of a few hundred kilobytes took all memory.
#[test]
fn rewriting_stops_at_a_result_that_is_too_large() {
    let (query_of_many, by) = (format!("{}a", "a|".repeat(100_000)), format!("{}b", "b&".repeat(100_000)));
    let result = rewritten(&query(&query_of_many), &query("a"), &query(&by));
    assert_eq!(state_of(result), Some(SqlState("54000")));
    // A long list takes time by its length, not by the square of it.
    let list = rewritten(&query(&query_of_many), &query("q"), &query("b")).expect("it is not too large");
    assert_eq!(list.nodes().len(), 200_001);
}

/// A word was put into a list once for each operand that it is, and marks were written for each without
/// looking at how long the headline was: a statement of a megabyte took all memory.
#[test]
fn headlines_are_bounded() {
    let simple = configuration_named("simple").expect("it is built in");
    let (text, many) = ("a ".repeat(100_000), format!("{}a", "a|".repeat(100_000)));
    assert_eq!(state_of(headline(simple, &text, &query(&many), "")), Some(SqlState("54000")));
    let options = format!("HighlightAll=1, StartSel={}", "x".repeat(30_000));
    assert_eq!(state_of(headline(simple, &text, &query("a"), &options)), Some(SqlState("54000")));
}

/// The message for a missing character was made, with all of the text, for every backslash: reading ten
/// megabytes of them took hours.
#[test]
fn backslashes_take_time_by_their_number() {
    let text = format!("'{}'", "\\a".repeat(2_000_000));
    assert_eq!(state_of(read_vector(&text)), Some(SqlState("54000")));
    assert_eq!(state_of(read_query(&text)), Some(SqlState("54000")));
}

/// A word within a phrase was taken for a firm yes where a document has it anywhere, so `!a <-> b` was
/// denied for `a:1 b:5`: an index that leaves such rows out would lose them.
#[test]
fn lexemes_never_deny_what_matches() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut matches = 0;
    for _ in 0..20_000 {
        let mut document = String::new();
        for word in ["a", "b", "c", "ab"] {
            if random.bool() {
                let places = ["", ":1", ":2A", ":1,5", ":3,4B"];
                document += &format!("{word}{} ", random.choice(places).expect("there are some"));
            }
        }
        let mut text = String::from("a");
        for _ in 0..random.usize(1..5) {
            let operand = *random.choice(&["a", "b", "c", "a:*", "b:A", "x", "!a", "!(a | x)"]).expect("some");
            let operator = *random.choice(&["&", "|", "<->", "<2>"]).expect("some");
            let not = *random.choice(&["", "!"]).expect("some");
            text = match random.u8(..3) {
                0 => format!("{not}({text}) {operator} {operand}"),
                1 => format!("{operand} {operator} {not}({text})"),
                _ => format!("{not}({text} {operator} {operand})"),
            };
        }
        let (query, bytes) = (query(&text), read_vector(&document).expect("a document"));
        if is_match(Vector::new(&bytes), &query).expect("nobody cancels it") {
            matches += 1;
            let lexemes: Vec<&str> = lexemes_of(&bytes).collect();
            let has = |lexeme: &str, is_prefix: bool| {
                lexemes.iter().any(|own| if is_prefix { own.starts_with(lexeme) } else { *own == lexeme })
            };
            assert!(lexemes_match(&query, has), "{document} {text}");
        }
    }
    assert!(matches > 1000, "{matches}");
}

/// Weights and prefixes made queries different that PostgreSQL takes for equal, and the distance of a
/// phrase was compared before its operands: a key accepted what it has to refuse. They are not compared,
/// and distances come behind.
#[test]
fn queries_come_back_from_their_bytes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..5_000 {
        let mut text = String::from("a");
        for _ in 0..random.usize(..6) {
            let operand = *random.choice(&["a", "b:*AD", "'c d'", "!b", "x:C", "(a <7> b)"]).expect("some");
            let operator = *random.choice(&["&", "|", "<->", "<0>", "<16384>"]).expect("some");
            text = match random.u8(..3) {
                0 => format!("({text}) {operator} {operand}"),
                1 => format!("{operand} {operator} !({text})"),
                _ => format!("{operand} {operator} ({text})"),
            };
        }
        let query = query(&text);
        let bytes = query.to_bytes().expect("it is short");
        assert_eq!(Query::from_bytes(&bytes), query, "{text}");
        let plain: String = text.replace(":*AD", "").replace(":C", "");
        let plain = read_query(&plain).expect(&plain).to_bytes().expect("it is short");
        assert_eq!(Query::compared(&bytes), Query::compared(&plain), "{text}");
        // Damaged ones are none, and panic nowhere.
        let mut damaged = bytes.to_vec();
        for _ in 0..4 {
            match random.u8(..3) {
                0 => damaged.truncate(random.usize(..=damaged.len())),
                1 if !damaged.is_empty() => *random.choice(&mut damaged[..]).expect("it has bytes") = random.u8(..),
                _ => damaged.insert(random.usize(..=damaged.len()), random.u8(..)),
            }
            let read = Query::from_bytes(&damaged);
            let mut out = String::new();
            read.write(&mut out).expect("nobody cancels it");
            assert!(Query::compared(&damaged).len() <= damaged.len());
        }
    }
}
