//! CREATE VIEW, and what makes and fills a materialized one. That a view is recursive is said by
//! SECURE in the tree, WITH NO DATA by WITH NO SCHEMA BINDING.

use colibri_types::Result;
use sqlparser::ast::{self, CreateTableOptions, Statement};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::Admin;

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
        let mut options = match self.eat(K::With) {
            true => self.storage_options()?,
            false => Vec::new(),
        };
        self.expect(K::As)?;
        let query = self.query()?;
        let token = self.peek();
        if self.eat(K::With) {
            let local = !self.eat(K::Cascaded) && self.eat(K::Local);
            self.expect_all(&[K::Check, K::Option])?;
            // As an option of the view, which it is another spelling of.
            let value = ast::Value::SingleQuotedString(if local { "local" } else { "cascaded" }.to_owned());
            let span = token.span();
            options.push(ast::SqlOption::KeyValue {
                key: ast::Ident::with_quote('"', "check_option"),
                value: ast::Expr::Value(ast::ValueWithSpan { value, span }),
            });
        }
        let options = if options.is_empty() { CreateTableOptions::None } else { CreateTableOptions::With(options) };
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
        self.expect(K::Materialized)?;
        self.expect(K::View)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let columns = self.maybe_in_parens(view_column)?;
        let at = self.peek();
        if self.eat(K::Using) {
            self.name()?;
        }
        let options = match self.eat(K::With) {
            true => CreateTableOptions::With(self.storage_options()?),
            false => CreateTableOptions::None,
        };
        if self.eat(K::Tablespace) {
            self.tablespace()?;
        }
        if !matches!(self.kind(), Kind::Key(K::As)) {
            return Err(self.wrong_at(if self.kind() == Kind::End { self.peek() } else { at }));
        }
        self.next();
        let query = self.query()?;
        let no_data = self.eat(K::With) && {
            let no_data = self.eat(K::No);
            self.expect(K::Data)?;
            no_data
        };
        Ok(Statement::CreateView(ast::CreateView {
            or_alter: false,
            or_replace: false,
            materialized: true,
            secure: false,
            name,
            name_before_not_exists: false,
            columns,
            query,
            options,
            cluster_by: Vec::new(),
            comment: None,
            with_no_schema_binding: no_data,
            if_not_exists,
            temporary: false,
            copy_grants: false,
            to: None,
            params: None,
        }))
    }

    /// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]`
    pub(crate) fn refresh(&mut self) -> Result<Admin> {
        self.expect_all(&[K::Refresh, K::Materialized, K::View])?;
        let concurrently = self.eat(K::Concurrently);
        let name = self.qualified()?;
        let mut with_data = true;
        if self.eat(K::With) {
            with_data = !self.eat(K::No);
            self.expect(K::Data)?;
        }
        Ok(Admin::Refresh { name, concurrently, with_data })
    }
}

fn view_column(parser: &mut Parser<'_>) -> Result<ast::ViewColumnDef> {
    Ok(ast::ViewColumnDef { name: parser.name()?, data_type: None, options: None })
}
