//! Reading COPY, whose options PostgreSQL has written in three ways over time.
//!
//! ```text
//! COPY [BINARY] table [(column, …)] FROM|TO STDIN|STDOUT [[USING] DELIMITERS 'x'] [WITH] options [WHERE condition]
//! COPY (query) TO STDOUT [WITH] options
//!
//! options   (FORMAT csv, HEADER match, FORCE_QUOTE (a, b), …)
//!         | BINARY | FREEZE | CSV | HEADER | {DELIMITER|NULL|QUOTE|ESCAPE} [AS] 'x' | ENCODING 'x'
//!         | FORCE {QUOTE {*|a, b}|NOT NULL a, b|NULL a, b} …
//! ```
//!
//! What the options mean together is looked at when the columns are known: [`CopyRequest::options`].

use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::{CopyFormat, CopyOptions, Header};
use crate::statement::reader::{Reader, Token, may_begin_with};

/// Encodings that PostgreSQL knows and Colibri does not, those in use.
const ENCODINGS: [&str; 14] = [
    "latin1",
    "latin9",
    "iso88591",
    "iso-8859-1",
    "iso885915",
    "win1250",
    "win1251",
    "win1252",
    "koi8r",
    "sql_ascii",
    "sjis",
    "euc_jp",
    "gbk",
    "big5",
];

/// A COPY as it is written.
#[derive(Debug, Default)]
pub(crate) struct CopyRequest {
    pub(crate) source: Source,
    /// COPY TO.
    pub(crate) is_to: bool,
    options: Wanted,
    /// The condition on rows of COPY FROM, by its bytes in the text.
    pub(crate) condition: Option<std::ops::Range<usize>>,
}

/// What is copied.
#[derive(Debug)]
pub(crate) enum Source {
    Table {
        name: Vec<CompactString>,
        columns: Vec<CompactString>,
    },
    /// By its bytes in the text.
    Query(std::ops::Range<usize>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Table { name: Vec::new(), columns: Vec::new() }
    }
}

/// Some columns, or all.
#[derive(Debug)]
enum Columns {
    All,
    Named(Vec<CompactString>),
}

/// The options as they were written.
#[derive(Debug, Default)]
struct Wanted {
    format: Option<CopyFormat>,
    freeze: Option<bool>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Columns>,
    force_not_null: Option<Columns>,
    force_null: Option<Columns>,
    encoding: Option<String>,
}

/// The value of an option in parentheses.
enum Value {
    None,
    Text(String),
    Star,
    List(Vec<CompactString>),
}

/// Reads a text if it is a COPY.
///
/// # Errors
/// 42601 and others if it begins like one and goes on otherwise.
pub(crate) fn parse(text: &str) -> Result<Option<CopyRequest>> {
    if !may_begin_with(text, &["copy"]) {
        return Ok(None);
    }
    let mut reader = Reader::new(text)?;
    if !reader.eat(&["COPY"]) {
        return Ok(None);
    }
    reader.copy().map(Some)
}

#[cold]
fn syntax(message: impl Into<String>) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

#[cold]
fn unsupported(message: impl Into<String>) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

#[cold]
fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// Sets what may be given once.
fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(syntax("conflicting or redundant options")),
    }
}

impl Reader {
    fn copy(&mut self) -> Result<CopyRequest> {
        let mut request = CopyRequest::default();
        if *self.peek() == Token::LeftParen {
            request.source = self.copied_query()?;
            self.expect(&["TO"])?;
            request.is_to = true;
        } else {
            // A table may be called so.
            let is_table = ["FROM", "TO"].iter().any(|word| self.is_at(self.at + 1, word))
                || matches!(self.peek_behind(1), Token::LeftParen | Token::Period);
            if !is_table && self.eat(&["BINARY"]) {
                request.options.format = Some(CopyFormat::Binary);
            }
            let name = self.qualified()?;
            let columns = if *self.peek() == Token::LeftParen { self.copied_columns()? } else { Vec::new() };
            request.source = Source::Table { name, columns };
            request.is_to = match self.eat_any(&["FROM", "TO"]) {
                Some(which) => which == 1,
                None => return Err(self.syntax()),
            };
        }
        self.copy_end()?;
        if matches!(request.source, Source::Table { .. }) {
            let is_using = self.eat(&["USING"]);
            if self.eat(&["DELIMITERS"]) {
                once(&mut request.options.delimiter, self.string()?)?;
            } else if is_using {
                return Err(self.syntax());
            }
        }
        self.eat(&["WITH"]);
        if self.eat_token(&Token::LeftParen) {
            self.list(|reader| reader.copy_option(&mut request.options))?;
            self.close()?;
        } else {
            while self.old_copy_option(&mut request.options)? {}
        }
        if matches!(request.source, Source::Table { .. }) && self.eat(&["WHERE"]) {
            if request.is_to {
                return Err(syntax("WHERE clause not allowed with COPY TO")
                    .hint("Try the COPY (SELECT ... WHERE ...) TO variant."));
            }
            let from = self.byte();
            while !matches!(self.peek(), Token::End | Token::Semicolon) {
                self.at += 1;
            }
            if from == self.byte() {
                return Err(self.syntax());
            }
            request.condition = Some(from..self.byte());
        }
        self.end()?;
        Ok(request)
    }

    /// A query in parentheses.
    fn copied_query(&mut self) -> Result<Source> {
        self.at += 1;
        let (from, mut depth) = (self.byte(), 1);
        loop {
            match self.peek() {
                Token::LeftParen => depth += 1,
                Token::RightParen => depth -= 1,
                Token::End => return Err(self.syntax()),
                _ => {}
            }
            if depth == 0 {
                let query = from..self.byte();
                self.at += 1;
                return Ok(Source::Query(query));
            }
            self.at += 1;
        }
    }

    fn close(&mut self) -> Result<()> {
        if self.eat_token(&Token::RightParen) { Ok(()) } else { Err(self.syntax()) }
    }

    fn copied_columns(&mut self) -> Result<Vec<CompactString>> {
        self.at += 1;
        let columns = self.list(Self::name)?;
        self.close()?;
        Ok(columns)
    }

    /// Where rows come from or go to: the caller's affair. PostgreSQL takes either word for either way.
    fn copy_end(&mut self) -> Result<()> {
        let is_program = self.eat(&["PROGRAM"]);
        if self.eat_any(&["STDIN", "STDOUT"]).is_some() {
            return if is_program { Err(syntax("STDIN/STDOUT not allowed with PROGRAM")) } else { Ok(()) };
        }
        self.string()?;
        Err(Error::unsupported("COPY with a file or a program of the server")
            .hint("Use COPY FROM STDIN or COPY TO STDOUT; in colibri sql, \\copy."))
    }

    /// An option of those without parentheses, if one comes next.
    fn old_copy_option(&mut self, wanted: &mut Wanted) -> Result<bool> {
        const WITH_TEXT: &[&str] = &["DELIMITER", "NULL", "QUOTE", "ESCAPE"];
        if let Some(which) = self.eat_any(WITH_TEXT) {
            self.eat(&["AS"]);
            let text = self.string()?;
            let place = match which {
                0 => &mut wanted.delimiter,
                1 => &mut wanted.null,
                2 => &mut wanted.quote,
                _ => &mut wanted.escape,
            };
            once(place, text)?;
        } else if self.eat(&["BINARY"]) {
            once(&mut wanted.format, CopyFormat::Binary)?;
        } else if self.eat(&["CSV"]) {
            once(&mut wanted.format, CopyFormat::Csv)?;
        } else if self.eat(&["HEADER"]) {
            once(&mut wanted.header, Header::Line)?;
        } else if self.eat(&["FREEZE"]) {
            once(&mut wanted.freeze, true)?;
        } else if self.eat(&["ENCODING"]) {
            once(&mut wanted.encoding, self.string()?)?;
        } else if self.eat(&["FORCE"]) {
            self.old_force(wanted)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn old_force(&mut self, wanted: &mut Wanted) -> Result<()> {
        if self.eat(&["QUOTE"]) {
            let columns =
                if self.eat_token(&Token::Star) { Columns::All } else { Columns::Named(self.list(Self::name)?) };
            return once(&mut wanted.force_quote, columns);
        }
        let place = if self.eat(&["NOT", "NULL"]) {
            &mut wanted.force_not_null
        } else if self.eat(&["NULL"]) {
            &mut wanted.force_null
        } else {
            return Err(self.syntax());
        };
        once(place, Columns::Named(self.list(Self::name)?))
    }

    /// An option of those in parentheses.
    fn copy_option(&mut self, wanted: &mut Wanted) -> Result<()> {
        let name = self.name()?;
        let value = self.copy_value()?;
        let text = |value: Value| match value {
            Value::Text(text) => Ok(text),
            Value::None => Err(syntax(format!("{name} requires a parameter"))),
            Value::Star => Ok("*".to_owned()),
            Value::List(columns) => Ok(columns.join(", ")),
        };
        match name.as_str() {
            "format" => {
                let format = match text(value)?.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(bad(format!("COPY format \"{other}\" not recognized"))),
                };
                once(&mut wanted.format, format)
            }
            "freeze" => once(&mut wanted.freeze, boolean("freeze", &value)?),
            "delimiter" => once(&mut wanted.delimiter, text(value)?),
            "null" => once(&mut wanted.null, text(value)?),
            "header" => once(&mut wanted.header, header(&value)?),
            "quote" => once(&mut wanted.quote, text(value)?),
            "escape" => once(&mut wanted.escape, text(value)?),
            "encoding" => once(&mut wanted.encoding, text(value)?),
            "force_quote" | "force_not_null" | "force_null" => {
                let columns = match value {
                    Value::Star if name == "force_quote" => Columns::All,
                    Value::List(columns) => Columns::Named(columns),
                    _ => return Err(bad(format!("argument to option \"{name}\" must be a list of column names"))),
                };
                let place = match name.as_str() {
                    "force_quote" => &mut wanted.force_quote,
                    "force_not_null" => &mut wanted.force_not_null,
                    _ => &mut wanted.force_null,
                };
                once(place, columns)
            }
            other => Err(syntax(format!("option \"{other}\" not recognized"))),
        }
    }

    fn copy_value(&mut self) -> Result<Value> {
        let value = match self.peek() {
            Token::Comma | Token::RightParen => return Ok(Value::None),
            Token::Star => Value::Star,
            Token::LeftParen => return self.copied_columns().map(Value::List),
            Token::Word(_) => return Ok(Value::Text(self.name()?.to_string())),
            Token::Number(digits) => Value::Text(digits.clone()),
            _ => return self.string().map(Value::Text),
        };
        self.at += 1;
        Ok(value)
    }
}

fn boolean(name: &str, value: &Value) -> Result<bool> {
    let text = match value {
        Value::None => return Ok(true),
        Value::Text(text) => text.to_ascii_lowercase(),
        _ => String::new(),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(syntax(format!("{name} requires a Boolean value"))),
    }
}

fn header(value: &Value) -> Result<Header> {
    match value {
        Value::Text(text) if text.eq_ignore_ascii_case("match") => Ok(Header::Match),
        value => match boolean("header", value) {
            Ok(true) => Ok(Header::Line),
            Ok(false) => Ok(Header::None),
            Err(_) => Err(syntax("header requires a Boolean value or \"match\"")),
        },
    }
}

impl CopyRequest {
    /// The options, all together. `columns` says how many are copied; `place` which of them has a name, or that there is none.
    pub(crate) fn options(&self, columns: usize, place: &dyn Fn(&str) -> Result<Option<usize>>) -> Result<CopyOptions> {
        let wanted = &self.options;
        let format = wanted.format.unwrap_or(CopyFormat::Text);
        let (is_csv, is_binary) = (format == CopyFormat::Csv, format == CopyFormat::Binary);
        let mut options = CopyOptions::new(format);
        if let Some(name) = &wanted.encoding
            && !["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str())
        {
            return Err(match ENCODINGS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                true => Error::unsupported(format_args!("COPY in the encoding {name}")),
                false => bad("argument to option \"encoding\" must be a valid encoding name"),
            });
        }
        for (given, what) in [(wanted.delimiter.is_some(), "DELIMITER"), (wanted.null.is_some(), "NULL")] {
            if given && is_binary {
                return Err(syntax(format!("cannot specify {what} in BINARY mode")));
            }
        }
        let byte = |text: &Option<String>, otherwise: u8, what: &str| match text.as_deref().map(str::as_bytes) {
            None => Ok(otherwise),
            Some(&[byte]) => Ok(byte),
            Some(_) => Err(unsupported(format!("COPY {what} must be a single one-byte character"))),
        };
        options.delimiter = byte(&wanted.delimiter, options.delimiter, "delimiter")?;
        if let Some(null) = &wanted.null {
            options.null.clone_from(null);
        }
        options.header = wanted.header.unwrap_or(Header::None);
        if self.is_to && options.header == Header::Match {
            return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
        }
        options.check_texts()?;
        for (given, what) in [(wanted.quote.is_some(), "quote"), (wanted.escape.is_some(), "escape")] {
            if given && !is_csv {
                return Err(unsupported(format!("COPY {what} available only in CSV mode")));
            }
        }
        options.quote = byte(&wanted.quote, options.quote, "quote")?;
        // The character that escapes is the one that quotes, unless it is given.
        options.escape = byte(&wanted.escape, options.quote, "escape")?;
        options.check()?;
        let force = [
            (&wanted.force_quote, "force quote", "TO", "FORCE_QUOTE"),
            (&wanted.force_not_null, "force not null", "FROM", "FORCE_NOT_NULL"),
            (&wanted.force_null, "force null", "FROM", "FORCE_NULL"),
        ];
        for (given, what, way, _) in force {
            if given.is_some() && !is_csv {
                return Err(unsupported(format!("COPY {what} available only in CSV mode")));
            }
            if given.is_some() && self.is_to != (way == "TO") {
                return Err(unsupported(format!("COPY {what} only available using COPY {way}")));
            }
        }
        let [quote, not_null, null] = force.map(|(given, _, _, option)| flags(given.as_ref(), option, columns, place));
        (options.force_quote, options.force_not_null, options.force_null) = (quote?, not_null?, null?);
        Ok(options)
    }
}

/// By place among the columns that are copied, whether an option names them.
fn flags(
    given: Option<&Columns>,
    option: &str,
    count: usize,
    place: &dyn Fn(&str) -> Result<Option<usize>>,
) -> Result<Vec<bool>> {
    match given {
        None => Ok(Vec::new()),
        Some(Columns::All) => Ok(vec![true; count]),
        Some(Columns::Named(names)) => {
            let mut flags = vec![false; count];
            for name in names {
                let place = place(name)?.ok_or_else(|| {
                    let message = format!("{option} column \"{name}\" not referenced by COPY");
                    Error::new(SqlState::BAD_COLUMN_REFERENCE, message)
                })?;
                flags[place] = true;
            }
            Ok(flags)
        }
    }
}
