//! Names of types.

use std::sync::Arc;

use colibri_catalog::{Catalog, Relation, UserType};
use colibri_types::bits::LENGTH_MAX;
use colibri_types::{ColumnType, CompositeType, Error, Modifier, Result, SqlState, Type, interval::IntervalFields};
use compact_str::CompactString;
use sqlparser::ast::{self, DataType, ExactNumberInfo, TimezoneInfo};

use super::fold;

/// Characters of `char(n)` and `varchar(n)` at most.
const CHARS_MAX: u64 = 10_485_760;

fn length(name: &str, length: Option<&ast::CharacterLength>) -> Result<Modifier> {
    match length {
        None | Some(ast::CharacterLength::Max) => Ok(Modifier::NONE),
        Some(ast::CharacterLength::IntegerLength { length: 0, .. }) => {
            Err(Error::new(SqlState::BAD_PARAMETER, format!("length for type {name} must be at least 1")))
        }
        Some(ast::CharacterLength::IntegerLength { length, .. }) if *length > CHARS_MAX => {
            Err(Error::new(SqlState::BAD_PARAMETER, format!("length for type {name} cannot exceed {CHARS_MAX}")))
        }
        Some(ast::CharacterLength::IntegerLength { length, .. }) => Ok(Modifier::length(*length as u32)),
    }
}

/// The modifier of a string of bits.
fn bits(name: &str, length: u64) -> Result<Modifier> {
    match length {
        0 => Err(Error::new(SqlState::BAD_PARAMETER, format!("length for type {name} must be at least 1"))),
        1..=LENGTH_MAX => Ok(Modifier::bits(length as u32)),
        _ => Err(Error::new(SqlState::BAD_PARAMETER, format!("length for type {name} cannot exceed {LENGTH_MAX}"))),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<Modifier> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(Modifier::NONE),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(Error::new(SqlState::BAD_PARAMETER, message));
    }
    match i16::try_from(scale) {
        Ok(scale @ -1000..=1000) => Ok(Modifier::numeric(precision as u16, scale)),
        _ => {
            let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
            Err(Error::new(SqlState::BAD_PARAMETER, message))
        }
    }
}

fn fraction(digits: Option<u64>) -> Modifier {
    digits.map_or(Modifier::NONE, |digits| Modifier::fraction(digits.min(6) as u8))
}

fn interval_fields(fields: &ast::IntervalFields) -> IntervalFields {
    use ast::IntervalFields as F;
    match fields {
        F::Year => IntervalFields::YEAR,
        F::Month => IntervalFields::MONTH,
        F::Day => IntervalFields::DAY,
        F::Hour => IntervalFields::HOUR,
        F::Minute => IntervalFields::MINUTE,
        F::Second => IntervalFields::SECOND,
        F::YearToMonth => IntervalFields::YEAR_TO_MONTH,
        F::DayToHour => IntervalFields::DAY_TO_HOUR,
        F::DayToMinute => IntervalFields::DAY_TO_MINUTE,
        F::DayToSecond => IntervalFields::DAY_TO_SECOND,
        F::HourToMinute => IntervalFields::HOUR_TO_MINUTE,
        F::HourToSecond => IntervalFields::HOUR_TO_SECOND,
        F::MinuteToSecond => IntervalFields::MINUTE_TO_SECOND,
    }
}

/// The modifier of an interval; only seconds have digits.
pub(super) fn interval_modifier(fields: IntervalFields, digits: Option<u64>) -> Result<Modifier> {
    if digits.is_some() && fields.0 & IntervalFields::SECOND.0 == 0 {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\""));
    }
    let digits = digits.map(|digits| digits.min(6) as u8);
    Ok(Modifier::interval(fields, digits))
}

fn float(digits: u64) -> Result<Type> {
    match digits {
        1..=24 => Ok(Type::Float4),
        25..=53 => Ok(Type::Float8),
        0 => Err(Error::new(SqlState::BAD_PARAMETER, "precision for type float must be at least 1 bit")),
        _ => Err(Error::new(SqlState::BAD_PARAMETER, "precision for type float must be less than 54 bits")),
    }
}

/// The type that a name stands for.
pub fn bind_type(data_type: &DataType) -> Result<ColumnType> {
    let plain = |ty: Type| Ok(ty.into());
    let with = |ty: Type, modifier: Modifier| Ok(ColumnType::new(ty, modifier));
    match data_type {
        DataType::Bool | DataType::Boolean => plain(Type::Bool),
        DataType::SmallInt(Some(_))
        | DataType::Int2(Some(_))
        | DataType::Int(Some(_))
        | DataType::Int4(Some(_))
        | DataType::Integer(Some(_))
        | DataType::BigInt(Some(_))
        | DataType::Int8(Some(_)) => Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\"")),
        DataType::SmallInt(_) | DataType::Int2(_) => plain(Type::Int2),
        DataType::Int(_) | DataType::Int4(_) | DataType::Integer(_) => plain(Type::Int4),
        DataType::BigInt(_) | DataType::Int8(_) => plain(Type::Int8),
        DataType::Real | DataType::Float4 => plain(Type::Float4),
        DataType::Float8 | DataType::DoublePrecision | DataType::Float(ExactNumberInfo::None) => plain(Type::Float8),
        DataType::Float(ExactNumberInfo::Precision(digits)) => float(*digits).map(Into::into),
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => with(Type::Numeric, numeric(info)?),
        DataType::Char(None) | DataType::Character(None) => with(Type::Char, Modifier::length(1)),
        DataType::Char(chars) | DataType::Character(chars) => with(Type::Char, length("char", chars.as_ref())?),
        DataType::Varchar(chars) | DataType::CharVarying(chars) | DataType::CharacterVarying(chars) => {
            with(Type::Varchar, length("varchar", chars.as_ref())?)
        }
        DataType::Bit(length) => with(Type::Bit, bits("bit", length.unwrap_or(1))?),
        DataType::BitVarying(length) | DataType::VarBit(length) => {
            with(Type::VarBit, length.map_or(Ok(Modifier::NONE), |length| bits("varbit", length))?)
        }
        DataType::Text => plain(Type::Text),
        DataType::Bytea => plain(Type::Bytea),
        DataType::TsVector => plain(Type::TsVector),
        DataType::TsQuery => plain(Type::TsQuery),
        DataType::Date => plain(Type::Date),
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            with(Type::Time, fraction(*digits))
        }
        DataType::Time(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => with(Type::TimeTz, fraction(*digits)),
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            with(Type::Timestamp, fraction(*digits))
        }
        DataType::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            with(Type::TimestampTz, fraction(*digits))
        }
        DataType::Interval { fields, precision } => {
            let fields = fields.as_ref().map_or(IntervalFields::ALL, interval_fields);
            with(Type::Interval, interval_modifier(fields, *precision)?)
        }
        DataType::Uuid => plain(Type::Uuid),
        DataType::Regclass => plain(Type::RegClass),
        DataType::JSON => plain(Type::Json),
        DataType::JSONB => plain(Type::Jsonb),
        DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::Qualified(element, _),
        ) => {
            let element = bind_type(element)?;
            // More brackets say nothing more: any array may have any dimensions.
            match element.ty {
                Type::Array(_) => Ok(element),
                ty => match ty.array() {
                    Some(array) => with(array, element.modifier),
                    None => Err(Error::unsupported(format_args!("an array of {ty}"))),
                },
            }
        }
        DataType::Custom(name, arguments) => custom(name, arguments),
        other => Err(unknown(&other.to_string())),
    }
}

/// What names of types are looked up in, besides those that every database has.
pub struct TypeNames<'a> {
    /// The database's name.
    pub database: &'a str,
    /// The types that users have defined.
    pub catalog: &'a Catalog,
    /// Schemas, in the order in which they are looked through.
    pub search_path: &'a [CompactString],
}

impl TypeNames<'_> {
    /// The type that a name stands for; it may begin with this database's.
    ///
    /// # Errors
    /// 0A000 for another database's, 3F000 for a schema that is not there, 42704 for a type.
    pub fn find(&self, data_type: &DataType) -> Result<ColumnType> {
        let mut element = data_type;
        while let DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::Qualified(inner, _),
        ) = element
        {
            element = inner;
        }
        let DataType::Custom(name, modifiers) = element else { return bind_type(data_type) };
        let is_array = !std::ptr::eq(element, data_type);
        let parts: Vec<_> = super::name_parts(name)?.into_iter().map(fold).collect();
        let schema = match &parts[..] {
            [name] => {
                return bind_type(data_type).or_else(|error| match self.user_type(None, name, is_array) {
                    Some(found) => modified(found, modifiers).unwrap_or(Err(error)),
                    None => Err(error),
                });
            }
            [schema, _] => schema,
            [named, schema, _] if *named == self.database => schema,
            [_, _, _] => {
                let message = format!("cross-database references are not implemented: {}", parts.join("."));
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        if !colibri_catalog::system_tables::is_system_schema(schema) && self.catalog.schema(schema).is_none() {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        if let Some(name) = parts.last()
            && let Some(found) = self.user_type(Some(schema), name, is_array)
            && let Some(found) = modified(found, modifiers)
        {
            return found;
        }
        if parts.len() == 2 {
            return bind_type(data_type);
        }
        let mut within = data_type.clone();
        let mut element = &mut within;
        while let DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::Qualified(inner, _),
        ) = element
        {
            element = inner;
        }
        if let DataType::Custom(name, _) = element {
            name.0.remove(0);
        }
        bind_type(&within)
    }

    /// The type of the rows of a table.
    fn row_type(&self, schema: Option<&str>, name: &str) -> Option<CompositeType> {
        let found = match schema {
            Some(schema) => self.catalog.relation(schema, name),
            None => self.search_path.iter().find_map(|schema| self.catalog.relation(schema, name)),
        };
        match found? {
            Relation::Table(table) => Some(table.row_type()),
            _ => None,
        }
    }

    fn user_type(&self, schema: Option<&str>, name: &str, is_array: bool) -> Option<ColumnType> {
        if let Some((ty, _)) = extension_type(self.catalog, schema, name, self.search_path) {
            return if is_array { ty.array().map(Into::into) } else { Some(ty.into()) };
        }
        let Some((found, of_arrays)) = find_user_type(self.catalog, schema, name, self.search_path) else {
            let ty = Type::Composite(self.row_type(schema, name)?);
            return if is_array { Some(ty.array()?.into()) } else { Some(ty.into()) };
        };
        if is_array || of_arrays { found.array_column_type() } else { Some(found.column_type()) }
    }
}

/// A type of users, or of an extension, with its modifiers; `None` if it takes none.
fn modified(ty: ColumnType, modifiers: &[String]) -> Option<Result<ColumnType>> {
    let is_vector = ty.ty == Type::Vector || ty.ty == Type::Vector.array_of();
    match (modifiers.is_empty(), is_vector) {
        (true, _) => Some(Ok(ty)),
        (false, true) => Some(colibri_types::vector::modifier(modifiers).map(|modifier| ColumnType { modifier, ..ty })),
        (false, false) => None,
    }
}

/// The type with a name that an extension has brought, or that of arrays of it, and the schema that it
/// is in.
#[must_use]
pub fn extension_type<'c>(
    catalog: &'c Catalog,
    schema: Option<&str>,
    name: &str,
    search_path: &[CompactString],
) -> Option<(Type, &'c CompactString)> {
    let ty = Type::all().find(|ty| ty.extension().is_some() && ty.inner_name() == name)?;
    let found = catalog.extensions().find(|known| Some(known.name.as_str()) == ty.extension())?;
    let is_seen = match schema {
        Some(schema) => found.schema == schema,
        None => found.schema == "pg_catalog" || search_path.contains(&found.schema),
    };
    is_seen.then_some((ty, &found.schema))
}

/// The type that a user has defined with a name, or whose arrays have that name in the catalogue:
/// then the second is `true`.
pub(super) fn find_user_type<'c>(
    catalog: &'c Catalog,
    schema: Option<&str>,
    name: &str,
    search_path: &[CompactString],
) -> Option<(&'c Arc<UserType>, bool)> {
    if let Some(found) = catalog.find_type(schema, name, search_path) {
        return Some((found, false));
    }
    name.strip_prefix('_')?;
    let of_schema =
        |schema: &str| catalog.types().find(|ty| ty.schema == schema && ty.array_name() == name).map(|ty| (ty, true));
    match schema {
        Some(schema) => of_schema(schema),
        None => search_path.iter().find_map(|schema| of_schema(schema)),
    }
}

/// A type of the catalogue at hand in the place of one that was found in an older one, or of which
/// the number alone is known.
///
/// # Errors
/// 42704 if there is none.
pub fn current_type(catalog: &Catalog, ty: Type) -> Result<Type> {
    match ty.of_user() {
        None => Ok(ty),
        Some(_) => catalog
            .type_numbered(ty.oid())
            .ok_or_else(|| Error::new(SqlState::NO_SUCH_OBJECT, format!("type with OID {} does not exist", ty.oid()))),
    }
}

fn unknown(name: &str) -> Error {
    let known_elsewhere = ["inet", "cidr", "point", "reg"];
    let lower = name.to_ascii_lowercase();
    if lower.ends_with("[]") || known_elsewhere.iter().any(|known| lower.starts_with(known)) {
        return Error::unsupported(format_args!("type {lower}"));
    }
    Error::new(SqlState::NO_SUCH_OBJECT, format!("type \"{lower}\" does not exist"))
}

fn custom(name: &ast::ObjectName, arguments: &[String]) -> Result<ColumnType> {
    let name = match super::name_parts(name)?[..] {
        [name] => {
            super::check_name("", name)?;
            fold(name)
        }
        [schema, name] if fold(schema) == "pg_catalog" => match (fold(name), name.quote_style) {
            // In the catalogue, and in quotes, this is another type than without.
            (name, Some(_)) if name == "char" => return Ok(Type::InternalChar.into()),
            (name, _) => name,
        },
        _ => return Err(unknown(&name.to_string())),
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| unknown(&name));
    let chars =
        |text: &String| -> Result<_> { Ok(ast::CharacterLength::IntegerLength { length: number(text)?, unit: None }) };
    let ty = match (name.as_str(), arguments) {
        ("bool" | "boolean", []) => Type::Bool,
        ("int2" | "smallint", []) => Type::Int2,
        ("int4" | "int" | "integer", []) => Type::Int4,
        ("int8" | "bigint", []) => Type::Int8,
        ("float4" | "real", []) => Type::Float4,
        ("float8", []) => Type::Float8,
        ("numeric" | "decimal", []) => Type::Numeric,
        ("numeric" | "decimal", [precision]) => {
            let modifier = numeric(&ExactNumberInfo::Precision(number(precision)?))?;
            return Ok(ColumnType::new(Type::Numeric, modifier));
        }
        ("numeric" | "decimal", [precision, scale]) => {
            let scale = colibri_types::letters::trim(scale).parse().map_err(|_| unknown(&name))?;
            let modifier = numeric(&ExactNumberInfo::PrecisionAndScale(number(precision)?, scale))?;
            return Ok(ColumnType::new(Type::Numeric, modifier));
        }
        ("bpchar", []) => Type::Char,
        ("bpchar", [chars_max]) => {
            return Ok(ColumnType::new(Type::Char, length("char", Some(&chars(chars_max)?))?));
        }
        ("varchar", []) => Type::Varchar,
        ("varchar", [chars_max]) => {
            return Ok(ColumnType::new(Type::Varchar, length("varchar", Some(&chars(chars_max)?))?));
        }
        ("text", []) => Type::Text,
        ("name", []) => Type::Name,
        ("bytea", []) => Type::Bytea,
        ("date", []) => Type::Date,
        ("time", []) => Type::Time,
        ("timestamp", []) => Type::Timestamp,
        ("timestamptz", []) => Type::TimestampTz,
        ("timestamptz", [digits]) => {
            return Ok(ColumnType::new(Type::TimestampTz, fraction(Some(number(digits)?))));
        }
        ("interval", []) => Type::Interval,
        ("uuid", []) => Type::Uuid,
        ("bit", []) => Type::Bit,
        ("varbit", []) => Type::VarBit,
        ("timetz", []) => Type::TimeTz,
        ("timetz", [digits]) => {
            return Ok(ColumnType { ty: Type::TimeTz, modifier: fraction(Some(number(digits)?)), domain: None });
        }
        ("money", []) => Type::Money,
        ("xid8", []) => Type::Xid8,
        ("pg_lsn", []) => Type::PgLsn,
        ("tid", []) => Type::Tid,
        ("oid", []) => Type::Oid,
        ("char", []) => Type::InternalChar,
        ("json", []) => Type::Json,
        ("jsonb", []) => Type::Jsonb,
        ("jsonpath", []) => Type::JsonPath,
        ("xml", []) => Type::Xml,
        ("xid", []) => Type::Xid,
        ("regclass", []) => Type::RegClass,
        ("regtype", []) => Type::RegType,
        ("regproc", []) => Type::RegProc,
        ("regprocedure", []) => Type::RegProcedure,
        ("regoper", []) => Type::RegOper,
        ("regoperator", []) => Type::RegOperator,
        ("regnamespace", []) => Type::RegNamespace,
        ("regrole", []) => Type::RegRole,
        ("regconfig", []) => Type::RegConfig,
        ("regdictionary", []) => Type::RegDictionary,
        ("tsvector", []) => Type::TsVector,
        ("tsquery", []) => Type::TsQuery,
        ("inet", []) => Type::Inet,
        ("cidr", []) => Type::Cidr,
        ("macaddr", []) => Type::MacAddr,
        ("macaddr8", []) => Type::MacAddr8,
        ("point", []) => Type::Point,
        ("lseg", []) => Type::Lseg,
        ("path", []) => Type::Path,
        ("box", []) => Type::Box,
        ("polygon", []) => Type::Polygon,
        ("line", []) => Type::Line,
        ("circle", []) => Type::Circle,
        ("pg_snapshot", []) => Type::PgSnapshot,
        ("txid_snapshot", []) => Type::TxidSnapshot,
        ("int4range", []) => Type::Int4Range,
        ("numrange", []) => Type::NumRange,
        ("tsrange", []) => Type::TsRange,
        ("tstzrange", []) => Type::TsTzRange,
        ("daterange", []) => Type::DateRange,
        ("int8range", []) => Type::Int8Range,
        ("int4multirange", []) => Type::Int4Multirange,
        ("nummultirange", []) => Type::NumMultirange,
        ("tsmultirange", []) => Type::TsMultirange,
        ("tstzmultirange", []) => Type::TsTzMultirange,
        ("datemultirange", []) => Type::DateMultirange,
        ("int8multirange", []) => Type::Int8Multirange,
        ("record", []) => Type::Record,
        ("int2vector", []) => Type::Int2Vector,
        ("oidvector", []) => Type::OidVector,
        ("aclitem", []) => Type::AclItem,
        ("pg_node_tree", []) => Type::NodeTree,
        ("serial" | "bigserial" | "smallserial", [_, ..]) => {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\""));
        }
        // An array by the name that the catalogue has for it.
        (name, []) if name.starts_with('_') => {
            match Type::all()
                .find(|ty| matches!(ty, Type::Array(_)) && ty.extension().is_none() && ty.inner_name() == name)
            {
                Some(array) => array,
                None => return Err(unknown(name)),
            }
        }
        _ => return Err(unknown(&name)),
    };
    Ok(ty.into())
}

/// The integer type that `serial` and its kin stand for.
pub fn serial_type(data_type: &DataType) -> Option<Type> {
    let DataType::Custom(name, arguments) = data_type else { return None };
    if !arguments.is_empty() {
        return None;
    }
    match fold(super::name_parts(name).ok()?.first()?).as_str() {
        "smallserial" | "serial2" => Some(Type::Int2),
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        _ => None,
    }
}

/// Refuses types whose values have no order, or no equality.
pub(super) fn expect_comparable(ty: Type, by_order: bool) -> Result<()> {
    match ty.element().unwrap_or(ty) {
        unordered if !unordered.is_ordered() => {
            let what = if by_order { "an ordering" } else { "an equality" };
            let message = format!("could not identify {what} operator for type {ty}");
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, message);
            Err(if by_order { error.hint("Use an explicit ordering operator or modify the query.") } else { error })
        }
        _ => Ok(()),
    }
}
