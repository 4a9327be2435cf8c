//! Divides a match among the parts of a pattern, which gives the groups.
//!
//! Without back-references the first division found is right, so each part costs one reading of its
//! text. With them a division may turn out wrong when the back-reference is met, and the next one
//! is tried.

use super::sets;
use super::tree::{NO_BOUND, Op, Sub, Traits};
use super::{Search, Span, children};
use crate::error::Result;

type Groups = Vec<Option<Span>>;

/// Forgets what the groups of a part matched.
fn clear(sub: &Sub, groups: &mut Groups) {
    let mut sub = sub;
    loop {
        if sub.group != 0 {
            groups[sub.group] = None;
        }
        let Some((last, others)) = children(sub).split_last() else { return };
        others.iter().for_each(|child| clear(child, groups));
        sub = last;
    }
}

impl Search<'_> {
    /// Whether a part matches a text from end to end; sets its groups.
    pub(super) fn divide(&mut self, sub: &Sub, begin: usize, end: usize, groups: &mut Groups) -> Result<bool> {
        self.burn(1)?;
        let fits = match &sub.op {
            Op::Leaf => true,
            Op::Group(inner) => self.divide(inner, begin, end, groups)?,
            Op::Back { group, min, max } => self.repeats(*group, *min, *max, begin, end, groups),
            Op::Alt(subs) => self.divide_alternatives(subs, begin, end, groups)?,
            Op::Concat(pair) => self.divide_concatenation(&pair[0], &pair[1], begin, end, groups)?,
            Op::Repeat { inner, min, max } => self.divide_repetition(inner, *min, *max, begin, end, groups)?,
        };
        if fits && sub.group != 0 {
            groups[sub.group] = Some((begin, end));
        }
        Ok(fits)
    }

    /// Whether a text is what a group matched, a number of times.
    fn repeats(&self, group: usize, min: u32, max: u32, begin: usize, end: usize, groups: &Groups) -> bool {
        let Some((from, to)) = groups[group] else { return false };
        let (unit, length) = (to - from, end - begin);
        if unit == 0 {
            return length == 0;
        }
        if length == 0 {
            return min == 0;
        }
        if length % unit != 0 || !(min as usize..=max as usize).contains(&(length / unit)) {
            return false;
        }
        let (known, text) = (self.slice((from, to)), self.slice((begin, end)));
        let folded = |c: char| if self.pattern.ignore_case { sets::lower(u32::from(c)) } else { u32::from(c) };
        text.chars().map(folded).eq(known.chars().cycle().take(length).map(folded))
    }

    fn divide_alternatives(&mut self, subs: &[Sub], begin: usize, end: usize, groups: &mut Groups) -> Result<bool> {
        for sub in subs {
            let mut fits = false;
            self.run(sub, false, begin, end, |at| {
                fits = at == end;
                fits
            })?;
            if fits {
                if self.divide(sub, begin, end, groups)? {
                    return Ok(true);
                }
                clear(sub, groups);
            }
        }
        Ok(false)
    }

    /// Marks the places from which a part matches up to the end.
    fn reaching(&mut self, sub: &Sub, begin: usize, end: usize) -> Result<Vec<bool>> {
        let mut marks = vec![false; end - begin + 1];
        self.run(sub, true, end, begin, |at| {
            marks[at - begin] = true;
            false
        })?;
        Ok(marks)
    }

    fn divide_concatenation(
        &mut self,
        left: &Sub,
        right: &Sub,
        begin: usize,
        end: usize,
        groups: &mut Groups,
    ) -> Result<bool> {
        let shortest = left.traits.has(Traits::SHORTER);
        let tries = left.traits.with(right.traits).has(Traits::BACK);
        let reaching = self.reaching(right, begin, end)?;
        let mut middles = Vec::new();
        self.run(left, false, begin, end, |at| {
            if reaching[at - begin] {
                if !tries {
                    middles.clear();
                }
                middles.push(at);
            }
            shortest && !tries && !middles.is_empty()
        })?;
        if !shortest {
            middles.reverse();
        }
        for middle in middles {
            if self.divide(left, begin, middle, groups)? && self.divide(right, middle, end, groups)? {
                return Ok(true);
            }
            clear(left, groups);
            clear(right, groups);
        }
        Ok(false)
    }

    /// The preferred end of a match of a part that begins at `from` and ends between `least` and
    /// `most`.
    fn end_between(
        &mut self,
        sub: &Sub,
        from: usize,
        least: usize,
        most: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>> {
        let shortest = sub.traits.has(Traits::SHORTER);
        let mut end = None;
        self.run(sub, false, from, most, |at| {
            if at >= least && allowed(at) {
                end = Some(at);
            }
            shortest && end.is_some()
        })?;
        Ok(end)
    }

    /// Divides a text among repetitions. None of them is empty unless there would be too few.
    fn divide_repetition(
        &mut self,
        inner: &Sub,
        min: u32,
        max: u32,
        begin: usize,
        end: usize,
        groups: &mut Groups,
    ) -> Result<bool> {
        let shortest = inner.traits.has(Traits::SHORTER);
        let may_be_none = min == 0 && begin == end;
        if may_be_none && shortest {
            return Ok(true);
        }
        let min = min.max(1) as usize;
        let max = (end - begin).min(if max == NO_BOUND { usize::MAX } else { max as usize }).max(min);
        // The ends of the repetitions so far, and how many of them are known to fit their
        // back-references.
        let mut ends = vec![begin];
        let mut verified = 0;
        // Bounds on the end of the next one.
        let (mut least, mut most) = (begin, end);
        'more: loop {
            let from = ends[ends.len() - 1];
            let number = ends.len();
            let needs_empty = |place: usize| number < min && min - number >= end - place;
            if number >= max {
                least = least.max(end);
            }
            let found = if least > most {
                None
            } else {
                self.end_between(inner, from, least, most, |at| at != from || at == end || needs_empty(at))?
            };
            // Whether to look for another end of the last repetition found.
            let is_done = match found {
                None => false,
                Some(at) => {
                    verified = verified.min(number - 1);
                    ends.push(at);
                    if at != end {
                        (least, most) = (at, end);
                        continue;
                    }
                    let mut fits = number >= min;
                    while fits && verified < number {
                        clear(inner, groups);
                        fits = self.divide(inner, ends[verified], ends[verified + 1], groups)?;
                        if fits {
                            verified += 1;
                        } else {
                            ends.truncate(verified + 2);
                        }
                    }
                    fits
                }
            };
            if is_done {
                return Ok(true);
            }
            while ends.len() > 1 {
                let last = ends.pop().unwrap_or(begin);
                let from = ends[ends.len() - 1];
                let number = ends.len();
                if shortest {
                    if last < end {
                        (least, most) = (last + 1, end);
                        continue 'more;
                    }
                } else if last > from && (last - 1 > from || (number < min && min - number >= end - from)) {
                    (least, most) = (from, last - 1);
                    continue 'more;
                }
            }
            // No repetition at all is the last choice.
            return Ok(may_be_none);
        }
    }
}
