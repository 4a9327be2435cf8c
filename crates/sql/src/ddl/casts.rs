//! CREATE and DROP CAST.

use std::sync::Arc;

use colibri_catalog::{CastMethod, Catalog, Change, Routine, UserCast};
use colibri_syntax::tree::{CastTypes, CreateCast, RoutineKind, TypeGiven};
use colibri_types::{ColumnType, Error, Result, SqlState};

use super::Session;
use crate::registry::FUNCTIONS;

fn number_of(ty: ColumnType) -> u32 {
    ty.domain.map_or(ty.ty.oid(), |domain| domain.oid())
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(SqlState("42P17"), message)
}

impl Session {
    fn types_of_cast(&mut self, types: &CastTypes) -> Result<(ColumnType, ColumnType)> {
        let named = |session: &Self, given: &TypeGiven| match given {
            TypeGiven::Named(named) => session.type_named(named),
            _ => Err(Error::internal("a type of a cast is no name")),
        };
        Ok((named(self, &types.from)?, named(self, &types.to)?))
    }

    pub(super) fn create_cast(&mut self, create: &CreateCast) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (from, to) = self.types_of_cast(&create.types)?;
        let owns = |session: &Self, ty: ColumnType| match session.catalog().user_type(number_of(ty)) {
            Some(known) => session.authority().has_role(known.owner),
            None => session.authority().is_superuser(),
        };
        if !owns(self, from) && !owns(self, to) {
            let message = format!("must be owner of type {} or type {}", from.sql_name(), to.sql_name());
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let method = match &create.function {
            None if create.by_text => CastMethod::Text,
            None => {
                if !self.authority().is_superuser() {
                    let message = "must be superuser to create a cast WITHOUT FUNCTION";
                    return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                if from.ty.is_text() != to.ty.is_text()
                    && from.ty.category() != to.ty.category()
                    && !is_text_like(from, to)
                {
                    return Err(wrong("source and target data types are not physically compatible"));
                }
                CastMethod::Same
            }
            Some(named) => match self.routine_named(RoutineKind::Function, named) {
                Ok(routine) => {
                    self.expect_fits(&routine, from, to)?;
                    CastMethod::Routine(routine.id)
                }
                Err(error) => {
                    let name = named.name.last().cloned().unwrap_or_default();
                    match FUNCTIONS.function(&name, &[from.ty]) {
                        Ok(function) if function.args == [from.ty] => {
                            if function.result != to.ty {
                                return Err(wrong(
                                    "return data type of cast function must match or be binary-coercible to target data type",
                                ));
                            }
                            CastMethod::Builtin(name.to_string())
                        }
                        _ => return Err(error),
                    }
                }
            },
        };
        if number_of(from) == number_of(to) && create.function.is_none() {
            return Err(wrong("source data type and target data type are the same"));
        }
        let exists = self.catalog().cast_between(number_of(from), number_of(to)).is_some()
            || crate::system::operators::is_cast_listed(number_of(from), number_of(to));
        if exists {
            let message = format!("cast from type {} to type {} already exists", from.sql_name(), to.sql_name());
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let id = self.new_id()?;
        let cast = UserCast { id, from: number_of(from), to: number_of(to), context: create.context, method };
        self.change(vec![Change::PutCast(cast)])
    }

    fn expect_fits(&self, routine: &Routine, from: ColumnType, to: ColumnType) -> Result<()> {
        let given: Vec<_> = routine.given().collect();
        if given.is_empty() || given.len() > 3 {
            return Err(wrong("cast function must take one to three arguments"));
        }
        let same = |ty: &colibri_catalog::RoutineType, wanted: ColumnType| {
            ty.oid() == number_of(wanted) || ty.value().is_some_and(|ty| ty.ty.is_text() && wanted.ty.is_text())
        };
        if !same(&given[0].ty, from) {
            return Err(wrong("argument of cast function must match or be binary-coercible from source data type"));
        }
        if !same(&routine.result, to) {
            return Err(wrong(
                "return data type of cast function must match or be binary-coercible to target data type",
            ));
        }
        if routine.set {
            return Err(wrong("cast function must not return a set"));
        }
        Ok(())
    }

    fn cast_named(&mut self, types: &CastTypes) -> Result<Arc<UserCast>> {
        let (from, to) = self.types_of_cast(types)?;
        let found = self.catalog().cast_between(number_of(from), number_of(to)).cloned();
        found.ok_or_else(|| {
            let message = format!("cast from type {} to type {} does not exist", from.sql_name(), to.sql_name());
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })
    }

    pub(super) fn drop_cast(&mut self, types: &CastTypes, if_exists: bool) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match self.cast_named(types) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_OBJECT => {
                let message = format!("{}, skipping", error.report().message);
                self.notice(crate::session::Severity::Notice, SqlState("00000"), message);
                Ok(())
            }
            found => {
                let cast = found?;
                self.change(vec![Change::DropCast(cast.id)])
            }
        }
    }

    pub(super) fn comment_on_cast(&mut self, types: &CastTypes, text: Option<String>) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let cast = self.cast_named(types)?;
        self.change(vec![Change::Comment(cast.id, 0, text)])
    }

    /// How a cast is called in messages.
    pub(super) fn described_cast(&self, cast: &UserCast) -> String {
        let named = |number: u32| match self.catalog().type_numbered(number) {
            Some(ty) => ty.sql_name().to_string(),
            None => {
                colibri_types::Type::from_oid(number).map_or_else(|| number.to_string(), |ty| ty.sql_name().to_string())
            }
        };
        format!("cast from {} to {}", named(cast.from), named(cast.to))
    }
}

/// Whether values of two types have the same form: texts, and what is kept as one.
fn is_text_like(from: ColumnType, to: ColumnType) -> bool {
    use colibri_types::Type;
    let is = |ty: Type| ty.is_text() || matches!(ty, Type::Json | Type::Bytea);
    is(from.ty) && is(to.ty)
}
