//! CREATE, ALTER, DROP and COMMENT ON TEXT SEARCH, and DROP of objects of kinds that no database
//! has.
//!
//! ```text
//! CREATE TEXT SEARCH {CONFIGURATION | DICTIONARY} name (option = value, …)
//! ALTER TEXT SEARCH DICTIONARY name (option [= value], …)
//! ALTER TEXT SEARCH CONFIGURATION name {ADD | ALTER} MAPPING FOR kind, … WITH dictionary, …
//! ALTER TEXT SEARCH CONFIGURATION name
//!     ALTER MAPPING [FOR kind, …] REPLACE dictionary WITH dictionary
//! ALTER TEXT SEARCH CONFIGURATION name DROP MAPPING [IF EXISTS] FOR kind, …
//! ALTER TEXT SEARCH … name {RENAME TO name | OWNER TO role | SET SCHEMA name}
//! DROP TEXT SEARCH … [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::{Error, Result};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, MappingChange, OnTextSearch, SearchKind, SearchOption};

impl From<OnTextSearch> for Admin {
    fn from(statement: OnTextSearch) -> Self {
        Self::TextSearch(Box::new(statement))
    }
}

impl Parser<'_> {
    /// `TEXT SEARCH` and a kind.
    fn search_kind(&mut self) -> Result<SearchKind> {
        self.expect(K::Text)?;
        self.expect(K::Search)?;
        let kind = match self.kind() {
            Kind::Key(K::Configuration) => SearchKind::Configuration,
            Kind::Key(K::Dictionary) => SearchKind::Dictionary,
            Kind::Key(K::Parser) => SearchKind::Parser,
            Kind::Key(K::Template) => SearchKind::Template,
            _ => return Err(self.wrong()),
        };
        self.next();
        Ok(kind)
    }

    /// Behind CREATE, which is `token`.
    pub(crate) fn create_text_search(&mut self, token: Token) -> Result<Admin> {
        let kind = self.search_kind()?;
        if matches!(kind, SearchKind::Parser | SearchKind::Template) {
            return Err(self.refuse_statement(token, &format!("CREATE of a {}", kind.name())));
        }
        let name = self.qualified()?;
        let options = self.in_parens(Self::search_option)?;
        Ok(OnTextSearch::Create { kind, name, options }.into())
    }

    /// `option [= value]`; a value is a word, a name, a string or a number.
    fn search_option(&mut self) -> Result<SearchOption> {
        let name = self.folded_label()?;
        if !self.eat_kind(Kind::Equal) {
            return Ok((name, None));
        }
        let value = match self.kind() {
            Kind::Plus | Kind::Minus | Kind::Integer | Kind::Decimal => self.signed_text()?,
            kind if Self::is_string(kind) => self.string()?,
            kind if Self::is_label(kind) => {
                let mut parts = vec![self.folded_label()?];
                while self.eat_kind(Kind::Period) {
                    parts.push(self.folded_label()?);
                }
                match &parts[..] {
                    [word] => word.to_string(),
                    parts => parts
                        .iter()
                        .map(|part| format!("\"{}\"", part.replace('"', "\"\"")))
                        .collect::<Vec<_>>()
                        .join("."),
                }
            }
            _ => return Err(self.wrong()),
        };
        Ok((name, Some(value)))
    }

    /// Behind ALTER.
    pub(crate) fn alter_text_search(&mut self) -> Result<Admin> {
        let kind = self.search_kind()?;
        let name = self.qualified()?;
        if self.eat_all(&[K::Rename, K::To]) {
            return Ok(OnTextSearch::Rename { kind, name, to: self.folded()? }.into());
        }
        if self.eat_all(&[K::Set, K::Schema]) {
            return Ok(OnTextSearch::SetSchema { kind, name, schema: self.folded()? }.into());
        }
        if matches!(kind, SearchKind::Parser | SearchKind::Template) {
            return Err(self.wrong());
        }
        if self.eat_all(&[K::Owner, K::To]) {
            return Ok(OnTextSearch::Owner { kind, name, to: self.role_name()? }.into());
        }
        if kind == SearchKind::Dictionary {
            let options = self.in_parens(Self::search_option)?;
            return Ok(OnTextSearch::Options { name, options }.into());
        }
        let change = self.mapping_change()?;
        Ok(OnTextSearch::Mapping { name, change }.into())
    }

    fn mapping_change(&mut self) -> Result<MappingChange> {
        if self.eat(K::Drop) {
            self.expect(K::Mapping)?;
            let if_exists = self.if_exists()?;
            self.expect(K::For)?;
            return Ok(MappingChange::Drop { kinds: self.list(Self::folded)?, if_exists });
        }
        let replaces = !self.eat(K::Add);
        if replaces {
            self.expect(K::Alter)?;
        }
        self.expect(K::Mapping)?;
        let mut kinds = Vec::new();
        if !replaces || self.is_next(K::For) {
            self.expect(K::For)?;
            kinds = self.list(Self::folded)?;
        }
        if replaces && self.eat(K::Replace) {
            let old = self.qualified()?;
            self.expect(K::With)?;
            return Ok(MappingChange::Replace { kinds, old, new: self.qualified()? });
        }
        if kinds.is_empty() {
            return Err(self.wrong());
        }
        self.expect(K::With)?;
        Ok(MappingChange::Set { kinds, dictionaries: self.list(Self::qualified)?, replaces })
    }

    /// Behind DROP.
    pub(crate) fn drop_text_search(&mut self) -> Result<Admin> {
        let kind = self.search_kind()?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::qualified)?;
        let cascade = self.cascade();
        Ok(OnTextSearch::Drop { kind, names, if_exists, cascade }.into())
    }

    pub(crate) fn comment_on_text_search(&mut self) -> Result<Admin> {
        let kind = self.search_kind()?;
        let name = self.qualified()?;
        let text = self.comment_text()?;
        Ok(OnTextSearch::Comment { kind, name, text }.into())
    }

    /// Behind DROP: objects of a kind of which no database has any; `None` if another kind comes next.
    pub(crate) fn drop_absent(&mut self) -> Result<Option<Admin>> {
        let (kind, words): (&'static str, &[K]) = match (self.kind(), self.kind_behind(1)) {
            (Kind::Key(K::Conversion), _) => ("conversion", &[K::Conversion]),
            (Kind::Key(K::Foreign), Kind::Key(K::Data)) => ("foreign-data wrapper", &[K::Foreign, K::Data, K::Wrapper]),
            (Kind::Key(K::Foreign), Kind::Key(K::Table)) => ("foreign table", &[K::Foreign, K::Table]),
            (Kind::Key(K::Server), _) => ("server", &[K::Server]),
            (Kind::Key(K::Access), _) => ("access method", &[K::Access, K::Method]),
            (Kind::Key(K::Operator), Kind::Key(K::Class)) => ("operator class", &[K::Operator, K::Class]),
            (Kind::Key(K::Operator), Kind::Key(K::Family)) => ("operator family", &[K::Operator, K::Family]),
            (Kind::Key(K::Event), Kind::Key(K::Trigger)) => ("event trigger", &[K::Event, K::Trigger]),
            (Kind::Key(K::Publication), _) => ("publication", &[K::Publication]),
            (Kind::Key(K::Subscription), _) => ("subscription", &[K::Subscription]),
            (Kind::Key(K::Procedural), _) => ("language", &[K::Procedural, K::Language]),
            (Kind::Key(K::Language), _) => ("language", &[K::Language]),
            _ => return Ok(None),
        };
        for &word in words {
            self.expect(word)?;
        }
        let if_exists = self.if_exists()?;
        let of_method = matches!(kind, "operator class" | "operator family");
        let has_schema = of_method || matches!(kind, "conversion" | "foreign table");
        let names = match () {
            () if of_method => {
                let names = vec![self.qualified()?];
                self.expect(K::Using)?;
                let method = self.folded()?;
                if !METHODS.contains(&method.as_str()) {
                    let message = format!("access method \"{method}\" does not exist");
                    self.note_error(Error::new(colibri_types::SqlState::NO_SUCH_OBJECT, message));
                }
                names
            }
            () if has_schema => self.list(Self::qualified)?,
            () => self.list(|parser| parser.folded().map(|name| vec![name]))?,
        };
        let _ = self.cascade();
        Ok(Some(OnTextSearch::DropAbsent { kind, names, if_exists }.into()))
    }
}

/// The methods of access that PostgreSQL has for indexes.
const METHODS: [&str; 6] = ["btree", "hash", "gist", "gin", "spgist", "brin"];
