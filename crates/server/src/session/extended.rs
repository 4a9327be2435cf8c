//! Prepared statements and portals.
//!
//! Between two Syncs statements are one transaction. Most often there is one only, and it is a
//! transaction by itself, which the session can repeat after a conflict. So before an Execute
//! outside of a block the server looks at the next message.
//!
//! A portal that runs to its end at once stays here. Other portals become cursors of the session
//! ([`Stage::InSession`]): those whose rows are fetched in pieces, and those that are followed by
//! another statement of their transaction, which may FETCH from them, or must not change what they
//! see. Of a portal without a plan, the session knows the name.
//!
//! Invariants: portals end with the transaction that they were made in; a portal that is suspended
//! here has made all its changes, or only reads, so it can be dropped at any time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use colibri_sql::client_values;
use colibri_sql::wire::{self, Format};
use colibri_sql::{
    CompactString, Datum, Error, Prepared, Rows, Running, Session, SqlState, TransactionState, Type, with_count,
};

use super::drive::Turn;
use super::named::within_name;
use super::replica::reads;
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
    /// Blocks that had ended when it was bound: with the next one it ends as well.
    blocks_ended: u64,
    /// It was bound in a block that had failed, and may end that: another failure does not change
    /// it.
    ends_failed: bool,
    /// The session knows its name, for CLOSE and `pg_cursors`, though not how to run it.
    is_listed: bool,
}

enum Stage {
    Bound(Vec<Datum>),
    /// Some rows were given.
    Suspended(Box<Suspended>),
    /// The session has it.
    InSession,
    /// All rows were given, with this command tag.
    Exhausted(CompactString),
    /// It gives no rows, and has run.
    Over,
    /// The block has failed with it, or since it was bound. It has its name until the block goes on
    /// or ends.
    Failed(Refusal),
}

/// Why a portal that has failed does not run again, in a block that has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// Nothing does that was there when the block failed.
    Block,
    /// As all statements do, unless it ends the block: it was a statement of a message Query, or
    /// the block had failed before.
    Statement,
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

impl Portal {
    /// One that the session had may have ended with a savepoint, or by CLOSE, and another may have
    /// its name.
    fn is_there(&self, name: &str, session: &Session) -> bool {
        if self.blocks_ended != session.blocks_ended() {
            return false;
        }
        match (&self.stage, &self.statement) {
            (Stage::Failed(_), _) => session.state() == TransactionState::Failed,
            (_, Statement::Sql(prepared)) if self.is_listed || matches!(self.stage, Stage::InSession) => {
                session.cursor_statement_of(name).is_some_and(|other| Arc::ptr_eq(other, prepared))
            }
            (_, Statement::Copy(_)) if self.is_listed => session.has_cursor(name),
            _ => true,
        }
    }
}

impl Statement {
    /// Tells the session that a portal has this name, which it cannot run.
    fn list(&self, name: &str, session: &mut Session) -> Result<(), Error> {
        match self {
            Self::Sql(prepared) => session.open_portal(name, prepared, None),
            Self::Copy(text) => session.list_portal(name, text),
        }
    }

    /// In a block that has failed, refuses what does not end it.
    fn check_failed(&self, session: &Session) -> Result<(), Error> {
        match self {
            Self::Sql(prepared) if !prepared.is_empty() => session.check_failed(prepared),
            _ => session.check_not_failed(),
        }
    }

    /// In a block that has failed, refuses to describe what gives rows: their types may have been
    /// made in it.
    fn check_described(&self, session: &Session) -> Result<(), Error> {
        match self {
            Self::Sql(prepared) if prepared.columns().is_some() => session.check_not_failed(),
            _ => Ok(()),
        }
    }
}

impl Portals {
    /// The statement without a name, with the numbers of its parameters' types, and the statements
    /// that are COPY, for another node.
    #[expect(clippy::type_complexity, reason = "a statement, and a list of them")]
    pub(super) fn carried(&self) -> (Option<(String, Vec<u32>)>, Vec<(String, String)>) {
        let unnamed = self.unnamed_statement.as_ref().map(|statement| {
            let types = match statement {
                Statement::Sql(prepared) => prepared.params().iter().map(|ty| ty.oid()).collect(),
                Statement::Copy(_) => Vec::new(),
            };
            (statement.text().to_owned(), types)
        });
        let copies = self.copies.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        (unnamed, copies.collect())
    }

    /// Ends all portals; statements stay.
    pub(super) fn clear(&mut self) {
        (self.unnamed, self.spare) = (None, None);
        if !self.named.is_empty() {
            self.named.clear();
        }
    }

    /// A statement has failed. What the session has ends with the transaction, or not, if a
    /// savepoint is younger.
    pub(super) fn fail(&mut self) {
        for portal in self.unnamed.iter_mut().chain(self.named.values_mut()) {
            if !matches!(portal.stage, Stage::InSession | Stage::Failed(_)) && !portal.ends_failed {
                portal.stage = Stage::Failed(Refusal::Block);
            }
        }
    }

    /// A statement of a message Query has failed: it was the unnamed portal.
    pub(super) fn failed_query(&mut self, prepared: Arc<Prepared>, session: &Session) {
        let formats = Formats::All(Format::Text);
        let (statement, blocks_ended) = (Statement::Sql(prepared), session.blocks_ended());
        self.put(
            "",
            Portal {
                statement,
                formats,
                bytes: 0,
                stage: Stage::Failed(Refusal::Statement),
                blocks_ended,
                ends_failed: false,
                is_listed: false,
            },
        );
    }

    /// Whether there is a portal that has not run yet.
    fn has_bound(&self) -> bool {
        let is_bound = |portal: &Portal| matches!(portal.stage, Stage::Bound(_));
        self.unnamed.as_deref().is_some_and(is_bound) || self.named.values().any(|portal| is_bound(portal))
    }

    /// Makes a portal that has not run yet the session's.
    fn hand_over(&mut self, name: &str, session: &mut Session) -> Result<(), Error> {
        let portal =
            if name.is_empty() { self.unnamed.as_deref_mut() } else { self.named.get_mut(name).map(|it| &mut **it) };
        let Some(Portal { statement, stage, is_listed, .. }) = portal else { return Ok(()) };
        let prepared = match statement {
            Statement::Sql(prepared) if prepared.can_be_cursor() => prepared,
            _ => {
                if !name.is_empty() && !*is_listed {
                    statement.list(name, session)?;
                    *is_listed = true;
                }
                return Ok(());
            }
        };
        match std::mem::replace(stage, Stage::InSession) {
            Stage::Bound(params) => session.open_portal(name, prepared, Some(params)),
            other => {
                *stage = other;
                Ok(())
            }
        }
    }

    fn hand_over_all(&mut self, session: &mut Session) -> Result<(), Error> {
        let is_bound = |portal: &Portal| matches!(portal.stage, Stage::Bound(_));
        let mut names: Vec<CompactString> =
            self.named.iter().filter(|(_, portal)| is_bound(portal)).map(|(name, _)| name.clone()).collect();
        if self.unnamed.as_deref().is_some_and(is_bound) {
            names.push(CompactString::default());
        }
        names.iter().try_for_each(|name| self.hand_over(name, session))
    }

    /// A portal that is there still.
    fn portal(&self, name: &str, session: &Session) -> Option<&Portal> {
        let portal =
            if name.is_empty() { self.unnamed.as_deref() } else { self.named.get(name).map(|portal| &**portal) };
        portal.filter(|portal| portal.is_there(name, session))
    }

    /// As [`Portals::portal`]; a cursor that SQL has declared is a portal as well.
    fn take(&mut self, name: &str, session: &Session) -> Result<Box<Portal>, Error> {
        let portal = if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) };
        match portal {
            Some(portal) if portal.is_there(name, session) => Ok(portal),
            _ => match session.cursor_statement_of(name) {
                Some(prepared) => Ok(Box::new(Portal {
                    statement: Statement::Sql(Arc::clone(prepared)),
                    formats: Formats::All(Format::Text),
                    bytes: 0,
                    stage: Stage::InSession,
                    blocks_ended: session.blocks_ended(),
                    ends_failed: false,
                    is_listed: false,
                })),
                None => Err(no_such_portal(name)),
            },
        }
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
        let (given, name) = (name, within_name(name));
        if let Some(prepared) = session.named(name) {
            return Ok(Statement::Sql(Arc::clone(prepared)));
        }
        match self.copies.get(name) {
            Some(text) => Ok(Statement::Copy(Arc::clone(text))),
            None => {
                let message = format!("prepared statement \"{given}\" does not exist");
                Err(Error::new(SqlState::NO_SUCH_PREPARED, message))
            }
        }
    }
}

fn no_such_portal(name: &str) -> Error {
    Error::new(NO_SUCH_PORTAL, format!("portal \"{name}\" does not exist"))
}

/// The type of a parameter that the client names; 0 leaves it to be found.
fn type_of(oid: u32, session: &mut Session) -> Result<Option<Type>, Error> {
    let known = match Type::from_oid(oid) {
        None => session.type_numbered(oid)?,
        known => known,
    };
    match known {
        _ if oid == 0 => Ok(None),
        Some(Type::Unknown | Type::Void) => Ok(None),
        Some(ty) => Ok(Some(ty)),
        None => Err(Error::unsupported(format_args!("a parameter of the type with OID {oid}"))),
    }
}

impl Client {
    pub(super) fn parse(&mut self, name: &str, text: &str, types: &[u32]) -> Result<(), Error> {
        let name = within_name(name);
        if name.is_empty() {
            // Whether this statement succeeds or fails.
            self.portals.unnamed_statement = None;
        }
        let session = self.session();
        let types = types.iter().map(|&oid| type_of(oid, session)).collect::<Result<Vec<_>, _>>()?;
        let prepared = session.prepare(text, &types)?;
        let statement = if prepared.is_copy() { Statement::Copy(text.into()) } else { Statement::Sql(prepared) };
        match statement {
            statement if name.is_empty() => self.portals.unnamed_statement = Some(statement),
            _ if self.portals.copies.contains_key(name) => return Err(duplicate_statement(name)),
            Statement::Sql(prepared) => self.session().keep_named(name, prepared)?,
            Statement::Copy(_) if self.session().named(name).is_some() => return Err(duplicate_statement(name)),
            Statement::Copy(_) if self.portals.copies.len() >= NAMES_MAX => return Err(too_many_names()),
            Statement::Copy(text) => _ = self.portals.copies.insert(name.into(), text),
        }
        backend::parse_complete(&mut self.link.out);
        Ok(())
    }

    pub(super) fn bind(&mut self, mut bind: Bind<'_>) -> Result<(), Error> {
        let Self { session, portals, .. } = self;
        let session = session.as_mut().expect("it is away only while its task waits for it");
        let mut statement = portals.statement(bind.statement, session)?;
        if let Statement::Sql(prepared) = &statement
            && prepared.is_bound_late()
            && session.state() != TransactionState::Failed
        {
            statement = Statement::Sql(session.prepare(prepared.text(), &[])?);
        }
        let types = match &statement {
            Statement::Sql(prepared) => prepared.params(),
            Statement::Copy(_) => &[],
        };
        if let Some(formats) = bind.formats.count().filter(|&formats| formats != bind.count) {
            return Err(violation(format!(
                "bind message has {formats} parameter formats but {} parameters",
                bind.count
            )));
        }
        if bind.count != types.len() {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.count,
                bind.statement,
                types.len()
            )));
        }
        statement.check_failed(session)?;
        let name = within_name(bind.portal);
        if !name.is_empty() && (portals.portal(name, session).is_some() || session.has_cursor(name)) {
            return Err(Error::new(DUPLICATE_PORTAL, format!("cursor \"{name}\" already exists")));
        }
        if portals.named.len() >= NAMES_MAX {
            return Err(too_many_names());
        }
        let param_formats = if types.is_empty() { Formats::All(Format::Text) } else { bind.formats.formats()? };
        let mut params = Vec::with_capacity(types.len());
        let mut param_bytes = 0;
        let types = session.current_types(types)?;
        for (index, &ty) in types.iter().enumerate() {
            params.push(match bind.value()? {
                None => Datum::Null,
                Some(bytes) => {
                    param_bytes += bytes.len();
                    let (format, env) = (param_formats.of(index), session.env());
                    let decoded = match env.client_encoding {
                        same if same.is_as_here() => None,
                        other => client_values::decode_value(other, ty, format, bytes)?,
                    };
                    wire::read(ty, format, decoded.as_deref().unwrap_or(bytes), env)?
                }
            });
        }
        let formats = bind.results()?;
        if let Statement::Sql(prepared) = &statement {
            // Constants are computed when a portal is made, and fail there.
            prepared.check_constants()?;
            formats
                .check(prepared.columns().map_or(0, <[_]>::len), |formats, count| {
                    format!("bind message has {formats} result formats but query has {count} columns")
                })
                // Formats for columns of a statement that gives none do no harm.
                .or_else(|error| if prepared.columns().is_none() { Ok(()) } else { Err(error) })?;
        }
        if name.is_empty() {
            // The one before may have been suspended.
            session.drop_cursor(name);
        }
        let (stage, blocks_ended) = (Stage::Bound(params), session.blocks_ended());
        let (bytes, ends_failed) = (param_bytes, session.state() == TransactionState::Failed);
        portals.put(name, Portal { statement, formats, bytes, stage, blocks_ended, ends_failed, is_listed: false });
        if !name.is_empty() && session.state() != TransactionState::Idle && !session.is_in_implicit_block() {
            portals.hand_over(name, session)?;
        }
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
                statement.check_described(session)?;
                let params = match &statement {
                    Statement::Sql(prepared) => prepared.param_types(),
                    Statement::Copy(_) => Vec::new(),
                };
                backend::parameter_description(out, params.iter().map(|ty| ty.oid()));
                (statement, &text)
            }
            Target::Portal(name) => match portals.portal(within_name(name), session) {
                Some(portal) => (portal.statement.clone(), &portal.formats),
                // A cursor that SQL has declared.
                None => match session.cursor_statement_of(within_name(name)) {
                    Some(prepared) => (Statement::Sql(Arc::clone(prepared)), &text),
                    None => return Err(no_such_portal(name)),
                },
            },
        };
        statement.check_described(session)?;
        match &statement {
            Statement::Sql(prepared) if prepared.columns().is_some() => {
                let encoding = session.env().client_encoding;
                backend::row_description(out, prepared.columns().unwrap_or_default(), formats, encoding);
            }
            _ => backend::no_data(out),
        }
        Ok(())
    }

    pub(super) fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement("") => self.portals.unnamed_statement = None,
            Target::Statement(name) => {
                let name = within_name(name);
                self.portals.copies.remove(name);
                self.session().forget_named(name);
            }
            Target::Portal("") => self.drop_unnamed(),
            Target::Portal(name) => {
                let name = within_name(name);
                self.portals.named.remove(name);
                self.session().drop_cursor(name);
            }
        }
        backend::close_complete(&mut self.link.out);
    }

    /// Ends the unnamed portal.
    pub(super) fn drop_unnamed(&mut self) {
        if self.portals.unnamed.take().is_some_and(|portal| matches!(portal.stage, Stage::InSession)) {
            self.session().drop_cursor("");
        }
    }

    /// Hands over to the session whatever is bound: another statement is about to run.
    fn hand_over_portals(&mut self) -> Result<(), Error> {
        let Self { session, portals, .. } = self;
        let session = session.as_mut().expect("it is away only while its task waits for it");
        portals.hand_over_all(session)
    }

    /// The text of a message Query is about to run: it may ask for portals that are bound, and ends
    /// the unnamed statement.
    pub(super) fn before_query(&mut self) -> Result<(), Error> {
        self.unit = None;
        // What has failed stays until something else takes its place.
        if !self.portals.unnamed.as_deref().is_some_and(|portal| matches!(portal.stage, Stage::Failed(_))) {
            self.drop_unnamed();
        }
        self.portals.unnamed_statement = None;
        if !self.portals.named.is_empty() {
            // They were bound in a transaction, which the text goes on with.
            self.session().begin_pipeline();
            self.hand_over_portals()?;
        }
        Ok(())
    }

    /// Whatever has ended with its transaction is forgotten.
    pub(super) fn after_transaction(&mut self) {
        if self.session().state() == TransactionState::Idle {
            self.unit = None;
            self.portals.clear();
        }
    }

    /// Runs what is bound, and gives a number of its rows.
    pub(super) async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let session = self.session.as_ref().expect("it is away only while its task waits for it");
        let mut portal = self.portals.take(within_name(name), session).map_err(|_| no_such_portal(name))?;
        let name = within_name(name);
        let query = match &portal.statement {
            Statement::Sql(prepared) => Query::Prepared(Arc::clone(prepared)),
            Statement::Copy(text) => Query::Text(shown(text).to_owned()),
        };
        let began = self.begins(query);
        let had_failed = self.session().state() == TransactionState::Failed;
        let executed = match self.execute_portal(&mut portal, name, rows_max, began).await {
            Err(Failure::Error(error)) => self.repeat(error, false).await,
            executed => executed,
        };
        self.ends(began, portal.statement.text());
        if matches!(executed, Err(Failure::Error(_))) {
            // What the session has may be older than a savepoint that the block goes back to.
            if !matches!(portal.stage, Stage::InSession | Stage::Failed(_)) {
                portal.stage = Stage::Failed(if had_failed { Refusal::Statement } else { Refusal::Block });
            }
            self.portals.put_back(name, portal);
            return executed;
        }
        executed?;
        if self.session().state() == TransactionState::Idle {
            self.after_transaction();
            return Ok(());
        }
        if matches!(&portal.statement, Statement::Sql(prepared) if prepared.closes_all_cursors()) {
            // Of the others, the session knows all that have names.
            self.portals.unnamed = None;
        }
        if let (Stage::Exhausted(tag), Statement::Sql(prepared), false) =
            (&portal.stage, &portal.statement, name.is_empty())
            && prepared.can_be_cursor()
        {
            // It may be asked for by its name, and has no more rows.
            let (prepared, tag) = (Arc::clone(prepared), tag.clone());
            portal.stage = Stage::InSession;
            self.session().open_portal(name, &prepared, None)?;
            self.session().set_portal_tag(name, &tag);
        }
        self.list(&mut portal, name)?;
        self.portals.put_back(name, portal);
        Ok(())
    }

    /// Tells the session the name of a portal that has run, and that it does not know otherwise, or
    /// no more: CLOSE ALL leaves its own portal.
    fn list(&mut self, portal: &mut Portal, name: &str) -> Result<(), Error> {
        if name.is_empty() || matches!(&portal.statement, Statement::Sql(prepared) if prepared.can_be_cursor()) {
            return Ok(());
        }
        let session = self.session();
        if portal.blocks_ended == session.blocks_ended() && !session.has_cursor(name) {
            portal.statement.list(name, session)?;
            portal.is_listed = true;
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
        if let Statement::Sql(prepared) = &portal.statement
            && prepared.is_empty()
            && self.session().state() == TransactionState::Failed
        {
            // Nothing can be done even there.
            self.complete(&Arc::clone(prepared), None);
            return Ok(());
        }
        if let Stage::Failed(Refusal::Block) = portal.stage {
            self.session().check_not_failed()?;
        }
        portal.statement.check_failed(self.session())?;
        let text = match &portal.statement {
            Statement::Sql(prepared) => prepared.text(),
            Statement::Copy(text) => text,
        };
        if reads(text.as_bytes()) {
            self.begin_to_read().await?;
        }
        if let Statement::Sql(prepared) = &portal.statement
            && !name.is_empty()
            && prepared.closes_cursor() == Some(name)
        {
            return Err(Error::new(SqlState("24000"), format!("cannot drop active portal \"{name}\"")).into());
        }
        let over = if let Stage::Failed(refusal) = portal.stage { Stage::Failed(refusal) } else { Stage::Over };
        let (stage, prepared) = match (std::mem::replace(&mut portal.stage, over), &portal.statement) {
            (Stage::Bound(_), Statement::Copy(text)) => {
                self.cannot_repeat();
                // Behind a pointer: what it needs would be part of each idle connection.
                let tag = Box::pin(self.copy(text.to_string(), began)).await?;
                self.tell_notices();
                backend::command_complete(&mut self.link.out, &tag);
                return Ok(());
            }
            (Stage::Over | Stage::Failed(_), _) | (_, Statement::Copy(_)) => {
                let message = format!("portal \"{name}\" cannot be run");
                return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).into());
            }
            (stage, Statement::Sql(prepared)) => (stage, Arc::clone(prepared)),
        };
        let Portal { formats, bytes, stage: after, .. } = portal;
        match stage {
            Stage::InSession => {
                *after = Stage::InSession;
                self.hand_over_portals()?;
                self.execute_in_session(name, &prepared, formats, rows_max, began).await
            }
            Stage::Exhausted(tag) => {
                self.complete(&prepared, Some(&with_count(&tag, 0)));
                *after = Stage::Exhausted(tag);
                Ok(())
            }
            Stage::Suspended(work) => {
                *after = self.go_on(work, &prepared, formats, rows_max).await?;
                Ok(())
            }
            Stage::Bound(params) => {
                // What gives no rows has no pieces either, whatever is asked for.
                let rows_max = if prepared.columns().is_some() { rows_max } else { usize::MAX };
                let is_listed = prepared.may_list_cursors();
                let is_alone = rows_max == usize::MAX && !is_listed && !self.portals.has_bound();
                if self.session().state() == TransactionState::Idle
                    && !prepared.runs_alone()
                    && !(is_alone && self.next_kind().await? == b'S')
                {
                    self.unit = Some(self.unit());
                    self.session().begin_pipeline();
                }
                if !is_alone {
                    self.hand_over_portals()?;
                }
                if prepared.can_be_cursor() && (rows_max != usize::MAX || is_listed) {
                    *after = Stage::InSession;
                    self.session().open_portal(name, &prepared, Some(params))?;
                    return self.execute_in_session(name, &prepared, formats, rows_max, began).await;
                }
                let is_empty = prepared.is_empty();
                let work = self.begin(&prepared, params, *bytes, formats, began)?;
                *after = self.go_on(work, &prepared, formats, rows_max).await?;
                if is_empty {
                    // Nothing can be done as often as one likes.
                    *after = Stage::Bound(Vec::new());
                }
                Ok(())
            }
            Stage::Over | Stage::Failed(_) => Err(Error::internal("a portal that is over was run").into()),
        }
    }

    /// Begins to run what is bound.
    fn begin(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Datum>,
        bytes: usize,
        formats: &Formats,
        began: Instant,
    ) -> Result<Box<Suspended>, Failure> {
        self.note_run(prepared, bytes, formats);
        let began_us = self.times.began_us;
        let running = self.session().start_at(prepared, params, began_us)?;
        self.heed_cancel();
        let turn = self.turn(began);
        let rows = self.session().spare_rows();
        Ok(self.portals.suspended(Suspended { running: Some(running), rows, next: 0, tag: None, turn }))
    }

    /// Gives rows of a statement that runs here; what has become of its portal.
    async fn go_on(
        &mut self,
        mut work: Box<Suspended>,
        prepared: &Arc<Prepared>,
        formats: &Formats,
        rows_max: usize,
    ) -> Result<Stage, Failure> {
        let given = self.give(&mut work, prepared, formats, rows_max).await;
        if !matches!(given, Ok((false, _))) {
            self.note_params(work.running.as_mut());
        }
        let (is_done, given) = given?;
        if !is_done {
            // What has been given so far has to go on as it began.
            self.cannot_repeat();
            backend::portal_suspended(&mut self.link.out);
            return Ok(Stage::Suspended(work));
        }
        let tag = work.tag.take().unwrap_or_default();
        let has_rows = prepared.columns().is_some();
        if has_rows && rows_max != usize::MAX {
            self.complete(prepared, Some(&with_count(&tag, given as u64)));
        } else {
            self.complete(prepared, Some(&tag));
        }
        let rows = self.portals.done(work);
        self.session().keep_rows(rows);
        self.note_done();
        Ok(if has_rows { Stage::Exhausted(tag) } else { Stage::Over })
    }

    /// Gives rows of a portal that the session has.
    async fn execute_in_session(
        &mut self,
        name: &str,
        prepared: &Arc<Prepared>,
        formats: &Formats,
        rows_max: usize,
        began: Instant,
    ) -> Result<(), Failure> {
        // What was given has to go on as it began.
        self.cannot_repeat();
        let began_us = self.times.began_us;
        let running = self.session().start_portal(name, rows_max, began_us)?;
        self.heed_cancel();
        let turn = self.turn(began);
        let rows = self.session().spare_rows();
        let mut work = Suspended { running: Some(running), rows, next: 0, tag: None, turn };
        let (is_done, _) = self.give(&mut work, prepared, formats, rows_max).await?;
        if is_done {
            self.complete(prepared, work.tag.as_deref());
        } else {
            self.tell_notices();
            backend::portal_suspended(&mut self.link.out);
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

    /// Gives rows up to a limit. Tells whether those were the last, and how many there were.
    async fn give(
        &mut self,
        work: &mut Suspended,
        prepared: &Prepared,
        formats: &Formats,
        rows_max: usize,
    ) -> Result<(bool, usize), Failure> {
        let mut given = 0;
        loop {
            // What was said while rows were made comes in front of them.
            self.tell_notices();
            let columns = self.session().columns_now(prepared).unwrap_or_default();
            while work.next < work.rows.len() {
                if given == rows_max {
                    return Ok((false, given));
                }
                if let Err(error) = self.send_row(work.rows.row(work.next), &columns, formats) {
                    if let Some(running) = &mut work.running {
                        self.session().fail(running);
                    }
                    return Err(error.into());
                }
                work.next += 1;
                given += 1;
                if self.link.out.len() >= OUT_BYTES {
                    self.flush().await?;
                }
            }
            if given == rows_max {
                // PostgreSQL suspends here as well, though there may be no more.
                return Ok((false, given));
            }
            if work.tag.is_some() {
                return Ok((true, given));
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
                self.portals.fail();
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
        self.after_transaction();
        self.ready().await
    }
}

fn duplicate_statement(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_PREPARED, format!("prepared statement \"{name}\" already exists"))
}

fn too_many_names() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, format!("a session has at most {NAMES_MAX} portals and COPY statements"))
}
