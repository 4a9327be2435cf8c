//! CREATE VIEW. That a view is recursive is said by SECURE in the tree.

use colibri_types::Result;
use sqlparser::ast::{self, CreateTableOptions, Statement};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// Behind `CREATE [OR REPLACE] [TEMP]`.
    pub(super) fn create_view(&mut self, or_replace: bool, temporary: bool) -> Result<Statement> {
        let recursive = self.eat(K::Recursive);
        self.expect(K::View)?;
        let name = self.object_name()?;
        let columns = match recursive {
            true => self.in_parens(view_column)?,
            false => self.maybe_in_parens(view_column)?,
        };
        let options = match self.eat(K::With) {
            true => CreateTableOptions::With(self.storage_options()?),
            false => CreateTableOptions::None,
        };
        self.expect(K::As)?;
        let query = self.query()?;
        let token = self.peek();
        if self.eat(K::With) {
            if !self.eat(K::Cascaded) {
                self.eat(K::Local);
            }
            self.expect_all(&[K::Check, K::Option])?;
            self.not_supported(token, "WITH CHECK OPTION");
        }
        Ok(Statement::CreateView(ast::CreateView {
            or_alter: false,
            or_replace,
            materialized: false,
            secure: recursive,
            name,
            name_before_not_exists: false,
            columns,
            query,
            options,
            cluster_by: Vec::new(),
            comment: None,
            with_no_schema_binding: false,
            if_not_exists: false,
            temporary,
            copy_grants: false,
            to: None,
            params: None,
        }))
    }

    /// Behind `CREATE [UNLOGGED]`.
    pub(super) fn create_materialized_view(&mut self) -> Result<Statement> {
        let token = self.expect(K::Materialized)?;
        self.expect(K::View)?;
        self.if_not_exists()?;
        self.object_name()?;
        self.maybe_in_parens(Self::name)?;
        let at = self.peek();
        if self.eat(K::Using) {
            self.name()?;
        }
        if self.eat(K::With) {
            self.storage_options()?;
        }
        if self.eat(K::Tablespace) {
            self.tablespace()?;
        }
        if !matches!(self.kind(), Kind::Key(K::As)) {
            return Err(self.wrong_at(if self.kind() == Kind::End { self.peek() } else { at }));
        }
        self.next();
        self.query()?;
        Err(self.refuse_statement(token, "a materialized view"))
    }
}

fn view_column(parser: &mut Parser<'_>) -> Result<ast::ViewColumnDef> {
    Ok(ast::ViewColumnDef { name: parser.name()?, data_type: None, options: None })
}
