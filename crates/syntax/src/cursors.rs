//! DECLARE, FETCH, MOVE and CLOSE.
//!
//! ```text
//! DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH|WITHOUT HOLD] FOR query
//! FETCH|MOVE [direction] [FROM|IN] name
//! CLOSE name|ALL
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Declare, Fetch, Goal, Name};

impl Parser<'_> {
    pub(crate) fn declare(&mut self) -> Result<Declare> {
        self.expect(K::Declare)?;
        let name = self.folded()?;
        let (mut scroll, mut no_scroll, mut binary) = (false, false, false);
        let (mut insensitive, mut asensitive) = (false, false);
        loop {
            if self.eat(K::Binary) {
                binary = true;
            } else if self.eat(K::Scroll) {
                scroll = true;
            } else if self.eat(K::No) {
                self.expect(K::Scroll)?;
                no_scroll = true;
            } else if self.eat(K::Insensitive) {
                insensitive = true;
            } else if self.eat(K::Asensitive) {
                asensitive = true;
            } else {
                break;
            }
        }
        self.expect(K::Cursor)?;
        let mut hold = false;
        if self.eat(K::Without) {
            self.expect(K::Hold)?;
        } else if self.eat(K::With) {
            self.expect(K::Hold)?;
            hold = true;
        }
        self.expect(K::For)?;
        let both =
            |one: &str, other: &str| Error::new(SqlState("42P11"), format!("cannot specify both {one} and {other}"));
        if scroll && no_scroll {
            self.note_error(both("SCROLL", "NO SCROLL"));
        }
        if insensitive && asensitive {
            self.note_error(both("INSENSITIVE", "ASENSITIVE"));
        }
        let may = matches!(self.kind(), Kind::LeftParen | Kind::Key(K::Select | K::Values | K::Table | K::With));
        if !may {
            return Err(self.wrong());
        }
        let query = self.inner()?;
        let scroll = (scroll || no_scroll).then_some(scroll);
        Ok(Declare { name, scroll, binary, hold, insensitive, query })
    }

    /// FETCH, or MOVE.
    pub(crate) fn fetch_statement(&mut self) -> Result<Fetch> {
        let moves = self.next().kind == Kind::Key(K::Move);
        let goal = self.goal()?;
        if !self.eat(K::From) {
            self.eat(K::In);
        }
        Ok(Fetch { name: self.folded()?, goal, moves })
    }

    /// The cursor that CLOSE closes; `None`: all.
    pub(crate) fn close(&mut self) -> Result<Option<Name>> {
        self.expect(K::Close)?;
        if self.eat(K::All) { Ok(None) } else { self.folded().map(Some) }
    }

    fn goal(&mut self) -> Result<Goal> {
        // Each of these words is a cursor's name as well, if nothing follows.
        if matches!(self.kind_behind(1), Kind::End | Kind::Semicolon) {
            return Ok(Goal::Forward(1));
        }
        Ok(if self.eat(K::Next) {
            Goal::Forward(1)
        } else if self.eat(K::Prior) {
            Goal::Backward(1)
        } else if self.eat(K::First) {
            Goal::Absolute(1)
        } else if self.eat(K::Last) {
            Goal::Absolute(-1)
        } else if self.eat(K::Absolute) {
            Goal::Absolute(self.integer_with_sign()?)
        } else if self.eat(K::Relative) {
            Goal::Relative(self.integer_with_sign()?)
        } else if self.eat(K::All) {
            Goal::Forward(u64::MAX)
        } else if self.eat(K::Forward) {
            self.count(false)?
        } else if self.eat(K::Backward) {
            self.count(true)?
        } else {
            self.maybe_count()?.map_or(Goal::Forward(1), Goal::of)
        })
    }

    fn count(&mut self, backward: bool) -> Result<Goal> {
        if self.eat(K::All) {
            return Ok(if backward { Goal::Backward(u64::MAX) } else { Goal::Forward(u64::MAX) });
        }
        let count = self.maybe_count()?.unwrap_or(1);
        Ok(match (backward, count) {
            (true, 0) => Goal::Backward(0),
            (true, count) => Goal::of(-count),
            (false, count) => Goal::of(count),
        })
    }

    fn maybe_count(&mut self) -> Result<Option<i64>> {
        let is_count = matches!(self.kind(), Kind::Plus | Kind::Minus | Kind::Integer | Kind::Decimal);
        if is_count { self.integer_with_sign().map(Some) } else { Ok(None) }
    }

    /// As in PostgreSQL a count has 32 bits.
    fn integer_with_sign(&mut self) -> Result<i64> {
        if self.eat_kind(Kind::Plus) && self.kind() == Kind::Minus {
            return Err(self.wrong());
        }
        self.integer().map(i64::from)
    }
}
