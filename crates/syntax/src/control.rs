//! The end of transactions, savepoints, prepared statements, EXPLAIN and DISCARD.

use colibri_types::Result;
use sqlparser::ast::{self, Expr, Statement};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    pub(crate) fn transaction(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Key(K::Savepoint) => Ok(Statement::Savepoint { name: self.name()? }),
            Kind::Key(K::Release) => {
                self.eat(K::Savepoint);
                Ok(Statement::ReleaseSavepoint { name: self.name()? })
            }
            Kind::Key(K::Commit | K::End) => {
                if token.kind == Kind::Key(K::Commit) && self.is_next(K::Prepared) {
                    return Err(self.refuse_statement(token, "COMMIT PREPARED"));
                }
                self.transaction_word();
                let chain = self.chain()?;
                Ok(Statement::Commit { chain, end: token.kind == Kind::Key(K::End), modifier: None })
            }
            _ => {
                if token.kind == Kind::Key(K::Rollback) && self.is_next(K::Prepared) {
                    return Err(self.refuse_statement(token, "ROLLBACK PREPARED"));
                }
                self.transaction_word();
                if token.kind == Kind::Key(K::Rollback) && self.eat(K::To) {
                    self.eat(K::Savepoint);
                    return Ok(Statement::Rollback { chain: false, savepoint: Some(self.name()?) });
                }
                Ok(Statement::Rollback { chain: self.chain()?, savepoint: None })
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

    pub(crate) fn prepare(&mut self) -> Result<Statement> {
        let token = self.expect(K::Prepare)?;
        if self.is_next(K::Transaction) {
            return Err(self.refuse_statement(token, "PREPARE TRANSACTION"));
        }
        let name = self.name()?;
        let data_types = self.maybe_in_parens(Self::data_type)?;
        self.expect(K::As)?;
        let statement = self.prepared()?;
        Ok(Statement::Prepare { name, data_types, statement })
    }

    /// A statement that PREPARE may prepare.
    fn prepared(&mut self) -> Result<Box<Statement>> {
        let may = matches!(
            self.kind(),
            Kind::LeftParen
                | Kind::Key(K::Select | K::Values | K::Table | K::With | K::Insert | K::Update | K::Delete | K::Merge)
        );
        if !may {
            return Err(self.wrong());
        }
        Ok(Box::new(self.statement()?))
    }

    pub(crate) fn execute(&mut self) -> Result<Statement> {
        self.expect(K::Execute)?;
        let name = Some(ast::ObjectName::from(vec![self.name()?]));
        let has_parentheses = self.kind() == Kind::LeftParen;
        let parameters = self.maybe_in_parens(Self::expr)?;
        Ok(Statement::Execute {
            name,
            parameters,
            has_parentheses,
            immediate: false,
            into: Vec::new(),
            using: Vec::new(),
            output: false,
            default: false,
        })
    }

    pub(crate) fn deallocate(&mut self) -> Result<Statement> {
        self.expect(K::Deallocate)?;
        // PREPARE may be the name itself.
        let prepare = self.is_next(K::Prepare) && !matches!(self.kind_behind(1), Kind::Semicolon | Kind::End);
        if prepare {
            self.next();
        }
        let name = if self.is_next(K::All) { self.label()? } else { self.name()? };
        Ok(Statement::Deallocate { name, prepare })
    }

    pub(crate) fn discard(&mut self) -> Result<Statement> {
        self.expect(K::Discard)?;
        let object_type = match self.kind() {
            Kind::Key(K::All) => ast::DiscardObject::ALL,
            Kind::Key(K::Plans) => ast::DiscardObject::PLANS,
            Kind::Key(K::Sequences) => ast::DiscardObject::SEQUENCES,
            Kind::Key(K::Temp | K::Temporary) => ast::DiscardObject::TEMP,
            _ => return Err(self.wrong()),
        };
        self.next();
        Ok(Statement::Discard { object_type })
    }

    pub(crate) fn explain(&mut self) -> Result<Statement> {
        self.expect(K::Explain)?;
        let (mut analyze, mut verbose, mut options) = (false, false, None);
        // A parenthesis begins options, or a query.
        let has_options = self.kind() == Kind::LeftParen
            && !matches!(self.kind_behind(1), Kind::LeftParen | Kind::Key(K::Select | K::Values | K::With | K::Table));
        if has_options {
            options = Some(self.in_parens(Self::explain_option)?);
        } else {
            analyze = self.eat(K::Analyze) || self.eat(K::Analyse);
            verbose = self.eat(K::Verbose);
        }
        let may = matches!(
            self.kind(),
            Kind::LeftParen
                | Kind::Key(
                    K::Select
                        | K::Values
                        | K::Table
                        | K::With
                        | K::Insert
                        | K::Update
                        | K::Delete
                        | K::Merge
                        | K::Declare
                        | K::Create
                        | K::Refresh
                        | K::Execute
                )
        );
        if !may {
            return Err(self.wrong());
        }
        let statement = Box::new(self.statement()?);
        Ok(Statement::Explain {
            describe_alias: ast::DescribeAlias::Explain,
            analyze,
            verbose,
            query_plan: false,
            estimate: false,
            statement,
            format: None,
            options,
        })
    }

    fn explain_option(&mut self) -> Result<ast::UtilityOption> {
        let name = self.label()?;
        let arg = match self.kind() {
            Kind::Comma | Kind::RightParen => None,
            Kind::Key(K::On) => Some(Expr::Identifier(self.label()?)),
            Kind::Key(_) if !matches!(self.kind(), Kind::Key(K::True | K::False)) => {
                Some(Expr::Identifier(self.label()?))
            }
            _ => Some(self.primary_expr()?),
        };
        Ok(ast::UtilityOption { name, arg })
    }
}
