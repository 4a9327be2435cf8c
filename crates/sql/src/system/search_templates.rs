//! What the templates of text search make dictionaries of.
//!
//! Dictionaries are made of the templates `simple`, `snowball` and `unaccent`. Those of `synonym`,
//! `ispell` and `thesaurus` are made of files beside PostgreSQL's programs, which are not here:
//! making one fails as it does in PostgreSQL where the file is missing.

use colibri_types::text_search::{Dictionary, Language};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::search;

fn bad_parameter(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// The dictionary that a template makes of options.
///
/// # Errors
/// 22023 for a wrong option, F0000 for a file that is not there, 42704 for an unknown language.
pub(crate) fn dictionary_of(template: u32, options: &[(CompactString, String)]) -> Result<Dictionary> {
    let name = search::template_name(template).unwrap_or_default();
    let shown = if name == "snowball" { "Snowball" } else { name };
    let no_file = |what: &str, file: &str| {
        let message = format!("could not open {what} \"{file}\": No such file or directory");
        Error::new(SqlState("F0000"), message)
    };
    let stop_words = |file: &str| {
        let language = Language::named(file).filter(|language| language.has_stop_words());
        language.ok_or_else(|| no_file("stop-word file", &format!("{file}.stop")))
    };
    let unknown = |option: &str| match name {
        "simple" => bad_parameter(format!("unrecognized simple dictionary parameter: \"{option}\"")),
        "thesaurus" => bad_parameter(format!("unrecognized Thesaurus parameter: \"{option}\"")),
        "ispell" => bad_parameter(format!("unrecognized Ispell parameter: \"{option}\"")),
        _ => bad_parameter(format!("unrecognized {shown} parameter: \"{option}\"")),
    };
    let find = |option: &str| options.iter().find(|(name, _)| name == option).map(|(_, value)| value.as_str());
    let may_have: &[&str] = match name {
        "simple" => &["stopwords", "accept"],
        "snowball" => &["language", "stopwords"],
        "unaccent" => &["rules"],
        "synonym" => &["synonyms", "casesensitive"],
        "ispell" => &["dictfile", "afffile", "stopwords"],
        _ => &["dictfile", "dictionary"],
    };
    for (at, (option, _)) in options.iter().enumerate() {
        if !may_have.contains(&option.as_str()) {
            return Err(unknown(option));
        }
        if options[..at].iter().any(|(other, _)| other == option) {
            return Err(bad_parameter(format!("multiple {option} parameters")));
        }
    }
    let words = find("stopwords").map(stop_words).transpose()?;
    Ok(match name {
        "simple" => {
            let accepts = match find("accept").map(str::to_ascii_lowercase).as_deref() {
                None | Some("true" | "on" | "1") => true,
                Some("false" | "off" | "0") => false,
                Some(_) => return Err(Error::new(SqlState::SYNTAX_ERROR, "accept requires a Boolean value")),
            };
            Dictionary::Simple { stop_words: words, accepts }
        }
        "snowball" => {
            let language = find("language").ok_or_else(|| bad_parameter("missing Language parameter"))?;
            let known = Language::named(&language.to_ascii_lowercase()).ok_or_else(|| {
                let message =
                    format!("no Snowball stemmer available for language \"{language}\" and encoding \"UTF8\"");
                Error::new(SqlState::NO_SUCH_OBJECT, message)
            })?;
            Dictionary::Stem { language: known, stop_words: words }
        }
        "unaccent" => match find("rules") {
            None => return Err(bad_parameter("missing Rules parameter")),
            Some("unaccent") => Dictionary::Unaccent,
            Some(file) => return Err(no_file("unaccent file", &format!("{file}.rules"))),
        },
        "synonym" => {
            let file = find("synonyms").ok_or_else(|| bad_parameter("missing Synonyms parameter"))?;
            return Err(no_file("synonym file", &format!("{file}.syn")));
        }
        "ispell" => {
            find("dictfile").ok_or_else(|| bad_parameter("missing DictFile parameter"))?;
            let affixes = find("afffile").ok_or_else(|| bad_parameter("missing AffFile parameter"))?;
            return Err(no_file("affix file", &format!("{affixes}.affix")));
        }
        _ => {
            let file = find("dictfile").ok_or_else(|| bad_parameter("missing DictFile parameter"))?;
            find("dictionary").ok_or_else(|| bad_parameter("missing Dictionary parameter"))?;
            return Err(no_file("thesaurus file", &format!("{file}.ths")));
        }
    })
}
