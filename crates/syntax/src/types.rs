//! Names of types, with their lengths, digits and dimensions.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, IntervalFields, ObjectName, ObjectNamePart,
    TimezoneInfo,
};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// A type, with the dimensions of an array behind it or without.
    pub(crate) fn data_type(&mut self) -> Result<DataType> {
        let token = self.peek();
        if self.eat(K::Setof) {
            self.not_supported(token, "SETOF");
        }
        let mut ty = self.scalar_type()?;
        if self.eat(K::Array) {
            let size = match self.kind() {
                Kind::LeftBracket => self.dimension()?,
                _ => None,
            };
            return Ok(DataType::Array(ArrayElemTypeDef::Qualified(Box::new(ty), size)));
        }
        while self.kind() == Kind::LeftBracket {
            let size = self.dimension()?;
            ty = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(ty), size));
        }
        Ok(ty)
    }

    fn dimension(&mut self) -> Result<Option<u64>> {
        self.expect_kind(Kind::LeftBracket)?;
        let size = if self.kind() == Kind::RightBracket { None } else { Some(self.unsigned()?) };
        self.expect_kind(Kind::RightBracket)?;
        Ok(size)
    }

    pub(crate) fn scalar_type(&mut self) -> Result<DataType> {
        match self.kind() {
            Kind::Key(K::Interval) => {
                self.next();
                if self.kind() == Kind::LeftParen {
                    return Ok(DataType::Interval { fields: None, precision: self.digits()? });
                }
                let fields = self.interval_fields()?;
                let precision = match fields {
                    Some((first, last)) => self.seconds_digits(last.unwrap_or(first))?,
                    None => None,
                };
                Ok(DataType::Interval { fields: fields.and_then(fields_of), precision })
            }
            Kind::Key(word) if is_type_word(word) => self.constant_type(),
            Kind::Key(K::Double) if self.kind_behind(1) == Kind::Key(K::Precision) => self.constant_type(),
            kind if Self::is_type_name(kind) => {
                let token = self.next();
                let mut parts = vec![self.ident_of(token)?];
                while self.eat_kind(Kind::Period) {
                    parts.push(self.label()?);
                }
                let modifiers = self.modifiers()?;
                Ok(self.type_of_name(parts, modifiers))
            }
            _ => Err(self.wrong()),
        }
    }

    /// Whether a word names a type and a string of it comes next.
    pub(crate) fn is_type_with_string(&self, word: K) -> bool {
        if word == K::Double {
            return self.kind_behind(1) == Kind::Key(K::Precision);
        }
        if !is_type_word(word) {
            return false;
        }
        // A column may have the name of a type, and nothing else may follow that a type goes on
        // with.
        let goes_on = matches!(
            (word, self.kind_behind(1)),
            (_, Kind::LeftParen)
                | (K::Character | K::Char | K::Nchar | K::Bit, Kind::Key(K::Varying))
                | (K::National, Kind::Key(K::Char | K::Character))
                | (K::Time | K::Timestamp, Kind::Key(K::With | K::Without))
        );
        goes_on || Self::is_string(self.kind_behind(1))
    }

    /// A type that is named by words of the grammar.
    pub(crate) fn constant_type(&mut self) -> Result<DataType> {
        let token = self.next();
        let Kind::Key(word) = token.kind else { return Err(self.wrong_at(token)) };
        Ok(match word {
            K::Int => DataType::Int(None),
            K::Integer => DataType::Integer(None),
            K::Smallint => DataType::SmallInt(None),
            K::Bigint => DataType::BigInt(None),
            K::Real => DataType::Real,
            K::Boolean => DataType::Boolean,
            K::Double => {
                self.expect(K::Precision)?;
                DataType::DoublePrecision
            }
            K::Float => DataType::Float(match self.digits()? {
                Some(digits) => ExactNumberInfo::Precision(digits),
                None => ExactNumberInfo::None,
            }),
            K::Numeric => DataType::Numeric(self.precision_and_scale()?),
            K::Decimal => DataType::Decimal(self.precision_and_scale()?),
            K::Dec => DataType::Dec(self.precision_and_scale()?),
            K::Bit if self.eat(K::Varying) => DataType::BitVarying(self.digits()?),
            K::Bit => DataType::Bit(self.digits()?),
            K::Varchar => DataType::Varchar(self.length()?),
            K::National => {
                if !self.eat(K::Character) {
                    self.expect(K::Char)?;
                }
                self.character()?
            }
            K::Char if self.eat(K::Varying) => DataType::CharVarying(self.length()?),
            K::Char => DataType::Char(self.length()?),
            K::Character | K::Nchar => self.character()?,
            K::Time => DataType::Time(self.digits()?, self.zone()?),
            K::Timestamp => DataType::Timestamp(self.digits()?, self.zone()?),
            _ => return Err(self.wrong_at(token)),
        })
    }

    fn character(&mut self) -> Result<DataType> {
        let varies = self.eat(K::Varying);
        let length = self.length()?;
        Ok(if varies { DataType::CharacterVarying(length) } else { DataType::Character(length) })
    }

    fn length(&mut self) -> Result<Option<CharacterLength>> {
        Ok(self.digits()?.map(|length| CharacterLength::IntegerLength { length, unit: None }))
    }

    /// `(n)`, if it comes next.
    fn digits(&mut self) -> Result<Option<u64>> {
        if !self.eat_kind(Kind::LeftParen) {
            return Ok(None);
        }
        let digits = self.unsigned()?;
        self.expect_kind(Kind::RightParen)?;
        Ok(Some(digits))
    }

    fn precision_and_scale(&mut self) -> Result<ExactNumberInfo> {
        if !self.eat_kind(Kind::LeftParen) {
            return Ok(ExactNumberInfo::None);
        }
        let precision = self.peek();
        let is_negative = self.eat_kind(Kind::Minus);
        let digits = self.unsigned()?;
        if is_negative {
            let message = format!("NUMERIC precision -{digits} must be between 1 and 1000");
            let error = self.error_at(precision, Error::new(SqlState::BAD_PARAMETER, message));
            self.note_error(error);
        }
        let info = if self.eat_kind(Kind::Comma) {
            let is_negative = self.eat_kind(Kind::Minus);
            let scale = i64::try_from(self.unsigned()?).unwrap_or(i64::MAX);
            ExactNumberInfo::PrecisionAndScale(digits, if is_negative { -scale } else { scale })
        } else {
            ExactNumberInfo::Precision(digits)
        };
        self.expect_kind(Kind::RightParen)?;
        Ok(info)
    }

    fn zone(&mut self) -> Result<TimezoneInfo> {
        let info = match (self.kind(), self.kind_behind(1)) {
            (Kind::Key(K::With), Kind::Key(K::Time)) => TimezoneInfo::WithTimeZone,
            (Kind::Key(K::Without), Kind::Key(K::Time)) => TimezoneInfo::WithoutTimeZone,
            _ => return Ok(TimezoneInfo::None),
        };
        self.next();
        self.expect_all(&[K::Time, K::Zone])?;
        Ok(info)
    }

    /// `YEAR`, `DAY TO SECOND`, and their like, if they come next.
    pub(crate) fn interval_fields(&mut self) -> Result<Option<(K, Option<K>)>> {
        let Kind::Key(first @ (K::Year | K::Month | K::Day | K::Hour | K::Minute | K::Second)) = self.kind() else {
            return Ok(None);
        };
        self.next();
        if first == K::Month || first == K::Second || !self.is_next(K::To) {
            return Ok(Some((first, None)));
        }
        self.next();
        let allowed: &[K] = match first {
            K::Year => &[K::Month],
            K::Day => &[K::Hour, K::Minute, K::Second],
            K::Hour => &[K::Minute, K::Second],
            _ => &[K::Second],
        };
        match self.kind() {
            Kind::Key(last) if allowed.contains(&last) => {
                self.next();
                Ok(Some((first, Some(last))))
            }
            _ => Err(self.wrong()),
        }
    }

    /// The digits behind the last field of an interval; only seconds have some.
    pub(crate) fn seconds_digits(&mut self, last: K) -> Result<Option<u64>> {
        if last == K::Second { self.digits() } else { Ok(None) }
    }

    /// What is in parentheses behind the name of a type.
    fn modifiers(&mut self) -> Result<Vec<String>> {
        self.maybe_in_parens(|parser| {
            let token = parser.peek();
            match token.kind {
                Kind::Integer | Kind::Decimal | Kind::Name | Kind::QuotedName | Kind::Key(_) => {
                    parser.next();
                    Ok(parser.token_text(token).to_owned())
                }
                kind if Self::is_string(kind) => parser.string(),
                Kind::Minus => {
                    parser.next();
                    Ok(format!("-{}", parser.unsigned()?))
                }
                _ => Err(parser.wrong()),
            }
        })
    }

    /// The type that a name stands for in the tree: some have nodes of their own.
    pub(crate) fn type_of_name(&self, parts: Vec<Ident>, modifiers: Vec<String>) -> DataType {
        let digits = match &modifiers[..] {
            [digits] => digits.parse().ok(),
            _ => None,
        };
        if let [name] = &parts[..]
            && name.quote_style.is_none()
        {
            if modifiers.is_empty()
                && let Some(ty) = plain_type(&name.value.to_ascii_lowercase())
            {
                return ty;
            }
            if modifiers.is_empty() || digits.is_some() {
                if name.value.eq_ignore_ascii_case("timestamptz") {
                    return DataType::Timestamp(digits, TimezoneInfo::Tz);
                }
                if name.value.eq_ignore_ascii_case("timetz") {
                    return DataType::Time(digits, TimezoneInfo::Tz);
                }
                if name.value.eq_ignore_ascii_case("varbit") {
                    return DataType::VarBit(digits);
                }
            }
        }
        DataType::Custom(ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect()), modifiers)
    }
}

/// Whether a word of the grammar names a type.
fn is_type_word(word: K) -> bool {
    matches!(
        word,
        K::Int
            | K::Integer
            | K::Smallint
            | K::Bigint
            | K::Real
            | K::Boolean
            | K::Float
            | K::Numeric
            | K::Decimal
            | K::Dec
            | K::Bit
            | K::Varchar
            | K::National
            | K::Nchar
            | K::Char
            | K::Character
            | K::Time
            | K::Timestamp
    )
}

/// A type whose name is no word of the grammar, and that has a node of its own.
fn plain_type(name: &str) -> Option<DataType> {
    Some(match name {
        "bool" => DataType::Bool,
        "int2" => DataType::Int2(None),
        "int4" => DataType::Int4(None),
        "int8" => DataType::Int8(None),
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "text" => DataType::Text,
        "bytea" => DataType::Bytea,
        "uuid" => DataType::Uuid,
        "date" => DataType::Date,
        "json" => DataType::JSON,
        "jsonb" => DataType::JSONB,
        "regclass" => DataType::Regclass,
        "tsvector" => DataType::TsVector,
        "tsquery" => DataType::TsQuery,
        _ => return None,
    })
}

fn fields_of((first, last): (K, Option<K>)) -> Option<IntervalFields> {
    use IntervalFields as F;
    Some(match (first, last) {
        (K::Year, None) => F::Year,
        (K::Month, None) => F::Month,
        (K::Day, None) => F::Day,
        (K::Hour, None) => F::Hour,
        (K::Minute, None) => F::Minute,
        (K::Second, None) => F::Second,
        (K::Year, Some(K::Month)) => F::YearToMonth,
        (K::Day, Some(K::Hour)) => F::DayToHour,
        (K::Day, Some(K::Minute)) => F::DayToMinute,
        (K::Day, Some(K::Second)) => F::DayToSecond,
        (K::Hour, Some(K::Minute)) => F::HourToMinute,
        (K::Hour, Some(K::Second)) => F::HourToSecond,
        (K::Minute, Some(K::Second)) => F::MinuteToSecond,
        _ => return None,
    })
}
