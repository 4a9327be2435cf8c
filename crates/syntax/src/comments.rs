//! COMMENT ON.

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, Object, ObjectKind, Policies, Routines};

impl Parser<'_> {
    /// `COMMENT ON kind name IS {'text' | NULL}`
    pub(crate) fn comment(&mut self) -> Result<Admin> {
        let token = self.expect(K::Comment)?;
        self.expect(K::On)?;
        let word = self.peek();
        let mut kind = match word.kind {
            Kind::Key(K::Table) => ObjectKind::Table,
            Kind::Key(K::View) => ObjectKind::View,
            Kind::Key(K::Materialized) if self.kind_behind(1) == Kind::Key(K::View) => {
                self.next();
                ObjectKind::MaterializedView
            }
            Kind::Key(K::Sequence) => ObjectKind::Sequence,
            Kind::Key(K::Index) => ObjectKind::Index,
            Kind::Key(K::Column) => ObjectKind::Column,
            Kind::Key(K::Schema) => ObjectKind::Schema,
            Kind::Key(K::Database) => ObjectKind::Database,
            Kind::Key(K::Role) => ObjectKind::Role,
            Kind::Key(K::Constraint) => ObjectKind::Constraint,
            Kind::Key(K::Type) => ObjectKind::Type,
            Kind::Key(K::Domain) => ObjectKind::Domain,
            Kind::Key(K::Extension) => ObjectKind::Extension,
            Kind::Key(K::Function | K::Procedure | K::Routine | K::Aggregate) => return self.comment_on_routine(),
            Kind::Key(K::Trigger) => return self.comment_on_trigger(),
            Kind::Key(K::Policy) => return self.comment_on_policy(),
            Kind::Key(K::Cast) => return self.comment_on_cast(),
            Kind::Key(K::Rule) => return self.comment_on_rule(),
            Kind::Key(K::Operator) if !matches!(self.kind_behind(1), Kind::Key(K::Class | K::Family)) => {
                return self.comment_on_operator();
            }
            Kind::Key(K::Collation) => return self.comment_on_collation(),
            Kind::Key(K::Text) => return self.comment_on_text_search(),
            Kind::Key(K::Statistics) => return self.comment_on_statistics(),
            Kind::Key(_) => {
                let what = format!("a comment on {}", self.token_text(word));
                return Err(self.refuse_statement(token, &what));
            }
            _ => return Err(self.wrong()),
        };
        self.next();
        let mut name = match kind {
            ObjectKind::Schema | ObjectKind::Database | ObjectKind::Role | ObjectKind::Extension => {
                vec![self.folded()?]
            }
            _ => self.qualified()?,
        };
        if kind == ObjectKind::Constraint {
            self.expect(K::On)?;
            if self.eat(K::Domain) {
                kind = ObjectKind::DomainConstraint;
            }
            let mut table = self.qualified()?;
            table.append(&mut name);
            name = table;
        }
        if kind == ObjectKind::Column && name.len() < 2 {
            self.note_error(Error::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        }
        self.expect(K::Is)?;
        let text = if self.eat(K::Null) { None } else { Some(self.string()?) };
        Ok(Admin::Comment { object: Object { kind, name }, text })
    }

    fn comment_on_routine(&mut self) -> Result<Admin> {
        let Some(kind) = self.eat_routine() else { return Err(self.wrong()) };
        let routine = self.routine_named()?;
        let text = self.comment_text()?;
        Ok(Routines::Comment { kind, routine, text }.into())
    }

    fn comment_on_cast(&mut self) -> Result<Admin> {
        self.expect(K::Cast)?;
        let types = self.cast_types()?;
        let text = self.comment_text()?;
        Ok(Routines::CommentCast { types, text }.into())
    }

    fn comment_on_trigger(&mut self) -> Result<Admin> {
        self.expect(K::Trigger)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        let text = self.comment_text()?;
        Ok(Routines::CommentTrigger { name, table, text }.into())
    }

    fn comment_on_policy(&mut self) -> Result<Admin> {
        self.expect(K::Policy)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        let text = self.comment_text()?;
        Ok(Policies::Comment { name, table, text }.into())
    }

    pub(crate) fn comment_text(&mut self) -> Result<Option<String>> {
        self.expect(K::Is)?;
        if self.eat(K::Null) { Ok(None) } else { self.string().map(Some) }
    }
}
