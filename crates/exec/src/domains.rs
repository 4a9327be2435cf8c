//! What domains demand of values.

use colibri_types::{Datum, Error, Result, SqlState, pulse};

use crate::eval::{Evaluate as _, Scope};
use crate::expr::DomainRules;
use crate::plan::TableRules;

/// Fails if a value, one in an array, or a field of a row does not obey a domain.
///
/// # Errors
/// 23502 for NULL, 23514 for a condition that is false.
pub fn check_value(rules: &DomainRules, value: &Datum, scope: &mut Scope<'_>) -> Result<()> {
    let Some(domain) = rules.domain else { return check_fields(rules, value, scope) };
    if !domain.is_array() {
        return check_one(rules, value, scope);
    }
    let Datum::Array(array) = value else { return Ok(()) };
    for value in array.values() {
        pulse::work(pulse::UNITS_PER_ROW)?;
        check_one(rules, value, scope)?;
    }
    Ok(())
}

/// The fields of a row, or of the rows in an array. NULL has none, and neither has a row that only tells its type.
fn check_fields(rules: &DomainRules, row: &Datum, scope: &mut Scope<'_>) -> Result<()> {
    let row = match (row, &rules.elements) {
        (Datum::Row(row), _) => row,
        (Datum::Array(array), Some(elements)) => {
            return array.values().iter().try_for_each(|value| {
                pulse::work(pulse::UNITS_PER_ROW)?;
                check_value(elements, value, scope)
            });
        }
        _ => return Ok(()),
    };
    let values = row.values();
    let with_values = rules.fields.iter().filter_map(|(place, rules)| Some((rules, values.get(*place)?)));
    with_values.into_iter().try_for_each(|(rules, value)| check_value(rules, value, scope))
}

fn check_one(rules: &DomainRules, value: &Datum, scope: &mut Scope<'_>) -> Result<()> {
    if let Some(elements) = &rules.elements {
        check_value(elements, value, scope)?;
    }
    if rules.not_null && value.is_null() {
        return Err(is_null(rules));
    }
    for check in &rules.checks {
        // Conditions may mention other domains many times, and these others.
        pulse::work(1)?;
        if check.condition.truth(scope, std::slice::from_ref(value))? == Some(false) {
            return Err(violates(rules, &check.name));
        }
    }
    Ok(())
}

/// Fails if a row of all of a table's columns has a value that does not obey its column's domain,
/// among those that are set and those that are generated.
///
/// Bug: an action of a foreign key looked at all columns. Consequence: it failed for values that
/// were there before a condition was added NOT VALID. Fix: only at what it changes.
pub fn check_changed(
    rules: &TableRules,
    row: &[Datum],
    is_set: &dyn Fn(usize) -> bool,
    scope: &mut Scope<'_>,
) -> Result<()> {
    let is_generated = |place: usize| rules.generated.iter().any(|(generated, _)| *generated == place);
    let mut changed = rules.domains.iter().filter(|(place, _)| is_set(*place) || is_generated(*place));
    changed.try_for_each(|(place, rules)| check_value(rules, &row[*place], scope))
}

/// The domain's name, as messages have it.
fn name_of(rules: &DomainRules) -> &str {
    rules.domain.map_or("", |domain| domain.element().sql_name())
}

#[cold]
fn is_null(rules: &DomainRules) -> Error {
    let message = format!("domain {} does not allow null values", name_of(rules));
    Error::new(SqlState::NOT_NULL_VIOLATION, message).about_type(&rules.schema, &rules.name, None)
}

#[cold]
fn violates(rules: &DomainRules, check: &str) -> Error {
    let domain = name_of(rules);
    let message = format!("value for domain {domain} violates check constraint \"{check}\"");
    Error::new(SqlState::CHECK_VIOLATION, message).about_type(&rules.schema, &rules.name, Some(check))
}
