//! Where a database stands in the log.
//!
//! The engine knows its transaction, the log has positions. A *mark* is a pair of them: behind this
//! point of the log, the database has this transaction. A database may go back to its steady point
//! at any time, with a crash or when it gives up what was not agreed on. So a node remembers the
//! marks since the last steady point, and publishes the newest one that is steady as its base.
//!
//! After a start a base is where the node begins to read (`driver`). Nothing about positions is
//! kept in the database's directory, and so nothing there can disagree with the database.
//!
//! Invariants:
//! 1. **A mark that is published is never beyond the steady point.** It is published after the
//!    steady point was made. A crash between the two leaves an older base.
//! 2. So reading may begin before the place where the database stands, and never behind it. The
//!    transactions that the database has are passed over by their numbers.
//! 3. A base that is beyond the database, since somebody has put an older copy into the directory,
//!    is not used: the base has the transaction as well. A base of the same transaction with another
//!    checksum tells that the database has another history.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use colibri_storage::TxnId;

use crate::entry::Point;

/// A point of the log, and the last transaction before it with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) txn: TxnId,
    pub(crate) chain: u64,
    pub(crate) point: Point,
}

/// The marks of a database, the oldest first.
#[derive(Default)]
pub(crate) struct Marks {
    marks: VecDeque<Mark>,
    published: Option<Mark>,
    upkeep: Option<Waker>,
}

impl Marks {
    /// The database has carried out the log up to here.
    pub(crate) fn push(&mut self, mark: Mark) {
        self.marks.push_back(mark);
        self.upkeep.take().into_iter().for_each(Waker::wake);
    }

    /// The newest mark that is not beyond a transaction. Those before it are forgotten.
    pub(crate) fn up_to(&mut self, txn: TxnId) -> Option<Mark> {
        while self.marks.get(1).is_some_and(|mark| mark.txn <= txn) {
            self.marks.pop_front();
        }
        self.marks.front().filter(|mark| mark.txn <= txn).copied()
    }

    /// Forgets what is beyond a transaction: the database has gone back to it.
    pub(crate) fn cut(&mut self, txn: TxnId) {
        self.marks.retain(|mark| mark.txn <= txn);
    }

    /// Waits until there is a mark that was not published.
    pub(crate) fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.marks.back().is_some_and(|mark| Some(mark) != self.published.as_ref()) {
            return Poll::Ready(());
        }
        self.upkeep = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn is_published(&self, mark: &Mark) -> bool {
        self.published.as_ref() == Some(mark)
    }

    pub(crate) fn note_published(&mut self, mark: Mark) {
        self.published = Some(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Chain, Position};

    #[test]
    fn the_newest_mark_that_is_steady_stays_and_what_is_beyond_is_cut() {
        let mark = |txn| Mark { txn: TxnId(txn), chain: txn, point: Point { next: Position(txn), chain: Chain(txn) } };
        let mut marks = Marks::default();
        [3, 5, 9].into_iter().for_each(|txn| marks.push(mark(txn)));
        assert_eq!(marks.up_to(TxnId(2)), None);
        assert_eq!(marks.up_to(TxnId(7)), Some(mark(5)));
        assert_eq!(marks.up_to(TxnId(7)), Some(mark(5)), "it stays");
        marks.cut(TxnId(8));
        assert_eq!(marks.up_to(TxnId(100)), Some(mark(5)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(marks.poll_pending(&mut context).is_ready());
        marks.note_published(mark(5));
        assert!(marks.poll_pending(&mut context).is_pending());
    }
}
