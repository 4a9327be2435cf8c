//! PostgreSQL's statements, types and values as SQLite takes them. The workloads know nothing of
//! it.
//!
//! | PostgreSQL | SQLite |
//! | --- | --- |
//! | `numeric(12,2)` | `FIXED_INT(2)`: a whole number of hundredths, as SQLite knows no exact decimals |
//! | `timestamp` | `TIME_INT`: microseconds since 2000-01-01 |
//! | `int PRIMARY KEY` | `INTEGER PRIMARY KEY`, which is the key of the table's own tree |
//! | any other primary key | `WITHOUT ROWID`, clustered, if rows are short; else an index beside the table |
//! | `$1` | `?1` |
//! | `FOR UPDATE` | nothing: a transaction that writes has begun with `BEGIN IMMEDIATE` |
//! | `VACUUM table` | nothing: new data have no holes |
//!
//! A result of an expression has the type of the first column that the expression names: sums and
//! differences have, which is all that the workloads want.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};

/// Rows longer than this are not clustered, as SQLite's documentation advises: a twentieth of a
/// page of 4 KiB.
const CLUSTERED_BYTES_MAX: u32 = 4_096 / 20;

/// What a column's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Parts of 10^−scale.
    Decimal(u8),
    /// Microseconds since 2000-01-01.
    Time,
}

impl Kind {
    fn of_declared(ty: &str) -> Self {
        if ty == "TIME_INT" {
            return Self::Time;
        }
        let scale = ty.strip_prefix("FIXED_INT(").and_then(|rest| rest.strip_suffix(')')?.parse().ok());
        scale.map_or(Self::Plain, Self::Decimal)
    }
}

/// Tables and columns whose kind is not plain.
#[derive(Debug, Default)]
pub(super) struct Schema {
    columns: Vec<(String, String, Kind)>,
}

impl Schema {
    pub(super) fn read(connection: &rusqlite::Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT m.name, p.name, p.type FROM sqlite_schema AS m, pragma_table_info(m.name) AS p WHERE m.type = 'table'",
        )?;
        let columns = statement.query_map((), |row| {
            let ty: String = row.get(2)?;
            Ok((row.get(0)?, row.get(1)?, Kind::of_declared(&ty)))
        })?;
        let columns = columns.filter(|column| !matches!(column, Ok((.., Kind::Plain)))).collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// Of a column of a result: by its declared type, or by what its expression names.
    pub(super) fn kind(&self, declared: Option<&str>, expression: &str) -> Kind {
        if let Some(declared) = declared {
            return Kind::of_declared(declared);
        }
        let is_counted = expression.trim_start().to_ascii_lowercase().starts_with("count");
        let words = expression.split(|character: char| !(character.is_alphanumeric() || character == '_'));
        let kinds = words.filter_map(|word| self.columns.iter().find(|(_, column, _)| column == word));
        kinds.map(|&(.., kind)| kind).next().filter(|_| !is_counted).unwrap_or(Kind::Plain)
    }

    fn of_column(&self, table: &str, column: &str) -> Kind {
        let found = self.columns.iter().find(|(of, name, _)| of == table && name == column);
        found.map_or(Kind::Plain, |&(.., kind)| kind)
    }
}

/// A statement of a transaction.
pub(super) fn statement(sql: &str) -> String {
    sql.replace(" FOR UPDATE", "").replace('$', "?")
}

/// A statement that is run once: what has to be run for it.
pub(super) fn once(sql: &str) -> Option<String> {
    let sql = sql.trim();
    if sql.starts_with("VACUUM ") {
        return None;
    }
    Some(if sql.starts_with("CREATE TABLE") { table(sql) } else { statement(sql) })
}

/// A `CREATE TABLE` with SQLite's types.
fn table(sql: &str) -> String {
    let mut text = String::new();
    let mut rest = sql;
    // Bytes of a row, about: what texts may have, and eight for anything else.
    let mut row_bytes = 0;
    while let Some(at) = rest.find("numeric(") {
        let (before, after) = rest.split_at(at);
        let (digits, behind) = after["numeric(".len()..].split_once(')').unwrap_or((after, ""));
        let scale = digits.split_once(',').map_or("0", |(_, scale)| scale.trim());
        text.push_str(before);
        text.push_str(&format!("FIXED_INT({scale})"));
        rest = behind;
    }
    text.push_str(rest);
    for part in text.split("char(").skip(1) {
        row_bytes += part.split(')').next().and_then(|bytes| bytes.parse::<u32>().ok()).unwrap_or(0);
    }
    let text = text.replace(" timestamp", " TIME_INT");
    for whole in [" int PRIMARY KEY", " bigint PRIMARY KEY"] {
        if text.contains(whole) {
            return text.replace(whole, " INTEGER PRIMARY KEY");
        }
    }
    match text.contains("PRIMARY KEY") && row_bytes <= CLUSTERED_BYTES_MAX {
        true => format!("{text} WITHOUT ROWID"),
        false => text,
    }
}

/// `COPY t (a, b) FROM STDIN` as a statement that inserts a row, and the kinds of its columns.
pub(super) fn copy(sql: &str, schema: &Schema) -> Option<(String, Vec<Kind>)> {
    let into = sql.trim().strip_prefix("COPY ")?.strip_suffix(" FROM STDIN")?;
    let (table, columns) = into.split_once('(')?;
    let columns: Vec<&str> = columns.strip_suffix(')')?.split(',').map(str::trim).collect();
    let kinds = columns.iter().map(|column| schema.of_column(table.trim(), column)).collect();
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    Some((format!("INSERT INTO {into} VALUES ({})", places.join(", ")), kinds))
}

/// The fields of a row in COPY's text format.
pub(super) struct Fields<'l> {
    fields: std::slice::Split<'l, u8, fn(&u8) -> bool>,
    kinds: std::slice::Iter<'l, Kind>,
}

impl<'l> Fields<'l> {
    /// Of a line without its end.
    pub(super) fn new(line: &'l [u8], kinds: &'l [Kind]) -> Self {
        Self { fields: line.split(|&byte| byte == b'\t'), kinds: kinds.iter() }
    }
}

impl<'l> Iterator for Fields<'l> {
    type Item = Result<ToSqlOutput<'l>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        match (self.fields.next(), self.kinds.next()) {
            (None, None) => None,
            (Some(field), Some(&kind)) => Some(value(field, kind)),
            (Some(_), None) => Some(Err("a row has more fields than there are columns".to_owned())),
            (None, Some(_)) => Some(Err("a row has fewer fields than there are columns".to_owned())),
        }
    }
}

fn value(field: &[u8], kind: Kind) -> Result<ToSqlOutput<'_>, String> {
    if field == b"\\N" {
        return Ok(ToSqlOutput::Owned(Value::Null));
    }
    let wrong = || format!("{:?} is not {kind:?}", String::from_utf8_lossy(field));
    let whole = |value: Option<i64>| value.map(|value| ToSqlOutput::Owned(Value::Integer(value))).ok_or_else(wrong);
    match kind {
        // No workload has texts that would have to be escaped.
        Kind::Plain if field.contains(&b'\\') => Err(wrong()),
        // The column's affinity makes numbers of what look like them.
        Kind::Plain => Ok(ToSqlOutput::Borrowed(ValueRef::Text(field))),
        Kind::Decimal(scale) => whole(std::str::from_utf8(field).ok().and_then(|text| mantissa(text, scale))),
        Kind::Time => whole(std::str::from_utf8(field).ok().and_then(micros)),
    }
}

/// A decimal number as a whole number of 10^−scale, if it has no digits below that.
fn mantissa(text: &str, scale: u8) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let missing = usize::from(scale).checked_sub(part.len())?;
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let value: i64 = format!("{whole}{part}").parse().ok()?;
    let value = value.checked_mul(10_i64.checked_pow(missing as u32)?)?;
    Some(if negative { -value } else { value })
}

/// Microseconds since 2000-01-01 of `2020-01-31 12:30:00`.
fn micros(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let numbers = |text: &str, separator: char| {
        let parts: Vec<i64> = text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        <[i64; 3]>::try_from(parts).ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 0000-03-01 in the Gregorian calendar: years begin in March, so that the day of
    // February 29 is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day - 1;
    const DAYS_OF_2000: i64 = 730_425;
    Some((((days - DAYS_OF_2000) * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_those_that_somebody_would_make_for_sqlite() {
        assert_eq!(
            table(
                "CREATE TABLE t (a int, b int, c numeric(12,2) NOT NULL, d timestamp, e varchar(10), PRIMARY KEY (a, b))"
            ),
            "CREATE TABLE t (a int, b int, c FIXED_INT(2) NOT NULL, d TIME_INT, e varchar(10), PRIMARY KEY (a, b)) WITHOUT ROWID"
        );
        assert_eq!(
            table("CREATE TABLE t (a bigint PRIMARY KEY, b char(2))"),
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b char(2))"
        );
        let long = "CREATE TABLE t (a varchar(64) PRIMARY KEY, b varchar(100), c varchar(100))";
        assert_eq!(table(long), long, "rows that are long have a tree of their own");
        assert_eq!(table("CREATE TABLE t (a numeric(4,4))"), "CREATE TABLE t (a FIXED_INT(4))");
    }

    #[test]
    fn statements_are_in_its_words() {
        assert_eq!(
            statement("SELECT a FROM t WHERE b = $1 AND c = $12 FOR UPDATE"),
            "SELECT a FROM t WHERE b = ?1 AND c = ?12"
        );
        assert_eq!((once("VACUUM t"), once("ANALYZE t")), (None, Some("ANALYZE t".to_owned())));
    }

    #[test]
    fn expressions_have_the_kind_of_the_column_that_they_name() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(&table("CREATE TABLE t (a int PRIMARY KEY, b numeric(6,2), c timestamp)")).unwrap();
        let schema = Schema::read(&connection).unwrap();
        assert_eq!(schema.kind(None, "sum(b)"), Kind::Decimal(2));
        assert_eq!([schema.kind(None, "count(b)"), schema.kind(None, "sum(a)")], [Kind::Plain; 2]);
        let statement = connection.prepare("SELECT a, b, c, max(c), a + 1 FROM t").unwrap();
        let kinds: Vec<Kind> =
            statement.columns().map(|column| schema.kind(column.decl_type(), column.name())).collect();
        assert_eq!(kinds, [Kind::Plain, Kind::Decimal(2), Kind::Time, Kind::Time, Kind::Plain]);
        let (insert, kinds) = copy("COPY t (a, b) FROM STDIN", &schema).unwrap();
        assert_eq!(
            (insert.as_str(), kinds),
            ("INSERT INTO t (a, b) VALUES (?1, ?2)", vec![Kind::Plain, Kind::Decimal(2)])
        );
    }

    #[test]
    fn amounts_are_exact_or_refused() {
        let of = |text| mantissa(text, 2);
        assert_eq!(
            [of("0.05"), of("-10.00"), of("300000"), of("7.5")],
            [Some(5), Some(-1_000), Some(30_000_000), Some(750)]
        );
        assert_eq!([of("0.055"), of(""), of("1e3"), of(".5"), of("--1"), of("99999999999999999999")], [None; 6]);
    }

    #[test]
    fn times_are_microseconds() {
        assert_eq!(micros("2000-01-01 00:00:00"), Some(0));
        assert_eq!(micros("2000-03-01 00:00:01"), Some((60 * 86_400 + 1) * 1_000_000));
        assert_eq!(micros("1970-01-01 00:00:00"), Some(-946_684_800_000_000));
        assert_eq!(micros("2020-01-01 00:00:00"), Some(631_152_000_000_000));
        assert_eq!([micros("2020-13-01 00:00:00"), micros("today"), micros("2020-01-01")], [None; 3]);
    }

    #[test]
    fn rows_have_as_many_fields_as_there_are_columns() {
        let kinds = [Kind::Plain, Kind::Decimal(2)];
        let read = |line: &'static [u8]| Fields::new(line, &kinds).collect::<Result<Vec<_>, _>>();
        assert_eq!(read(b"x\t1.25").unwrap().len(), 2);
        assert!(matches!(read(b"\\N\t\\N").unwrap()[0], ToSqlOutput::Owned(Value::Null)));
        for wrong in [&b"x"[..], b"x\t1\t2", b"x\ty", b"a\\tb\t1"] {
            assert!(read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
