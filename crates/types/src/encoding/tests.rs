#![allow(clippy::unwrap_used, reason = "tests")]

use super::names::KNOWN;
use super::*;

fn all() -> impl Iterator<Item = Encoding> {
    (0..KNOWN.len()).map(|number| Encoding::numbered(number as i64).unwrap())
}

fn named(name: &str) -> Encoding {
    Encoding::named(name).unwrap()
}

#[test]
fn each_is_found_by_its_name_and_number() {
    for encoding in all() {
        assert_eq!(named(encoding.name()), encoding);
        assert_eq!(named(&encoding.name().to_ascii_lowercase().replace('_', "-")), encoding);
        assert_eq!(Encoding::numbered(encoding.number()), Some(encoding));
    }
    for (alias, _) in [("windows-1251", "WIN1251"), ("ISO 8859-1", "LATIN1"), ("Shift_JIS", "SJIS"), ("win949", "UHC")]
    {
        assert!(Encoding::named(alias).is_some(), "{alias}");
    }
    for wrong in ["", "utf16", "latin11", "windows", "win1"] {
        assert_eq!(Encoding::named(wrong), None, "{wrong}");
    }
    assert_eq!((Encoding::numbered(-1), Encoding::numbered(42)), (None, None));
}

/// Characters that an encoding has, with their bytes.
fn chars_of(encoding: Encoding) -> Vec<(char, Vec<u8>)> {
    let step = if encoding.bytes_max() > 1 { 7 } else { 1 };
    let chars = (1..0x1_f600).step_by(step).filter_map(char::from_u32);
    chars.filter_map(|char| Some((char, encoding.encode(&char.to_string()).ok()?.into_owned()))).collect()
}

#[test]
fn what_is_encoded_is_decoded_at_once_and_in_pieces() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for encoding in all().filter(|encoding| encoding.is_converted()) {
        let chars = chars_of(encoding);
        assert!(chars.len() > 150, "{encoding:?}: {}", chars.len());
        for _ in 0..200 {
            let (mut text, mut bytes) = (String::new(), Vec::new());
            for _ in 0..random.usize(..40) {
                let (char, encoded) = &chars[random.usize(..chars.len())];
                text.push(*char);
                bytes.extend_from_slice(encoded);
            }
            assert_eq!(encoding.encode(&text).unwrap(), bytes, "{encoding:?} {text:?}");
            // Browsers write some of what they read of two kinds in one way only.
            let decoded = encoding.decode(&bytes).unwrap().into_owned();
            assert_eq!(encoding.encode(&decoded).unwrap(), bytes, "{encoding:?} {text:?} {decoded:?}");
            let (mut decoder, mut out) = (Decoder::new(encoding).unwrap(), Vec::new());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=rest.len().min(5)));
                decoder.push(piece, &mut out).unwrap();
                rest = after;
            }
            decoder.finish(&mut out).unwrap();
            assert_eq!(out, decoded.as_bytes(), "{encoding:?} {text:?}");
        }
    }
}

#[test]
fn long_texts_are_converted_whole() {
    for name in ["WIN1251", "EUC_JP", "GB18030", "EUC_KR"] {
        let text = "\u{43f}\u{440} ".repeat(100_000);
        let bytes = named(name).encode(&text).unwrap();
        assert!(bytes.len() >= 300_000, "{name}");
        assert_eq!(named(name).decode(&bytes).unwrap(), text, "{name}");
    }
}

#[test]
fn what_cannot_be_converted_is_told_by_its_bytes() {
    let told = |error: Error| (error.state().0, error.report().message.to_string());
    let lacking = |name: &str, text: &str| told(named(name).encode(text).unwrap_err());
    let (code, message) = lacking("LATIN1", "a\u{20ac}");
    assert_eq!(code, "22P05");
    assert!(message.contains("0xe2 0x82 0xac") && message.contains("\"LATIN1\""), "{message}");
    assert_eq!(lacking("EUC_KR", "\u{b620}").0, "22P05");
    assert_eq!(lacking("JOHAB", "\u{e9}").0, "0A000");
    let wrong = |name: &str, bytes: &[u8]| told(named(name).decode(bytes).unwrap_err());
    for (name, bytes, code, shown) in [
        ("WIN1252", &b"a\x81"[..], "22P05", "0x81"),
        ("UTF8", b"a\xc3(", "22021", "0xc3 0x28"),
        ("SQL_ASCII", b"\xff", "22021", "\"UTF8\": 0xff"),
        ("EUC_JP", b"\xb0\xa1\xff\xff", "22021", "0xff"),
        ("EUC_CN", b"\xd6\x40", "22021", "0xd6 0x40"),
        ("SJIS", b"a\x93", "22021", "0x93"),
    ] {
        let (got, message) = wrong(name, bytes);
        assert!(got == code && message.contains(shown), "{name} {bytes:?}: {got} {message}");
    }
    assert_eq!(*named("LATIN1").encode_lossy("\u{e9}\u{20ac}!"), *b"\xe9?!");
    assert_eq!(*named("SJIS").encode_lossy("\u{65e5}\u{1f600}"), *b"\x93\xfa?");
}

#[test]
fn any_bytes_are_a_text_or_an_error() {
    let mut random = fastrand::Rng::with_seed(11);
    for encoding in all() {
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random.usize(..12)).map(|_| random.u8(..)).collect();
            let at_once = encoding.decode(&bytes).map(std::borrow::Cow::into_owned);
            let Ok(mut decoder) = Decoder::new(encoding) else {
                assert!(bytes.is_ascii() || at_once.is_err());
                continue;
            };
            let mut out = Vec::new();
            let pushed = bytes.iter().try_for_each(|byte| decoder.push(&[*byte], &mut out));
            let in_pieces = pushed.and_then(|()| decoder.finish(&mut out));
            match at_once {
                Ok(text) => {
                    assert_eq!((in_pieces.is_ok(), &out[..]), (true, text.as_bytes()), "{encoding:?} {bytes:?}")
                }
                // Texts in UTF-8 are checked by who takes them.
                Err(_) if encoding.is_as_here() => {}
                Err(_) => assert!(in_pieces.is_err(), "{encoding:?} {bytes:?}"),
            }
        }
    }
}
