//! `ts_headline`: the part of a text that shows best why it matches a query.
//!
//! The text's tokens are searched for *covers*: the shortest stretches that match the query and
//! begin and end with a word of it. The best one is stretched or cut to a good length, or several are
//! fragments of the result.

use super::configuration::Configuration;
use super::execute::{Answer, matches};
use super::query::{Node, Query};
use super::tokens::{Tokens, kind};
use super::vector::{LEXEME_BYTES_MAX, Position};
use crate::error::{Error, Result, SqlState, check_length};
use crate::letters::{is_wide_space, trim};
use crate::pulse;

/// Words of a text, counted once for each operand that they are; more are an error.
const WORDS_MAX: usize = 1 << 22;

/// A token of the text. One that is several operands of the query is there once for each.
#[derive(Clone)]
struct Word<'t> {
    text: &'t str,
    kind: u8,
    place: u32,
    /// Which node of the query it is.
    operand: Option<u32>,
    is_repeated: bool,
    is_in: bool,
    is_selected: bool,
    is_blanked: bool,
    is_skipped: bool,
}

impl Word<'_> {
    fn is_interesting(&self) -> bool {
        self.operand.is_some() && !self.is_repeated
    }

    fn is_tag(&self) -> bool {
        self.kind == kind::TAG
    }

    /// Whether its parts follow as tokens of their own.
    fn is_whole_of_parts(&self) -> bool {
        matches!(self.kind, kind::URL | kind::NUM_HYPHENATED | kind::ASCII_HYPHENATED | kind::HYPHENATED)
    }

    fn counts(&self) -> bool {
        !(self.kind == kind::BLANK || self.is_tag() || self.is_whole_of_parts())
    }

    /// Whether a headline should not begin or end with it.
    fn is_bad_end(&self, short: i64) -> bool {
        let is_no_word = !self.counts()
            || matches!(
                self.kind,
                kind::SCIENTIFIC
                    | kind::VERSION
                    | kind::DECIMAL
                    | kind::SIGNED_INT
                    | kind::UNSIGNED_INT
                    | kind::PROTOCOL
                    | kind::ENTITY
            );
        (is_no_word || self.text.len() as i64 <= short) && !self.is_interesting()
    }
}

/// What a headline should be like.
struct Options {
    words_min: i64,
    words_max: i64,
    short: i64,
    fragments_max: i64,
    is_all: bool,
    start: String,
    stop: String,
    delimiter: String,
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

impl Options {
    fn parse(text: &str) -> Result<Self> {
        let mut options = Self {
            words_min: 15,
            words_max: 35,
            short: 3,
            fragments_max: 0,
            is_all: false,
            start: "<b>".to_owned(),
            stop: "</b>".to_owned(),
            delimiter: " ... ".to_owned(),
        };
        for (name, value) in pairs(text)? {
            let number = || integer(&value);
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            match () {
                () if is("MaxWords") => options.words_max = number()?,
                () if is("MinWords") => options.words_min = number()?,
                () if is("ShortWord") => options.short = number()?,
                () if is("MaxFragments") => options.fragments_max = number()?,
                () if is("StartSel") => options.start = value,
                () if is("StopSel") => options.stop = value,
                () if is("FragmentDelimiter") => options.delimiter = value,
                () if is("HighlightAll") => {
                    options.is_all =
                        ["1", "on", "true", "t", "y", "yes"].iter().any(|word| value.eq_ignore_ascii_case(word));
                }
                () => return Err(bad(format!("unrecognized headline parameter: \"{name}\""))),
            }
        }
        if !options.is_all {
            if options.words_min >= options.words_max {
                return Err(bad("MinWords should be less than MaxWords"));
            }
            if options.words_min <= 0 {
                return Err(bad("MinWords should be positive"));
            }
            if options.short < 0 {
                return Err(bad("ShortWord should be >= 0"));
            }
            if options.fragments_max < 0 {
                return Err(bad("MaxFragments should be >= 0"));
            }
        }
        Ok(options)
    }
}

/// A number as the type `integer` reads it.
fn integer(text: &str) -> Result<i64> {
    let trimmed = trim(text);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type integer: \"{text}\"")));
    }
    trimmed
        .parse::<i32>()
        .map(i64::from)
        .map_err(|_| Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range for type integer")))
}

/// `name = value, "name" = 'value'`
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = || Error::new(SqlState::SYNTAX_ERROR, format!("invalid parameter list format: \"{text}\""));
    let mut pairs = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|&c| is_wide_space(c) || c == ',').is_some() {
            pulse::work(1)?;
        }
        let mut name = String::new();
        match rest.peek() {
            None => return Ok(pairs),
            Some('"') => {
                rest.next();
                loop {
                    match rest.next() {
                        Some('"') if rest.next_if_eq(&'"').is_none() => break,
                        Some(c) => {
                            pulse::work(1)?;
                            name.push(c);
                        }
                        None => return Err(wrong()),
                    }
                }
            }
            Some(_) => {
                while let Some(c) = rest.next_if(|&c| !is_wide_space(c) && c != '=') {
                    pulse::work(1)?;
                    name.push(c.to_ascii_lowercase());
                }
            }
        }
        while rest.next_if(|&c| is_wide_space(c)).is_some() {
            pulse::work(1)?;
        }
        if rest.next() != Some('=') {
            return Err(wrong());
        }
        while rest.next_if(|&c| is_wide_space(c)).is_some() {
            pulse::work(1)?;
        }
        let mut value = String::new();
        let has_escapes = matches!(rest.peek(), Some('E' | 'e')) && rest.clone().nth(1) == Some('\'');
        if has_escapes {
            rest.next();
        }
        let quote = rest.next_if(|&c| matches!(c, '\'' | '"'));
        match quote {
            Some(quote) => loop {
                match rest.next() {
                    Some('\\') if has_escapes => value.push(rest.next().ok_or_else(wrong)?),
                    Some(c) if c == quote && rest.next_if_eq(&quote).is_none() => break,
                    Some(c) => {
                        pulse::work(1)?;
                        value.push(c);
                    }
                    None => return Err(wrong()),
                }
            },
            None => {
                while let Some(c) = rest.next_if(|&c| !is_wide_space(c) && c != ',') {
                    pulse::work(1)?;
                    value.push(c);
                }
                if value.is_empty() {
                    return Err(wrong());
                }
            }
        }
        pairs.push((name, value));
    }
}

struct Headline<'t, 'q> {
    words: Vec<Word<'t>>,
    query: &'q Query,
    options: Options,
    /// How far apart the ends of a cover may be.
    cover_max: usize,
}

/// A stretch of words, both ends included.
#[derive(Clone, Copy)]
struct Stretch {
    first: usize,
    last: usize,
}

/// A part of a cover that may become a fragment.
struct Fragment {
    at: Stretch,
    words: i64,
    interesting: i64,
    is_gone: bool,
}

impl<'t> Headline<'t, '_> {
    fn find_words(&mut self, configuration: &Configuration, text: &'t str) -> Result<()> {
        let mut tokens = Tokens::new(text);
        let mut place = 0;
        while let Some(token) = tokens.next_token()? {
            if token.text.len() >= LEXEME_BYTES_MAX {
                continue;
            }
            self.expect_room()?;
            let mut word = Word {
                text: token.text,
                kind: token.kind,
                place: 0,
                operand: None,
                is_repeated: false,
                is_in: false,
                is_selected: false,
                is_blanked: false,
                is_skipped: false,
            };
            let lexeme = configuration.lexize(token.kind, token.text)?;
            if lexeme.is_some() {
                place += 1;
            }
            let Some(Some(lexeme)) = lexeme else {
                self.words.push(word);
                continue;
            };
            word.place = u32::from(Position::new(place, 0).place());
            let at = self.words.len();
            self.words.push(word);
            pulse::work(self.query.nodes().len())?;
            // In PostgreSQL's order: the right side of an operator first.
            for (node, operand) in self.query.nodes().iter().enumerate().rev() {
                let Node::Lexeme(operand) = operand else { continue };
                let is_met =
                    if operand.is_prefix { lexeme.starts_with(&*operand.lexeme) } else { *operand.lexeme == *lexeme };
                if !is_met {
                    continue;
                }
                if self.words[at].operand.is_some() {
                    self.expect_room()?;
                    let again = Word { operand: Some(node as u32), is_repeated: true, ..self.words[at].clone() };
                    self.words.push(again);
                } else {
                    self.words[at].operand = Some(node as u32);
                }
            }
        }
        Ok(())
    }

    fn expect_room(&self) -> Result<()> {
        if self.words.len() < WORDS_MAX {
            return Ok(());
        }
        Err(Error::new(SqlState("54000"), format!("a headline cannot be made of more than {WORDS_MAX} words")))
    }

    fn next_operand(&self, from: usize) -> Option<usize> {
        (from..self.words.len()).find(|&at| self.words[at].operand.is_some())
    }

    fn is_match(&self, at: Stretch) -> Result<bool> {
        let words = &self.words[at.first..=at.last];
        pulse::work(words.len())?;
        matches(self.query, &mut |_, node, places| {
            let mut met = words.iter().filter(|word| word.operand == Some(node)).peekable();
            if met.peek().is_none() {
                return Answer::No;
            }
            if let Some(places) = places {
                for word in met {
                    if places.last().is_none_or(|&last| last < word.place) {
                        places.push(word.place);
                    }
                }
            }
            Answer::Yes
        })
    }

    /// The first cover from a word on.
    fn cover(&self, from: usize) -> Result<Option<Stretch>> {
        let mut first = self.next_operand(from);
        while let Some(begin) = first {
            let mut next = None;
            let mut last = Some(begin);
            while let Some(end) = last.filter(|&end| end == begin || end - begin < self.cover_max) {
                let cover = Stretch { first: begin, last: end };
                if self.is_match(cover)? {
                    return Ok(Some(cover));
                }
                last = self.next_operand(end + 1);
                if end == begin {
                    next = last;
                }
            }
            first = next;
        }
        Ok(None)
    }

    fn mark(&mut self, at: Stretch) {
        let is_all = self.options.is_all;
        for word in self.words.iter_mut().take(at.last + 1).skip(at.first) {
            word.is_selected |= word.operand.is_some();
            if word.is_tag() && !is_all {
                word.is_blanked = true;
            } else if word.is_whole_of_parts() {
                word.is_skipped = true;
            }
            word.is_in = !word.is_repeated;
        }
    }

    fn is_bad_end(&self, at: usize) -> bool {
        self.words[at].is_bad_end(self.options.short)
    }

    /// The first words of the text, as many as a headline has at least.
    fn beginning(&self) -> Stretch {
        let (mut words, mut last) = (0, 0);
        for (at, word) in self.words.iter().enumerate() {
            if words >= self.options.words_min {
                break;
            }
            words += i64::from(word.counts());
            last = at;
        }
        Stretch { first: 0, last }
    }

    /// The best cover, stretched or cut.
    fn mark_best(&mut self) -> Result<()> {
        if self.options.is_all {
            if let Some(last) = self.words.len().checked_sub(1) {
                self.mark(Stretch { first: 0, last });
            }
            return Ok(());
        }
        let mut best: Option<(Stretch, i64, bool)> = None;
        let mut from = 0;
        while let Some(cover) = self.cover(from)? {
            let (at, interesting) = self.fitted(cover);
            let is_whole = at.first <= cover.first && at.last >= cover.last;
            let is_better = best.is_none_or(|(best, best_interesting, best_is_whole)| {
                (is_whole, interesting) > (best_is_whole, best_interesting)
                    || (is_whole, interesting) == (best_is_whole, best_interesting)
                        && !self.is_bad_end(at.last)
                        && self.is_bad_end(best.last)
            });
            if is_better {
                best = Some((at, interesting, is_whole));
            }
            from = cover.first + 1;
        }
        let at = best.map_or_else(|| self.beginning(), |(at, ..)| at);
        self.mark(at);
        Ok(())
    }

    /// A cover with as many words as a headline should have, and how many of them are interesting.
    fn fitted(&self, cover: Stretch) -> (Stretch, i64) {
        let Options { words_min, words_max, .. } = self.options;
        let (mut words, mut interesting) = (0, 0);
        let mut at = Stretch { first: cover.first, last: cover.first };
        let mut here = cover.first;
        while here <= cover.last && words < words_max {
            words += i64::from(self.words[here].counts());
            interesting += i64::from(self.words[here].is_interesting());
            at.last = here;
            here += 1;
        }
        if words < words_max {
            // There is room: forward to a good end.
            here -= 1;
            while here < self.words.len() && words < words_max {
                if here > cover.last {
                    words += i64::from(self.words[here].counts());
                    interesting += i64::from(self.words[here].is_interesting());
                }
                at.last = here;
                if !self.is_bad_end(here) && words >= words_min {
                    break;
                }
                here += 1;
            }
            if words < words_min {
                // The text has ended: backward.
                at.first = 0;
                for here in (0..cover.first).rev() {
                    words += i64::from(self.words[here].counts());
                    interesting += i64::from(self.words[here].is_interesting());
                    if words >= words_max || !self.is_bad_end(here) && words >= words_min {
                        at.first = here;
                        break;
                    }
                }
            }
        } else {
            here = here.min(cover.last);
            while words > words_min && self.is_bad_end(here) {
                words -= i64::from(self.words[here].counts());
                interesting -= i64::from(self.words[here].is_interesting());
                here -= 1;
                at.last = here;
            }
        }
        (at, interesting)
    }

    /// Cuts a part off a cover: of at most as many words as a headline, with a word of the query at
    /// either end.
    fn fragment(&self, mut at: Stretch) -> Fragment {
        let end = at.last;
        for here in at.first..=end {
            at.first = here;
            if self.words[here].is_interesting() {
                break;
            }
        }
        let (mut words, mut interesting) = (0, 0);
        let mut here = at.first;
        while here <= end && words < self.options.words_max {
            words += i64::from(self.words[here].counts());
            interesting += i64::from(self.words[here].is_interesting());
            here += 1;
        }
        if end > here {
            at.last = here;
            for here in (at.first..=at.last).rev() {
                at.last = here;
                if self.words[here].is_interesting() {
                    break;
                }
                words -= i64::from(self.words[here].counts());
            }
        }
        Fragment { at, words, interesting, is_gone: false }
    }

    fn mark_fragments(&mut self) -> Result<()> {
        let mut fragments = Vec::new();
        let mut from = 0;
        while let Some(cover) = self.cover(from)? {
            let mut rest = cover;
            while rest.first <= rest.last {
                let fragment = self.fragment(rest);
                pulse::work(fragment.at.last - fragment.at.first + 4)?;
                rest.first = fragment.at.last + 1;
                fragments.push(fragment);
            }
            from = cover.first + 1;
        }
        let mut count = 0;
        while count < self.options.fragments_max {
            pulse::work(fragments.len())?;
            // The one with the most interesting words, of these the shortest, of these the first.
            let mut best: Option<usize> = None;
            for (at, fragment) in fragments.iter().enumerate() {
                let (interesting, words) =
                    best.map_or((0, i64::from(i32::MAX)), |at| (fragments[at].interesting, fragments[at].words));
                if !fragment.is_gone
                    && (interesting < fragment.interesting
                        || interesting == fragment.interesting && words > fragment.words)
                {
                    best = Some(at);
                }
            }
            let Some(best) = best else { break };
            let at = self.stretched(&fragments[best]);
            self.mark(at);
            count += 1;
            fragments[best].is_gone = true;
            for fragment in &mut fragments {
                fragment.is_gone |= fragment.at.first <= at.last && fragment.at.last >= at.first;
            }
        }
        if count == 0 {
            self.mark(self.beginning());
        }
        Ok(())
    }

    /// A fragment with words on either side.
    fn stretched(&self, fragment: &Fragment) -> Stretch {
        let Options { words_max, .. } = self.options;
        let (mut at, mut words) = (fragment.at, fragment.words);
        if words >= words_max {
            return at;
        }
        let stretch_max = (words_max - words) / 2;
        let (mut stretch, mut first) = (0, at.first);
        while first > 0 && stretch < stretch_max && !self.words[first - 1].is_in {
            first -= 1;
            words += i64::from(self.words[first].counts());
            stretch += i64::from(self.words[first].counts());
        }
        while first < at.first && self.is_bad_end(first) {
            words -= i64::from(self.words[first].counts());
            first += 1;
        }
        let mut last = at.last;
        while last + 1 < self.words.len() && words < words_max && !self.words[last + 1].is_in {
            last += 1;
            words += i64::from(self.words[last].counts());
        }
        while last > at.last && self.is_bad_end(last) {
            last -= 1;
        }
        at.first = first;
        at.last = last;
        at
    }

    fn write(&self) -> Result<String> {
        let mut out = String::new();
        let (mut is_inside, mut fragments) = (false, 0);
        for word in &self.words {
            let before = out.len();
            if word.is_in && !word.is_repeated {
                if !is_inside {
                    is_inside = true;
                    fragments += 1;
                    if fragments > 1 {
                        out.push_str(&self.options.delimiter);
                    }
                }
                if word.is_blanked {
                    out.push(' ');
                } else if !word.is_skipped {
                    if word.is_selected {
                        out.push_str(&self.options.start);
                    }
                    out.push_str(word.text);
                    if word.is_selected {
                        out.push_str(&self.options.stop);
                    }
                }
            } else if !word.is_repeated {
                is_inside = false;
            }
            check_length(out.len())?;
            pulse::work(1 + (out.len() - before) / 16)?;
        }
        Ok(out)
    }
}

/// The part of a text that shows why it matches a query, with the query's words marked.
///
/// # Errors
/// 22023 for options that there are not, or that do not fit; 42601 if they are malformed; 54000 if
/// the text has too many words, or the headline is too long.
pub fn headline(configuration: &Configuration, text: &str, query: &Query, options: &str) -> Result<String> {
    let options = Options::parse(options)?;
    let mut cover_max = options.words_max.saturating_mul(10).max(100);
    if options.fragments_max > 0 {
        cover_max = cover_max.saturating_mul(options.fragments_max);
    }
    let cover_max = usize::try_from(cover_max).unwrap_or_default();
    let mut headline = Headline { words: Vec::new(), query, options, cover_max };
    headline.find_words(configuration, text)?;
    if headline.words.is_empty() {
        return Ok(String::new());
    }
    if headline.options.fragments_max == 0 {
        headline.mark_best()?;
    } else {
        headline.mark_fragments()?;
    }
    headline.write()
}
