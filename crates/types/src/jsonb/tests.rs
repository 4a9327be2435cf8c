use std::hash::{DefaultHasher, Hasher};

use super::*;
use crate::key::{Key, encode_numeric};
use crate::value::Datum;
use crate::value::random::random_json;

fn bytes(text: &str) -> Vec<u8> {
    match parse(text).and_then(Item::datum).unwrap() {
        Datum::Jsonb(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    write(JsonbRef::new(bytes), &mut out).unwrap();
    out
}

#[test]
fn documents_are_printed_as_postgresql_prints_them() {
    let check = |text: &str, expected: &str| assert_eq!(shown(&bytes(text)), expected, "{text}");
    check(r#"{"bb":1,"a":[1.50,true,null],"a":{"x":"\u00e9\n"}}"#, r#"{"a": {"x": "é\n"}, "bb": 1}"#);
    check("[]", "[]");
    check(" { } ", "{}");
    check("1e2", "100");
    check("-0.10", "-0.10");
    check(r#""\u0001\"\\/""#, r#""\u0001\"\\/""#);
}

#[test]
fn the_bytes_never_change() {
    let check = |text: &str, expected: &[u8]| assert_eq!(bytes(text), expected, "{text}");
    check("null", &[0]);
    check("false", &[1]);
    check("true", &[2]);
    check("1.50", &[3, 2, 150, 0]);
    check("-1", &[3, 0, 255]);
    check("\"ab\"", b"\x04ab");
    check("[]", &[5, 1, 0]);
    check("[1, [true]]", &[5, 2, 2, 3, 8, 3, 0, 1, 5, 1, 1, 1, 2]);
    check(r#"{"b": null, "aa": 7}"#, &[6, 1, 2, 1, 3, 1, 4, b'b', b'a', b'a', 0, 3, 0, 7]);
    let long = format!("[\"{}\"]", "x".repeat(300));
    assert_eq!(bytes(&long)[..8], [0x15, 1, 1, 0, 0x2d, 1, 4, b'x']);
    let longer = format!("[\"{}\"]", "x".repeat(70_000));
    assert_eq!(bytes(&longer)[..6], [0x25, 1, 1, 0, 0, 0]);
}

#[test]
fn fields_are_found_by_key_and_by_place() {
    let members: Vec<String> = (0..1000).map(|at| format!("\"{at}\": [{at}, \"x{at}\"]")).collect();
    let document = bytes(&format!("{{{}}}", members.join(",")));
    let Node::Object(map) = JsonbRef::new(&document).node().unwrap() else { panic!("an object") };
    assert_eq!(map.len(), 1000);
    for at in 0..1000 {
        let Node::Array(list) = map.get(&at.to_string()).unwrap().node().unwrap() else { panic!("an array") };
        assert_eq!(shown(list.at(-1).unwrap().bytes()), format!("\"x{at}\""));
        assert_eq!(shown(list.at(0).unwrap().bytes()), at.to_string());
        assert!(list.at(2).is_none() && list.at(-3).is_none());
    }
    assert!(map.get("1000").is_none() && map.get("").is_none());
}

#[test]
fn keys_hashes_and_order_agree() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let key = |bytes: &[u8]| {
        let mut out = Key::new();
        encode_key(bytes, encode_numeric, &mut out);
        out
    };
    let hashed = |bytes: &[u8]| {
        let mut hasher = DefaultHasher::new();
        hash(bytes, &mut hasher);
        hasher.finish()
    };
    let list: Vec<Vec<u8>> = (0..400).map(|_| bytes(&random_json(&mut random, 3))).collect();
    for a in &list {
        assert_eq!(bytes(&shown(a)), *a);
        for b in &list {
            let order = compare(a, b);
            assert_eq!(key(a).cmp(&key(b)), order, "{} {}", shown(a), shown(b));
            if order.is_eq() {
                assert_eq!(hashed(a), hashed(b), "{} {}", shown(a), shown(b));
            }
        }
    }
    assert_eq!(compare(&bytes("1.0"), &bytes("1.00")), Ordering::Equal);
    assert_eq!(key(&bytes("[1.0]")), key(&bytes("[1.00]")));
    assert_eq!(compare(&bytes("[]"), &bytes("null")), Ordering::Less);
    assert_eq!(compare(&bytes("[[]]"), &bytes("[null]")), Ordering::Greater);
}

#[test]
fn any_bytes_are_read_or_refused() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..40_000 {
        let mut hostile = if round % 2 == 0 {
            (0..random.usize(..24)).map(|_| random.u8(..8)).collect()
        } else {
            bytes(&random_json(&mut random, 3))
        };
        if !hostile.is_empty() {
            for _ in 0..random.usize(..3) {
                let at = random.usize(..hostile.len());
                hostile[at] = random.u8(..);
            }
            hostile.truncate(random.usize(..=hostile.len()));
        }
        let _ = write(JsonbRef::new(&hostile), &mut String::new());
        let _ = compare(&hostile, &hostile);
        encode_key(&hostile, encode_numeric, &mut Key::new());
        hash(&hostile, &mut DefaultHasher::new());
    }
}

#[test]
fn depth_is_bounded() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(&deep(DEPTH_MAX)).and_then(Item::datum).is_ok());
    assert_eq!(parse(&deep(DEPTH_MAX + 1)).unwrap_err().state(), SqlState::TOO_COMPLEX);
    let inner = bytes(&deep(DEPTH_MAX));
    let around = Item::Array(vec![Item::Part(JsonbRef::new(&inner))]);
    assert_eq!(around.datum().unwrap_err().state(), SqlState::TOO_COMPLEX);
}
