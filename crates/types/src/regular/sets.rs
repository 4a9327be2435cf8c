//! Sets of characters as sorted ranges, and the named classes of bracket expressions.
//!
//! Invariant: the ranges of a `CharSet` are sorted, apart from each other, and not empty.

use std::sync::OnceLock;

/// The greatest character there is.
const LAST: u32 = 0x10_ffff;

/// A set of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    /// The set of one character.
    pub(super) fn one(c: u32) -> Self {
        Self(vec![(c, c)])
    }

    /// All characters.
    pub(super) fn all() -> Self {
        Self(vec![(0, LAST)])
    }

    /// The characters of a range, which may be empty.
    pub(super) fn range(from: u32, to: u32) -> Self {
        if from <= to { Self(vec![(from, to)]) } else { Self::default() }
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn contains(&self, c: u32) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < c);
        self.0.get(at).is_some_and(|&(from, _)| from <= c)
    }

    /// With the characters of another set.
    pub(super) fn union(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.normalize();
    }

    /// The characters that are not in it.
    #[must_use]
    pub(super) fn negate(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(from, to) in &self.0 {
            if from > next {
                out.push((next, from - 1));
            }
            next = to.saturating_add(1);
        }
        if next <= LAST {
            out.push((next, LAST));
        }
        Self(out)
    }

    /// Without one character.
    #[must_use]
    pub(super) fn without(&self, c: u32) -> Self {
        let mut rest = self.negate();
        rest.union(&Self::one(c));
        rest.negate()
    }

    /// With the upper and lower case letters of all its characters.
    pub(super) fn fold_case(&mut self) {
        let mut more = Vec::new();
        for &(c, lower, upper) in cases() {
            if self.contains(c) {
                more.extend([(lower, lower), (upper, upper)]);
            }
        }
        self.0.extend(more);
        self.normalize();
    }

    fn normalize(&mut self) {
        self.0.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(from, to) in &self.0 {
            match out.last_mut() {
                Some((_, end)) if from <= end.saturating_add(1) => *end = (*end).max(to),
                _ => out.push((from, to)),
            }
        }
        self.0 = out;
    }
}

/// The lower case letter of a character, if there is one that is a single character.
pub(super) fn lower(c: u32) -> u32 {
    char::from_u32(c).map_or(c, |c| u32::from(crate::letters::lower(c)))
}

fn upper(c: u32) -> u32 {
    char::from_u32(c).map_or(c, |c| u32::from(crate::letters::upper(c)))
}

/// All characters that have another case, with their lower and upper case letters.
fn cases() -> &'static [(u32, u32, u32)] {
    static CASES: OnceLock<Vec<(u32, u32, u32)>> = OnceLock::new();
    CASES.get_or_init(|| {
        (0..=LAST).map(|c| (c, lower(c), upper(c))).filter(|&(c, lower, upper)| c != lower || c != upper).collect()
    })
}

/// The characters that stand for nothing yet.
fn unassigned() -> &'static CharSet {
    static UNASSIGNED: OnceLock<CharSet> = OnceLock::new();
    UNASSIGNED.get_or_init(|| CharSet(crate::letters::unicode_ranges(r"\p{Cn}")))
}

fn collect(fits: impl Fn(char) -> bool) -> CharSet {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for c in (0..=LAST).filter(|&c| char::from_u32(c).is_some_and(&fits)) {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == c => *end = c,
            _ => out.push((c, c)),
        }
    }
    CharSet(out)
}

/// The named classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Alnum,
    Alpha,
    Ascii,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
    Word,
}

const NAMES: [(&str, Class); 14] = [
    ("alnum", Class::Alnum),
    ("alpha", Class::Alpha),
    ("ascii", Class::Ascii),
    ("blank", Class::Blank),
    ("cntrl", Class::Cntrl),
    ("digit", Class::Digit),
    ("graph", Class::Graph),
    ("lower", Class::Lower),
    ("print", Class::Print),
    ("punct", Class::Punct),
    ("space", Class::Space),
    ("upper", Class::Upper),
    ("xdigit", Class::Xdigit),
    ("word", Class::Word),
];

impl Class {
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|&(_, class)| class)
    }

    /// Its characters.
    pub(super) fn set(self) -> &'static CharSet {
        static SETS: [OnceLock<CharSet>; 14] = [const { OnceLock::new() }; 14];
        SETS[self as usize].get_or_init(|| self.collect())
    }

    fn collect(self) -> CharSet {
        use crate::letters as l;
        let is_space = |c: char| l::is_wide_space(c);
        let is_break = |c: char| matches!(c, '\u{2028}' | '\u{2029}');
        let is_print = |c: char| !c.is_control() && !is_break(c) && !unassigned().contains(u32::from(c));
        match self {
            Self::Alnum => collect(l::is_alnum),
            // Digits of other scripts than ours count as letters.
            Self::Alpha => collect(|c| l::is_alnum(c) && !c.is_ascii_digit()),
            Self::Ascii => CharSet::range(0, 127),
            Self::Blank => collect(|c| matches!(c, '\t' | ' ')),
            Self::Cntrl => collect(char::is_control),
            Self::Digit => CharSet::range(u32::from('0'), u32::from('9')),
            Self::Graph => collect(|c| is_print(c) && !is_space(c)),
            Self::Lower => collect(l::is_lower),
            Self::Print => collect(is_print),
            Self::Punct => collect(|c| is_print(c) && !is_space(c) && !l::is_alnum(c)),
            Self::Space => collect(is_space),
            Self::Upper => collect(l::is_upper),
            Self::Xdigit => collect(|c| c.is_ascii_hexdigit()),
            Self::Word => collect(|c| c == '_' || l::is_alnum(c)),
        }
    }
}

/// The names of characters that `[.name.]` and `[=name=]` take.
const CHARACTERS: [(&str, char); 95] = [
    ("NUL", '\0'),
    ("SOH", '\x01'),
    ("STX", '\x02'),
    ("ETX", '\x03'),
    ("EOT", '\x04'),
    ("ENQ", '\x05'),
    ("ACK", '\x06'),
    ("BEL", '\x07'),
    ("alert", '\x07'),
    ("BS", '\x08'),
    ("backspace", '\x08'),
    ("HT", '\t'),
    ("tab", '\t'),
    ("LF", '\n'),
    ("newline", '\n'),
    ("VT", '\x0b'),
    ("vertical-tab", '\x0b'),
    ("FF", '\x0c'),
    ("form-feed", '\x0c'),
    ("CR", '\r'),
    ("carriage-return", '\r'),
    ("SO", '\x0e'),
    ("SI", '\x0f'),
    ("DLE", '\x10'),
    ("DC1", '\x11'),
    ("DC2", '\x12'),
    ("DC3", '\x13'),
    ("DC4", '\x14'),
    ("NAK", '\x15'),
    ("SYN", '\x16'),
    ("ETB", '\x17'),
    ("CAN", '\x18'),
    ("EM", '\x19'),
    ("SUB", '\x1a'),
    ("ESC", '\x1b'),
    ("IS4", '\x1c'),
    ("FS", '\x1c'),
    ("IS3", '\x1d'),
    ("GS", '\x1d'),
    ("IS2", '\x1e'),
    ("RS", '\x1e'),
    ("IS1", '\x1f'),
    ("US", '\x1f'),
    ("space", ' '),
    ("exclamation-mark", '!'),
    ("quotation-mark", '"'),
    ("number-sign", '#'),
    ("dollar-sign", '$'),
    ("percent-sign", '%'),
    ("ampersand", '&'),
    ("apostrophe", '\''),
    ("left-parenthesis", '('),
    ("right-parenthesis", ')'),
    ("asterisk", '*'),
    ("plus-sign", '+'),
    ("comma", ','),
    ("hyphen", '-'),
    ("hyphen-minus", '-'),
    ("period", '.'),
    ("full-stop", '.'),
    ("slash", '/'),
    ("solidus", '/'),
    ("zero", '0'),
    ("one", '1'),
    ("two", '2'),
    ("three", '3'),
    ("four", '4'),
    ("five", '5'),
    ("six", '6'),
    ("seven", '7'),
    ("eight", '8'),
    ("nine", '9'),
    ("colon", ':'),
    ("semicolon", ';'),
    ("less-than-sign", '<'),
    ("equals-sign", '='),
    ("greater-than-sign", '>'),
    ("question-mark", '?'),
    ("commercial-at", '@'),
    ("left-square-bracket", '['),
    ("backslash", '\\'),
    ("reverse-solidus", '\\'),
    ("right-square-bracket", ']'),
    ("circumflex", '^'),
    ("circumflex-accent", '^'),
    ("underscore", '_'),
    ("low-line", '_'),
    ("grave-accent", '`'),
    ("left-brace", '{'),
    ("left-curly-bracket", '{'),
    ("vertical-line", '|'),
    ("right-brace", '}'),
    ("right-curly-bracket", '}'),
    ("tilde", '~'),
    ("DEL", '\x7f'),
];

/// The character of a name.
pub(super) fn character(name: &str) -> Option<char> {
    CHARACTERS.iter().find(|(known, _)| *known == name).map(|&(_, c)| c)
}
