//! Random values, for tests: often at a limit, or close to others.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use super::Datum;
use crate::array::Array;
use crate::datetime::TimeTz;
use crate::interval::Interval;
use crate::numeric::Numeric;
use crate::ranges;
use crate::row::{Row, RowType};
use crate::types::Type;

/// Whether two values are the same in value and form (1.0 and 1.00 are not).
pub fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Float(a), Datum::Float(b)) => a.to_bits() == b.to_bits(),
        (Datum::Numeric(a), Datum::Numeric(b)) => a == b && a.scale() == b.scale(),
        (Datum::Array(a), Datum::Array(b)) => {
            a.dimensions() == b.dimensions() && a.values().iter().zip(b.values()).all(|(a, b)| same(a, b))
        }
        (Datum::Interval(a), Datum::Interval(b)) => (a.months, a.days, a.micros) == (b.months, b.days, b.micros),
        _ => a == b,
    }
}

/// An array of up to three values.
fn random_array(ty: Type, random: &mut fastrand::Rng) -> Datum {
    let element = ty.element().unwrap_or(Type::Int4);
    let count = random.usize(..4);
    // Dates beyond the calendar are refused when an array is read.
    let good = |value: &Datum| {
        let mut bytes = Vec::new();
        crate::binary_io::write_binary(element, crate::types::Modifier::NONE, value, &mut bytes);
        crate::binary_io::parse_binary(element, &bytes).is_ok_and(|back| same(&back, value))
    };
    let values = (0..count).map(|_| std::iter::repeat_with(|| random_datum(element, random)).find(good));
    let values = values.map(Option::unwrap_or_default).collect();
    let lower = if matches!(ty, Type::Int2Vector | Type::OidVector) { 0 } else { 1 };
    Datum::Array(Arc::new(Array::counted_from(element, values, lower)))
}

/// A text of JSON, of so many levels at most.
pub fn random_json(random: &mut fastrand::Rng, depth: usize) -> String {
    let string = |random: &mut fastrand::Rng| {
        let parts = ["a", "b", "ab", "\\u0001", "\u{e9}", "\\n", "\\\"", ""];
        let text: String = (0..random.usize(..4)).map(|_| *random.choice(&parts).unwrap()).collect();
        format!("\"{text}\"")
    };
    match random.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => "null".to_owned(),
        1 => random.bool().to_string(),
        2 => random
            .choice(&["0", "-1", "1.0", "1.00", "12.5", "1e3", "-0.001", "99999999999999999999"])
            .unwrap()
            .to_string(),
        3 => random.i32(-300..300).to_string(),
        4 => string(random),
        5 => {
            let items: Vec<String> = (0..random.usize(..4)).map(|_| random_json(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let members = (0..random.usize(..4)).map(|_| {
                let key = string(random);
                format!("{key}:{}", random_json(random, depth - 1))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
    }
}

/// A number that often has more digits than a small one, or is none.
fn random_large(random: &mut fastrand::Rng) -> Numeric {
    let text = match random.u8(..10) {
        0 => ["NaN", "Infinity", "-Infinity"][random.usize(..3)].to_owned(),
        1 => format!("{}e{}", random.i8(..), random.i32(-16_300..131_000)),
        _ => {
            let digits = |random: &mut fastrand::Rng| -> String {
                let length = random.usize(..60);
                let digit = |_| char::from(b'0' + if random.bool() { 0 } else { random.u8(..10) });
                (0..length).map(digit).collect()
            };
            let sign = if random.bool() { "-" } else { "" };
            format!("{sign}0{}.{}e{}", digits(random), digits(random), random.i32(-130..130))
        }
    };
    Numeric::parse(&text).unwrap_or(Numeric::ZERO)
}

/// A value of a type, not NULL, often one at some limit or close to others.
pub fn random_datum(ty: Type, random: &mut fastrand::Rng) -> Datum {
    let int = |random: &mut fastrand::Rng, bits: u32| -> i64 {
        let wide = match random.u8(..4) {
            0 => random.i64(-3..=3),
            1 => i64::MAX.wrapping_add(random.i64(-1..=2)) >> (64 - bits),
            2 => 1i64 << random.u32(..bits),
            _ => random.i64(..),
        };
        (wide << (64 - bits)) >> (64 - bits)
    };
    let bytes = |random: &mut fastrand::Rng| -> Vec<u8> {
        (0..random.usize(..6)).map(|_| *random.choice(b"\0\x01\x02ab\xfe\xff").unwrap()).collect()
    };
    match ty.base() {
        Type::Array(_) | Type::Int2Vector | Type::OidVector | Type::AnyArray | Type::AnyCompatibleArray => {
            random_array(ty, random)
        }
        Type::Record => {
            let fields = [Type::Int4, Type::Text];
            let values = fields.iter().map(|&field| match random.u8(..4) {
                0 => Datum::Null,
                _ => random_datum(field, random),
            });
            let values = values.collect();
            let ty = RowType::of_values(fields.into_iter().map(Into::into));
            Datum::Row(Arc::new(Row::new(Arc::new(ty), values)))
        }
        Type::Bool => Datum::Bool(random.bool()),
        Type::Int2 => Datum::Int(int(random, 16)),
        Type::Int4 => Datum::Int(int(random, 32)),
        Type::Int8 if ty == Type::Tid => Datum::Int(int(random, 48) & 0xffff_ffff_ffff),
        Type::Int8 => Datum::Int(int(random, 64)),
        Type::Oid => Datum::Int(int(random, 32) & 0xffff_ffff),
        Type::Float4 => {
            Datum::Float(f64::from(f32::from_bits(random.u32(..) & random.choice([!0, 0xff80_0000, 1 << 31]).unwrap())))
        }
        Type::Float8 => Datum::Float(match random.u8(..3) {
            0 => random.i64(-2..=2) as f64 / 2.0,
            1 => *random.choice(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX]).unwrap(),
            _ => f64::from_bits(random.u64(..)),
        }),
        Type::Numeric if random.u8(..) < 60 => Datum::Numeric(random_large(random)),
        Type::Numeric => {
            let digits = random.u32(..=38);
            let mantissa = (random.u128(..) % 10u128.pow(digits)) as i128;
            let mantissa =
                if random.bool() { mantissa } else { mantissa / 10i128.pow(digits / 2) * 10i128.pow(digits / 2) };
            let scale = if random.bool() { random.u8(..6) } else { random.u8(..=100) };
            Datum::Numeric(Numeric::new(if random.bool() { -mantissa } else { mantissa }, scale))
        }
        _ if ty == Type::Json => Datum::text(&random_json(random, 2)),
        _ if ty == Type::Ltree => {
            let labels =
                (0..random.usize(..4)).map(|_| *random.choice(&["a", "b", "ab", "A", "\u{e9}", "_1"]).unwrap());
            Datum::text(&labels.collect::<Vec<_>>().join("."))
        }
        _ if matches!(ty, Type::Lquery | Type::Ltxtquery) => Datum::text("a"),
        _ if ty == Type::IntQuery => Datum::text("1 & !2"),
        _ if matches!(ty, Type::PgSnapshot | Type::TxidSnapshot) => Datum::text("12:20:13,15,18"),
        _ if ty == Type::JsonPath => Datum::text("$.\"a\""),
        _ if ty == Type::Xml => Datum::text(random.choice(&["<a/>", "a &lt; b", "<b c=\"d\">\u{e9}</b>", ""]).unwrap()),
        polymorphic if polymorphic.is_polymorphic() => random_datum(Type::Text, random),
        Type::Char | Type::Varchar | Type::Text | Type::Name | Type::Unknown | Type::Void => {
            let text: String = (0..random.usize(..5))
                .map(|_| *random.choice(&['a', 'b', 'A', ' ', '\u{1}', '\u{e9}', '\u{10000}', '\0']).unwrap())
                .collect();
            Datum::text(&text)
        }
        Type::Citext => match random_datum(Type::Text, random) {
            Datum::Text(text) => Datum::Citext(text),
            other => other,
        },
        Type::Bytea if matches!(ty, Type::Bit | Type::VarBit) => {
            let mut out = crate::bits::Builder::default();
            let _ = out.extend((0..random.usize(..20)).map(|_| random.u8(..3) == 0));
            out.finish()
        }
        ty if ty.bounds().is_some() => random_ranges(ty, random),
        Type::TsQuery => random_packed(ty, random),
        Type::Bytea if ty != Type::Bytea => random_packed(ty, random),
        Type::Bytea => Datum::Bytes(bytes(random).into()),
        Type::Jsonb => {
            crate::jsonb::parse(&random_json(random, 2)).and_then(crate::jsonb::Item::datum).unwrap_or_default()
        }
        Type::Date => Datum::Date(int(random, 32) as i32),
        Type::Time => Datum::Time(random.i64(..=86_400_000_000).rem_euclid(86_400_000_001)),
        Type::TimeTz => Datum::TimeTz(TimeTz {
            micros: random.i64(0..3) * 3_600_000_000 + if random.bool() { 0 } else { random.i64(0..=75_600_000_000) },
            west_s: random.i32(-2..3) * 3600 + if random.bool() { 0 } else { random.i32(-50_000..50_000) },
        }),
        Type::Timestamp | Type::TimestampTz => Datum::Timestamp(int(random, 64)),
        Type::Interval => Datum::Interval(Interval {
            months: int(random, 32) as i32,
            days: int(random, 32) as i32,
            micros: int(random, 64),
        }),
        _ => {
            let mut uuid = [0; 16];
            for byte in &mut uuid {
                *byte = *random.choice(&[0, 1, 255]).unwrap();
            }
            Datum::Uuid(uuid)
        }
    }
}

fn random_ranges(ty: Type, random: &mut fastrand::Rng) -> Datum {
    let subtype = ty.bounds().unwrap();
    let mut spans = Vec::new();
    for _ in 0..if ty.is_range() { random.usize(..2) } else { random.usize(..4) } {
        let mut bound = || {
            let value = (random.u8(..5) > 0).then(|| random_datum(subtype, random));
            ranges::Bound { value, inclusive: random.bool() }
        };
        spans.extend(ranges::span(subtype, bound(), bound()).ok().flatten());
    }
    let span_max = if ty.is_range() { 1 } else { usize::MAX };
    let mut spans = ranges::normalized(spans);
    spans.truncate(span_max);
    ranges::value(ty, &spans)
}

/// A value whose bytes are a form of its own.
fn random_packed(ty: Type, random: &mut fastrand::Rng) -> Datum {
    let text = match ty {
        Type::Hstore => {
            let pair = |random: &mut fastrand::Rng| {
                let key = *random.choice(&["a", "ab", "b", "\u{e9}", "\"\"", "\u{1}"]).unwrap();
                let value = *random.choice(&["NULL", "\"\"", "1", "ab", "\u{1}x"]).unwrap();
                format!("{key}=>{value},")
            };
            (0..random.usize(..4)).map(|_| pair(random)).collect()
        }
        Type::Vector => {
            let elements = (0..random.usize(1..4)).map(|_| *random.choice(&["0", "1", "-1", "2.5", "1e-30"]).unwrap());
            format!("[{}]", elements.collect::<Vec<_>>().join(","))
        }
        Type::TsVector => {
            let word = |random: &mut fastrand::Rng| {
                let word = *random.choice(&["a", "ab", "b", "\u{e9}", "cat''s", "\u{1}", "a b"]).unwrap();
                let places = *random.choice(&["", ":1", ":2A,7", ":3C,16383B"]).unwrap();
                format!("'{word}'{places} ")
            };
            (0..random.usize(..4)).map(|_| word(random)).collect()
        }
        Type::TsQuery => {
            let mut query = (*random.choice(&["", "a", "!'b c':*", "a:AB"]).unwrap()).to_owned();
            for _ in 0..if query.is_empty() { 0 } else { random.usize(..3) } {
                let operator = *random.choice(&["&", "|", "<->", "<3>"]).unwrap();
                let other = *random.choice(&["a", "ab:*D", "!(a|b)"]).unwrap();
                query = if random.bool() {
                    format!("{query} {operator} {other}")
                } else {
                    format!("({other}) {operator} ({query})")
                };
            }
            query
        }
        Type::MacAddr => {
            (*random.choice(&["08:00:2b:01:02:03", "ff-ff-ff-ff-ff-ff", "0000.0000.0001"]).unwrap()).to_owned()
        }
        ty if ty.is_geometric() => {
            let mut point = || format!("({},{})", random.i8(..), f64::from(random.i8(..)) / 4.0);
            match ty {
                Type::Point => point(),
                Type::Line => "{1,2,3}".to_owned(),
                Type::Circle => format!("<{},2.5>", point()),
                Type::Lseg | Type::Box => format!("{},{}", point(), point()),
                _ => format!("{},{},{}", point(), point(), point()),
            }
        }
        Type::MacAddr8 => {
            (*random.choice(&["08:00:2b:01:02:03", "0000000000000001", "ffffffffffffffff"]).unwrap()).to_owned()
        }
        _ => {
            let networks = ["0.0.0.0/0", "10.1.0.0/16", "10.1.2.3/32", "::/0", "2001:db8::/32", "::ffff:1.2.3.4/128"];
            let hosts = ["10.1.2.3/8", "10.1.2.3/16", "10.200.0.1/9", "fe80::1/10", "::1/8"];
            let all: Vec<&str> = networks.into_iter().chain(hosts.into_iter().filter(|_| ty == Type::Inet)).collect();
            (*random.choice(&all).unwrap()).to_owned()
        }
    };
    let env = crate::Env::default();
    let parse = |text: &str| crate::text_io::parse(ty, crate::Modifier::NONE, text, &env).unwrap();
    let value = parse(&text);
    if ty != Type::TsQuery {
        return value;
    }
    // Its text does not say how operands of the same operator are grouped.
    let mut grouped = String::new();
    crate::text_io::write(ty, &value, &env, &mut grouped);
    parse(&grouped)
}
