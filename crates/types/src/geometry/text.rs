//! Geometric values as text, as PostgreSQL reads and writes them: most parentheses may be left out.

use super::{Circle, Line, POINTS_MAX, Path, Point, Polygon, Rect, Segment, Shape, is_zero};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::types::Type;
use crate::value::Datum;

struct Reader<'t> {
    ty: Type,
    whole: &'t str,
    rest: &'t str,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

impl<'t> Reader<'t> {
    #[cold]
    fn wrong(&self) -> Error {
        let message = format!("invalid input syntax for type {}: \"{}\"", self.ty, self.whole);
        Error::new(SqlState::BAD_TEXT, message)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.eat(c) { Ok(()) } else { Err(self.wrong()) }
    }

    /// A number, with blanks around it.
    fn number(&mut self) -> Result<f64> {
        self.skip_blanks();
        let end = self.rest.find(|c: char| is_blank(c) || ",()[]<>{}".contains(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        if text.is_empty() {
            return Err(self.wrong());
        }
        let value = match crate::text_io::parse_float(Type::Float8, text) {
            Ok(value) => value,
            Err(error) if error.state() == SqlState::OUT_OF_RANGE => return Err(error),
            Err(_) => return Err(self.wrong()),
        };
        self.rest = rest;
        self.skip_blanks();
        Ok(value)
    }

    /// `(x, y)` or `x, y`.
    fn pair(&mut self) -> Result<Point> {
        self.skip_blanks();
        let is_enclosed = self.eat('(');
        let x = self.number()?;
        self.expect(',')?;
        let y = self.number()?;
        if is_enclosed {
            self.expect(')')?;
            self.skip_blanks();
        }
        Ok(Point { x, y })
    }

    /// So many points, perhaps in parentheses, or in brackets if these may be; says whether they are.
    fn pairs(&mut self, may_be_open: bool, count: usize) -> Result<(Vec<Point>, bool)> {
        let mut depth = 0;
        self.skip_blanks();
        let is_open = self.rest.starts_with('[');
        if is_open {
            if !may_be_open {
                return Err(self.wrong());
            }
            depth += 1;
            self.eat('[');
        } else if self.rest.starts_with('(') {
            let behind = self.rest[1..].trim_start_matches(is_blank);
            if behind.starts_with('(') || self.rest.rfind('(') == Some(0) {
                depth += 1;
                self.rest = behind;
            }
        }
        let mut points = Vec::with_capacity(count.min(1 << 12));
        for _ in 0..count {
            points.push(self.pair()?);
            self.eat(',');
            crate::pulse::work(1)?;
        }
        while depth > 0 {
            if !(self.eat(')') || depth == 1 && is_open && self.eat(']')) {
                return Err(self.wrong());
            }
            depth -= 1;
            self.skip_blanks();
        }
        Ok((points, is_open))
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }

    /// How many points the commas of the text are for.
    fn count_points(&self) -> Result<usize> {
        let commas = self.whole.bytes().filter(|&byte| byte == b',').count();
        if commas % 2 == 0 {
            return Err(self.wrong());
        }
        match commas.div_ceil(2) {
            many if many > POINTS_MAX => Err(Error::new(SqlState::PROGRAM_LIMIT, "too many points requested")),
            count => Ok(count),
        }
    }

    fn line(&mut self) -> Result<Line> {
        self.skip_blanks();
        let message = if self.eat('{') {
            let a = self.number()?;
            self.expect(',')?;
            let b = self.number()?;
            self.expect(',')?;
            let c = self.number()?;
            self.expect('}')?;
            self.skip_blanks();
            self.end()?;
            if !(is_zero(a) && is_zero(b)) {
                return Ok(Line { a, b, c });
            }
            "invalid line specification: A and B cannot both be zero"
        } else {
            let (points, _) = self.pairs(true, 2)?;
            self.end()?;
            if !points[0].is_same(&points[1]) {
                return Line::through(&points[0], &points[1]);
            }
            "invalid line specification: must be two distinct points"
        };
        Err(Error::new(SqlState::BAD_TEXT, message))
    }

    fn circle(&mut self) -> Result<Circle> {
        let mut depth = 0;
        self.skip_blanks();
        if self.eat('<') {
            depth += 1;
        } else if self.rest.starts_with('(') {
            let behind = self.rest[1..].trim_start_matches(is_blank);
            if behind.starts_with('(') {
                depth += 1;
                self.rest = behind;
            }
        }
        let center = self.pair()?;
        self.eat(',');
        let radius = self.number()?;
        if radius < 0.0 {
            return Err(self.wrong());
        }
        while depth > 0 {
            if !(self.eat(')') || depth == 1 && self.eat('>')) {
                return Err(self.wrong());
            }
            depth -= 1;
            self.skip_blanks();
        }
        self.end()?;
        Ok(Circle { center, radius })
    }

    fn path(&mut self) -> Result<Path> {
        let count = self.count_points()?;
        self.skip_blanks();
        let is_enclosed = self.rest.starts_with('(') && self.rest.rfind('(') == Some(0);
        if is_enclosed {
            self.eat('(');
        }
        let (points, is_open) = self.pairs(true, count)?;
        if is_enclosed {
            self.expect(')')?;
            self.skip_blanks();
        }
        self.end()?;
        Ok(Path { closed: !is_open, points })
    }
}

/// Reads a value, as the bytes that it is kept as.
pub(crate) fn read(ty: Type, text: &str) -> Result<Vec<u8>> {
    let mut reader = Reader { ty, whole: text, rest: text };
    Ok(match ty {
        Type::Point => {
            let point = reader.pair()?;
            reader.end()?;
            point.to_bytes()
        }
        Type::Lseg => {
            let (points, _) = reader.pairs(true, 2)?;
            reader.end()?;
            Segment(points[0], points[1]).to_bytes()
        }
        Type::Box => {
            let (points, _) = reader.pairs(false, 2)?;
            reader.end()?;
            Rect::of_corners(points[0], points[1]).to_bytes()
        }
        Type::Line => reader.line()?.to_bytes(),
        Type::Circle => reader.circle()?.to_bytes(),
        Type::Path => reader.path()?.to_bytes(),
        _ => {
            let count = reader.count_points()?;
            let (points, _) = reader.pairs(false, count)?;
            reader.end()?;
            Polygon { points }.to_bytes()
        }
    })
}

fn write_number(value: f64, env: &Env, out: &mut String) {
    crate::text_io::write(Type::Float8, &Datum::Float(value), env, out);
}

fn write_point(point: &Point, env: &Env, out: &mut String) {
    out.push('(');
    write_number(point.x, env, out);
    out.push(',');
    write_number(point.y, env, out);
    out.push(')');
}

fn write_points(points: &[Point], env: &Env, out: &mut String) {
    for (at, point) in points.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_point(point, env, out);
        if at % 1024 == 1023 && crate::pulse::note(1024) {
            return;
        }
    }
}

fn write_between(open: char, points: &[Point], close: char, env: &Env, out: &mut String) {
    out.push(open);
    write_points(points, env, out);
    out.push(close);
}

/// Appends a value's text. What is damaged ends the text early.
pub(crate) fn write(ty: Type, bytes: &[u8], env: &Env, out: &mut String) {
    let written: Result<()> = (|| {
        match ty {
            Type::Point => write_point(&Point::from_bytes(bytes)?, env, out),
            Type::Lseg => {
                let Segment(one, other) = Segment::from_bytes(bytes)?;
                write_between('[', &[one, other], ']', env, out);
            }
            Type::Box => {
                let Rect { high, low } = Rect::from_bytes(bytes)?;
                write_points(&[high, low], env, out);
            }
            Type::Line => {
                let Line { a, b, c } = Line::from_bytes(bytes)?;
                for (before, number) in [('{', a), (',', b), (',', c)] {
                    out.push(before);
                    write_number(number, env, out);
                }
                out.push('}');
            }
            Type::Circle => {
                let Circle { center, radius } = Circle::from_bytes(bytes)?;
                out.push('<');
                write_point(&center, env, out);
                out.push(',');
                write_number(radius, env, out);
                out.push('>');
            }
            Type::Path => {
                let Path { closed, points } = Path::from_bytes(bytes)?;
                let (open, close) = if closed { ('(', ')') } else { ('[', ']') };
                write_between(open, &points, close, env, out);
            }
            _ => write_between('(', &Polygon::from_bytes(bytes)?.points, ')', env, out),
        }
        Ok(())
    })();
    debug_assert!(written.is_ok(), "a geometric value is damaged");
}
