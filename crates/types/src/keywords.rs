//! Words that PostgreSQL keeps for itself.

/// Words that are no name of anything unless they are quoted, in order.
pub const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Words that are names of some things and not of others, in order.
const RESERVED_IN_PARTS: &[&str] = &[
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "char",
    "character",
    "coalesce",
    "collation",
    "concurrently",
    "cross",
    "current_schema",
    "dec",
    "decimal",
    "exists",
    "extract",
    "float",
    "freeze",
    "full",
    "greatest",
    "grouping",
    "ilike",
    "inner",
    "inout",
    "int",
    "integer",
    "interval",
    "is",
    "isnull",
    "join",
    "least",
    "left",
    "like",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "notnull",
    "nullif",
    "numeric",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "position",
    "precision",
    "real",
    "right",
    "row",
    "setof",
    "similar",
    "smallint",
    "substring",
    "tablesample",
    "time",
    "timestamp",
    "treat",
    "trim",
    "values",
    "varchar",
    "verbose",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Bytes of the longest reserved word.
const BYTES_MAX: usize = 17;

/// Whether a word, in any case, is reserved.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    word.len() <= BYTES_MAX && RESERVED.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Whether a word in lower case has to be quoted to be taken for a name everywhere.
#[must_use]
pub fn needs_quotes(word: &str) -> bool {
    [RESERVED, RESERVED_IN_PARTS].iter().any(|words| words.binary_search(&word).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order_and_have_no_word_in_common() {
        for words in [RESERVED, RESERVED_IN_PARTS] {
            assert!(words.is_sorted_by(|a, b| a < b));
        }
        assert!(!RESERVED_IN_PARTS.iter().any(|word| is_reserved(word)));
        assert_eq!(RESERVED.iter().map(|word| word.len()).max(), Some(BYTES_MAX));
        assert!(is_reserved("Select") && !is_reserved("between") && needs_quotes("between"));
    }
}
