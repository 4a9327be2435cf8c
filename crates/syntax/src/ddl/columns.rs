//! Columns of tables: their types, defaults, identities and constraints.
//!
//! What is said of the sequence of an identity is kept as text, in a mark that only `ddl` knows:
//!
//! | written | in the tree |
//! | --- | --- |
//! | `AS IDENTITY (START 5)` | `AS IDENTITY (START mark (START 5))` |
//! | `ALTER a SET GENERATED ALWAYS` | `ALTER a ADD GENERATED AS IDENTITY (START mark SET …)` |
//!
//! `COMPRESSION lz4` is an option of the column, `compression`, with the name of the method.

use colibri_types::Result;
use sqlparser::ast::{
    self, ColumnDef, ColumnOption, ColumnOptionDef, ConstraintCharacteristics, Expr, GeneratedAs, Ident,
};
use sqlparser::tokenizer::Span;

use super::constraints::{primary_key_of, unique_of};
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::{COMPRESSION_OPTION, IDENTITY_MARK};

impl Parser<'_> {
    /// A column with its type.
    pub(super) fn column_definition(&mut self) -> Result<ColumnDef> {
        let name = self.name()?;
        let data_type = self.data_type()?;
        let compression = if self.eat(K::Compression) { Some(self.label()?) } else { None };
        if self.is_next(K::Options) {
            return Err(self.wrong());
        }
        let mut options = self.column_options()?;
        options.extend(compression.map(|method| {
            let (key, value) = (Ident::new(COMPRESSION_OPTION), Expr::Identifier(method));
            let option = ColumnOption::Options(vec![ast::SqlOption::KeyValue { key, value }]);
            ColumnOptionDef { name: None, option }
        }));
        Ok(ColumnDef { name, data_type, options })
    }

    /// The options and constraints behind a column's type; a domain has them, too.
    pub(crate) fn column_options(&mut self) -> Result<Vec<ColumnOptionDef>> {
        let mut options = Vec::new();
        loop {
            let token = self.peek();
            let name = if self.eat(K::Constraint) { Some(self.name()?) } else { None };
            match self.column_option()? {
                Some(option) => options.push(ColumnOptionDef { name, option }),
                None if name.is_some() => return Err(self.wrong()),
                None => {
                    // What belongs to the constraint in front of it.
                    let mut found = ConstraintCharacteristics { deferrable: None, initially: None, enforced: None };
                    while self.characteristic(&mut found)? {}
                    if found.deferrable.is_none() && found.initially.is_none() {
                        return Ok(options);
                    }
                    let place = options.last_mut().and_then(|def: &mut ColumnOptionDef| match &mut def.option {
                        ColumnOption::Unique(unique) => Some(&mut unique.characteristics),
                        ColumnOption::PrimaryKey(key) => Some(&mut key.characteristics),
                        ColumnOption::ForeignKey(key) => Some(&mut key.characteristics),
                        _ => None,
                    });
                    match place {
                        Some(place) => *place = Some(found),
                        None => {
                            let what = "misplaced DEFERRABLE clause";
                            let error = colibri_types::Error::new(colibri_types::SqlState::SYNTAX_ERROR, what);
                            return Err(self.error_at(token, error));
                        }
                    }
                }
            }
        }
    }

    fn column_option(&mut self) -> Result<Option<ColumnOption>> {
        let token = self.peek();
        Ok(Some(match token.kind {
            Kind::Key(K::Not) if self.kind_behind(1) != Kind::Key(K::Deferrable) => {
                self.next();
                self.expect(K::Null)?;
                ColumnOption::NotNull
            }
            Kind::Key(K::Null) => {
                self.next();
                ColumnOption::Null
            }
            Kind::Key(K::Default) => {
                self.next();
                ColumnOption::Default(self.simple_expr()?)
            }
            Kind::Key(K::Unique) => {
                self.next();
                let nulls = self.nulls_distinct()?;
                let mut unique = unique_of(None, Vec::new());
                unique.nulls_distinct = match nulls {
                    None => ast::NullsDistinctOption::None,
                    Some(true) => ast::NullsDistinctOption::Distinct,
                    Some(false) => ast::NullsDistinctOption::NotDistinct,
                };
                unique.include = self.key_options()?;
                ColumnOption::Unique(unique)
            }
            Kind::Key(K::Primary) => {
                self.next();
                self.expect(K::Key)?;
                let mut key = primary_key_of(None, Vec::new());
                key.include = self.key_options()?;
                ColumnOption::PrimaryKey(key)
            }
            Kind::Key(K::Check) => {
                let mut check = self.check(None)?;
                check.no_inherit = self.eat_all(&[K::No, K::Inherit]);
                ColumnOption::Check(check)
            }
            Kind::Key(K::References) => ColumnOption::ForeignKey(self.references(None, Vec::new())?),
            Kind::Key(K::Collate) => {
                self.next();
                ColumnOption::Collation(self.object_name()?)
            }
            Kind::Key(K::Generated) => {
                self.next();
                self.generated()?
            }
            _ => return Ok(None),
        }))
    }

    /// Behind GENERATED: an identity, or an expression.
    fn generated(&mut self) -> Result<ColumnOption> {
        let generated_as = self.generated_when()?;
        self.expect(K::As)?;
        if self.eat(K::Identity) {
            let sequence_options = match self.kind() {
                Kind::LeftParen => {
                    let taken = self.taken();
                    self.identity_options()?;
                    vec![self.kept_as_text(taken)]
                }
                _ => Vec::new(),
            };
            return Ok(ColumnOption::Generated {
                generated_as,
                sequence_options: Some(sequence_options),
                generation_expr: None,
                generation_expr_mode: None,
                generated_keyword: true,
            });
        }
        self.expect_kind(Kind::LeftParen)?;
        let expr = self.expr()?;
        self.expect_kind(Kind::RightParen)?;
        self.expect(K::Stored)?;
        Ok(ColumnOption::Generated {
            generated_as: GeneratedAs::ExpStored,
            sequence_options: None,
            generation_expr: Some(expr),
            generation_expr_mode: Some(ast::GeneratedExpressionMode::Stored),
            generated_keyword: true,
        })
    }

    /// ALWAYS or BY DEFAULT.
    fn generated_when(&mut self) -> Result<GeneratedAs> {
        if self.eat(K::Always) {
            return Ok(GeneratedAs::Always);
        }
        self.expect_all(&[K::By, K::Default])?;
        Ok(GeneratedAs::ByDefault)
    }

    /// The text of what was taken, in place of the number of START.
    fn kept_as_text(&self, taken: usize) -> ast::SequenceOptions {
        let text = format!("{IDENTITY_MARK}{}", self.text_since(taken));
        let value = ast::Value::Placeholder(text);
        ast::SequenceOptions::StartWith(Expr::Value(ast::ValueWithSpan { value, span: Span::empty() }), false)
    }

    /// `ALTER COLUMN a SET GENERATED …` and its like, if it comes next; also what is said of how a
    /// column is stored.
    pub(super) fn identity_change(&mut self) -> Result<Option<ast::AlterColumnOperation>> {
        let behind = self.kind_behind(1);
        let is_change = match self.kind() {
            Kind::Key(K::Add) => behind == Kind::Key(K::Generated),
            Kind::Key(K::Drop) => behind == Kind::Key(K::Identity),
            Kind::Key(K::Restart) => true,
            Kind::Key(K::Set) => matches!(
                behind,
                Kind::Key(
                    K::Generated
                        | K::As
                        | K::Increment
                        | K::Minvalue
                        | K::Maxvalue
                        | K::No
                        | K::Start
                        | K::Restart
                        | K::Cache
                        | K::Cycle
                        | K::Owned
                        | K::Sequence
                        | K::Statistics
                        | K::Storage
                        | K::Compression
                ) | Kind::LeftParen
            ),
            Kind::Key(K::Reset) => behind == Kind::LeftParen,
            _ => false,
        };
        if !is_change {
            return Ok(None);
        }
        let is_stored =
            behind == Kind::LeftParen || matches!(behind, Kind::Key(K::Statistics | K::Storage | K::Compression));
        let taken = self.taken();
        if is_stored {
            while !matches!(self.kind(), Kind::End | Kind::Bad | Kind::Semicolon | Kind::Comma) {
                match self.kind() {
                    Kind::LeftParen => self.skip_parens()?,
                    _ => _ = self.next(),
                }
            }
        } else {
            self.changed_identity()?;
        }
        let sequence_options = Some(vec![self.kept_as_text(taken)]);
        Ok(Some(ast::AlterColumnOperation::AddGenerated { generated_as: None, sequence_options }))
    }

    /// A column whose type is told by a query.
    pub(super) fn untyped_column(name: Ident) -> ColumnDef {
        let mark = Self::mark(crate::ANY_TYPE_MARK, name.span);
        let data_type = ast::DataType::Custom(ast::ObjectName::from(vec![mark]), Vec::new());
        ColumnDef { name, data_type, options: Vec::new() }
    }
}
