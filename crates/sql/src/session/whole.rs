//! Nothing of a statement about transactions, settings and prepared statements is ignored: see `bind::whole`.

use sqlparser::ast::{self, Statement};

use crate::error::{Error, Result, SqlState};

fn syntax_error(what: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {what}"))
}

/// Refuses what a statement about transactions says and nobody heeds.
pub(super) fn control(statement: &Statement) -> Result<()> {
    match statement {
        Statement::StartTransaction {
            modes: _,
            begin: _,
            transaction: _,
            modifier,
            statements,
            exception,
            has_end_keyword,
        } => {
            let is_block = !statements.is_empty() || exception.is_some() || *has_end_keyword;
            if is_block || modifier.is_some() {
                return Err(syntax_error("BEGIN begins a transaction, and nothing more"));
            }
        }
        Statement::Commit { chain: _, end: _, modifier } => {
            if modifier.is_some() {
                return Err(syntax_error("END has no such clause"));
            }
        }
        Statement::Rollback { chain, savepoint } => {
            if *chain && savepoint.is_some() {
                return Err(syntax_error("a savepoint has no AND CHAIN"));
            }
        }
        Statement::Deallocate { name: _, prepare: _ } | Statement::Discard { object_type: ast::DiscardObject::ALL } => {
        }
        Statement::Discard { object_type } => return Err(Error::unsupported(format_args!("DISCARD {object_type}"))),
        _ => {}
    }
    Ok(())
}

/// The same of what runs within a transaction.
pub(super) fn utility(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Explain {
            describe_alias,
            analyze: _,
            verbose: _,
            query_plan,
            estimate,
            statement: _,
            format: _,
            options: _,
        } => {
            if *query_plan || *estimate || *describe_alias != ast::DescribeAlias::Explain {
                return Err(syntax_error("EXPLAIN has no such form"));
            }
        }
        Statement::Execute { name: _, parameters: _, has_parentheses: _, immediate, into, using, output, default } => {
            if *immediate || !into.is_empty() || !using.is_empty() || *output || *default {
                return Err(syntax_error("EXECUTE has no such clause"));
            }
        }
        Statement::Prepare { name: _, data_types: _, statement: _ } => {}
        _ => {}
    }
    Ok(())
}
