//! Whose rights what rules do has, and how its names are looked up.
//!
//! A rule's action runs with the rights of the owner of the relation that has the rule, and its names
//! are those of the catalogue's texts. The rows of the statement that it is done for are a query
//! inside of the action. They are the user's, or those of the rule that has written the statement.
//!
//! ```text
//! by_rule([alice])  INSERT INTO log SELECT … FROM (rows) AS "rows"     alice's rights
//!   for_rows                                        the user's rights
//! ```
//!
//! Invariant: a text that is not this statement's own cannot have rows, however it names its
//! queries: views, policies and bodies of functions are left out, and the texts of rules do not have
//! the mark in it.

use colibri_catalog::cluster::RoleId;
use colibri_types::Result;

use super::routines::Variables;
use super::{Binder, stored};

/// How names are looked up at a place, and with whose rights.
struct Surroundings<'a> {
    search_path: &'a [compact_str::CompactString],
    text: &'a str,
    variables: Option<&'a dyn Variables>,
    meanings: Option<Box<stored::Meanings>>,
    is_stored: bool,
    by: Option<RoleId>,
}

/// What a rule does is being bound.
pub(super) struct ByRule<'a> {
    /// The owners of the relations with the rules, from the outermost inwards.
    owners: Vec<RoleId>,
    /// What is around the statement.
    outside: Surroundings<'a>,
}

impl<'a> Binder<'a> {
    fn exchange(&mut self, other: &mut Surroundings<'a>) {
        std::mem::swap(&mut self.search_path, &mut other.search_path);
        std::mem::swap(&mut self.text, &mut other.text);
        std::mem::swap(&mut self.variables, &mut other.variables);
        std::mem::swap(&mut self.meanings, &mut other.meanings);
        std::mem::swap(&mut self.is_stored, &mut other.is_stored);
        std::mem::swap(&mut self.by, &mut other.by);
    }

    /// Binds what a rule does. Without owners it is the statement itself.
    pub fn by_rule<T>(&mut self, owners: &[RoleId], bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Some(&owner) = owners.last() else { return bind(self) };
        let mut around = Surroundings {
            search_path: &stored::SEARCH_PATH,
            text: "",
            variables: None,
            meanings: None,
            is_stored: true,
            by: Some(owner),
        };
        self.exchange(&mut around);
        let within = ByRule { owners: owners.to_vec(), outside: around };
        let before = self.rule.replace(Box::new(within));
        let bound = bind(self);
        if let Some(mut within) = std::mem::replace(&mut self.rule, before) {
            self.exchange(&mut within.outside);
        }
        bound
    }

    /// Binds the rows that a rule's action is about.
    pub(super) fn for_rows<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let is_own = self.views.is_empty() && self.policies.is_empty() && self.variables.is_none();
        let Some(mut within) = self.rule.take_if(|_| is_own) else { return bind(self) };
        let popped = within.owners.pop();
        let bound = match within.owners.last().copied() {
            Some(owner) => {
                let by = self.by.replace(owner);
                self.rule = Some(within);
                let bound = bind(self);
                self.by = by;
                bound
            }
            None => {
                self.exchange(&mut within.outside);
                let bound = bind(self);
                self.exchange(&mut within.outside);
                self.rule = Some(within);
                bound
            }
        };
        if let Some(within) = &mut self.rule {
            within.owners.extend(popped);
        }
        bound
    }
}
