//! The functions and types of extensions that are objects of the catalogue: how they are made, moved
//! and dropped with their extension, and that they go with nothing else.

use std::sync::Arc;

use colibri_catalog::cluster::{BOOTSTRAP_ROLE, RoleId};
use colibri_catalog::{
    Argument, ArgumentMode, Catalog, Change, Composite, Extension, Field, ObjectId, Routine, RoutineLanguage,
    RoutineType, RoutineVolatility, UserType, UserTypeKind,
};
use colibri_types::Type::{Float8, Int4, Record, Text};
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::{CompactString, format_compact};

use super::drop::{Cascade, depended_on};
use super::{Session, topics};

/// What a function gives rows of.
#[derive(Clone, Copy)]
enum Gives {
    Values(Type),
    /// Rows of the type `tablefunc_crosstab_N`.
    Crosstab(usize),
}

/// A function of an extension.
struct Function {
    name: &'static str,
    args: &'static [Type],
    gives: Gives,
    volatility: RoutineVolatility,
    /// What is called.
    runs: &'static str,
}

const fn stable(name: &'static str, args: &'static [Type], gives: Gives, runs: &'static str) -> Function {
    Function { name, args, gives, volatility: RoutineVolatility::Stable, runs }
}

const ROWS: Gives = Gives::Values(Record);

const TABLEFUNC: [Function; 11] = [
    Function {
        name: "normal_rand",
        args: &[Int4, Float8, Float8],
        gives: Gives::Values(Float8),
        volatility: RoutineVolatility::Volatile,
        runs: "normal_rand",
    },
    stable("crosstab", &[Text], ROWS, "crosstab"),
    stable("crosstab2", &[Text], Gives::Crosstab(2), "crosstab"),
    stable("crosstab3", &[Text], Gives::Crosstab(3), "crosstab"),
    stable("crosstab4", &[Text], Gives::Crosstab(4), "crosstab"),
    stable("crosstab", &[Text, Int4], ROWS, "crosstab"),
    stable("crosstab", &[Text, Text], ROWS, "crosstab_hash"),
    stable("connectby", &[Text, Text, Text, Text, Int4, Text], ROWS, "connectby_text"),
    stable("connectby", &[Text, Text, Text, Text, Int4], ROWS, "connectby_text"),
    stable("connectby", &[Text, Text, Text, Text, Text, Int4, Text], ROWS, "connectby_text_serial"),
    stable("connectby", &[Text, Text, Text, Text, Text, Int4], ROWS, "connectby_text_serial"),
];

impl Session {
    /// Makes the objects of an extension that are in the catalogue, and notes them with it.
    pub(super) fn create_members(&mut self, extension: &mut Extension) -> Result<()> {
        if extension.name == topics::EXTENSION {
            return self.create_topic_functions(extension);
        }
        if extension.name != "tablefunc" {
            return Ok(());
        }
        // What a trusted extension brings belongs to the first role if its creator is an ordinary one.
        let owner = if self.authority().is_superuser() { extension.owner } else { BOOTSTRAP_ROLE };
        let mut relations = [0; 5];
        for function in &TABLEFUNC {
            let result = match function.gives {
                Gives::Values(ty) => RoutineType::Value(ty.into()),
                Gives::Crosstab(count) => {
                    if relations[count] == 0 {
                        relations[count] = self.create_crosstab_type(extension, owner, count)?;
                    }
                    RoutineType::RowOf(relations[count])
                }
            };
            self.create_compiled(extension, owner, function, result)?;
        }
        Ok(())
    }

    fn create_compiled(
        &mut self,
        extension: &mut Extension,
        owner: RoleId,
        function: &Function,
        result: RoutineType,
    ) -> Result<()> {
        let schema = extension.schema.clone();
        let argument = |&ty: &Type| Argument {
            name: CompactString::default(),
            mode: ArgumentMode::In,
            ty: RoutineType::Value(ty.into()),
            default: None,
        };
        let mut routine = Routine {
            id: 0,
            acl: self.catalog().privileges_of_new('f', owner, Some(&schema)),
            schema,
            name: function.name.into(),
            owner,
            is_procedure: false,
            language: RoutineLanguage::C,
            args: function.args.iter().map(argument).collect(),
            result,
            set: true,
            body: function.runs.to_owned(),
            standard: None,
            strict: true,
            volatility: function.volatility,
            security_definer: false,
            leakproof: false,
            cost: None,
            rows: None,
            parallel: 'u',
            settings: Vec::new(),
            aggregate: None,
        };
        if self.same_routine(&routine).is_some() {
            let message = format!("function \"{}\" already exists with same argument types", routine.name);
            return Err(Error::new(SqlState("42723"), message));
        }
        routine.id = self.new_id_in(&extension.schema)?;
        extension.members.push(routine.id);
        self.change(vec![Change::PutRoutine(routine)])
    }

    /// `tablefunc_crosstab_N`: the name of a row and so many values.
    fn create_crosstab_type(&mut self, extension: &mut Extension, owner: RoleId, count: usize) -> Result<ObjectId> {
        let (schema, name) = (extension.schema.clone(), format_compact!("tablefunc_crosstab_{count}"));
        if self.catalog().relation(&schema, &name).is_some() {
            return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        self.expect_free_type(&schema, &name)?;
        let values = (1..=count).map(|at| format_compact!("category_{at}"));
        let names = std::iter::once(CompactString::const_new("row_name")).chain(values);
        let field = |(at, name): (u16, CompactString)| Field { number: at + 1, name, ty: Text.into(), collation: None };
        let fields: Vec<Field> = (0..).zip(names).map(field).collect();
        let (_, txn) = self.catalog_and_txn()?;
        let id = Catalog::new_ids(txn, 3)?;
        let composite = Composite { relation: id + 2, last_number: fields.len() as u16, fields };
        let acl = self.catalog().privileges_of_new('T', owner, Some(&schema));
        let kind = UserTypeKind::Composite(composite);
        extension.members.push(id);
        self.change(vec![Change::PutType(UserType {
            acl,
            id,
            array: id + 1,
            schema,
            name,
            owner,
            kind,
            handle: None,
        })])?;
        Ok(id + 2)
    }

    fn members_of(&self, extension: &Extension) -> (Vec<Arc<Routine>>, Vec<Arc<UserType>>) {
        let routines = extension.members.iter().filter_map(|&id| self.catalog().routine(id).cloned()).collect();
        let types = self.catalog().types().filter(|ty| extension.members.contains(&ty.id)).cloned().collect();
        (routines, types)
    }

    /// Drops the objects of an extension that are in the catalogue.
    pub(super) fn drop_members(&mut self, extension: &Extension, cascade: &mut Cascade) -> Result<()> {
        let (routines, types) = self.members_of(extension);
        let mut told = Vec::new();
        if !cascade.allows() {
            for routine in &routines {
                told.extend(self.told_of_routine(routine)?);
            }
        }
        let mut along = Cascade::new(true);
        for routine in &routines {
            self.drop_routine(routine, &mut along)?;
        }
        for ty in &types {
            told.extend(self.dependents_told(ty, cascade)?);
        }
        // The statement takes back what was dropped so far.
        if !told.is_empty() {
            return Err(depended_on(&format!("extension {}", extension.name), &told));
        }
        for ty in &types {
            self.drop_type(ty, &[], &mut along)?;
        }
        cascade.append(along);
        Ok(())
    }

    /// Moves the objects of an extension that are in the catalogue to another schema.
    pub(super) fn move_members(&mut self, extension: &Extension, schema: &CompactString) -> Result<()> {
        let (routines, types) = self.members_of(extension);
        for ty in types {
            self.move_type(&ty, schema)?;
        }
        for routine in routines {
            self.move_routine(&routine, schema)?;
        }
        Ok(())
    }

    /// Fails if an object came with an extension, without which it cannot be dropped.
    pub(super) fn expect_no_member(&self, id: ObjectId, described: impl FnOnce() -> String) -> Result<()> {
        let Some(extension) = self.catalog().extension_of(id) else { return Ok(()) };
        let message = format!("cannot drop {} because extension {} requires it", described(), extension.name);
        Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
            .hint(format!("You can drop extension {} instead.", extension.name)))
    }
}
