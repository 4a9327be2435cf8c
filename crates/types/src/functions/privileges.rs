//! Privileges as lists have them, such as `bob=r*w/alice`: `aclexplode`.

use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pulse;
use crate::types::Type;
use crate::value::Datum;

/// The letters of privileges in their order, with what they are called.
const PRIVILEGES: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER SYSTEM"),
];

fn malformed(item: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type aclitem: \"{item}\""))
}

/// The name of a role at the beginning of a text, and what is behind it.
fn role(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['=', '/']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

/// The number of a role; 0 of everybody.
fn number(name: &str, env: &Env) -> Result<Datum> {
    if name.is_empty() {
        return Ok(Datum::Int(0));
    }
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    env.object_number(Type::RegRole, &quoted).map(|number| Datum::Int(number.into()))
}

/// The privileges of a list: who gave each, who has it, what it is, whether they may give it on.
pub(super) fn rows(list: &Datum, env: &Env) -> Result<Vec<Vec<Datum>>> {
    let Datum::Array(list) = list else { return Err(Error::internal("a list of privileges is no array")) };
    if list.dimensions().len() != 1 {
        return Err(Error::new(SqlState::BAD_PARAMETER, "ACL arrays must be one-dimensional"));
    }
    let mut rows = Vec::new();
    for item in list.values() {
        pulse::work(20)?;
        let item = match item {
            Datum::Null => {
                return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "ACL arrays must not contain null values"));
            }
            item => super::text(item)?,
        };
        let (grantee, rest) = role(item).ok_or_else(|| malformed(item))?;
        let (letters, giver) =
            rest.strip_prefix('=').and_then(|rest| rest.split_once('/')).ok_or_else(|| malformed(item))?;
        let (giver, _) = role(giver).ok_or_else(|| malformed(item))?;
        let (grantor, grantee) = (number(&giver, env)?, number(&grantee, env)?);
        for (letter, name) in PRIVILEGES {
            if let Some(at) = letters.find(letter) {
                let may_give = letters[at + 1..].starts_with('*');
                rows.push(vec![grantor.clone(), grantee.clone(), Datum::text(name), Datum::Bool(may_give)]);
            }
        }
    }
    Ok(rows)
}
