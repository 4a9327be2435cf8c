//! ALTER TABLE, and OWNER TO and RENAME TO of other relations and of schemas.

use colibri_types::Result;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation as Operation, ReplicaIdentity};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, Object, ObjectKind, OnRules, Routines, Statement, ViewChange, fold};

impl Parser<'_> {
    pub(crate) fn alter(&mut self) -> Result<Statement> {
        let token = self.expect(K::Alter)?;
        if let Some(word) = self.eat_role() {
            return self.alter_role(word).map(Statement::from);
        }
        match self.kind() {
            Kind::Key(K::Table) => {
                self.next();
                self.alter_table(token, ObjectKind::Relation)
            }
            Kind::Key(K::Materialized) if self.kind_behind(1) == Kind::Key(K::View) => {
                self.next();
                self.next();
                self.alter_table(token, ObjectKind::MaterializedView)
            }
            Kind::Key(K::Index) => {
                self.next();
                self.alter_index(token).map(Statement::from)
            }
            Kind::Key(K::Type) => self.alter_user_type(token).map(Statement::from),
            Kind::Key(K::Domain) => self.alter_domain().map(Statement::from),
            Kind::Key(K::Collation) => self.alter_collation().map(Statement::from),
            Kind::Key(K::Text) => self.alter_text_search().map(Statement::from),
            Kind::Key(K::Statistics) => self.alter_statistics().map(Statement::from),
            Kind::Key(K::Extension) => self.alter_extension(token).map(Statement::from),
            Kind::Key(K::View | K::Sequence | K::Schema) => self.alter_object(token).map(Statement::from),
            Kind::Key(K::Function | K::Procedure | K::Routine | K::Aggregate) => match self.eat_routine() {
                Some(kind) => self.alter_routine(kind).map(Statement::from),
                None => Err(self.wrong()),
            },
            Kind::Key(K::Trigger) => self.alter_trigger().map(Statement::from),
            Kind::Key(K::Operator) if !matches!(self.kind_behind(1), Kind::Key(K::Class | K::Family)) => {
                self.alter_operator().map(Statement::from)
            }
            Kind::Key(K::Rule) => self.alter_rule().map(Statement::from),
            Kind::Key(K::Policy) => self.alter_policy().map(Statement::from),
            Kind::Key(K::Default) if self.kind_behind(1) == Kind::Key(K::Privileges) => {
                self.alter_default_privileges().map(Statement::from)
            }
            Kind::Key(K::Database) => {
                self.next();
                self.alter_database().map(Statement::from)
            }
            _ => Err(self.other_kind(token, "ALTER")),
        }
    }

    fn alter_index(&mut self, token: Token) -> Result<Admin> {
        if self.is_next(K::All) {
            return Err(self.refuse_statement(token, "ALTER INDEX ALL"));
        }
        let if_exists = self.if_exists()?;
        let name = self.qualified()?;
        let object = Object { kind: ObjectKind::Index, name };
        if let Some(change) = self.owner_or_name(&object, if_exists)? {
            return Ok(change);
        }
        if self.eat_all(&[K::Attach, K::Partition]) {
            return Ok(Admin::AttachIndex { index: object.name, partition: self.qualified()? });
        }
        if self.is_next(K::Set) && self.kind_behind(1) == Kind::Key(K::Schema) {
            self.next();
            return Err(self.wrong());
        }
        if self.is_next(K::Set) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            let options = self.index_options()?;
            return Ok(Admin::AlterIndex { index: object.name, if_exists, options, column: None });
        }
        if self.is_next(K::Reset) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            self.skip_parens()?;
            return Ok(Admin::AlterIndex { index: object.name, if_exists, options: Vec::new(), column: None });
        }
        if self.eat(K::Alter) {
            self.eat(K::Column);
            let column = self.integer()?;
            self.expect_all(&[K::Set, K::Statistics])?;
            let target = self.integer()?;
            if target < -1 {
                let message = format!("statistics target {target} is too low");
                self.note_error(colibri_types::Error::new(colibri_types::SqlState::BAD_PARAMETER, message));
            }
            let column = Some(column);
            return Ok(Admin::AlterIndex { index: object.name, if_exists, options: Vec::new(), column });
        }
        let Kind::Key(_) = self.kind() else { return Err(self.wrong()) };
        let what = format!("ALTER INDEX {}", self.token_text(self.peek()).to_ascii_uppercase());
        Err(self.refuse_statement(token, &what))
    }

    /// `ALTER {VIEW | SEQUENCE | SCHEMA} …`
    fn alter_object(&mut self, token: Token) -> Result<Admin> {
        let word = self.next();
        let kind = match word.kind {
            Kind::Key(K::View) => ObjectKind::View,
            Kind::Key(K::Sequence) => ObjectKind::Sequence,
            _ => ObjectKind::Schema,
        };
        let if_exists = self.if_exists()?;
        let object = Object { kind, name: self.qualified()? };
        if let Some(change) = self.owner_or_name(&object, if_exists)? {
            return Ok(change);
        }
        if kind == ObjectKind::Sequence {
            let options = self.sequence_change()?;
            return Ok(Admin::AlterSequence { name: object.name, if_exists, options });
        }
        if kind == ObjectKind::View
            && let Some(change) = self.view_change()?
        {
            return Ok(Admin::AlterView { name: object.name, if_exists, change });
        }
        if self.is_over() {
            return Err(self.wrong());
        }
        let what = format!("ALTER {}", self.token_text(word).to_ascii_uppercase());
        Err(self.refuse_statement(token, &what))
    }

    /// What ALTER VIEW says beside an owner, a name and a schema, if that comes next.
    fn view_change(&mut self) -> Result<Option<ViewChange>> {
        if self.eat(K::Alter) {
            self.eat(K::Column);
            let column = self.folded()?;
            if self.eat_all(&[K::Drop, K::Default]) {
                return Ok(Some(ViewChange::DropDefault { column }));
            }
            self.expect_all(&[K::Set, K::Default])?;
            return Ok(Some(ViewChange::SetDefault { column, value: Box::new(self.expr()?) }));
        }
        if self.is_next(K::Set) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            return Ok(Some(ViewChange::SetOptions(self.storage_options()?)));
        }
        if self.eat(K::Reset) {
            let names = self.storage_options()?;
            return Ok(Some(ViewChange::ResetOptions(names)));
        }
        Ok(None)
    }

    /// `OWNER TO role`, `RENAME TO name` and `SET SCHEMA name`, if one of them comes next.
    fn owner_or_name(&mut self, object: &Object, if_exists: bool) -> Result<Option<Admin>> {
        let object = object.clone();
        if object.kind != ObjectKind::Schema && self.eat_all(&[K::Rename, K::To]) {
            return Ok(Some(Admin::RenameRelation { object, if_exists, to: self.folded()? }));
        }
        if object.kind == ObjectKind::View && self.eat(K::Rename) {
            self.eat(K::Column);
            let column = self.folded()?;
            self.expect(K::To)?;
            let change = ViewChange::RenameColumn { column, to: self.folded()? };
            return Ok(Some(Admin::AlterView { name: object.name, if_exists, change }));
        }
        if !matches!(object.kind, ObjectKind::Schema | ObjectKind::Index) && self.eat_all(&[K::Set, K::Schema]) {
            return Ok(Some(Admin::SetSchema { object, if_exists, schema: self.folded()? }));
        }
        if self.eat_all(&[K::Owner, K::To]) {
            return Ok(Some(Admin::Owner { object, if_exists, to: self.role_name()? }));
        }
        Ok(None)
    }

    fn alter_table(&mut self, token: Token, kind: ObjectKind) -> Result<Statement> {
        if self.is_next(K::All) {
            return Err(self.refuse_statement(token, "ALTER TABLE ALL"));
        }
        let if_exists = self.if_exists()?;
        let only = self.is_next(K::Only);
        let name = self.relation_name()?;
        // More changes may follow an owner.
        let is_alone = !self.is_next(K::Owner) || matches!(self.behind_role(), Kind::Semicolon | Kind::End);
        if is_alone {
            let parts = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
            let object = Object { kind, name: parts };
            if let Some(change) = self.owner_or_name(&object, if_exists)? {
                return Ok(change.into());
            }
        }
        if let Some((rule, state)) = self.enable_rule()? {
            let relation = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
            return Ok(Admin::from(Routines::Rules(OnRules::Enable { relation, name: rule, state })).into());
        }
        if let Some((which, state)) = self.enable_trigger()? {
            let table = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
            return Ok(Admin::from(Routines::EnableTrigger { table, if_exists, only, which, state }).into());
        }
        if let Some(change) = self.partition_change()? {
            let parts = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
            return Ok(Admin::ChangePartitions { table: parts, if_exists, change }.into());
        }
        let operations = match self.kind() {
            Kind::Key(K::Rename) => vec![self.rename()?],
            _ => self.list(Self::alter_operation)?,
        };
        let end_token = self.attached(self.last());
        let altered = ast::Statement::AlterTable(ast::AlterTable {
            name,
            if_exists,
            only,
            operations,
            location: None,
            on_cluster: None,
            table_type: (kind == ObjectKind::MaterializedView).then_some(ast::AlterTableType::Dynamic),
            end_token,
        });
        Ok(altered.into())
    }

    /// What follows `OWNER TO role`.
    fn behind_role(&self) -> Kind {
        let is_unicode = self.kind_behind(2) == Kind::UnicodeName && self.kind_behind(3) == Kind::Key(K::Uescape);
        self.kind_behind(if is_unicode { 5 } else { 3 })
    }

    fn rename(&mut self) -> Result<Operation> {
        self.expect(K::Rename)?;
        if self.eat(K::Constraint) {
            let old_name = self.name()?;
            self.expect(K::To)?;
            return Ok(Operation::RenameConstraint { old_name, new_name: self.name()? });
        }
        self.eat(K::Column);
        let old_column_name = self.name()?;
        self.expect(K::To)?;
        Ok(Operation::RenameColumn { old_column_name, new_column_name: self.name()? })
    }

    fn alter_operation(&mut self) -> Result<Operation> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Add) => self.add(),
            Kind::Key(K::Drop) => self.drop_part(),
            Kind::Key(K::Alter) => {
                self.next();
                if self.is_next(K::Constraint) {
                    return self.unknown_operation(token);
                }
                self.eat(K::Column);
                if self.kind() == Kind::Integer {
                    return self.unknown_operation(token);
                }
                let column_name = self.name()?;
                self.alter_column(token, column_name)
            }
            Kind::Key(K::Validate) => {
                self.next();
                self.expect(K::Constraint)?;
                Ok(Operation::ValidateConstraint { name: self.name()? })
            }
            Kind::Key(K::Owner) => {
                self.next();
                self.expect(K::To)?;
                let new_owner = match self.kind() {
                    Kind::Key(K::CurrentRole) => ast::Owner::CurrentRole,
                    Kind::Key(K::CurrentUser) => ast::Owner::CurrentUser,
                    Kind::Key(K::SessionUser) => ast::Owner::SessionUser,
                    _ => return Ok(Operation::OwnerTo { new_owner: ast::Owner::Ident(self.name()?) }),
                };
                self.next();
                Ok(Operation::OwnerTo { new_owner })
            }
            Kind::Key(K::Enable | K::Disable | K::Force | K::No) => match self.row_security() {
                Some(operation) => Ok(operation),
                None => self.unknown_operation(token),
            },
            Kind::Key(K::Replica) => self.replica_identity(),
            Kind::Key(K::Set) => self.set_of_table(token),
            Kind::Key(K::Reset) => {
                self.next();
                Ok(Operation::SetTblProperties { table_properties: self.storage_options()? })
            }
            _ => self.unknown_operation(token),
        }
    }

    /// `{ENABLE | DISABLE | FORCE | NO FORCE} ROW LEVEL SECURITY`, if it comes next.
    fn row_security(&mut self) -> Option<Operation> {
        const ALL: [(&[K], Operation); 4] = [
            (&[K::Enable, K::Row, K::Level, K::Security], Operation::EnableRowLevelSecurity),
            (&[K::Disable, K::Row, K::Level, K::Security], Operation::DisableRowLevelSecurity),
            (&[K::Force, K::Row, K::Level, K::Security], Operation::ForceRowLevelSecurity),
            (&[K::No, K::Force, K::Row, K::Level, K::Security], Operation::NoForceRowLevelSecurity),
        ];
        ALL.into_iter().find(|(words, _)| self.eat_all(words)).map(|(_, operation)| operation)
    }

    /// Takes words that change nothing here.
    fn nothing_to_do(&mut self, words: usize) -> Result<Operation> {
        (0..words).for_each(|_| _ = self.next());
        Ok(Operation::SetLogged)
    }

    fn replica_identity(&mut self) -> Result<Operation> {
        self.expect_all(&[K::Replica, K::Identity])?;
        let identity = match self.kind() {
            Kind::Key(K::Nothing) => ReplicaIdentity::Nothing,
            Kind::Key(K::Full) => ReplicaIdentity::Full,
            Kind::Key(K::Default) => ReplicaIdentity::Default,
            _ => {
                self.expect_all(&[K::Using, K::Index])?;
                let index = ReplicaIdentity::Index(self.name()?);
                return Ok(Operation::ReplicaIdentity { identity: index });
            }
        };
        self.next();
        Ok(Operation::ReplicaIdentity { identity })
    }

    fn set_of_table(&mut self, token: Token) -> Result<Operation> {
        self.expect(K::Set)?;
        match self.kind() {
            Kind::LeftParen => Ok(Operation::SetOptionsParens { options: self.storage_options()? }),
            Kind::Key(K::Logged) => {
                self.next();
                Ok(Operation::SetLogged)
            }
            Kind::Key(K::Unlogged) => {
                self.next();
                Ok(Operation::SetUnlogged)
            }
            Kind::Key(K::Without) if self.kind_behind(1) == Kind::Key(K::Cluster) => self.nothing_to_do(2),
            Kind::Key(K::Schema | K::Tablespace | K::Without | K::Access) => self.unknown_operation(token),
            _ => Err(self.wrong()),
        }
    }

    /// An operation that is not supported: takes it up to the next comma.
    fn unknown_operation(&mut self, token: Token) -> Result<Operation> {
        let known = matches!(
            token.kind,
            Kind::Key(
                K::Alter
                    | K::Set
                    | K::Reset
                    | K::Enable
                    | K::Disable
                    | K::Cluster
                    | K::Inherit
                    | K::No
                    | K::Not
                    | K::Of
                    | K::Force
                    | K::Attach
                    | K::Detach
                    | K::Options
            )
        );
        if !known {
            return Err(self.wrong());
        }
        let taken = self.taken();
        if self.last().start < token.start {
            self.next();
        }
        loop {
            match self.kind() {
                Kind::End | Kind::Semicolon | Kind::Comma => break,
                Kind::Bad => return Err(self.wrong()),
                Kind::LeftParen => self.skip_parens()?,
                _ => _ = self.next(),
            }
        }
        let written = &self.text_since(taken.min(self.taken().saturating_sub(1)));
        let what = format!("ALTER TABLE {}", written.trim_end_matches(';'));
        self.not_supported(token, &what);
        Ok(Operation::SetLogged)
    }

    fn add(&mut self) -> Result<Operation> {
        self.expect(K::Add)?;
        if self.is_constraint_next() {
            let (constraint, not_valid) = self.table_constraint()?;
            return Ok(Operation::AddConstraint { constraint, not_valid });
        }
        let column_keyword = self.eat(K::Column);
        let if_not_exists = self.if_not_exists()?;
        let column_def = self.column_definition()?;
        Ok(Operation::AddColumn { column_keyword, if_not_exists, column_def, column_position: None })
    }

    fn drop_part(&mut self) -> Result<Operation> {
        self.expect(K::Drop)?;
        if self.eat(K::Constraint) {
            let if_exists = self.if_exists()?;
            let name = self.name()?;
            return Ok(Operation::DropConstraint { if_exists, name, drop_behavior: self.drop_behavior() });
        }
        let has_column_keyword = self.eat(K::Column);
        let if_exists = self.if_exists()?;
        let column_names = vec![self.name()?];
        let drop_behavior = self.drop_behavior();
        Ok(Operation::DropColumn { has_column_keyword, column_names, if_exists, drop_behavior })
    }

    fn alter_column(&mut self, token: Token, column_name: ast::Ident) -> Result<Operation> {
        if let Some(op) = self.identity_change()? {
            return Ok(Operation::AlterColumn { column_name, op });
        }
        let behind = self.kind_behind(1);
        let op = match (self.kind(), behind) {
            (Kind::Key(K::Set), Kind::Key(K::Default)) => {
                self.next();
                self.next();
                AlterColumnOperation::SetDefault { value: self.expr()? }
            }
            (Kind::Key(K::Drop), Kind::Key(K::Default)) => {
                self.next();
                self.next();
                AlterColumnOperation::DropDefault
            }
            (Kind::Key(K::Set), Kind::Key(K::Not)) => {
                self.next();
                self.expect_all(&[K::Not, K::Null])?;
                AlterColumnOperation::SetNotNull
            }
            (Kind::Key(K::Drop), Kind::Key(K::Not)) => {
                self.next();
                self.expect_all(&[K::Not, K::Null])?;
                AlterColumnOperation::DropNotNull
            }
            (Kind::Key(K::Set), Kind::Key(K::Data)) | (Kind::Key(K::Type), _) => {
                let had_set = self.eat(K::Set);
                if had_set {
                    self.expect(K::Data)?;
                }
                self.expect(K::Type)?;
                let data_type = self.data_type()?;
                let at = self.peek();
                if self.eat(K::Collate) {
                    self.object_name()?;
                    self.not_supported(at, "COLLATE in ALTER TABLE");
                }
                let using = if self.eat(K::Using) { Some(self.expr()?) } else { None };
                AlterColumnOperation::SetDataType { data_type, using, had_set }
            }
            (Kind::Key(K::Drop), Kind::Key(K::Expression)) => return self.unknown_operation(token),
            (Kind::Key(K::Set | K::Drop | K::Reset), _) => {
                self.next();
                return Err(self.wrong());
            }
            _ => return Err(self.wrong()),
        };
        Ok(Operation::AlterColumn { column_name, op })
    }
}
