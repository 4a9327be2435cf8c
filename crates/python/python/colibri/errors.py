"""Errors: DB-API's classes, and one for each kind of error, by PostgreSQL's code (SQLSTATE).

The names are those of PostgreSQL's conditions, as psycopg has them: 23505 is UniqueViolation, an IntegrityError.
"""

from . import _colibri


class Warning(Exception):
    pass


class Diagnostic:
    """What is known of an error: message_primary, message_detail, message_hint, context, statement_position,
    schema_name, table_name, column_name, datatype_name, constraint_name. What is not known is None."""

    def __init__(self, report):
        self.__dict__.update(report)

    def __getattr__(self, name):
        return None

    def __repr__(self):
        return f"Diagnostic({ {name: value for name, value in self.__dict__.items() if value is not None} })"


class Error(Exception):
    sqlstate = None

    @property
    def diag(self):
        return Diagnostic(getattr(self, "_report", {}))

    def __reduce__(self):
        return (_restored, (self.sqlstate, getattr(self, "_report", {"message_primary": str(self)})))


class InterfaceError(Error):
    pass


class DatabaseError(Error):
    pass


class DataError(DatabaseError):
    pass


class OperationalError(DatabaseError):
    pass


class IntegrityError(DatabaseError):
    pass


class InternalError(DatabaseError):
    pass


class ProgrammingError(DatabaseError):
    pass


class NotSupportedError(DatabaseError):
    pass


class Retryable(OperationalError):
    """The transaction has lost against others, and may succeed when it runs again."""


# Which class the codes of a class have.
_CLASSES = {
    "08": OperationalError, "0A": NotSupportedError, "20": ProgrammingError, "21": ProgrammingError,
    "22": DataError, "23": IntegrityError,
    "24": InternalError, "25": InternalError, "26": ProgrammingError, "27": OperationalError, "28": OperationalError,
    "2B": InternalError, "2D": InternalError, "2F": OperationalError, "34": ProgrammingError, "38": OperationalError,
    "39": OperationalError, "3B": OperationalError, "3D": ProgrammingError, "3F": ProgrammingError,
    "40": OperationalError, "42": ProgrammingError, "44": ProgrammingError, "53": OperationalError,
    "54": OperationalError, "55": OperationalError, "57": OperationalError, "58": OperationalError,
    "HY": InterfaceError, "P0": ProgrammingError, "XX": InternalError,
}

_CONDITIONS = {
    "08006": "ConnectionFailure",
    "08P01": "ProtocolViolation",
    "0A000": "FeatureNotSupported",
    "21000": "CardinalityViolation",
    "22000": "DataException",
    "22001": "StringDataRightTruncation",
    "22003": "NumericValueOutOfRange",
    "22004": "NullValueNotAllowed",
    "22007": "InvalidDatetimeFormat",
    "22008": "DatetimeFieldOverflow",
    "22012": "DivisionByZero",
    "22021": "CharacterNotInRepertoire",
    "22023": "InvalidParameterValue",
    "22P02": "InvalidTextRepresentation",
    "22P03": "InvalidBinaryRepresentation",
    "22P04": "BadCopyFileFormat",
    "23000": "IntegrityConstraintViolation",
    "23001": "RestrictViolation",
    "23502": "NotNullViolation",
    "23503": "ForeignKeyViolation",
    "23505": "UniqueViolation",
    "23514": "CheckViolation",
    "23P01": "ExclusionViolation",
    "24000": "InvalidCursorState",
    "25001": "ActiveSqlTransaction",
    "25006": "ReadOnlySqlTransaction",
    "25P01": "NoActiveSqlTransaction",
    "25P02": "InFailedSqlTransaction",
    "26000": "InvalidSqlStatementName",
    "28000": "InvalidAuthorizationSpecification",
    "2BP01": "DependentObjectsStillExist",
    "34000": "InvalidCursorName",
    "3B001": "InvalidSavepointSpecification",
    "3D000": "InvalidCatalogName",
    "3F000": "InvalidSchemaName",
    "40001": "SerializationFailure",
    "40003": "StatementCompletionUnknown",
    "40P01": "DeadlockDetected",
    "42501": "InsufficientPrivilege",
    "42601": "SyntaxError",
    "42602": "InvalidName",
    "42622": "NameTooLong",
    "42701": "DuplicateColumn",
    "42702": "AmbiguousColumn",
    "42703": "UndefinedColumn",
    "42704": "UndefinedObject",
    "42710": "DuplicateObject",
    "42712": "DuplicateAlias",
    "42723": "DuplicateFunction",
    "42725": "AmbiguousFunction",
    "42803": "GroupingError",
    "42804": "DatatypeMismatch",
    "42809": "WrongObjectType",
    "42830": "InvalidForeignKey",
    "42846": "CannotCoerce",
    "42883": "UndefinedFunction",
    "42P01": "UndefinedTable",
    "42P02": "UndefinedParameter",
    "42P05": "DuplicatePreparedStatement",
    "42P06": "DuplicateSchema",
    "42P07": "DuplicateTable",
    "42P10": "InvalidColumnReference",
    "42P16": "InvalidTableDefinition",
    "42P17": "InvalidObjectDefinition",
    "42P18": "IndeterminateDatatype",
    "44000": "WithCheckOptionViolation",
    "53100": "DiskFull",
    "53200": "OutOfMemory",
    "53300": "TooManyConnections",
    "54000": "ProgramLimitExceeded",
    "54001": "StatementTooComplex",
    "54011": "TooManyColumns",
    "55000": "ObjectNotInPrerequisiteState",
    "55006": "ObjectInUse",
    "55P03": "LockNotAvailable",
    "57014": "QueryCanceled",
    "58030": "IoError",
    "P0001": "RaiseException",
    "P0002": "NoDataFound",
    "P0003": "TooManyRows",
    "P0004": "AssertFailure",
    "XX000": "InternalError_",
    "XX001": "DataCorrupted",
}

_RETRYABLE = ("40001", "40P01")
_BY_STATE = {}


def _make_classes():
    for state, name in _CONDITIONS.items():
        base = Retryable if state in _RETRYABLE else _CLASSES[state[:2]]
        made = type(name, (base,), {"sqlstate": state, "__module__": __name__, "__qualname__": name})
        _BY_STATE[state] = globals()[name] = made


_make_classes()


def lookup(sqlstate):
    """The class of a code; KeyError if it has none of its own."""
    return _BY_STATE[sqlstate]


def _make(sqlstate, report):
    made = _BY_STATE.get(sqlstate) or _CLASSES.get(sqlstate[:2], DatabaseError)
    text = report["message_primary"]
    for name, value in (("DETAIL", report.get("message_detail")), ("HINT", report.get("message_hint"))):
        if value is not None:
            text += f"\n{name}:  {value}"
    error = made(text)
    error.sqlstate = sqlstate
    error._report = report
    return error


def _restored(sqlstate, report):
    return _make(sqlstate, report) if sqlstate else Error(report["message_primary"])


_colibri.set_exceptions(_make)
