//! What is asked and answered in one exchange: calls of prepared statements with their parameters,
//! and rows.
//!
//! ```text
//! calls    statement, parameters from‥to │ …          values   cell cell cell …   text bytes of all texts
//! answers  first cell, width, rows │ …                cells    cell cell cell …   text bytes of all texts
//! ```
//!
//! Invariants
//! - Cells are plain data; texts lie in one buffer beside them. Clearing keeps their memory, so a
//!   batch that has seen the largest transaction allocates nothing more.

use std::ops::Range;

/// A statement that is prepared, by its place in the list of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatementId(pub(crate) u16);

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    /// `mantissa` · 10^−`scale`, exactly.
    Decimal {
        mantissa: i64,
        scale: u8,
    },
    /// A part of the text buffer.
    Text {
        start: u32,
        bytes: u32,
    },
    /// Microseconds since 2000-01-01 00:00.
    Time(i64),
}

/// Cells, and the texts of those that are texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    pub(crate) cells: Vec<Cell>,
    text: Vec<u8>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
    }

    pub(crate) fn push_text(&mut self, text: &[u8]) {
        self.push_texts(&[text]);
    }

    /// Several parts as one text.
    pub(crate) fn push_texts(&mut self, parts: &[&[u8]]) {
        let start = self.text.len();
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
        let cell = Cell::Text { start: start as u32, bytes: (self.text.len() - start) as u32 };
        self.cells.push(cell);
    }

    /// The bytes of a text of these values.
    pub(crate) fn bytes(&self, start: u32, bytes: u32) -> &[u8] {
        &self.text[start as usize..(start + bytes) as usize]
    }
}

/// A call of a statement.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) statement: StatementId,
    /// Its parameters among the values.
    pub(crate) params: Range<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Answered {
    first: u32,
    width: u16,
    rows: u32,
    affected: u64,
}

/// Calls and their answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    calls: Vec<Asked>,
    values: Values,
    answers: Vec<Answered>,
    cells: Values,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.values.clear();
        self.clear_answers();
    }

    pub(crate) fn clear_answers(&mut self) {
        self.answers.clear();
        self.cells.clear();
    }

    pub(crate) fn call(&mut self, statement: StatementId) -> Call<'_> {
        let at = self.values.cells.len() as u32;
        self.calls.push(Asked { statement, params: at..at });
        Call { batch: self }
    }

    pub(crate) fn calls(&self) -> &[Asked] {
        &self.calls
    }

    /// The parameters of a call.
    pub(crate) fn params(&self, call: usize) -> &[Cell] {
        let Range { start, end } = self.calls[call].params;
        &self.values.cells[start as usize..end as usize]
    }

    /// Bytes of the parameters of the calls of some statements: eight for a number or a time, its
    /// length for a text.
    pub(crate) fn params_bytes(&self, of: impl Fn(StatementId) -> bool) -> u64 {
        let bytes = |cell: &Cell| match cell {
            Cell::Null => 0,
            Cell::Int(_) | Cell::Decimal { .. } | Cell::Time(_) => 8,
            Cell::Text { bytes, .. } => u64::from(*bytes),
        };
        let calls = self.calls.iter().filter(|call| of(call.statement));
        let cells = calls.flat_map(|call| &self.values.cells[call.params.start as usize..call.params.end as usize]);
        cells.map(bytes).sum()
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    /// Begins the next answer.
    pub(crate) fn begin_answer(&mut self) -> AnswerWriter<'_> {
        self.answers.push(Answered { first: self.cells.cells.len() as u32, ..Answered::default() });
        self.last_answer()
    }

    /// The answer that is being written.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn last_answer(&mut self) -> AnswerWriter<'_> {
        AnswerWriter { answered: self.answers.last_mut().expect("an answer was begun"), values: &mut self.cells }
    }

    /// How many calls are answered.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    pub(crate) fn answer(&self, call: usize) -> Answer<'_> {
        let answered = self.answers.get(call).copied().unwrap_or_default();
        Answer { answered, values: &self.cells }
    }

    /// Answers the first call that has no answer yet: its parameters and the room for the answer.
    /// For targets that answer at once.
    ///
    /// # Panics
    /// If all are answered.
    #[cfg(feature = "rivals")]
    pub(crate) fn answer_next<T>(&mut self, answer: impl FnOnce((&[Cell], &Values), &mut AnswerWriter<'_>) -> T) -> T {
        let Range { start, end } = self.calls[self.answers.len()].params;
        self.answers.push(Answered { first: self.cells.cells.len() as u32, ..Answered::default() });
        let answered = self.answers.last_mut().expect("just pushed");
        let mut writer = AnswerWriter { answered, values: &mut self.cells };
        answer((&self.values.cells[start as usize..end as usize], &self.values), &mut writer)
    }

    /// Answers all calls: parameters and the room for the answer, for a target that makes answers
    /// up.
    pub(crate) fn imitate(&mut self, mut imitate: impl FnMut(StatementId, &[Cell], &mut AnswerWriter<'_>)) {
        self.clear_answers();
        for Asked { statement, params } in &self.calls {
            self.answers.push(Answered { first: self.cells.cells.len() as u32, ..Answered::default() });
            let answered = self.answers.last_mut().expect("just pushed");
            let mut writer = AnswerWriter { answered, values: &mut self.cells };
            imitate(*statement, &self.values.cells[params.start as usize..params.end as usize], &mut writer);
        }
    }
}

/// A call whose parameters are being added.
pub(crate) struct Call<'b> {
    batch: &'b mut Batch,
}

impl Call<'_> {
    pub(crate) fn cell(self, cell: Cell) -> Self {
        self.batch.values.cells.push(cell);
        self.counted()
    }

    pub(crate) fn int(self, value: i64) -> Self {
        self.cell(Cell::Int(value))
    }

    /// An exact amount with two digits behind the point.
    pub(crate) fn cents(self, cents: i64) -> Self {
        self.cell(Cell::Decimal { mantissa: cents, scale: 2 })
    }

    pub(crate) fn time(self, micros: i64) -> Self {
        self.cell(Cell::Time(micros))
    }

    pub(crate) fn text(self, text: &[u8]) -> Self {
        self.texts(&[text])
    }

    /// Several parts as one text.
    pub(crate) fn texts(self, parts: &[&[u8]]) -> Self {
        self.batch.values.push_texts(parts);
        self.counted()
    }

    fn counted(self) -> Self {
        let end = self.batch.values.cells.len() as u32;
        self.batch.calls.last_mut().expect("the call itself").params.end = end;
        self
    }
}

/// Room for the rows of an answer.
pub(crate) struct AnswerWriter<'b> {
    answered: &'b mut Answered,
    values: &'b mut Values,
}

impl AnswerWriter<'_> {
    /// Adds a cell to the current row.
    pub(crate) fn cell(&mut self, cell: Cell) {
        self.values.cells.push(cell);
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        self.values.push_text(text);
    }

    /// Ends a row, which has `width` cells.
    pub(crate) fn end_row(&mut self, width: usize) {
        self.answered.width = width as u16;
        self.answered.rows += 1;
    }

    /// Rows that were changed, or given.
    pub(crate) fn affected(&mut self, rows: u64) {
        self.answered.affected = rows;
    }
}

/// The rows of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'b> {
    answered: Answered,
    values: &'b Values,
}

impl<'b> Answer<'b> {
    pub(crate) fn rows(&self) -> usize {
        self.answered.rows as usize
    }

    /// Rows that were changed, or given.
    pub(crate) fn affected(&self) -> u64 {
        self.answered.affected
    }

    /// Columns of its rows.
    pub(crate) fn width(&self) -> usize {
        self.answered.width as usize
    }

    /// A value; NULL where there is none.
    pub(crate) fn cell(&self, row: usize, column: usize) -> Cell {
        let width = self.answered.width as usize;
        if row >= self.rows() || column >= width {
            return Cell::Null;
        }
        self.values.cells[self.answered.first as usize + row * width + column]
    }

    /// An integer.
    pub(crate) fn int(&self, row: usize, column: usize) -> Option<i64> {
        match self.cell(row, column) {
            Cell::Int(value) => Some(value),
            Cell::Decimal { mantissa, scale: 0 } => Some(mantissa),
            _ => None,
        }
    }

    /// An exact number, counted in units of 10^−`scale`; nothing if it has more digits than that.
    pub(crate) fn decimal(&self, row: usize, column: usize, scale: u8) -> Option<i64> {
        let (mantissa, from) = match self.cell(row, column) {
            Cell::Int(value) => (value, 0),
            Cell::Decimal { mantissa, scale } => (mantissa, scale),
            _ => return None,
        };
        match scale.checked_sub(from) {
            Some(more) => mantissa.checked_mul(10_i64.checked_pow(more.into())?),
            None => {
                let part = 10_i64.checked_pow((from - scale).into())?;
                (mantissa % part == 0).then_some(mantissa / part)
            }
        }
    }

    pub(crate) fn text(&self, row: usize, column: usize) -> Option<&'b [u8]> {
        match self.cell(row, column) {
            Cell::Text { start, bytes } => Some(self.values.bytes(start, bytes)),
            _ => None,
        }
    }
}

/// All rows of a statement that is not hot, with what belongs to them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    batch: Batch,
}

impl Table {
    pub(crate) fn new(batch: Batch) -> Self {
        Self { batch }
    }

    pub(crate) fn answer(&self) -> Answer<'_> {
        self.batch.answer(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_keep_their_parameters_apart() {
        let mut batch = Batch::default();
        batch.call(StatementId(4)).int(1).text(b"ab");
        batch.call(StatementId(5));
        batch.call(StatementId(6)).texts(&[b"c", b"", b"de"]).cents(-5);
        assert_eq!(batch.params(0)[0], Cell::Int(1));
        assert_eq!(batch.params(1), []);
        let Cell::Text { start, bytes } = batch.params(2)[0] else { panic!("a text") };
        assert_eq!(batch.values().bytes(start, bytes), b"cde");
        assert_eq!(batch.params(2)[1], Cell::Decimal { mantissa: -5, scale: 2 });
        assert_eq!(batch.params_bytes(|statement| statement.0 != 5), 8 + 2 + 3 + 8);
        assert_eq!(batch.params_bytes(|statement| statement.0 == 4), 8 + 2);
        batch.clear();
        assert_eq!(batch.calls().len(), 0);
    }

    #[test]
    fn answers_are_read_back_and_what_is_missing_is_null() {
        let mut batch = Batch::default();
        let mut writer = batch.begin_answer();
        for number in 0..2 {
            writer.cell(Cell::Int(number));
            writer.text(b"text");
            writer.end_row(2);
        }
        let mut writer = batch.begin_answer();
        writer.cell(Cell::Decimal { mantissa: 1250, scale: 3 });
        writer.end_row(1);
        writer.affected(7);
        assert_eq!((batch.answer(0).rows(), batch.answer(0).int(1, 0)), (2, Some(1)));
        assert_eq!(batch.answer(0).text(1, 1), Some(&b"text"[..]));
        let answer = batch.answer(1);
        assert_eq!(
            (answer.decimal(0, 0, 2), answer.decimal(0, 0, 1), answer.decimal(0, 0, 5)),
            (Some(125), None, Some(125_000))
        );
        assert_eq!(answer.affected(), 7);
        assert_eq!(batch.answer(2).rows(), 0);
        assert_eq!(batch.answer(0).cell(0, 9), Cell::Null);
    }

    #[test]
    fn a_batch_keeps_its_room() {
        let mut batch = Batch::default();
        let fill = |batch: &mut Batch| {
            batch.clear();
            for number in 0..50 {
                batch.call(StatementId(4)).int(number).text(b"some text");
            }
            let room = (batch.calls.capacity(), batch.values.cells.capacity(), batch.values.text.capacity());
            (room, batch.calls.as_ptr() as usize, batch.values.cells.as_ptr() as usize)
        };
        let first = fill(&mut batch);
        assert_eq!(first, fill(&mut batch));
    }
}
