//! The list of encodings.

use super::single::Single;

/// Bytes of a name of SQL.
const NAME_BYTES_MAX: usize = 63;

/// How texts are converted.
pub(super) enum Tables {
    /// They are not: the bytes are the same.
    None,
    /// They cannot be.
    Missing,
    /// A byte a character.
    Single(Single),
    /// One byte or more.
    Many(&'static encoding_rs::Encoding),
    /// The part of a larger encoding in which all bytes but those of ASCII are from 0xa1 on.
    Euc(&'static encoding_rs::Encoding),
}

pub(super) struct Known {
    pub(super) name: &'static str,
    /// The most that a character has.
    pub(super) bytes_max: u8,
    pub(super) tables: Tables,
}

const fn known(name: &'static str, bytes_max: u8, tables: Tables) -> Known {
    Known { name, bytes_max, tables }
}

const fn single(name: &'static str, which: Single) -> Known {
    known(name, 1, Tables::Single(which))
}

/// By their numbers.
pub(super) static KNOWN: [Known; 42] = [
    known("SQL_ASCII", 1, Tables::None),
    known("EUC_JP", 3, Tables::Many(encoding_rs::EUC_JP)),
    known("EUC_CN", 3, Tables::Euc(encoding_rs::GBK)),
    known("EUC_KR", 3, Tables::Euc(encoding_rs::EUC_KR)),
    known("EUC_TW", 4, Tables::Missing),
    known("EUC_JIS_2004", 3, Tables::Missing),
    known("UTF8", 4, Tables::None),
    known("MULE_INTERNAL", 4, Tables::Missing),
    single("LATIN1", Single::Latin1),
    single("LATIN2", Single::Latin2),
    single("LATIN3", Single::Latin3),
    single("LATIN4", Single::Latin4),
    single("LATIN5", Single::Latin5),
    single("LATIN6", Single::Latin6),
    single("LATIN7", Single::Latin7),
    single("LATIN8", Single::Latin8),
    single("LATIN9", Single::Latin9),
    single("LATIN10", Single::Latin10),
    single("WIN1256", Single::Win1256),
    single("WIN1258", Single::Win1258),
    single("WIN866", Single::Win866),
    single("WIN874", Single::Win874),
    single("KOI8R", Single::Koi8R),
    single("WIN1251", Single::Win1251),
    single("WIN1252", Single::Win1252),
    single("ISO_8859_5", Single::Iso5),
    single("ISO_8859_6", Single::Iso6),
    single("ISO_8859_7", Single::Iso7),
    single("ISO_8859_8", Single::Iso8),
    single("WIN1250", Single::Win1250),
    single("WIN1253", Single::Win1253),
    single("WIN1254", Single::Win1254),
    single("WIN1255", Single::Win1255),
    single("WIN1257", Single::Win1257),
    single("KOI8U", Single::Koi8U),
    known("SJIS", 2, Tables::Many(encoding_rs::SHIFT_JIS)),
    known("BIG5", 2, Tables::Many(encoding_rs::BIG5)),
    known("GBK", 2, Tables::Many(encoding_rs::GBK)),
    known("UHC", 2, Tables::Many(encoding_rs::EUC_KR)),
    known("GB18030", 4, Tables::Many(encoding_rs::GB18030)),
    known("JOHAB", 3, Tables::Missing),
    known("SHIFT_JIS_2004", 2, Tables::Missing),
];

/// Other names, in small letters and digits alone.
const ALIASES: [(&str, &str); 28] = [
    ("abc", "WIN1258"),
    ("alt", "WIN866"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("koi8", "KOI8R"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("unicode", "UTF8"),
    ("vscii", "WIN1258"),
    ("win", "WIN1251"),
    ("win932", "SJIS"),
    ("win936", "GBK"),
    ("win949", "UHC"),
    ("win950", "BIG5"),
    ("windows932", "SJIS"),
    ("windows936", "GBK"),
    ("windows949", "UHC"),
    ("windows950", "BIG5"),
];

/// The number of the encoding of a name.
pub(super) fn find(name: &str) -> Option<u8> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
    };
    let wanted = plain(name);
    let wanted = match ALIASES.iter().find(|(alias, _)| *alias == wanted) {
        Some((_, name)) => plain(name),
        // `windows1251` is WIN1251.
        None => match wanted.strip_prefix("windows") {
            Some(number) => format!("win{number}"),
            None => wanted,
        },
    };
    let found = KNOWN.iter().position(|known| plain(known.name) == wanted)?;
    u8::try_from(found).ok()
}
