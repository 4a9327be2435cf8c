//! `normalize` and `IS NORMALIZED`: the forms of Unicode.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::{Function, check_length, f, text};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pulse;
use crate::types::Type::{Bool, Text};
use crate::value::Datum;

/// What looking at a byte takes, in units.
const UNITS_PER_BYTE: usize = 2;

#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

fn form(name: &str) -> Result<Form> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "NFC" => Form::Nfc,
        "NFD" => Form::Nfd,
        "NFKC" => Form::Nfkc,
        "NFKD" => Form::Nfkd,
        _ => {
            let message = format!("invalid normalization form: {name}");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
    })
}

fn normalized(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (given, form) = (text(a[0])?, form(text(a[1])?)?);
    pulse::work(given.len().saturating_mul(UNITS_PER_BYTE))?;
    let normalized = match form {
        Form::Nfc => ComposingNormalizerBorrowed::new_nfc().normalize(given),
        Form::Nfkc => ComposingNormalizerBorrowed::new_nfkc().normalize(given),
        Form::Nfd => DecomposingNormalizerBorrowed::new_nfd().normalize(given),
        Form::Nfkd => DecomposingNormalizerBorrowed::new_nfkd().normalize(given),
    };
    check_length(normalized.len())?;
    Ok(Datum::text(&normalized))
}

fn is_normalized(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (given, form) = (text(a[0])?, form(text(a[1])?)?);
    pulse::work(given.len().saturating_mul(UNITS_PER_BYTE))?;
    Ok(Datum::Bool(match form {
        Form::Nfc => ComposingNormalizerBorrowed::new_nfc().is_normalized(given),
        Form::Nfkc => ComposingNormalizerBorrowed::new_nfkc().is_normalized(given),
        Form::Nfd => DecomposingNormalizerBorrowed::new_nfd().is_normalized(given),
        Form::Nfkd => DecomposingNormalizerBorrowed::new_nfkd().is_normalized(given),
    }))
}

pub(super) const TABLE: &[Function] =
    &[f("normalize", &[Text, Text], Text, normalized), f("is_normalized", &[Text, Text], Bool, is_normalized)];
