//! Configurations: which dictionaries are asked for each kind of token. Numbers are PostgreSQL's.
//!
//! Those of the system are a table; those that users make come from what is around a session.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::dictionary::{Dictionary, Language, Lexized};
use super::tokens::kind;
use crate::error::Result;

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

/// A configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Its number.
    pub number: u32,
    /// The name of one that the system has.
    pub name: &'static str,
    asked: Asked,
}

/// Which dictionaries a configuration asks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    /// Those of a language for words and for words of ASCII letters, `simple` for other tokens.
    OfLanguage { words: u32, ascii_words: u32 },
    /// Those that are listed, with their numbers, by the number of the kind of token.
    Listed(Vec<Vec<(u32, Dictionary)>>),
}

const LANGUAGES: usize = Language::ALL.len();

/// All dictionaries, by number.
pub const DICTIONARIES: [DictionaryEntry; LANGUAGES + 1] = {
    let simple = DictionaryEntry {
        number: SIMPLE_DICTIONARY,
        name: "simple",
        template: SIMPLE_TEMPLATE,
        dictionary: Dictionary::SIMPLE,
    };
    let mut all = [simple; LANGUAGES + 1];
    let mut at = 0;
    while at < LANGUAGES {
        let language = Language::ALL[at];
        all[at + 1] = DictionaryEntry {
            number: FIRST_STEMS + 2 * at as u32,
            name: stems_name(language),
            template: SNOWBALL_TEMPLATE,
            dictionary: Dictionary::of(language),
        };
        at += 1;
    }
    all
};

/// All configurations of the system, by number.
pub static CONFIGURATIONS: LazyLock<Vec<Configuration>> = LazyLock::new(|| {
    let number_of = |language: &Language| {
        let at = Language::ALL.iter().position(|known| known == language).unwrap_or_default();
        (FIRST_STEMS + 2 * at as u32, FIRST_LANGUAGE + 2 * at as u32)
    };
    let of_language = |number, name, words, ascii_words| {
        let asked = Asked::OfLanguage { words, ascii_words };
        Configuration { number, name, asked }
    };
    let mut all = vec![of_language(SIMPLE, "simple", SIMPLE_DICTIONARY, SIMPLE_DICTIONARY)];
    for language in Language::ALL {
        let (words, number) = number_of(language);
        // Words in ASCII letters are no words of these languages.
        let ascii_words = match language {
            Language::Russian | Language::Hindi => number_of(&Language::English).0,
            _ => words,
        };
        all.push(of_language(number, language.name(), words, ascii_words));
    }
    all
});

/// The number of `english`, what texts are taken for unless it is said.
pub const DEFAULT_CONFIGURATION: u32 = 13_164;
const _: () = assert!(matches!(Language::ALL[6], Language::English) && FIRST_LANGUAGE + 2 * 6 == DEFAULT_CONFIGURATION);

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
    CONFIGURATIONS.iter().find(|configuration| configuration.number == number)
}

/// The configuration with a name.
#[must_use]
pub fn configuration_named(name: &str) -> Option<&'static Configuration> {
    CONFIGURATIONS.iter().find(|configuration| configuration.name == name)
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

impl Configuration {
    /// One that asks the dictionaries that are listed, with their numbers, for each kind of token.
    #[must_use]
    pub fn listed(number: u32, mappings: impl IntoIterator<Item = (u8, Vec<(u32, Dictionary)>)>) -> Self {
        let mut listed = Vec::new();
        for (kind, asked) in mappings {
            let at = usize::from(kind);
            if listed.len() <= at {
                listed.resize(at + 1, Vec::new());
            }
            listed[at] = asked;
        }
        Self { number, name: "", asked: Asked::Listed(listed) }
    }

    /// The dictionaries that are asked for a kind of token, with their numbers, in their order.
    /// Tokens of which none knows anything are left out; so are those for which none is asked.
    #[must_use]
    pub fn asked(&self, kind: u8) -> Cow<'_, [(u32, Dictionary)]> {
        match &self.asked {
            Asked::Listed(listed) => listed.get(usize::from(kind)).map_or(Cow::Borrowed(&[]), |asked| asked.into()),
            Asked::OfLanguage { words, ascii_words } => {
                let number = match kind {
                    kind::ASCII_WORD | kind::ASCII_PART | kind::ASCII_HYPHENATED => *ascii_words,
                    kind::WORD | kind::PART | kind::HYPHENATED => *words,
                    kind::BLANK | kind::TAG | kind::PROTOCOL | kind::ENTITY => return Cow::Borrowed(&[]),
                    1..=22 => SIMPLE_DICTIONARY,
                    _ => return Cow::Borrowed(&[]),
                };
                let entry = dictionary_numbered(number);
                entry.map(|entry| (number, entry.dictionary)).into_iter().collect()
            }
        }
    }

    /// What a word is looked for as: `None` if it is left out, and counts for nothing; else as
    /// nothing, if it is a stop word, or as this.
    pub(super) fn lexize(&self, kind: u8, word: &str) -> Result<Option<Option<String>>> {
        let mut word = Cow::Borrowed(word);
        for (_, dictionary) in self.asked(kind).iter() {
            match dictionary.lexize(&word)? {
                Lexized::Known(lexeme) => return Ok(Some(lexeme)),
                Lexized::Filtered(plain) => word = Cow::Owned(plain),
                Lexized::Unknown => {}
            }
        }
        Ok(None)
    }
}
