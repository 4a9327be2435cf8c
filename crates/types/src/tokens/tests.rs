#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use super::*;
use crate::functions::ON_VALUES;
use crate::text_io;
use crate::types::Modifier;

fn value(ty: Type, text: &str) -> Datum {
    text_io::parse(ty, Modifier(-1), text, &Env::default()).unwrap()
}

/// Whether tokens are what a query asks for.
fn fulfils(query: &Query, tokens: &BTreeSet<Key>) -> bool {
    match query {
        Query::All => true,
        Query::Nothing => false,
        Query::Token(token) => tokens.contains(token),
        Query::Prefix(prefix) => tokens.iter().any(|token| token.starts_with(prefix)),
        Query::Between(low, high) => tokens.iter().any(|token| (low..=high).contains(&token)),
        Query::And(queries) => queries.iter().all(|query| fulfils(query, tokens)),
        Query::Or(queries) => queries.iter().any(|query| fulfils(query, tokens)),
        Query::AtLeast(count, some) => some.iter().filter(|token| tokens.contains(*token)).count() >= *count,
    }
}

/// Asks every value for every operand by every operator of a class: where the operator says yes, the
/// tokens have to be there. Gives how often tokens said no.
fn check(class: (&str, &str), ty: Type, values: &[&str], operands: &[(&str, Type, &str)]) -> usize {
    let class = super::class(class.0, class.1).unwrap();
    let env = Env::default();
    let mut refused = 0;
    for text in values {
        let held = value(ty, text);
        let tokens: BTreeSet<Key> = class.of_value(ty, &held).unwrap().into_iter().collect();
        for &(operator, operand_type, operand_text) in operands {
            assert!(class.answers(operator), "{operator}");
            let operand = value(operand_type, operand_text);
            let query = class.query(ty, operator, &operand, &env).unwrap();
            let is_true = match operator {
                "=" => Datum::Bool(crate::operators::equal(&held, &operand)),
                operator => {
                    let wanted = [ty, operand_type];
                    let is_it = |args: &[Type]| {
                        args.len() == 2
                            && args.iter().zip(&wanted).all(|(arg, ty)| {
                                arg == ty
                                    || ty.is_array() && *arg == Type::AnyArray
                                    || ty.is_range() && *arg == Type::AnyRange
                                    || ty.is_multirange() && *arg == Type::AnyMultirange
                                    || !ty.is_range() && !ty.is_multirange() && *arg == Type::AnyElement
                            })
                    };
                    let function = ON_VALUES.named(operator).iter().find(|known| is_it(known.args)).unwrap();
                    (function.eval)(&[&held, &operand], &env).unwrap()
                }
            };
            let may_be = fulfils(&query, &tokens);
            assert!(may_be || !is_true.is_true(), "{text} {operator} {operand_text}: {query:?} of {tokens:?}");
            refused += usize::from(!may_be);
        }
    }
    refused
}

const DOCUMENTS: &[&str] = &[
    "{}",
    "[]",
    "null",
    "true",
    "1",
    "1.50",
    r#""a""#,
    r#"["a"]"#,
    r#"{"a":1}"#,
    r#"{"a":1.0,"b":null}"#,
    r#"{"a":{"b":1}}"#,
    r#"{"a":{"b":"x"}}"#,
    r#"{"a":[1,2,{"b":3}]}"#,
    r#"[{"a":1},{"a":"b"}]"#,
    r#"{"b":"a"}"#,
    r#"{"a":[]}"#,
    r#"{"a":{}}"#,
    r#"[[1],[2,[3]]]"#,
    r#"{"a":true,"c":false}"#,
    r#"{"a":"true"}"#,
    r#"{"a":[{"b":1,"c":2},{"b":2,"c":1}]}"#,
    r#"{"":""}"#,
];

#[test]
fn documents_that_fulfil_a_condition_have_its_tokens() {
    let texts = Type::Text.array_of();
    let mut operands: Vec<(&str, Type, &str)> = DOCUMENTS.iter().map(|text| ("@>", Type::Jsonb, *text)).collect();
    let paths = [
        "$",
        "$.a",
        "$.a.b",
        "$.*",
        "$.**.b",
        "$.a[*]",
        "$.a[*].b",
        "$[*]",
        "$.a ? (@ == 1)",
        "$.a.b ? (@ == \"x\")",
        "$ ? (@.a == 1 && @.b == null)",
        "$ ? (@.a == 1 || @.b == \"a\")",
        "$ ? (!(@.a == 1))",
        "$.a.size()",
        "$.a ? (@.size() == 2)",
        "$.a[*] ? (@ > 1)",
        "$ ? (exists(@.a.b))",
        "$ ? (@.a starts with \"t\")",
        "$.a.type() ? (@ == \"string\")",
        "$.keyvalue().key",
        "$ ? ($.a == @.a)",
        "$.a + 1",
        "strict $.a[0]",
        "$.** ? (@ == 3)",
        "$[*].a ? (@ == \"b\")",
        "($.a == 1)",
        "$.a == 1",
        "$.a.b == \"x\"",
        "$.a[*] == 2",
        "$.c == false",
        "$.a == true && $.c == false",
        "$.a == 1 || $.b == \"a\"",
        "!($.a == 1)",
        "exists($.a)",
        "($.a == 1) is unknown",
        "-$.a == -1",
        "$.a.double() == 1",
        "$[*] == \"a\"",
        "$ == \"a\"",
        "$ == 1.5",
        "$.a like_regex \"^t\"",
        "1 == $.a",
        "$.a.b == $.a.b",
        "$.**.b == 3",
        "true",
        "$.a.b",
    ];
    operands.extend(paths.iter().flat_map(|path| [("@?", Type::JsonPath, *path), ("@@", Type::JsonPath, *path)]));
    assert!(check(("gin", "jsonb_path_ops"), Type::Jsonb, DOCUMENTS, &operands) > 500);
    for key in ["a", "b", "c", "", "x"] {
        operands.push(("?", Type::Text, key));
    }
    for keys in ["{}", "{a}", "{a,b}", "{b,NULL}", "{x,c}"] {
        operands.extend([("?|", texts, keys), ("?&", texts, keys)]);
    }
    assert!(check(("gin", "jsonb_ops"), Type::Jsonb, DOCUMENTS, &operands) > 500);
}

#[test]
fn arrays_that_fulfil_a_condition_have_its_tokens() {
    let arrays = ["{}", "{1}", "{1,2}", "{2,1}", "{1,NULL}", "{NULL}", "{{1,2},{3,4}}", "{3,3}", "{-1}"];
    let ty = Type::Int4.array_of();
    let operands: Vec<(&str, Type, &str)> =
        arrays.iter().flat_map(|text| ["&&", "@>", "<@", "="].map(|operator| (operator, ty, *text))).collect();
    assert!(check(("gin", "array_ops"), ty, &arrays, &operands) > 100);
    let texts = ["{}", "{a}", "{a,b}", r#"{""}"#, "{NULL,a}"];
    let ty = Type::Text.array_of();
    let operands: Vec<(&str, Type, &str)> =
        texts.iter().flat_map(|text| ["&&", "@>", "<@", "="].map(|operator| (operator, ty, *text))).collect();
    assert!(check(("gin", "array_ops"), ty, &texts, &operands) > 10);
}

#[test]
fn texts_that_match_have_the_trigrams_of_the_pattern() {
    let texts = [
        "",
        "a",
        "ab",
        "foo",
        "Foo Bar",
        "foobar",
        "xfoox",
        "foo-bar_baz",
        "100% sure",
        "straße",
        "STRASSE",
        "Übermut",
        "a b c",
        "fooo",
        "foo  bar",
        "f",
        "word similarity",
        "words",
        "foo\\bar",
        "bar foo",
        "κόσμος",
        "x y",
    ];
    let patterns = [
        "",
        "%",
        "foo",
        "foo%",
        "%foo%",
        "%foo",
        "f_o%",
        "%o%b%",
        "%oo bar%",
        "foo-bar%",
        "%\\%%",
        "%ß%",
        "Ü%",
        "a b c",
        "%b c",
        "__o",
        "%foo\\\\bar%",
        "% %",
        "%Bar",
    ];
    let regular = [
        "",
        "foo",
        "^foo",
        "foo$",
        "^foo$",
        "fo+",
        "fo*",
        "(foo|bar)",
        "f.o",
        "[fF]oo",
        "foo bar",
        r"foo\s+bar",
        r"\mbar",
        r"foo\M",
        "(foo ?bar)+",
        "fo{2,3}",
        "x?y",
        "^$",
        r"foo[-_]bar",
        "(?i)FOO",
        "b(?=ar)",
        r"(o)\1",
    ];
    let mut operands: Vec<(&str, Type, &str)> = Vec::new();
    operands.extend(patterns.iter().flat_map(|text| [("~~", Type::Text, *text), ("~~*", Type::Text, *text)]));
    operands.extend(regular.iter().flat_map(|text| [("~", Type::Text, *text), ("~*", Type::Text, *text)]));
    for text in texts {
        operands.extend(["=", "%", "%>", "%>>"].map(|operator| (operator, Type::Text, text)));
    }
    assert!(check(("gin", "gin_trgm_ops"), Type::Text, &texts, &operands) > 1000);
}

#[test]
fn long_tokens_are_found_by_what_they_are_hashed_to() {
    let long = "x".repeat(1000);
    let document = value(Type::Jsonb, &format!(r#"{{"{long}":"{long}y"}}"#));
    let class = class("gin", "jsonb_ops").unwrap();
    let tokens = class.of_value(Type::Jsonb, &document).unwrap();
    assert_eq!(tokens.len(), 2);
    assert!(tokens.iter().all(|token| token.len() <= TOKEN_BYTES_MAX));
    let query = class.query(Type::Jsonb, "@>", &document, &Env::default()).unwrap();
    assert_eq!(query, Query::And(tokens.into_iter().map(Query::Token).collect()));
}

#[test]
fn texts_are_as_alike_as_postgresql_says() {
    use trigram::{similarity, word_similarity};
    let is = |found: Result<f32>, expected: f32| assert!((found.unwrap() - expected).abs() < 1e-6);
    is(similarity("word", "two words"), 0.363_636_37);
    is(word_similarity("word", "two words", false), 0.8);
    is(word_similarity("word", "two words", true), 0.571_428_6);
    is(similarity("", "word"), 0.0);
    let shown: Vec<String> = trigram::of_text("word é").unwrap().into_iter().map(trigram::shown).collect();
    assert!(shown.contains(&"  w".to_owned()) && shown.contains(&"rd ".to_owned()), "{shown:?}");
}

#[test]
fn the_bytes_of_tokens_stay() {
    let shown = |class: (&str, &str), ty, text: &str| {
        let tokens = super::class(class.0, class.1).unwrap().of_value(ty, &value(ty, text)).unwrap();
        let hex = |token: &Key| token.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        tokens.iter().map(hex).collect::<Vec<_>>().join(" ")
    };
    let document = r#"{"a":[1,null,true,"b"],"c":"d"}"#;
    assert_eq!(shown(("gin", "jsonb_ops"), Type::Jsonb, document), "0161 0162 0163 02 0301 04b30200 0564");
    assert_eq!(shown(("gin", "jsonb_path_ops"), Type::Jsonb, r#"{"a":1}"#), "10d8d4f7b90e2bd4");
    assert_eq!(shown(("gin", "array_ops"), Type::Int4.array_of(), "{1,NULL}"), "0180000001 02");
    assert_eq!(shown(("gin", "array_ops"), Type::Int4.array_of(), "{}"), "03");
    assert_eq!(shown(("gin", "gin_trgm_ops"), Type::Text, "Ab"), "202061 206162 616220");
}

/// Trigrams whose checksums are punctuation were shown as text, where PostgreSQL shows digits. Only ASCII
/// letters, digits and blanks are shown.
#[test]
fn trigrams_are_shown_as_text_only_if_they_are_words() {
    let shown = |text: &str| -> Vec<String> {
        let trigrams = trigram::of_text(text).expect("nobody cancels it");
        trigrams.into_iter().map(trigram::shown).collect()
    };
    assert_eq!(shown("адн"), ["0xcdd0cc", "0xf48848", "0x1faaab", "0x224f43"]);
    assert_eq!(shown("xадсx"), ["0x8282f1", "  x", "0x3a417d", "0x443d12", "0x541e83", "0x7f0e9f"]);
}

/// Numbers near each other and far apart, around powers of two and the ends of what there is.
fn places(random: &mut u64, ends: [i64; 2]) -> i64 {
    let mut next = || {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *random >> 33
    };
    let near = (next() % 7) as i64 - 3;
    match next() % 6 {
        0 => near,
        1 => ends[0] + near.abs(),
        2 => ends[1] - 3 + near.min(2),
        3 => (1_i64 << (next() % 62)).saturating_add(near).clamp(ends[0], ends[1] - 1),
        4 => (-(1_i64 << (next() % 62))).saturating_add(near).clamp(ends[0], ends[1] - 1),
        _ => (next() % 2_000) as i64 - 1_000,
    }
}

#[test]
fn ranges_that_fulfil_a_condition_have_its_tokens() {
    let mut random = 7;
    let number = |value: i64| value.to_string();
    let tenth = |value: i64| format!("{}.{}", value / 10, value.abs() % 10);
    let date = |value: i64| {
        format!("{:04}-{:02}-{:02}", 1 + value.rem_euclid(9_000), 1 + value.rem_euclid(12), 1 + value.rem_euclid(28))
    };
    type Shown<'s> = &'s dyn Fn(i64) -> String;
    let cases: [(Type, Type, [i64; 2], Shown<'_>); 4] = [
        (Type::Int4Range, Type::Int4, [i64::from(i32::MIN), i64::from(i32::MAX)], &number),
        (Type::Int8Range, Type::Int8, [i64::MIN, i64::MAX], &number),
        (Type::NumRange, Type::Numeric, [i64::MIN + 9, i64::MAX - 9], &tenth),
        (Type::TsRange, Type::Timestamp, [-1_000_000, 1_000_000], &date),
    ];
    for (ty, element, ends, shown) in cases {
        let range = |random: &mut u64| {
            let (mut from, mut to) = (places(random, ends), places(random, ends));
            let (mut low, mut high) = (shown(from), shown(to));
            if element == Type::Timestamp {
                if low > high {
                    std::mem::swap(&mut low, &mut high);
                }
            } else if from > to {
                std::mem::swap(&mut from, &mut to);
                (low, high) = (shown(from), shown(to));
            }
            match *random % 11 {
                0 => "empty".to_owned(),
                1 => format!("(,{high})"),
                2 => format!("[{low},)"),
                3 => "(,)".to_owned(),
                _ => format!("[{low},{high})"),
            }
        };
        let values: Vec<String> = (0..150).map(|_| range(&mut random)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let asked: Vec<String> = (0..60).map(|_| range(&mut random)).collect();
        let elements: Vec<String> = (0..60).map(|_| shown(places(&mut random, ends))).collect();
        let operators = ["&&", "@>", "<@", "=", "<<", ">>"];
        let mut operands: Vec<(&str, Type, &str)> = Vec::new();
        for asked in &asked {
            operands.extend(operators.map(|operator| (operator, ty, asked.as_str())));
        }
        operands.extend(elements.iter().map(|element_text| ("@>", element, element_text.as_str())));
        let refused = check(("gist", "range_ops"), ty, &values, &operands);
        assert!(refused * 2 > values.len() * operands.len(), "{ty}: {refused}");
    }
}
