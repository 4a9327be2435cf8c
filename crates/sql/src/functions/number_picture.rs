//! The pictures of `to_char` and `to_number`: `FM999,990.00`, `S9999`, `999D99PR`.

use crate::error::{Error, Result, SqlState};
use crate::numeric::Numeric;

/// A part of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `9`, or `0`, which is shown even at the front.
    Digit {
        zero: bool,
    },
    Point,
    Group,
    Sign,
    Minus,
    Plus,
    PlusMinus,
    Brackets,
    Currency,
    Ordinal {
        upper: bool,
    },
    Literal(String),
}

/// A picture, read.
#[derive(Debug, Default)]
struct Picture {
    parts: Vec<Part>,
    before: usize,
    after: usize,
    /// How many digits follow V.
    shift: Option<usize>,
    fill: bool,
    roman: Option<bool>,
    scientific: bool,
    brackets: bool,
    /// The first 0, counted in digits before the point.
    first_zero: Option<usize>,
    /// Digits after the point up to the last 0.
    zeros_after: usize,
}

fn bad(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

fn is_sign(part: &Part) -> bool {
    matches!(part, Part::Sign | Part::Minus | Part::Plus | Part::PlusMinus)
}

fn refuse_sign(form: &Picture, word: &str) -> Result<()> {
    if form.parts.contains(&Part::Sign) {
        return Err(bad(&format!("cannot use \"S\" and \"{word}\" together")));
    }
    Ok(())
}

/// Whether something of a picture stands here, and not what is shown as it is.
fn is_pattern(four: &str, two: &str, first: char) -> bool {
    four == "EEEE"
        || ["FM", "PR", "MI", "PL", "SG", "SP", "RN", "TH"].contains(&two)
        || matches!(first.to_ascii_uppercase(), '9' | '0' | '.' | ',' | 'D' | 'G' | 'S' | 'L' | 'V' | 'B' | 'C')
}

/// The beginning of a text in upper case, if it is all in one case: only such are keywords.
fn keyword(text: &str, letters: usize) -> String {
    let written: String = text.chars().take(letters).collect();
    let upper = written.to_ascii_uppercase();
    if written == upper || written == written.to_ascii_lowercase() { upper } else { String::new() }
}

/// Reads a text in quotes, in which a backslash quotes; gives it and how long it was written.
fn quoted(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut chars = text[1..].chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => out.push(chars.next().unwrap_or('\\')),
            c => out.push(c),
        }
    }
    (out, text.len() - chars.as_str().len())
}

fn read(picture: &str) -> Result<Picture> {
    let mut out = Picture { fill: true, ..Picture::default() };
    let mut rest = picture;
    let mut point = false;
    while let Some(first) = rest.chars().next() {
        let upper = keyword(rest, 4);
        let two = keyword(rest, 2);
        let two = &*two;
        let mut length = first.len_utf8();
        if out.scientific && first != '"' && is_pattern(&upper, two, first) {
            return Err(bad("\"EEEE\" must be the last pattern used"));
        }
        match (two, first) {
            _ if upper == "EEEE" => {
                let alone =
                    |part: &Part| matches!(part, Part::Digit { .. } | Part::Point | Part::Group | Part::Literal(_));
                if !out.parts.iter().all(alone) || !out.fill || out.shift.is_some() || out.roman.is_some() {
                    return Err(bad("\"EEEE\" is incompatible with other formats")
                        .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                out.scientific = true;
                length = 4;
            }
            ("FM", _) => {
                out.fill = false;
                length = 2;
            }
            ("PR", _) => {
                if out.parts.iter().any(is_sign) {
                    return Err(bad("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                out.brackets = true;
                out.parts.push(Part::Brackets);
                length = 2;
            }
            ("MI", _) => {
                refuse_sign(&out, "MI")?;
                out.parts.push(Part::Minus);
                length = 2;
            }
            ("PL", _) => {
                refuse_sign(&out, "PL")?;
                out.parts.push(Part::Plus);
                length = 2;
            }
            ("SG", _) => {
                refuse_sign(&out, "SG")?;
                out.parts.push(Part::PlusMinus);
                length = 2;
            }
            ("SP", _) => length = 2,
            ("RN", _) => {
                out.roman = Some(first == 'R');
                length = 2;
            }
            ("TH", _) => {
                out.parts.push(Part::Ordinal { upper: first == 'T' });
                length = 2;
            }
            (_, '9' | '0') => {
                let zero = first == '0';
                if out.brackets {
                    return Err(bad(&format!("\"{first}\" must be ahead of \"PR\"")));
                }
                if point {
                    out.after += 1;
                    if zero {
                        out.zeros_after = out.after;
                    }
                } else if let Some(shift) = &mut out.shift {
                    *shift += 1;
                    out.before += 1;
                } else {
                    out.before += 1;
                }
                if zero && !point && out.first_zero.is_none() {
                    out.first_zero = Some(out.before);
                }
                out.parts.push(Part::Digit { zero });
            }
            (_, '.' | 'D' | 'd') => {
                if point {
                    return Err(bad("multiple decimal points"));
                }
                if out.shift.is_some() {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                point = true;
                out.parts.push(Part::Point);
            }
            (_, ',' | 'G' | 'g') => out.parts.push(Part::Group),
            (_, 'S' | 's') => {
                if out.parts.contains(&Part::Sign) {
                    return Err(bad("cannot use \"S\" twice"));
                }
                if out.brackets || out.parts.iter().any(is_sign) {
                    return Err(bad("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                out.parts.push(Part::Sign);
            }
            (_, 'L' | 'l') => out.parts.push(Part::Currency),
            (_, 'V' | 'v') if point => return Err(bad("cannot use \"V\" and decimal point together")),
            (_, 'V' | 'v') => out.shift = Some(0),
            (_, 'B' | 'b' | 'C' | 'c') => {}
            (_, '"') => {
                let (literal, written) = quoted(rest);
                out.parts.push(Part::Literal(literal));
                length = written;
            }
            // Outside of quotes a backslash stands for itself, unless a quote follows.
            (_, '\\') if rest[1..].starts_with('"') => {
                out.parts.push(Part::Literal("\"".to_owned()));
                length = 2;
            }
            _ => out.parts.push(Part::Literal(first.to_string())),
        }
        rest = &rest[length..];
    }
    Ok(out)
}

fn roman(value: i64, upper: bool, fill: bool) -> String {
    const STEPS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut text = String::new();
    if (1..4000).contains(&value) {
        let mut rest = value;
        for (step, letters) in STEPS {
            while rest >= step {
                text.push_str(letters);
                rest -= step;
            }
        }
    } else {
        text = "#".repeat(15);
    }
    let text = if upper { text } else { text.to_ascii_lowercase() };
    if fill { format!("{text:>15}") } else { text }
}

/// A number as a picture shows it.
pub(super) fn to_char(value: Numeric, picture: &str) -> Result<String> {
    let form = read(picture)?;
    if let Some(upper) = form.roman {
        return Ok(roman(value.to_i64_rounded().unwrap_or(0), upper, form.fill));
    }
    if form.scientific {
        return scientific(value, &form);
    }
    let mut value = value;
    if let Some(shift) = form.shift {
        value = value.mul(Numeric::from(10).power(Numeric::from(shift.min(30) as i64))?.round(0)?)?;
    }
    let value = value.round(form.after as i32)?;
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    Ok(show(&form, whole, fraction, form.after, value.signum() < 0))
}

/// Digits as a picture shows them. `after` says how many places behind the point there are; if the picture has more, it
/// ends there.
fn show(form: &Picture, whole: &str, fraction: &str, after: usize, negative: bool) -> String {
    let whole = if whole == "0" { "" } else { whole };
    // Without a place before the point, not even a zero fits.
    let overflows = whole.len() > form.before || form.before == 0;
    let digits: Vec<char> = if overflows {
        vec!['#'; form.before + after]
    } else {
        let padding = std::iter::repeat_n('0', form.before - whole.len());
        let is_number = whole.bytes().all(|byte| byte.is_ascii_digit());
        let missing = std::iter::repeat_n('0', if is_number { after.saturating_sub(fraction.len()) } else { 0 });
        padding.chain(whole.chars()).chain(fraction.chars()).chain(missing).collect()
    };
    // The first digit that is shown: a significant one, or one that the picture asks for by 0.
    let significant = form.before - whole.len().min(form.before);
    let shown_from = if overflows { 0 } else { significant.min(form.first_zero.map_or(form.before, |zero| zero - 1)) };
    // With FM, zeros at the end of the fraction go, unless the picture asks for them.
    let mut last_after = digits.len() - form.before;
    if !form.fill && !overflows {
        while last_after > form.zeros_after && digits[form.before + last_after - 1] == '0' {
            last_after -= 1;
        }
    }
    let shown = Shown { digits: &digits, negative, shown_from, last_after, no_whole: whole.is_empty(), overflows };
    lay_out(form, &shown)
}

/// What is to be shown of a number.
struct Shown<'d> {
    /// As many before the point as the picture has; behind it perhaps fewer.
    digits: &'d [char],
    negative: bool,
    /// The first digit that is.
    shown_from: usize,
    /// Places behind the point that are.
    last_after: usize,
    no_whole: bool,
    /// It does not fit.
    overflows: bool,
}

/// Puts digits and signs where the picture has them.
fn lay_out(form: &Picture, shown: &Shown<'_>) -> String {
    let Shown { digits, negative, shown_from, last_after, overflows, .. } = *shown;
    let no_whole = shown.no_whole && !overflows;
    let places_after = digits.len() - form.before;
    let has_sign_part =
        form.parts.iter().any(|part| matches!(part, Part::Sign | Part::Minus | Part::PlusMinus | Part::Brackets));
    let leading_sign = form.parts.iter().position(|part| *part == Part::Sign);
    let first_digit = form.parts.iter().position(|part| matches!(part, Part::Digit { .. } | Part::Point));
    // S before the digits stands right before the first one that is shown.
    let anchored_sign = matches!((leading_sign, first_digit), (Some(sign), Some(digit)) if sign < digit);
    let mut pending_sign = match () {
        () if form.brackets => {
            if negative {
                "<"
            } else if form.fill {
                " "
            } else {
                ""
            }
        }
        () if anchored_sign => {
            if negative {
                "-"
            } else {
                "+"
            }
        }
        () if !has_sign_part => {
            if negative {
                "-"
            } else if form.fill {
                " "
            } else {
                ""
            }
        }
        () => "",
    };
    let mut out = String::new();
    let (mut index, mut in_fraction) = (0, false);
    for (at, part) in form.parts.iter().enumerate() {
        let has_ended = match part {
            Part::Digit { .. } => in_fraction && index - form.before >= places_after,
            Part::Point => !overflows && places_after == 0,
            _ => false,
        };
        if has_ended {
            // Nothing but a sign stands behind the last digit then.
            let sign = form.parts[at..].iter().find(|part| matches!(part, Part::Sign | Part::Brackets));
            match sign {
                Some(Part::Brackets) if negative => out.push('>'),
                Some(Part::Brackets) if form.fill => out.push(' '),
                Some(Part::Sign) if !anchored_sign => out.push(if negative { '-' } else { '+' }),
                _ => {}
            }
            break;
        }
        match part {
            Part::Digit { .. } if !in_fraction => {
                // Of a number without a whole part, a 9 at the end shows the zero only if there is no fraction.
                let last_whole = index + 1 == form.before;
                let shown = index >= shown_from || (last_whole && no_whole && form.after == 0);
                if shown {
                    out.push_str(std::mem::take(&mut pending_sign));
                    out.push(digits[index]);
                } else if form.fill {
                    out.push(' ');
                }
                index += 1;
            }
            Part::Digit { .. } => {
                out.push_str(std::mem::take(&mut pending_sign));
                if index - form.before < last_after {
                    out.push(digits[index]);
                }
                index += 1;
            }
            Part::Point => {
                in_fraction = true;
                if no_whole && shown_from >= form.before && form.before > 0 && !form.fill && last_after == 0 {
                    // `FM9.99` of zero is `0.`
                    out.push_str(std::mem::take(&mut pending_sign));
                    out.push('0');
                }
                out.push_str(std::mem::take(&mut pending_sign));
                out.push('.');
            }
            Part::Group => {
                if index > shown_from || (index > 0 && index >= form.before) {
                    out.push(',');
                } else if form.fill {
                    out.push(' ');
                }
            }
            Part::Sign if anchored_sign => {}
            Part::Sign | Part::PlusMinus => out.push(if negative { '-' } else { '+' }),
            Part::Minus => {
                if negative {
                    out.push('-');
                } else if form.fill {
                    out.push(' ');
                }
            }
            Part::Plus => {
                if !negative {
                    out.push('+');
                } else if form.fill {
                    out.push(' ');
                }
            }
            Part::Brackets => {
                if negative {
                    out.push('>');
                } else if form.fill {
                    out.push(' ');
                }
            }
            Part::Currency => {
                if form.fill {
                    out.push(' ');
                }
            }
            Part::Ordinal { upper } => {
                if !negative && form.after == 0 && !digits.contains(&'#') {
                    let whole: String = digits.iter().collect();
                    let ending = ordinal(&whole);
                    out.push_str(&if *upper { ending.to_ascii_uppercase() } else { ending.to_owned() });
                }
            }
            Part::Literal(text) => out.push_str(text),
        }
    }
    if !pending_sign.is_empty() {
        out.insert_str(0, pending_sign);
    }
    out
}

fn ordinal(digits: &str) -> &'static str {
    if digits.len() >= 2 && digits.as_bytes()[digits.len() - 2] == b'1' {
        return "th";
    }
    match digits.as_bytes().last() {
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}

fn scientific(value: Numeric, form: &Picture) -> Result<String> {
    let negative = value.signum() < 0;
    let all = value.mantissa().unsigned_abs().to_string();
    let mut exponent = if value.is_zero() { 0 } else { all.len() as i32 - 1 - i32::from(value.scale()) };
    let fraction = Numeric::checked(value.mantissa().abs(), all.len() as u32 - 1)?;
    let mut shown = if value.is_zero() { Numeric::ZERO } else { fraction }.round(form.after as i32)?;
    if shown >= Numeric::from(10) {
        exponent += 1;
        shown = shown.div(Numeric::from(10))?.round(form.after as i32)?;
    }
    let sign = if negative {
        "-"
    } else if form.fill {
        " "
    } else {
        ""
    };
    Ok(format!("{sign}{shown}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs()))
}

/// A float as a picture shows it: rounded as C does, from its exact value, and cut off behind the digits that floats of its
/// type are sure to have, `digits_max`.
pub(super) fn float_to_char(value: f64, digits_max: usize, picture: &str) -> Result<String> {
    let form = read(picture)?;
    if let Some(upper) = form.roman {
        return Ok(roman(value.round_ties_even() as i64, upper, form.fill));
    }
    if form.scientific {
        return Ok(float_scientific(value, &form));
    }
    let value = form.shift.map_or(value, |shift| value * 10f64.powi(shift.min(400) as i32));
    let magnitude = |decimals: usize| match value {
        _ if value.is_nan() => "NaN".to_owned(),
        _ if value.is_infinite() => "Infinity".to_owned(),
        _ => format!("{:.decimals$}", value.abs()),
    };
    let after = form.after.min(digits_max.saturating_sub(magnitude(0).len()));
    let text = magnitude(after);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    // What is no number has no fraction; where it does not fit, it is shown as one that has.
    let is_negative = value.is_sign_negative() && !value.is_nan();
    Ok(show(&form, whole, fraction, after, is_negative))
}

fn float_scientific(value: f64, form: &Picture) -> String {
    if !value.is_finite() {
        // A sign, a point, an exponent of two digits and its sign.
        let mut text = "#".repeat(form.before + form.after + 6);
        text.replace_range(..1, " ");
        text.replace_range(form.before + 1..form.before + 2, ".");
        return text;
    }
    let text = format!("{:.*e}", form.after, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{}{mantissa}e{sign}{exponent:0>2}", if value.is_sign_negative() { '-' } else { ' ' })
}

/// Reads a number by a picture, part by part.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The sign in front, a blank as long as there is none.
    sign: u8,
    digits: String,
    before: usize,
    after: usize,
    has_point: bool,
}

/// How S, MI and PL of a picture ask for a sign.
struct Signs {
    /// S, and whether it stands before the digits.
    anchored: Option<bool>,
    /// MI, PL or SG.
    loose: bool,
    brackets: bool,
    point: bool,
    after: usize,
}

impl Reader<'_> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn is_sign(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b'-' | b'+'))
    }

    /// Skips characters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.byte(0).is_none_or(|byte| b"0123456789.,+-".contains(&byte)) {
                return;
            }
            self.skip_char();
        }
    }

    fn skip_char(&mut self) {
        self.at += 1;
        while self.byte(0).is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.at += 1;
        }
    }

    /// Reads what stands in a digit's or the point's place. The place itself is passed by the caller.
    fn digit(&mut self, is_digit: bool, signs: &Signs) {
        if self.byte(0) == Some(b' ') {
            self.at += 1;
        }
        let Some(byte) = self.byte(0) else { return };
        if self.sign == b' ' && is_digit && self.before + self.after == 0 {
            let opens = signs.anchored != Some(true) && signs.brackets && byte == b'<';
            if matches!(byte, b'-' | b'+') || opens {
                self.sign = if byte == b'+' { b'+' } else { b'-' };
                self.at += 1;
            }
        }
        let Some(byte) = self.byte(0) else { return };
        let mut was_read = false;
        if byte.is_ascii_digit() {
            if self.has_point && self.after == signs.after {
                return;
            }
            self.digits.push(char::from(byte));
            *(if self.has_point { &mut self.after } else { &mut self.before }) += 1;
            was_read = true;
        } else if signs.point && !self.has_point && byte == b'.' {
            self.digits.push('.');
            self.has_point = true;
            was_read = true;
        }
        if self.sign != b' ' || self.before + self.after == 0 {
            return;
        }
        let follows_digit = self.byte(1).is_none_or(|byte| byte.is_ascii_digit());
        if signs.anchored.is_some() && was_read && !follows_digit {
            if self.is_sign(1) {
                self.at += 1;
                self.sign = self.text[self.at];
            }
        } else if !was_read && signs.anchored.is_none() && signs.loose && self.is_sign(0) {
            self.sign = self.text[self.at];
        }
    }
}

/// The number that a text shows by a picture; `None` without a picture.
pub(super) fn to_number(text: &str, picture: &str) -> Result<Option<Numeric>> {
    if picture.is_empty() {
        return Ok(None);
    }
    let form = read(picture)?;
    for (is_there, word) in [(form.scientific, "EEEE"), (form.roman.is_some(), "RN")] {
        if is_there {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("\"{word}\" not supported for input")));
        }
    }
    let point_at = form.parts.iter().position(|part| *part == Part::Point);
    let signs = Signs {
        anchored: form
            .parts
            .iter()
            .position(|part| *part == Part::Sign)
            .map(|at| point_at.is_none_or(|point| at < point)),
        loose: form.parts.iter().any(|part| matches!(part, Part::Minus | Part::Plus | Part::PlusMinus)),
        brackets: form.brackets,
        point: point_at.is_some(),
        after: form.after,
    };
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        sign: b' ',
        digits: String::new(),
        before: 0,
        after: 0,
        has_point: false,
    };
    for part in &form.parts {
        if reader.byte(0).is_none() {
            break;
        }
        match part {
            Part::Digit { .. } | Part::Point => {
                reader.digit(matches!(part, Part::Digit { .. }), &signs);
                reader.at += 1;
            }
            Part::Group => reader.at += usize::from(reader.byte(0) == Some(b',')),
            Part::Currency => reader.skip(1),
            Part::Ordinal { .. } if reader.sign != b'-' && !signs.point => reader.skip(2),
            Part::Minus | Part::Plus | Part::PlusMinus => {
                let fits = match part {
                    Part::Minus => reader.byte(0) == Some(b'-'),
                    Part::Plus => reader.byte(0) == Some(b'+'),
                    _ => reader.is_sign(0),
                };
                if fits {
                    reader.sign = reader.text[reader.at];
                    reader.at += 1;
                } else {
                    reader.skip(1);
                }
            }
            Part::Literal(literal) => {
                for _ in literal.chars() {
                    reader.skip_char();
                }
            }
            _ => {}
        }
    }
    let digits = reader.digits.trim_end_matches('.');
    if digits.is_empty() {
        let shown = format!("{}{digits}", char::from(reader.sign));
        return Err(Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type numeric: \"{shown}\"")));
    }
    let shift = form.shift.unwrap_or(0);
    let value = Numeric::parse(digits)?;
    let places = form.before + reader.after;
    let value = value.with_precision(places.clamp(1, 1000) as u16, reader.after as u16)?;
    let value = if reader.sign == b'-' { value.negate() } else { value };
    if shift == 0 {
        return Ok(Some(value));
    }
    Ok(Some(value.div(Numeric::from(10).power(Numeric::from(shift.min(30) as i64))?)?))
}
