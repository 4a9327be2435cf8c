//! `random` and `setseed`.

use super::{Function, f, float};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::types::Type::{Float8, Void};
use crate::value::Datum;

fn set_seed(a: &[&Datum], env: &Env) -> Result<Datum> {
    let seed = float(a[0])?;
    if !(-1.0..=1.0).contains(&seed) {
        let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
        return Err(Error::new(SqlState::BAD_PARAMETER, message));
    }
    env.seeded.set(seed);
    Ok(Datum::text(""))
}

pub(super) const TABLE: &[Function] = &[
    f("random", &[], Float8, |_, env| Ok(Datum::Float(env.seeded.next()))).volatile(),
    f("setseed", &[Float8], Void, set_seed).volatile(),
];
