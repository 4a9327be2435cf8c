//! XML as checked text: what is well-formed, and texts that are made of values.
//!
//! A value is the text that was given, if it is well-formed: as a document (one element, with
//! comments, instructions and a declaration around it) or as content (any of what an element may
//! hold). Its declaration is left out unless it says more than the version 1.0 and an encoding, as
//! PostgreSQL shows it.
//!
//! A document type may be declared. Nothing of it is read: names of entities that it could define are
//! taken as they are, and nothing is fetched or replaced.
//!
//! Invariants: whatever text comes, checking takes time and memory in proportion to it, without
//! recursion; see [`crate::pieces`] for the polls.

use std::borrow::Cow;
use std::collections::HashSet;

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};

/// What a text is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One element.
    Document,
    /// What an element may hold.
    Content,
}

impl Kind {
    fn state(self) -> SqlState {
        match self {
            Self::Document => SqlState("2200M"),
            Self::Content => SqlState("2200N"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Content => "content",
        }
    }
}

/// Why a text is not well-formed.
type Fault = Cow<'static, str>;

/// What stands in the declaration of a value, if that is shown.
#[derive(Debug, Default, PartialEq, Eq)]
struct Declared {
    version: Option<String>,
    standalone: Option<bool>,
}

/// A text as a value: checked, and with its declaration as it is shown.
///
/// # Errors
/// 2200M or 2200N if it is not well-formed.
pub fn parse(text: &str, kind: Kind) -> Result<String> {
    match examine(text, kind)? {
        Ok((declared, start)) => Ok(declared.shown() + &text[start..]),
        Err(fault) => Err(Error::new(kind.state(), format!("invalid XML {}", kind.name())).detail(fault.into_owned())),
    }
}

/// Whether a text is well-formed.
///
/// # Errors
/// The statement was cancelled.
pub fn is_well_formed(text: &str, kind: Kind) -> Result<bool> {
    Ok(examine(text, kind)?.is_ok())
}

/// What the declaration says, and where it ends; or what is wrong.
fn examine(text: &str, kind: Kind) -> Result<std::result::Result<(Declared, usize), Fault>> {
    for piece in pieces::of_text(text, Pace::Read) {
        if let Some(char) = piece?.chars().find(|&char| !is_char(char)) {
            return Ok(Err(format!("The character U+{:04X} is not allowed.", u32::from(char)).into()));
        }
    }
    let mut walk = Walk { kind, ..Walk::new() };
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    loop {
        let before = reader.buffer_position();
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Ok(Err(format!("{error}.").into())),
        };
        let after = reader.buffer_position();
        // An event is a few bytes or a long text.
        pieces::pass(usize::try_from(after - before).unwrap_or(usize::MAX) + 64, Pace::Computed)?;
        if matches!(event, Event::Eof) {
            return Ok(walk.end());
        }
        if let Err(fault) = walk.take(&event, usize::try_from(before).unwrap_or(0), usize::try_from(after).unwrap_or(0))
        {
            return Ok(Err(fault));
        }
    }
}

struct Walk {
    kind: Kind,
    /// Elements that are open.
    depth: usize,
    roots: usize,
    /// A document type was declared: entities may be its.
    has_doctype: bool,
    declared: Declared,
    /// Where what follows the declaration begins.
    start: usize,
}

impl Walk {
    fn new() -> Self {
        Self { kind: Kind::Content, depth: 0, roots: 0, has_doctype: false, declared: Declared::default(), start: 0 }
    }

    fn take(&mut self, event: &Event<'_>, before: usize, after: usize) -> std::result::Result<(), Fault> {
        match event {
            Event::Start(element) => {
                self.open(element)?;
                self.depth += 1;
            }
            Event::Empty(element) => self.open(element)?,
            Event::End(_) => self.depth -= 1,
            Event::Text(text) => {
                if text.contains("]]>") {
                    return Err("\"]]>\" stands outside of a CDATA section.".into());
                }
                if self.is_outside() && !text.trim_matches(is_blank).is_empty() {
                    return Err("Text stands outside of the element of a document.".into());
                }
            }
            Event::CData(_) if self.is_outside() => {
                return Err("Text stands outside of the element of a document.".into());
            }
            Event::GeneralRef(entity) => {
                if self.is_outside() {
                    return Err("Text stands outside of the element of a document.".into());
                }
                self.entity(entity)?;
            }
            Event::Comment(_) | Event::CData(_) | Event::Eof => {}
            Event::Decl(declaration) => {
                if before != 0 {
                    return Err("An XML declaration stands behind the beginning.".into());
                }
                self.declared = declared(declaration)?;
                self.start = after;
            }
            Event::PI(instruction) => {
                let target = instruction.target();
                if !is_name(target) || target.eq_ignore_ascii_case("xml") {
                    return Err(format!("\"{target}\" is no name of a processing instruction.").into());
                }
            }
            Event::DocType(_) => {
                if self.has_doctype || self.roots > 0 || self.depth > 0 {
                    return Err("A document type is declared in the wrong place.".into());
                }
                self.has_doctype = true;
                // With it, content is a document.
                self.kind = Kind::Document;
            }
        }
        Ok(())
    }

    fn is_outside(&self) -> bool {
        self.kind == Kind::Document && self.depth == 0
    }

    fn open(&mut self, element: &BytesStart<'_>) -> std::result::Result<(), Fault> {
        if self.depth == 0 {
            self.roots += 1;
            if self.kind == Kind::Document && self.roots > 1 {
                return Err("A document has more than one element.".into());
            }
        }
        let name = element.name().into_inner();
        if !is_name(name) {
            return Err(format!("\"{name}\" is no name of an element.").into());
        }
        let mut seen = HashSet::new();
        let mut attributes = element.attributes();
        // A list of all before would be looked through for each.
        for attribute in attributes.with_checks(false) {
            let attribute = attribute.map_err(|error| Fault::from(format!("{error}.")))?;
            let name = attribute.key.into_inner();
            if !is_name(name) {
                return Err(format!("\"{name}\" is no name of an attribute.").into());
            }
            if !seen.insert(name.to_owned()) {
                return Err(format!("The attribute \"{name}\" is given twice.").into());
            }
            if attribute.value.contains('<') {
                return Err(format!("\"<\" stands in the attribute \"{name}\".").into());
            }
            let mut rest = &*attribute.value;
            while let Some((_, behind)) = rest.split_once('&') {
                let Some((entity, behind)) = behind.split_once(';') else {
                    return Err(format!("\"&\" stands alone in the attribute \"{name}\".").into());
                };
                self.entity(entity)?;
                rest = behind;
            }
        }
        Ok(())
    }

    fn entity(&self, entity: &str) -> std::result::Result<(), Fault> {
        let is_known = match entity.strip_prefix('#') {
            Some(number) => {
                let code = match number.strip_prefix('x') {
                    Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                        u32::from_str_radix(digits, 16).ok()
                    }
                    None if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().ok(),
                    _ => None,
                };
                code.and_then(char::from_u32).is_some_and(is_char)
            }
            None => ["lt", "gt", "amp", "apos", "quot"].contains(&entity) || self.has_doctype && is_name(entity),
        };
        if is_known { Ok(()) } else { Err(format!("There is no entity \"{entity}\".").into()) }
    }

    fn end(self) -> std::result::Result<(Declared, usize), Fault> {
        if self.depth > 0 {
            return Err("An element is not closed.".into());
        }
        if self.kind == Kind::Document && self.roots == 0 {
            return Err("A document has no element.".into());
        }
        Ok((self.declared, self.start))
    }
}

fn declared(declaration: &BytesDecl<'_>) -> std::result::Result<Declared, Fault> {
    let wrong = || Fault::from("The XML declaration is malformed.");
    let version = declaration.version().map_err(|_| wrong())?;
    let is_version = version.strip_prefix("1.").is_some_and(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_version {
        return Err(wrong());
    }
    if let Some(encoding) = declaration.encoding() {
        encoding.map_err(|_| wrong())?;
    }
    let standalone = match declaration.standalone() {
        None => None,
        Some(Ok(word)) if word == "yes" => Some(true),
        Some(Ok(word)) if word == "no" => Some(false),
        Some(_) => return Err(wrong()),
    };
    Ok(Declared { version: (version != "1.0").then(|| version.into_owned()), standalone })
}

impl Declared {
    fn shown(&self) -> String {
        let standalone = match self.standalone {
            None if self.version.is_none() => return String::new(),
            None => "",
            Some(true) => " standalone=\"yes\"",
            Some(false) => " standalone=\"no\"",
        };
        format!("<?xml version=\"{}\"{standalone}?>", self.version.as_deref().unwrap_or("1.0"))
    }
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\r' | '\n')
}

/// Whether XML may have a character at all.
fn is_char(char: char) -> bool {
    is_blank(char) || char >= ' ' && !matches!(char, '\u{fffe}' | '\u{ffff}')
}

fn begins_name(char: char) -> bool {
    matches!(char, 'A'..='Z' | 'a'..='z' | '_' | ':' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

fn is_in_name(char: char) -> bool {
    begins_name(char)
        || matches!(char, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

fn is_name(text: &str) -> bool {
    text.starts_with(begins_name) && text.chars().all(is_in_name)
}

/// A name of SQL as one of XML: what that may not have is written as `_xHHHH_`. The name of a column
/// has its colons and a beginning `xml` written so as well.
#[must_use]
pub fn name_of(name: &str, is_column: bool) -> String {
    let mut out = String::with_capacity(name.len());
    let is_reserved = is_column && name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("xml"));
    for (at, char) in name.char_indices() {
        let is_first = at == 0;
        let is_escaped = match char {
            ':' => is_first || is_column,
            '_' => name[at + 1..].starts_with('x'),
            _ if is_first => is_reserved || !begins_name(char),
            _ => !is_in_name(char),
        };
        if is_escaped {
            out.push_str(&format!("_x{:04X}_", u32::from(char)));
        } else {
            out.push(char);
        }
    }
    out
}

/// A text with entities for what would be markup.
///
/// # Errors
/// The statement was cancelled.
pub fn escape(text: &str) -> Result<String> {
    escaped(text, |char| match char {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '\r' => Some("&#x0d;"),
        _ => None,
    })
}

/// The same for a value between quotes.
///
/// # Errors
/// The statement was cancelled.
pub fn escape_attribute(text: &str) -> Result<String> {
    escaped(text, |char| match char {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\n' => Some("&#10;"),
        '\r' => Some("&#13;"),
        '\t' => Some("&#9;"),
        _ => None,
    })
}

fn escaped(text: &str, entity: impl Fn(char) -> Option<&'static str>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces::of_text(text, Pace::Read) {
        for char in piece?.chars() {
            match entity(char) {
                Some(entity) => out.push_str(entity),
                None => out.push(char),
            }
        }
    }
    Ok(out)
}

/// A comment.
///
/// # Errors
/// 2200S if the text has two hyphens in a row, or one at its end.
pub fn comment(text: &str) -> Result<String> {
    pieces::pass(text.len(), Pace::Copied)?;
    if text.contains("--") || text.ends_with('-') {
        return Err(Error::new(SqlState("2200S"), "invalid XML comment"));
    }
    Ok(format!("<!--{text}-->"))
}

/// A processing instruction of a name that is one of XML.
///
/// # Errors
/// 42601 if that cannot be its name, 2200T if its text would end it.
pub fn instruction(name: &str, text: Option<&str>) -> Result<String> {
    let wrong =
        |state: SqlState, detail: String| Err(Error::new(state, "invalid XML processing instruction").detail(detail));
    if name.eq_ignore_ascii_case("xml") {
        return wrong(SqlState::SYNTAX_ERROR, format!("XML processing instruction target name cannot be \"{name}\"."));
    }
    let Some(text) = text else { return Ok(format!("<?{name}?>")) };
    pieces::pass(text.len(), Pace::Copied)?;
    if text.contains("?>") {
        return wrong(SqlState("2200T"), "XML processing instruction cannot contain \"?>\".".to_owned());
    }
    Ok(format!("<?{name} {}?>", text.trim_start_matches(' ')))
}

/// What an element is called, with its attributes as they are written, around its content; without
/// any, it is an empty one.
#[must_use]
pub fn element(name: &str, attributes: &str, content: Option<&str>) -> String {
    match content {
        Some(content) => format!("<{name}{attributes}>{content}</{name}>"),
        None => format!("<{name}{attributes}/>"),
    }
}

/// Where what follows the declaration of a value begins, and what that says.
fn beginning(value: &str) -> (Declared, usize) {
    let Some(end) =
        value.strip_prefix("<?xml").filter(|rest| rest.starts_with(is_blank)).and_then(|_| value.find("?>"))
    else {
        return (Declared::default(), 0);
    };
    match Reader::from_str(&value[..end + 2]).read_event() {
        Ok(Event::Decl(declaration)) => (declared(&declaration).unwrap_or_default(), end + 2),
        _ => (Declared::default(), 0),
    }
}

/// A value without its declaration.
#[must_use]
pub fn body(value: &str) -> &str {
    &value[beginning(value).1..]
}

/// Values side by side: with a declaration if all have the same version and say that they stand alone.
///
/// # Errors
/// The statement was cancelled.
pub fn concat<'v>(values: impl Iterator<Item = &'v str>) -> Result<String> {
    let mut all = String::new();
    let (mut count, mut version, mut versions_agree) = (0, None, true);
    let (mut all_say, mut all_yes) = (true, true);
    for value in values {
        pieces::pass(value.len(), Pace::Copied)?;
        let (declared, start) = beginning(value);
        if count == 0 {
            version = declared.version;
        } else {
            versions_agree &= version == declared.version;
        }
        all_say &= declared.standalone.is_some();
        all_yes &= declared.standalone == Some(true);
        count += 1;
        all.push_str(&value[start..]);
    }
    let standalone = (count > 0 && all_say).then_some(all_yes);
    let declared = Declared { version: version.filter(|_| versions_agree), standalone };
    Ok(declared.shown() + &all)
}

/// A value with another declaration: `version` is the new one, or the usual one; `standalone` what it
/// says of standing alone, where `None` leaves that.
#[must_use]
pub fn root(value: &str, version: Option<&str>, standalone: Option<Option<bool>>) -> String {
    let (old, start) = beginning(value);
    let declared = Declared {
        version: version.filter(|&version| version != "1.0").map(str::to_owned),
        standalone: standalone.unwrap_or(old.standalone),
    };
    declared.shown() + &value[start..]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn documents_have_one_element_and_content_has_any() {
        for (text, is_document, is_content) in [
            ("<a/>", true, true),
            (" <!-- c --><a b='1' c=\"&lt;\">x&amp;y&#65;<![CDATA[<]]></a>\n<?p q?>", true, true),
            ("<?xml version='1.0' encoding='latin1'?><a/>", true, true),
            ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", true, true),
            ("<\u{e9}\u{e8}-1.x:y/>", true, true),
            ("", false, true),
            ("text", false, true),
            ("<a/><b/>", false, true),
            ("<a/>x", false, true),
            ("x&lt;y", false, true),
            ("<a>", false, false),
            ("</a>", false, false),
            ("<a></b>", false, false),
            ("<a><b></a></b>", false, false),
            ("<a b=1/>", false, false),
            ("<a b='1' b='2'/>", false, false),
            ("<a b='<'/>", false, false),
            ("<a b='&x;'/>", false, false),
            ("<a b='&'/>", false, false),
            ("<1/>", false, false),
            ("<a 1='1'/>", false, false),
            ("&nothing;", false, false),
            ("&", false, false),
            ("&#0;", false, false),
            ("&#xD800;", false, false),
            ("&#+65;", false, false),
            ("]]>", false, false),
            ("<!-- -- -->", false, false),
            ("<![CDATA[", false, false),
            ("<a/><?xml version='1.0'?>", false, false),
            ("<?xml version='2'?><a/>", false, false),
            ("<?xml?><a/>", false, false),
            ("<?XML a?><a/>", false, false),
            ("\u{1}", false, false),
            ("<", false, false),
        ] {
            assert_eq!(is_well_formed(text, Kind::Document).unwrap(), is_document, "{text}");
            assert_eq!(is_well_formed(text, Kind::Content).unwrap(), is_content, "{text}");
        }
    }

    #[test]
    fn a_declaration_is_kept_if_it_says_something() {
        let shown = |text: &str| parse(text, Kind::Content).unwrap();
        assert_eq!(shown("<?xml version=\"1.0\" encoding=\"utf-8\"?><a/>"), "<a/>");
        assert_eq!(
            shown("<?xml version='1.0' standalone='yes'?><a/>"),
            "<?xml version=\"1.0\" standalone=\"yes\"?><a/>"
        );
        assert_eq!(shown("<?xml version='1.1'?><a/>"), "<?xml version=\"1.1\"?><a/>");
        assert_eq!(root("<a/>", None, Some(Some(false))), "<?xml version=\"1.0\" standalone=\"no\"?><a/>");
        assert_eq!(
            root("<?xml version=\"1.1\" standalone=\"yes\"?><a/>", None, None),
            "<?xml version=\"1.0\" standalone=\"yes\"?><a/>"
        );
        assert_eq!(concat(["<?xml version=\"1.1\"?><a/>", "<b/>"].into_iter()).unwrap(), "<a/><b/>");
    }

    #[test]
    fn names_have_what_xml_lacks_written_in_digits() {
        for (name, as_given, as_column) in [
            ("a", "a", "a"),
            ("a b", "a_x0020_b", "a_x0020_b"),
            ("1a", "_x0031_a", "_x0031_a"),
            ("a:b", "a:b", "a_x003A_b"),
            (":a", "_x003A_a", "_x003A_a"),
            ("_xa", "_x005F_xa", "_x005F_xa"),
            ("xmlish", "xmlish", "_x0078_mlish"),
            ("a-1.\u{e9}", "a-1.\u{e9}", "a-1.\u{e9}"),
        ] {
            assert_eq!(name_of(name, false), as_given);
            assert_eq!(name_of(name, true), as_column);
        }
    }

    #[test]
    fn whatever_is_made_is_well_formed() {
        let mut random = fastrand::Rng::with_seed(3);
        let letters = ['a', '<', '>', '&', '"', '\'', '-', '?', ']', '\n', '\r', '\t', ' ', '\u{e9}', 'x', '_', ':'];
        for _ in 0..3_000 {
            let mut text =
                || -> String { (0..random.usize(..8)).map(|_| letters[random.usize(..letters.len())]).collect() };
            let (name, value, content) = (text(), text(), text());
            let attribute =
                format!(" {}=\"{}\"", name_of(&format!("n{name}"), false), escape_attribute(&value).unwrap());
            let made = element(&name_of(&format!("{name}e"), true), &attribute, Some(&escape(&content).unwrap()));
            assert!(is_well_formed(&made, Kind::Document).unwrap(), "{made}");
            if let Ok(comment) = comment(&content) {
                assert!(is_well_formed(&comment, Kind::Content).unwrap(), "{comment}");
            }
            if let Ok(instruction) = instruction("p", Some(&content)) {
                assert!(is_well_formed(&instruction, Kind::Content).unwrap(), "{instruction}");
            }
        }
    }

    #[test]
    fn any_text_is_checked_without_a_panic_and_in_proportion() {
        let mut random = fastrand::Rng::with_seed(4);
        let parts = [
            "<a",
            ">",
            "</a>",
            "/>",
            " b='",
            "'",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&",
            ";",
            "lt",
            "<?",
            "?>",
            "xml",
            "<!DOCTYPE",
            "[",
            "]",
            "x",
            " ",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random.usize(..12)).map(|_| parts[random.usize(..parts.len())]).collect();
            let (document, content) =
                (is_well_formed(&text, Kind::Document).unwrap(), is_well_formed(&text, Kind::Content).unwrap());
            assert!(content || !document, "{text}");
        }
        for hostile in [
            "<a>".repeat(200_000),
            "<a ".to_owned() + &(0..50_000).map(|n| format!("b{n}='1' ")).collect::<String>(),
            "&lt;".repeat(200_000),
        ] {
            is_well_formed(&hostile, Kind::Content).unwrap();
        }
    }
}
