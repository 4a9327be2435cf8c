//! What the catalogue says of how the values of a table's columns are kept in its rows: which columns
//! the rows of each generation hold, and which values are compressed.
//!
//! Invariants: a table whose rows may have compressed values says so in its entry, in a form that
//! programs which do not know compressed rows cannot read. They refuse the database with an error
//! that tells why, and never take such a row for another one. A table that never had compression
//! has the entry that it had before there was any.

use std::ops::{Deref, DerefMut};

use colibri_types::Type;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::row::Compression;

/// What stands before the generations of a table whose rows may have compressed values. Programs that
/// do not know such rows expect a list of numbers there, and say that they have found this.
// ON DISK: never change it. What is read may be any text.
const NOTE: &str = "compressed rows: a newer version of Colibri is needed";

/// For each generation of a table's rows, which columns their values hold. A row says its generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generations {
    columns: Vec<Vec<usize>>,
    has_compression: bool,
}

impl Generations {
    /// Whether rows may have compressed values.
    #[must_use]
    pub fn has_compression(&self) -> bool {
        self.has_compression
    }

    /// Rows may have compressed values from now on.
    pub(crate) fn note_compression(&mut self) {
        self.has_compression = true;
    }

    /// Begins anew: there are no rows.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl From<Vec<Vec<usize>>> for Generations {
    fn from(columns: Vec<Vec<usize>>) -> Self {
        Self { columns, has_compression: false }
    }
}

impl Deref for Generations {
    type Target = Vec<Vec<usize>>;

    fn deref(&self) -> &Self::Target {
        &self.columns
    }
}

impl DerefMut for Generations {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.columns
    }
}

/// ON DISK: a list of lists, behind [`NOTE`] if rows may have compressed values.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Element<C> {
    Columns(C),
    Note(String),
}

impl Serialize for Generations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let note = self.has_compression.then(|| Element::Note(NOTE.to_owned()));
        serializer.collect_seq(note.into_iter().chain(self.columns.iter().map(Element::Columns)))
    }
}

impl<'de> Deserialize<'de> for Generations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut generations = Self::default();
        for element in Vec::<Element<Vec<usize>>>::deserialize(deserializer)? {
            match element {
                Element::Columns(columns) => generations.columns.push(columns),
                Element::Note(_) => generations.has_compression = true,
            }
        }
        Ok(generations)
    }
}

/// How the values of a column are kept, as far as it was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnStorage {
    /// What COMPRESSION has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionName>,
    /// What STORAGE has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StorageKind>,
}

/// The methods of compression that PostgreSQL has names for. Either stands for LZ4 here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressionName {
    /// `pglz`
    Pglz,
    /// `lz4`
    Lz4,
}

/// The strategies of storage of PostgreSQL. Only whether values may be compressed follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    /// `PLAIN`: not compressed.
    Plain,
    /// `EXTERNAL`: not compressed.
    External,
    /// `EXTENDED`
    Extended,
    /// `MAIN`
    Main,
}

impl CompressionName {
    /// The method of a name, in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "pglz" => Some(Self::Pglz),
            "lz4" => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pglz => "pglz",
            Self::Lz4 => "lz4",
        }
    }

    /// As `pg_attribute.attcompression` has it.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Pglz => "p",
            Self::Lz4 => "l",
        }
    }
}

impl StorageKind {
    /// The one of columns of a type for which nothing was said, as in PostgreSQL.
    #[must_use]
    pub fn of_type(ty: Type) -> Self {
        match ty {
            Type::Int2Vector | Type::OidVector | Type::TsQuery => Self::Plain,
            Type::Numeric | Type::Inet | Type::Cidr => Self::Main,
            _ if ty.length() == -1 => Self::Extended,
            _ => Self::Plain,
        }
    }

    /// The one of a name, in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Plain,
            "external" => Self::External,
            "extended" => Self::Extended,
            "main" => Self::Main,
            _ => return None,
        })
    }

    /// As SQL has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::External => "EXTERNAL",
            Self::Extended => "EXTENDED",
            Self::Main => "MAIN",
        }
    }

    /// As `pg_attribute.attstorage` has it.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Plain => "p",
            Self::External => "e",
            Self::Extended => "x",
            Self::Main => "m",
        }
    }
}

impl ColumnStorage {
    /// The strategy of a column of a type.
    #[must_use]
    pub fn kind_of(&self, ty: Type) -> StorageKind {
        self.kind.unwrap_or_else(|| StorageKind::of_type(ty))
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How the values of a column of a type are compressed, in a table that says this of its columns.
    #[must_use]
    pub fn compression_of(&self, ty: Type, of_table: Option<Compression>) -> Compression {
        match self.compression {
            _ if matches!(self.kind_of(ty), StorageKind::Plain | StorageKind::External) => Compression::None,
            Some(_) => Compression::Lz4,
            None => of_table.unwrap_or(Compression::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_without_compression_are_as_they_always_were() {
        let mut generations = Generations::from(vec![vec![0, 2], vec![0]]);
        assert_eq!(serde_json::to_string(&generations).unwrap(), "[[0,2],[0]]");
        assert_eq!(serde_json::from_str::<Generations>("[[0,2],[0]]").unwrap(), generations);
        generations.note_compression();
        let text = serde_json::to_string(&generations).unwrap();
        assert_eq!(text, format!("[\"{NOTE}\",[0,2],[0]]"));
        assert_eq!(serde_json::from_str::<Generations>(&text).unwrap(), generations);
        // What programs say that do not know compressed rows.
        let refusal = serde_json::from_str::<Vec<Vec<usize>>>(&text).unwrap_err().to_string();
        assert!(refusal.contains(NOTE), "{refusal}");
    }

    #[test]
    fn a_column_says_more_than_its_table() {
        let text = |storage: ColumnStorage, of_table| storage.compression_of(Type::Text, of_table);
        let said = |compression, kind| ColumnStorage { compression, kind };
        let (lz4, none) = (Some(Compression::Lz4), Some(Compression::None));
        assert_eq!(text(said(None, None), None), Compression::None);
        assert_eq!(text(said(None, None), lz4), Compression::Lz4);
        assert_eq!(text(said(Some(CompressionName::Pglz), None), none), Compression::Lz4);
        assert_eq!(text(said(Some(CompressionName::Lz4), Some(StorageKind::External)), lz4), Compression::None);
        assert_eq!(text(said(None, Some(StorageKind::Main)), lz4), Compression::Lz4);
        assert_eq!(said(None, None).compression_of(Type::Int8, lz4), Compression::None);
    }
}
