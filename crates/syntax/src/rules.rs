//! CREATE, ALTER and DROP RULE.
//!
//! ```text
//! CREATE [OR REPLACE] RULE name AS ON {SELECT | INSERT | UPDATE | DELETE} TO relation [WHERE condition]
//!     DO [ALSO | INSTEAD] {NOTHING | statement | (statement; …)}
//! ALTER RULE name ON relation RENAME TO name
//! DROP RULE [IF EXISTS] name ON relation [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, OnRules, Routines};

impl Parser<'_> {
    /// Behind CREATE [OR REPLACE].
    pub(crate) fn create_rule(&mut self, or_replace: bool) -> Result<Admin> {
        self.expect(K::Rule)?;
        let name = self.folded()?;
        self.expect_all(&[K::As, K::On])?;
        let events = [K::Select, K::Insert, K::Update, K::Delete];
        let event = ['r', 'a', 'w', 'd'][self.eat_any(&events).ok_or_else(|| self.wrong())?];
        self.expect(K::To)?;
        let relation = self.qualified()?;
        let mut condition = None;
        if self.eat(K::Where) {
            let taken = self.taken();
            self.expr()?;
            condition = Some(self.text_since(taken).to_owned());
        }
        self.expect(K::Do)?;
        let instead = !self.eat(K::Also) && self.eat(K::Instead);
        let mut actions = Vec::new();
        if !self.eat(K::Nothing) {
            let is_list = self.kind() == Kind::LeftParen
                && !matches!(self.kind_behind(1), Kind::LeftParen | Kind::Key(K::Select | K::Values | K::With));
            let is_list = is_list || self.kind() == Kind::LeftParen && event != 'r' && self.has_semicolon_inside();
            if is_list {
                self.expect_kind(Kind::LeftParen)?;
                loop {
                    if self.kind() == Kind::RightParen {
                        break;
                    }
                    actions.push(self.rule_action()?);
                    if !self.eat_kind(Kind::Semicolon) {
                        break;
                    }
                }
                self.expect_kind(Kind::RightParen)?;
            } else {
                actions.push(self.rule_action()?);
            }
        }
        Ok(Routines::Rules(OnRules::Create { or_replace, name, event, relation, condition, instead, actions }).into())
    }

    /// Whether a semicolon comes in the parentheses that come next.
    fn has_semicolon_inside(&self) -> bool {
        let (mut at, mut depth) = (0, 0_usize);
        loop {
            match self.kind_behind(at) {
                Kind::LeftParen => depth += 1,
                Kind::RightParen if depth <= 1 => return false,
                Kind::RightParen => depth -= 1,
                Kind::Semicolon => return true,
                Kind::End | Kind::Bad => return false,
                _ => {}
            }
            at += 1;
        }
    }

    /// The text of what a rule does.
    fn rule_action(&mut self) -> Result<String> {
        let taken = self.taken();
        if self.eat(K::Notify) {
            self.folded()?;
            if self.eat_kind(Kind::Comma) {
                self.string()?;
            }
        } else {
            self.inner()?;
        }
        Ok(self.text_since(taken).to_owned())
    }

    /// Behind DROP.
    pub(crate) fn drop_rule(&mut self) -> Result<Admin> {
        self.expect(K::Rule)?;
        let if_exists = self.if_exists()?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let relation = self.qualified()?;
        self.cascade();
        Ok(Routines::Rules(OnRules::Drop { name, relation, if_exists }).into())
    }

    /// Behind ALTER.
    pub(crate) fn alter_rule(&mut self) -> Result<Admin> {
        self.expect(K::Rule)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let relation = self.qualified()?;
        self.expect_all(&[K::Rename, K::To])?;
        let to = self.folded()?;
        Ok(Routines::Rules(OnRules::Rename { name, relation, to }).into())
    }

    /// Behind COMMENT ON.
    pub(crate) fn comment_on_rule(&mut self) -> Result<Admin> {
        self.expect(K::Rule)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let relation = self.qualified()?;
        let text = self.comment_text()?;
        Ok(Routines::Rules(OnRules::Comment { name, relation, text }).into())
    }

    /// `{ENABLE [ALWAYS | REPLICA] | DISABLE} RULE name`, if it comes next: the name and the state.
    pub(crate) fn enable_rule(&mut self) -> Result<Option<(crate::tree::Name, char)>> {
        let (words, state) = match (self.kind(), self.kind_behind(1), self.kind_behind(2)) {
            (Kind::Key(K::Enable), Kind::Key(K::Rule), _) => (2, 'O'),
            (Kind::Key(K::Disable), Kind::Key(K::Rule), _) => (2, 'D'),
            (Kind::Key(K::Enable), Kind::Key(K::Always), Kind::Key(K::Rule)) => (3, 'A'),
            (Kind::Key(K::Enable), Kind::Key(K::Replica), Kind::Key(K::Rule)) => (3, 'R'),
            _ => return Ok(None),
        };
        (0..words).for_each(|_| _ = self.next());
        Ok(Some((self.folded()?, state)))
    }
}
