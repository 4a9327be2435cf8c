//! From text to the parser's tree, with PostgreSQL's errors.
//!
//! How deep a tree will be is told by the tokens, before there is one: parsing, binding and dropping it take stack for each
//! level. Statements of everyday depth are prepared where they come from; deeper ones on a stack made for them
//! ([`on_deep_stack`]); the deepest are refused. Depth is counted in units that stand for about a kilobyte of stack.
//!
//! Invariant: whatever the catalogue keeps as text is shallow.

use std::cell::Cell;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use colibri_types::{Error, Result, SqlState, pulse, pulse::Pulse};
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use depth::depth;

mod depth;
mod mend;
mod operators;
pub(crate) mod reader;

/// Bytes of a text of statements at most.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Calls inside each other that the parser makes, up to three for a level of nesting. How many
/// levels there may be, the tokens tell.
const NESTING_MAX: usize = DEPTH_MAX / depth::NESTED * 3;
/// Units that fit the stack of any thread, of 2 MiB.
const DEPTH_SHALLOW: usize = 800;
/// What the catalogue keeps may have become a little deeper than the statement was that it comes from.
const DEPTH_KEPT: usize = 1_000;
/// Units that fit [`DEEP_STACK_BYTES`].
const DEPTH_MAX: usize = 40_000;
/// Expressions inside each other that the stack of any thread can evaluate.
pub(crate) const EXPRESSIONS_MAX: usize = 3_000;
/// The stack for deep statements. Only what is used of it becomes memory.
const DEEP_STACK_BYTES: usize = 128 << 20;

/// How often a thread that waits for such a stack lets others run.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The first part of a name behind `FOR … OF` that stands for several names, or for a strength that the parser does not
/// know; no name that anybody gives.
pub(crate) const LOCK_MARK: &str = "\u{1}rows";
/// The same, where keys are locked apart from rows: FOR NO KEY UPDATE and FOR KEY SHARE.
pub(crate) const KEY_LOCK_MARK: &str = "\u{1}rows but keys";

/// The first part of a name that stands for `CURRENT OF`; the second is the cursor's.
pub(crate) const CURRENT_OF_MARK: &str = "\u{1}row of";

/// What ROWS FROM is spelled as behind the parser.
pub(crate) const ROWS_FROM: &str = "rows from";

/// What begins the text of an identity column's options, or of a change of one, in place of the
/// number of START.
pub(crate) const IDENTITY_MARK: &str = "\u{1}identity ";

/// The type of a column that `CREATE TABLE t (a) AS` names: its query tells the real one.
pub(crate) const ANY_TYPE_MARK: &str = "\u{1}any";

const DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// The tokens of a text, and how deep a tree they make.
pub(crate) struct Scanned<'t> {
    text: &'t str,
    tokens: Vec<TokenWithSpan>,
    depth: usize,
}

/// Finds the tokens of a text.
pub(crate) fn scan(text: &str) -> Result<Scanned<'_>> {
    let tokens = tokenize(text)?;
    let depth = depth(&tokens);
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    Ok(Scanned { text, tokens, depth })
}

impl Scanned<'_> {
    /// Whether what is done with the tree needs a stack made for it.
    pub(crate) fn is_deep(&self) -> bool {
        self.depth > DEPTH_SHALLOW
    }

    /// The statements of the text, each with its place.
    pub(crate) fn parse(self) -> Result<Vec<ast::Statement>> {
        let tokens = mend::mend(self.text, self.tokens)?;
        let has_prefixes = operators::may_have_prefixes(&tokens);
        let mut parser = Parser::new(&DIALECT).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
        // Where the parser tries another reading, it forgets that the first one was too deep.
        let may_be_deep = self.depth > DEPTH_MAX / 2;
        let mut statements = parser.parse_statements().map_err(|error| match syntax_error(self.text, &error) {
            error if may_be_deep && error.state() == SqlState::SYNTAX_ERROR => too_deep(),
            error => error,
        })?;
        if has_prefixes {
            statements.iter_mut().try_for_each(operators::take_whole_operands)?;
        }
        // Parts of others may be kept as text.
        let is_kept = |statement: &ast::Statement| {
            !matches!(statement, ast::Statement::Query(_) | ast::Statement::Insert(_) | ast::Statement::Update { .. })
        };
        statements.iter_mut().filter(|statement| is_kept(statement)).for_each(operators::keep_apart);
        Ok(statements)
    }
}

/// The statements of a text that is not deep, each with its place.
pub(crate) fn parse(text: &str) -> Result<Vec<ast::Statement>> {
    let scanned = scan(text)?;
    if scanned.depth > DEPTH_KEPT {
        return Err(too_deep());
    }
    scanned.parse()
}

thread_local! {
    /// Whether this thread was made for a deep statement.
    static ON_DEEP_STACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the stack at hand fits the deepest statement.
pub(crate) fn is_on_deep_stack() -> bool {
    ON_DEEP_STACK.get()
}

/// Runs on a thread whose stack fits the deepest statement. What is made of the tree has to leave it behind.
///
/// That thread only looks whether the statement was cancelled; this one lets others run while it waits.
pub(crate) fn on_deep_stack<T: Send>(run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pulse = pulse::elsewhere();
    let (running, over) = std::sync::mpsc::channel::<()>();
    let run = move || {
        // Dropped at the end, which this thread is told by.
        let _running = running;
        let _at_work = pulse.map(Pulse::begin);
        ON_DEEP_STACK.set(true);
        run()
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("deep statement".to_owned()).stack_size(DEEP_STACK_BYTES);
        let Ok(thread) = builder.spawn_scoped(scope, run) else { return Err(too_deep()) };
        while over.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
            // Whether it was cancelled is for the other thread to say.
            let _ = pulse::check();
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The error for what is nested too deep, or has too many operators in a row.
pub(crate) fn too_deep() -> Error {
    Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded")
        .hint("The statement has too many operators in a row, or too many levels of parentheses or queries inside each other.")
}

/// The statements of a text as texts.
pub(crate) fn split(text: &str) -> Result<Vec<&str>> {
    let tokens = tokenize(text)?;
    let mut parts = Vec::new();
    let mut start: Option<usize> = None;
    let mut end = 0;
    let mut walker = Walker { text, line: 1, column: 1, byte: 0 };
    for token in &tokens {
        let at = walker.byte_of(token.span.start);
        match &token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => {
                if let Some(start) = start.take() {
                    parts.push(&text[start..end]);
                }
            }
            _ => {
                start.get_or_insert(at);
                end = walker.byte_of(token.span.end);
            }
        }
    }
    if let Some(start) = start {
        parts.push(&text[start..end]);
    }
    Ok(parts)
}

/// Finds bytes by line and column, going forward only.
struct Walker<'t> {
    text: &'t str,
    line: u64,
    column: u64,
    byte: usize,
}

impl Walker<'_> {
    fn byte_of(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            let Some(next) = self.text[self.byte..].chars().next() else { break };
            self.byte += next.len_utf8();
            if next == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte
    }
}

/// One expression, as the catalogue stores it.
pub(crate) fn parse_expr(text: &str) -> Result<ast::Expr> {
    let scanned = scan(text)?;
    if scanned.depth > DEPTH_KEPT {
        return Err(too_deep());
    }
    let tokens = mend::mend(text, scanned.tokens)?;
    let has_prefixes = operators::may_have_prefixes(&tokens);
    let mut parser = Parser::new(&DIALECT).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let mut expr = parser.parse_expr().map_err(|error| syntax_error(text, &error))?;
    if has_prefixes {
        operators::take_whole_operands(&mut expr)?;
    }
    match parser.peek_token().token {
        Token::EOF => Ok(expr),
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    }
}

/// The name of a type.
pub(crate) fn parse_type(text: &str) -> Result<ast::DataType> {
    let mut parser =
        Parser::new(&DIALECT).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokenize(text)?);
    let ty = parser.parse_data_type().map_err(|error| syntax_error(text, &error))?;
    match parser.peek_token().token {
        Token::EOF => Ok(ty),
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    }
}

/// One query, as the catalogue stores it.
pub(crate) fn parse_query(text: &str) -> Result<ast::Query> {
    match parse(text)?.pop() {
        Some(ast::Statement::Query(query)) => Ok(*query),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "a query was expected")),
    }
}

/// The statement that a PREPARE prepares, as it is written: `PREPARE name (types) AS statement`.
pub(crate) fn text_prepared(text: &str) -> Result<&str> {
    let mut depth = 0usize;
    let mut tokens = placed_tokens(text)?.into_iter();
    for (token, _) in tokens.by_ref() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && word.quote_style.is_none() && word.value.eq_ignore_ascii_case("as") => {
                break;
            }
            _ => {}
        }
    }
    Ok(tokens.next().map_or("", |(_, at)| text[at..].trim_end_matches([';', ' ', '\n', '\t', '\r'])))
}

/// The tokens of a text without blanks and comments, each with the byte where it begins.
fn placed_tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut walker = Walker { text, line: 1, column: 1, byte: 0 };
    let solid = tokenize(text)?.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    Ok(solid.map(|token| (token.token, walker.byte_of(token.span.start))).collect())
}

fn tokenize(text: &str) -> Result<Vec<TokenWithSpan>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::new(SqlState::PROGRAM_LIMIT, format!("a statement of {} bytes is too long", text.len())));
    }
    if text.contains('\0') {
        return Err(Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    let tokens = Tokenizer::new(&DIALECT, text).tokenize_with_location().map_err(|error| {
        if let Some(error) = bad_escape(text, error.location) {
            return error;
        }
        if error.message.contains("valid binary operator after '@-'") {
            // The tokenizer stands behind it.
            let column = error.location.column.saturating_sub(2).max(1);
            return operator_in_front(text, "@-", Some(Location { column, ..error.location }));
        }
        let (message, near) = unterminated(&error.message, text, error.location);
        Error::new(SqlState::SYNTAX_ERROR, message).at(near)
    })?;
    operators::divide(text, tokens)
}

/// What is wrong with an `E'…'` that the tokenizer gives up on, though it ends.
fn bad_escape(text: &str, place: Location) -> Option<Error> {
    let at = Walker { text, line: 1, column: 1, byte: 0 }.byte_of(place);
    let literal = text[at..].strip_prefix(['e', 'E'])?.strip_prefix('\'')?;
    let mut chars = literal.char_indices();
    let mut wrong = None;
    while let Some((from, next)) = chars.next() {
        match next {
            '\\' => {
                let (_, kind) = chars.next()?;
                wrong = wrong.or_else(|| wrong_escape(kind, &literal[from + 2..]));
            }
            '\'' if literal[from + 1..].starts_with('\'') => _ = chars.next(),
            '\'' => return wrong.map(|error| error.at(position(text, place))),
            _ => {}
        }
    }
    None
}

/// Why an escape of this kind, with what follows it, stands for no character.
fn wrong_escape(kind: char, rest: &str) -> Option<Error> {
    let bytes = || Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\"");
    let digits = |radix: u32, max: usize| rest.chars().take_while(|c| c.is_digit(radix)).take(max).count();
    let byte =
        |digits: &str, radix| u32::from_str_radix(digits, radix).is_ok_and(|code| !(1..128).contains(&(code & 0xff)));
    let character = |length: usize| match digits(16, length) {
        found if found < length => Some(Error::new(SqlState("22025"), "invalid Unicode escape")),
        _ => match u32::from_str_radix(&rest[..length], 16) {
            Ok(0xd800..=0xdfff) => Some(Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair")),
            Ok(code) if code != 0 && char::from_u32(code).is_some() => None,
            _ => Some(Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape value")),
        },
    };
    match kind {
        'x' if byte(&rest[..digits(16, 2)], 16) => Some(bytes()),
        '0'..='7' => {
            let octal = format!("{kind}{}", &rest[..digits(8, 2)]);
            byte(&octal, 8).then(bytes)
        }
        'u' => character(4),
        'U' => character(8),
        _ => None,
    }
}

fn unterminated(message: &str, text: &str, place: Location) -> (String, u32) {
    let position = position(text, place);
    let rest: String = text.chars().skip(position.saturating_sub(1) as usize).take(40).collect();
    let lower = message.to_ascii_lowercase();
    let what = if lower.contains("unterminated string") || lower.contains("unterminated encoded string") {
        "unterminated quoted string"
    } else if lower.contains("multi-line comment") {
        "unterminated /* comment"
    } else if lower.contains("dollar") {
        "unterminated dollar-quoted string"
    } else if lower.contains("quoted identifier") || lower.contains("close delimiter") {
        "unterminated quoted identifier"
    } else {
        "syntax error"
    };
    (format!("{what} at or near \"{rest}\""), position)
}

fn position(text: &str, place: Location) -> u32 {
    let lines = text.split_inclusive('\n').take((place.line.max(1) - 1) as usize);
    (lines.map(|line| line.chars().count()).sum::<usize>() as u64 + place.column) as u32
}

/// PostgreSQL's words for what the parser says: `Expected: …, found: x at Line: 1, Column: 8`.
fn syntax_error(text: &str, error: &ParserError) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (said, place) = match message.rfind(" at Line: ") {
        Some(at) => (&message[..at], place_of(&message[at..])),
        None => (&**message, None),
    };
    let found = said.rfind("found: ").map(|at| &said[at + "found: ".len()..]);
    let expected = said.strip_prefix("Expected: ").and_then(|said| said.split(", found").next());
    let mut error = match found {
        // No operator of several characters that is unknown stands in front of a value.
        Some(found) if expected.is_some_and(|what| what.contains("expression")) && operators::is_unknown(found) => {
            return operator_in_front(text, found, place);
        }
        Some("EOF") => Error::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
        Some(found) => Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{found}\"")),
        None => Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {said}")),
    };
    if let Some(expected) = expected {
        error = error.detail(format!("Expected {expected}."));
    }
    match place {
        Some(place) => error.at(position(text, place)),
        None if found == Some("EOF") => error.at(text.chars().count() as u32 + 1),
        None => error,
    }
}

fn operator_in_front(text: &str, operator: &str, place: Option<Location>) -> Error {
    let error = colibri_types::resolve::no_operator(operator, true);
    match place {
        Some(place) => error.at(position(text, place)),
        None => error,
    }
}

fn place_of(text: &str) -> Option<Location> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let line = numbers.next()?.parse().ok()?;
    let column = numbers.next()?.parse().ok()?;
    Some(Location { line, column })
}
