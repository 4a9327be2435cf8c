//! CREATE, ALTER and DROP TRIGGER.
//!
//! ```text
//! CREATE [OR REPLACE] [CONSTRAINT] TRIGGER name {BEFORE | AFTER | INSTEAD OF} event [OR event …]
//!     ON table [FROM table] [[NOT] DEFERRABLE] [INITIALLY {IMMEDIATE | DEFERRED}]
//!     [REFERENCING {OLD | NEW} TABLE [AS] name …] [FOR [EACH] {ROW | STATEMENT}] [WHEN (condition)]
//!     EXECUTE {FUNCTION | PROCEDURE} name ([argument, …])
//! DROP TRIGGER [IF EXISTS] name ON table [CASCADE | RESTRICT]
//! ALTER TRIGGER name ON table RENAME TO name
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, CreateTrigger, Routines, TriggerEvent, TriggerTiming, TriggersMeant};

impl Parser<'_> {
    /// Behind CREATE [OR REPLACE].
    pub(crate) fn create_trigger(&mut self, or_replace: bool) -> Result<Admin> {
        let is_constraint = self.eat(K::Constraint);
        self.expect(K::Trigger)?;
        let name = self.folded()?;
        let timing = match self.eat_any(&[K::Before, K::After, K::Instead]) {
            Some(0) => TriggerTiming::Before,
            Some(1) => TriggerTiming::After,
            Some(_) => {
                self.expect(K::Of)?;
                TriggerTiming::InsteadOf
            }
            None => return Err(self.wrong()),
        };
        if is_constraint && timing != TriggerTiming::After {
            return Err(self.wrong_at(self.last()));
        }
        let mut events: Vec<TriggerEvent> = Vec::new();
        loop {
            let token = self.peek();
            let event = match self.eat_any(&[K::Insert, K::Delete, K::Update, K::Truncate]) {
                Some(0) => TriggerEvent::Insert,
                Some(1) => TriggerEvent::Delete,
                Some(2) if self.eat(K::Of) => TriggerEvent::Update(self.list(Self::folded)?),
                Some(2) => TriggerEvent::Update(Vec::new()),
                Some(_) => TriggerEvent::Truncate,
                None => return Err(self.wrong()),
            };
            if events.iter().any(|known| std::mem::discriminant(known) == std::mem::discriminant(&event)) {
                return Err(
                    self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, "duplicate trigger events specified"))
                );
            }
            events.push(event);
            if !self.eat(K::Or) {
                break;
            }
        }
        self.expect(K::On)?;
        let table = self.qualified()?;
        let from = if is_constraint && self.eat(K::From) { Some(self.qualified()?) } else { None };
        let (mut deferrable, mut initially_deferred) = (false, false);
        let words: &[K] = if is_constraint { &[K::Not, K::Deferrable, K::Initially] } else { &[] };
        while let Some(word) = self.eat_any(words) {
            match word {
                0 => _ = self.expect(K::Deferrable)?,
                1 => deferrable = true,
                _ => {
                    initially_deferred = match self.eat_any(&[K::Deferred, K::Immediate]) {
                        Some(which) => which == 0,
                        None => return Err(self.wrong()),
                    };
                    deferrable |= initially_deferred;
                }
            }
        }
        let (mut old_table, mut new_table) = (None, None);
        if self.eat(K::Referencing) {
            while let Some(which) = self.eat_any(&[K::Old, K::New]) {
                let is_old = which == 0;
                let is_table = self.eat(K::Table);
                if !is_table {
                    self.eat(K::Row);
                }
                self.eat(K::As);
                let name = self.folded()?;
                if !is_table {
                    let what = "ROW variable naming in the REFERENCING clause is not supported";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                        .hint("Use OLD TABLE or NEW TABLE for naming transition tables."));
                }
                let given = if is_old { &mut old_table } else { &mut new_table };
                if given.replace(name).is_some() {
                    let which = if is_old { "OLD" } else { "NEW" };
                    let message = format!("{which} TABLE cannot be specified multiple times");
                    return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
                }
            }
        }
        let mut for_each_row = is_constraint;
        if self.eat(K::For) {
            self.eat(K::Each);
            for_each_row = match self.eat_any(&[K::Row, K::Statement]) {
                Some(which) => which == 0,
                None => return Err(self.wrong()),
            };
        }
        let mut when = None;
        if self.eat(K::When) {
            self.expect_kind(Kind::LeftParen)?;
            let taken = self.taken();
            self.expr()?;
            when = Some(self.text_since(taken).to_owned());
            self.expect_kind(Kind::RightParen)?;
        }
        self.expect(K::Execute)?;
        if self.eat_any(&[K::Function, K::Procedure]).is_none() {
            return Err(self.wrong());
        }
        let function = self.qualified_function()?;
        self.expect_kind(Kind::LeftParen)?;
        let mut args = Vec::new();
        if self.kind() != Kind::RightParen {
            args = self.list(|parser| match parser.kind() {
                kind if Self::is_string(kind) => parser.string(),
                Kind::Integer | Kind::Decimal => {
                    let token = parser.next();
                    Ok(parser.token_text(token).to_owned())
                }
                _ => parser.folded_label().map(Into::into),
            })?;
        }
        self.expect_kind(Kind::RightParen)?;
        let create = CreateTrigger {
            or_replace,
            is_constraint,
            name,
            timing,
            events,
            table,
            from,
            deferrable,
            initially_deferred,
            old_table,
            new_table,
            for_each_row,
            when,
            function,
            args,
        };
        Ok(Routines::CreateTrigger(create).into())
    }

    /// Behind DROP.
    pub(crate) fn drop_trigger(&mut self) -> Result<Admin> {
        self.expect(K::Trigger)?;
        let if_exists = self.if_exists()?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        let cascade = self.cascade();
        Ok(Routines::DropTrigger { name, table, if_exists, cascade }.into())
    }

    /// Behind ALTER.
    pub(crate) fn alter_trigger(&mut self) -> Result<Admin> {
        self.expect(K::Trigger)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        self.expect_all(&[K::Rename, K::To])?;
        Ok(Routines::RenameTrigger { name, table, to: self.folded()? }.into())
    }

    /// `{ENABLE [ALWAYS | REPLICA] | DISABLE} TRIGGER {name | ALL | USER}`, if it comes next.
    pub(crate) fn enable_trigger(&mut self) -> Result<Option<(TriggersMeant, char)>> {
        let (words, state) = match (self.kind(), self.kind_behind(1), self.kind_behind(2)) {
            (Kind::Key(K::Enable), Kind::Key(K::Trigger), _) => (2, 'O'),
            (Kind::Key(K::Disable), Kind::Key(K::Trigger), _) => (2, 'D'),
            (Kind::Key(K::Enable), Kind::Key(K::Always), Kind::Key(K::Trigger)) => (3, 'A'),
            (Kind::Key(K::Enable), Kind::Key(K::Replica), Kind::Key(K::Trigger)) => (3, 'R'),
            _ => return Ok(None),
        };
        (0..words).for_each(|_| _ = self.next());
        let meant = if self.eat(K::All) {
            TriggersMeant::All
        } else if self.eat(K::User) {
            TriggersMeant::User
        } else {
            TriggersMeant::Named(self.folded()?)
        };
        Ok(Some((meant, state)))
    }
}
