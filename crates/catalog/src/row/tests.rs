//! Random rows come back, whole and patched, compressed or not; damaged ones are errors.

use super::*;
use colibri_types::types::Modifier;
use colibri_types::value::random::{random_datum, same};
use colibri_types::{Env, text_io};

fn random_types(random: &mut fastrand::Rng) -> Vec<Type> {
    (0..random.usize(0..20))
        .filter_map(|_| random.choice(Type::all().collect::<Vec<_>>()))
        .filter(|ty| ty.is_storable())
        .collect()
}

fn random_values(types: &[Type], random: &mut fastrand::Rng) -> Vec<Datum> {
    types.iter().map(|&ty| if random.u8(..) < 50 { Datum::Null } else { random_datum(ty, random) }).collect()
}

/// Makes some of the values long, most of them so that they can be compressed.
fn lengthen(types: &[Type], values: &mut [Datum], random: &mut fastrand::Rng) {
    for (&ty, value) in types.iter().zip(values) {
        if random.u8(..) < 100 {
            continue;
        }
        let length = random.usize(COMPRESSED_BYTES_MIN / 2..4 * COMPRESSED_BYTES_MIN);
        let length = if random.u8(..) < 12 { 40 * length } else { length };
        let is_noise = random.u8(..) < 40;
        let letters: String = (0..length)
            .map(|at| if is_noise { random.char(' '..'\u{7f}') } else { char::from(b'a' + (at % 11) as u8) })
            .collect();
        *value = match ty {
            Type::Text => Datum::text(&letters),
            Type::Bytea => Datum::Bytes(letters.into_bytes().into()),
            Type::Jsonb | Type::Citext | Type::Numeric => {
                let text = match ty {
                    Type::Jsonb => format!("{{\"a\": \"{}\"}}", letters.replace(['"', '\\'], "x")),
                    Type::Numeric => "123456789".repeat(length / 9),
                    _ => letters,
                };
                text_io::parse(ty, Modifier::NONE, &text, &Env::default()).unwrap()
            }
            _ => continue,
        };
    }
}

fn check_same(a: &[Datum], b: &[Datum]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!(same(a, b), "{a:?} {b:?}");
    }
}

/// A generator whose seed is printed, for repeating a run that has failed.
fn seeded() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn rows_come_back_and_patches_agree_with_encoding_anew() {
    let mut random = seeded();
    for _ in 0..5_000 {
        let types = random_types(&mut random);
        let format = RowFormat::new(random.u16(..COMPRESSED), &types);
        let mut values = random_values(&types, &mut random);
        if random.u8(..) < 10
            && let Some(column) = types.iter().position(|&ty| ty == Type::Text)
        {
            values[column] = Datum::text(&"x".repeat(random.usize(65_000..70_000)));
        }
        let mut row = Vec::new();
        format.encode(&values, &mut row).unwrap();
        format.check(&row).unwrap();
        let mut back = Vec::new();
        format.read_all(&row, &mut back).unwrap();
        check_same(&values, &back);

        let mut changes = Vec::new();
        for _ in 0..random.usize(0..4) {
            if types.is_empty() {
                break;
            }
            let column = random.usize(..types.len());
            let value = if random.bool() { Datum::Null } else { random_datum(types[column], &mut random) };
            changes.push((column, value));
        }
        let mut changed = values.clone();
        for (column, value) in &changes {
            changed[*column] = value.clone();
        }
        let (mut patched, mut anew) = (Vec::new(), Vec::new());
        format.patch(&row, &changes, &mut patched).unwrap();
        format.encode(&changed, &mut anew).unwrap();
        assert_eq!(patched, anew, "{types:?} {values:?} {changes:?}");
        let differing: Vec<usize> = (0..types.len()).filter(|&i| !same(&values[i], &changed[i])).collect();
        assert_eq!(format.changed(&row, &patched).unwrap(), differing);
    }
}

/// Formats of the same rows, which compress all columns, some, and none.
fn formats(types: &[Type], random: &mut fastrand::Rng) -> [RowFormat; 3] {
    let generation = random.u16(..COMPRESSED);
    let some: Vec<bool> = types.iter().map(|_| random.bool()).collect();
    [
        RowFormat::new(generation, types).compressing(|_| true),
        RowFormat::new(generation, types).compressing(|column| some[column]),
        RowFormat::new(generation, types),
    ]
}

#[test]
fn rows_with_compressed_values_come_back_whatever_is_set_by_then() {
    let mut random = seeded();
    let mut compressed = 0;
    for _ in 0..3_000 {
        let mut types = random_types(&mut random);
        types.push(*random.choice(&[Type::Text, Type::Bytea, Type::Jsonb, Type::Citext, Type::Numeric]).unwrap());
        random.shuffle(&mut types);
        let formats = formats(&types, &mut random);
        let mut values = random_values(&types, &mut random);
        lengthen(&types, &mut values, &mut random);
        let mut row = Vec::new();
        random.choice(&formats).unwrap().encode(&values, &mut row).unwrap();
        // Changes under settings that change, too.
        for _ in 0..random.usize(0..4) {
            let column = random.usize(..types.len());
            let mut new = random_values(&types, &mut random);
            lengthen(&types, &mut new, &mut random);
            values[column] = new[column].clone();
            let before = row.clone();
            row.clear();
            let format = random.choice(&formats).unwrap();
            format.patch(&before, &[(column, new[column].clone())], &mut row).unwrap();
            for other in formats[2].changed(&before, &row).unwrap() {
                assert_eq!(other, column, "a patch leaves other columns as they are");
            }
        }
        compressed += usize::from(RowFormat::has_compressed(&row));
        let reader = random.choice(&formats).unwrap();
        reader.check(&row).unwrap();
        assert_eq!(RowFormat::generation_of(&row).unwrap(), reader.generation());
        let mut back = Vec::new();
        reader.read_all(&row, &mut back).unwrap();
        check_same(&values, &back);
        for (column, value) in values.iter().enumerate() {
            assert!(same(value, &reader.get(&row, column).unwrap()));
            assert_eq!(reader.is_null(&row, column).unwrap(), value.is_null());
            match reader.peek(&row, column).unwrap() {
                Peeked::Null => assert!(value.is_null()),
                Peeked::Bytes(bytes) => match value {
                    Datum::Text(text) => assert_eq!(bytes, text.as_bytes()),
                    Datum::Bytes(expected) => assert_eq!(bytes, &expected[..]),
                    _ => {}
                },
                _ => assert!(!value.is_null()),
            }
        }
        let mut anew = Vec::new();
        formats[2].encode(&values, &mut anew).unwrap();
        assert!(row.len() <= anew.len());
        assert!(RowFormat::has_compressed(&row) || row == anew, "a row without compressed values is a plain one");
        assert!(reader.expanded_bytes(&row).unwrap() >= anew.len().min(row.len()));
    }
    assert!(compressed > 300, "{compressed}");
}

#[test]
fn ends_with_marks_are_wide_from_32_kib_on() {
    let mut random = fastrand::Rng::with_seed(1);
    let format = RowFormat::new(1, &[Type::Text, Type::Bytea, Type::Text]).compressing(|_| true);
    for (length, is_wide) in [(1_000, false), (32_000, false), (33_000, true), (70_000, true)] {
        let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let long = Datum::text(&"colibri ".repeat(200));
        let values = [long.clone(), Datum::Bytes(noise.into()), long];
        let (mut row, mut patched) = (Vec::new(), Vec::new());
        format.encode(&values, &mut row).unwrap();
        assert_eq!(row[HEADER_BYTES] & 1 != 0, is_wide, "{length}");
        assert!(RowFormat::has_compressed(&row) && row.len() < length + 500);
        format.check(&row).unwrap();
        let mut back = Vec::new();
        format.read_all(&row, &mut back).unwrap();
        check_same(&values, &back);
        format.patch(&row, &[(2, Datum::Null)], &mut patched).unwrap();
        format.check(&patched).unwrap();
        assert_eq!(format.changed(&row, &patched).unwrap(), [2]);
        assert!(same(&format.get(&patched, 0).unwrap(), &values[0]));
    }
}

#[test]
fn damaged_rows_with_compressed_values_are_errors_or_rows() {
    let mut random = seeded();
    let mut refused = 0;
    for _ in 0..5_000 {
        let types = [Type::Text, Type::Int4, Type::Bytea, Type::Jsonb];
        let [format, ..] = formats(&types, &mut random);
        let mut values = random_values(&types, &mut random);
        lengthen(&types, &mut values, &mut random);
        let mut row = Vec::new();
        format.encode(&values, &mut row).unwrap();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..row.len());
            row[at] = random.u8(..);
        }
        row.truncate(random.usize(..=row.len()));
        for column in 0..types.len() {
            let _ = format.get(&row, column);
            let _ = format.peek(&row, column);
            let _ = format.patch(&row, &[(column, Datum::Null)], &mut Vec::new());
        }
        let _ = format.expanded_bytes(&row);
        let _ = format.changed(&row, &row);
        refused += usize::from(format.check(&row).is_err());
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn the_layout_of_compressed_values_never_changes() {
    let format = RowFormat::new(3, &[Type::Text, Type::Int4, Type::Text]).compressing(|_| true);
    let mut row = Vec::new();
    let values = [Datum::text("hi"), Datum::Int(-2), Datum::text(&"a".repeat(600))];
    format.encode(&values, &mut row).unwrap();
    let head = [3, 0x80, 0, 254, 255, 255, 255, 2, 0, 19, 0x80, b'h', b'i'];
    let block = [0x58, 2, 0, 0, 0x1f, b'a', 1, 0, 255, 255, 65, 0x50, b'a', b'a', b'a', b'a', b'a'];
    // Which block a value gets is the library's choice: this one may be a few bytes longer.
    let expected: Vec<u8> = head.into_iter().chain(block).collect();
    let mut back = Vec::new();
    format.read_all(&expected, &mut back).unwrap();
    check_same(&values, &back);
    assert_eq!((&row[..9], &row[10..13]), (&expected[..9], &expected[10..13]));
    assert_eq!(usize::from(row[9]), row.len() - 11, "the end of the last value");
    assert!(format.check(&row).is_ok() && format.check(&expected).is_ok());
}

#[test]
fn any_bytes_read_or_are_refused() {
    let mut random = seeded();
    for _ in 0..20_000 {
        let types = random_types(&mut random);
        let format = RowFormat::new(random.u16(..2), &types);
        let mut row = Vec::new();
        if random.bool() {
            format.encode(&random_values(&types, &mut random), &mut row).unwrap();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..row.len());
                row[at] = random.u8(..);
            }
            row.truncate(random.usize(..=row.len()));
        } else {
            row.extend((0..random.usize(..100)).map(|_| random.u8(..)));
            if let Some(head) = row.first_chunk_mut() {
                *head = format.generation().to_le_bytes();
            }
        }
        let _ = format.check(&row);
        let _ = format.read_all(&row, &mut Vec::new());
        let _ = format.changed(&row, &row);
        for column in 0..types.len() {
            let _ = format.get(&row, column);
            let _ = format.is_null(&row, column);
            let _ = format.patch(&row, &[(column, Datum::Null)], &mut Vec::new());
        }
    }
}

#[test]
fn a_row_of_another_generation_is_refused() {
    let mut row = Vec::new();
    RowFormat::new(1, &[Type::Int4]).encode(&[Datum::Int(7)], &mut row).unwrap();
    assert_eq!(RowFormat::generation_of(&row).unwrap(), 1);
    let error = RowFormat::new(2, &[Type::Int4]).get(&row, 0).unwrap_err();
    assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn the_layout_never_changes() {
    let format = RowFormat::new(3, &[Type::Int4, Type::Text, Type::Bool, Type::Numeric]);
    let mut row = Vec::new();
    let values = [Datum::Int(-2), Datum::text("hi"), Datum::Null, Datum::Numeric(Numeric::parse("-12.50").unwrap())];
    format.encode(&values, &mut row).unwrap();
    assert_eq!(row, [3, 0, 0b1000, 254, 255, 255, 255, 0, 2, 0, 5, 0, b'h', b'i', 0x82, 0x04, 0xe2]);
}
