use std::time::Duration;

use super::*;
use crate::text_search::vector::Position;

fn simple() -> &'static Configuration {
    configuration_named("simple").unwrap()
}

fn random_text(random: &mut fastrand::Rng, parts: &[&str], count: usize) -> String {
    (0..count).map(|_| *random.choice(parts).unwrap()).collect()
}

const PIECES: &[&str] = &[
    "a", "foo", "Bar", "1", "42", ".", "..", "-", "+", "@", "/", "//", "://", ":", "_", "~", "?", "#", "&", "&amp;",
    "<", ">", "<a ", "</", "<!--", "-->", "'", "\"", "\\", " ", "\t", "e", "x", "\u{e9}", "\u{301}", "\u{4e2d}",
    "http", "script", "=", "%", ";", "com",
];

#[test]
fn tokens_of_any_text_move_forward_and_end() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..3_000 {
        let count = random.usize(..40);
        let text = random_text(&mut random, PIECES, count);
        let mut tokens = Tokens::new(&text);
        let (mut last, mut found) = (0, 0);
        while let Some(token) = tokens.next_token().unwrap() {
            let start = token.text.as_ptr() as usize - text.as_ptr() as usize;
            assert!(start >= last, "{text:?}: {token:?} goes back");
            assert!(!token.text.is_empty() || found < text.len() * 4 + 4, "{text:?} does not end");
            assert!((1..=23).contains(&token.kind));
            (last, found) = (start, found + 1);
        }
    }
}

/// What this thread has had of a processor: others may want it, too.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[test]
fn hostile_texts_take_linear_time() {
    let unit = 20_000;
    for piece in [
        "<!--", "<!-- ", "<a '", "<a \"'", "1a@", "a@b.", "a-", "a-1-", "1.", "a.", "/", "~/", "../", "&#", "&a",
        "http://", "a.bc/", "a.bc:1/", "<script>", "1e", "+1.", "x_", "\u{301}", "a?b", "-1.2.",
    ] {
        let time = |count: usize| {
            let text = piece.repeat(count);
            let start = cpu_time();
            let mut tokens = Tokens::new(&text);
            while tokens.next_token().unwrap().is_some() {}
            cpu_time() - start
        };
        let whole = time(unit);
        assert!(whole < Duration::from_secs(20), "{piece:?} took {whole:?}");
    }
}

/// Bug: a path that was looked for in vain was looked for again at each of its characters.
/// Consequence: 40 KB of `~/` took seconds. Fix: it is remembered how far one was looked for.
#[test]
fn paths_that_lead_nowhere_take_linear_time() {
    for piece in ["~/", "./", "/.", "/~", "~/./", "/~/.", "../", "/..", "./~/.."] {
        for end in ["", "^", "...", "x"] {
            let text = piece.repeat(300_000) + end;
            let start = cpu_time();
            let mut tokens = Tokens::new(&text);
            while tokens.next_token().unwrap().is_some() {}
            let taken = cpu_time() - start;
            assert!(taken < Duration::from_secs(20), "{piece:?} and {end:?} took {taken:?}");
        }
    }
}

/// What is remembered of a path changes no token.
#[test]
fn texts_that_look_like_paths_have_the_tokens_of_their_ends() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let count = random.usize(..14);
        let text = random_text(&mut random, &["/", "~", ".", "a", "^", " ", "-"], count);
        let mut tokens = Tokens::new(&text);
        let mut at = 0;
        while let Some(token) = tokens.next_token().unwrap() {
            let start = token.text.as_ptr() as usize - text.as_ptr() as usize;
            // Parts of a word with hyphens come again behind it.
            if start == at {
                let alone = Tokens::new(&text[at..]).next_token().unwrap();
                assert_eq!(Some(token), alone, "{text:?} at {at}");
                at += token.text.len();
            }
        }
    }
}

#[test]
fn queries_of_any_depth_take_no_stack() {
    let deep = 100_000;
    let chain = vec!["a"; deep].join(" <-> ");
    let nested = format!("{}a{}", "!(".repeat(deep), ")".repeat(deep));
    let right = format!("{}a{}", "b&(".repeat(deep), ")".repeat(deep));
    for text in [chain, nested, right] {
        let query = read_query(&text).unwrap();
        let again = Query::from_bytes(&query.to_bytes().unwrap());
        assert_eq!(query, again);
        let document = document(simple(), "a b a b").unwrap();
        is_match(Vector::new(&document), &query).unwrap();
        let mut shown = String::new();
        query.write(&mut shown).unwrap();
        // The text does not say how operands of the same operator are grouped.
        let mut again = String::new();
        read_query(&shown).unwrap().write(&mut again).unwrap();
        assert_eq!(again, shown);
        let changed = rewritten(&query, &read_query("a").unwrap(), &read_query("c").unwrap()).unwrap();
        assert!(changed.lexemes().contains(&"c"));
    }
}

/// PostgreSQL's order of documents, said in another way than the bytes do.
fn order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let parts = |bytes: &[u8]| -> Vec<(String, Option<Vec<Position>>)> {
        let entries = Vector::new(bytes).entries();
        entries
            .map(|entry| (entry.lexeme().to_owned(), entry.has_positions().then(|| entry.positions().collect())))
            .collect()
    };
    let size = |parts: &[(String, Option<Vec<Position>>)]| -> usize {
        parts.iter().fold(8 + 4 * parts.len(), |size, (lexeme, positions)| {
            let size = size + lexeme.len();
            positions.as_ref().map_or(size, |positions| size.next_multiple_of(2) + 2 + 2 * positions.len())
        })
    };
    let (a, b) = (parts(a), parts(b));
    size(&a).cmp(&size(&b)).then(a.len().cmp(&b.len())).then_with(|| {
        let pairs = a.iter().zip(&b);
        let mut each = pairs.map(|((lexeme, at), (other, other_at))| {
            let none = Vec::new();
            other_at.is_some().cmp(&at.is_some()).then_with(|| lexeme.cmp(other)).then_with(|| {
                let (at, other_at) = (at.as_ref().unwrap_or(&none), other_at.as_ref().unwrap_or(&none));
                other_at.len().cmp(&at.len()).then_with(|| {
                    let pairs = at.iter().zip(other_at);
                    let key = |at: &Position| (at.place(), at.weight());
                    pairs
                        .map(|(a, b)| key(b).cmp(&key(a)))
                        .find(|order| order.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                })
            })
        });
        each.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    })
}

#[test]
fn bytes_of_documents_sort_as_documents_do() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let values: Vec<Box<[u8]>> = (0..150)
        .map(|_| {
            let words = (0..random.usize(..4)).map(|_| {
                let word = random_text(&mut random, &["a", "b", "ab", "\u{e9}"], 2);
                format!("{word}{} ", random.choice(&["", ":1", ":2", ":1A", ":1,2", ":3B,4C"]).unwrap())
            });
            read_vector(&words.collect::<String>()).unwrap()
        })
        .collect();
    for a in &values {
        for b in &values {
            assert_eq!(a.cmp(b), order(a, b), "{a:?} {b:?}");
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let vector = read_vector("a:1A,2 'b c' d:3").unwrap();
    let query = read_query("a & !(b:*A <3> c) | d").unwrap().to_bytes().unwrap();
    for _ in 0..5_000 {
        for good in [&vector, &query] {
            let mut bytes = good.to_vec();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let mut text = String::new();
            Vector::new(&bytes).write(&mut text);
            let query = Query::from_bytes(&bytes);
            query.write(&mut text).unwrap();
            let _ = is_match(Vector::new(&bytes), &query);
            let _ = rank(&DEFAULT_WEIGHTS, Vector::new(&bytes), &query, 0);
            let _ = receive_vector(&bytes);
            let _ = receive_query(&bytes);
        }
    }
}

#[test]
fn an_index_knows_what_can_match() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let words = random_text(&mut random, &["a ", "b ", "ab ", "c "], 4);
        let document = document(simple(), &words).unwrap();
        let query = crate::value::random::random_datum(crate::Type::TsQuery, &mut random);
        let crate::Datum::Query(query) = query else { panic!("it is a query") };
        let query = Query::from_bytes(&query);
        let lexemes: Vec<&str> = lexemes_of(&document).collect();
        let may = lexemes_match(&query, |lexeme, is_prefix| {
            lexemes.iter().any(|had| if is_prefix { had.starts_with(lexeme) } else { *had == lexeme })
        });
        if is_match(Vector::new(&document), &query).unwrap() {
            assert!(may, "{words} {query:?}");
        }
    }
}

#[test]
fn clients_get_the_bytes_of_postgresql() {
    use crate::{Env, Modifier, Type};
    // As PostgreSQL 15 sends these.
    let cases = [
        (Type::TsVector, "a:1A,3 b cc:5C", "0000000361000002c00100036200000063630000014005"),
        (
            Type::TsQuery,
            "a:*AB & !b <3> c | 'd e'",
            "00000008020301000064206500020202040003010000630002010100006200010c016100",
        ),
        (Type::Inet, "10.1.2.3/8", "020800040a010203"),
        (Type::Cidr, "2001:db8::/32", "0320011020010db8000000000000000000000000"),
        (Type::MacAddr, "1:2:3:4:5:6", "010203040506"),
        (Type::MacAddr8, "01:02:03:04:05:06", "010203fffe040506"),
    ];
    for (ty, text, sent) in cases {
        let value = crate::text_io::parse(ty, Modifier::NONE, text, &Env::default()).unwrap();
        let mut out = Vec::new();
        crate::binary_io::write_binary(ty, Modifier::NONE, &value, &mut out);
        let shown: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, sent, "{text}");
        assert_eq!(crate::binary_io::parse_binary(ty, &out).unwrap(), value, "{text}");
    }
}
