//! Text as tokens: words, numbers, addresses, paths, tags and what is between them, as PostgreSQL's
//! default parser tells them apart.
//!
//! It is an automaton with a stack. In each state the rules are tried in their order; what the first
//! that fits does is its [`Action`]. A rule that *pushes* goes on in a trial: if that fails (*pops*),
//! the rules behind the pushing one are tried where the trial began; if it succeeds, it *clears*
//! what was pushed.
//!
//! ```text
//! rule := test action state
//!   Test    what the character is, or what stands from it on
//!   Action  Step     take the character
//!           Push     take it, in a trial
//!           Pop      back to where the trial began
//!           Commit   take it; the trial was none
//!           Merge    back to the state before the trial, but at this character
//!           Again    look at the same character in the new state
//!           Token    a token ends before the character, or (Whole) none of the trials is open
//! ```
//! The rules are in `tokens/rules.rs`.

mod rules;

use std::sync::LazyLock;

use self::rules::rules_of;
use crate::error::{Error, Result, SqlState};
use crate::letters::{is_alnum, is_wide_space, unicode_ranges};
use crate::pulse;

/// The kinds of tokens: of number 1 and up, the name and what it is.
pub const KINDS: [(&str, &str); 23] = [
    ("asciiword", "Word, all ASCII"),
    ("word", "Word, all letters"),
    ("numword", "Word, letters and digits"),
    ("email", "Email address"),
    ("url", "URL"),
    ("host", "Host"),
    ("sfloat", "Scientific notation"),
    ("version", "Version number"),
    ("hword_numpart", "Hyphenated word part, letters and digits"),
    ("hword_part", "Hyphenated word part, all letters"),
    ("hword_asciipart", "Hyphenated word part, all ASCII"),
    ("blank", "Space symbols"),
    ("tag", "XML tag"),
    ("protocol", "Protocol head"),
    ("numhword", "Hyphenated word, letters and digits"),
    ("asciihword", "Hyphenated word, all ASCII"),
    ("hword", "Hyphenated word, all letters"),
    ("url_path", "URL path"),
    ("file", "File or path name"),
    ("float", "Decimal notation"),
    ("int", "Signed integer"),
    ("uint", "Unsigned integer"),
    ("entity", "XML entity"),
];

/// Kinds by number.
pub(super) mod kind {
    pub(in crate::text_search) const ASCII_WORD: u8 = 1;
    pub(in crate::text_search) const WORD: u8 = 2;
    pub(in crate::text_search) const NUM_WORD: u8 = 3;
    pub(in crate::text_search) const EMAIL: u8 = 4;
    pub(in crate::text_search) const URL: u8 = 5;
    pub(in crate::text_search) const HOST: u8 = 6;
    pub(in crate::text_search) const SCIENTIFIC: u8 = 7;
    pub(in crate::text_search) const VERSION: u8 = 8;
    pub(in crate::text_search) const NUM_PART: u8 = 9;
    pub(in crate::text_search) const PART: u8 = 10;
    pub(in crate::text_search) const ASCII_PART: u8 = 11;
    pub(in crate::text_search) const BLANK: u8 = 12;
    pub(in crate::text_search) const TAG: u8 = 13;
    pub(in crate::text_search) const PROTOCOL: u8 = 14;
    pub(in crate::text_search) const NUM_HYPHENATED: u8 = 15;
    pub(in crate::text_search) const ASCII_HYPHENATED: u8 = 16;
    pub(in crate::text_search) const HYPHENATED: u8 = 17;
    pub(in crate::text_search) const URL_PATH: u8 = 18;
    pub(in crate::text_search) const FILE: u8 = 19;
    pub(in crate::text_search) const DECIMAL: u8 = 20;
    pub(in crate::text_search) const SIGNED_INT: u8 = 21;
    pub(in crate::text_search) const UNSIGNED_INT: u8 = 22;
    pub(in crate::text_search) const ENTITY: u8 = 23;
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'t> {
    /// Its kind: a number into [`KINDS`], from 1 on.
    pub kind: u8,
    /// The piece.
    pub text: &'t str,
}

/// What a character, or the text from it on, has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Any,
    End,
    Is(u8),
    AsciiLetter,
    Letter,
    Digit,
    HexDigit,
    Alnum,
    NotAlnum,
    Space,
    /// What a path of an address may have.
    UrlChar,
    /// A mark on the letter before it.
    Mark,
    /// Whether this is inside of a script or a style sheet.
    Ignored,
    /// Whether the host of an address is wanted here.
    HostWanted,
    /// A host begins here; it is taken.
    Host,
    /// A path begins here; it is taken.
    Path,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Step,
    Push,
    Pop,
    Commit,
    /// Takes the character and pushes the state after that.
    Merge,
    Again,
    Token(u8),
    CommitToken(u8),
    WholeToken(u8),
}

/// What else a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extra {
    None,
    /// Scripts and style sheets begin and end with tags.
    Tag,
    /// The token is read again for its parts.
    Restart,
    /// The same, and the host of the address is wanted first.
    RestartWithHost,
    /// The token begins anew, where it began.
    Rewind,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    test: Test,
    action: Action,
    to: State,
    extra: Extra,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it was.
    Same,
    Base,
    NumWord,
    AsciiWord,
    Word,
    UnsignedInt,
    SignedIntFirst,
    SignedInt,
    Space,
    UDecimalFirst,
    UDecimal,
    DecimalFirst,
    Decimal,
    DecimalVersion,
    DecimalVersionAgain,
    VersionFirst,
    Version,
    MantissaFirst,
    MantissaSign,
    Mantissa,
    EntityFirst,
    Entity,
    EntityNumberFirst,
    EntityNumber,
    EntityHexFirst,
    EntityHex,
    EntityEnd,
    TagFirst,
    XmlBegin,
    TagCloseFirst,
    TagName,
    TagBeginEnd,
    Tag,
    TagQuote,
    TagDoubleQuote,
    TagBackslash,
    TagEnd,
    CommentFirst,
    CommentSecond,
    Comment,
    CommentCloseFirst,
    CommentCloseLast,
    CommentEnd,
    HostFirstDomain,
    HostDomainSecond,
    HostDomain,
    PortFirst,
    Port,
    HostHyphen,
    Host,
    Email,
    FileFirst,
    FileTilde,
    PathFirst,
    PathFirstFirst,
    PathSecond,
    File,
    FileNext,
    UrlPathFirst,
    UrlPathStart,
    UrlPath,
    Url,
    ProtocolFirst,
    ProtocolSecond,
    ProtocolEnd,
    HyphenAsciiFirst,
    HyphenAscii,
    HyphenWordFirst,
    HyphenWord,
    HyphenNumFirst,
    HyphenNum,
    HyphenDigits,
    Parts,
    PartsHyphen,
    WordPart,
    AsciiPart,
    NumPart,
    PartDigits,
}

impl State {
    /// Whether what is read may become a host, and nothing but what follows tells so.
    fn is_of_host(self) -> bool {
        matches!(self, Self::Host | Self::HostHyphen | Self::HostFirstDomain | Self::HostDomainSecond)
    }

    /// Whether what is read may become a path, and nothing but what follows tells so. Of these states
    /// the last character tells which one it is, up to one that fits less.
    fn is_of_path(self) -> bool {
        matches!(self, Self::FileFirst | Self::FileTilde | Self::PathFirst | Self::PathFirstFirst | Self::PathSecond)
    }
}

/// Trials inside of each other; more are an error.
const TRIALS_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Position {
    state: State,
    at: usize,
    /// Bytes and characters of the token so far.
    token_bytes: usize,
    token_chars: usize,
    /// The rule at which a trial began.
    pushed_at: Option<usize>,
}

impl Position {
    fn new(state: State, at: usize) -> Self {
        Self { state, at, token_bytes: 0, token_chars: 0, pushed_at: None }
    }
}

/// The tokens of a text, in order. Words with hyphens and addresses come as a whole, and then in their
/// parts.
#[derive(Debug)]
pub struct Tokens<'t> {
    text: &'t str,
    now: Position,
    /// Trials that are open, the outermost first.
    stack: Vec<Position>,
    is_ignored: bool,
    is_host_wanted: bool,
    /// A comment that begins here or later has no end.
    comment_without_end: usize,
    /// From where to where no host begins: one that was looked for from the first on ended at the
    /// second, and so would each other one that begins between them.
    no_host: (usize, usize),
    /// The same of paths: a trial that began at the first ended at the second.
    no_path: (usize, usize),
    /// How many automata look for the host of an address around this one.
    depth: usize,
}

/// Where reading a text's tokens was left, for who cannot keep the text borrowed.
#[derive(Debug)]
pub struct PausedTokens(Tokens<'static>);

impl PausedTokens {
    /// Before the first token of a text.
    #[must_use]
    pub fn begin() -> Self {
        Self(Tokens::new(""))
    }

    /// Goes on in the same text.
    #[must_use]
    pub fn resume(self, text: &str) -> Tokens<'_> {
        Tokens { text, ..self.0 }
    }
}

/// Hosts are looked for so deep: text such as `1a@1a@1a@` would take a level for each.
const DEPTH_MAX: usize = 32;

static MARKS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| unicode_ranges("\\p{M}"));

fn is_mark(c: char) -> bool {
    let c = u32::from(c);
    c >= 0x300 && MARKS.partition_point(|&(_, last)| last < c) < MARKS.len() && {
        let (first, _) = MARKS[MARKS.partition_point(|&(_, last)| last < c)];
        first <= c
    }
}

/// Digits of other scripts are letters, as in C.
fn is_letter(c: char) -> bool {
    is_alnum(c) && !c.is_ascii_digit()
}

impl<'t> Tokens<'t> {
    /// The tokens of a text.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self::begin(text, 0, State::Base)
    }

    /// Lets go of the text.
    #[must_use]
    pub fn pause(self) -> PausedTokens {
        PausedTokens(Tokens {
            text: "",
            now: self.now,
            stack: self.stack,
            is_ignored: self.is_ignored,
            is_host_wanted: self.is_host_wanted,
            comment_without_end: self.comment_without_end,
            no_host: self.no_host,
            no_path: self.no_path,
            depth: self.depth,
        })
    }

    fn begin(text: &'t str, at: usize, state: State) -> Self {
        Self {
            text,
            now: Position::new(state, at),
            stack: Vec::new(),
            is_ignored: false,
            is_host_wanted: false,
            comment_without_end: usize::MAX,
            no_host: (0, 0),
            no_path: (0, 0),
            depth: 0,
        }
    }

    fn here(&self) -> Option<char> {
        self.text[self.now.at..].chars().next()
    }

    fn is_met(&mut self, test: Test, here: Option<char>) -> Result<bool> {
        let is = |what: fn(char) -> bool| here.is_some_and(what);
        Ok(match test {
            Test::Any => true,
            Test::End => here.is_none(),
            Test::Is(byte) => here == Some(char::from(byte)),
            Test::AsciiLetter => is(|c| c.is_ascii_alphabetic()),
            Test::Letter => is(is_letter),
            Test::Digit => is(|c| c.is_ascii_digit()),
            Test::HexDigit => is(|c| c.is_ascii_hexdigit()),
            Test::Alnum => is(is_alnum),
            Test::NotAlnum => !is(is_alnum),
            Test::Space => is(is_wide_space),
            Test::UrlChar => is(|c| c.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&(c as u8))),
            Test::Mark => is(is_mark),
            Test::Ignored => self.is_ignored,
            Test::HostWanted => std::mem::take(&mut self.is_host_wanted),
            Test::Host if self.depth >= DEPTH_MAX => false,
            Test::Host => {
                let mut inner = Self::begin(self.text, self.now.at, State::Base);
                inner.is_host_wanted = true;
                inner.depth = self.depth + 1;
                self.takes(&mut inner, &[kind::HOST])?
            }
            Test::Path => {
                let mut inner = Self::begin(self.text, self.now.at, State::UrlPathFirst);
                inner.stack.push(Position::new(State::Base, self.now.at));
                self.takes(&mut inner, &[kind::URL_PATH])?
            }
        })
    }

    /// Takes the token that another automaton finds here, if it is of a kind.
    fn takes(&mut self, inner: &mut Self, kinds: &[u8]) -> Result<bool> {
        let Some(token) = inner.next_token()?.filter(|token| kinds.contains(&token.kind)) else { return Ok(false) };
        self.now.at += token.text.len();
        self.now.token_bytes += token.text.len();
        self.now.token_chars += token.text.chars().count();
        Ok(true)
    }

    /// Remembers that no path begins at the first character of a trial, which has come as far as here.
    fn note_no_path(&mut self, begin: usize) {
        match self.now.at {
            end if end > self.no_path.1 => self.no_path = (begin, end),
            // The trial around the one that was noted.
            end if end == self.no_path.0 => self.no_path.0 = begin,
            _ => {}
        }
    }

    /// Whether a trial that failed has read this character, and more behind it.
    fn has_no_path_here(&self) -> bool {
        self.no_path.0 <= self.now.at && self.now.at + 1 < self.no_path.1
    }

    fn do_extra(&mut self, extra: Extra, start: usize) {
        match extra {
            Extra::None => {}
            Extra::Tag => {
                let begins = |word: &str| {
                    self.now.token_chars == word.len()
                        && self.text[start..].get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word))
                };
                if begins("</script") || begins("</style") {
                    self.is_ignored = false;
                } else if begins("<script") || begins("<style") {
                    self.is_ignored = true;
                }
            }
            Extra::Restart | Extra::RestartWithHost => {
                self.is_host_wanted |= extra == Extra::RestartWithHost;
                self.now.at -= self.now.token_bytes;
            }
            Extra::Rewind => {
                self.now.at -= self.now.token_bytes;
                (self.now.token_bytes, self.now.token_chars) = (0, 0);
            }
        }
    }

    /// The next token; `None` at the end.
    ///
    /// # Errors
    /// 57014 if the statement was cancelled, 54001 for words with too many parts.
    pub fn next_token(&mut self) -> Result<Option<Token<'t>>> {
        if self.now.at >= self.text.len() {
            return Ok(None);
        }
        let start = self.now.at;
        self.now.pushed_at = None;
        loop {
            pulse::work(1)?;
            let here = self.here();
            let rules = rules_of(self.now.state);
            let mut at = self.now.pushed_at.take().map_or(0, |at| at + 1);
            while !self.is_met(rules[at].test, here)? {
                at += 1;
            }
            let rule = rules[at];
            // What tests take is not here any longer.
            let here = if matches!(rule.test, Test::Host | Test::Path) { self.here() } else { here };
            self.do_extra(rule.extra, start);
            let mut token = None;
            if let Action::Token(kind) | Action::CommitToken(kind) | Action::WholeToken(kind) = rule.action {
                token = Some(Token { kind, text: &self.text[start..start + self.now.token_bytes] });
                (self.now.token_bytes, self.now.token_chars) = (0, 0);
            }
            match rule.action {
                Action::Pop => {
                    if here.is_none()
                        && matches!(self.now.state, State::Comment | State::CommentCloseFirst | State::CommentCloseLast)
                    {
                        self.comment_without_end = self.comment_without_end.min(start);
                    }
                    if self.now.state.is_of_host() && self.now.at > self.no_host.1 {
                        self.no_host = (start, self.now.at);
                    }
                    let trial = self.stack.pop().ok_or_else(|| Error::internal("a token's trial has no beginning"))?;
                    if self.now.state.is_of_path() {
                        self.note_no_path(trial.at);
                    }
                    self.now = trial;
                }
                Action::Push if rule.to.is_of_path() && self.has_no_path_here() => {
                    self.now.pushed_at = Some(at);
                    continue;
                }
                Action::Push if rule.to.is_of_host() && self.no_host.0 < start && self.now.at < self.no_host.1 => {
                    self.now.pushed_at = Some(at);
                    continue;
                }
                Action::Push => {
                    if self.stack.len() >= TRIALS_MAX {
                        return Err(Error::new(SqlState("54001"), "text search token is too complex"));
                    }
                    self.now.pushed_at = Some(at);
                    self.stack.push(self.now);
                    self.now.pushed_at = None;
                }
                Action::Commit | Action::CommitToken(_) => {
                    self.stack.pop();
                }
                Action::WholeToken(_) => self.stack.clear(),
                Action::Merge => {
                    let outer = self.stack.pop().ok_or_else(|| Error::internal("a token's trial has no beginning"))?;
                    self.now = Position { state: outer.state, pushed_at: outer.pushed_at, ..self.now };
                }
                Action::Step | Action::Again | Action::Token(_) => {}
            }
            if rule.to != State::Same {
                self.now.state = rule.to;
                // Where one comment has no end, those behind it have none.
                if rule.to == State::Comment && start >= self.comment_without_end {
                    self.now = self.stack.pop().ok_or_else(|| Error::internal("a comment has no beginning"))?;
                    continue;
                }
            }
            if token.is_some() {
                return Ok(token);
            }
            if matches!(rule.action, Action::Again | Action::Pop) {
                continue;
            }
            if self.now.at >= self.text.len() {
                return Ok(None);
            }
            if let Some(c) = here {
                self.now.at += c.len_utf8();
                self.now.token_bytes += c.len_utf8();
                self.now.token_chars += 1;
            }
        }
    }
}
