//! Configurations: which dictionaries are asked for each kind of token. Numbers are PostgreSQL's.

use super::dictionary::{Dictionary, Language, Lexized};
use super::tokens::kind;
use crate::error::{Error, Result};

/// The number of the parser, which is called `default`.
pub const PARSER: u32 = 3722;

const SIMPLE: u32 = 3748;
const SIMPLE_DICTIONARY: u32 = 3765;
const SIMPLE_TEMPLATE: u32 = 3727;
const SNOWBALL_TEMPLATE: u32 = 13_150;
/// The dictionary of the first language, and its configuration, which the others follow by twos.
const FIRST_STEMS: u32 = 13_151;
const FIRST_LANGUAGE: u32 = 13_152;

/// What dictionaries are made of.
#[derive(Debug, Clone, Copy)]
pub struct TemplateEntry {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The functions that make a dictionary, and ask it, as the catalogue names them.
    pub functions: (&'static str, &'static str),
}

/// The templates that PostgreSQL has. Of some of them there are no dictionaries.
pub const TEMPLATES: [TemplateEntry; 5] = [
    TemplateEntry { number: SIMPLE_TEMPLATE, name: "simple", functions: ("dsimple_init", "dsimple_lexize") },
    TemplateEntry { number: 3730, name: "synonym", functions: ("dsynonym_init", "dsynonym_lexize") },
    TemplateEntry { number: 3733, name: "ispell", functions: ("dispell_init", "dispell_lexize") },
    TemplateEntry { number: 3742, name: "thesaurus", functions: ("thesaurus_init", "thesaurus_lexize") },
    TemplateEntry { number: SNOWBALL_TEMPLATE, name: "snowball", functions: ("dsnowball_init", "dsnowball_lexize") },
];

/// A dictionary with a number and a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictionaryEntry {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The number of its template.
    pub template: u32,
    /// The dictionary.
    pub dictionary: Dictionary,
}

/// A configuration: the language of words, and that of ASCII words, which may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The dictionary for words.
    words: u32,
    /// The dictionary for words of ASCII letters.
    ascii_words: u32,
}

const LANGUAGES: usize = Language::ALL.len();

/// All dictionaries, by number.
pub const DICTIONARIES: [DictionaryEntry; LANGUAGES + 1] = {
    let simple = DictionaryEntry {
        number: SIMPLE_DICTIONARY,
        name: "simple",
        template: SIMPLE_TEMPLATE,
        dictionary: Dictionary::Simple,
    };
    let mut all = [simple; LANGUAGES + 1];
    let mut at = 0;
    while at < LANGUAGES {
        let language = Language::ALL[at];
        all[at + 1] = DictionaryEntry {
            number: FIRST_STEMS + 2 * at as u32,
            name: stems_name(language),
            template: SNOWBALL_TEMPLATE,
            dictionary: Dictionary::Stem(language),
        };
        at += 1;
    }
    all
};

/// All configurations, by number.
pub const CONFIGURATIONS: [Configuration; LANGUAGES + 1] = {
    let simple =
        Configuration { number: SIMPLE, name: "simple", words: SIMPLE_DICTIONARY, ascii_words: SIMPLE_DICTIONARY };
    let mut all = [simple; LANGUAGES + 1];
    let mut english = 0;
    let mut at = 0;
    while at < LANGUAGES {
        if matches!(Language::ALL[at], Language::English) {
            english = FIRST_STEMS + 2 * at as u32;
        }
        at += 1;
    }
    at = 0;
    while at < LANGUAGES {
        let language = Language::ALL[at];
        let words = FIRST_STEMS + 2 * at as u32;
        // Words in ASCII letters are no words of these languages.
        let ascii_words = if matches!(language, Language::Russian | Language::Hindi) { english } else { words };
        all[at + 1] =
            Configuration { number: FIRST_LANGUAGE + 2 * at as u32, name: language.name(), words, ascii_words };
        at += 1;
    }
    all
};

/// The number of `english`, what texts are taken for unless it is said.
pub const DEFAULT_CONFIGURATION: u32 = 13_164;
const _: () = assert!(
    matches!(CONFIGURATIONS[7].name.as_bytes(), b"english") && CONFIGURATIONS[7].number == DEFAULT_CONFIGURATION
);

macro_rules! stems_names {
    ($($language:ident $name:literal)*) => {
        const fn stems_name(language: Language) -> &'static str {
            match language { $(Language::$language => concat!($name, "_stem"),)* }
        }
    };
}

stems_names! {
    Arabic "arabic" Armenian "armenian" Basque "basque" Catalan "catalan" Danish "danish" Dutch "dutch"
    English "english" Finnish "finnish" French "french" German "german" Greek "greek" Hindi "hindi"
    Hungarian "hungarian" Indonesian "indonesian" Irish "irish" Italian "italian" Lithuanian "lithuanian"
    Nepali "nepali" Norwegian "norwegian" Portuguese "portuguese" Romanian "romanian" Russian "russian"
    Serbian "serbian" Spanish "spanish" Swedish "swedish" Tamil "tamil" Turkish "turkish" Yiddish "yiddish"
}

/// The configuration with a number.
#[must_use]
pub fn configuration_numbered(number: u32) -> Option<&'static Configuration> {
    const { &CONFIGURATIONS }.iter().find(|configuration| configuration.number == number)
}

/// The configuration with a name.
#[must_use]
pub fn configuration_named(name: &str) -> Option<&'static Configuration> {
    const { &CONFIGURATIONS }.iter().find(|configuration| configuration.name == name)
}

/// The dictionary with a number.
#[must_use]
pub fn dictionary_numbered(number: u32) -> Option<&'static DictionaryEntry> {
    const { &DICTIONARIES }.iter().chain([&UNACCENT]).find(|dictionary| dictionary.number == number)
}

/// The dictionary that the extension `unaccent` has. Its template is not one of PostgreSQL's own.
pub(super) static UNACCENT: DictionaryEntry =
    DictionaryEntry { number: 13_209, name: "unaccent", template: 13_210, dictionary: Dictionary::Unaccent };

/// The dictionary with a name.
#[must_use]
pub fn dictionary_named(name: &str) -> Option<&'static DictionaryEntry> {
    const { &DICTIONARIES }.iter().chain([&UNACCENT]).find(|dictionary| dictionary.name == name)
}

/// The numbers of the dictionaries that a configuration asks for a kind of token, in their order.
/// Tokens of which none knows anything are left out; so are those for which none is asked.
#[must_use]
pub fn mapping(configuration: &Configuration, kind: u8) -> Option<u32> {
    match kind {
        kind::ASCII_WORD | kind::ASCII_PART | kind::ASCII_HYPHENATED => Some(configuration.ascii_words),
        kind::WORD | kind::PART | kind::HYPHENATED => Some(configuration.words),
        kind::BLANK | kind::TAG | kind::PROTOCOL | kind::ENTITY => None,
        1..=22 => Some(SIMPLE_DICTIONARY),
        _ => None,
    }
}

impl Configuration {
    /// The configuration with a number.
    ///
    /// # Errors
    /// XX000 if there is none.
    pub fn find(number: u32) -> Result<&'static Self> {
        configuration_numbered(number)
            .ok_or_else(|| Error::internal(format_args!("cache lookup failed for text search configuration {number}")))
    }

    /// What a word is looked for as: `None` if it is left out, and counts for nothing; else as
    /// nothing, if it is a stop word, or as this.
    pub(super) fn lexize(&self, kind: u8, word: &str) -> Result<Option<Option<String>>> {
        let Some(entry) = mapping(self, kind).and_then(dictionary_numbered) else { return Ok(None) };
        Ok(match entry.dictionary.lexize(word)? {
            Lexized::Known(lexeme) => Some(lexeme),
            Lexized::Unknown | Lexized::Filtered(_) => None,
        })
    }
}
