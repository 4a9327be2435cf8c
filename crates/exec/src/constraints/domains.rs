//! What domains demand of values.

use colibri_types::{Datum, Error, Result, SqlState, pulse};

use super::TableRules;
use crate::eval::{Evaluate as _, Scope};
use crate::expr::DomainRules;

/// Fails if a value, or one in an array, does not obey a domain.
///
/// # Errors
/// 23502 for NULL, 23514 for a condition that is false.
pub fn check_value(rules: &DomainRules, value: &Datum, scope: &mut Scope<'_>) -> Result<()> {
    if !rules.domain.is_array() {
        return check_one(rules, value, scope);
    }
    let Datum::Array(array) = value else { return Ok(()) };
    for value in array.values() {
        pulse::work(pulse::UNITS_PER_ROW)?;
        check_one(rules, value, scope)?;
    }
    Ok(())
}

fn check_one(rules: &DomainRules, value: &Datum, scope: &mut Scope<'_>) -> Result<()> {
    if rules.not_null && value.is_null() {
        return Err(is_null(rules));
    }
    for check in &rules.checks {
        if check.condition.truth(scope, std::slice::from_ref(value))? == Some(false) {
            return Err(violates(rules, &check.name));
        }
    }
    Ok(())
}

/// Fails if a value that a row has got anew does not obey its column's domain. Both rows have all
/// of the table's columns.
pub fn check_changed(rules: &TableRules, old: &[Datum], new: &[Datum], scope: &mut Scope<'_>) -> Result<()> {
    let changed = rules.domains.iter().filter(|(place, _)| !old[*place].is_identical(&new[*place]));
    changed.into_iter().try_for_each(|(place, rules)| check_value(rules, &new[*place], scope))
}

#[cold]
fn is_null(rules: &DomainRules) -> Error {
    let message = format!("domain {} does not allow null values", rules.domain.element().sql_name());
    Error::new(SqlState::NOT_NULL_VIOLATION, message).about_type(&rules.schema, &rules.name, None)
}

#[cold]
fn violates(rules: &DomainRules, check: &str) -> Error {
    let domain = rules.domain.element().sql_name();
    let message = format!("value for domain {domain} violates check constraint \"{check}\"");
    Error::new(SqlState::CHECK_VIOLATION, message).about_type(&rules.schema, &rules.name, Some(check))
}
