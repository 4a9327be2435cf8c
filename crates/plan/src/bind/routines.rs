//! Calls of functions that users have defined, and names of variables of their bodies.
//!
//! A function is told from others of its name by the types of a call's arguments, as PostgreSQL
//! does it: see [`resolve`]. Its defaults are texts of the catalogue, bound where it is called.
//!
//! Inside of a body a name may be a variable's. The body says which variables are in sight, and
//! each of them that a statement names becomes a parameter of it.

use std::sync::Arc;

use colibri_catalog::{Argument, ArgumentMode, Routine, RoutineType, RoutineVolatility, Table, Trigger};
use colibri_types::row::row_type;
use colibri_types::{ColumnType, Datum, Error, Result, RowType, SqlState, Type, cast::CastContext, resolve};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::polymorphic::{Meaning, Misfit};
use super::{Binder, NeedOn, Scope, ScopeTable, fold, logical, name_parts, start_of};
use crate::expr::{Expr, RoutineCall, SessionFunction};
use crate::plan::Series;
use colibri_catalog::cluster::Privileges;

/// The first part of a function's name in FROM whose rows are to stay rows.
pub(super) const WHOLE_ROWS_MARK: &str = "\u{1}rows of ";

/// The first part of the name, in FROM, of the rows that a trigger's function sees as a table.
const TABLE_MARK: &str = "\u{1}table ";

/// What a name means that is both a variable's and a column's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ambiguous {
    /// Neither.
    Error,
    /// The variable.
    Variable,
    /// The column.
    Column,
}

/// A variable as a statement sees it.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The parameter that stands for it, counted from 0.
    pub param: usize,
    /// Its type.
    pub ty: ColumnType,
    /// Of a row: what it is made of.
    pub row: Option<Arc<RowType>>,
}

/// The variables that a statement sees.
pub trait Variables {
    /// The variable that a name means, with the names in front of its points; `None` if there is
    /// none.
    ///
    /// # Errors
    /// If it is a field that its record does not have.
    fn find(&self, parts: &[CompactString]) -> Result<Option<Variable>>;

    /// The fields of a row by its name, each of them a variable.
    ///
    /// # Errors
    /// If it has none yet.
    fn fields(&self, parts: &[CompactString]) -> Result<Option<Vec<(CompactString, Variable)>>>;

    /// The rows that a body sees as a table of a name, as a variable that is an array of rows.
    fn rows(&self, _name: &str) -> Option<Variable> {
        None
    }

    /// What a name means that is a column's as well.
    fn ambiguous(&self) -> Ambiguous;
}

/// A function that a call may mean, as the call sees it.
struct Meant {
    routine: Arc<Routine>,
    /// For each argument that the function is given, which of the call's it is; `None` where the
    /// default stands.
    places: Vec<Option<usize>>,
    /// The types that the call's arguments become, in the call's order.
    types: Vec<Type>,
    /// The call's arguments from here on become an array.
    gathers_from: Option<usize>,
}

/// An argument of a call.
struct Given {
    name: Option<CompactString>,
    bound: Bound,
    span: Span,
    is_variadic: bool,
}

impl Binder<'_> {
    /// The routines that a name may mean, those of schemas further in front first.
    pub fn routines_of_name(&self, schema: Option<&str>, name: &str) -> Vec<Arc<Routine>> {
        let path = self.types_path();
        let place = |routine: &Routine| match schema {
            Some(schema) => (routine.schema == self.catalog.schema_name(schema)).then_some(0),
            // No path leads to temporary functions: nobody can be made to call one unawares.
            None if routine.schema.starts_with(colibri_catalog::temporary::PG_TEMP_PREFIX) => None,
            None => path.iter().position(|known| *known == routine.schema),
        };
        let mut found: Vec<(usize, Arc<Routine>)> = self
            .catalog
            .routines_named(name)
            .filter_map(|routine| Some((place(routine)?, Arc::clone(routine))))
            .collect();
        found.sort_by_key(|(place, routine)| (*place, routine.id));
        found.into_iter().map(|(_, routine)| routine).collect()
    }

    /// A call of a function that a user has defined; `None` if it means another one.
    pub(super) fn routine(&mut self, function: &ast::Function, span: Span) -> Result<Option<Bound>> {
        if let Some(bound) = self.prefix_operator(function, span)? {
            return Ok(Some(bound));
        }
        let Some((meant, given)) = self.routine_meant(function, span, false)? else { return Ok(None) };
        if meant.routine.aggregate.is_some() {
            let routine = Arc::clone(&meant.routine);
            let by = self.by;
            let on = NeedOn::Routine(routine.id);
            self.needs.push(super::Need {
                on,
                privileges: Privileges::EXECUTE,
                any: false,
                by,
                columns: super::OnColumns::Relation,
            });
            let types: Vec<ColumnType> = given.iter().map(|given| given.bound.ty).collect();
            return self.user_aggregate(function, &routine, &types, span).map(Some);
        }
        self.refuse_clauses(function, &meant.routine.name, span)?;
        let set = meant.routine.set;
        let (expr, ty) = self.routine_call(meant, given, span)?;
        if !set {
            return Ok(Some(Bound::new(expr, ty)));
        }
        self.routine_rows_in_list(expr, ty, span).map(Some)
    }

    /// A call of a procedure: the values that it is given, in the order of its arguments.
    ///
    /// # Errors
    /// 42883 if there is no such procedure, 42809 if it is a function.
    pub fn procedure(&mut self, function: &ast::Function) -> Result<(Arc<RoutineCall>, Vec<Expr>)> {
        let span = function.span();
        let parts: Vec<CompactString> = name_parts(&function.name)?.into_iter().map(fold).collect();
        self.refuse_clauses(function, parts.last().map_or("", |name| name.as_str()), span)?;
        let Some((meant, given)) = self.routine_meant(function, span, true)? else {
            let types = self.types_of_call(function)?;
            let message = format!("procedure {}({}) does not exist", parts.join("."), types.join(", "));
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, message).hint(
                "No procedure matches the given name and argument types. You might need to add explicit type casts.",
            );
            return Err(self.place(span, error));
        };
        if !meant.routine.is_procedure {
            let message = format!("{} is not a procedure", signature(&meant.routine));
            let error = Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint("To call a function, use SELECT.");
            return Err(self.place(span, error));
        }
        match self.routine_call(meant, given, span)?.0 {
            Expr::Session { function: SessionFunction::Routine(call), args } => Ok((call, args)),
            _ => Err(Error::internal("a call of a procedure is no call")),
        }
    }

    fn types_of_call(&mut self, function: &ast::Function) -> Result<Vec<String>> {
        let given = self.given(function)?;
        Ok(given.iter().map(|given| given.bound.ty.sql_name().to_string()).collect())
    }

    fn refuse_clauses(&self, function: &ast::Function, name: &str, span: Span) -> Result<()> {
        let list = match &function.args {
            ast::FunctionArguments::List(list) => Some(list),
            _ => None,
        };
        let wildcard =
            |arg: &ast::FunctionArg| matches!(arg, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard));
        let what = if list.is_some_and(|list| list.args.iter().any(wildcard)) {
            format!("{name}(*)")
        } else if list.is_some_and(|list| list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)) {
            "DISTINCT".to_owned()
        } else if !function.within_group.is_empty() {
            "WITHIN GROUP".to_owned()
        } else if list.is_some_and(|list| !list.clauses.is_empty()) {
            "ORDER BY".to_owned()
        } else if function.filter.is_some() {
            "FILTER".to_owned()
        } else if function.over.is_some() {
            let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        } else {
            return Ok(());
        };
        let message = format!("{what} specified, but {name} is not an aggregate function");
        Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)))
    }

    fn given(&mut self, function: &ast::Function) -> Result<Vec<Given>> {
        let mut given = Vec::new();
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(given) };
        for arg in &list.args {
            let (name, expr) = match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => (None, expr),
                ast::FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(expr), .. } => (Some(fold(name)), expr),
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => continue,
                other => return Err(Error::unsupported(format_args!("the argument {other}"))),
            };
            if name.is_none() && given.iter().any(|known: &Given| known.name.is_some()) {
                let error = Error::new(SqlState::SYNTAX_ERROR, "positional argument cannot follow named argument");
                return Err(self.place(expr.span(), error));
            }
            let (expr, is_variadic) = match expr {
                ast::Expr::Prefixed { prefix, value } if prefix.value == colibri_syntax::VARIADIC_MARK => {
                    (&**value, true)
                }
                other => (other, false),
            };
            let bound = self.expr(expr)?;
            given.push(Given { name, bound, span: start_of(expr), is_variadic });
        }
        Ok(given)
    }

    /// The function of a user's that a call means, and the call's arguments.
    fn routine_meant(
        &mut self,
        function: &ast::Function,
        span: Span,
        wants_procedure: bool,
    ) -> Result<Option<(Meant, Vec<Given>)>> {
        let parts = name_parts(&function.name)?;
        let (schema, name) = match parts[..] {
            [name] => (None, fold(name)),
            [schema, name] | [_, schema, name] => (Some(fold(schema)), fold(name)),
            _ => return Ok(None),
        };
        let name = name.strip_prefix(WHOLE_ROWS_MARK).map_or_else(|| name.clone(), CompactString::from);
        let candidates = self.routines_of_name(schema.as_deref(), &name);
        if candidates.is_empty() {
            return Ok(None);
        }
        let has_builtin = schema.is_none() && self.is_function(&name);
        if has_builtin && matches!(function.args, ast::FunctionArguments::None) {
            return Ok(None);
        }
        let given = self.given(function)?;
        let types: Vec<Type> = given.iter().map(|given| given.bound.ty.ty).collect();
        let mut meant: Vec<Meant> = Vec::new();
        for routine in candidates {
            let Some(one) = matching(&routine, &given, wants_procedure) else { continue };
            // One of the same arguments in a schema further in front hides it.
            let is_hidden =
                |known: &Meant| known.types == one.types && known.gathers_from.is_none() == one.gathers_from.is_none();
            if !meant.iter().any(is_hidden) {
                meant.push(one);
            }
        }
        let lists: Vec<Vec<Type>> = meant.iter().map(|one| one.types.clone()).collect();
        let chosen = match resolve::choose_types(&lists, &types) {
            Ok(chosen) => chosen,
            // Those that need no defaults come first.
            Err(()) => {
                let plain: Vec<usize> = (0..meant.len())
                    .filter(|&at| meant[at].gathers_from.is_none() && meant[at].places.iter().all(Option::is_some))
                    .collect();
                let lists: Vec<Vec<Type>> = plain.iter().map(|&at| meant[at].types.clone()).collect();
                match resolve::choose_types(&lists, &types) {
                    Ok(Some(at)) => Some(plain[at]),
                    _ => {
                        let shown: Vec<&str> = types.iter().map(|ty| ty.sql_name()).collect();
                        let message = format!("function {name}({}) is not unique", shown.join(", "));
                        let error = Error::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(
                            "Could not choose a best candidate function. You might need to add explicit type casts.",
                        );
                        return Err(self.place(span, error));
                    }
                }
            }
        };
        let Some(at) = chosen else {
            if has_builtin || wants_procedure {
                return Ok(None);
            }
            let written = parts.iter().map(|part| fold(part)).collect::<Vec<_>>().join(".");
            return Err(self.place(span, no_match(&written, &given)));
        };
        let one = meant.swap_remove(at);
        if has_builtin && one.types != types && self.builtin.functions.function(&name, &types).is_ok() {
            return Ok(None);
        }
        if !wants_procedure && one.routine.is_procedure {
            let message = format!("{} is a procedure", signature(&one.routine));
            let error = Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint("To call a procedure, use CALL.");
            return Err(self.place(span, error));
        }
        if let Some(place) = parts.first() {
            self.note_function(place.span, parts.len(), &one.routine.schema);
        }
        Ok(Some((one, given)))
    }

    /// The call of a function of a user's that makes a value of one of another type.
    pub(super) fn call_for_cast(&mut self, routine: Arc<Routine>, bound: Bound, span: Span) -> Result<Bound> {
        // It may ask for the type's modifier as well, and whether the cast is written.
        let mut given = vec![Given { name: None, bound, span, is_variadic: false }];
        let more = [
            Bound::new(Expr::Const(Datum::Int(-1)), Type::Int4),
            Bound::new(Expr::Const(Datum::Bool(true)), Type::Bool),
        ];
        let count = routine.given().count();
        given.extend(more.into_iter().map(|bound| Given { name: None, bound, span, is_variadic: false }));
        given.truncate(count.max(1));
        let places = (0..given.len()).map(Some).collect();
        let types = given.iter().map(|given| given.bound.ty.ty).collect();
        let (expr, ty) = self.routine_call(Meant { routine, places, types, gathers_from: None }, given, span)?;
        Ok(Bound::new(expr, ty))
    }

    /// The call of a function of a user's that is an operator's.
    pub(super) fn call_for_operator(
        &mut self,
        routine: Arc<Routine>,
        operands: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<Bound> {
        let given: Vec<Given> =
            operands.into_iter().map(|(bound, span)| Given { name: None, bound, span, is_variadic: false }).collect();
        let places = (0..given.len()).map(Some).collect();
        let types = given.iter().map(|given| given.bound.ty.ty).collect();
        let (expr, ty) = self.routine_call(Meant { routine, places, types, gathers_from: None }, given, span)?;
        Ok(Bound::new(expr, ty))
    }

    /// The call itself, and the type of what it gives; of rows, of each.
    fn routine_call(&mut self, meant: Meant, given: Vec<Given>, span: Span) -> Result<(Expr, ColumnType)> {
        let Meant { routine, places, gathers_from, .. } = meant;
        if routine.result == RoutineType::Trigger {
            let message = "trigger functions can only be called as triggers";
            return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
        }
        // Also in a view it is the user who calls it. A text of the catalogue has found it already.
        let by = None;
        if !self.is_stored {
            let on = NeedOn::Schema(routine.schema.clone());
            self.needs.push(super::Need {
                on,
                privileges: Privileges::USAGE,
                any: false,
                by,
                columns: super::OnColumns::Relation,
            });
        }
        let on = NeedOn::Routine(routine.id);
        self.needs.push(super::Need {
            on,
            privileges: Privileges::EXECUTE,
            any: false,
            by,
            columns: super::OnColumns::Relation,
        });
        let pairs = polymorphic_pairs(&routine, &places, gathers_from, &given);
        let meaning =
            Meaning::of(&pairs).map_err(|misfit| self.place(span, misfit.error(|| no_match(&routine.name, &given))))?;
        let actual = |ty: &RoutineType| -> ColumnType {
            match ty.value() {
                Some(ty) if ty.ty.is_polymorphic() => meaning.actual(ty.ty).into(),
                Some(ty) => ty,
                None => Type::Void.into(),
            }
        };
        if let Some(ty) = routine.result.value() {
            self.at(span, meaning.result(ty.ty))?;
        }
        let takes: Vec<Argument> = if routine.is_procedure {
            routine.args.iter().filter(|arg| arg.mode != ArgumentMode::Table).cloned().collect()
        } else {
            routine.given().cloned().collect()
        };
        let mut given: Vec<Option<Given>> = given.into_iter().map(Some).collect();
        let mut args = Vec::with_capacity(takes.len());
        for (arg, place) in takes.iter().zip(&places) {
            let ty = actual(&arg.ty);
            if arg.mode == ArgumentMode::Out {
                // What a procedure is given there is nothing.
                args.push(Expr::Const(Datum::Null));
                continue;
            }
            let Some(place) = *place else {
                args.push(self.default_of(arg, ty, span)?);
                continue;
            };
            if arg.mode == ArgumentMode::Variadic
                && let Some(from) = gathers_from
            {
                let inner = ty.ty.element().unwrap_or(Type::Text);
                let mut values = Vec::new();
                for given in given.iter_mut().skip(from) {
                    if let Some(given) = given.take() {
                        values.push(self.coerce(given.bound, inner.into(), CastContext::Implicit, given.span)?);
                    }
                }
                args.push(Expr::Array { element: inner, values });
                continue;
            }
            let Some(given) = given.get_mut(place).and_then(Option::take) else {
                return Err(Error::internal("an argument of a call is given twice"));
            };
            args.push(match ty.ty {
                Type::Record => self.row_argument(given, &arg.ty, ty)?,
                _ => self.coerce(given.bound, ty, CastContext::Implicit, given.span)?,
            });
        }
        let mut row = self.row_of_result(&routine, &actual)?;
        if row.is_none()
            && matches!(routine.result.value(), Some(ty) if ty.ty == Type::Record)
            && let Some(fields) = self.listed_columns.take()
        {
            row = Some(Arc::new(RowType { oid: Type::Record.oid(), name: "record".into(), fields }));
        }
        let result = match (&row, &routine.result) {
            (Some(row), _) => self.type_of_rows(Arc::clone(row)),
            (None, result) => actual(result),
        };
        if routine.volatility == RoutineVolatility::Volatile {
            self.has_side_effects = true;
        }
        self.calls_routines = true;
        let arg_types: Vec<ColumnType> = takes.iter().map(|arg| actual(&arg.ty)).collect();
        let body = match row {
            None => self.body_of(&routine, &takes, &arg_types, result),
            Some(_) => None,
        };
        let call = RoutineCall { routine, arg_types, result, row, body };
        let function = SessionFunction::Routine(Arc::new(call));
        Ok((Expr::Session { function, args }, result))
    }

    fn row_argument(&mut self, given: Given, declared: &RoutineType, ty: ColumnType) -> Result<Expr> {
        let RoutineType::RowOf(relation) = declared else {
            return self.coerce(given.bound, ty, CastContext::Implicit, given.span);
        };
        let row = self.row_of_relation(*relation)?;
        if given.bound.ty.ty == Type::Unknown
            && let Some(composite) = self.catalog.type_numbered(row.oid)
        {
            return self.coerce(given.bound, composite.into(), CastContext::Implicit, given.span);
        }
        let fits = match (given.bound.ty.ty, self.row_type_of(given.bound.ty)) {
            (Type::Record, Some(known)) => known.oid == row.oid || known.fields.len() == row.fields.len(),
            (Type::Composite(_), Some(known)) => known.oid == row.oid,
            (Type::Record, None) | (Type::Unknown, _) => true,
            _ => false,
        };
        if !fits {
            let message = format!("cannot cast type {} to {}", given.bound.ty.ty, row.name);
            return Err(self.place(given.span, Error::new(SqlState::CANNOT_COERCE, message)));
        }
        Ok(given.bound.expr)
    }

    /// The rows of a relation, as a type.
    pub fn row_of_relation(&self, relation: u32) -> Result<Arc<RowType>> {
        if let Some(table) = self.catalog.table(relation) {
            let columns = table.columns.iter().filter(|column| !column.dropped);
            let fields = columns.map(|column| (column.name.clone(), column.ty)).collect();
            return Ok(Arc::new(RowType { oid: row_type(relation), name: table.name.clone(), fields }));
        }
        if let Some(view) = self.catalog.view(relation) {
            let query = colibri_syntax::parse_query(&view.query)?;
            let mut binder = Binder::new(
                self.builtin,
                self.catalog,
                self.env,
                self.sizes,
                "",
                &super::stored::SEARCH_PATH,
                Vec::new(),
            );
            let bound = binder.stored(|binder| binder.query(&query))?;
            let names = view.columns.iter().cloned();
            let fields = names.zip(bound.columns.iter().map(|column| column.ty)).collect();
            return Ok(Arc::new(RowType { oid: row_type(relation), name: view.name.clone(), fields }));
        }
        if let Some(ty) = self.catalog.composite_of_relation(relation)
            && let Some(Type::Composite(of)) = self.catalog.type_numbered(ty.id)
        {
            return Ok(Arc::clone(of.row_type()));
        }
        Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation with OID {relation} does not exist")))
    }

    /// What the rows are made of that a function gives, if it gives rows of several columns.
    fn row_of_result(
        &mut self,
        routine: &Routine,
        actual: &dyn Fn(&RoutineType) -> ColumnType,
    ) -> Result<Option<Arc<RowType>>> {
        let results: Vec<&Argument> = routine.results().collect();
        let is_table = results.iter().any(|arg| arg.mode == ArgumentMode::Table);
        if results.len() > 1 || (results.len() == 1 && (routine.is_procedure || is_table && !routine.set)) {
            let name = |(at, arg): (usize, &&Argument)| match arg.name.as_str() {
                "" => compact_str::format_compact!("column{}", at + 1),
                _ => arg.name.clone(),
            };
            // Bug: rows among the results were records of which nothing was known. Consequence: their
            // fields were not found. Fix: they are of the type that they are declared with.
            let mut fields = Vec::with_capacity(results.len());
            for (at, arg) in results.iter().enumerate() {
                let of_rows = match arg.ty {
                    RoutineType::RowOf(relation) => self.catalog.type_numbered(self.row_of_relation(relation)?.oid),
                    _ => None,
                };
                fields.push((name((at, arg)), of_rows.map_or_else(|| actual(&arg.ty), ColumnType::from)));
            }
            return Ok(Some(Arc::new(RowType { oid: Type::Record.oid(), name: "record".into(), fields })));
        }
        match routine.result {
            RoutineType::RowOf(relation) => self.row_of_relation(relation).map(Some),
            _ => Ok(None),
        }
    }

    fn default_of(&mut self, arg: &Argument, ty: ColumnType, span: Span) -> Result<Expr> {
        let text = arg.default.as_deref().unwrap_or("NULL");
        let expr = colibri_syntax::parse_expr(text)?;
        let variables = self.variables.take();
        let bound = self.stored(|binder| binder.expr(&expr));
        self.variables = variables;
        self.coerce(bound?, ty, CastContext::Assignment, span)
    }

    /// A call that gives rows, in a SELECT list.
    fn routine_rows_in_list(&mut self, expr: Expr, ty: ColumnType, span: Span) -> Result<Bound> {
        self.rows_of_call(logical::Extra::Rows(Series::Routine, vec![expr]), ty, span)
    }

    /// A function of a user's in FROM that gives rows, or a row of several columns, as what it is
    /// run as; `None` if it means another one.
    pub(super) fn routine_in_from(
        &mut self,
        expr: &ast::Expr,
        span: Span,
    ) -> Result<Option<(CompactString, Series, Expr, ColumnType)>> {
        let ast::Expr::Function(function) = expr else { return Ok(None) };
        let Some((meant, given)) = self.routine_meant(function, span, false)? else { return Ok(None) };
        let (name, set) = (meant.routine.name.clone(), meant.routine.set);
        let (call, ty) = self.routine_call(meant, given, span)?;
        let series = if set { Series::Routine } else { Series::One };
        Ok(Some((name, series, call, ty)))
    }

    /// A function of a user's in FROM that gives several columns: the query that takes its rows
    /// apart. `None` if it is none.
    pub(super) fn routine_columns_in_from(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<logical::Relation>,
    ) -> Result<Option<logical::From>> {
        let Some(ast::ObjectNamePart::Identifier(last)) = name.0.last() else { return Ok(None) };
        let span = super::name_span(name);
        let function = fold(last);
        // The rows themselves are asked for by the query below.
        if last.value.starts_with(WHOLE_ROWS_MARK) || self.catalog.routines_named(&function).next().is_none() {
            return Ok(None);
        }
        let call = super::series::call_of(name, args.to_vec());
        let ast::Expr::Function(call) = &call else { return Ok(None) };
        let no_calls = std::mem::replace(&mut self.scope().no_calls, "functions in FROM");
        let columns = self.columns_of_routine(call, span);
        self.scope().no_calls = no_calls;
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let list: Vec<String> = match columns? {
            None | Some(RoutineColumns::Single) => return Ok(None),
            Some(RoutineColumns::Known(row)) => {
                if let Some(typed) =
                    alias.and_then(|alias| alias.columns.iter().find(|column| column.data_type.is_some()))
                {
                    let message = "a column definition list is redundant for a function with OUT parameters";
                    return Err(self.place(typed.name.span, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                row.fields.iter().map(|(name, _)| format!("(r).{} AS {}", quoted(name), quoted(name))).collect()
            }
            Some(RoutineColumns::Listed) => {
                let listed = alias.map_or(&[][..], |alias| &alias.columns[..]);
                if numbered && !listed.is_empty() {
                    let message = "WITH ORDINALITY cannot be used with a column definition list";
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                if listed.is_empty() || listed.iter().any(|column| column.data_type.is_none()) {
                    let message = "a column definition list is required for functions returning \"record\"";
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                let mut list = Vec::with_capacity(listed.len());
                for column in listed {
                    let ty = column.data_type.as_ref().map(ToString::to_string).unwrap_or_default();
                    let name = fold(&column.name);
                    list.push(format!("(r).{}::{ty} AS {}", quoted(&name), quoted(&name)));
                }
                let mut fields = Vec::with_capacity(listed.len());
                for column in listed {
                    if let Some(data_type) = &column.data_type {
                        fields.push((fold(&column.name), self.type_named(data_type)?));
                    }
                }
                self.listed_columns = Some(fields);
                list
            }
        };
        let marked = format!("{WHOLE_ROWS_MARK}{function}");
        let text = match numbered {
            false => format!("SELECT {} FROM {}(NULL) AS f(r)", list.join(", "), quoted(&marked)),
            true => {
                let list = list.join(", ");
                format!("SELECT {list}, n AS ordinality FROM {}(NULL) WITH ORDINALITY AS f(r, n)", quoted(&marked))
            }
        };
        let mut query = colibri_syntax::parse_query(&text)?;
        if let ast::SetExpr::Select(select) = &mut *query.body
            && let Some(from) = select.from.first_mut()
            && let ast::TableFactor::Table { name: named, args: Some(given), .. } = &mut from.relation
        {
            given.args = args.to_vec();
            let mut parts = name.0.clone();
            if let Some(last) = parts.last_mut() {
                *last = ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', &marked));
            }
            named.0 = parts;
        }
        let mut visible = alias.cloned().unwrap_or_else(|| ast::TableAlias {
            explicit: false,
            name: ast::Ident::with_quote('"', function.as_str()),
            columns: Vec::new(),
            at: None,
        });
        if visible.name.value.is_empty() {
            visible.name = ast::Ident::with_quote('"', function.as_str());
        }
        for column in &mut visible.columns {
            column.data_type = None;
        }
        self.note_function(span, name.0.len(), &self.schema_of_call(call));
        let from = self.lateral(&query, &visible, relations);
        self.listed_columns = None;
        from.map(Some)
    }

    /// The schema of the function that was found for a call.
    fn schema_of_call(&self, call: &ast::Function) -> CompactString {
        let parts = name_parts(&call.name).unwrap_or_default();
        let name = parts.last().map(|part| fold(part)).unwrap_or_default();
        self.routines_of_name(None, &name).first().map(|routine| routine.schema.clone()).unwrap_or_default()
    }

    /// Names of the columns that a function of a user's gives, if it gives several.
    pub(super) fn columns_of_routine(
        &mut self,
        function: &ast::Function,
        span: Span,
    ) -> Result<Option<RoutineColumns>> {
        let Some((meant, given)) = self.routine_meant(function, span, false)? else { return Ok(None) };
        let (call, ty) = self.routine_call(meant, given, span)?;
        let row = match &call {
            Expr::Session { function: SessionFunction::Routine(call), .. } => call.row.clone(),
            _ => None,
        };
        if let Some(row) = row {
            return Ok(Some(RoutineColumns::Known(row)));
        }
        if ty.ty == Type::Record {
            return Ok(Some(RoutineColumns::Listed));
        }
        Ok(Some(RoutineColumns::Single))
    }

    /// The condition of a trigger: over the row before, and behind it the row after.
    pub fn trigger_condition(&mut self, table: &Table, trigger: &Trigger) -> Result<Option<Expr>> {
        let Some(when) = &trigger.when else { return Ok(None) };
        let expr = colibri_syntax::parse_expr(when)?;
        let scope = self.scope_of_trigger(table);
        let variables = self.variables.take();
        self.frame().scopes.push(scope);
        let condition = self.condition(&expr, "WHEN");
        self.frame().scopes.pop();
        self.variables = variables;
        condition.map(Some)
    }

    fn scope_of_trigger(&self, table: &Table) -> Scope {
        let mut scope = Scope { no_calls: "trigger WHEN conditions", ..Scope::default() };
        for (name, base) in [("old", 0), ("new", table.columns.len())] {
            let columns = table.columns.iter().map(|column| logical::Column {
                name: column.name.clone(),
                ty: column.ty,
                origin: None,
                collation: super::collation::Collation::Default,
            });
            scope.tables.push(ScopeTable {
                name: name.into(),
                schema: None,
                base,
                columns: columns.collect(),
                hidden: table.columns.iter().map(|column| column.dropped).collect(),
                visible: true,
                oid: Some(table.id),
                marker: None,
                row_name: table.name.clone(),
                is_scalar: false,
                is_nullable: false,
                computed: None,
                read: None,
            });
        }
        scope.width = 2 * table.columns.len();
        scope
    }

    /// The variable that a name means, if it is one's.
    pub(super) fn variable(&mut self, parts: &[CompactString], span: Span) -> Result<Option<Bound>> {
        let Some(variables) = self.variables.filter(|_| !self.is_stored) else { return Ok(None) };
        let Some(variable) = self.at(span, variables.find(parts))? else { return Ok(None) };
        Ok(Some(self.bound_variable(variable)))
    }

    fn bound_variable(&mut self, variable: Variable) -> Bound {
        let Variable { param, ty, row } = variable;
        if self.params.len() <= param {
            self.params.resize(param + 1, None);
        }
        if self.params_named.len() <= param {
            self.params_named.resize(param + 1, false);
        }
        self.params[param] = Some(ty.ty);
        self.params_named[param] = true;
        let ty = match row {
            Some(row) => self.type_of_rows(row),
            None => ty,
        };
        Bound::new(Expr::Param(param), ty)
    }

    /// The rows that the body sees as a table of a name; `None` if there are none.
    pub(super) fn rows_in_sight(
        &mut self,
        name: &str,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<logical::Relation>,
    ) -> Result<Option<logical::From>> {
        let Some(variables) = self.variables.filter(|_| !self.is_stored) else { return Ok(None) };
        let Some(Variable { row: Some(row), .. }) = variables.rows(name) else { return Ok(None) };
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let field = |(field, _): &(CompactString, ColumnType)| format!("(r).{} AS {}", quoted(field), quoted(field));
        let list: Vec<String> = row.fields.iter().map(field).collect();
        let marked = quoted(&format!("{TABLE_MARK}{name}"));
        let query = colibri_syntax::parse_query(&format!("SELECT {} FROM {marked}() AS f(r)", list.join(", ")))?;
        let visible = alias.cloned().unwrap_or_else(|| ast::TableAlias {
            explicit: false,
            name: ast::Ident::with_quote('"', name),
            columns: Vec::new(),
            at: None,
        });
        self.lateral(&query, &visible, relations).map(Some)
    }

    /// The rows of such a table, by the name that stands for it.
    pub(super) fn marked_rows(&mut self, name: &str) -> Option<(Series, Expr, ColumnType)> {
        let variables = self.variables?;
        let variable = variables.rows(name.strip_prefix(TABLE_MARK)?)?;
        let Bound { expr, ty, .. } = self.bound_variable(variable);
        Some((Series::Routine, expr, ty))
    }

    /// The fields of a variable that is a row.
    pub(super) fn fields_of_variable(
        &mut self,
        parts: &[CompactString],
        span: Span,
    ) -> Result<Option<Vec<(CompactString, Bound)>>> {
        let Some(variables) = self.variables.filter(|_| !self.is_stored) else { return Ok(None) };
        let Some(fields) = self.at(span, variables.fields(parts))? else { return Ok(None) };
        Ok(Some(fields.into_iter().map(|(name, variable)| (name, self.bound_variable(variable))).collect()))
    }

    /// What a name means that is a variable's and a column's.
    pub(super) fn settle_ambiguous(&self, name: &str, span: Span) -> Result<Ambiguous> {
        match self.variables.map_or(Ambiguous::Column, |variables| variables.ambiguous()) {
            Ambiguous::Error => {
                let message = format!("column reference \"{name}\" is ambiguous");
                let error = Error::new(SqlState::AMBIGUOUS_COLUMN, message)
                    .detail("It could refer to either a PL/pgSQL variable or a table column.");
                Err(self.place(span, error))
            }
            other => Ok(other),
        }
    }
}

/// The columns of a function in FROM.
pub(super) enum RoutineColumns {
    /// Those of its rows.
    Known(Arc<RowType>),
    /// Those that the statement lists.
    Listed,
    /// One.
    Single,
}

/// The name of the only argument that is the result of a call.
pub(super) fn only_result(call: &Expr) -> Option<CompactString> {
    let Expr::Session { function: SessionFunction::Routine(call), .. } = call else { return None };
    let mut results = call.routine.results();
    match (results.next(), results.next()) {
        (Some(one), None) if !one.name.is_empty() => Some(one.name.clone()),
        _ => None,
    }
}

/// How a call's arguments are those of a function, if they can be.
fn matching(routine: &Arc<Routine>, given: &[Given], wants_procedure: bool) -> Option<Meant> {
    let takes: Vec<&Argument> = if wants_procedure && routine.is_procedure {
        routine.args.iter().filter(|arg| arg.mode != ArgumentMode::Table).collect()
    } else {
        routine.given().collect()
    };
    let type_of = |arg: &Argument| arg.ty.value().map_or(Type::Void, |ty| ty.ty);
    let has_array = given.iter().any(|given| given.is_variadic);
    let is_variadic = takes.last().is_some_and(|arg| arg.mode == ArgumentMode::Variadic);
    let gathers_from =
        (is_variadic && !has_array && given.len() >= takes.len() && given.iter().all(|given| given.name.is_none()))
            .then(|| takes.len() - 1);
    if has_array && !is_variadic || given.len() > takes.len() && gathers_from.is_none() {
        return None;
    }
    let mut places: Vec<Option<usize>> = vec![None; takes.len()];
    let mut types = Vec::with_capacity(given.len());
    for (at, one) in given.iter().enumerate() {
        let place = match (&one.name, gathers_from) {
            (Some(name), _) => takes.iter().position(|arg| arg.name == *name)?,
            (None, Some(from)) => at.min(from),
            (None, None) => at,
        };
        let gathers = gathers_from == Some(place);
        if places[place].is_some() && !gathers {
            return None;
        }
        places[place].get_or_insert(at);
        let ty = type_of(takes[place]);
        types.push(match (gathers, ty) {
            (true, Type::AnyArray) => Type::AnyElement,
            (true, Type::AnyCompatibleArray) => Type::AnyCompatible,
            (true, ty) => ty.element()?,
            (false, ty) => ty,
        });
    }
    let is_missing = |(arg, place): (&&Argument, &Option<usize>)| {
        place.is_none() && arg.default.is_none() && arg.mode != ArgumentMode::Out
    };
    if takes.iter().zip(&places).any(is_missing) {
        return None;
    }
    // What agrees on no type is another function's call.
    if Meaning::of(&polymorphic_pairs(routine, &places, gathers_from, given)).err() == Some(Misfit::Different) {
        return None;
    }
    Some(Meant { routine: Arc::clone(routine), places, types, gathers_from })
}

/// The polymorphic types of a function's arguments, each with what a call gives there.
fn polymorphic_pairs(
    routine: &Routine,
    places: &[Option<usize>],
    gathers_from: Option<usize>,
    given: &[Given],
) -> Vec<(Type, Type)> {
    let mut pairs = Vec::new();
    let takes: Vec<&Argument> = if routine.is_procedure {
        routine.args.iter().filter(|arg| arg.mode != ArgumentMode::Table).collect()
    } else {
        routine.given().collect()
    };
    for (arg, place) in takes.into_iter().zip(places) {
        let (Some(declared), Some(place)) = (arg.ty.value(), *place) else { continue };
        if !declared.ty.is_polymorphic() || arg.mode == ArgumentMode::Out {
            continue;
        }
        match gathers_from {
            Some(from) if arg.mode == ArgumentMode::Variadic => {
                let each = match declared.ty {
                    Type::AnyCompatibleArray => Type::AnyCompatible,
                    _ => Type::AnyElement,
                };
                pairs.extend(given.iter().skip(from).map(|given| (each, given.bound.ty.ty)));
            }
            _ => pairs.extend(given.get(place).map(|given| (declared.ty, given.bound.ty.ty))),
        }
    }
    pairs
}

fn no_match(name: &str, given: &[Given]) -> Error {
    let shown = given.iter().map(|given| match &given.name {
        Some(name) => format!("{name} => {}", given.bound.ty.sql_name()),
        None => given.bound.ty.sql_name().to_string(),
    });
    let message = format!("function {name}({}) does not exist", shown.collect::<Vec<_>>().join(", "));
    Error::new(SqlState::NO_SUCH_FUNCTION, message)
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// The name of a function and the types of what it is given, as messages show them.
pub fn signature(routine: &Routine) -> String {
    let types: Vec<String> = routine.given().map(|arg| type_shown(&arg.ty)).collect();
    format!("{}({})", routine.name, types.join(","))
}

fn type_shown(ty: &RoutineType) -> String {
    match ty {
        RoutineType::Value(ty) => ty.sql_name().to_string(),
        RoutineType::RowOf(_) => "record".to_owned(),
        RoutineType::Trigger => "trigger".to_owned(),
        RoutineType::Nothing => "void".to_owned(),
    }
}
