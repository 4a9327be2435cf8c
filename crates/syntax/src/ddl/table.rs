//! CREATE TABLE, from a list of columns or from a query.

use colibri_types::Result;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{self, CreateTableLike, CreateTableOptions, Ident, ObjectName, Statement};
use sqlparser::tokenizer::Span;

use crate::LIKE_MARK;
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

/// How long a table's rows are kept.
pub(super) struct Persistence {
    pub(super) temporary: bool,
    pub(super) unlogged: bool,
    pub(super) global: Option<bool>,
}

impl Parser<'_> {
    /// Behind `CREATE [TEMP] TABLE`.
    pub(super) fn create_table(&mut self, persistence: Persistence) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let mut table = Self::table_builder(name, persistence);
        table.if_not_exists = if_not_exists;
        let token = self.peek();
        let has_elements = matches!(token.kind, Kind::LeftParen | Kind::Key(K::Of));
        if self.eat(K::Of) {
            self.object_name()?;
            if self.kind() == Kind::LeftParen {
                self.skip_parens()?;
            }
            self.not_supported(token, "a table of a type");
        } else if self.eat_all(&[K::Partition, K::Of]) {
            table.partition_of = Some(self.object_name()?);
            if self.kind() == Kind::LeftParen {
                self.partition_elements(&mut table)?;
            }
            table.for_values = Some(self.partition_bound()?);
        } else if self.are_names_next() {
            let names = self.column_names()?;
            table.columns = names.into_iter().map(Self::untyped_column).collect();
        } else if self.kind() == Kind::LeftParen {
            self.table_elements(&mut table)?;
        }
        self.table_options(&mut table)?;
        if table.partition_of.is_none() && self.eat(K::As) {
            self.source_of_table(&mut table)?;
        } else if table.partition_of.is_some() {
            // The columns are those of another table.
        } else if !has_elements || table.columns.iter().any(Self::is_untyped) {
            return Err(self.wrong());
        }
        Ok(Statement::CreateTable(table.build()))
    }

    fn table_builder(name: ObjectName, persistence: Persistence) -> CreateTableBuilder {
        let Persistence { temporary, unlogged, global } = persistence;
        CreateTableBuilder::new(name).temporary(temporary).unlogged(unlogged).global(global)
    }

    /// `SELECT … INTO t …` as `CREATE TABLE t AS SELECT …`.
    pub(crate) fn create_by_select(into: ast::SelectInto, query: Box<ast::Query>) -> Statement {
        let ast::SelectInto { temporary, unlogged, table: _, targets } = into;
        let mut parts: Vec<Ident> = Vec::new();
        for target in targets {
            match target {
                ast::Expr::CompoundIdentifier(idents) => parts.extend(idents),
                ast::Expr::Identifier(ident) => parts.push(ident),
                _ => {}
            }
        }
        let mut table = Self::table_builder(ObjectName::from(parts), Persistence { temporary, unlogged, global: None });
        table.query = Some(query);
        Statement::CreateTable(table.build())
    }

    fn is_untyped(column: &ast::ColumnDef) -> bool {
        matches!(&column.data_type, ast::DataType::Custom(name, _)
            if matches!(&name.0[..], [ast::ObjectNamePart::Identifier(name)] if name.value == crate::ANY_TYPE_MARK))
    }

    /// Whether names without types stand in the parentheses that come next.
    fn are_names_next(&self) -> bool {
        self.kind() == Kind::LeftParen
            && Self::is_column_name(self.kind_behind(1))
            && matches!(self.kind_behind(2), Kind::Comma | Kind::RightParen)
    }

    fn table_elements(&mut self, table: &mut CreateTableBuilder) -> Result<()> {
        self.expect_kind(Kind::LeftParen)?;
        if self.eat_kind(Kind::RightParen) {
            return Ok(());
        }
        loop {
            let token = self.peek();
            if self.eat(K::Like) {
                let like = self.like_clause()?;
                table.columns.push(crate::like_element(like, token.span()));
            } else if self.is_constraint_next() {
                // There are no rows that would not be checked.
                let (constraint, _) = self.table_constraint()?;
                table.constraints.push(constraint);
            } else {
                table.columns.push(self.column_definition()?);
            }
            if !self.eat_kind(Kind::Comma) {
                break;
            }
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(())
    }

    /// Behind LIKE: a table, and what is taken from it beside columns, as letters behind a mark that
    /// ends the name.
    fn like_clause(&mut self) -> Result<CreateTableLike> {
        let mut name = self.object_name()?;
        let mut letters = String::new();
        loop {
            let including = self.is_next(K::Including);
            if !including && !self.is_next(K::Excluding) {
                break;
            }
            self.next();
            let token = self.next();
            let meant = match token.kind {
                Kind::Key(K::Comments) => "m",
                Kind::Key(K::Constraints) => "c",
                Kind::Key(K::Defaults) => "d",
                Kind::Key(K::Generated) => "g",
                Kind::Key(K::Identity) => "i",
                Kind::Key(K::Indexes) => "x",
                Kind::Key(K::Compression) => "o",
                Kind::Key(K::Storage) => "s",
                Kind::Key(K::All) => "mcdgixos",
                // They are not among what is said of a column.
                Kind::Key(K::Statistics) => "",
                _ => return Err(self.wrong_at(token)),
            };
            letters.retain(|letter| !meant.contains(letter));
            if including {
                letters.push_str(meant);
            }
        }
        if !letters.is_empty() {
            let mark = Self::mark(&format!("{LIKE_MARK}{letters}"), Span::empty());
            name.0.push(ast::ObjectNamePart::Identifier(mark));
        }
        Ok(CreateTableLike { name, defaults: None })
    }

    /// What stands behind the columns.
    fn table_options(&mut self, table: &mut CreateTableBuilder) -> Result<()> {
        if self.eat(K::Inherits) {
            table.inherits = Some(self.in_parens(Self::object_name)?);
        }
        if self.eat_all(&[K::Partition, K::By]) {
            table.partition_by = Some(Box::new(self.partition_key()?));
        }
        let token = self.peek();
        if self.eat(K::Using) {
            self.name()?;
            self.not_supported(token, "USING of a table");
        }
        if self.is_next(K::With) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            table.table_options = CreateTableOptions::With(self.storage_options()?);
        } else if self.is_next(K::Without) {
            self.next();
            // `WITHOUT OIDS` says nothing.
            if !self.is_name_next("oids") {
                self.expect(K::Oids)?;
            } else {
                self.next();
            }
        }
        if self.eat_all(&[K::On, K::Commit]) {
            table.on_commit = Some(match self.kind() {
                Kind::Key(K::Drop) => ast::OnCommit::Drop,
                Kind::Key(K::Delete) => {
                    self.next();
                    ast::OnCommit::DeleteRows
                }
                Kind::Key(K::Preserve) => {
                    self.next();
                    ast::OnCommit::PreserveRows
                }
                _ => return Err(self.wrong()),
            });
            if table.on_commit == Some(ast::OnCommit::Drop) {
                self.next();
            } else {
                self.expect(K::Rows)?;
            }
        }
        if self.eat(K::Tablespace) {
            self.tablespace()?;
        }
        Ok(())
    }

    /// `EXECUTE name (parameters)` as a query: of a function whose name is a mark with the
    /// statement's name behind it.
    fn rows_of_execute(&mut self) -> Result<Box<ast::Query>> {
        let execute = self.execute()?;
        let mut query = crate::parse_query("SELECT * FROM prepared()")?;
        if let ast::SetExpr::Select(select) = &mut *query.body
            && let Some(from) = select.from.first_mut()
            && let ast::TableFactor::Table { name, args: Some(args), .. } = &mut from.relation
        {
            let marked = format!("{}{}", crate::EXECUTE_MARK, execute.name);
            *name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', marked)]);
            let unnamed = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
            args.args = execute.parameters.into_iter().map(unnamed).collect();
        }
        Ok(Box::new(query))
    }

    /// Behind AS: the query that gives the rows.
    fn source_of_table(&mut self, table: &mut CreateTableBuilder) -> Result<()> {
        table.query = Some(if self.is_next(K::Execute) { self.rows_of_execute()? } else { self.query()? });
        if self.eat(K::With) {
            let data = !self.eat(K::No);
            self.expect(K::Data)?;
            table.with_data = Some(ast::WithData { data, statistics: None });
        }
        Ok(())
    }
}
