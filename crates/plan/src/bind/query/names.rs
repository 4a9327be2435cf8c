//! The names that PostgreSQL gives to the columns of a SELECT list that are given none.

use colibri_types::Type;
use compact_str::CompactString;
use sqlparser::ast;

use crate::bind::{bind_type, fold, qualified};

/// The name of an unnamed expression, as PostgreSQL chooses it.
pub(in crate::bind) fn name_of(expr: &ast::Expr) -> CompactString {
    name_if_any(expr).map_or_else(|| UNNAMED.into(), |(name, _)| name)
}

/// What a part of an index is called in the index' name.
pub fn index_column_name(expr: &ast::Expr) -> CompactString {
    name_if_any(expr).map_or_else(|| "expr".into(), |(name, _)| name)
}

/// The name of what has none.
pub(super) const UNNAMED: &str = "?column?";

/// How much a name says: a type's, or that something is a CASE, makes way for what stands around
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong,
}

fn is_strong(found: &Option<(CompactString, Strength)>) -> bool {
    matches!(found, Some((_, Strength::Strong)))
}

fn name_if_any(expr: &ast::Expr) -> Option<(CompactString, Strength)> {
    use ast::Expr as E;
    // There may be thousands of parentheses and casts around each other.
    let (mut inner, mut outermost) = (expr, None);
    loop {
        inner = match inner {
            E::Nested(inner) | E::Collate { expr: inner, .. } => inner,
            E::Cast { expr: inner, data_type, .. } => {
                outermost.get_or_insert(data_type);
                inner
            }
            _ => break,
        };
    }
    let found = name_of_operand(inner);
    match outermost {
        Some(data_type) if !is_strong(&found) => type_name(data_type).map(|name| (name, Strength::Weak)),
        _ => found,
    }
}

/// The name of what is no cast.
fn name_of_operand(expr: &ast::Expr) -> Option<(CompactString, Strength)> {
    use ast::Expr as E;
    let name: CompactString = match expr {
        E::TypedString(typed) => return type_name(&typed.data_type).map(|name| (name, Strength::Weak)),
        E::Interval(_) => return Some(("interval".into(), Strength::Weak)),
        E::Case { else_result, .. } => {
            let otherwise = else_result.as_deref().and_then(name_if_any);
            return if is_strong(&otherwise) { otherwise } else { Some(("case".into(), Strength::Weak)) };
        }
        E::Identifier(ident) => fold(ident),
        E::CompoundIdentifier(parts) => fold(parts.last()?),
        E::QualifiedWildcard(name, _) => qualified(name).ok()?.1,
        // Operators that the parser takes for calls have no name.
        E::Function(function) => {
            let (schema, name) = qualified(&function.name).ok()?;
            let is_users = schema.is_some_and(|schema| schema.starts_with(colibri_syntax::PREFIX_MARK));
            if name.starts_with(".xml") {
                return name_of_xml(&name);
            }
            (!is_users && name != "!!").then_some(name)?
        }
        E::Exists { negated: false, .. } => "exists".into(),
        E::Array(_) => "array".into(),
        E::Tuple(_) => "row".into(),
        E::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(E::Identifier(field)) => Some(fold(field)),
                _ => None,
            });
            match field {
                Some(field) => field,
                None => return name_if_any(root),
            }
        }
        E::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => "overlaps".into(),
        E::Extract { .. } => "extract".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Position { .. } => "position".into(),
        E::Substring { shorthand, .. } => if *shorthand { "substr" } else { "substring" }.into(),
        E::Overlay { .. } => "overlay".into(),
        E::Trim { trim_where, .. } => match trim_where {
            None | Some(ast::TrimWhereField::Both) => "btrim".into(),
            Some(ast::TrimWhereField::Leading) => "ltrim".into(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".into(),
        },
        E::AtTimeZone { .. } => "timezone".into(),
        E::Subquery(query) => first_name(&query.body)?,
        _ => return None,
    };
    Some((name, Strength::Strong))
}

/// The name of what the parser has made a call of.
#[inline(never)]
fn name_of_xml(call: &str) -> Option<(CompactString, Strength)> {
    (call != ".xml_is_document").then(|| (CompactString::from(&call[1..]), Strength::Strong))
}

/// The name of a query's first column, where that does not take looking at tables.
#[inline(never)]
fn first_name(body: &ast::SetExpr) -> Option<CompactString> {
    match body {
        ast::SetExpr::Query(inner) => first_name(&inner.body),
        ast::SetExpr::SetOperation { left, .. } => first_name(left),
        ast::SetExpr::Values(_) => Some("column1".into()),
        ast::SetExpr::Select(select) => match select.projection.first()? {
            ast::SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        },
        _ => None,
    }
}

/// What PostgreSQL calls a type inside, which is how a cast without another name is named.
#[inline(never)]
fn type_name(data_type: &ast::DataType) -> Option<CompactString> {
    let Ok(ty) = bind_type(data_type).map(|bound| bound.ty) else {
        // One that a user has defined.
        return match data_type {
            ast::DataType::Custom(name, _) => qualified(name).ok().map(|(_, name)| name),
            ast::DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::Qualified(element, _),
            ) => type_name(element),
            _ => None,
        };
    };
    // The name of an array's type is one of its own.
    if let (Type::Array(_), ast::DataType::Custom(name, _)) = (ty, data_type) {
        return qualified(name).ok().map(|(_, name)| name);
    }
    // Brackets are no part of the name.
    let named = if matches!(ty, Type::Array(_)) { ty.element().unwrap_or(ty) } else { ty };
    Some(named.inner_name().into())
}
