//! Encodings of one byte a character, whose lower half is ASCII.

use std::sync::OnceLock;

use encoding_rs as rs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    Latin1,
    Latin2,
    Latin3,
    Latin4,
    Latin5,
    Latin6,
    Latin7,
    Latin8,
    Latin9,
    Latin10,
    Iso5,
    Iso6,
    Iso7,
    Iso8,
    Win866,
    Win874,
    Win1250,
    Win1251,
    Win1252,
    Win1253,
    Win1254,
    Win1255,
    Win1256,
    Win1257,
    Win1258,
    Koi8R,
    Koi8U,
}

const COUNT: usize = Single::Koi8U as usize + 1;

/// The characters from 0x80 on.
pub(super) struct Table {
    /// `None` where the encoding has no character.
    chars: [Option<char>; 128],
    /// The other way, by character.
    bytes: Vec<(char, u8)>,
}

impl Table {
    pub(super) fn char_of(&self, byte: u8) -> Option<char> {
        match byte.checked_sub(0x80) {
            None => Some(char::from(byte)),
            Some(upper) => self.chars[usize::from(upper)],
        }
    }

    pub(super) fn byte_of(&self, char: char) -> Option<u8> {
        if char.is_ascii() {
            return Some(char as u8);
        }
        let found = self.bytes.binary_search_by_key(&char, |&(char, _)| char);
        found.ok().map(|at| self.bytes[at].1)
    }
}

/// The table of an encoding, made when it is first used.
pub(super) fn table(which: Single) -> &'static Table {
    static TABLES: [OnceLock<Table>; COUNT] = [const { OnceLock::new() }; COUNT];
    TABLES[which as usize].get_or_init(|| {
        let mut chars = [None; 128];
        let mut bytes = Vec::with_capacity(chars.len());
        for (byte, place) in (0x80..=0xff).zip(&mut chars) {
            *place = char_in(which, byte);
            bytes.extend(place.map(|char| (char, byte)));
        }
        bytes.sort_unstable();
        Table { chars, bytes }
    })
}

/// The character of a byte from 0x80 on.
fn char_in(which: Single, byte: u8) -> Option<char> {
    let (tables, is_windows) = match which {
        Single::Latin1 => return Some(char::from(byte)),
        Single::Latin5 => {
            return Some(match byte {
                0xd0 => '\u{11e}',
                0xdd => '\u{130}',
                0xde => '\u{15e}',
                0xf0 => '\u{11f}',
                0xfd => '\u{131}',
                0xfe => '\u{15f}',
                other => char::from(other),
            });
        }
        // A point of Hebrew that code page 1255 lacks.
        Single::Win1255 if byte == 0xca => return None,
        // Where browsers have letters of Belarusian.
        Single::Koi8U if byte == 0xae => return Some('\u{255d}'),
        Single::Koi8U if byte == 0xbe => return Some('\u{256c}'),
        Single::Koi8U => (rs::KOI8_U, false),
        Single::Koi8R => (rs::KOI8_R, false),
        Single::Latin2 => (rs::ISO_8859_2, false),
        Single::Latin3 => (rs::ISO_8859_3, false),
        Single::Latin4 => (rs::ISO_8859_4, false),
        Single::Latin6 => (rs::ISO_8859_10, false),
        Single::Latin7 => (rs::ISO_8859_13, false),
        Single::Latin8 => (rs::ISO_8859_14, false),
        Single::Latin9 => (rs::ISO_8859_15, false),
        Single::Latin10 => (rs::ISO_8859_16, false),
        Single::Iso5 => (rs::ISO_8859_5, false),
        Single::Iso6 => (rs::ISO_8859_6, false),
        Single::Iso7 => (rs::ISO_8859_7, false),
        Single::Iso8 => (rs::ISO_8859_8, false),
        Single::Win866 => (rs::IBM866, false),
        Single::Win874 => (rs::WINDOWS_874, true),
        Single::Win1250 => (rs::WINDOWS_1250, true),
        Single::Win1251 => (rs::WINDOWS_1251, true),
        Single::Win1252 => (rs::WINDOWS_1252, true),
        Single::Win1253 => (rs::WINDOWS_1253, true),
        Single::Win1254 => (rs::WINDOWS_1254, true),
        Single::Win1255 => (rs::WINDOWS_1255, true),
        Single::Win1256 => (rs::WINDOWS_1256, true),
        Single::Win1257 => (rs::WINDOWS_1257, true),
        Single::Win1258 => (rs::WINDOWS_1258, true),
    };
    let text = tables.decode_without_bom_handling_and_without_replacement(std::slice::from_ref(&byte))?;
    let char = text.chars().next()?;
    // Browsers read control characters where the code page has nothing.
    (!(is_windows && ('\u{80}'..='\u{9f}').contains(&char))).then_some(char)
}
