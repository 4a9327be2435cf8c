//! What the options of a COPY mean together, once its columns are known.

use colibri_syntax::tree::{self, CopyColumns};
use colibri_types::encoding::Encoding;
use colibri_types::{Error, Result, SqlState};

use super::{CopyFormat, CopyOptions, Header};

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

impl CopyOptions {
    /// The options, all together. `columns` says how many are copied; `place` which of them has a
    /// name, or that there is none. `usual` is the encoding of the file unless another is said.
    pub(crate) fn of(
        wanted: &tree::CopyOptions,
        is_to: bool,
        usual: Encoding,
        columns: usize,
        place: &dyn Fn(&str) -> Result<Option<usize>>,
    ) -> Result<Self> {
        let format = wanted.format.unwrap_or(CopyFormat::Text);
        let (is_csv, is_binary) = (format == CopyFormat::Csv, format == CopyFormat::Binary);
        let mut options = CopyOptions::new(format);
        options.encoding = match &wanted.encoding {
            Some(name) => Encoding::named(name)
                .ok_or_else(|| bad("argument to option \"encoding\" must be a valid encoding name"))?,
            None => usual,
        };
        options.encoding.expect_converted()?;
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
        if is_to && options.header == Header::Match {
            return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
        }
        options.check_texts()?;
        for (given, what) in [(wanted.quote.is_some(), "quote"), (wanted.escape.is_some(), "escape")] {
            if given && !is_csv {
                return Err(unsupported(format!("COPY {what} available only in CSV mode")));
            }
        }
        options.quote = byte(&wanted.quote, options.quote, "quote")?;
        // The escape character is the quote character unless it is given.
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
            if given.is_some() && is_to != (way == "TO") {
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
    given: Option<&CopyColumns>,
    option: &str,
    count: usize,
    place: &dyn Fn(&str) -> Result<Option<usize>>,
) -> Result<Vec<bool>> {
    match given {
        None => Ok(Vec::new()),
        Some(CopyColumns::All) => Ok(vec![true; count]),
        Some(CopyColumns::Named(names)) => {
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
