//! Dictionaries: what a word is looked for as.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm as Stems, Stemmer};
use waken_snowball::Algorithm as Newer;

use super::unaccent::unaccented;
use crate::error::Result;
use crate::letters;
use crate::pulse;

/// Words of more bytes are no words of any language: they are not stemmed.
const STEMMED_BYTES_MAX: usize = 1000;

/// What a dictionary makes of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lexized {
    /// It does not know the word: the next dictionary is asked.
    Unknown,
    /// It knows the word, and that it is looked for as this; a stop word is looked for as nothing.
    Known(Option<String>),
    /// The next dictionary is asked for this instead.
    Filtered(String),
}

/// A dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dictionary {
    /// Words in lower case.
    Simple {
        /// The language whose stop words are left out.
        stop_words: Option<Language>,
        /// Whether it knows all words; else the next dictionary is asked about those that are no
        /// stop words.
        accepts: bool,
    },
    /// The stems of a language's words.
    Stem {
        /// The language.
        language: Language,
        /// The language whose stop words are left out.
        stop_words: Option<Language>,
    },
    /// Letters without their accents.
    Unaccent,
}

impl Dictionary {
    /// The dictionary `simple`.
    pub const SIMPLE: Self = Self::Simple { stop_words: None, accepts: true };

    /// The dictionary of a language's stems that every database has.
    #[must_use]
    pub const fn of(language: Language) -> Self {
        let stop_words = if language.has_stop_words() { Some(language) } else { None };
        Self::Stem { language, stop_words }
    }

    /// What the dictionary makes of a word.
    ///
    /// # Errors
    /// 57014 if the statement was cancelled.
    pub fn lexize(self, word: &str) -> Result<Lexized> {
        pulse::work(20)?;
        Ok(match self {
            Self::Simple { stop_words, accepts } => {
                let word = lower(word)?;
                match stop_words.is_some_and(|language| word.is_empty() || language.stop_words().contains(&*word)) {
                    true => Lexized::Known(None),
                    false if accepts => Lexized::Known(Some(word)),
                    false => Lexized::Unknown,
                }
            }
            Self::Stem { language, stop_words } => {
                let word = lower(word)?;
                let is_stop_word = |word: &str| stop_words.is_some_and(|words| words.stop_words().contains(word));
                Lexized::Known(if word.len() > STEMMED_BYTES_MAX {
                    Some(word)
                } else if word.is_empty() || is_stop_word(&word) {
                    None
                } else {
                    Some(language.stem(&word).into_owned())
                })
            }
            Self::Unaccent => match unaccented(word)? {
                Cow::Borrowed(_) => Lexized::Unknown,
                Cow::Owned(plain) => Lexized::Filtered(plain),
            },
        })
    }
}

/// A word in lower case.
fn lower(word: &str) -> Result<String> {
    let mut out = String::with_capacity(word.len());
    for piece in in_pieces(word) {
        pulse::work(piece.len())?;
        if piece.is_ascii() {
            let start = out.len();
            out.push_str(piece);
            out[start..].make_ascii_lowercase();
        } else {
            out.extend(piece.chars().map(letters::lower));
        }
    }
    Ok(out)
}

/// A text in pieces that need no poll inside.
pub(super) fn in_pieces(text: &str) -> impl Iterator<Item = &str> {
    const BYTES: usize = 4096;
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(BYTES));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

enum Algorithm {
    Stems(Stems),
    Newer(Newer),
    /// Stems of the older crate, between [`marked`] and [`unmarked`].
    Marked(Stems),
}

macro_rules! algorithm {
    (Newer $name:ident) => {
        Newer::$name
    };
    ($older:ident $name:ident) => {
        Stems::$name
    };
}

macro_rules! languages {
    ($($name:ident $label:literal $crate_:ident $stop:expr;)*) => {
        /// A language whose words are stemmed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names of languages")]
        pub enum Language {
            $($name,)*
        }

        impl Language {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in English, in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// Whether it has stop words.
            #[must_use]
            pub const fn has_stop_words(self) -> bool {
                match self { $(Self::$name => { const STOP: &str = $stop; !STOP.is_empty() })* }
            }

            /// The words that are not looked for.
            fn stop_words(self) -> &'static HashSet<&'static str> {
                match self { $(Self::$name => {
                    static WORDS: LazyLock<HashSet<&'static str>> =
                        LazyLock::new(|| $stop.lines().filter(|word| !word.is_empty()).collect());
                    &WORDS
                })* }
            }

            fn algorithm(self) -> Algorithm {
                match self { $(Self::$name => Algorithm::$crate_(algorithm!($crate_ $name)),)* }
            }
        }
    };
}

languages! {
    Arabic "arabic" Stems "";
    Armenian "armenian" Newer "";
    Basque "basque" Newer "";
    Catalan "catalan" Newer "";
    Danish "danish" Newer include_str!("stop/danish.stop");
    Dutch "dutch" Stems include_str!("stop/dutch.stop");
    English "english" Stems include_str!("stop/english.stop");
    Finnish "finnish" Newer include_str!("stop/finnish.stop");
    French "french" Marked include_str!("stop/french.stop");
    German "german" Stems include_str!("stop/german.stop");
    Greek "greek" Newer "";
    Hindi "hindi" Newer "";
    Hungarian "hungarian" Stems include_str!("stop/hungarian.stop");
    Indonesian "indonesian" Newer "";
    Irish "irish" Newer "";
    Italian "italian" Stems include_str!("stop/italian.stop");
    Lithuanian "lithuanian" Newer "";
    Nepali "nepali" Newer include_str!("stop/nepali.stop");
    Norwegian "norwegian" Stems include_str!("stop/norwegian.stop");
    Portuguese "portuguese" Stems include_str!("stop/portuguese.stop");
    Romanian "romanian" Stems "";
    Russian "russian" Newer include_str!("stop/russian.stop");
    Serbian "serbian" Newer "";
    Spanish "spanish" Stems include_str!("stop/spanish.stop");
    Swedish "swedish" Stems include_str!("stop/swedish.stop");
    Tamil "tamil" Stems "";
    Turkish "turkish" Stems include_str!("stop/turkish.stop");
    Yiddish "yiddish" Newer "";
}

impl Language {
    /// The language with a name, in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|language| language.name() == name)
    }

    /// The stem of a word in lower case; the word itself where nothing would be left.
    #[must_use]
    pub fn stem(self, word: &str) -> Cow<'_, str> {
        let stem = match self.algorithm() {
            Algorithm::Stems(algorithm) => Stemmer::create(algorithm).stem(word).into_owned(),
            Algorithm::Newer(algorithm) => algorithm.stemmer().stem(word).into_owned(),
            Algorithm::Marked(algorithm) if word.contains(['ë', 'ï']) => {
                unmarked(&Stemmer::create(algorithm).stem(&marked(word)))
            }
            Algorithm::Marked(algorithm) => Stemmer::create(algorithm).stem(word).into_owned(),
        };
        if stem.is_empty() { Cow::Borrowed(word) } else { Cow::Owned(stem) }
    }
}

/// What a French verb's end has behind the `i` that it begins with. Behind `H` it is none: there the `ï`
/// stays as it is.
const VERB_ENDS: &[&str] = &[
    "", "e", "es", "r", "ra", "rai", "raient", "rais", "rait", "ras", "rent", "rez", "riez", "rions", "rons", "ront",
    "s", "ssaient", "ssais", "ssait", "ssant", "ssante", "ssantes", "ssants", "sse", "ssent", "sses", "ssez", "ssiez",
    "ssions", "ssons", "t",
];

/// A French word as its stemmer takes it: vowels that count as consonants in upper case, and `ë` and
/// `ï` as vowels behind the consonant `H`. The older crate knows the former only, and leaves letters in
/// upper case as they are.
fn marked(word: &str) -> String {
    let is_vowel = |c: char| "aeiouyâàëéêèïîôûù".contains(c);
    let letters: Vec<char> = word.chars().collect();
    let at = |at: usize| letters.get(at).copied();
    let mut marked = String::with_capacity(word.len() + 8);
    let mut from = 0;
    while let Some(c) = at(from) {
        let (next, second) = (at(from + 1), at(from + 2));
        let is_between = second.is_some_and(is_vowel);
        let taken = match (c, next) {
            (c, Some('u' | 'i')) if is_vowel(c) && is_between => 2,
            (c, Some('y')) if is_vowel(c) => 2,
            ('q', Some('u')) => 2,
            _ => 1,
        };
        match c {
            'ë' if taken == 1 => marked.push_str("He"),
            'ï' if taken == 1 && !VERB_ENDS.contains(&&*letters[from + 1..].iter().collect::<String>()) => {
                marked.push_str("Hi");
            }
            'y' if taken == 1 && next.is_some_and(is_vowel) => marked.push('Y'),
            c => marked.push(c),
        }
        if let Some(next) = next.filter(|_| taken == 2) {
            marked.push(next.to_ascii_uppercase());
        }
        from += taken;
    }
    marked
}

/// A stem whose word was [`marked`].
fn unmarked(stem: &str) -> String {
    stem.replace("He", "ë").replace("Hi", "ï").replace('H', "")
}
