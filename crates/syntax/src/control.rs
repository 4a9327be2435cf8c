//! Transactions, prepared statements, EXPLAIN and DISCARD.

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{
    Discard, Execute, Explain, ExplainOption, Inner, Level, Mode, Prepare, Statement, Transaction, fold,
};

impl Parser<'_> {
    pub(crate) fn transaction(&mut self) -> Result<Transaction> {
        let token = self.next();
        match token.kind {
            Kind::Key(K::Begin) => {
                self.transaction_word();
                Ok(Transaction::Begin { modes: self.modes()?, is_start: false })
            }
            Kind::Key(K::Start) => {
                self.expect(K::Transaction)?;
                Ok(Transaction::Begin { modes: self.modes()?, is_start: true })
            }
            Kind::Key(K::Savepoint) => Ok(Transaction::Savepoint(fold(&self.name()?))),
            Kind::Key(K::Release) => {
                self.eat(K::Savepoint);
                Ok(Transaction::Release(fold(&self.name()?)))
            }
            Kind::Key(K::Commit | K::End) => {
                if token.kind == Kind::Key(K::Commit) && self.eat(K::Prepared) {
                    return Ok(Transaction::CommitPrepared(self.string()?));
                }
                self.transaction_word();
                Ok(Transaction::Commit { chain: self.chain()? })
            }
            _ => {
                if token.kind == Kind::Key(K::Rollback) && self.eat(K::Prepared) {
                    return Ok(Transaction::RollbackPrepared(self.string()?));
                }
                self.transaction_word();
                if token.kind == Kind::Key(K::Rollback) && self.eat(K::To) {
                    self.eat(K::Savepoint);
                    return Ok(Transaction::RollbackTo(fold(&self.name()?)));
                }
                Ok(Transaction::Rollback { chain: self.chain()? })
            }
        }
    }

    fn transaction_word(&mut self) {
        let _ = self.eat(K::Transaction) || self.eat(K::Work);
    }

    /// `AND [NO] CHAIN`, if it comes next.
    fn chain(&mut self) -> Result<bool> {
        if !self.eat(K::And) {
            return Ok(false);
        }
        let no = self.eat(K::No);
        self.expect(K::Chain)?;
        Ok(!no)
    }

    /// Modes of a transaction, with commas between them or without, as many as come.
    fn modes(&mut self) -> Result<Vec<Mode>> {
        let mut modes = Vec::new();
        loop {
            let mode = if self.eat_all(&[K::Isolation, K::Level]) {
                Mode::Level(self.level()?)
            } else if self.eat_all(&[K::Read, K::Only]) {
                Mode::ReadOnly(true)
            } else if self.eat_all(&[K::Read, K::Write]) {
                Mode::ReadOnly(false)
            } else if self.eat_all(&[K::Not, K::Deferrable]) {
                Mode::Deferrable(false)
            } else if self.eat(K::Deferrable) {
                Mode::Deferrable(true)
            } else {
                // A comma stands between two.
                return if self.last().kind == Kind::Comma { Err(self.wrong()) } else { Ok(modes) };
            };
            modes.push(mode);
            self.eat_kind(Kind::Comma);
        }
    }

    /// The same, but at least one.
    pub(crate) fn some_modes(&mut self) -> Result<Vec<Mode>> {
        let modes = self.modes()?;
        if modes.is_empty() { Err(self.wrong()) } else { Ok(modes) }
    }

    fn level(&mut self) -> Result<Level> {
        const LEVELS: [(&[K], Level); 4] = [
            (&[K::Serializable], Level::Serializable),
            (&[K::Repeatable, K::Read], Level::RepeatableRead),
            (&[K::Read, K::Committed], Level::ReadCommitted),
            (&[K::Read, K::Uncommitted], Level::ReadUncommitted),
        ];
        match LEVELS.iter().find(|(words, _)| self.eat_all(words)) {
            Some((_, level)) => Ok(*level),
            None => Err(self.wrong()),
        }
    }

    pub(crate) fn prepare(&mut self) -> Result<Statement> {
        self.expect(K::Prepare)?;
        if self.eat(K::Transaction) {
            return Ok(Statement::Transaction(Transaction::Prepare(self.string()?)));
        }
        let name = fold(&self.name()?);
        let types = self.maybe_in_parens(Self::data_type)?;
        self.expect(K::As)?;
        let inner = self.inner()?;
        Ok(Statement::Prepare(Box::new(Prepare { name, types, inner })))
    }

    /// A statement inside of PREPARE or COPY.
    pub(crate) fn inner(&mut self) -> Result<Inner> {
        let may = matches!(
            self.kind(),
            Kind::LeftParen
                | Kind::Key(K::Select | K::Values | K::Table | K::With | K::Insert | K::Update | K::Delete | K::Merge)
        );
        if !may {
            return Err(self.wrong());
        }
        let taken = self.taken();
        let statement = self.nested(Self::relational)?;
        Ok(Inner { statement, bytes: self.bytes_since(taken) })
    }

    pub(crate) fn execute(&mut self) -> Result<Execute> {
        self.expect(K::Execute)?;
        let name = fold(&self.name()?);
        Ok(Execute { name, parameters: self.maybe_in_parens(Self::expr)? })
    }

    pub(crate) fn deallocate(&mut self) -> Result<Statement> {
        self.expect(K::Deallocate)?;
        // PREPARE may be the name itself.
        if self.is_next(K::Prepare) && !matches!(self.kind_behind(1), Kind::Semicolon | Kind::End) {
            self.next();
        }
        let name = if self.eat(K::All) { None } else { Some(fold(&self.name()?)) };
        Ok(Statement::Deallocate(name))
    }

    pub(crate) fn discard(&mut self) -> Result<Statement> {
        self.expect(K::Discard)?;
        let what = match self.kind() {
            Kind::Key(K::All) => Discard::All,
            Kind::Key(K::Plans) => Discard::Plans,
            Kind::Key(K::Sequences) => Discard::Sequences,
            Kind::Key(K::Temp | K::Temporary) => Discard::Temp,
            _ => return Err(self.wrong()),
        };
        self.next();
        Ok(Statement::Discard(what))
    }

    pub(crate) fn explain(&mut self) -> Result<Statement> {
        self.expect(K::Explain)?;
        let (mut analyze, mut verbose, mut options) = (false, false, Vec::new());
        // A parenthesis begins options, or a query.
        let has_options = self.kind() == Kind::LeftParen
            && !matches!(self.kind_behind(1), Kind::LeftParen | Kind::Key(K::Select | K::Values | K::With | K::Table));
        if has_options {
            options = self.in_parens(Self::explain_option)?;
        } else {
            analyze = self.eat(K::Analyze) || self.eat(K::Analyse);
            verbose = self.eat(K::Verbose);
        }
        let statement = self.explained()?;
        Ok(Statement::Explain(Box::new(Explain { analyze, verbose, options, statement })))
    }

    /// The statement that EXPLAIN explains.
    fn explained(&mut self) -> Result<Statement> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Execute) => self.execute().map(Statement::Execute),
            // The query of the cursor is what is explained.
            Kind::Key(K::Declare) => {
                self.declare().map(|declare| Statement::Relational(Box::new(declare.query.statement)))
            }
            Kind::Key(K::Refresh) => Err(self.refuse_statement(token, "REFRESH")),
            Kind::Key(K::Create) => {
                // Tables may be made of a query, and nothing else.
                let kind = self.behind(1);
                match self.nested(Self::create)? {
                    created @ Statement::Relational(_) => Ok(created),
                    _ => Err(self.wrong_at(kind)),
                }
            }
            _ => Ok(Statement::Relational(Box::new(self.inner()?.statement))),
        }
    }

    fn explain_option(&mut self) -> Result<ExplainOption> {
        let name = self.folded_label()?;
        let value = match self.kind() {
            Kind::Comma | Kind::RightParen => None,
            Kind::Plus | Kind::Minus | Kind::Integer | Kind::Decimal => Some(self.signed_text()?),
            kind if Self::is_label(kind) => Some(self.label()?.value),
            _ => Some(self.string()?),
        };
        Ok(ExplainOption { name, value })
    }
}
