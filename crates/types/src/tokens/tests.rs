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
                            && args
                                .iter()
                                .zip(&wanted)
                                .all(|(arg, ty)| arg == ty || ty.is_array() && *arg == Type::AnyArray)
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
