//! The types of values, as clients and the catalogue know them.

use std::fmt;

use crate::composites::CompositeType;
use crate::domains::DomainType;
use crate::enums::EnumType;
use crate::interval::IntervalFields;
use crate::range_types::RangeType;

/// Bytes of a name; longer ones are cut, as in PostgreSQL.
pub const NAME_BYTES_MAX: usize = 63;

/// Makes the enum of types with what PostgreSQL says of each: its number and that of its array, its
/// name in SQL and in the catalogue, its group, and its length in bytes as `pg_type.typlen` has it
/// (-1: it varies, -2: a C string).
macro_rules! types {
    ($($(#[$doc:meta])* $name:ident $oid:literal $array:literal $sql:literal $inner:literal $category:ident $length:literal;)*) => {
        /// A type, without its modifier.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Type {
            $($(#[$doc])* $name,)*
            /// An enum that a user has defined.
            Enum(EnumType),
            /// A composite type that a user has defined.
            Composite(CompositeType),
            /// A range that a user has defined, or its multirange.
            Range(RangeType),
            /// An array of any other type.
            Array(Scalar),
        }

        /// The types that arrays have elements of: all but arrays.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Scalar {
            $($(#[$doc])* $name,)*
            /// An enum.
            Enum(EnumType),
            /// A composite type.
            Composite(CompositeType),
            /// A range of a user's, or its multirange.
            Range(RangeType),
        }

        impl Scalar {
            /// As a type.
            #[must_use]
            pub const fn ty(self) -> Type {
                match self {
                    $(Self::$name => Type::$name,)*
                    Self::Enum(of) => Type::Enum(of),
                    Self::Composite(of) => Type::Composite(of),
                    Self::Range(of) => Type::Range(of),
                }
            }

            const fn array_oid(self) -> u32 {
                match self {
                    $(Self::$name => $array,)*
                    Self::Enum(of) => of.array_oid(),
                    Self::Composite(of) => of.array_oid(),
                    Self::Range(of) => of.array_oid(),
                }
            }
        }

        impl Type {
            /// All types that every database has, but arrays.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// PostgreSQL's number of the type.
            #[must_use]
            pub const fn oid(self) -> u32 {
                match self {
                    $(Self::$name => $oid,)*
                    Self::Enum(of) => of.oid(),
                    Self::Composite(of) => of.oid(),
                    Self::Range(of) => of.oid(),
                    Self::Array(element) => element.array_oid(),
                }
            }

            /// Its name in SQL, as error messages and `format_type` give it.
            #[must_use]
            pub const fn sql_name(self) -> &'static str {
                match self {
                    $(Self::$name => $sql,)*
                    Self::Enum(of) => of.sql_name(),
                    Self::Composite(of) => of.sql_name(),
                    Self::Range(of) => of.sql_name(),
                    Self::Array(element) => match element {
                        $(Scalar::$name => concat!($sql, "[]"),)*
                        Scalar::Enum(of) => of.array_sql_name(),
                        Scalar::Composite(of) => of.array_sql_name(),
                        Scalar::Range(of) => of.array_sql_name(),
                    },
                }
            }

            /// Its name in the catalogue (`pg_type.typname`).
            #[must_use]
            pub const fn inner_name(self) -> &'static str {
                match self {
                    $(Self::$name => $inner,)*
                    Self::Enum(of) => of.name(),
                    Self::Composite(of) => of.name(),
                    Self::Range(of) => of.name(),
                    Self::Array(element) => match element {
                        $(Scalar::$name => concat!("_", $inner),)*
                        Scalar::Enum(of) => of.array_name(),
                        Scalar::Composite(of) => of.array_name(),
                        Scalar::Range(of) => of.array_name(),
                    },
                }
            }

            /// The group it belongs to.
            #[must_use]
            pub const fn category(self) -> Category {
                match self {
                    $(Self::$name => Category::$category,)*
                    Self::Enum(_) => Category::Enum,
                    Self::Composite(_) => Category::Composite,
                    Self::Range(_) => Category::Range,
                    Self::Array(_) => Category::Array,
                }
            }

            /// `pg_type.typlen`: bytes of a value in PostgreSQL's memory, -1 if they vary.
            #[must_use]
            pub const fn length(self) -> i16 {
                match self { $(Self::$name => $length,)* Self::Enum(_) => 4, Self::Composite(_) | Self::Range(_) | Self::Array(_) => -1 }
            }

            /// The type of arrays of it; `None` for arrays, and for what is in no array.
            #[must_use]
            pub const fn array(self) -> Option<Self> {
                match self {
                    $(Self::$name => if $array == 0 { None } else { Some(Self::Array(Scalar::$name)) },)*
                    Self::Enum(of) => Some(Self::Array(Scalar::Enum(of))),
                    Self::Composite(of) => Some(Self::Array(Scalar::Composite(of))),
                    Self::Range(of) => Some(Self::Array(Scalar::Range(of))),
                    Self::Array(_) => None,
                }
            }
        }
    };
}

types! {
    /// A literal or parameter whose type its context has yet to tell.
    Unknown 705 0 "unknown" "unknown" Unknown -2;
    /// `boolean`
    Bool 16 1000 "boolean" "bool" Boolean 1;
    /// `smallint`
    Int2 21 1005 "smallint" "int2" Number 2;
    /// `integer`
    Int4 23 1007 "integer" "int4" Number 4;
    /// `bigint`
    Int8 20 1016 "bigint" "int8" Number 8;
    /// `real`
    Float4 700 1021 "real" "float4" Number 4;
    /// `double precision`
    Float8 701 1022 "double precision" "float8" Number 8;
    /// `numeric`
    Numeric 1700 1231 "numeric" "numeric" Number -1;
    /// `character(n)`, padded with blanks
    Char 1042 1014 "character" "bpchar" String -1;
    /// `character varying`
    Varchar 1043 1015 "character varying" "varchar" String -1;
    /// `text`
    Text 25 1009 "text" "text" String -1;
    /// `name`, the type of identifiers in the catalogue
    Name 19 1003 "name" "name" String 64;
    /// `bytea`
    Bytea 17 1001 "bytea" "bytea" User -1;
    /// `date`
    Date 1082 1182 "date" "date" DateTime 4;
    /// `time without time zone`
    Time 1083 1183 "time without time zone" "time" DateTime 8;
    /// `timestamp without time zone`
    Timestamp 1114 1115 "timestamp without time zone" "timestamp" DateTime 8;
    /// `timestamp with time zone`
    TimestampTz 1184 1185 "timestamp with time zone" "timestamptz" DateTime 8;
    /// `interval`
    Interval 1186 1187 "interval" "interval" TimeSpan 16;
    /// `uuid`
    Uuid 2950 2951 "uuid" "uuid" User 16;
    /// `oid`, the type of object numbers in the catalogue
    Oid 26 1028 "oid" "oid" Number 4;
    /// `void`, what a function gives that gives nothing
    Void 2278 0 "void" "void" Pseudo 4;
    /// `"char"`, one byte: kinds of things in the catalogue
    InternalChar 18 1002 "\"char\"" "char" String 1;
    /// `json`, kept as it was written
    Json 114 199 "json" "json" User -1;
    /// `jsonb`, kept so that its parts are found
    Jsonb 3802 3807 "jsonb" "jsonb" User -1;
    /// `jsonpath`, a path into `jsonb`, kept as its text
    JsonPath 4072 4073 "jsonpath" "jsonpath" User -1;
    /// `xml`, a text that was checked: see [`crate::xml`]
    Xml 142 143 "xml" "xml" User -1;
    /// `tsvector`, a document as its lexemes: see [`crate::text_search`]
    TsVector 3614 3643 "tsvector" "tsvector" User -1;
    /// `tsquery`, a query over documents
    TsQuery 3615 3645 "tsquery" "tsquery" User -1;
    /// `inet`, an address and its network: see [`crate::network`]
    Inet 869 1041 "inet" "inet" Network -1;
    /// `cidr`, a network
    Cidr 650 651 "cidr" "cidr" Network -1;
    /// `macaddr`, a device's address of six bytes
    MacAddr 829 1040 "macaddr" "macaddr" User 6;
    /// `macaddr8`, one of eight bytes
    MacAddr8 774 775 "macaddr8" "macaddr8" User 8;
    /// `xid`, a transaction's number
    Xid 28 1011 "xid" "xid" User 4;
    /// `regclass`: a relation's number, written as its name
    RegClass 2205 2210 "regclass" "regclass" Number 4;
    /// `regtype`: a type's number, written as its name
    RegType 2206 2211 "regtype" "regtype" Number 4;
    /// `regproc`: a function's number, written as its name
    RegProc 24 1008 "regproc" "regproc" Number 4;
    /// `regprocedure`: a function's number, written as its name and arguments
    RegProcedure 2202 2207 "regprocedure" "regprocedure" Number 4;
    /// `regoper`: an operator's number, written as its name
    RegOper 2203 2208 "regoper" "regoper" Number 4;
    /// `regoperator`: an operator's number, written as its name and arguments
    RegOperator 2204 2209 "regoperator" "regoperator" Number 4;
    /// `regnamespace`: a schema's number, written as its name
    RegNamespace 4089 4090 "regnamespace" "regnamespace" Number 4;
    /// `regrole`: a role's number, written as its name
    RegRole 4096 4097 "regrole" "regrole" Number 4;
    /// `regconfig`: a text search configuration's number, written as its name
    RegConfig 3734 3735 "regconfig" "regconfig" Number 4;
    /// `regdictionary`: a text search dictionary's number, written as its name
    RegDictionary 3769 3770 "regdictionary" "regdictionary" Number 4;
    /// `int2vector`: smallints counted from 0, written with blanks between
    Int2Vector 22 1006 "int2vector" "int2vector" Array -1;
    /// `oidvector`: object numbers counted from 0, written with blanks between
    OidVector 30 1013 "oidvector" "oidvector" Array -1;
    /// `aclitem`: who may do what
    AclItem 1033 1034 "aclitem" "aclitem" User 12;
    /// `pg_node_tree`: an expression in the catalogue, here as SQL
    NodeTree 194 0 "pg_node_tree" "pg_node_tree" String -1;
    /// `time with time zone`
    TimeTz 1266 1270 "time with time zone" "timetz" DateTime 12;
    /// `money`: cents
    Money 790 791 "money" "money" Number 8;
    /// `xid8`, a transaction's number that never comes again
    Xid8 5069 271 "xid8" "xid8" User 8;
    /// `pg_lsn`, a place of PostgreSQL's log
    PgLsn 3220 3221 "pg_lsn" "pg_lsn" User 8;
    /// `tid`, a place of a row
    Tid 27 1010 "tid" "tid" User 6;
    /// `bit(n)`: strings of so many bits
    Bit 1560 1561 "bit" "bit" BitString -1;
    /// `bit varying(n)`: strings of at most so many bits
    VarBit 1562 1563 "bit varying" "varbit" BitString -1;
    /// `int4range`, ranges of integers: see [`crate::ranges`]
    Int4Range 3904 3905 "int4range" "int4range" Range -1;
    /// `numrange`
    NumRange 3906 3907 "numrange" "numrange" Range -1;
    /// `tsrange`, of timestamps
    TsRange 3908 3909 "tsrange" "tsrange" Range -1;
    /// `tstzrange`
    TsTzRange 3910 3911 "tstzrange" "tstzrange" Range -1;
    /// `daterange`
    DateRange 3912 3913 "daterange" "daterange" Range -1;
    /// `int8range`
    Int8Range 3926 3927 "int8range" "int8range" Range -1;
    /// `int4multirange`, ordered lists of ranges
    Int4Multirange 4451 6150 "int4multirange" "int4multirange" Range -1;
    /// `nummultirange`
    NumMultirange 4532 6151 "nummultirange" "nummultirange" Range -1;
    /// `tsmultirange`
    TsMultirange 4533 6152 "tsmultirange" "tsmultirange" Range -1;
    /// `tstzmultirange`
    TsTzMultirange 4534 6153 "tstzmultirange" "tstzmultirange" Range -1;
    /// `datemultirange`
    DateMultirange 4535 6155 "datemultirange" "datemultirange" Range -1;
    /// `int8multirange`
    Int8Multirange 4536 6157 "int8multirange" "int8multirange" Range -1;
    /// `point`, of the plane: see `geometry`
    Point 600 1017 "point" "point" Geometric 16;
    /// `lseg`, a segment of a line
    Lseg 601 1018 "lseg" "lseg" Geometric 32;
    /// `path`, points that follow each other
    Path 602 1019 "path" "path" Geometric -1;
    /// `box`, a rectangle
    Box 603 1020 "box" "box" Geometric 32;
    /// `polygon`
    Polygon 604 1027 "polygon" "polygon" Geometric -1;
    /// `line`
    Line 628 629 "line" "line" Geometric 24;
    /// `circle`
    Circle 718 719 "circle" "circle" Geometric 24;
    /// `record`: rows, whose values bring their types. The modifier of a relation's rows is the
    /// number of that type in the catalogue; other modifiers are the binder's.
    Record 2249 2287 "record" "record" Pseudo -1;
    /// `citext`, of the extension of that name: texts without case, see [`crate::citext`]
    Citext 15_501 15_502 "citext" "citext" String -1;
    /// `hstore`, of the extension of that name: texts by their keys, see [`crate::hstore`]
    Hstore 15_503 15_504 "hstore" "hstore" User -1;
    /// `ltree`, of the extension of that name: paths of labels, see [`crate::ltree`]
    Ltree 15_505 15_506 "ltree" "ltree" User -1;
    /// `lquery`: patterns of such paths
    Lquery 15_507 15_508 "lquery" "lquery" User -1;
    /// `ltxtquery`: conditions on the labels of such paths
    Ltxtquery 15_509 15_510 "ltxtquery" "ltxtquery" User -1;
    /// `query_int`, of the extension `intarray`: conditions on arrays of integers, see [`crate::int_query`]
    IntQuery 15_561 15_562 "query_int" "query_int" User -1;
    /// `vector`, of the extension of that name: lists of reals, see [`crate::vector`]
    Vector 15_581 15_582 "vector" "vector" User -1;
    /// `anyarray`: any array, in the declarations of functions
    AnyArray 2277 0 "anyarray" "anyarray" Pseudo -1;
    /// `anyelement`: what is in such an array
    AnyElement 2283 0 "anyelement" "anyelement" Pseudo 4;
    /// `anynonarray`: the same, but no array
    AnyNonArray 2776 0 "anynonarray" "anynonarray" Pseudo 4;
    /// `anyenum`: the same, and an enum
    AnyEnum 3500 0 "anyenum" "anyenum" Pseudo 4;
    /// `anyrange`: a range with such bounds
    AnyRange 3831 0 "anyrange" "anyrange" Pseudo -1;
    /// `anymultirange`: a list of such ranges
    AnyMultirange 4537 0 "anymultirange" "anymultirange" Pseudo -1;
    /// `anycompatible`: what all arguments of these kinds become
    AnyCompatible 5077 0 "anycompatible" "anycompatible" Pseudo 4;
    /// `anycompatiblearray`: an array of that
    AnyCompatibleArray 5078 0 "anycompatiblearray" "anycompatiblearray" Pseudo -1;
    /// `anycompatiblenonarray`: that, but no array
    AnyCompatibleNonArray 5079 0 "anycompatiblenonarray" "anycompatiblenonarray" Pseudo 4;
    /// `anycompatiblerange`: a range with such bounds
    AnyCompatibleRange 5080 0 "anycompatiblerange" "anycompatiblerange" Pseudo -1;
    /// `anycompatiblemultirange`: a list of such ranges
    AnyCompatibleMultirange 4538 0 "anycompatiblemultirange" "anycompatiblemultirange" Pseudo -1;
    /// `pg_snapshot`, which transactions a snapshot sees: see [`crate::snapshots`]
    PgSnapshot 5038 5039 "pg_snapshot" "pg_snapshot" User -1;
    /// `txid_snapshot`, the older name of such a type
    TxidSnapshot 2970 2949 "txid_snapshot" "txid_snapshot" User -1;
}

/// The groups that PostgreSQL sorts types into when it chooses among functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Yet to be told.
    Unknown,
    /// Booleans.
    Boolean,
    /// Numbers.
    Number,
    /// Text.
    String,
    /// Dates and times.
    DateTime,
    /// Spans of time.
    TimeSpan,
    /// Arrays.
    Array,
    /// Enums.
    Enum,
    /// Composite types.
    Composite,
    /// Network addresses.
    Network,
    /// Strings of bits.
    BitString,
    /// Points, lines and what these enclose.
    Geometric,
    /// Ranges and multiranges.
    Range,
    /// What is no type of values.
    Pseudo,
    /// Everything else.
    User,
}

impl Type {
    /// Whether it is its group's preferred type.
    #[must_use]
    pub fn is_preferred(self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Float8
                | Self::Text
                | Self::TimestampTz
                | Self::Interval
                | Self::Oid
                | Self::Inet
                | Self::VarBit
        )
    }

    /// Whether values are [`crate::Datum::Int`], and mean the number that they are.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !self.is_named_number() && matches!(self.base(), Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    /// Whether values are [`crate::Datum::Text`].
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self.base(), Self::Char | Self::Varchar | Self::Text | Self::Name | Self::Unknown)
    }

    /// Whether values are object numbers that are written as names.
    #[must_use]
    pub fn is_reg(self) -> bool {
        self != Self::Oid && self != Self::Xid && self.base() == Self::Oid
    }

    /// Whether values are points, lines, or what these enclose.
    #[must_use]
    pub const fn is_geometric(self) -> bool {
        matches!(self.category(), Category::Geometric)
    }

    /// Whether values have an order, and an equality, that is the same wherever values are compared.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        !matches!(
            self,
            Self::Json
                | Self::JsonPath
                | Self::Xml
                | Self::Lquery
                | Self::Ltxtquery
                | Self::IntQuery
                | Self::PgSnapshot
                | Self::TxidSnapshot
        ) && !self.is_geometric()
    }

    /// The extension that has brought the type, or what is in its arrays.
    #[must_use]
    pub const fn extension(self) -> Option<&'static str> {
        match self {
            Self::Citext | Self::Array(Scalar::Citext) => Some("citext"),
            Self::Hstore | Self::Array(Scalar::Hstore) => Some("hstore"),
            Self::Ltree | Self::Lquery | Self::Ltxtquery => Some("ltree"),
            Self::IntQuery | Self::Array(Scalar::IntQuery) => Some("intarray"),
            Self::Vector | Self::Array(Scalar::Vector) => Some("vector"),
            Self::Array(Scalar::Ltree | Scalar::Lquery | Scalar::Ltxtquery) => Some("ltree"),
            _ => None,
        }
    }

    /// Whether it is an enum: values are places of labels.
    #[must_use]
    pub const fn is_enum(self) -> bool {
        matches!(self, Self::Enum(_))
    }

    /// Whether it is a type that a user has defined, but no array.
    #[must_use]
    pub const fn is_of_user(self) -> bool {
        matches!(self, Self::Enum(_) | Self::Composite(_) | Self::Range(_))
    }

    /// Whether it stands for a type that a call's arguments tell: `anyelement` and its kin.
    #[must_use]
    pub const fn is_polymorphic(self) -> bool {
        matches!(
            self,
            Self::AnyElement
                | Self::AnyArray
                | Self::AnyNonArray
                | Self::AnyEnum
                | Self::AnyRange
                | Self::AnyMultirange
                | Self::AnyCompatible
                | Self::AnyCompatibleArray
                | Self::AnyCompatibleNonArray
                | Self::AnyCompatibleRange
                | Self::AnyCompatibleMultirange
        )
    }

    /// The type that a user has defined which values are of, or values in arrays.
    #[must_use]
    pub const fn of_user(self) -> Option<Self> {
        match self {
            Self::Enum(_) | Self::Composite(_) | Self::Range(_) => Some(self),
            Self::Array(Scalar::Enum(of)) => Some(Self::Enum(of)),
            Self::Array(Scalar::Composite(of)) => Some(Self::Composite(of)),
            Self::Array(Scalar::Range(of)) => Some(Self::Range(of)),
            _ => None,
        }
    }

    /// Whether it is a composite type.
    #[must_use]
    pub const fn is_composite(self) -> bool {
        matches!(self, Self::Composite(_))
    }

    /// Whether values are [`crate::Datum::Row`].
    #[must_use]
    pub const fn is_row(self) -> bool {
        matches!(self, Self::Record | Self::Composite(_))
    }

    /// The enum that values are of, or that values in arrays are of.
    #[must_use]
    pub const fn enum_within(self) -> Option<EnumType> {
        match self {
            Self::Enum(of) | Self::Array(Scalar::Enum(of)) => Some(of),
            _ => None,
        }
    }

    /// Whether values are [`crate::Datum::Int`] that are written as something else than numbers.
    #[must_use]
    pub fn is_named_number(self) -> bool {
        self.is_enum() || self.is_reg() || matches!(self, Self::Money | Self::Xid8 | Self::PgLsn | Self::Tid)
    }

    /// The type whose values and bytes it shares; most share none.
    #[must_use]
    pub fn base(self) -> Self {
        match self {
            Self::RegClass
            | Self::RegType
            | Self::RegProc
            | Self::RegProcedure
            | Self::RegOper
            | Self::RegOperator
            | Self::RegNamespace
            | Self::RegRole
            | Self::RegConfig
            | Self::RegDictionary
            | Self::Xid => Self::Oid,
            Self::TsVector | Self::Inet | Self::Cidr | Self::MacAddr | Self::MacAddr8 | Self::Hstore | Self::Vector => {
                Self::Bytea
            }
            Self::Enum(_) | Self::Money | Self::Xid8 | Self::PgLsn | Self::Tid => Self::Int8,
            Self::Bit | Self::VarBit => Self::Bytea,
            geometric if geometric.is_geometric() => Self::Bytea,
            Self::InternalChar | Self::NodeTree | Self::AclItem | Self::Json | Self::JsonPath | Self::Xml => Self::Text,
            Self::Ltree | Self::Lquery | Self::Ltxtquery | Self::IntQuery => Self::Text,
            Self::PgSnapshot | Self::TxidSnapshot => Self::Text,
            other => other,
        }
    }

    /// What is in an array of this type; `None` if it is none.
    #[must_use]
    pub fn element(self) -> Option<Self> {
        match self {
            Self::Array(element) => Some(element.ty()),
            Self::Int2Vector => Some(Self::Int2),
            Self::OidVector => Some(Self::Oid),
            _ => None,
        }
    }

    /// What an array of values of this type is of: the values themselves, but of arrays what is in
    /// them, as they become one with a dimension more. The vectors of the catalogue are values in
    /// this respect.
    #[must_use]
    pub fn item(self) -> Self {
        match self {
            Self::Array(element) => element.ty(),
            other => other,
        }
    }

    /// Whether values are [`crate::Datum::Array`].
    #[must_use]
    pub fn is_array(self) -> bool {
        self.element().is_some() || matches!(self, Self::AnyArray | Self::AnyCompatibleArray)
    }

    /// Whether tables may have columns of it.
    #[must_use]
    pub fn is_storable(self) -> bool {
        let holds = match self {
            Self::Array(element) => element.ty(),
            other => other,
        };
        holds != Self::Unknown && holds.category() != Category::Pseudo
    }

    /// The array of a type that has one: for tables of functions.
    #[must_use]
    pub const fn array_of(self) -> Self {
        match self.array() {
            Some(array) => array,
            None => panic!("a type without arrays"),
        }
    }

    /// A number by which this process finds the type again: that of PostgreSQL, or of an enum one
    /// that tells its labels as well.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Enum(of) => of.code(false),
            Self::Array(Scalar::Enum(of)) => of.code(true),
            Self::Composite(of) => of.code(false),
            Self::Array(Scalar::Composite(of)) => of.code(true),
            Self::Range(of) => of.code(false),
            Self::Array(Scalar::Range(of)) => of.code(true),
            other => other.oid(),
        }
    }

    /// The type with a [`Type::code`].
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        match EnumType::from_code(code) {
            Some((of, false)) => Some(Self::Enum(of)),
            Some((of, true)) => Some(Self::Array(Scalar::Enum(of))),
            None => match CompositeType::from_code(code) {
                Some((of, false)) => Some(Self::Composite(of)),
                Some((of, true)) => Some(Self::Array(Scalar::Composite(of))),
                None => match RangeType::from_code(code) {
                    Some((of, false)) => Some(Self::Range(of)),
                    Some((of, true)) => Some(Self::Array(Scalar::Range(of))),
                    None => Self::from_oid(code),
                },
            },
        }
    }

    /// All types that every database has, arrays included.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::ALL.into_iter().filter_map(Self::array))
    }

    /// The type with PostgreSQL's number, if there is one here.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::all().find(|ty| ty.oid() == oid)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sql_name())
    }
}

/// What narrows a type: `(10,2)` of `numeric(10,2)`, `(16)` of `varchar(16)`. Numbered as
/// PostgreSQL does, -1 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modifier(pub i32);

impl Modifier {
    /// Nothing.
    pub const NONE: Self = Self(-1);

    /// Of `char(n)` and `varchar(n)`.
    #[must_use]
    pub fn length(chars: u32) -> Self {
        Self(chars as i32 + 4)
    }

    /// Of `bit(n)` and `bit varying(n)`.
    #[must_use]
    pub fn bits(count: u32) -> Self {
        Self(count as i32)
    }

    /// Of `numeric(precision, scale)`.
    #[must_use]
    pub fn numeric(precision: u16, scale: i16) -> Self {
        Self((i32::from(precision) << 16 | i32::from(scale) & 0x7ff) + 4)
    }

    /// Of `interval`: its fields, and digits of a second's fraction if they are said.
    #[must_use]
    pub fn interval(fields: IntervalFields, digits: Option<u8>) -> Self {
        let digits = digits.map_or(0xffff, i32::from);
        if fields == IntervalFields::ALL && digits == 0xffff {
            return Self::NONE;
        }
        Self(i32::from(fields.0) << 16 | digits)
    }

    /// The fields of an `interval`, and its digits of a second's fraction.
    #[must_use]
    pub fn interval_parts(self) -> (IntervalFields, Option<u8>) {
        if self.0 < 0 {
            return (IntervalFields::ALL, None);
        }
        let digits = u8::try_from(self.0 & 0xffff).ok().filter(|digits| *digits <= 6);
        // Catalogues of older databases have the digits alone.
        let fields = match (self.0 >> 16) as u16 {
            0 => IntervalFields::ALL,
            fields => IntervalFields(fields),
        };
        (fields, digits)
    }

    /// Of `time(p)`, `timestamp(p)`: digits of a second's fraction.
    #[must_use]
    pub fn fraction(digits: u8) -> Self {
        Self(i32::from(digits))
    }

    /// The n of `char(n)` and `varchar(n)`.
    #[must_use]
    pub fn chars_max(self) -> Option<usize> {
        (self.0 >= 4).then(|| (self.0 - 4) as usize)
    }

    /// Precision and scale of `numeric(precision, scale)`.
    #[must_use]
    pub fn precision_scale(self) -> Option<(u16, i16)> {
        // The scale has 11 bits and a sign.
        (self.0 >= 4).then(|| (((self.0 - 4) >> 16) as u16, ((((self.0 - 4) & 0x7ff) ^ 0x400) - 0x400) as i16))
    }

    /// Digits of a second's fraction.
    #[must_use]
    pub fn fraction_digits(self) -> Option<u8> {
        (0..=6).contains(&self.0).then_some(self.0 as u8)
    }
}

/// A type with its modifier: what a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub ty: Type,
    /// Its modifier.
    pub modifier: Modifier,
    /// The domain that values are of, which `ty` and `modifier` are those of; `None`: of none.
    pub domain: Option<DomainType>,
}

impl ColumnType {
    /// A type with a modifier.
    #[must_use]
    pub const fn new(ty: Type, modifier: Modifier) -> Self {
        Self { ty, modifier, domain: None }
    }

    /// The type that values have, without the domain that they are of.
    #[must_use]
    pub const fn base(self) -> Self {
        Self { domain: None, ..self }
    }

    /// Its number in the catalogue: the domain's, if there is one.
    #[must_use]
    pub fn oid(self) -> u32 {
        self.domain.map_or_else(|| self.ty.oid(), DomainType::oid)
    }

    /// Its name in SQL without a modifier: the domain's, if there is one.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        self.domain.map_or_else(|| self.ty.sql_name(), DomainType::sql_name)
    }
}

impl From<Type> for ColumnType {
    fn from(ty: Type) -> Self {
        Self::new(ty, Modifier::NONE)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Modifier(raw) = self.modifier;
        match self.ty {
            _ if self.domain.is_some() => f.write_str(self.sql_name()),
            _ if raw < 0 => write!(f, "{}", self.ty),
            Type::Numeric => {
                let (precision, scale) = self.modifier.precision_scale().unwrap_or_default();
                write!(f, "numeric({precision},{scale})")
            }
            Type::Char | Type::Varchar => write!(f, "{}({})", self.ty, raw - 4),
            Type::Bit | Type::VarBit | Type::Vector => write!(f, "{}({raw})", self.ty),
            Type::Time => write!(f, "time({raw}) without time zone"),
            Type::TimeTz => write!(f, "time({raw}) with time zone"),
            Type::Timestamp => write!(f, "timestamp({raw}) without time zone"),
            Type::TimestampTz => write!(f, "timestamp({raw}) with time zone"),
            Type::Interval => {
                let (fields, digits) = self.modifier.interval_parts();
                write!(f, "interval{}", fields.name())?;
                digits.map_or(Ok(()), |digits| write!(f, "({digits})"))
            }
            Type::Array(element) => write!(f, "{}[]", Self::new(element.ty(), self.modifier)),
            _ => write!(f, "{}", self.ty),
        }
    }
}
