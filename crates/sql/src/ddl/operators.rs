//! CREATE, ALTER, DROP and COMMENT ON OPERATOR.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, OperatorFunction, Routine, RoutineType, UserOperator};
use colibri_syntax::tree::{Name, OnOperators, OperatorChange, OperatorNamed, OperatorValue, QualifiedName};
use colibri_types::{ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::Cascade;
use crate::registry::FUNCTIONS;
use crate::session::Severity;

fn bad_definition(message: impl Into<String>) -> Error {
    Error::new(SqlState("42P13"), message)
}

fn is_true(value: &OperatorValue) -> Result<bool> {
    let text = match value {
        OperatorValue::Missing => return Ok(true),
        OperatorValue::Text(text) => text.clone(),
        OperatorValue::Name(parts) => parts.join("."),
        _ => String::new(),
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "a Boolean value is expected")),
    }
}

/// What CREATE OPERATOR says.
#[derive(Default)]
struct Said {
    function: Option<QualifiedName>,
    left: Option<RoutineType>,
    right: Option<RoutineType>,
    commutator: Option<(Option<Name>, Name)>,
    negator: Option<(Option<Name>, Name)>,
    restrict: Option<CompactString>,
    join: Option<CompactString>,
    hashes: bool,
    merges: bool,
}

impl Session {
    pub(super) fn about_operators(&mut self, statement: &OnOperators) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match statement {
            OnOperators::Create { schema, symbol, options } => self.create_operator(schema.as_ref(), symbol, options),
            OnOperators::Drop { names, if_exists, cascade } => {
                for named in names {
                    self.expect_no_system_operator(named)?;
                    match self.operator_of(named) {
                        Ok(operator) => {
                            self.expect_owner(operator.owner, "operator", &operator.symbol)?;
                            let mut along = Cascade::new(*cascade);
                            self.drop_operators(&[operator], &mut along)?;
                            self.tell_cascade(along);
                        }
                        Err(error) if *if_exists && error.state() == SqlState::NO_SUCH_FUNCTION => {
                            let message = format!("operator {} does not exist, skipping", shown(named));
                            self.notice(Severity::Notice, SqlState("00000"), message);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            OnOperators::Alter { operator, change } => {
                let old = self.operator_of(operator)?;
                self.expect_owner(old.owner, "operator", &old.symbol)?;
                let mut operator = (*old).clone();
                match change {
                    OperatorChange::Owner(role) => operator.owner = self.actor(role)?,
                    OperatorChange::Schema(schema) => {
                        if self.catalog().schema(schema).is_none() {
                            let message = format!("schema \"{schema}\" does not exist");
                            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, message));
                        }
                        let UserOperator { symbol, left, right, .. } = &operator;
                        if *schema != old.schema && self.catalog().operator(schema, symbol, *left, *right).is_some() {
                            let message = format!("operator {symbol} already exists in schema \"{schema}\"");
                            return Err(Error::new(SqlState("42723"), message));
                        }
                        operator.schema = schema.clone();
                    }
                    OperatorChange::Options(options) => {
                        for (option, value) in options {
                            let said = || self.estimator(value);
                            match option.as_str() {
                                "restrict" => operator.restrict = said()?,
                                "join" => operator.join = said()?,
                                "leftarg" | "rightarg" | "function" | "procedure" | "commutator" | "negator"
                                | "hashes" | "merges" => {
                                    let message = format!("operator attribute \"{option}\" cannot be changed");
                                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                                }
                                other => {
                                    let message = format!("operator attribute \"{other}\" not recognized");
                                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                                }
                            }
                        }
                    }
                }
                self.change(vec![Change::PutOperator(operator)])
            }
            OnOperators::Comment { operator, text } => {
                let operator = self.operator_of(operator)?;
                self.expect_owner(operator.owner, "operator", &operator.symbol)?;
                self.change(vec![Change::Comment(operator.id, 0, text.clone())])
            }
        }
    }

    /// The function of RESTRICT or JOIN, which has to be one of the system's.
    fn estimator(&self, value: &OperatorValue) -> Result<Option<CompactString>> {
        let name = match value {
            OperatorValue::None => return Ok(None),
            OperatorValue::Name(parts) => parts.last().cloned().unwrap_or_default(),
            OperatorValue::Text(text) => text.as_str().into(),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "a function's name is expected")),
        };
        if !crate::system::operators::is_function_listed(&name) {
            let message = format!("function {name}(internal, oid, internal, integer) does not exist");
            return Err(Error::new(SqlState::NO_SUCH_FUNCTION, message));
        }
        Ok(Some(name))
    }

    fn said_of_operator(&mut self, options: &[(Name, OperatorValue)]) -> Result<Said> {
        let mut said = Said::default();
        for (option, value) in options {
            match (option.as_str(), value) {
                (_, OperatorValue::Setof) => {
                    return Err(bad_definition("SETOF type not allowed for operator argument"));
                }
                ("leftarg" | "rightarg", OperatorValue::None) => {}
                ("leftarg", OperatorValue::Type(ty)) => said.left = Some(self.operand_type(ty)?),
                ("rightarg", OperatorValue::Type(ty)) => said.right = Some(self.operand_type(ty)?),
                ("function" | "procedure", OperatorValue::Name(parts)) => said.function = Some(parts.clone()),
                ("commutator", OperatorValue::Operator(schema, symbol)) => {
                    said.commutator = Some((schema.clone(), symbol.clone()));
                }
                ("negator", OperatorValue::Operator(schema, symbol)) => {
                    said.negator = Some((schema.clone(), symbol.clone()));
                }
                ("restrict", value) => said.restrict = self.estimator(value)?,
                ("join", value) => said.join = self.estimator(value)?,
                ("hashes", value) => said.hashes = is_true(value)?,
                ("merges", value) => said.merges = is_true(value)?,
                ("sort1" | "sort2" | "ltcmp" | "gtcmp", _) => said.merges = true,
                (other, _) => {
                    let message = format!("operator attribute \"{other}\" not recognized");
                    self.notice(Severity::Warning, SqlState::SYNTAX_ERROR, message);
                }
            }
        }
        Ok(said)
    }

    fn operand_type(&mut self, ty: &ast::DataType) -> Result<RoutineType> {
        self.routine_type(&colibri_syntax::tree::TypeGiven::Named(ty.clone()))
    }

    /// The number of a type: of a composite type its own, not that of its rows.
    fn number_of_operand(&self, ty: &RoutineType) -> u32 {
        let composite = match ty {
            RoutineType::RowOf(relation) => self.catalog().composite_of_relation(*relation),
            _ => None,
        };
        composite.map_or_else(|| ty.oid(), |composite| composite.id)
    }

    fn create_operator(
        &mut self,
        schema: Option<&Name>,
        symbol: &Name,
        options: &[(Name, OperatorValue)],
    ) -> Result<()> {
        let idents = schema.into_iter().chain([symbol]).map(|part| ast::Ident::with_quote('"', part.as_str()));
        let (schema, symbol) = self.new_name(&ast::ObjectName::from(idents.collect::<Vec<_>>()))?;
        let said = self.said_of_operator(options)?;
        let Some(function) = &said.function else {
            return Err(bad_definition("operator function must be specified"));
        };
        let Some(right) = said.right else {
            return Err(match said.left {
                None => bad_definition("operator argument types must be specified"),
                Some(_) => bad_definition("operator right argument type must be specified")
                    .detail("Postfix operators are not supported."),
            });
        };
        let (function, result) = self.function_of_operator(function, said.left, right)?;
        let is_bool = result == Type::Bool.oid();
        let wrong = |is_binary: bool, what: &str| {
            let kind = if is_binary { "boolean" } else { "binary" };
            Err(bad_definition(format!("only {kind} operators can {what}")))
        };
        if said.left.is_none() {
            for (is_said, what) in [
                (said.commutator.is_some(), "have commutators"),
                (said.join.is_some(), "have join selectivity"),
                (said.merges, "merge join"),
                (said.hashes, "hash"),
            ] {
                if is_said {
                    return wrong(false, what);
                }
            }
        }
        if !is_bool {
            for (is_said, what) in [
                (said.negator.is_some(), "have negators"),
                (said.restrict.is_some(), "have restriction selectivity"),
                (said.join.is_some(), "have join selectivity"),
                (said.merges, "merge join"),
                (said.hashes, "hash"),
            ] {
                if is_said {
                    return wrong(true, what);
                }
            }
        }
        let (left, right) = (said.left.map(|ty| self.number_of_operand(&ty)), self.number_of_operand(&right));
        if self.catalog().operator(&schema, &symbol, left, right).is_some() {
            return Err(Error::new(SqlState("42723"), format!("operator {symbol} already exists")));
        }
        let other = |named: Option<(Option<Name>, Name)>| {
            named.map(|(other, symbol)| (other.unwrap_or_else(|| schema.clone()), symbol))
        };
        let (commutator, negator) = (other(said.commutator), other(said.negator));
        if negator.as_ref().is_some_and(|(other, symbol_of)| *other == schema && *symbol_of == symbol) {
            return Err(bad_definition("operator cannot be its own negator or sort operator"));
        }
        let operator = UserOperator {
            id: self.new_id()?,
            schema,
            symbol,
            owner: self.role(),
            left,
            right,
            result,
            function,
            commutator,
            negator,
            restrict: said.restrict,
            join: said.join,
            hashes: said.hashes,
            merges: said.merges,
        };
        self.change(vec![Change::PutOperator(operator)])
    }

    /// The function that an operator calls, and the number of the type that it gives.
    fn function_of_operator(
        &mut self,
        named: &QualifiedName,
        left: Option<RoutineType>,
        right: RoutineType,
    ) -> Result<(OperatorFunction, u32)> {
        let types: Vec<RoutineType> = left.into_iter().chain([right]).collect();
        let shown: Vec<String> = types.iter().map(|ty| self.type_text(ty)).collect();
        let shown = format!("function {}({})", named.join("."), shown.join(", "));
        let (schema, name) = match &named[..] {
            [name] => (None, name.clone()),
            [schema, name] => (Some(schema.clone()), name.clone()),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "improper qualified name")),
        };
        let found = self.with_binder("", |binder| Ok(binder.routines_of_name(schema.as_deref(), &name)))?;
        let fits =
            |routine: &&Arc<Routine>| routine.given().map(|arg| arg.ty.oid()).eq(types.iter().map(|ty| ty.oid()));
        if let Some(routine) = found.iter().find(fits) {
            if routine.set || routine.is_procedure || routine.aggregate.is_some() {
                let message = format!("{shown} cannot be an operator's");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            return Ok((OperatorFunction::Routine(routine.id), self.number_of_operand(&routine.result)));
        }
        let values: Option<Vec<Type>> = types.iter().map(|ty| ty.value().map(|ty: ColumnType| ty.ty)).collect();
        if schema.as_deref().is_none_or(|schema| schema == "pg_catalog")
            && let Some(values) = values
        {
            if let Ok(function) = FUNCTIONS.function(&name, &values)
                && function.args.iter().copied().eq(values.iter().copied())
            {
                return Ok((OperatorFunction::Builtin(name), function.result.oid()));
            }
            let behind = self.with_binder("", |binder| binder.result_behind_operator(&name, &values))?;
            if let Some(result) = behind {
                return Ok((OperatorFunction::Builtin(name), result.oid()));
            }
        }
        Err(Error::new(SqlState::NO_SUCH_FUNCTION, format!("{shown} does not exist")))
    }

    /// Refuses to drop an operator that every database has.
    fn expect_no_system_operator(&mut self, named: &OperatorNamed) -> Result<()> {
        if named.schema.as_ref().is_some_and(|schema| schema != "pg_catalog") {
            return Ok(());
        }
        let left = named.left.as_ref().map(|ty| self.operand_type(ty)).transpose()?;
        let right = self.operand_type(&named.right)?;
        let value = |ty: &RoutineType| ty.value().map(|ty: ColumnType| ty.ty);
        let (Some(right_type), left_type) = (value(&right), left.as_ref().map(value)) else { return Ok(()) };
        // One that is not of values is no system's.
        let Some(left_type) = left_type.map_or(Some(None), |ty| ty.map(Some)) else { return Ok(()) };
        let is_there =
            self.with_binder("", |binder| Ok(binder.has_own_operator(&named.symbol, left_type, right_type, true)))?;
        if !is_there {
            return Ok(());
        }
        let left = left.map_or_else(|| "NONE".to_owned(), |ty| self.type_text(&ty));
        let message = format!(
            "cannot drop operator {}({left},{}) because it is required by the database system",
            named.symbol,
            self.type_text(&right)
        );
        Err(Error::new(SqlState::DEPENDENT_OBJECTS, message))
    }

    fn operator_of(&mut self, named: &OperatorNamed) -> Result<Arc<UserOperator>> {
        let left = named.left.as_ref().map(|ty| self.operand_type(ty)).transpose()?;
        let right = self.operand_type(&named.right)?;
        let left_number = left.map(|ty| self.number_of_operand(&ty));
        let right_number = self.number_of_operand(&right);
        let schemas: Vec<CompactString> = match &named.schema {
            Some(schema) => vec![schema.clone()],
            None => self.search_path().to_vec(),
        };
        let found = schemas
            .iter()
            .find_map(|schema| self.catalog().operator(schema, &named.symbol, left_number, right_number).cloned());
        found.ok_or_else(|| {
            let written = shown(named);
            let right = self.type_text(&right);
            let written = match left {
                Some(left) => format!("{} {written} {right}", self.type_text(&left)),
                None => format!("{written} {right}"),
            };
            Error::new(SqlState::NO_SUCH_FUNCTION, format!("operator does not exist: {written}"))
        })
    }

    /// An operator as messages show it.
    pub(crate) fn described_operator(&self, operator: &UserOperator) -> String {
        let named = |number: u32| match self.catalog().column_type_numbered(number) {
            Some(ty) => ty.sql_name().to_string(),
            None => Type::from_oid(number).map_or_else(|| number.to_string(), |ty| ty.sql_name().to_string()),
        };
        let left = operator.left.map_or_else(|| "NONE".to_owned(), named);
        let is_found = self.search_path().contains(&operator.schema);
        let schema = match is_found {
            true => String::new(),
            false => format!("{}.", colibri_types::functions::quote_identifier(&operator.schema)),
        };
        format!("operator {schema}{}({left},{})", operator.symbol, named(operator.right))
    }

    /// The operators that need a function.
    pub(super) fn operators_of_routine(&self, routine: u32) -> Vec<Arc<UserOperator>> {
        let needs = |one: &&Arc<UserOperator>| one.function == OperatorFunction::Routine(routine);
        self.catalog().operators().filter(needs).cloned().collect()
    }
}

fn shown(named: &OperatorNamed) -> String {
    match &named.schema {
        Some(schema) => format!("{schema}.{}", named.symbol),
        None => named.symbol.to_string(),
    }
}
