//! A transaction that a plan works on and that functions of users take over while they run.
//!
//! A plan is given its transaction by reference. A function that is called in one of its
//! expressions runs statements of all kinds, which need a session with a transaction of its own.
//! So the session gives the plan this one around its own; a call takes out what is inside, and puts
//! it back when it is over.
//!
//! Invariant: it is empty only while a call has what was inside; nobody uses it meanwhile.

use std::sync::Arc;

use colibri_txn::{
    AtCommit, Begin, ColumnSet, Commit, CommitTicket, Direction, ForkReads, Found, IfLocked, Key, KeyRange, LockMode,
    OwnerId, Patch, Remains, Result, Savepoint, Skipped, Space, SpaceId, Transaction, TxnId, Visit,
};

/// A transaction that can be taken out.
pub(super) struct Lent(Option<Box<dyn Transaction>>);

impl Lent {
    pub(super) fn new(txn: Box<dyn Transaction>) -> Self {
        Self(Some(txn))
    }

    /// What is inside, for good.
    pub(super) fn into_inner(self) -> Option<Box<dyn Transaction>> {
        self.0
    }

    fn inside(&self) -> &dyn Transaction {
        self.0.as_deref().expect("a transaction is back before its plan goes on")
    }

    fn inside_mut(&mut self) -> &mut dyn Transaction {
        self.0.as_deref_mut().expect("a transaction is back before its plan goes on")
    }
}

impl Transaction for Lent {
    fn fork(&self) -> Result<Option<Box<dyn Transaction>>> {
        self.inside().fork()
    }

    fn join(&mut self, reads: ForkReads) {
        self.inside_mut().join(reads);
    }

    fn lend(&mut self) -> Option<Box<dyn Transaction>> {
        self.0.take()
    }

    fn give_back(&mut self, txn: Box<dyn Transaction>) {
        self.0 = Some(txn);
    }

    fn begun(&self) -> Begin {
        self.inside().begun()
    }

    fn id(&self) -> OwnerId {
        self.inside().id()
    }

    fn sees(&self) -> TxnId {
        self.inside().sees()
    }

    fn ticket_of_reads(&self) -> CommitTicket {
        self.inside().ticket_of_reads()
    }

    fn take_read_back(&mut self) -> Option<SpaceId> {
        self.inside_mut().take_read_back()
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.inside_mut().set_read_only(read_only);
    }

    fn has_writes(&self) -> bool {
        self.inside().has_writes()
    }

    fn write_bytes(&self) -> usize {
        self.inside().write_bytes()
    }

    fn get(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<Option<&[u8]>> {
        self.inside_mut().get(space, key, columns)
    }

    fn get_many(&mut self, space: &Space, keys: &[&[u8]], columns: ColumnSet, visit: &mut Found<'_>) -> Result<()> {
        self.inside_mut().get_many(space, keys, columns, visit)
    }

    fn depend(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        self.inside_mut().depend(space, key, columns)
    }

    fn peek(&mut self, space: &Space, key: &[u8]) -> Result<Option<&[u8]>> {
        self.inside_mut().peek(space, key)
    }

    fn scan(
        &mut self,
        space: &Space,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.inside_mut().scan(space, range, direction, columns, limit, visit)
    }

    fn prefetch(&mut self, space: &Space, keys: &[&[u8]], ranges: &[KeyRange]) {
        self.inside_mut().prefetch(space, keys, ranges);
    }

    fn fetches(&self) -> bool {
        self.inside().fetches()
    }

    fn let_fetch(&mut self, may: bool) {
        self.inside_mut().let_fetch(may);
    }

    fn count(&mut self, space: &Space, range: &KeyRange) -> Result<u64> {
        self.inside_mut().count(space, range)
    }

    fn skip(&mut self, space: &Space, range: &KeyRange, direction: Direction, rows: u64) -> Result<Option<Skipped>> {
        self.inside_mut().skip(space, range, direction, rows)
    }

    fn estimate(&self, space: &Space, range: &KeyRange) -> Result<u64> {
        self.inside().estimate(space, range)
    }

    fn sample(&self, space: &Space, entries_max: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.inside().sample(space, entries_max, visit)
    }

    fn append(&mut self, space: &Space, prefix: &[u8], value: &[u8]) -> Result<()> {
        self.inside_mut().append(space, prefix, value)
    }

    fn cut(&mut self, space: &Space, prefix: &[u8], below: i64) -> Result<()> {
        self.inside_mut().cut(space, prefix, below)
    }

    fn edge(&mut self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<(Key, Vec<u8>)>> {
        self.inside_mut().edge(space, range, direction)
    }

    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.inside_mut().put(space, key, value)
    }

    fn delete(&mut self, space: &Space, key: &[u8]) -> Result<()> {
        self.inside_mut().delete(space, key)
    }

    fn patch(&mut self, space: &Space, key: &[u8], adds: ColumnSet, patch: Arc<dyn Patch>) -> Result<()> {
        self.inside_mut().patch(space, key, adds, patch)
    }

    fn keep_old(&mut self) {
        self.inside_mut().keep_old();
    }

    fn see_old(&mut self, sees_old: bool) -> bool {
        self.inside_mut().see_old(sees_old)
    }

    fn forget_old(&mut self) {
        self.inside_mut().forget_old();
    }

    fn is_written(&self, space: &Space, key: &[u8]) -> bool {
        self.inside().is_written(space, key)
    }

    fn note_written(&mut self, space: &Space, key: &[u8]) {
        self.inside_mut().note_written(space, key);
    }

    fn load(&mut self, space: &Space, entries: Vec<(Key, Vec<u8>)>) -> Result<()> {
        self.inside_mut().load(space, entries)
    }

    fn create_space(&mut self, space: SpaceId) -> Result<()> {
        self.inside_mut().create_space(space)
    }

    fn drop_space(&mut self, space: SpaceId) -> Result<()> {
        self.inside_mut().drop_space(space)
    }

    fn lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        self.inside_mut().lock(space, key, mode, if_locked)
    }

    fn expect_newest(&mut self, space: &Space, range: &KeyRange) -> Result<()> {
        self.inside_mut().expect_newest(space, range)
    }

    fn begin_statement(&mut self) -> Result<Savepoint> {
        self.inside_mut().begin_statement()
    }

    fn savepoint(&self) -> Savepoint {
        self.inside().savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inside_mut().rollback_to(savepoint)
    }

    fn restart(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inside_mut().restart(savepoint)
    }

    fn catch_up(&mut self) -> Result<Option<bool>> {
        self.inside_mut().catch_up()
    }

    fn look_ahead(&mut self) -> Result<()> {
        self.inside_mut().look_ahead()
    }

    fn look_back(&mut self) -> Result<()> {
        self.inside_mut().look_back()
    }

    fn at_commit(&mut self, then: AtCommit) -> Option<AtCommit> {
        self.inside_mut().at_commit(then)
    }

    fn commit_leaving(mut self: Box<Self>, remains: &mut Option<Box<dyn Remains>>) -> Result<Commit> {
        self.0.take().expect("a transaction is back before it commits").commit_leaving(remains)
    }

    fn begin_to_prepare(&mut self) -> Result<()> {
        self.inside_mut().begin_to_prepare()
    }

    fn prepare(mut self: Box<Self>, name: &str, about: Vec<u8>) -> Result<Commit> {
        self.0.take().expect("a transaction is back before it is prepared").prepare(name, about)
    }
}
