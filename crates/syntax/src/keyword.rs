//! PostgreSQL's keywords and where each of them may be a name.
//!
//! | class | as the name of a table or column | of a function or type | as a label behind AS |
//! | --- | --- | --- | --- |
//! | `Unreserved` | yes | yes | yes |
//! | `ColumnName` | yes | no | yes |
//! | `TypeOrFunction` | no | yes | yes |
//! | `Reserved` | no | no | yes |
//!
//! Most of them may also be the label of a column without AS: the flag in front of each list says
//! so.

/// Where a keyword may be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Unreserved,
    ColumnName,
    TypeOrFunction,
    Reserved,
}

macro_rules! keywords {
    ($($class:ident $bare:literal: $($name:ident $text:literal)*;)*) => {
        /// A word that the grammar knows; `Not` is the keyword NOT, `None` the keyword NONE.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Keyword { $($($name,)*)* }

        const ALL: &[(&str, Keyword, Class, bool)] = &[
            $($(($text, Keyword::$name, Class::$class, $bare),)*)*
        ];
    };
}

keywords! {
    Unreserved true:
        Abort "abort" Absolute "absolute" Access "access" Action "action" Add "add" Admin "admin"
        After "after" Aggregate "aggregate" Also "also" Alter "alter" Always "always"
        Asensitive "asensitive" Assertion "assertion" Assignment "assignment" At "at"
        Atomic "atomic" Attach "attach" Attribute "attribute" Backward "backward" Before "before"
        Begin "begin" Breadth "breadth" By "by" Cache "cache" Call "call" Called "called"
        Cascade "cascade" Cascaded "cascaded" Catalog "catalog" Chain "chain"
        Characteristics "characteristics" Checkpoint "checkpoint" Class "class" Close "close"
        Cluster "cluster" Columns "columns" Comment "comment" Comments "comments" Commit "commit"
        Committed "committed" Compression "compression" Configuration "configuration"
        Conflict "conflict" Connection "connection" Constraints "constraints" Content "content"
        Continue "continue" Conversion "conversion" Copy "copy" Cost "cost" Csv "csv" Cube "cube"
        Current "current" Cursor "cursor" Cycle "cycle" Data "data" Database "database"
        Deallocate "deallocate" Declare "declare" Defaults "defaults" Deferred "deferred"
        Definer "definer" Delete "delete" Delimiter "delimiter" Delimiters "delimiters"
        Depends "depends" Depth "depth" Detach "detach" Dictionary "dictionary" Disable "disable"
        Discard "discard" Document "document" Domain "domain" Double "double" Drop "drop"
        Each "each" Enable "enable" Encoding "encoding" Encrypted "encrypted" Enum "enum"
        Escape "escape" Event "event" Exclude "exclude" Excluding "excluding"
        Exclusive "exclusive" Execute "execute" Explain "explain" Expression "expression"
        Extension "extension" External "external" Family "family" Finalize "finalize"
        First "first" Following "following" Force "force" Forward "forward" Function "function"
        Functions "functions" Generated "generated" Global "global" Granted "granted"
        Groups "groups" Handler "handler" Header "header" Hold "hold" Identity "identity" If "if"
        Immediate "immediate" Immutable "immutable" Implicit "implicit" Import "import"
        Include "include" Including "including" Increment "increment" Index "index"
        Indexes "indexes" Inherit "inherit" Inherits "inherits" Inline "inline" Input "input"
        Insensitive "insensitive" Insert "insert" Instead "instead" Invoker "invoker"
        Isolation "isolation" Key "key" Label "label" Language "language" Large "large"
        Last "last" Leakproof "leakproof" Level "level" Listen "listen" Load "load" Local "local"
        Location "location" Lock "lock" Locked "locked" Logged "logged" Mapping "mapping"
        Match "match" Matched "matched" Materialized "materialized" Maxvalue "maxvalue"
        Merge "merge" Method "method" Minvalue "minvalue" Mode "mode" Move "move" Name "name"
        Names "names" New "new" Next "next" Nfc "nfc" Nfd "nfd" Nfkc "nfkc" Nfkd "nfkd" No "no"
        Normalized "normalized" Nothing "nothing" Notify "notify" Nowait "nowait" Nulls "nulls"
        Object "object" Of "of" Off "off" Oids "oids" Old "old" Operator "operator"
        Option "option" Options "options" Ordinality "ordinality" Others "others"
        Overriding "overriding" Owned "owned" Owner "owner" Parallel "parallel"
        Parameter "parameter" Parser "parser" Partial "partial" Partition "partition"
        Passing "passing" Password "password" Plans "plans" Policy "policy" Preceding "preceding"
        Prepare "prepare" Prepared "prepared" Preserve "preserve" Prior "prior"
        Privileges "privileges" Procedural "procedural" Procedure "procedure"
        Procedures "procedures" Program "program" Publication "publication" Quote "quote"
        Range "range" Read "read" Reassign "reassign" Recheck "recheck" Recursive "recursive"
        Ref "ref" Referencing "referencing" Refresh "refresh" Reindex "reindex"
        Relative "relative" Release "release" Rename "rename" Repeatable "repeatable"
        Replace "replace" Replica "replica" Reset "reset" Restart "restart" Restrict "restrict"
        Return "return" Returns "returns" Revoke "revoke" Role "role" Rollback "rollback"
        Rollup "rollup" Routine "routine" Routines "routines" Rows "rows" Rule "rule"
        Savepoint "savepoint" Schema "schema" Schemas "schemas" Scroll "scroll" Search "search"
        Security "security" Sequence "sequence" Sequences "sequences" Serializable "serializable"
        Server "server" Session "session" Set "set" Sets "sets" Share "share" Show "show"
        Simple "simple" Skip "skip" Snapshot "snapshot" Sql "sql" Stable "stable"
        Standalone "standalone" Start "start" Statement "statement" Statistics "statistics"
        Stdin "stdin" Stdout "stdout" Storage "storage" Stored "stored" Strict "strict"
        Strip "strip" Subscription "subscription" Support "support" Sysid "sysid" System "system"
        Tables "tables" Tablespace "tablespace" Temp "temp" Template "template"
        Temporary "temporary" Text "text" Ties "ties" Transaction "transaction"
        Transform "transform" Trigger "trigger" Truncate "truncate" Trusted "trusted" Type "type"
        Types "types" Uescape "uescape" Unbounded "unbounded" Uncommitted "uncommitted"
        Unencrypted "unencrypted" Unknown "unknown" Unlisten "unlisten" Unlogged "unlogged"
        Until "until" Update "update" Vacuum "vacuum" Valid "valid" Validate "validate"
        Validator "validator" Value "value" Version "version" View "view" Views "views"
        Volatile "volatile" Whitespace "whitespace" Work "work" Wrapper "wrapper" Write "write"
        Xml "xml" Yes "yes" Zone "zone";
    Unreserved false:
        Day "day" Filter "filter" Hour "hour" Minute "minute" Month "month" Over "over"
        Second "second" Varying "varying" Within "within" Without "without" Year "year";
    ColumnName true:
        Between "between" Bigint "bigint" Bit "bit" Boolean "boolean" Coalesce "coalesce"
        Dec "dec" Decimal "decimal" Exists "exists" Extract "extract" Float "float"
        Greatest "greatest" Grouping "grouping" Inout "inout" Int "int" Integer "integer"
        Interval "interval" Least "least" National "national" Nchar "nchar" None "none"
        Normalize "normalize" Nullif "nullif" Numeric "numeric" Out "out" Overlay "overlay"
        Position "position" Real "real" Row "row" Setof "setof" Smallint "smallint"
        Substring "substring" Time "time" Timestamp "timestamp" Treat "treat" Trim "trim"
        Values "values" Varchar "varchar" Xmlattributes "xmlattributes" Xmlconcat "xmlconcat"
        Xmlelement "xmlelement" Xmlexists "xmlexists" Xmlforest "xmlforest"
        Xmlnamespaces "xmlnamespaces" Xmlparse "xmlparse" Xmlpi "xmlpi" Xmlroot "xmlroot"
        Xmlserialize "xmlserialize" Xmltable "xmltable";
    ColumnName false:
        Char "char" Character "character" Precision "precision";
    TypeOrFunction true:
        Authorization "authorization" Binary "binary" Collation "collation"
        Concurrently "concurrently" Cross "cross" CurrentSchema "current_schema" Freeze "freeze"
        Full "full" Ilike "ilike" Inner "inner" Is "is" Join "join" Left "left" Like "like"
        Natural "natural" Outer "outer" Right "right" Similar "similar" Tablesample "tablesample"
        Verbose "verbose";
    TypeOrFunction false:
        Isnull "isnull" Notnull "notnull" Overlaps "overlaps";
    Reserved true:
        All "all" Analyse "analyse" Analyze "analyze" And "and" Any "any" Asc "asc"
        Asymmetric "asymmetric" Both "both" Case "case" Cast "cast" Check "check"
        Collate "collate" Column "column" Constraint "constraint" CurrentCatalog "current_catalog"
        CurrentDate "current_date" CurrentRole "current_role" CurrentTime "current_time"
        CurrentTimestamp "current_timestamp" CurrentUser "current_user" Default "default"
        Deferrable "deferrable" Desc "desc" Distinct "distinct" Do "do" Else "else" End "end"
        False "false" Foreign "foreign" In "in" Initially "initially" Lateral "lateral"
        Leading "leading" Localtime "localtime" Localtimestamp "localtimestamp" Not "not"
        Null "null" Only "only" Or "or" Placing "placing" Primary "primary"
        References "references" Select "select" SessionUser "session_user" Some "some"
        Symmetric "symmetric" Table "table" Then "then" Trailing "trailing" True "true"
        Unique "unique" User "user" Using "using" Variadic "variadic" When "when";
    Reserved false:
        Array "array" As "as" Create "create" Except "except" Fetch "fetch" For "for" From "from"
        Grant "grant" Group "group" Having "having" Intersect "intersect" Into "into"
        Limit "limit" Offset "offset" On "on" Order "order" Returning "returning" To "to"
        Union "union" Where "where" Window "window" With "with";
}

/// Slots of the hash table: a power of two, more than twice the words.
const SLOTS: usize = 1024;
/// Bytes of the longest keyword.
const KEYWORD_BYTES_MAX: usize = 17;

/// For each slot the index of a keyword and one.
static TABLE: [u16; SLOTS] = table();

const fn hash(lower: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < lower.len() {
        hash = (hash ^ lower[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    ((hash >> 16) ^ hash) as usize & (SLOTS - 1)
}

const fn table() -> [u16; SLOTS] {
    let mut table = [0; SLOTS];
    let mut index = 0;
    while index < ALL.len() {
        let mut slot = hash(ALL[index].0.as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) & (SLOTS - 1);
        }
        table[slot] = index as u16 + 1;
        index += 1;
    }
    table
}

impl Keyword {
    /// The keyword that a word is, in any letters' case.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let mut lower = [0; KEYWORD_BYTES_MAX];
        let lower = lower.get_mut(..word.len())?;
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        let mut slot = hash(lower);
        loop {
            let index = usize::from(TABLE[slot]).checked_sub(1)?;
            if ALL[index].0.as_bytes() == lower {
                return Some(ALL[index].1);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }

    pub(crate) fn class(self) -> Class {
        ALL[self as usize].2
    }

    /// Whether it may be the label of a column without AS.
    pub(crate) fn is_bare_label(self) -> bool {
        ALL[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case_and_nothing_else_is() {
        for (index, (text, keyword, class, bare)) in ALL.iter().enumerate() {
            assert_eq!(*keyword as usize, index);
            assert!(text.len() <= KEYWORD_BYTES_MAX);
            for word in [(*text).to_owned(), text.to_uppercase()] {
                assert_eq!(Keyword::of(&word), Some(*keyword));
            }
            assert_eq!((keyword.class(), keyword.is_bare_label()), (*class, *bare));
            assert_eq!(Keyword::of(&format!("{text}x")), None);
        }
        for word in ["", "x", "selec", "s\u{e9}lect", "a_word_that_is_longer_than_every_keyword"] {
            assert_eq!(Keyword::of(word), None, "{word}");
        }
    }

    /// The list that `quote_ident` and the system tables use has the same words.
    #[test]
    fn reserved_words_are_those_of_the_types() {
        for (text, _, class, _) in ALL {
            let is_plain = *class == Class::Unreserved;
            assert_eq!(colibri_types::keywords::needs_quotes(text), !is_plain, "{text}");
            let is_reserved = *class == Class::Reserved;
            assert_eq!(colibri_types::keywords::is_reserved(text), is_reserved, "{text}");
        }
    }
}
