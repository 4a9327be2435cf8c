//! XML: whether a text is, and values made of others. What the grammar has expressions of its own for
//! becomes calls of functions whose names begin with a dot.

use super::bytes::encode_base64;
use super::{Function, bytes, f, text};
use crate::datetime::DateStyle;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::text_io;
use crate::types::Type::{self, Bool, Bytea, Date, Text, Timestamp, TimestampTz, Xml};
use crate::value::Datum;
use crate::xml::{self, Kind};

fn made(text: impl Into<String>) -> Result<Datum> {
    Ok(Datum::Text(text.into().into()))
}

/// What the setting `xmloption` says.
fn usual(env: &Env) -> Kind {
    if env.xml_is_document { Kind::Document } else { Kind::Content }
}

fn kind(of: &Datum) -> Kind {
    if matches!(of, Datum::Bool(true)) { Kind::Document } else { Kind::Content }
}

fn is_well_formed(value: &Datum, kind: Kind) -> Result<Datum> {
    Ok(Datum::Bool(xml::is_well_formed(text(value)?, kind)?))
}

/// A text or NULL.
fn optional(value: &Datum) -> Result<Option<&str>> {
    if value.is_null() { Ok(None) } else { text(value).map(Some) }
}

/// A date or a time as XML writes it, whatever the session's settings are.
fn time(value: &Datum, ty: Type, env: &Env) -> Result<Datum> {
    let is_infinite = match value {
        Datum::Date(days) => matches!(*days, i32::MIN | i32::MAX),
        Datum::Timestamp(us) => matches!(*us, i64::MIN | i64::MAX),
        _ => false,
    };
    if is_infinite {
        let message = if ty == Date { "date out of range" } else { "timestamp out of range" };
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, message).detail(format!(
            "XML does not support infinite {} values.",
            if ty == Date { "date" } else { "timestamp" }
        )));
    }
    let env = Env { dates: DateStyle::default(), ..env.clone() };
    let mut out = String::new();
    text_io::write(ty, value, &env, &mut out);
    let mut out = out.replacen(' ', "T", 1);
    // Hours alone are no zone in XML.
    if ty == TimestampTz
        && let Some(sign) = out.rfind(['+', '-'])
        && out.len() - sign == 3
        && !out.ends_with("BC")
    {
        out.push_str(":00");
    }
    made(out)
}

/// The values side by side; NULL if there is none.
fn concat(values: &[&Datum]) -> Result<Datum> {
    let mut there = values.iter().filter(|value| !value.is_null()).peekable();
    if there.peek().is_none() {
        return Ok(Datum::Null);
    }
    let texts = there.map(|value| text(value)).collect::<Result<Vec<&str>>>()?;
    made(xml::concat(texts.into_iter())?)
}

/// `xmlroot`: the value, the version or NULL, and 1, 2, 3 or 4 for a document that stands alone, that
/// does not, of which that is not said, and of which it is left.
fn root(args: &[&Datum]) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let standalone = match args[2] {
        Datum::Int(1) => Some(Some(true)),
        Datum::Int(2) => Some(Some(false)),
        Datum::Int(3) => Some(None),
        _ => None,
    };
    made(xml::root(text(args[0])?, optional(args[1])?, standalone))
}

fn serialized(value: &Datum, kind: Kind) -> Result<Datum> {
    if kind == Kind::Document && !xml::is_well_formed(text(value)?, kind)? {
        return Err(Error::new(SqlState("2200L"), "not an XML document"));
    }
    Ok(value.clone())
}

pub(super) const TABLE: &[Function] = &[
    f("xml", &[Text], Xml, |a, env| made(xml::parse(text(a[0])?, usual(env))?)).stable(),
    f("xml_is_well_formed", &[Text], Bool, |a, env| is_well_formed(a[0], usual(env))).stable(),
    f("xml_is_well_formed_document", &[Text], Bool, |a, _| is_well_formed(a[0], Kind::Document)),
    f("xml_is_well_formed_content", &[Text], Bool, |a, _| is_well_formed(a[0], Kind::Content)),
    f("xmlcomment", &[Text], Xml, |a, _| made(xml::comment(text(a[0])?)?)),
    f("xmlconcat2", &[Xml, Xml], Xml, |a, _| concat(a)).called_on_null(),
    f(".xmlparse", &[Bool, Text], Xml, |a, _| made(xml::parse(text(a[1])?, kind(a[0]))?)),
    f(".xmlserialize", &[Bool, Xml], Text, |a, _| serialized(a[1], kind(a[0]))),
    f(".xml_is_document", &[Xml], Bool, |a, _| is_well_formed(a[0], Kind::Document)),
    f(".xml_body", &[Xml], Xml, |a, _| made(xml::body(text(a[0])?))),
    f(".xml_escape", &[Text], Text, |a, _| made(xml::escape(text(a[0])?)?)),
    f(".xml_attribute", &[Text, Text], Text, |a, _| {
        made(format!(" {}=\"{}\"", text(a[0])?, xml::escape_attribute(text(a[1])?)?))
    }),
    f(".xml_time", &[Date], Text, |a, env| time(a[0], Date, env)).stable(),
    f(".xml_time", &[Timestamp], Text, |a, env| time(a[0], Timestamp, env)).stable(),
    f(".xml_time", &[TimestampTz], Text, |a, env| time(a[0], TimestampTz, env)).stable(),
    f(".xml_bytes", &[Bytea], Text, |a, _| made(encode_base64(bytes(a[0])?)?)),
    f(".xmlconcat", &[Xml], Xml, |a, _| concat(a)).variadic().called_on_null(),
    f(".xml_content", &[Text], Text, |a, _| {
        let there = a.iter().filter(|value| !value.is_null()).map(|value| text(value)).collect::<Result<Vec<_>>>()?;
        if there.is_empty() { Ok(Datum::Null) } else { made(there.concat()) }
    })
    .variadic()
    .called_on_null(),
    f(".xml_element", &[Text, Text, Text], Xml, |a, _| {
        made(xml::element(text(a[0])?, optional(a[1])?.unwrap_or_default(), optional(a[2])?))
    })
    .called_on_null(),
    f(".xml_wrapped", &[Text, Text], Xml, |a, _| made(xml::element(text(a[0])?, "", Some(text(a[1])?)))),
    f(".xmlpi", &[Text], Xml, |a, _| made(xml::instruction(text(a[0])?, None)?)),
    f(".xmlpi", &[Text, Text], Xml, |a, _| made(xml::instruction(text(a[0])?, Some(text(a[1])?))?)),
    f(".xmlroot", &[Xml, Text, Type::Int4], Xml, |a, _| root(a)).called_on_null(),
];
