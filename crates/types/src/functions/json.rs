//! JSON, as far as clients ask for it: values as JSON, and objects of them.

use super::{Function, check_length, f, text};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::types::Type::{Json, Text};
use crate::value::Datum;

fn quoted(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for piece in pieces::of_text(text, Pace::Computed) {
        let quoted = serde_json::to_string(piece?).map_err(Error::internal)?;
        out.push_str(&quoted[1..quoted.len() - 1]);
    }
    out.push('"');
    Ok(out)
}

/// Keys and values in turns, the values being JSON already.
fn object(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::from("{");
    for (index, pair) in args.chunks(2).enumerate() {
        let [key, value] = pair else { return Err(Error::internal("a key without a value")) };
        if index > 0 {
            out.push_str(", ");
        }
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * index + 1);
            return Err(Error::new(SqlState::BAD_PARAMETER, message).hint("Object keys should be text."));
        }
        out.push_str(&quoted(text(key)?)?);
        out.push_str(" : ");
        out.push_str(if value.is_null() { "null" } else { text(value)? });
        check_length(out.len())?;
    }
    out.push('}');
    Ok(Datum::Text(out.into()))
}

pub(super) const TABLE: &[Function] = &[
    f("to_json", &[Text], Json, |a, _| Ok(Datum::Text(quoted(text(a[0])?)?.into()))),
    // The binder makes JSON of the values.
    f("json_build_object", &[Text], Json, object).variadic().called_on_null(),
];
