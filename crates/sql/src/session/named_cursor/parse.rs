//! Reading statements about cursors.

use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use crate::statement::reader::{Reader, Token, may_begin_with};

/// Which rows FETCH gives, and where it leaves the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Goal {
    /// So many from here on; `u64::MAX` for all.
    Forward(u64),
    Backward(u64),
    /// The one with this number, from 1 on; from the end if negative.
    Absolute(i64),
    Relative(i64),
}

/// A statement about cursors as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum Parsed {
    /// The query begins at this byte.
    Declare {
        name: CompactString,
        /// `None`: neither SCROLL nor NO SCROLL.
        scroll: Option<bool>,
        binary: bool,
        hold: bool,
        insensitive: bool,
        query: usize,
    },
    Fetch {
        name: CompactString,
        goal: Goal,
        moves: bool,
    },
    Close {
        name: Option<CompactString>,
    },
}

/// Reads a statement if it is about cursors.
///
/// # Errors
/// 42601 if it begins like one and goes on otherwise.
pub(in crate::session) fn parse(text: &str) -> Result<Option<Parsed>> {
    if !may_begin_with(text, &["declare", "fetch", "move", "close"]) {
        return Ok(None);
    }
    let mut reader = Reader::new(text)?;
    let parsed = if reader.eat(&["DECLARE"]) {
        // The query goes to the end.
        return reader.declare().map(Some);
    } else if reader.eat(&["FETCH"]) {
        reader.fetch(false)?
    } else if reader.eat(&["MOVE"]) {
        reader.fetch(true)?
    } else if reader.eat(&["CLOSE"]) {
        Parsed::Close { name: if reader.eat(&["ALL"]) { None } else { Some(reader.name()?) } }
    } else {
        return Ok(None);
    };
    reader.end()?;
    Ok(Some(parsed))
}

impl Reader {
    fn declare(mut self) -> Result<Parsed> {
        let name = self.name()?;
        let (mut scroll, mut binary) = ((false, false), false);
        let mut sensitive = (false, false);
        loop {
            if self.eat(&["BINARY"]) {
                binary = true;
            } else if self.eat(&["SCROLL"]) {
                scroll.0 = true;
            } else if self.eat(&["NO"]) {
                self.expect(&["SCROLL"])?;
                scroll.1 = true;
            } else if self.eat(&["INSENSITIVE"]) {
                sensitive.0 = true;
            } else if self.eat(&["ASENSITIVE"]) {
                sensitive.1 = true;
            } else {
                break;
            }
        }
        self.expect(&["CURSOR"])?;
        let mut hold = false;
        if self.eat(&["WITHOUT"]) {
            self.expect(&["HOLD"])?;
        } else if self.eat(&["WITH"]) {
            self.expect(&["HOLD"])?;
            hold = true;
        }
        self.expect(&["FOR"])?;
        let both = |one: &str, other: &str| {
            Err(Error::new(SqlState("42P11"), format!("cannot specify both {one} and {other}")))
        };
        let scroll = match scroll {
            (true, true) => return both("SCROLL", "NO SCROLL"),
            (false, false) => None,
            (scroll, _) => Some(scroll),
        };
        if sensitive == (true, true) {
            return both("INSENSITIVE", "ASENSITIVE");
        }
        Ok(Parsed::Declare { name, scroll, binary, hold, insensitive: sensitive.0, query: self.byte() })
    }

    fn fetch(&mut self, moves: bool) -> Result<Parsed> {
        let goal = self.goal()?;
        if !self.eat(&["FROM"]) {
            self.eat(&["IN"]);
        }
        Ok(Parsed::Fetch { name: self.name()?, goal, moves })
    }

    fn goal(&mut self) -> Result<Goal> {
        // Each of these is a cursor's name as well, if nothing follows.
        if matches!(self.peek_behind(1), Token::End | Token::Semicolon) {
            return Ok(Goal::Forward(1));
        }
        Ok(if self.eat(&["NEXT"]) {
            Goal::Forward(1)
        } else if self.eat(&["PRIOR"]) {
            Goal::Backward(1)
        } else if self.eat(&["FIRST"]) {
            Goal::Absolute(1)
        } else if self.eat(&["LAST"]) {
            Goal::Absolute(-1)
        } else if self.eat(&["ABSOLUTE"]) {
            Goal::Absolute(self.number()?.ok_or_else(|| self.syntax())?)
        } else if self.eat(&["RELATIVE"]) {
            Goal::Relative(self.number()?.ok_or_else(|| self.syntax())?)
        } else if self.eat(&["ALL"]) {
            Goal::Forward(u64::MAX)
        } else if self.eat(&["FORWARD"]) {
            self.count(false)?
        } else if self.eat(&["BACKWARD"]) {
            self.count(true)?
        } else {
            match self.number()? {
                Some(count) => Goal::of(count),
                None => Goal::Forward(1),
            }
        })
    }

    fn count(&mut self, backward: bool) -> Result<Goal> {
        if self.eat(&["ALL"]) {
            return Ok(if backward { Goal::Backward(u64::MAX) } else { Goal::Forward(u64::MAX) });
        }
        let count = self.number()?.unwrap_or(1);
        Ok(match (backward, count) {
            (true, 0) => Goal::Backward(0),
            (true, count) => Goal::of(-count),
            (false, count) => Goal::of(count),
        })
    }

    fn number(&mut self) -> Result<Option<i64>> {
        let start = self.at;
        let negative = self.eat_token(&Token::Minus);
        if !negative {
            self.eat_token(&Token::Plus);
        }
        let Token::Number(digits) = self.peek() else {
            return if self.at == start { Ok(None) } else { Err(self.syntax()) };
        };
        // As in PostgreSQL a count has 32 bits.
        let number = digits.parse::<i32>().map_err(|_| self.syntax())?;
        self.at += 1;
        Ok(Some(if negative { -i64::from(number) } else { number.into() }))
    }
}

impl Goal {
    fn of(count: i64) -> Self {
        if count < 0 { Self::Backward(count.unsigned_abs()) } else { Self::Forward(count.unsigned_abs()) }
    }
}
