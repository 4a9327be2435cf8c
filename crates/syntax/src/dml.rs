//! Statements that change rows: INSERT, UPDATE, DELETE, MERGE.
//!
//! What the tree has no place for is kept in marks that only the binder knows:
//!
//! | written | in the tree |
//! | --- | --- |
//! | `INSERT INTO t OVERRIDING SYSTEM VALUE` | `INSERT INTO TABLE t` |
//! | `INSERT INTO t OVERRIDING USER VALUE` | `INSERT OVERWRITE INTO t` |
//! | `WHERE CURRENT OF c` | `WHERE mark.c` |
//! | `THEN INSERT DEFAULT VALUES` | `THEN INSERT ROW` |
//! | `THEN INSERT OVERRIDING SYSTEM VALUE …` | `THEN INSERT … WHERE system` |

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, Assignment, AssignmentTarget, Expr, ObjectName, SelectItem, Statement, TableWithJoins};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::{CONFLICT_CONDITION, CONFLICT_EXPRESSION, CURRENT_OF_MARK};

impl Parser<'_> {
    pub(crate) fn insert(&mut self) -> Result<Statement> {
        let token = self.expect(K::Insert)?;
        self.expect(K::Into)?;
        let table = ast::TableObject::TableName(self.object_name()?);
        let table_alias = match self.eat(K::As) {
            true => Some(ast::TableAliasWithoutColumns { explicit: true, alias: self.name()? }),
            false => None,
        };
        let mut insert = ast::Insert {
            insert_token: self.attached(token),
            optimizer_hints: Vec::new(),
            or: None,
            ignore: false,
            into: true,
            table,
            table_alias,
            columns: Vec::new(),
            overwrite: false,
            source: None,
            assignments: Vec::new(),
            partitioned: None,
            after_columns: Vec::new(),
            has_table_keyword: false,
            on: None,
            returning: None,
            output: None,
            replace_into: false,
            priority: None,
            insert_alias: None,
            settings: None,
            format_clause: None,
            multi_table_insert_type: None,
            multi_table_into_clauses: Vec::new(),
            multi_table_when_clauses: Vec::new(),
            multi_table_else_clause: None,
        };
        // A parenthesis begins a list of columns, or a query.
        let is_list =
            self.kind() == Kind::LeftParen && Self::is_column_name(self.kind_behind(1)) && !self.is_query_behind();
        if is_list {
            insert.columns = self.in_parens(Self::target)?;
        }
        if self.eat(K::Overriding) {
            insert.has_table_keyword = self.eat(K::System);
            if !insert.has_table_keyword {
                self.expect(K::User)?;
                insert.overwrite = true;
            }
            self.expect(K::Value)?;
        }
        if insert.columns.is_empty() && !insert.has_table_keyword && !insert.overwrite && self.is_next(K::Default) {
            self.expect_all(&[K::Default, K::Values])?;
        } else {
            insert.source = Some(self.query()?);
        }
        insert.on = self.on_conflict()?;
        insert.returning = self.returning()?;
        Ok(Statement::Insert(insert))
    }

    /// Whether VALUES begins a query behind the parenthesis that comes next.
    fn is_query_behind(&self) -> bool {
        self.kind_behind(1) == Kind::Key(K::Values) && self.kind_behind(2) == Kind::LeftParen
    }

    /// The name of a column to be written.
    /// A column, with fields and subscripts behind it: `a`, `a.b`, `a[1][2:3].c`. Subscripts that
    /// follow each other are one part of the name, a call whose only argument has all of them.
    fn target(&mut self) -> Result<ObjectName> {
        let first = self.name()?;
        let mut name = vec![ast::ObjectNamePart::Identifier(first.clone())];
        loop {
            match self.kind() {
                Kind::Period => {
                    self.next();
                    name.push(ast::ObjectNamePart::Identifier(self.label()?));
                }
                Kind::LeftBracket => {
                    let mut access_chain = Vec::new();
                    while self.kind() == Kind::LeftBracket {
                        access_chain.push(ast::AccessExpr::Subscript(self.subscript()?));
                    }
                    let root = Box::new(Expr::Identifier(first.clone()));
                    let access = Expr::CompoundFieldAccess { root, access_chain };
                    let args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(access))];
                    let subscripts = ast::ObjectNamePartFunction { name: first.clone(), args };
                    name.push(ast::ObjectNamePart::Function(subscripts));
                }
                _ => break,
            }
        }
        Ok(ObjectName(name))
    }

    fn on_conflict(&mut self) -> Result<Option<ast::OnInsert>> {
        if !self.is_next(K::On) {
            return Ok(None);
        }
        self.expect_all(&[K::On, K::Conflict])?;
        let conflict_target = if self.kind() == Kind::LeftParen {
            Some(self.conflict_columns()?)
        } else if self.eat(K::On) {
            self.expect(K::Constraint)?;
            let name = self.name()?;
            Some(ast::ConflictTarget::OnConstraint(ObjectName::from(vec![name])))
        } else {
            None
        };
        self.expect(K::Do)?;
        let action = if self.eat(K::Nothing) {
            ast::OnConflictAction::DoNothing
        } else {
            self.expect_all(&[K::Update, K::Set])?;
            let assignments = self.list(Self::assignment)?;
            let selection = if self.eat(K::Where) { Some(self.expr()?) } else { None };
            ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection })
        };
        Ok(Some(ast::OnInsert::OnConflict(ast::OnConflict { conflict_target, action })))
    }

    /// The columns, or expressions, of the index that conflicts are looked for in.
    fn conflict_columns(&mut self) -> Result<ast::ConflictTarget> {
        let mut names = Vec::new();
        let open = self.peek();
        let columns = self.in_parens(Self::index_column)?;
        for column in columns {
            // Operator classes of a type all mean the same equality.
            let options = column.column.options;
            let order = [(options.sort.is_some(), "ASC/DESC"), (options.nulls_first.is_some(), "NULLS FIRST/LAST")];
            if let Some((_, what)) = order.into_iter().find(|(is_there, _)| *is_there) {
                let message = format!("{what} is not allowed in ON CONFLICT clause");
                let error = self.error_at(open, Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
                self.note_error(error);
            }
            match column.column.expr {
                Expr::Identifier(name) => names.push(name),
                expr => names.push(Self::conflict_part(CONFLICT_EXPRESSION, &expr)),
            }
        }
        if self.eat(K::Where) {
            let condition = self.expr()?;
            names.push(Self::conflict_part(CONFLICT_CONDITION, &condition));
        }
        Ok(ast::ConflictTarget::Columns(names))
    }

    /// The tree has room for names only.
    fn conflict_part(mark: char, expr: &Expr) -> ast::Ident {
        let mut part = ast::Ident::new(expr.to_string());
        part.quote_style = Some(mark);
        part
    }

    pub(crate) fn returning(&mut self) -> Result<Option<Vec<SelectItem>>> {
        if !self.eat(K::Returning) {
            return Ok(None);
        }
        Ok(Some(self.list(Self::select_item)?))
    }

    pub(crate) fn update(&mut self) -> Result<Statement> {
        let token = self.expect(K::Update)?;
        let table = self.changed_table()?;
        self.expect(K::Set)?;
        let assignments = self.list(Self::assignment)?;
        let from = match self.eat(K::From) {
            true => Some(ast::UpdateTableFromKind::AfterSet(self.list(Self::table_with_joins)?)),
            false => None,
        };
        let selection = self.condition_of_change()?;
        let returning = self.returning()?;
        Ok(Statement::Update(ast::Update {
            update_token: self.attached(token),
            optimizer_hints: Vec::new(),
            table,
            assignments,
            from,
            selection,
            returning,
            output: None,
            or: None,
            order_by: Vec::new(),
            limit: None,
        }))
    }

    pub(crate) fn delete(&mut self) -> Result<Statement> {
        let token = self.expect(K::Delete)?;
        self.expect(K::From)?;
        let from = ast::FromTable::WithFromKeyword(vec![self.changed_table()?]);
        let using = if self.eat(K::Using) { Some(self.list(Self::table_with_joins)?) } else { None };
        let selection = self.condition_of_change()?;
        let returning = self.returning()?;
        Ok(Statement::Delete(ast::Delete {
            delete_token: self.attached(token),
            optimizer_hints: Vec::new(),
            tables: Vec::new(),
            from,
            using,
            selection,
            returning,
            output: None,
            order_by: Vec::new(),
            limit: None,
        }))
    }

    pub(crate) fn merge(&mut self) -> Result<Statement> {
        let token = self.expect(K::Merge)?;
        self.expect(K::Into)?;
        let table = self.changed_table()?.relation;
        self.expect(K::Using)?;
        let TableWithJoins { relation, joins } = self.table_with_joins()?;
        let source = match joins.is_empty() {
            true => relation,
            false => ast::TableFactor::NestedJoin {
                table_with_joins: Box::new(TableWithJoins { relation, joins }),
                alias: None,
            },
        };
        self.expect(K::On)?;
        let on = Box::new(self.expr()?);
        let mut clauses = vec![self.merge_clause()?];
        while self.is_next(K::When) {
            clauses.push(self.merge_clause()?);
        }
        Ok(Statement::Merge(ast::Merge {
            merge_token: self.attached(token),
            optimizer_hints: Vec::new(),
            into: true,
            table,
            source,
            on,
            clauses,
            output: None,
        }))
    }

    /// `WHEN [NOT] MATCHED [AND …] THEN …`
    fn merge_clause(&mut self) -> Result<ast::MergeClause> {
        let token = self.expect(K::When)?;
        let clause_kind =
            if self.eat(K::Not) { ast::MergeClauseKind::NotMatched } else { ast::MergeClauseKind::Matched };
        self.expect(K::Matched)?;
        let predicate = if self.eat(K::And) { Some(self.expr()?) } else { None };
        self.expect(K::Then)?;
        let action = self.merge_action(clause_kind == ast::MergeClauseKind::Matched)?;
        Ok(ast::MergeClause { when_token: self.attached(token), clause_kind, predicate, action })
    }

    fn merge_action(&mut self, is_matched: bool) -> Result<ast::MergeAction> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Do) => {
                self.next();
                let nothing = self.expect(K::Nothing)?;
                let (do_token, nothing_token) = (self.attached(token), self.attached(nothing));
                Ok(ast::MergeAction::DoNothing { do_token, nothing_token })
            }
            Kind::Key(K::Update) if is_matched => {
                self.next();
                self.expect(K::Set)?;
                let kind = ast::MergeUpdateKind::Set(self.list(Self::assignment)?);
                let update_token = self.attached(token);
                let update =
                    ast::MergeUpdateExpr { update_token, kind, update_predicate: None, delete_predicate: None };
                Ok(ast::MergeAction::Update(update))
            }
            Kind::Key(K::Delete) if is_matched => {
                self.next();
                Ok(ast::MergeAction::Delete { delete_token: self.attached(token) })
            }
            Kind::Key(K::Insert) if !is_matched => self.merge_insert().map(ast::MergeAction::Insert),
            _ => Err(self.wrong()),
        }
    }

    fn merge_insert(&mut self) -> Result<ast::MergeInsertExpr> {
        let token = self.expect(K::Insert)?;
        let columns = if self.kind() == Kind::LeftParen { self.in_parens(Self::target)? } else { Vec::new() };
        let mut overriding = None;
        if self.eat(K::Overriding) {
            let word = self.peek();
            let is_system = self.eat(K::System);
            if !is_system {
                self.expect(K::User)?;
            }
            self.expect(K::Value)?;
            overriding = Some(Expr::Identifier(Self::mark(if is_system { "system" } else { "user" }, word.span())));
        }
        let first = self.peek();
        let kind = if columns.is_empty() && overriding.is_none() && self.eat(K::Default) {
            self.expect(K::Values)?;
            ast::MergeInsertKind::Row
        } else {
            self.expect(K::Values)?;
            let opening = self.expect_kind(Kind::LeftParen)?;
            let content = self.list(Self::expr)?;
            let closing = self.expect_kind(Kind::RightParen)?;
            let (opening_token, closing_token) = (self.attached(opening), self.attached(closing));
            let row = ast::Parens { opening_token, content, closing_token };
            ast::MergeInsertKind::Values(ast::Values { explicit_row: false, value_keyword: false, rows: vec![row] })
        };
        let (insert_token, kind_token) = (self.attached(token), self.attached(first));
        Ok(ast::MergeInsertExpr { insert_token, columns, kind_token, kind, insert_predicate: overriding })
    }

    /// The table whose rows are changed; SET is no alias of it without AS.
    fn changed_table(&mut self) -> Result<TableWithJoins> {
        let only = self.is_next(K::Only);
        let name = self.relation_name()?;
        let explicit = self.eat(K::As);
        let is_alias = explicit || Self::is_column_name(self.kind()) && !self.is_next(K::Set);
        let alias = match is_alias {
            true => Some(ast::TableAlias { explicit, name: self.name()?, columns: Vec::new(), at: None }),
            false => None,
        };
        let relation = Self::with_only(Self::table_of(name, alias), only);
        Ok(TableWithJoins { relation, joins: Vec::new() })
    }

    /// `WHERE …` and `WHERE CURRENT OF cursor`, if it comes next.
    fn condition_of_change(&mut self) -> Result<Option<Expr>> {
        if !self.eat(K::Where) {
            return Ok(None);
        }
        let token = self.peek();
        if self.eat_all(&[K::Current, K::Of]) {
            let cursor = self.name()?;
            return Ok(Some(Expr::CompoundIdentifier(vec![Self::mark(CURRENT_OF_MARK, token.span()), cursor])));
        }
        Ok(Some(self.expr()?))
    }

    /// `a = 1` and `(a, b) = (1, 2)`
    fn assignment(&mut self) -> Result<Assignment> {
        let is_tuple = self.kind() == Kind::LeftParen;
        let target = match is_tuple {
            true => AssignmentTarget::Tuple(self.in_parens(Self::target)?),
            false => AssignmentTarget::ColumnName(self.target()?),
        };
        self.expect_kind(Kind::Equal)?;
        Ok(Assignment { target, value: self.expr()? })
    }
}
