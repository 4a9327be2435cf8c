//! Prepared statements and portals.
//!
//! Between two Syncs statements are one transaction. Most often there is one only, and it commits by itself, which lets
//! the session run it again if it conflicts: so before an Execute outside a block the server looks which message is next.
//!
//! Invariants: portals end with the transaction that they were made in; one that is suspended has changed nothing that
//! is not done, so to drop it is to end it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use colibri_sql::wire::{self, Format};
use colibri_sql::{CompactString, Datum, Error, Prepared, Rows, Running, Session, SqlState, TransactionState, Type};

use super::drive::Turn;
use super::simple::may_be_copy;
use super::{Client, End, Failure, OUT_BYTES};
use crate::protocol::frontend::{Bind, Formats, Target};
use crate::protocol::{backend, violation};
use crate::registry::{Query, shown};

const NO_SUCH_PORTAL: SqlState = SqlState("34000");
const DUPLICATE_PORTAL: SqlState = SqlState("42P03");
/// Prepared statements and portals that a session may have.
const NAMES_MAX: usize = 65_536;

/// A prepared statement. Those with names are the session's, but for COPY, which is no plan.
#[derive(Clone)]
enum Statement {
    Sql(Arc<Prepared>),
    Copy(Arc<str>),
}

impl Statement {
    fn text(&self) -> &str {
        match self {
            Self::Sql(prepared) => prepared.text(),
            Self::Copy(text) => text,
        }
    }
}

/// What is bound, and the statement that comes without a name.
#[derive(Default)]
pub(super) struct Portals {
    unnamed_statement: Option<Statement>,
    copies: HashMap<CompactString, Arc<str>>,
    unnamed: Option<Box<Portal>>,
    named: HashMap<CompactString, Box<Portal>>,
    /// Memory for the next statement of the transaction.
    spare: Option<Box<Suspended>>,
}

/// A statement with its parameters, about to run or running.
struct Portal {
    statement: Statement,
    formats: Formats,
    /// Of the parameters, as they came.
    bytes: usize,
    stage: Stage,
}

enum Stage {
    Bound(Vec<Datum>),
    /// Some rows were given.
    Suspended(Box<Suspended>),
    Over,
}

struct Suspended {
    running: Option<Running>,
    rows: Rows,
    /// Of the rows, the first that was not given.
    next: usize,
    /// All rows are here, and this is what the statement did.
    tag: Option<CompactString>,
    turn: Turn,
}

impl Portals {
    /// Ends all portals; statements stay.
    pub(super) fn clear(&mut self) {
        (self.unnamed, self.spare) = (None, None);
        if !self.named.is_empty() {
            self.named.clear();
        }
    }

    fn portal(&self, name: &str) -> Result<&Portal, Error> {
        let portal = if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) };
        portal.map(|portal| &**portal).ok_or_else(|| no_such_portal(name))
    }

    fn take(&mut self, name: &str) -> Result<Box<Portal>, Error> {
        let portal = if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) };
        portal.ok_or_else(|| no_such_portal(name))
    }

    fn put_back(&mut self, name: &str, portal: Box<Portal>) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.into(), portal);
        }
    }

    fn put(&mut self, name: &str, portal: Portal) {
        match &mut self.unnamed {
            Some(unnamed) if name.is_empty() => **unnamed = portal,
            _ => self.put_back(name, Box::new(portal)),
        }
    }

    /// A statement that begins.
    fn suspended(&mut self, work: Suspended) -> Box<Suspended> {
        match self.spare.take() {
            Some(mut spare) => {
                *spare = work;
                spare
            }
            None => Box::new(work),
        }
    }

    /// A statement that is over; gives its rows.
    fn done(&mut self, mut work: Box<Suspended>) -> Rows {
        let rows = std::mem::take(&mut work.rows);
        (work.running, work.tag) = (None, None);
        self.spare = Some(work);
        rows
    }

    fn statement(&self, name: &str, session: &Session) -> Result<Statement, Error> {
        if name.is_empty() {
            return self
                .unnamed_statement
                .clone()
                .ok_or_else(|| Error::new(SqlState::NO_SUCH_PREPARED, "unnamed prepared statement does not exist"));
        }
        if let Some(prepared) = session.named(name) {
            return Ok(Statement::Sql(Arc::clone(prepared)));
        }
        match self.copies.get(name) {
            Some(text) => Ok(Statement::Copy(Arc::clone(text))),
            None => {
                let message = format!("prepared statement \"{name}\" does not exist");
                Err(Error::new(SqlState::NO_SUCH_PREPARED, message))
            }
        }
    }
}

fn no_such_portal(name: &str) -> Error {
    Error::new(NO_SUCH_PORTAL, format!("portal \"{name}\" does not exist"))
}

/// The type of a parameter that the client names; 0 leaves it to be found.
fn type_of(oid: u32) -> Result<Option<Type>, Error> {
    match Type::from_oid(oid) {
        _ if oid == 0 => Ok(None),
        Some(Type::Unknown | Type::Void) => Ok(None),
        Some(ty) => Ok(Some(ty)),
        None => Err(Error::unsupported(format_args!("a parameter of the type with OID {oid}"))),
    }
}

impl Client {
    pub(super) fn parse(&mut self, name: &str, text: &str, types: &[u32]) -> Result<(), Error> {
        let statement = if may_be_copy(text) && Session::is_copy(text) {
            Statement::Copy(text.into())
        } else {
            let types = types.iter().map(|&oid| type_of(oid)).collect::<Result<Vec<_>, _>>()?;
            Statement::Sql(self.session().prepare(text, &types)?)
        };
        match statement {
            statement if name.is_empty() => self.portals.unnamed_statement = Some(statement),
            Statement::Sql(prepared) => self.session().keep_named(name, prepared)?,
            Statement::Copy(_) if self.portals.copies.len() >= NAMES_MAX => return Err(too_many_names()),
            Statement::Copy(text) => _ = self.portals.copies.insert(name.into(), text),
        }
        backend::parse_complete(&mut self.link.out);
        Ok(())
    }

    pub(super) fn bind(&mut self, mut bind: Bind<'_>) -> Result<(), Error> {
        let Self { session, portals, .. } = self;
        let session = session.as_ref().expect("it is away only while its task waits for it");
        let statement = portals.statement(bind.statement, session)?;
        let types = match &statement {
            Statement::Sql(prepared) => prepared.params(),
            Statement::Copy(_) => &[],
        };
        bind.formats.check(bind.count, "parameter")?;
        if bind.count != types.len() {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.count,
                bind.statement,
                types.len()
            )));
        }
        let mut params = Vec::with_capacity(types.len());
        let mut param_bytes = 0;
        for (index, &ty) in types.iter().enumerate() {
            params.push(match bind.value()? {
                None => Datum::Null,
                Some(bytes) => {
                    param_bytes += bytes.len();
                    wire::read(ty, bind.formats.of(index), bytes, session.env())?
                }
            });
        }
        let name = bind.portal;
        let formats = bind.results()?;
        if let Statement::Sql(prepared) = &statement {
            formats.check(prepared.columns().map_or(0, <[_]>::len), "result column").or_else(|error| {
                // Formats for columns of a statement that gives none do no harm.
                if prepared.columns().is_none() { Ok(()) } else { Err(error) }
            })?;
        }
        if !name.is_empty() && portals.named.contains_key(name) {
            return Err(Error::new(DUPLICATE_PORTAL, format!("cursor \"{name}\" already exists")));
        }
        if portals.named.len() >= NAMES_MAX {
            return Err(too_many_names());
        }
        portals.put(name, Portal { statement, formats, bytes: param_bytes, stage: Stage::Bound(params) });
        backend::bind_complete(&mut self.link.out);
        Ok(())
    }

    pub(super) fn describe(&mut self, target: Target<'_>) -> Result<(), Error> {
        let Self { session, portals, link, .. } = self;
        let session = session.as_ref().expect("it is away only while its task waits for it");
        let out = &mut link.out;
        let text = Formats::All(Format::Text);
        let (statement, formats) = match target {
            Target::Statement(name) => {
                let statement = portals.statement(name, session)?;
                let params = match &statement {
                    Statement::Sql(prepared) => prepared.params(),
                    Statement::Copy(_) => &[],
                };
                backend::parameter_description(out, params.iter().map(|ty| ty.oid()));
                (statement, &text)
            }
            Target::Portal(name) if !portals.named.contains_key(name) && session.cursor_columns(name).is_some() => {
                // A cursor that SQL has declared.
                let columns = session.cursor_columns(name).unwrap_or_default();
                backend::row_description(out, columns, &text);
                return Ok(());
            }
            Target::Portal(name) => {
                let portal = portals.portal(name)?;
                (portal.statement.clone(), &portal.formats)
            }
        };
        match &statement {
            Statement::Sql(prepared) if prepared.columns().is_some() => {
                backend::row_description(out, prepared.columns().unwrap_or_default(), formats);
            }
            _ => backend::no_data(out),
        }
        Ok(())
    }

    pub(super) fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement("") => self.portals.unnamed_statement = None,
            Target::Statement(name) => {
                self.portals.copies.remove(name);
                self.session().forget_named(name);
            }
            Target::Portal("") => self.portals.unnamed = None,
            Target::Portal(name) => {
                if self.portals.named.remove(name).is_none() {
                    self.session().drop_cursor(name);
                }
            }
        }
        backend::close_complete(&mut self.link.out);
    }

    /// Runs what is bound, and gives so many rows of it.
    pub(super) async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let mut portal = self.portals.take(name)?;
        let query = match &portal.statement {
            Statement::Sql(prepared) => Query::Prepared(Arc::clone(prepared)),
            Statement::Copy(text) => Query::Text(shown(text).to_owned()),
        };
        let began = self.begins(query);
        let executed = match self.execute_portal(&mut portal, name, rows_max, began).await {
            Err(Failure::Error(error)) => self.repeat(error, false).await,
            executed => executed,
        };
        self.ends(began, portal.statement.text());
        executed?;
        if self.session().state() == TransactionState::Idle {
            self.unit = None;
            self.portals.clear();
        } else {
            self.portals.put_back(name, portal);
        }
        Ok(())
    }

    async fn execute_portal(
        &mut self,
        portal: &mut Portal,
        name: &str,
        rows_max: usize,
        began: Instant,
    ) -> Result<(), Failure> {
        let Portal { statement, formats, bytes, stage } = portal;
        let (mut work, prepared) = match (std::mem::replace(stage, Stage::Over), &*statement) {
            (Stage::Suspended(work), Statement::Sql(prepared)) => (work, prepared),
            (Stage::Suspended(_), Statement::Copy(_)) => {
                return Err(Error::internal("a COPY was suspended").into());
            }
            (Stage::Bound(_), Statement::Copy(text)) => {
                self.cannot_repeat();
                let tag = self.copy(text.to_string(), began).await?;
                self.tell_notices();
                backend::command_complete(&mut self.link.out, &tag);
                return Ok(());
            }
            (Stage::Bound(params), Statement::Sql(prepared)) => {
                if self.session().state() == TransactionState::Idle
                    && !(rows_max == usize::MAX && self.next_kind().await? == b'S')
                {
                    self.unit = Some(self.unit());
                    self.session().begin_implicit_block();
                }
                self.note_run(prepared, *bytes, formats);
                let began_us = self.times.began_us;
                let running = self.session().start_at(prepared, params, began_us)?;
                self.heed_cancel();
                let turn = self.turn(began);
                let rows = self.session().spare_rows();
                let work = Suspended { running: Some(running), rows, next: 0, tag: None, turn };
                (self.portals.suspended(work), prepared)
            }
            (Stage::Over, _) => {
                let message = format!("portal \"{name}\" cannot be run");
                return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).into());
            }
        };
        let given = self.give(&mut work, prepared, formats, rows_max).await;
        if !matches!(given, Ok(false)) {
            self.note_params(work.running.as_mut());
        }
        if given? {
            self.complete(prepared, work.tag.as_deref());
            let rows = self.portals.done(work);
            self.session().keep_rows(rows);
            self.note_done();
        } else {
            // What has been given so far has to go on as it began.
            self.cannot_repeat();
            backend::portal_suspended(&mut self.link.out);
            *stage = Stage::Suspended(work);
        }
        Ok(())
    }

    /// Says that a statement is done.
    pub(super) fn complete(&mut self, prepared: &Prepared, tag: Option<&str>) {
        self.tell_notices();
        match prepared.is_empty() {
            true => backend::empty_query(&mut self.link.out),
            false => backend::command_complete(&mut self.link.out, tag.unwrap_or_default()),
        }
    }

    fn cannot_repeat(&mut self) {
        if let Some(unit) = &mut self.unit {
            unit.cannot_repeat();
        }
    }

    /// Gives up to so many rows; whether those were the last.
    async fn give(
        &mut self,
        work: &mut Suspended,
        prepared: &Prepared,
        formats: &Formats,
        rows_max: usize,
    ) -> Result<bool, Failure> {
        let mut given = 0;
        loop {
            while work.next < work.rows.len() {
                if given == rows_max {
                    return Ok(false);
                }
                self.send_row(work.rows.row(work.next), prepared, formats);
                work.next += 1;
                given += 1;
                if self.link.out.len() >= OUT_BYTES {
                    self.flush().await?;
                }
            }
            if work.tag.is_some() {
                return Ok(true);
            }
            if given == rows_max {
                // PostgreSQL suspends here as well, though there may be no more.
                return Ok(false);
            }
            work.rows.clear();
            work.next = 0;
            work.tag = self.advance(&mut work.running, &mut work.rows, &mut work.turn).await?;
        }
    }

    /// What an extended message has come to.
    pub(super) fn after_extended(&mut self, done: Result<(), Failure>) -> Result<(), End> {
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => {
                self.session().fail_block();
                self.tell(&error);
                self.portals.clear();
                self.unit = None;
                self.is_skipping = true;
                Ok(())
            }
            Err(Failure::End(end)) => Err(end),
        }
    }

    /// Carries out a message Sync: the end of what belongs together.
    pub(super) async fn sync(&mut self) -> Result<(), End> {
        self.is_skipping = false;
        match self.end_implicit_block().await {
            Ok(()) => {}
            Err(Failure::End(end)) => return Err(end),
            Err(Failure::Error(error)) => match self.repeat(error, true).await {
                Ok(()) => {}
                Err(Failure::Error(error)) => {
                    self.session().take_back_block();
                    self.tell(&error);
                }
                Err(Failure::End(end)) => return Err(end),
            },
        }
        self.unit = None;
        if self.session().state() == TransactionState::Idle {
            self.portals.clear();
        }
        self.ready().await
    }
}

fn too_many_names() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, format!("a session has at most {NAMES_MAX} portals and COPY statements"))
}
