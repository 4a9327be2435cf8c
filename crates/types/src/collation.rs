//! Collations: orders of texts as languages have them.
//!
//! Everywhere below the binder, texts are compared by their bytes. Where another collation counts,
//! the binder puts a *sort key* in the place of each text that is compared: bytes that have the
//! order which the collation gives to the texts. So keys of indexes, sorting, grouping and joins
//! need no other comparison.
//!
//! ```text
//! deterministic      | key that the collation gives | 0 | the text |
//! nondeterministic   | key that the collation gives |
//! ```
//!
//! Texts that a deterministic collation takes for equal are thus ordered by their bytes, and are equal
//! only if their bytes are. Neither part has the byte 0 in it.
//!
//! Functions here take the collation as their first argument, a text (see [`Spec`]), so that they are
//! immutable, and that equal expressions have the same collation.
//!
//! ON DISK: indexes hold sort keys. They change with the version of the tables ([`VERSION`]).

use std::cell::RefCell;
use std::rc::Rc;

use compact_str::CompactString;
use icu_casemap::CaseMapper;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use crate::error::{Error, Result, SqlState};
use crate::functions::{Function, f, text};
use crate::types::{Scalar, Type};
use crate::value::Datum;
use crate::{letters, pulse};

/// The version of the tables that sort keys are made by.
pub const VERSION: &str = "icu4x-2.4.0";

/// The locales that PostgreSQL 15 has collations of, under the name `LOCALE-x-icu`.
const LOCALES: &str = include_str!("locales.txt");

/// Stands between the parts of a collation's text.
const BREAK: char = '\u{1}';

/// Collations that a thread keeps ready.
const KEPT_MAX: usize = 16;

/// What making a sort key takes, in units for each byte.
const UNITS_PER_BYTE: usize = 4;

/// A collation that is not that of bytes, as an expression holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// How it is named in SQL.
    pub name: CompactString,
    /// The locale, as BCP 47 writes it.
    pub locale: CompactString,
    /// Whether texts of different bytes always differ.
    pub deterministic: bool,
}

impl Spec {
    /// As the argument of a function.
    #[must_use]
    pub fn datum(&self) -> Datum {
        let kind = if self.deterministic { 'd' } else { 'n' };
        Datum::text(&format!("{}{BREAK}{}{BREAK}{kind}", self.name, self.locale))
    }

    /// The name in the argument of a function.
    #[must_use]
    pub fn name_in(argument: &Datum) -> Option<&str> {
        match argument {
            Datum::Text(all) => all.split(BREAK).next(),
            _ => None,
        }
    }

    /// Whether texts of different bytes differ by the collation of an argument.
    #[must_use]
    pub fn is_deterministic(argument: &Datum) -> bool {
        matches!(argument, Datum::Text(all) if all.ends_with("\u{1}d"))
    }
}

/// The locales of the collations that there are in every database.
pub fn locales() -> impl Iterator<Item = &'static str> {
    LOCALES.split_ascii_whitespace()
}

/// The locale of a collation that is in every database: `de-x-icu`, and `de_DE` or `de_DE.utf8`,
/// which the operating system's locales are called.
#[must_use]
pub fn builtin_locale(name: &str) -> Option<&'static str> {
    if let Some(locale) = name.strip_suffix("-x-icu") {
        return locales().find(|known| *known == locale);
    }
    let bare = name.strip_suffix(".utf8").or_else(|| name.strip_suffix(".UTF-8")).unwrap_or(name);
    let (language, region) = bare.split_once('_')?;
    let is_it =
        |known: &&str| known.split_once('-').is_some_and(|(of, at)| of == language && at == region && at.len() == 2);
    locales().find(is_it)
}

/// Refuses a locale that is none, or that asks for what is not there.
///
/// # Errors
/// 22023, 0A000.
pub fn check_locale(locale: &str) -> Result<()> {
    Collator::of(locale, true).map(drop)
}

/// A collation that is ready for use.
struct Collator {
    spec: CompactString,
    collator: CollatorBorrowed<'static>,
    locale: Locale,
    deterministic: bool,
}

fn unsupported_locale(locale: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("could not open collator for locale \"{locale}\""))
}

/// A locale in either of ICU's forms: `de-u-co-phonebk`, and the older `de@collation=phonebook`. A
/// language that nobody knows has the order of all languages together, as in ICU.
fn parsed(locale: &str) -> Result<Locale> {
    let (base, keywords) = locale.split_once('@').unwrap_or((locale, ""));
    let base = base.split('.').next().unwrap_or_default().replace('_', "-");
    let mut tag = match base.as_str() {
        "" | "root" => "und".to_owned(),
        base if base.parse::<Locale>().is_ok() => base.to_owned(),
        base if base.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !base.contains("-u-") => {
            "und".to_owned()
        }
        _ => return Err(unsupported_locale(locale)),
    };
    for (at, keyword) in keywords.split(';').filter(|keyword| !keyword.is_empty()).enumerate() {
        let (key, value) = keyword_of_icu(keyword).ok_or_else(|| unsupported_locale(locale))?;
        let begin = if at == 0 && !tag.contains("-u-") { "-u" } else { "" };
        tag.push_str(&format!("{begin}-{key}-{value}"));
    }
    tag.parse().map_err(|_| unsupported_locale(locale))
}

/// A keyword of ICU's older form as BCP 47 has it; `None` if there is no such keyword, or no such
/// value of it.
fn keyword_of_icu(keyword: &str) -> Option<(&'static str, String)> {
    let (key, value) = keyword.split_once('=')?;
    let value = value.to_ascii_lowercase();
    let switch = |value: &str| match value {
        "yes" | "true" => Some("true"),
        "no" | "false" => Some("false"),
        _ => None,
    };
    let (key, value) = match key.to_ascii_lowercase().as_str() {
        "colstrength" => {
            let level = match value.as_str() {
                "primary" => "level1",
                "secondary" => "level2",
                "tertiary" => "level3",
                "quaternary" | "quarternary" => "level4",
                "identical" => "identic",
                _ => return None,
            };
            ("ks", level)
        }
        "colalternate" => {
            let handling = match value.as_str() {
                "non-ignorable" => "noignore",
                "shifted" => "shifted",
                _ => return None,
            };
            ("ka", handling)
        }
        "colcasefirst" => {
            let first = match value.as_str() {
                "upper" => "upper",
                "lower" => "lower",
                _ => switch(&value).filter(|value| *value == "false")?,
            };
            ("kf", first)
        }
        "colbackwards" => ("kb", switch(&value)?),
        "colcaselevel" => ("kc", switch(&value)?),
        "colnumeric" => ("kn", switch(&value)?),
        "colnormalization" => ("kk", switch(&value)?),
        "collation" => {
            let kind = match value.as_str() {
                "phonebook" => "phonebk",
                "traditional" => "trad",
                "dictionary" => "dict",
                "gb2312han" => "gb2312",
                "standard" | "search" | "stroke" | "pinyin" | "unihan" | "zhuyin" | "eor" | "emoji" | "compat" => {
                    return Some(("co", value));
                }
                _ => return None,
            };
            ("co", kind)
        }
        _ => return None,
    };
    Some((key, value.to_owned()))
}

impl Collator {
    fn of(locale: &str, deterministic: bool) -> Result<Self> {
        let parsed = parsed(locale)?;
        let mut options = CollatorOptions::default();
        for (key, value) in parsed.extensions.unicode.keywords.iter() {
            let value = value.to_string();
            let wrong = || unsupported_locale(locale);
            match key.as_str() {
                "ks" => {
                    options.strength = Some(match value.as_str() {
                        "level1" => Strength::Primary,
                        "level2" => Strength::Secondary,
                        "level3" => Strength::Tertiary,
                        "level4" => Strength::Quaternary,
                        "identic" => Strength::Identical,
                        _ => return Err(wrong()),
                    });
                }
                "ka" => {
                    options.alternate_handling = Some(match value.as_str() {
                        "noignore" => AlternateHandling::NonIgnorable,
                        "shifted" => AlternateHandling::Shifted,
                        _ => return Err(wrong()),
                    });
                }
                "kv" => {
                    options.max_variable = Some(match value.as_str() {
                        "space" => MaxVariable::Space,
                        "punct" => MaxVariable::Punctuation,
                        "symbol" => MaxVariable::Symbol,
                        "currency" => MaxVariable::Currency,
                        _ => return Err(wrong()),
                    });
                }
                "kc" => {
                    options.case_level = Some(match value.as_str() {
                        "" | "true" => CaseLevel::On,
                        "false" => CaseLevel::Off,
                        _ => return Err(wrong()),
                    });
                }
                // Whether texts are brought to a normal form first: they always are.
                "kk" => {}
                "kb" | "kr" | "vt" | "kh" | "va" => {
                    return Err(Error::unsupported(format_args!("the key {key} in the locale \"{locale}\"")));
                }
                _ => {}
            }
        }
        let preferences = CollatorPreferences::from(&parsed);
        let collator = CollatorBorrowed::try_new(preferences, options).map_err(|_| unsupported_locale(locale))?;
        Ok(Self { spec: CompactString::default(), collator, locale: parsed, deterministic })
    }

    fn of_spec(spec: &str) -> Result<Self> {
        let mut parts = spec.split(BREAK).skip(1);
        let locale = parts.next().unwrap_or_default();
        let deterministic = parts.next() == Some("d");
        Ok(Self { spec: spec.into(), ..Self::of(locale, deterministic)? })
    }

    /// The sort key, with the text behind it if that is wanted.
    fn key(&self, text: &str, with_text: bool) -> Result<Datum> {
        pulse::work(text.len() * UNITS_PER_BYTE)?;
        let mut key = Vec::with_capacity(text.len() * 2 + 8);
        let Ok(()) = self.collator.write_sort_key_to(text, &mut key);
        if with_text {
            key.push(0);
            key.extend_from_slice(text.as_bytes());
        }
        Ok(Datum::Bytes(key.into_boxed_slice()))
    }
}

/// Calls a function with a collation, which the thread keeps for the next call.
fn with_collator<T>(spec: &Datum, call: impl FnOnce(&Collator) -> Result<T>) -> Result<T> {
    thread_local! {
        static KEPT: RefCell<Vec<Rc<Collator>>> = const { RefCell::new(Vec::new()) };
    }
    let spec = text(spec)?;
    let kept = KEPT.with_borrow_mut(|kept| {
        let known = kept.iter().position(|known| known.spec == spec)?;
        kept.swap(0, known);
        kept.first().cloned()
    });
    let collator = match kept {
        Some(collator) => collator,
        None => {
            let made = Rc::new(Collator::of_spec(spec)?);
            KEPT.with_borrow_mut(|kept| {
                kept.truncate(KEPT_MAX - 1);
                kept.insert(0, Rc::clone(&made));
            });
            made
        }
    };
    call(&collator)
}

const TEXTS: Type = Type::Array(Scalar::Text);
const KEYS: Type = Type::Array(Scalar::Bytea);

/// `(collation, text)`: the sort key.
pub static KEY: Function = f("collation_key", &[Type::Text, Type::Text], Type::Bytea, |a, _| {
    with_collator(a[0], |collator| collator.key(text(a[1])?, collator.deterministic))
});

/// The same for each text of an array.
pub static KEYS_OF_ARRAY: Function = f("collation_key", &[Type::Text, TEXTS], KEYS, |a, _| {
    let Datum::Array(array) = a[1] else {
        return Err(Error::internal("sort keys of what is no array"));
    };
    with_collator(a[0], |collator| {
        let mut keys = Vec::with_capacity(array.values().len());
        for value in array.values() {
            keys.push(match value {
                Datum::Null => Datum::Null,
                value => collator.key(text(value)?, collator.deterministic)?,
            });
        }
        Ok(Datum::Array(std::sync::Arc::new(array.with_values(Type::Bytea, keys))))
    })
});

/// `(collation, text)`: the sort key and the text, of which the least and the greatest are found.
pub static KEY_AND_TEXT: Function = f("collation_key_and_text", &[Type::Text, Type::Text], Type::Bytea, |a, _| {
    with_collator(a[0], |collator| collator.key(text(a[1])?, true))
});

/// The text behind a sort key.
pub static TEXT_OF_KEY: Function = f("text_of_collation_key", &[Type::Bytea], Type::Text, |a, _| {
    let bytes = crate::functions::bytes(a[0])?;
    let end = memchr::memchr(0, bytes).ok_or_else(|| Error::internal("a sort key without its text"))?;
    let text = std::str::from_utf8(&bytes[end + 1..]).map_err(|_| Error::internal("a sort key of no text"))?;
    Ok(Datum::text(text))
});

fn with_case(spec: &Datum, value: &Datum, change: impl FnOnce(&Locale, &str) -> String) -> Result<Datum> {
    let value = text(value)?;
    pulse::work(value.len())?;
    with_collator(spec, |collator| Ok(Datum::text(&change(&collator.locale, value))))
}

/// `(collation, text)`: in lower case.
pub static LOWER: Function = f("lower", &[Type::Text, Type::Text], Type::Text, |a, _| {
    with_case(a[0], a[1], |locale, text| CaseMapper::new().lowercase_to_string(text, &locale.id).into_owned())
});

/// `(collation, text)`: in upper case.
pub static UPPER: Function = f("upper", &[Type::Text, Type::Text], Type::Text, |a, _| {
    with_case(a[0], a[1], |locale, text| CaseMapper::new().uppercase_to_string(text, &locale.id).into_owned())
});

/// `(collation, text)`: each word with a capital.
pub static INITCAP: Function =
    f("initcap", &[Type::Text, Type::Text], Type::Text, |a, _| with_case(a[0], a[1], capitalized));

fn capitalized(locale: &Locale, text: &str) -> String {
    let mapper = CaseMapper::new();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = letters::is_alnum(first);
        let end = rest.find(|c| letters::is_alnum(c) != is_word).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        if is_word {
            let options = icu_casemap::options::TitlecaseOptions::default();
            out += &mapper.titlecase_segment_with_only_case_data_to_string(part, &locale.id, options);
        } else {
            out += part;
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    fn spec(locale: &str, deterministic: bool) -> Datum {
        Spec { name: "x".into(), locale: locale.into(), deterministic }.datum()
    }

    fn sorted(locale: &str, words: &[&str]) -> Vec<String> {
        let (spec, env) = (spec(locale, true), Env::default());
        let key = |word: &&str| match (KEY.eval)(&[&spec, &Datum::text(word)], &env) {
            Ok(Datum::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        let mut words = words.to_vec();
        words.sort_by_key(key);
        words.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn languages_have_orders_of_their_own() {
        let words = ["z", "ä", "a", "Z", "A", "o"];
        assert_eq!(sorted("de", &words), ["a", "A", "ä", "o", "z", "Z"]);
        assert_eq!(sorted("sv", &words), ["a", "A", "o", "z", "Z", "ä"]);
        assert_eq!(sorted("und-u-kn", &["a10", "a9"]), ["a9", "a10"]);
        assert_eq!(sorted("und-u-kf-upper", &["a", "A"]), ["A", "a"]);
    }

    #[test]
    fn nondeterministic_keys_ignore_what_the_collation_ignores() {
        let env = Env::default();
        let key = |spec: &Datum, word: &str| (KEY.eval)(&[spec, &Datum::text(word)], &env).expect("a key");
        let (loose, strict) = (spec("und-u-ks-level2", false), spec("und-u-ks-level2", true));
        assert_eq!(key(&loose, "ABC"), key(&loose, "abc"));
        assert_ne!(key(&strict, "ABC"), key(&strict, "abc"));
        assert_ne!(key(&loose, "abc"), key(&loose, "abd"));
    }

    #[test]
    fn the_text_comes_back_from_its_key() {
        let (env, spec) = (Env::default(), spec("de", false));
        for word in ["", "ß", "Straße 7"] {
            let key = (KEY_AND_TEXT.eval)(&[&spec, &Datum::text(word)], &env).expect("a key");
            assert_eq!((TEXT_OF_KEY.eval)(&[&key], &env).expect("a text"), Datum::text(word));
        }
    }

    #[test]
    fn all_locales_are_there_and_bad_ones_are_refused() {
        for locale in locales() {
            check_locale(locale).expect(locale);
        }
        assert!(check_locale("no such locale").is_err());
        assert!(check_locale("@colNumeric=lower").is_err());
        let same = |one: &str, other: &str| assert_eq!(parsed(one).unwrap(), parsed(other).unwrap(), "{one}");
        same("@colStrength=primary;colCaseLevel=yes", "und-u-ks-level1-kc-true");
        same("de@collation=phonebook", "de-u-co-phonebk");
        same("en_US.utf8", "en-US");
        same("C", "und");
        assert_eq!(sorted("@colCaseFirst=upper", &["a", "A"]), ["A", "a"]);
        assert!(check_locale("und-u-ks-level9").is_err());
        assert_eq!(builtin_locale("de_DE.utf8"), Some("de-DE"));
        assert_eq!(builtin_locale("de-x-icu"), Some("de"));
        assert_eq!(builtin_locale("xx-x-icu"), None);
    }

    #[test]
    fn letters_change_case_as_the_language_has_it() {
        let env = Env::default();
        let call = |function: &Function, locale, word| {
            (function.eval)(&[&spec(locale, true), &Datum::text(word)], &env).expect("a text")
        };
        assert_eq!(call(&UPPER, "tr", "istanbul ß"), Datum::text("İSTANBUL SS"));
        assert_eq!(call(&LOWER, "tr", "ISPARTA"), Datum::text("ısparta"));
        assert_eq!(call(&INITCAP, "de", "eINE straße"), Datum::text("Eine Straße"));
    }
}
