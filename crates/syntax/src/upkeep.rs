//! VACUUM, ANALYZE, CLUSTER, REINDEX, LOCK TABLE, LISTEN, UNLISTEN and NOTIFY.

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, Reindex, TableLock, Upkeep, UpkeepTable};

const VACUUM_OPTIONS: [&str; 11] = [
    "full",
    "freeze",
    "verbose",
    "analyze",
    "analyse",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];

/// The longer of two modes that begin alike comes first.
const TABLE_LOCKS: [(&[K], TableLock); 8] = [
    (&[K::Access, K::Share], TableLock::AccessShare),
    (&[K::Row, K::Share], TableLock::RowShare),
    (&[K::Row, K::Exclusive], TableLock::RowExclusive),
    (&[K::Share, K::Update, K::Exclusive], TableLock::ShareUpdateExclusive),
    (&[K::Share, K::Row, K::Exclusive], TableLock::ShareRowExclusive),
    (&[K::Share], TableLock::Share),
    (&[K::Exclusive], TableLock::Exclusive),
    (&[K::Access, K::Exclusive], TableLock::AccessExclusive),
];

impl Parser<'_> {
    pub(crate) fn vacuum(&mut self) -> Result<Upkeep> {
        self.expect(K::Vacuum)?;
        let mut options = self.upkeep_options("VACUUM", &VACUUM_OPTIONS)?;
        const WORDS: [(K, &str); 5] = [
            (K::Full, "full"),
            (K::Freeze, "freeze"),
            (K::Verbose, "verbose"),
            (K::Analyze, "analyze"),
            (K::Analyse, "analyse"),
        ];
        while let Some(word) = self.eat_any(&WORDS.map(|(word, _)| word)) {
            options.push(WORDS[word].1);
        }
        let tables = self.upkeep_tables()?;
        let has = |name| options.contains(&name);
        if !(has("analyze") || has("analyse")) && tables.iter().any(|table| !table.columns.is_empty()) {
            let message = "ANALYZE option must be specified when a column list is provided";
            self.note_error(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Upkeep::Vacuum { tables, full: has("full"), verbose: has("verbose") })
    }

    pub(crate) fn analyze(&mut self) -> Result<Upkeep> {
        self.next();
        self.upkeep_options("ANALYZE", &["verbose", "skip_locked"])?;
        self.eat(K::Verbose);
        self.upkeep_tables().map(Upkeep::Analyze)
    }

    pub(crate) fn cluster(&mut self) -> Result<Upkeep> {
        self.expect(K::Cluster)?;
        self.upkeep_options("CLUSTER", &["verbose"])?;
        self.eat(K::Verbose);
        if self.is_over() {
            return Ok(Upkeep::Cluster(None));
        }
        let mut table = self.qualified()?;
        // `CLUSTER index ON table`, as it was written before PostgreSQL 8.3.
        if self.is_next(K::On) && table.len() == 1 {
            self.next();
            let index = table.pop();
            return Ok(Upkeep::Cluster(Some((self.qualified()?, index))));
        }
        let index = if self.eat(K::Using) { Some(self.folded()?) } else { None };
        Ok(Upkeep::Cluster(Some((table, index))))
    }

    pub(crate) fn reindex(&mut self) -> Result<Upkeep> {
        self.expect(K::Reindex)?;
        self.upkeep_options("REINDEX", &["verbose", "concurrently", "tablespace"])?;
        let kind = self.eat_any(&[K::Table, K::Index, K::Schema, K::Database, K::System]);
        let kind = kind.ok_or_else(|| self.wrong())?;
        self.eat(K::Concurrently);
        Ok(Upkeep::Reindex(match kind {
            0 => Reindex::Table(self.qualified()?),
            1 => Reindex::Index(self.qualified()?),
            2 => Reindex::Schema(self.folded()?),
            _ => Reindex::Database(self.folded()?),
        }))
    }

    pub(crate) fn listen(&mut self) -> Result<Admin> {
        self.expect(K::Listen)?;
        Ok(Admin::Listen(self.folded()?))
    }

    pub(crate) fn unlisten(&mut self) -> Result<Admin> {
        self.expect(K::Unlisten)?;
        let channel = if self.eat_kind(Kind::Star) { None } else { Some(self.folded()?) };
        Ok(Admin::Unlisten(channel))
    }

    pub(crate) fn notify(&mut self) -> Result<Admin> {
        self.expect(K::Notify)?;
        let channel = self.folded()?;
        let payload = if self.eat_kind(Kind::Comma) { self.string()? } else { String::new() };
        Ok(Admin::Notify { channel, payload })
    }

    pub(crate) fn lock_table(&mut self) -> Result<Admin> {
        self.expect(K::Lock)?;
        self.eat(K::Table);
        let tables = self.list(|parser| {
            parser.eat(K::Only);
            let name = parser.qualified()?;
            parser.eat_kind(Kind::Star);
            Ok(name)
        })?;
        let mut mode = TableLock::AccessExclusive;
        if self.eat(K::In) {
            let known = TABLE_LOCKS.iter().find(|(words, _)| self.eat_all(words));
            mode = known.map(|(_, mode)| *mode).ok_or_else(|| self.wrong())?;
            self.expect(K::Mode)?;
        }
        Ok(Admin::Lock { tables, mode, nowait: self.eat(K::Nowait) })
    }

    /// Options in parentheses; those of the known ones that are on.
    fn upkeep_options(&mut self, statement: &str, known: &[&'static str]) -> Result<Vec<&'static str>> {
        let options = self.maybe_in_parens(|parser| {
            let token = parser.peek();
            let name = parser.folded_label()?;
            let option = known.iter().copied().find(|known| *known == name);
            if option.is_none() {
                let message = format!("unrecognized {statement} option \"{name}\"");
                parser.note_error(parser.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            let mut is_on = true;
            while !matches!(parser.kind(), Kind::Comma | Kind::RightParen | Kind::Semicolon | Kind::End | Kind::Bad) {
                let token = parser.next();
                let value = parser.token_text(token).trim_matches('\'');
                is_on = !["off", "false", "0"].iter().any(|off| value.eq_ignore_ascii_case(off));
            }
            Ok(option.filter(|_| is_on))
        })?;
        Ok(options.into_iter().flatten().collect())
    }

    fn upkeep_tables(&mut self) -> Result<Vec<UpkeepTable>> {
        if self.is_over() {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let name = parser.qualified()?;
            Ok(UpkeepTable { name, columns: parser.maybe_in_parens(Self::folded)? })
        })
    }
}
