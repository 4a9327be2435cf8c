//! Errors as PostgreSQL's clients expect them: a five-letter code, a message, perhaps a position, a
//! detail and a hint.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of SQL.
pub type Result<T> = std::result::Result<T, Error>;

/// PostgreSQL's code for a kind of error. Programs decide by it what to do: `40001` says to run the
/// transaction again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState {
            $(#[doc = concat!("`", $code, "`")] pub const $name: Self = Self($code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000";
    FEATURE_NOT_SUPPORTED = "0A000";
    DATA_EXCEPTION = "22000";
    CARDINALITY_VIOLATION = "21000";
    STRING_TOO_LONG = "22001";
    OUT_OF_RANGE = "22003";
    NULL_NOT_ALLOWED = "22004";
    BAD_DATETIME = "22007";
    DATETIME_OVERFLOW = "22008";
    SUBSTRING_ERROR = "22011";
    DIVISION_BY_ZERO = "22012";
    BAD_LOGARITHM = "2201E";
    BAD_POWER = "2201F";
    BAD_LIMIT = "2201W";
    BAD_OFFSET = "2201X";
    BAD_REGULAR_EXPRESSION = "2201B";
    BAD_ESCAPE = "22025";
    BAD_CHARACTER = "22021";
    WARNING = "01000";
    BAD_PARAMETER = "22023";
    BAD_TEXT = "22P02";
    BAD_BINARY = "22P03";
    BAD_COPY = "22P04";
    NOT_NULL_VIOLATION = "23502";
    FOREIGN_KEY_VIOLATION = "23503";
    UNIQUE_VIOLATION = "23505";
    CHECK_VIOLATION = "23514";
    EXCLUSION_VIOLATION = "23P01";
    INVALID_CURSOR_STATE = "24000";
    INVALID_TRANSACTION_STATE = "25000";
    ACTIVE_TRANSACTION = "25001";
    READ_ONLY_TRANSACTION = "25006";
    NO_ACTIVE_TRANSACTION = "25P01";
    FAILED_TRANSACTION = "25P02";
    NO_SUCH_PREPARED = "26000";
    DEPENDENT_OBJECTS = "2BP01";
    INVALID_GRANT_OPERATION = "0LP01";
    NO_SUCH_SAVEPOINT = "3B001";
    NO_SUCH_DATABASE = "3D000";
    NO_SUCH_SCHEMA = "3F000";
    SERIALIZATION_FAILURE = "40001";
    COMMIT_UNKNOWN = "40003";
    DEADLOCK = "40P01";
    SYNTAX_ERROR = "42601";
    INSUFFICIENT_PRIVILEGE = "42501";
    BAD_NAME = "42602";
    NAME_TOO_LONG = "42622";
    DUPLICATE_COLUMN = "42701";
    AMBIGUOUS_COLUMN = "42702";
    NO_SUCH_COLUMN = "42703";
    NO_SUCH_OBJECT = "42704";
    DUPLICATE_OBJECT = "42710";
    DUPLICATE_ALIAS = "42712";
    AMBIGUOUS_FUNCTION = "42725";
    GROUPING_ERROR = "42803";
    TYPE_MISMATCH = "42804";
    WRONG_OBJECT_TYPE = "42809";
    BAD_FOREIGN_KEY = "42830";
    CANNOT_COERCE = "42846";
    NO_SUCH_FUNCTION = "42883";
    BAD_COLUMN_REFERENCE = "42P10";
    NO_SUCH_TABLE = "42P01";
    NO_SUCH_PARAMETER = "42P02";
    DUPLICATE_PREPARED = "42P05";
    DUPLICATE_SCHEMA = "42P06";
    DUPLICATE_TABLE = "42P07";
    BAD_TABLE_DEFINITION = "42P16";
    BAD_OBJECT_DEFINITION = "42P17";
    INDETERMINATE_TYPE = "42P18";
    BAD_RECURSION = "42P19";
    OUT_OF_MEMORY = "53200";
    DISK_FULL = "53100";
    TOO_MANY_CONNECTIONS = "53300";
    TOO_COMPLEX = "54001";
    PROGRAM_LIMIT = "54000";
    TOO_MANY_COLUMNS = "54011";
    NOT_IN_PREREQUISITE_STATE = "55000";
    LOCK_NOT_AVAILABLE = "55P03";
    CANCELED = "57014";
    IO_ERROR = "58030";
    DATA_CORRUPTED = "XX001";
    INTERNAL = "XX000";
}

impl SqlState {
    /// The code that a text names. It lives as long as the process: there are few, and each is kept
    /// once.
    #[must_use]
    pub fn of(code: &str) -> Self {
        static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        /// Codes that are kept; the others are told as the code of RAISE.
        const KEPT_MAX: usize = 10_000;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = known.get(code) {
            return Self(code);
        }
        if known.len() >= KEPT_MAX {
            return Self("P0001");
        }
        let kept: &'static str = Box::leak(code.to_owned().into_boxed_str());
        known.insert(kept);
        Self(kept)
    }
}

/// An error of SQL.
#[derive(Debug, Clone)]
pub struct Error(Box<Report>);

/// What an error says.
#[derive(Debug, Clone)]
pub struct Report {
    /// The kind.
    pub state: SqlState,
    /// What is wrong, in PostgreSQL's words where it has any.
    pub message: String,
    /// More about this case.
    pub detail: Option<String>,
    /// What to try.
    pub hint: Option<String>,
    /// What was being done: the line of a COPY, say.
    pub context: Option<String>,
    /// Where in the statement's text, in characters from 1.
    pub position: Option<u32>,
    /// The schema of the table that a constraint violation is about.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The data type, of a domain's constraint.
    pub data_type: Option<String>,
    /// The constraint.
    pub constraint: Option<String>,
    /// For whoever runs the statement, if this is an interruption. Values know nothing of what it
    /// is.
    pub carried: Option<Arc<dyn Any + Send + Sync>>,
}

impl Error {
    /// An error of a kind.
    #[must_use]
    #[cold]
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            carried: None,
        }))
    }

    /// Something that PostgreSQL has and Colibri has not.
    #[must_use]
    #[cold]
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Something that cannot be: a mistake in Colibri.
    #[must_use]
    #[cold]
    pub fn internal(what: impl fmt::Display) -> Self {
        Self::new(SqlState::INTERNAL, format!("internal error: {what}"))
    }

    /// What somebody may not do: says nothing of the object but its name, which they have said
    /// themselves.
    #[must_use]
    #[cold]
    pub fn denied(kind: &str, name: &str) -> Self {
        Self::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
    }

    /// What only the owner may do.
    #[must_use]
    #[cold]
    pub fn not_owner(kind: &str, name: &str) -> Self {
        Self::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}"))
    }

    /// With more about this case.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// With what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// With what was being done, unless it says so.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context.get_or_insert_with(|| context.into());
        self
    }

    /// With what was being done around what it says of that already.
    #[must_use]
    pub fn within(mut self, context: impl Into<String>) -> Self {
        if self.is_interruption() {
            return self;
        }
        let context = context.into();
        match &mut self.0.context {
            Some(known) => {
                known.push('\n');
                known.push_str(&context);
            }
            None => self.0.context = Some(context),
        }
        self
    }

    /// With the place in the text, unless it has one.
    #[must_use]
    pub fn at(mut self, position: u32) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// With another place: the text is a part of a longer one.
    #[must_use]
    pub fn moved_to(mut self, position: u32) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Without a place: the text is not one that the user has written.
    #[must_use]
    pub fn without_position(mut self) -> Self {
        self.0.position = None;
        self
    }

    /// With the names that a constraint violation is about.
    #[must_use]
    pub fn about(mut self, schema: &str, table: &str, column: Option<&str>, constraint: Option<&str>) -> Self {
        self.0.schema = Some(schema.to_owned());
        self.0.table = Some(table.to_owned());
        self.0.column = column.map(str::to_owned);
        self.0.constraint = constraint.map(str::to_owned);
        self
    }

    /// With the names of what it is about, as far as they are given.
    #[must_use]
    pub fn with_names(
        mut self,
        schema: Option<String>,
        table: Option<String>,
        column: Option<String>,
        data_type: Option<String>,
        constraint: Option<String>,
    ) -> Self {
        let report = &mut *self.0;
        report.schema = schema;
        report.table = table;
        report.column = column;
        report.data_type = data_type;
        report.constraint = constraint;
        self
    }

    /// With the names that a violation of a domain's constraint is about.
    #[must_use]
    pub fn about_type(mut self, schema: &str, data_type: &str, constraint: Option<&str>) -> Self {
        self.0.schema = Some(schema.to_owned());
        self.0.data_type = Some(data_type.to_owned());
        self.0.constraint = constraint.map(str::to_owned);
        self
    }

    /// The kind.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// All it says.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// No failure: a statement that cannot go on now. It travels in the place of an error to
    /// whoever runs the statement, and says what to do first. Nobody else is told of it.
    #[must_use]
    #[cold]
    pub fn interruption<T: Any + Send + Sync>(carried: T) -> Self {
        let mut interruption = Self::new(SqlState::SUCCESSFUL_COMPLETION, "interrupted");
        interruption.0.carried = Some(Arc::new(carried));
        interruption
    }

    /// Whether it is no failure, but says what has to be done before a statement can go on.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        self.0.carried.is_some()
    }

    /// What it carries for whoever runs the statement, if that is a `T`.
    pub fn carried<T: Any>(&self) -> Option<&T> {
        self.0.carried.as_deref()?.downcast_ref()
    }

    /// Whether running the transaction again is the right answer.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.state, SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// The longest text or byte string that a function makes.
const BYTES_MAX: usize = 1 << 28;

/// An error if a result would be too long.
pub(crate) fn check_length(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        return Err(Error::new(SqlState("54000"), "requested length too large"));
    }
    Ok(())
}

/// A value that a client sends ends before all of it is there.
#[cold]
#[must_use]
pub fn too_short() -> Error {
    Error::new(SqlState("08P01"), "insufficient data left in message")
}
