//! Which statement it is.

use std::ops::Range;

use colibri_types::Result;
use sqlparser::ast::{self, Query, SetExpr};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, Statement, Upkeep};

impl Parser<'_> {
    /// The statements of a text, with semicolons between them; each is taken with its bytes.
    pub(crate) fn statements(&mut self, mut take: impl FnMut(Statement, Range<usize>)) -> Result<()> {
        loop {
            while self.eat_kind(Kind::Semicolon) {}
            if self.kind() == Kind::End {
                return Ok(());
            }
            let taken = self.taken();
            let statement = self.statement()?;
            if !self.is_over() {
                return Err(self.wrong());
            }
            take(statement, self.bytes_since(taken));
            colibri_types::pulse::work(1)?;
        }
    }

    pub(crate) fn statement(&mut self) -> Result<Statement> {
        self.nested(Self::statement_inner)
    }

    fn statement_inner(&mut self) -> Result<Statement> {
        let token = self.peek();
        let word = match token.kind {
            Kind::Key(word) => word,
            Kind::LeftParen => return self.relational().map(Statement::from),
            _ => return Err(self.wrong()),
        };
        match word {
            K::Select | K::Values | K::Table | K::With | K::Insert | K::Update | K::Delete | K::Merge => {
                self.relational().map(Statement::from)
            }
            K::Create => self.create(),
            K::Alter => self.alter(),
            K::Drop => self.drop_statement(),
            K::Truncate => self.truncate().map(Statement::from),
            K::Set => self.set().map(Statement::from),
            K::Reset => self.reset().map(Statement::from),
            K::Show => self.show().map(Statement::from),
            K::Begin | K::Start | K::Commit | K::End | K::Rollback | K::Abort | K::Savepoint | K::Release => {
                self.transaction().map(Statement::Transaction)
            }
            K::Prepare => self.prepare(),
            K::Execute => self.execute().map(Statement::Execute),
            K::Deallocate => self.deallocate(),
            K::Discard => self.discard(),
            K::Explain => self.explain(),
            K::Declare => self.declare().map(|declare| Statement::Declare(Box::new(declare))),
            K::Fetch | K::Move => self.fetch_statement().map(Statement::Fetch),
            K::Close => self.close().map(Statement::Close),
            K::Copy => self.copy().map(|copy| Statement::Copy(Box::new(copy))),
            K::Grant | K::Revoke => self.grant().map(Statement::from),
            K::Comment => self.comment().map(Statement::from),
            K::Reassign => self.reassign_owned().map(Statement::from),
            K::Vacuum => self.vacuum().map(Statement::from),
            K::Analyze | K::Analyse => self.analyze().map(Statement::from),
            K::Cluster => self.cluster().map(Statement::from),
            K::Reindex => self.reindex().map(Statement::from),
            K::Listen => self.listen().map(Statement::from),
            K::Notify => self.notify().map(Statement::from),
            K::Unlisten => self.unlisten().map(Statement::from),
            K::Lock => self.lock_table().map(Statement::from),
            K::Refresh => self.refresh().map(Statement::from),
            K::Checkpoint => {
                self.next();
                Ok(Admin::Checkpoint.into())
            }
            K::Do => self.do_statement().map(Statement::from),
            K::Call => self.call_statement(),
            K::Import | K::Load | K::Security => {
                self.next();
                let what = self.token_text(token).to_ascii_uppercase();
                Err(self.refuse_statement(token, &what))
            }
            _ => Err(self.wrong()),
        }
    }

    /// A statement that reads or changes rows. `SELECT … INTO` makes a table.
    pub(crate) fn relational(&mut self) -> Result<ast::Statement> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Insert) => self.insert(),
            Kind::Key(K::Update) => self.update(),
            Kind::Key(K::Delete) => self.delete(),
            Kind::Key(K::Merge) => self.merge(),
            _ => {
                let mut query = self.query_or_change()?;
                match take_into(&mut query) {
                    Some(into) => Ok(Self::create_by_select(into, query)),
                    None => Ok(ast::Statement::Query(query)),
                }
            }
        }
    }
}

impl From<ast::Statement> for Statement {
    fn from(statement: ast::Statement) -> Self {
        Self::Relational(Box::new(statement))
    }
}

impl From<crate::tree::Setting> for Statement {
    fn from(setting: crate::tree::Setting) -> Self {
        Self::Setting(Box::new(setting))
    }
}

impl From<Admin> for Statement {
    fn from(admin: Admin) -> Self {
        Self::Admin(Box::new(admin))
    }
}

impl From<Upkeep> for Statement {
    fn from(upkeep: Upkeep) -> Self {
        Admin::Upkeep(upkeep).into()
    }
}

/// Takes INTO off the first SELECT of a query.
fn take_into(query: &mut Query) -> Option<ast::SelectInto> {
    let mut body = &mut *query.body;
    loop {
        body = match body {
            SetExpr::Select(select) => return select.into.take(),
            SetExpr::SetOperation { left, .. } => left,
            _ => return None,
        };
    }
}
