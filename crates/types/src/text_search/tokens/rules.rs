//! The automaton's rules: by state, in the order in which they are tried. The last rule of each
//! state is for everything else.

use super::kind::*;
use super::{Action, Extra, Rule, State, Test};
use Action::{Again, Commit, CommitToken, Merge, Pop, Push, Step, Token, WholeToken};
use Test::{Alnum, Any, AsciiLetter, Digit, End, HexDigit, HostWanted, Ignored, Is, Letter, Mark};
use Test::{NotAlnum, Space, UrlChar};

const fn rule(test: Test, action: Action, to: State) -> Rule {
    Rule { test, action, to, extra: Extra::None }
}

const fn with(test: Test, action: Action, to: State, extra: Extra) -> Rule {
    Rule { test, action, to, extra }
}

/// `Test => Action State` for each rule; where nothing else is said, what does not fit pops.
macro_rules! rules {
    ($($test:expr => $action:expr, $to:ident $(, $extra:ident)?;)*) => {
        const { &[$(rules!(@one $test, $action, $to $(, $extra)?)),*] }
    };
    (@one $test:expr, $action:expr, $to:ident) => { rule($test, $action, State::$to) };
    (@one $test:expr, $action:expr, $to:ident, $extra:ident) => { with($test, $action, State::$to, Extra::$extra) };
}

#[rustfmt::skip]
pub(super) fn rules_of(state: State) -> &'static [Rule] {
    match state {
        State::Same | State::Base => rules! {
            End => Step, Same;
            Is(b'<') => Push, TagFirst;
            Ignored => Step, Space;
            AsciiLetter => Step, AsciiWord;
            Letter => Step, Word;
            Digit => Step, UnsignedInt;
            Is(b'-') => Push, SignedIntFirst;
            Is(b'+') => Push, SignedIntFirst;
            Is(b'&') => Push, EntityFirst;
            Is(b'~') => Push, FileTilde;
            Is(b'/') => Push, FileFirst;
            Is(b'.') => Push, PathFirstFirst;
            Any => Step, Space;
        },
        State::NumWord => rules! {
            End => Token(NUM_WORD), Base;
            Alnum => Step, NumWord;
            Mark => Step, NumWord;
            Is(b'@') => Push, Email;
            Is(b'/') => Push, FileFirst;
            Is(b'.') => Push, FileNext;
            Is(b'-') => Push, HyphenNumFirst;
            Any => Token(NUM_WORD), Base;
        },
        State::AsciiWord => rules! {
            End => Token(ASCII_WORD), Base;
            AsciiLetter => Step, Same;
            Is(b'.') => Push, HostFirstDomain;
            Is(b'.') => Push, FileNext;
            Is(b'-') => Push, HostHyphen;
            Is(b'-') => Push, HyphenAsciiFirst;
            Is(b'_') => Push, HostHyphen;
            Is(b'@') => Push, Email;
            Is(b':') => Push, ProtocolFirst;
            Is(b'/') => Push, FileFirst;
            Digit => Push, Host;
            Digit => Step, NumWord;
            Letter => Step, Word;
            Mark => Step, Word;
            Any => Token(ASCII_WORD), Base;
        },
        State::Word => rules! {
            End => Token(WORD), Base;
            Letter => Step, Same;
            Mark => Step, Same;
            Digit => Step, NumWord;
            Is(b'-') => Push, HyphenWordFirst;
            Any => Token(WORD), Base;
        },
        State::UnsignedInt => rules! {
            End => Token(UNSIGNED_INT), Base;
            Digit => Step, Same;
            Is(b'.') => Push, HostFirstDomain;
            Is(b'.') => Push, UDecimalFirst;
            Is(b'e') => Push, MantissaFirst;
            Is(b'E') => Push, MantissaFirst;
            Is(b'-') => Push, HostHyphen;
            Is(b'_') => Push, HostHyphen;
            Is(b'@') => Push, Email;
            AsciiLetter => Push, Host;
            Letter => Step, NumWord;
            Mark => Step, NumWord;
            Is(b'/') => Push, FileFirst;
            Any => Token(UNSIGNED_INT), Base;
        },
        State::SignedIntFirst => rules! {
            Digit => Commit, SignedInt;
            Any => Pop, Same;
        },
        State::SignedInt => rules! {
            End => Token(SIGNED_INT), Base;
            Digit => Step, Same;
            Is(b'.') => Push, DecimalFirst;
            Is(b'e') => Push, MantissaFirst;
            Is(b'E') => Push, MantissaFirst;
            Any => Token(SIGNED_INT), Base;
        },
        State::Space => rules! {
            End => Token(BLANK), Base;
            Is(b'<') => Token(BLANK), Base;
            Ignored => Step, Same;
            Is(b'-') => Token(BLANK), Base;
            Is(b'+') => Token(BLANK), Base;
            Is(b'&') => Token(BLANK), Base;
            Is(b'/') => Token(BLANK), Base;
            NotAlnum => Step, Space;
            Any => Token(BLANK), Base;
        },
        State::UDecimalFirst => rules! {
            Digit => Commit, UDecimal;
            Any => Pop, Same;
        },
        State::UDecimal => rules! {
            End => Token(DECIMAL), Base;
            Digit => Step, UDecimal;
            Is(b'.') => Push, VersionFirst;
            Is(b'e') => Push, MantissaFirst;
            Is(b'E') => Push, MantissaFirst;
            Any => Token(DECIMAL), Base;
        },
        State::DecimalFirst => rules! {
            Digit => Commit, Decimal;
            Any => Pop, Same;
        },
        State::Decimal => rules! {
            End => Token(DECIMAL), Base;
            Digit => Step, Decimal;
            Is(b'.') => Push, DecimalVersion;
            Is(b'e') => Push, MantissaFirst;
            Is(b'E') => Push, MantissaFirst;
            Any => Token(DECIMAL), Base;
        },
        // What looks like a number with a sign is a version behind a dash.
        State::DecimalVersion => rules! {
            Digit => Again, DecimalVersionAgain, Rewind;
            Any => Pop, Same;
        },
        State::DecimalVersionAgain => rules! {
            End => Pop, Same;
            Digit => WholeToken(BLANK), UnsignedInt;
            Any => Step, Same;
        },
        State::VersionFirst => rules! {
            Digit => Commit, Version;
            Any => Pop, Same;
        },
        State::Version => rules! {
            End => Token(VERSION), Base;
            Digit => Step, Version;
            Is(b'.') => Push, VersionFirst;
            Any => Token(VERSION), Base;
        },
        State::MantissaFirst => rules! {
            Digit => Commit, Mantissa;
            Is(b'+') => Step, MantissaSign;
            Is(b'-') => Step, MantissaSign;
            Any => Pop, Same;
        },
        State::MantissaSign => rules! {
            Digit => Commit, Mantissa;
            Any => Pop, Same;
        },
        State::Mantissa => rules! {
            End => Token(SCIENTIFIC), Base;
            Digit => Step, Mantissa;
            Any => Token(SCIENTIFIC), Base;
        },
        State::EntityFirst => rules! {
            Is(b'#') => Step, EntityNumberFirst;
            AsciiLetter => Step, Entity;
            Is(b':') => Step, Entity;
            Is(b'_') => Step, Entity;
            Any => Pop, Same;
        },
        State::Entity => rules! {
            Alnum => Step, Entity;
            Is(b':') => Step, Entity;
            Is(b'_') => Step, Entity;
            Is(b'.') => Step, Entity;
            Is(b'-') => Step, Entity;
            Is(b';') => Step, EntityEnd;
            Any => Pop, Same;
        },
        State::EntityNumberFirst => rules! {
            Is(b'x') => Step, EntityHexFirst;
            Is(b'X') => Step, EntityHexFirst;
            Digit => Step, EntityNumber;
            Any => Pop, Same;
        },
        State::EntityHexFirst => rules! {
            HexDigit => Step, EntityHex;
            Any => Pop, Same;
        },
        State::EntityNumber => rules! {
            Digit => Step, EntityNumber;
            Is(b';') => Step, EntityEnd;
            Any => Pop, Same;
        },
        State::EntityHex => rules! {
            HexDigit => Step, EntityHex;
            Is(b';') => Step, EntityEnd;
            Any => Pop, Same;
        },
        State::EntityEnd => rules! {
            Any => CommitToken(ENTITY), Base;
        },
        State::TagFirst => rules! {
            Is(b'/') => Push, TagCloseFirst;
            Is(b'!') => Push, CommentFirst;
            Is(b'?') => Push, XmlBegin;
            AsciiLetter => Push, TagName;
            Is(b':') => Push, TagName;
            Is(b'_') => Push, TagName;
            Any => Pop, Same;
        },
        State::XmlBegin => rules! {
            Is(b'x') => Step, Tag;
            Any => Pop, Same;
        },
        State::TagCloseFirst => rules! {
            AsciiLetter => Step, TagName;
            Any => Pop, Same;
        },
        State::TagName => rules! {
            End => Pop, Same;
            Is(b'/') => Step, TagBeginEnd;
            Is(b'>') => Step, TagEnd, Tag;
            Space => Step, Tag, Tag;
            Alnum => Step, Same;
            Is(b':') => Step, Same;
            Is(b'_') => Step, Same;
            Is(b'.') => Step, Same;
            Is(b'-') => Step, Same;
            Any => Pop, Same;
        },
        State::TagBeginEnd => rules! {
            Is(b'>') => Step, TagEnd;
            Any => Pop, Same;
        },
        State::Tag => rules! {
            End => Pop, Same;
            Is(b'>') => Step, TagEnd, Tag;
            Is(b'\'') => Step, TagQuote;
            Is(b'"') => Step, TagDoubleQuote;
            AsciiLetter => Step, Same;
            Digit => Step, Same;
            Is(b'=') => Step, Same;
            Is(b'-') => Step, Same;
            Is(b'_') => Step, Same;
            Is(b'#') => Step, Same;
            Is(b'/') => Step, Same;
            Is(b':') => Step, Same;
            Is(b'.') => Step, Same;
            Is(b'&') => Step, Same;
            Is(b'?') => Step, Same;
            Is(b'%') => Step, Same;
            Is(b'~') => Step, Same;
            Space => Step, Same, Tag;
            Any => Pop, Same;
        },
        State::TagQuote => rules! {
            End => Pop, Same;
            Is(b'\\') => Push, TagBackslash;
            Is(b'\'') => Step, Tag;
            Any => Step, TagQuote;
        },
        State::TagDoubleQuote => rules! {
            End => Pop, Same;
            Is(b'\\') => Push, TagBackslash;
            Is(b'"') => Step, Tag;
            Any => Step, TagDoubleQuote;
        },
        State::TagBackslash => rules! {
            End => Pop, Same;
            Any => Merge, Same;
        },
        State::TagEnd | State::CommentEnd => rules! {
            Any => WholeToken(TAG), Base;
        },
        State::CommentFirst => rules! {
            Is(b'-') => Step, CommentSecond;
            Is(b'D') => Step, Tag;
            Is(b'd') => Step, Tag;
            Any => Pop, Same;
        },
        State::CommentSecond => rules! {
            Is(b'-') => Step, Comment;
            Any => Pop, Same;
        },
        State::Comment => rules! {
            End => Pop, Same;
            Is(b'-') => Step, CommentCloseFirst;
            Any => Step, Same;
        },
        State::CommentCloseFirst => rules! {
            End => Pop, Same;
            Is(b'-') => Step, CommentCloseLast;
            Any => Step, Comment;
        },
        State::CommentCloseLast => rules! {
            End => Pop, Same;
            Is(b'-') => Step, Same;
            Is(b'>') => Step, CommentEnd;
            Any => Step, Comment;
        },
        State::HostFirstDomain => rules! {
            AsciiLetter => Step, HostDomainSecond;
            Digit => Step, Host;
            Any => Pop, Same;
        },
        State::HostDomainSecond => rules! {
            End => Pop, Same;
            AsciiLetter => Step, HostDomain;
            Digit => Push, Host;
            Is(b'-') => Push, HostHyphen;
            Is(b'_') => Push, HostHyphen;
            Is(b'.') => Push, HostFirstDomain;
            Is(b'@') => Push, Email;
            Any => Pop, Same;
        },
        State::HostDomain => rules! {
            End => WholeToken(HOST), Base;
            AsciiLetter => Step, HostDomain;
            Digit => Push, Host;
            Is(b':') => Push, PortFirst;
            Is(b'-') => Push, HostHyphen;
            Is(b'_') => Push, HostHyphen;
            Is(b'.') => Push, HostFirstDomain;
            Is(b'@') => Push, Email;
            Digit => Pop, Same;
            HostWanted => WholeToken(HOST), UrlPathStart;
            Is(b'/') => Push, Url;
            Any => WholeToken(HOST), Base;
        },
        State::PortFirst => rules! {
            Digit => Step, Port;
            Any => Pop, Same;
        },
        State::Port => rules! {
            End => WholeToken(HOST), Base;
            Digit => Step, Port;
            HostWanted => WholeToken(HOST), UrlPathStart;
            Is(b'/') => Push, Url;
            Any => WholeToken(HOST), Base;
        },
        State::HostHyphen => rules! {
            Digit => Step, Host;
            AsciiLetter => Step, Host;
            Any => Pop, Same;
        },
        State::Host => rules! {
            Digit => Step, Host;
            AsciiLetter => Step, Host;
            Is(b'@') => Push, Email;
            Is(b'.') => Push, HostFirstDomain;
            Is(b'-') => Push, HostHyphen;
            Is(b'_') => Push, HostHyphen;
            Any => Pop, Same;
        },
        State::Email => rules! {
            HostWanted => Pop, Same;
            Test::Host => WholeToken(EMAIL), Base;
            Any => Pop, Same;
        },
        State::FileFirst => rules! {
            AsciiLetter => Step, File;
            Digit => Step, File;
            Is(b'.') => Step, PathFirst;
            Is(b'_') => Step, File;
            Is(b'~') => Push, FileTilde;
            Any => Pop, Same;
        },
        State::FileTilde => rules! {
            AsciiLetter => Step, File;
            Digit => Step, File;
            Is(b'_') => Step, File;
            Is(b'/') => Step, FileFirst;
            Any => Pop, Same;
        },
        State::PathFirst => rules! {
            AsciiLetter => Step, File;
            Digit => Step, File;
            Is(b'_') => Step, File;
            Is(b'.') => Step, PathSecond;
            Is(b'/') => Step, FileFirst;
            Any => Pop, Same;
        },
        State::PathFirstFirst => rules! {
            Is(b'.') => Step, PathSecond;
            Is(b'/') => Step, FileFirst;
            Any => Pop, Same;
        },
        State::PathSecond => rules! {
            End => CommitToken(FILE), Base;
            Is(b'/') => Push, FileFirst;
            Is(b'/') => CommitToken(FILE), Base;
            Space => CommitToken(FILE), Base;
            Any => Pop, Same;
        },
        State::File => rules! {
            End => Token(FILE), Base;
            AsciiLetter => Step, File;
            Digit => Step, File;
            Is(b'.') => Push, FileNext;
            Is(b'_') => Step, File;
            Is(b'-') => Step, File;
            Is(b'/') => Push, FileFirst;
            Any => Token(FILE), Base;
        },
        State::FileNext => rules! {
            AsciiLetter => Commit, File;
            Digit => Commit, File;
            Is(b'_') => Commit, File;
            Any => Pop, Same;
        },
        State::UrlPathFirst => rules! {
            UrlChar => Step, UrlPath;
            Any => Pop, Same;
        },
        State::UrlPathStart => rules! {
            Any => Step, UrlPath;
        },
        State::UrlPath => rules! {
            End => Token(URL_PATH), Base;
            UrlChar => Step, UrlPath;
            Any => Token(URL_PATH), Base;
        },
        State::Url => rules! {
            End => Pop, Same;
            Test::Path => WholeToken(URL), Base, RestartWithHost;
            Any => Pop, Same;
        },
        State::ProtocolFirst => rules! {
            Is(b'/') => Step, ProtocolSecond;
            Any => Pop, Same;
        },
        State::ProtocolSecond => rules! {
            Is(b'/') => Step, ProtocolEnd;
            Any => Pop, Same;
        },
        State::ProtocolEnd => rules! {
            Any => WholeToken(PROTOCOL), Base;
        },
        State::HyphenAsciiFirst => rules! {
            AsciiLetter => Step, HyphenAscii;
            Letter => Step, HyphenWord;
            Digit => Step, HyphenDigits;
            Any => Pop, Same;
        },
        State::HyphenAscii => rules! {
            End => WholeToken(ASCII_HYPHENATED), Parts, Restart;
            AsciiLetter => Step, HyphenAscii;
            Letter => Step, HyphenWord;
            Mark => Step, HyphenWord;
            Digit => Step, HyphenNum;
            Is(b'-') => Push, HyphenAsciiFirst;
            Any => WholeToken(ASCII_HYPHENATED), Parts, Restart;
        },
        State::HyphenWordFirst => rules! {
            Letter => Step, HyphenWord;
            Digit => Step, HyphenDigits;
            Any => Pop, Same;
        },
        State::HyphenWord => rules! {
            End => WholeToken(HYPHENATED), Parts, Restart;
            Letter => Step, HyphenWord;
            Mark => Step, HyphenWord;
            Digit => Step, HyphenNum;
            Is(b'-') => Push, HyphenWordFirst;
            Any => WholeToken(HYPHENATED), Parts, Restart;
        },
        State::HyphenNumFirst => rules! {
            Letter => Step, HyphenNum;
            Digit => Step, HyphenDigits;
            Any => Pop, Same;
        },
        State::HyphenNum => rules! {
            End => WholeToken(NUM_HYPHENATED), Parts, Restart;
            Alnum => Step, HyphenNum;
            Mark => Step, HyphenNum;
            Is(b'-') => Push, HyphenNumFirst;
            Any => WholeToken(NUM_HYPHENATED), Parts, Restart;
        },
        State::HyphenDigits => rules! {
            Digit => Step, HyphenDigits;
            Letter => Step, HyphenNum;
            Mark => Step, HyphenNum;
            Any => Pop, Same;
        },
        State::Parts => rules! {
            End => Again, Base;
            AsciiLetter => Step, AsciiPart;
            Letter => Step, WordPart;
            Digit => Push, PartDigits;
            Is(b'-') => Push, PartsHyphen;
            Any => Again, Base;
        },
        State::PartsHyphen => rules! {
            Alnum => CommitToken(BLANK), Parts;
            Mark => CommitToken(BLANK), Parts;
            Any => Pop, Same;
        },
        State::WordPart => rules! {
            End => Token(PART), Base;
            Letter => Step, WordPart;
            Mark => Step, WordPart;
            Digit => Step, NumPart;
            Any => Token(PART), Parts;
        },
        State::AsciiPart => rules! {
            End => Token(ASCII_PART), Base;
            AsciiLetter => Step, AsciiPart;
            Letter => Step, WordPart;
            Mark => Step, WordPart;
            Digit => Step, NumPart;
            Any => Token(ASCII_PART), Parts;
        },
        State::NumPart => rules! {
            End => Token(NUM_PART), Base;
            Alnum => Step, NumPart;
            Mark => Step, NumPart;
            Any => Token(NUM_PART), Parts;
        },
        State::PartDigits => rules! {
            Digit => Step, Same;
            Letter => Commit, NumPart;
            Mark => Commit, NumPart;
            Any => Pop, Same;
        },
    }
}
