//! CREATE, ALTER and DROP of functions and procedures, DO and CALL.
//!
//! ```text
//! CREATE [OR REPLACE] {FUNCTION | PROCEDURE} name ([argument, …])
//!     [RETURNS {[SETOF] type | TABLE (column, …)}] option … [RETURN expression | BEGIN ATOMIC … END]
//! DROP {FUNCTION | PROCEDURE | ROUTINE} [IF EXISTS] name [(argument, …)], … [CASCADE | RESTRICT]
//! ALTER {FUNCTION | PROCEDURE | ROUTINE} name [(argument, …)] change
//! DO [LANGUAGE name] text
//! CALL name ([value, …])
//! ```

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{
    Admin, AggregateValue, ArgMode, Call, CreateAggregate, CreateRoutine, Returned, RoutineArg, RoutineBody,
    RoutineChange, RoutineKind, RoutineNamed, RoutineOption, Routines, SettingChange, Statement, TypeGiven, fold,
};

fn conflicting() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
}

impl Parser<'_> {
    /// Takes FUNCTION, PROCEDURE or ROUTINE, if one comes next.
    pub(crate) fn eat_routine(&mut self) -> Option<RoutineKind> {
        Some(match self.eat_any(&[K::Function, K::Procedure, K::Routine, K::Aggregate])? {
            0 => RoutineKind::Function,
            1 => RoutineKind::Procedure,
            2 => RoutineKind::Routine,
            _ => RoutineKind::Aggregate,
        })
    }

    /// `CREATE [OR REPLACE] AGGREGATE name (argument, … | *) (option = value, …)`; in the old form the
    /// arguments are an option.
    pub(crate) fn create_aggregate(&mut self, or_replace: bool) -> Result<Admin> {
        self.expect(K::Aggregate)?;
        let name = self.qualified_function()?;
        self.expect_kind(Kind::LeftParen)?;
        let is_old = Self::is_type_name(self.kind()) && self.kind_behind(1) == Kind::Equal;
        let mut args = Vec::new();
        if !is_old {
            if !self.eat_kind(Kind::Star) {
                args = self.list(Self::routine_arg)?;
                if self.is_next(K::Order) {
                    let token = self.peek();
                    return Err(self.refuse_statement(token, "CREATE AGGREGATE with ORDER BY"));
                }
            }
            self.expect_kind(Kind::RightParen)?;
            self.expect_kind(Kind::LeftParen)?;
        }
        let mut options = Vec::new();
        let mut base = None;
        loop {
            let word = self.folded_label()?;
            let value = if !self.eat_kind(Kind::Equal) {
                AggregateValue::None
            } else if matches!(word.as_str(), "stype" | "stype1" | "mstype" | "basetype")
                && !Self::is_string(self.kind())
            {
                AggregateValue::Type(self.routine_type()?)
            } else if Self::is_string(self.kind()) {
                AggregateValue::Text(self.string()?)
            } else if Self::is_type_name(self.kind()) || Self::is_column_name(self.kind()) {
                let name = self.qualified_function()?;
                // Types of arguments behind it say nothing more.
                if self.kind() == Kind::LeftParen {
                    self.skip_parens()?;
                }
                AggregateValue::Name(name)
            } else {
                let is_negative = self.eat_kind(Kind::Minus);
                let token = self.next();
                let text = self.token_text(token);
                AggregateValue::Text(if is_negative { format!("-{text}") } else { text.to_owned() })
            };
            match (word.as_str(), value) {
                ("basetype", AggregateValue::Type(ty)) => base = Some(ty),
                (_, value) => options.push((word, value)),
            }
            if !self.eat_kind(Kind::Comma) {
                break;
            }
        }
        self.expect_kind(Kind::RightParen)?;
        let is_any = |ty: &TypeGiven| matches!(ty, TypeGiven::Named(named) if named.to_string().trim_matches('"').eq_ignore_ascii_case("any"));
        if let Some(ty) = base.filter(|ty| !is_any(ty)) {
            args.push(RoutineArg { mode: ArgMode::In, name: None, ty, default: None });
        }
        Ok(Routines::CreateAggregate(CreateAggregate { or_replace, name, args, options }).into())
    }

    /// Behind CREATE [OR REPLACE].
    pub(crate) fn create_routine(&mut self, or_replace: bool) -> Result<Admin> {
        let is_procedure = self.next().kind == Kind::Key(K::Procedure);
        let name = self.qualified_function()?;
        self.expect_kind(Kind::LeftParen)?;
        let mut args = Vec::new();
        if self.kind() != Kind::RightParen {
            args = self.list(Self::routine_arg)?;
        }
        self.expect_kind(Kind::RightParen)?;
        let mut returns = None;
        if !is_procedure && self.eat(K::Returns) {
            if self.eat(K::Table) {
                args.extend(self.in_parens(|parser| {
                    let name = Some(parser.folded_argument()?);
                    let ty = parser.routine_type()?;
                    Ok(RoutineArg { mode: ArgMode::Table, name, ty, default: None })
                })?);
                returns = Some(Returned { set: true, ty: None });
            } else {
                let set = self.eat(K::Setof);
                returns = Some(Returned { set, ty: Some(self.routine_type()?) });
            }
        }
        let mut options = Vec::new();
        let mut body = None;
        while !self.is_over() {
            if body.is_some() {
                return Err(self.wrong());
            }
            match self.kind() {
                Kind::Key(K::Return) => body = Some(self.routine_return()?),
                Kind::Key(K::Begin) => body = Some(self.routine_atomic()?),
                _ => {
                    let token = self.peek();
                    let option = self.routine_option()?;
                    if options.iter().any(|known| is_same_option(known, &option)) {
                        return Err(self.error_at(token, conflicting()));
                    }
                    options.push(option);
                }
            }
        }
        let create = CreateRoutine { or_replace, is_procedure, name, args, returns, options, body };
        Ok(Routines::Create(create).into())
    }

    /// The name of a function, with a schema or without.
    pub(crate) fn qualified_function(&mut self) -> Result<Vec<crate::tree::Name>> {
        let first = if Self::is_type_name(self.kind()) || Self::is_column_name(self.kind()) {
            self.label()?
        } else {
            return Err(self.wrong());
        };
        let mut parts = vec![fold(&first)];
        while self.eat_kind(Kind::Period) {
            parts.push(self.folded_label()?);
        }
        Ok(parts)
    }

    fn routine_return(&mut self) -> Result<RoutineBody> {
        self.expect(K::Return)?;
        let taken = self.taken();
        self.expr()?;
        Ok(RoutineBody::Return(self.text_since(taken).to_owned()))
    }

    fn routine_atomic(&mut self) -> Result<RoutineBody> {
        self.expect(K::Begin)?;
        self.expect(K::Atomic)?;
        let mut texts = Vec::new();
        loop {
            while self.eat_kind(Kind::Semicolon) {}
            if self.eat(K::End) {
                return Ok(RoutineBody::Atomic(texts));
            }
            let taken = self.taken();
            if self.eat(K::Return) {
                let taken = self.taken();
                self.expr()?;
                texts.push(format!("SELECT {}", self.text_since(taken)));
            } else {
                self.statement()?;
                texts.push(self.text_since(taken).to_owned());
            }
            self.expect_kind(Kind::Semicolon)?;
        }
    }

    fn arg_mode(&mut self) -> Option<ArgMode> {
        Some(match self.eat_any(&[K::In, K::Out, K::Inout, K::Variadic])? {
            0 if self.eat(K::Out) => ArgMode::InOut,
            0 => ArgMode::In,
            1 => ArgMode::Out,
            2 => ArgMode::InOut,
            _ => ArgMode::Variadic,
        })
    }

    /// A name that an argument may have.
    fn folded_argument(&mut self) -> Result<crate::tree::Name> {
        if !Self::is_type_name(self.kind()) && !Self::is_column_name(self.kind()) {
            return Err(self.wrong());
        }
        self.folded_label()
    }

    /// Whether the next token is an argument's name, and its type comes behind it.
    fn is_named_argument(&self) -> bool {
        if !Self::is_type_name(self.kind()) {
            return false;
        }
        let is_double = self.is_next(K::Double) && self.kind_behind(1) == Kind::Key(K::Precision);
        let behind = self.kind_behind(1);
        let begins_type = match behind {
            Kind::Key(K::Default | K::Array) => false,
            Kind::Key(K::In | K::Out | K::Inout | K::Variadic | K::Setof) => true,
            Kind::Key(K::Varying) => false,
            kind => Self::is_type_name(kind) || Self::is_column_name(kind),
        };
        begins_type && !is_double
    }

    fn routine_arg(&mut self) -> Result<RoutineArg> {
        let mut mode = self.arg_mode();
        let name = if self.is_named_argument() { Some(self.folded_argument()?) } else { None };
        if mode.is_none() {
            mode = self.arg_mode();
        }
        let ty = self.routine_type()?;
        let mut default = None;
        if self.eat(K::Default) || self.eat_kind(Kind::Equal) || self.eat_kind(Kind::Assign) {
            let taken = self.taken();
            self.expr()?;
            default = Some(self.text_since(taken).to_owned());
        }
        Ok(RoutineArg { mode: mode.unwrap_or(ArgMode::In), name, ty, default })
    }

    /// A type, or `name%TYPE`.
    pub(crate) fn routine_type(&mut self) -> Result<TypeGiven> {
        if Self::is_type_name(self.kind()) && self.is_type_of_other() {
            let mut parts = vec![self.folded_label()?];
            while self.eat_kind(Kind::Period) {
                parts.push(self.folded_label()?);
            }
            self.next();
            let word = self.next();
            return Ok(match word.kind {
                Kind::Key(K::Type) => TypeGiven::Of(parts),
                _ => TypeGiven::RowOf(parts),
            });
        }
        self.data_type().map(TypeGiven::Named)
    }

    fn is_type_of_other(&self) -> bool {
        let mut at = 1;
        while self.kind_behind(at) == Kind::Period {
            at += 2;
        }
        let word = self.behind(at + 1);
        self.kind_behind(at) == Kind::Percent
            && (word.kind == Kind::Key(K::Type)
                || word.kind == Kind::Name && self.token_text(word).eq_ignore_ascii_case("rowtype"))
    }

    fn routine_option(&mut self) -> Result<RoutineOption> {
        let token = self.peek();
        let Kind::Key(word) = token.kind else { return Err(self.wrong()) };
        Ok(match word {
            K::Language => {
                self.next();
                if Self::is_string(self.kind()) {
                    RoutineOption::Language(self.string()?.to_ascii_lowercase().into())
                } else {
                    RoutineOption::Language(self.folded_label()?)
                }
            }
            K::As => {
                self.next();
                let mut texts = vec![self.string()?];
                if self.eat_kind(Kind::Comma) {
                    texts.push(self.string()?);
                }
                RoutineOption::As(texts)
            }
            K::Immutable | K::Stable | K::Volatile => {
                self.next();
                RoutineOption::Volatility(match word {
                    K::Immutable => 'i',
                    K::Stable => 's',
                    _ => 'v',
                })
            }
            K::Strict => {
                self.next();
                RoutineOption::Strict(true)
            }
            K::Called => {
                self.next();
                self.expect_all(&[K::On, K::Null, K::Input])?;
                RoutineOption::Strict(false)
            }
            K::Returns => {
                self.next();
                self.expect_all(&[K::Null, K::On, K::Null, K::Input])?;
                RoutineOption::Strict(true)
            }
            K::External | K::Security => {
                self.eat(K::External);
                self.expect(K::Security)?;
                match self.eat_any(&[K::Definer, K::Invoker]) {
                    Some(which) => RoutineOption::SecurityDefiner(which == 0),
                    None => return Err(self.wrong()),
                }
            }
            K::Leakproof => {
                self.next();
                RoutineOption::Leakproof(true)
            }
            K::Not => {
                self.next();
                self.expect(K::Leakproof)?;
                RoutineOption::Leakproof(false)
            }
            K::Window => {
                self.next();
                RoutineOption::Window
            }
            K::Cost => {
                self.next();
                RoutineOption::Cost(self.signed_text()?)
            }
            K::Rows => {
                self.next();
                RoutineOption::Rows(self.signed_text()?)
            }
            K::Support => {
                self.next();
                RoutineOption::Support(self.qualified()?)
            }
            K::Parallel => {
                self.next();
                RoutineOption::Parallel(self.folded_label()?)
            }
            K::Set => {
                self.next();
                let (name, to) = self.set_clause()?;
                RoutineOption::Setting(SettingChange::Set(name, to))
            }
            K::Reset => {
                self.next();
                RoutineOption::Setting(self.setting()?.map_or(SettingChange::ResetAll, SettingChange::Reset))
            }
            K::Transform => return Err(self.refuse_statement(token, "TRANSFORM")),
            _ => return Err(self.wrong()),
        })
    }

    /// A function by its name and, if they are given, its arguments.
    pub(crate) fn routine_named(&mut self) -> Result<RoutineNamed> {
        let name = self.qualified_function()?;
        if !self.eat_kind(Kind::LeftParen) {
            return Ok(RoutineNamed { name, args: None });
        }
        let mut args = Vec::new();
        if !self.eat_kind(Kind::Star) && self.kind() != Kind::RightParen {
            args = self.list(|parser| {
                let arg = parser.routine_arg()?;
                match arg.ty {
                    TypeGiven::Named(ty) => Ok((arg.mode, ty)),
                    _ => Err(Error::unsupported("%TYPE in the name of a function")),
                }
            })?;
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(RoutineNamed { name, args: Some(args) })
    }

    /// Behind DROP.
    pub(crate) fn drop_routines(&mut self, kind: RoutineKind) -> Result<Admin> {
        let if_exists = self.if_exists()?;
        let names = self.list(Self::routine_named)?;
        let cascade = self.cascade();
        Ok(Routines::Drop { kind, names, if_exists, cascade }.into())
    }

    /// Behind ALTER.
    pub(crate) fn alter_routine(&mut self, kind: RoutineKind) -> Result<Admin> {
        let routine = self.routine_named()?;
        let change = if self.eat_all(&[K::Rename, K::To]) {
            RoutineChange::Rename(self.folded()?)
        } else if self.eat_all(&[K::Owner, K::To]) {
            RoutineChange::Owner(self.role_name()?)
        } else if self.eat_all(&[K::Set, K::Schema]) {
            RoutineChange::SetSchema(self.folded()?)
        } else if self.is_next(K::Depends) || self.are_next(&[K::No, K::Depends]) {
            self.eat(K::No);
            self.expect_all(&[K::Depends, K::On, K::Extension])?;
            self.folded()?;
            RoutineChange::DependsOn
        } else {
            let mut options = Vec::new();
            while !self.is_over() && !self.is_next(K::Restrict) {
                options.push(self.routine_option()?);
            }
            self.eat(K::Restrict);
            if options.is_empty() {
                return Err(self.wrong());
            }
            RoutineChange::Options(options)
        };
        Ok(Routines::Alter { kind, routine, change }.into())
    }

    pub(crate) fn do_statement(&mut self) -> Result<Admin> {
        self.expect(K::Do)?;
        let (mut language, mut body) = (None, None);
        loop {
            let token = self.peek();
            if self.eat(K::Language) {
                let name = match Self::is_string(self.kind()) {
                    true => self.string()?.to_ascii_lowercase().into(),
                    false => self.folded_label()?,
                };
                if language.replace(name).is_some() {
                    return Err(self.error_at(token, conflicting()));
                }
            } else if Self::is_string(self.kind()) {
                let text = self.string()?;
                if body.replace(text).is_some() {
                    return Err(self.error_at(token, conflicting()));
                }
            } else if self.is_over() && (language.is_some() || body.is_some()) {
                break;
            } else {
                return Err(self.wrong());
            }
        }
        let body = body.ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "no inline code specified"))?;
        Ok(Routines::Do { language, body }.into())
    }

    pub(crate) fn call_statement(&mut self) -> Result<Statement> {
        self.expect(K::Call)?;
        let token = self.peek();
        match self.expr()? {
            ast::Expr::Function(function) if function.over.is_none() && function.filter.is_none() => {
                Ok(Statement::Call(Box::new(Call { function })))
            }
            _ => Err(self.wrong_at(token)),
        }
    }

    /// The error for a kind of trigger that there is not.
    pub(crate) fn refuse_event_trigger(&mut self, token: Token, verb: &str) -> Error {
        self.refuse_statement(token, &format!("{verb} EVENT TRIGGER"))
    }
}

fn is_same_option(one: &RoutineOption, other: &RoutineOption) -> bool {
    match one {
        RoutineOption::Setting(_) => false,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

impl From<Routines> for Admin {
    fn from(routines: Routines) -> Self {
        Self::Routines(Box::new(routines))
    }
}
