//! Windows: OVER, WINDOW and frames.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, Expr, WindowFrameBound as Bound, WindowFrameUnits as Units};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// `OVER w` or `OVER (…)`, if it comes next.
    pub(super) fn over(&mut self) -> Result<Option<ast::WindowType>> {
        let is_over = self.is_next(K::Over)
            && (self.kind_behind(1) == Kind::LeftParen || Self::is_column_name(self.kind_behind(1)));
        if !is_over {
            return Ok(None);
        }
        self.next();
        Ok(Some(match self.kind() {
            Kind::LeftParen => ast::WindowType::WindowSpec(self.window()?),
            _ => ast::WindowType::NamedWindow(self.name()?),
        }))
    }

    /// One of the windows behind WINDOW.
    pub(crate) fn named_window(&mut self) -> Result<ast::NamedWindowDefinition> {
        let name = self.name()?;
        self.expect(K::As)?;
        Ok(ast::NamedWindowDefinition(name, ast::NamedWindowExpr::WindowSpec(self.window()?)))
    }

    fn window(&mut self) -> Result<ast::WindowSpec> {
        self.expect_kind(Kind::LeftParen)?;
        let begins = matches!(
            self.kind(),
            Kind::Key(K::Partition | K::Order | K::Range | K::Rows | K::Groups) | Kind::RightParen
        );
        let window_name = if begins { None } else { Some(self.name()?) };
        let mut partition_by = match self.eat_all(&[K::Partition, K::By]) {
            true => self.list(Self::expr)?,
            false => Vec::new(),
        };
        let order_by = if self.is_next(K::Order) { self.order_by_list()? } else { Vec::new() };
        let units = match self.kind() {
            Kind::Key(K::Rows) => Some(Units::Rows),
            Kind::Key(K::Range) => Some(Units::Range),
            Kind::Key(K::Groups) => Some(Units::Groups),
            _ => None,
        };
        let window_frame = match units {
            Some(units) => {
                self.next();
                let frame = self.frame(units)?;
                partition_by.extend(self.exclusion()?);
                Some(frame)
            }
            None => None,
        };
        self.expect_kind(Kind::RightParen)?;
        Ok(ast::WindowSpec { window_name, partition_by, order_by, window_frame })
    }

    fn frame(&mut self, units: Units) -> Result<ast::WindowFrame> {
        let at = self.peek();
        let (start_bound, end_bound) = if self.eat(K::Between) {
            let start = self.frame_bound()?;
            self.expect(K::And)?;
            (start, Some(self.frame_bound()?))
        } else {
            (self.frame_bound()?, None)
        };
        if let Some(what) = wrong_frame(&start_bound, end_bound.as_ref()) {
            return Err(self.error_at(at, Error::new(SqlState("42P20"), what)));
        }
        Ok(ast::WindowFrame { units, start_bound, end_bound })
    }

    /// What EXCLUDE leaves out of a frame, as [`crate::EXCLUDE_MARK`] says it.
    fn exclusion(&mut self) -> Result<Option<Expr>> {
        let token = self.peek();
        if !self.eat(K::Exclude) {
            return Ok(None);
        }
        let what = match self.kind() {
            Kind::Key(K::No) => {
                self.expect_all(&[K::No, K::Others])?;
                return Ok(None);
            }
            Kind::Key(K::Current) => {
                self.expect_all(&[K::Current, K::Row])?;
                "current row"
            }
            Kind::Key(K::Group) => {
                self.next();
                "group"
            }
            Kind::Key(K::Ties) => {
                self.next();
                "ties"
            }
            _ => return Err(self.wrong()),
        };
        let mark = format!("{}{what}", crate::EXCLUDE_MARK);
        Ok(Some(Expr::Identifier(ast::Ident::with_quote_and_span('"', token.span(), mark))))
    }

    fn frame_bound(&mut self) -> Result<Bound> {
        if self.eat_all(&[K::Current, K::Row]) {
            return Ok(Bound::CurrentRow);
        }
        let is_unbounded =
            self.is_next(K::Unbounded) && matches!(self.kind_behind(1), Kind::Key(K::Preceding | K::Following));
        let rows = if is_unbounded {
            self.next();
            None
        } else {
            Some(Box::new(self.expr()?))
        };
        if self.eat(K::Preceding) {
            return Ok(Bound::Preceding(rows));
        }
        self.expect(K::Following)?;
        Ok(Bound::Following(rows))
    }
}

/// What is wrong with the ends of a frame, whatever the window is.
fn wrong_frame(start: &Bound, end: Option<&Bound>) -> Option<&'static str> {
    match (start, end) {
        (Bound::Following(None), _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
        (_, Some(Bound::Preceding(None))) => Some("frame end cannot be UNBOUNDED PRECEDING"),
        (Bound::Following(_), None) => Some("frame starting from following row cannot end with current row"),
        (Bound::CurrentRow, Some(Bound::Preceding(_))) => {
            Some("frame starting from current row cannot have preceding rows")
        }
        (Bound::Following(_), Some(Bound::Preceding(_) | Bound::CurrentRow)) => {
            Some("frame starting from following row cannot have preceding rows")
        }
        _ => None,
    }
}
