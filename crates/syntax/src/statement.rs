//! Which statement it is.

use colibri_types::Result;
use sqlparser::ast::{Query, SetExpr, Statement};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// The statements of a text, with semicolons between them.
    pub(crate) fn statements(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            while self.eat_kind(Kind::Semicolon) {}
            if self.kind() == Kind::End {
                return Ok(statements);
            }
            let statement = self.statement()?;
            if !matches!(self.kind(), Kind::Semicolon | Kind::End) {
                return Err(self.wrong());
            }
            statements.push(statement);
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
            Kind::LeftParen => return self.query_statement(),
            _ => return Err(self.wrong()),
        };
        match word {
            K::Select | K::Values | K::Table | K::With => self.query_statement(),
            K::Insert => self.insert(),
            K::Update => self.update(),
            K::Delete => self.delete(),
            K::Create => self.create(),
            K::Alter => self.alter(),
            K::Drop => self.drop_statement(),
            K::Truncate => self.truncate(),
            K::Commit | K::End | K::Rollback | K::Abort | K::Savepoint | K::Release => self.transaction(),
            K::Prepare => self.prepare(),
            K::Execute => self.execute(),
            K::Deallocate => self.deallocate(),
            K::Explain => self.explain(),
            K::Discard => self.discard(),
            K::Begin
            | K::Call
            | K::Checkpoint
            | K::Close
            | K::Cluster
            | K::Comment
            | K::Copy
            | K::Declare
            | K::Do
            | K::Fetch
            | K::Grant
            | K::Import
            | K::Listen
            | K::Load
            | K::Lock
            | K::Merge
            | K::Move
            | K::Notify
            | K::Reassign
            | K::Refresh
            | K::Reindex
            | K::Reset
            | K::Revoke
            | K::Security
            | K::Set
            | K::Show
            | K::Start
            | K::Unlisten
            | K::Vacuum
            | K::Analyze
            | K::Analyse => {
                self.next();
                let what = self.token_text(token).to_ascii_uppercase();
                Err(self.refuse_statement(token, &what))
            }
            _ => Err(self.wrong()),
        }
    }

    /// A query, or a change of rows behind WITH. `SELECT … INTO` makes a table.
    fn query_statement(&mut self) -> Result<Statement> {
        let mut query = self.query_or_change()?;
        match take_into(&mut query) {
            Some(into) => Ok(Self::create_by_select(into, query)),
            None => Ok(Statement::Query(query)),
        }
    }
}

/// Takes INTO off the first SELECT of a query.
fn take_into(query: &mut Query) -> Option<sqlparser::ast::SelectInto> {
    let mut body = &mut *query.body;
    loop {
        body = match body {
            SetExpr::Select(select) => return select.into.take(),
            SetExpr::SetOperation { left, .. } => left,
            _ => return None,
        };
    }
}
