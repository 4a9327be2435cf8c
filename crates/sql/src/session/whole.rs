//! Nothing of a statement about transactions, settings and prepared statements is ignored: see `bind::whole`.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, Statement};

fn syntax_error(what: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {what}"))
}

/// Refuses what a statement about transactions says and nobody heeds.
pub(super) fn control(statement: &Statement) -> Result<()> {
    let wrong = match statement {
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
            (is_block || modifier.is_some()).then_some("BEGIN begins a transaction, and nothing more")
        }
        Statement::Commit { chain: _, end: _, modifier } => modifier.is_some().then_some("END has no such clause"),
        Statement::Rollback { chain, savepoint } => {
            (*chain && savepoint.is_some()).then_some("a savepoint has no AND CHAIN")
        }
        Statement::Deallocate { name: _, prepare: _ } => None,
        Statement::Discard { object_type: ast::DiscardObject::ALL } => None,
        Statement::Discard { object_type } => return Err(Error::unsupported(format_args!("DISCARD {object_type}"))),
        _ => None,
    };
    wrong.map_or(Ok(()), |wrong| Err(syntax_error(wrong)))
}

/// The same of what runs within a transaction.
pub(super) fn utility(statement: &Statement) -> Result<()> {
    let wrong = match statement {
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
            let is_plain = *describe_alias == ast::DescribeAlias::Explain && !*query_plan && !*estimate;
            (!is_plain).then_some("EXPLAIN has no such form")
        }
        Statement::Execute { name: _, parameters: _, has_parentheses: _, immediate, into, using, output, default } => {
            let is_plain = !*immediate && into.is_empty() && using.is_empty() && !*output && !*default;
            (!is_plain).then_some("EXECUTE has no such clause")
        }
        Statement::Prepare { name: _, data_types: _, statement: _ } => None,
        _ => None,
    };
    wrong.map_or(Ok(()), |wrong| Err(syntax_error(wrong)))
}
