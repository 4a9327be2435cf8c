//! The statements of PL/pgSQL.

use colibri_types::{Error, Result, SqlState};

use super::{CursorArg, Ends, Expr, Goal, Into, Level, Open, Raise, Stmt, StmtKind, Target};
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::Name;

const SEMICOLON: [Ends<'static>; 1] = [Ends::Kind(Kind::Semicolon)];
/// What ends one of several expressions.
const COMMA: [Ends<'static>; 2] = [Ends::Kind(Kind::Semicolon), Ends::Kind(Kind::Comma)];

impl Parser<'_> {
    /// Statements up to one of the words, which is not taken.
    pub(super) fn statements_until(&mut self, words: &[&str]) -> Result<Vec<Stmt>> {
        let mut statements = Vec::new();
        while !words.iter().any(|word| self.is_word(word)) || self.is_assignment() {
            if self.kind() == Kind::End {
                return Err(self.wrong());
            }
            statements.push(self.nested(Self::plpgsql_statement)?);
            colibri_types::pulse::work(1)?;
        }
        Ok(statements)
    }

    /// Whether what comes next is assigned to.
    fn is_assignment(&self) -> bool {
        if !Self::is_label(self.kind()) && self.kind() != Kind::Parameter {
            return false;
        }
        let mut at = 1;
        loop {
            match self.kind_behind(at) {
                Kind::Period => at += 2,
                Kind::LeftBracket => {
                    let mut depth = 1;
                    while depth > 0 {
                        at += 1;
                        match self.kind_behind(at) {
                            Kind::LeftBracket => depth += 1,
                            Kind::RightBracket => depth -= 1,
                            Kind::End | Kind::Bad => return false,
                            _ => {}
                        }
                    }
                    at += 1;
                }
                Kind::Assign | Kind::Equal => return true,
                _ => return false,
            }
        }
    }

    fn plpgsql_statement(&mut self) -> Result<Stmt> {
        let label = self.label_of_block()?;
        let line = self.line();
        let kind = self.statement_kind(label)?;
        Ok(Stmt { line, kind })
    }

    fn statement_kind(&mut self, label: Option<Name>) -> Result<StmtKind> {
        if self.is_word("declare") || self.is_word("begin") {
            let block = self.block(label)?;
            self.expect_kind(Kind::Semicolon)?;
            return Ok(StmtKind::Block(block));
        }
        if self.is_assignment() {
            let target = self.variable_target()?;
            self.next();
            let value = self.expr_until(&SEMICOLON)?;
            self.next();
            return Ok(StmtKind::Assign { target, value });
        }
        let token = self.peek();
        let word = match token.kind {
            Kind::Name | Kind::Key(_) => self.token_text(token).to_ascii_lowercase(),
            _ => String::new(),
        };
        match word.as_str() {
            "loop" => {
                let body = self.loop_body(label.as_ref())?;
                return Ok(StmtKind::Loop { label, body });
            }
            "while" => {
                self.next();
                let condition = self.expr_until(&[Ends::Word("loop")])?;
                let body = self.loop_body(label.as_ref())?;
                return Ok(StmtKind::While { label, condition, body });
            }
            "for" => return self.for_loop(label),
            "foreach" => return self.foreach(label),
            _ => {}
        }
        if label.is_some() {
            return Err(self.wrong());
        }
        let kind = match word.as_str() {
            "if" => self.if_statement()?,
            "case" => self.case_statement()?,
            "exit" | "continue" => {
                self.next();
                let is_continue = word == "continue";
                let label = if self.kind() != Kind::Semicolon && !self.is_word("when") {
                    Some(self.folded_label()?)
                } else {
                    None
                };
                let when = if self.eat_word("when") { Some(self.expr_until(&SEMICOLON)?) } else { None };
                StmtKind::Exit { is_continue, label, when }
            }
            "return" => self.return_statement()?,
            "raise" => StmtKind::Raise(self.raise()?),
            "assert" => {
                self.next();
                let condition = self.expr_until(&COMMA)?;
                let message = if self.eat_kind(Kind::Comma) { Some(self.expr_until(&SEMICOLON)?) } else { None };
                StmtKind::Assert { condition, message }
            }
            "perform" => {
                self.next();
                StmtKind::Perform(self.expr_until(&SEMICOLON)?)
            }
            "execute" => self.execute_statement()?,
            "get" => self.get_diagnostics()?,
            "open" => self.open()?,
            "fetch" | "move" => self.fetch_of_cursor(word == "move")?,
            "close" => {
                self.next();
                StmtKind::Close(self.folded_label()?)
            }
            "null" => {
                self.next();
                StmtKind::Null
            }
            "commit" | "rollback" => {
                self.next();
                let chain = if self.eat_word("and") {
                    let no = self.eat_word("no");
                    self.expect_word("chain")?;
                    !no
                } else {
                    false
                };
                match word.as_str() {
                    "commit" => StmtKind::Commit { chain },
                    _ => StmtKind::Rollback { chain },
                }
            }
            "" if token.kind != Kind::LeftParen => return Err(self.wrong()),
            _ => self.sql_statement()?,
        };
        self.expect_kind(Kind::Semicolon)?;
        Ok(kind)
    }

    /// `LOOP … END LOOP [label];`
    fn loop_body(&mut self, label: Option<&Name>) -> Result<Vec<Stmt>> {
        self.expect_word("loop")?;
        let body = self.statements_until(&["end"])?;
        self.expect_word("end")?;
        self.expect_word("loop")?;
        self.end_label(label)?;
        self.expect_kind(Kind::Semicolon)?;
        Ok(body)
    }

    fn if_statement(&mut self) -> Result<StmtKind> {
        self.next();
        let (mut arms, mut otherwise) = (Vec::new(), Vec::new());
        loop {
            let condition = self.expr_until(&[Ends::Word("then")])?;
            self.expect_word("then")?;
            let body = self.statements_until(&["elsif", "elseif", "else", "end"])?;
            arms.push((condition, body));
            if self.eat_word("elsif") || self.eat_word("elseif") {
                continue;
            }
            if self.eat_word("else") {
                otherwise = self.statements_until(&["end"])?;
            }
            self.expect_word("end")?;
            self.expect_word("if")?;
            return Ok(StmtKind::If { arms, otherwise });
        }
    }

    fn case_statement(&mut self) -> Result<StmtKind> {
        self.next();
        let operand = if self.is_word("when") { None } else { Some(self.expr_until(&[Ends::Word("when")])?) };
        let (mut arms, mut otherwise) = (Vec::new(), None);
        while self.eat_word("when") {
            let condition = match &operand {
                // A list of values.
                Some(_) => {
                    let list = self.raw_until(&[Ends::Word("then")])?;
                    super::check_sql(&format!("SELECT 1 IN ({})", list.text), true)?;
                    list
                }
                None => self.expr_until(&[Ends::Word("then")])?,
            };
            self.expect_word("then")?;
            let body = self.statements_until(&["when", "else", "end"])?;
            arms.push((condition, body));
        }
        if arms.is_empty() {
            return Err(self.wrong());
        }
        if self.eat_word("else") {
            otherwise = Some(self.statements_until(&["end"])?);
        }
        self.expect_word("end")?;
        self.expect_word("case")?;
        Ok(StmtKind::Case { operand, arms, otherwise })
    }

    fn for_loop(&mut self, label: Option<Name>) -> Result<StmtKind> {
        self.next();
        let targets = self.targets()?;
        self.expect_word("in")?;
        let var = |targets: &[Target]| match targets {
            [Target { parts, subscripts }] if parts.len() == 1 && subscripts.is_empty() => Some(parts[0].clone()),
            _ => None,
        };
        if self.eat_word("execute") {
            let query = self.expr_until(&[Ends::Word("loop"), Ends::Word("using")])?;
            let params = self.using(&[Ends::Word("loop"), Ends::Kind(Kind::Comma)])?;
            let body = self.loop_body(label.as_ref())?;
            return Ok(StmtKind::ForExecute { label, targets, query, params, body });
        }
        let begins_query = matches!(
            self.kind(),
            Kind::Key(
                K::Select | K::With | K::Values | K::Table | K::Insert | K::Update | K::Delete | K::Explain | K::Show
            )
        );
        let reverse = !begins_query && self.eat_word("reverse");
        let first = self.peek();
        let (line, taken) = (self.line(), self.taken());
        self.skip_until(&[Ends::Word("loop"), Ends::Kind(Kind::TwoPeriods)])?;
        if self.taken() == taken {
            return Err(self.near(first, "missing expression"));
        }
        let text = self.text_since(taken).to_owned();
        let expr = Expr { text, line };
        if self.eat_kind(Kind::TwoPeriods) {
            let low = expr;
            super::check_expr(&low)?;
            let high = self.expr_until(&[Ends::Word("loop"), Ends::Word("by")])?;
            let step = if self.eat_word("by") { Some(self.expr_until(&[Ends::Word("loop")])?) } else { None };
            let Some(var) = var(&targets) else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "integer FOR loop must have only one target variable"));
            };
            let body = self.loop_body(label.as_ref())?;
            return Ok(StmtKind::ForInteger { label, var, low, high, step, reverse, body });
        }
        if reverse {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "cannot specify REVERSE in query FOR loop"));
        }
        let is_cursor = !begins_query && Self::is_label(first.kind);
        if is_cursor && let Some(var) = var(&targets) {
            let (cursor, args) = cursor_call(&expr.text)?;
            let body = self.loop_body(label.as_ref())?;
            return Ok(StmtKind::ForCursor { label, var, cursor, args, body });
        }
        super::check_sql(&expr.text, true)?;
        let body = self.loop_body(label.as_ref())?;
        Ok(StmtKind::ForQuery { label, targets, query: expr, body })
    }

    fn foreach(&mut self, label: Option<Name>) -> Result<StmtKind> {
        self.next();
        let targets = self.targets()?;
        let mut slice = 0;
        if self.eat_word("slice") {
            slice = self.unsigned()? as usize;
        }
        self.expect_word("in")?;
        self.expect_word("array")?;
        let array = self.expr_until(&[Ends::Word("loop")])?;
        let body = self.loop_body(label.as_ref())?;
        Ok(StmtKind::Foreach { label, targets, slice, array, body })
    }

    fn return_statement(&mut self) -> Result<StmtKind> {
        self.next();
        if self.kind() == Kind::Semicolon {
            return Ok(StmtKind::Return(None));
        }
        if self.is_word("next") {
            self.next();
            if self.kind() == Kind::Semicolon {
                return Ok(StmtKind::ReturnNext(None));
            }
            return Ok(StmtKind::ReturnNext(Some(self.expr_until(&SEMICOLON)?)));
        }
        if self.is_word("query") {
            self.next();
            if self.eat_word("execute") {
                let query = self.expr_until(&[Ends::Kind(Kind::Semicolon), Ends::Word("using")])?;
                let params = self.using(&COMMA)?;
                return Ok(StmtKind::ReturnExecute { query, params });
            }
            return Ok(StmtKind::ReturnQuery(self.sql_until(&SEMICOLON, true)?));
        }
        Ok(StmtKind::Return(Some(self.expr_until(&SEMICOLON)?)))
    }

    /// `USING value, …`, if it comes next.
    fn using(&mut self, ends: &[Ends<'_>]) -> Result<Vec<Expr>> {
        let mut params = Vec::new();
        if !self.eat_word("using") {
            return Ok(params);
        }
        loop {
            params.push(self.expr_until(ends)?);
            if !self.eat_kind(Kind::Comma) {
                return Ok(params);
            }
        }
    }

    fn raise(&mut self) -> Result<Raise> {
        self.next();
        let mut raise =
            Raise { level: Level::Exception, format: None, condition: None, options: Vec::new(), is_bare: false };
        if self.kind() == Kind::Semicolon {
            raise.is_bare = true;
            return Ok(raise);
        }
        let levels = [
            ("exception", Level::Exception),
            ("warning", Level::Warning),
            ("notice", Level::Notice),
            ("info", Level::Info),
            ("log", Level::Log),
            ("debug", Level::Debug),
        ];
        if let Some((_, level)) = levels.iter().find(|(word, _)| self.is_word(word)) {
            self.next();
            raise.level = *level;
        }
        if Self::is_string(self.kind()) {
            let token = self.peek();
            let format = self.string()?;
            let mut args = Vec::new();
            while self.eat_kind(Kind::Comma) {
                args.push(self.expr_until(&[
                    Ends::Kind(Kind::Semicolon),
                    Ends::Kind(Kind::Comma),
                    Ends::Word("using"),
                ])?);
            }
            let wanted = format.replace("%%", "").matches('%').count();
            if wanted != args.len() {
                let few = if wanted > args.len() { "few" } else { "many" };
                let message = format!("too {few} parameters specified for RAISE");
                return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            raise.format = Some((format, args));
        } else if self.kind() != Kind::Semicolon && !self.is_word("using") {
            raise.condition = Some(self.condition()?);
        }
        if self.eat_word("using") {
            loop {
                let name = self.folded_label()?;
                let known =
                    ["message", "detail", "hint", "errcode", "column", "constraint", "datatype", "table", "schema"];
                if !known.contains(&name.as_str()) {
                    return Err(self.near(self.last(), "unrecognized RAISE statement option"));
                }
                if !self.eat_kind(Kind::Equal) && !self.eat_kind(Kind::Assign) {
                    return Err(self.wrong());
                }
                raise.options.push((name, self.expr_until(&COMMA)?));
                if !self.eat_kind(Kind::Comma) {
                    break;
                }
            }
        }
        Ok(raise)
    }

    fn execute_statement(&mut self) -> Result<StmtKind> {
        self.next();
        let ends = [Ends::Kind(Kind::Semicolon), Ends::Word("into"), Ends::Word("using")];
        let query = self.expr_until(&ends)?;
        let (mut into, mut params) = (None, Vec::new());
        loop {
            if self.is_word("into") && into.is_none() {
                self.next();
                into = Some(self.into()?);
            } else if self.is_word("using") && params.is_empty() {
                params = self.using(&[Ends::Kind(Kind::Semicolon), Ends::Kind(Kind::Comma), Ends::Word("into")])?;
            } else if self.kind() == Kind::Semicolon {
                return Ok(StmtKind::Execute { query, into, params });
            } else {
                return Err(self.wrong());
            }
        }
    }

    fn get_diagnostics(&mut self) -> Result<StmtKind> {
        self.next();
        let stacked = if self.eat_word("stacked") {
            true
        } else {
            self.eat_word("current");
            false
        };
        self.expect_word("diagnostics")?;
        let items = self.list(|parser| {
            let target = parser.variable_target()?;
            if !parser.eat_kind(Kind::Equal) && !parser.eat_kind(Kind::Assign) {
                return Err(parser.wrong());
            }
            let token = parser.peek();
            let item = parser.folded_label()?;
            let only_current = ["row_count", "pg_routine_oid"];
            let only_stacked = [
                "pg_exception_context",
                "pg_exception_detail",
                "pg_exception_hint",
                "returned_sqlstate",
                "column_name",
                "constraint_name",
                "pg_datatype_name",
                "message_text",
                "table_name",
                "schema_name",
            ];
            let is_known = match item.as_str() {
                "pg_context" => !stacked,
                name if only_current.contains(&name) => !stacked,
                name if only_stacked.contains(&name) => stacked,
                _ => return Err(parser.near(token, "unrecognized GET DIAGNOSTICS item")),
            };
            if !is_known {
                let which = if stacked { "STACKED" } else { "CURRENT" };
                let message =
                    format!("diagnostics item {} is not allowed in GET {which} DIAGNOSTICS", item.to_ascii_uppercase());
                return Err(parser.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            Ok((target, item))
        })?;
        Ok(StmtKind::GetDiagnostics { stacked, items })
    }

    fn open(&mut self) -> Result<StmtKind> {
        self.next();
        let cursor = self.folded_label()?;
        let scroll = self.scroll();
        let how = if self.eat_word("for") {
            if self.eat_word("execute") {
                let query = self.expr_until(&[Ends::Kind(Kind::Semicolon), Ends::Word("using")])?;
                Open::Execute { scroll, query, params: self.using(&COMMA)? }
            } else {
                Open::Query { scroll, query: self.sql_until(&SEMICOLON, true)? }
            }
        } else {
            let mut args = Vec::new();
            if self.kind() == Kind::LeftParen {
                args = self.in_parens(Self::cursor_arg)?;
            }
            Open::Declared(args)
        };
        Ok(StmtKind::Open { cursor, how })
    }

    fn cursor_arg(&mut self) -> Result<CursorArg> {
        let mut name = None;
        if matches!(self.kind_behind(1), Kind::Assign | Kind::Arrow) && Self::is_label(self.kind()) {
            name = Some(self.folded_label()?);
            self.next();
        }
        let value = self.expr_until(&[Ends::Kind(Kind::Comma), Ends::Kind(Kind::RightParen)])?;
        Ok(CursorArg { name, value })
    }

    fn fetch_of_cursor(&mut self, is_move: bool) -> Result<StmtKind> {
        self.next();
        let ends = [Ends::Word("from"), Ends::Word("in")];
        let words = [("next", Goal::Next), ("prior", Goal::Prior), ("first", Goal::First), ("last", Goal::Last)];
        // A direction is followed by FROM or IN, or by the cursor.
        let has_cursor_behind =
            |parser: &Self| !matches!(parser.kind_behind(1), Kind::Semicolon) && !parser.is_word_behind(1, "into");
        let mut goal = Goal::Next;
        if let Some((_, found)) = words.iter().find(|(word, _)| self.is_word(word) && has_cursor_behind(self)) {
            goal = found.clone();
            self.next();
        } else if self.is_word("absolute") && has_cursor_behind(self) {
            self.next();
            goal = Goal::Absolute(self.expr_until(&ends)?);
        } else if self.is_word("relative") && has_cursor_behind(self) {
            self.next();
            goal = Goal::Relative(self.expr_until(&ends)?);
        } else if self.is_word("all") && is_move {
            self.next();
            goal = Goal::Forward(None);
        } else if (self.is_word("forward") || self.is_word("backward")) && has_cursor_behind(self) {
            let forward = self.is_word("forward");
            self.next();
            let one = Expr { text: "1".to_owned(), line: self.line() };
            let count = if self.eat_word("all") {
                None
            } else if self.ends_here(&ends) || self.kind_behind(1) == Kind::Semicolon || self.is_word_behind(1, "into")
            {
                Some(one)
            } else {
                Some(self.expr_until(&ends)?)
            };
            goal = if forward { Goal::Forward(count) } else { Goal::Backward(count) };
        } else if !self.is_word("from") && !self.is_word("in") && self.kind() == Kind::Integer {
            goal = Goal::Forward(Some(self.expr_until(&ends)?));
        }
        if !self.eat_word("from") {
            self.eat_word("in");
        }
        let cursor = self.folded_label()?;
        let into = if is_move {
            None
        } else {
            self.expect_word("into")?;
            let mut into = self.into()?;
            into.strict = false;
            Some(into)
        };
        Ok(StmtKind::Fetch { cursor, goal, into })
    }

    /// A statement of SQL; INTO is taken out of it.
    fn sql_statement(&mut self) -> Result<StmtKind> {
        let (line, start) = (self.line(), self.peek().start as usize);
        let first = self.peek();
        let mut into: Option<(Into, std::ops::Range<usize>)> = None;
        let mut before = None;
        let mut depth = 0usize;
        // Only these have an INTO that is the language's own.
        let may_have_into = matches!(
            first.kind,
            Kind::LeftParen | Kind::Key(K::Select | K::Insert | K::Update | K::Delete | K::With | K::Merge | K::Values)
        );
        // CREATE FUNCTION … BEGIN ATOMIC has semicolons inside of it.
        let mut atomic = 0usize;
        loop {
            match self.kind() {
                Kind::Semicolon if depth == 0 && atomic == 0 => break,
                Kind::End => return Err(self.wrong()),
                Kind::Bad => return Err(self.wrong()),
                Kind::LeftParen => depth += 1,
                Kind::RightParen => depth = depth.saturating_sub(1),
                Kind::Key(K::Begin) if self.kind_behind(1) == Kind::Key(K::Atomic) => atomic += 1,
                Kind::Key(K::Case) if atomic > 0 => atomic += 1,
                Kind::Key(K::End) if atomic > 0 => atomic -= 1,
                Kind::Key(K::Into) if may_have_into && !matches!(before, Some(Kind::Key(K::Insert | K::Merge))) => {
                    let token = self.next();
                    if into.is_some() {
                        return Err(
                            self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, "INTO specified more than once"))
                        );
                    }
                    let read = self.into()?;
                    into = Some((read, token.start as usize..self.last().end as usize));
                    before = Some(self.last().kind);
                    continue;
                }
                _ => {}
            }
            before = Some(self.kind());
            self.next();
        }
        let end = self.last().end as usize;
        let (text, into) = match into {
            Some((into, taken)) => {
                let text = format!("{} {}", &self.text[start..taken.start], &self.text[taken.end..end]);
                (text, Some(into))
            }
            None => (self.text[start..end].to_owned(), None),
        };
        super::check_sql(&text, false)?;
        Ok(StmtKind::Sql { text: Expr { text, line }, into })
    }
}

/// `name` or `name (value, …)`
fn cursor_call(text: &str) -> Result<(Name, Vec<CursorArg>)> {
    let tokens = crate::lexer::tokens(text)?;
    let mut parser = Parser::new(tokens, super::LEVELS_MAX);
    let cursor = parser.folded_label()?;
    let mut args = Vec::new();
    if parser.kind() == Kind::LeftParen {
        args = parser.in_parens(Parser::cursor_arg)?;
    }
    if parser.kind() != Kind::End {
        return Err(parser.wrong());
    }
    Ok((cursor, args))
}
