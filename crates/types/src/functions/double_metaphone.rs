//! Double Metaphone, after Lawrence Philips: how a word may sound, in two ways of four characters.

use super::{Function, f, text};
use crate::error::Result;
use crate::pulse;
use crate::types::Type::Text;
use crate::value::Datum;

/// Characters of a code.
const CODE_CHARS: usize = 4;

/// A word in capitals, and what it sounds like so far.
struct Speller {
    word: Vec<u8>,
    /// Whether it looks like a Slavic or a Germanic one.
    is_eastern: bool,
    codes: [String; 2],
    at: usize,
}

impl Speller {
    fn new(text: &str) -> Result<Self> {
        let word = text.as_bytes().to_ascii_uppercase();
        pulse::check()?;
        // `WITZ` has a W as well.
        let mut is_eastern = word.contains(&b'W') || word.contains(&b'K');
        pulse::check()?;
        is_eastern = is_eastern || word.windows(2).any(|found| found == b"CZ");
        pulse::check()?;
        Ok(Self { is_eastern, word, codes: [String::new(), String::new()], at: 0 })
    }

    /// The letter some places behind; blanks stand around the word.
    fn letter(&self, behind: isize) -> u8 {
        let place = self.at.checked_add_signed(behind);
        place.map_or(0, |place| self.word.get(place).copied().unwrap_or(b' '))
    }

    /// Whether one of some parts, of which all are as long, stands some places behind.
    fn is(&self, behind: isize, parts: &[&str]) -> bool {
        let Some(place) = self.at.checked_add_signed(behind) else { return false };
        let at = |place: usize| self.word.get(place).copied().unwrap_or(b' ');
        parts.iter().any(|part| part.bytes().enumerate().all(|(offset, wanted)| at(place + offset) == wanted))
    }

    fn starts(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.word.starts_with(part.as_bytes()))
    }

    fn is_vowel(&self, behind: isize) -> bool {
        matches!(self.letter(behind), b'A' | b'E' | b'I' | b'O' | b'U' | b'Y')
    }

    fn is_first(&self) -> bool {
        self.at == 0
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.word.len()
    }

    fn is_germanic(&self) -> bool {
        self.starts(&["VAN ", "VON ", "SCH"])
    }

    /// Adds a sound to both codes, and goes on.
    fn add(&mut self, sound: &str, step: usize) {
        self.add_two(sound, sound, step);
    }

    fn add_two(&mut self, one: &str, other: &str, step: usize) {
        self.codes[0].push_str(one);
        self.codes[1].push_str(other);
        self.at += step;
    }

    /// The step over a letter and another one of some behind it.
    fn step_over(&self, letters: &[&str]) -> usize {
        if self.is(1, letters) { 2 } else { 1 }
    }

    fn spelled(mut self) -> Result<[String; 2]> {
        if self.starts(&["GN", "KN", "PN", "WR", "PS"]) {
            self.at = 1;
        }
        if self.starts(&["X"]) {
            self.add("S", 1);
        }
        while self.at < self.word.len() && self.codes.iter().any(|code| code.len() < CODE_CHARS) {
            pulse::work(1)?;
            self.sound();
        }
        for code in &mut self.codes {
            code.truncate(CODE_CHARS);
        }
        Ok(self.codes)
    }

    fn sound(&mut self) {
        match self.letter(0) {
            b'A' | b'E' | b'I' | b'O' | b'U' | b'Y' => {
                let sound = if self.is_first() { "A" } else { "" };
                self.add(sound, 1);
            }
            b'B' => self.add("P", self.step_over(&["B"])),
            b'C' => self.c(),
            b'D' if self.is(1, &["G"]) => {
                if self.is(2, &["I", "E", "Y"]) {
                    self.add("J", 3);
                } else {
                    self.add("TK", 2);
                }
            }
            b'D' => self.add("T", self.step_over(&["T", "D"])),
            b'F' => self.add("F", self.step_over(&["F"])),
            b'G' => self.g(),
            b'H' if (self.is_first() || self.is_vowel(-1)) && self.is_vowel(1) => self.add("H", 2),
            b'J' => self.j(),
            b'K' => self.add("K", self.step_over(&["K"])),
            b'L' => self.l(),
            b'M' => {
                let is_dumb = self.is(-1, &["UMB"]) && (self.at + 2 == self.word.len() || self.is(2, &["ER"]));
                self.add("M", if is_dumb || self.is(1, &["M"]) { 2 } else { 1 });
            }
            b'N' => self.add("N", self.step_over(&["N"])),
            b'P' if self.is(1, &["H"]) => self.add("F", 2),
            b'P' => self.add("P", self.step_over(&["P", "B"])),
            b'Q' => self.add("K", self.step_over(&["Q"])),
            b'R' => {
                let is_french =
                    self.is_last() && !self.is_eastern && self.is(-2, &["IE"]) && !self.is(-4, &["ME", "MA"]);
                self.add_two(if is_french { "" } else { "R" }, "R", self.step_over(&["R"]));
            }
            b'S' => self.s(),
            b'T' => self.t(),
            b'V' => self.add("F", self.step_over(&["V"])),
            b'W' => self.w(),
            b'X' => {
                let is_silent = self.is_last() && (self.is(-3, &["IAU", "EAU"]) || self.is(-2, &["AU", "OU"]));
                self.add(if is_silent { "" } else { "KS" }, self.step_over(&["C", "X"]));
            }
            b'Z' if self.is(1, &["H"]) => self.add("J", 2),
            b'Z' => {
                let is_sharp =
                    self.is(1, &["ZO", "ZI", "ZA"]) || self.is_eastern && !self.is_first() && self.letter(-1) != b'T';
                self.add_two("S", if is_sharp { "TS" } else { "S" }, self.step_over(&["Z"]));
            }
            _ => self.at += 1,
        }
    }

    fn c(&mut self) {
        let is_ach = self.at > 1
            && !self.is_vowel(-2)
            && self.is(-1, &["ACH"])
            && self.letter(2) != b'I'
            && (self.letter(2) != b'E' || self.is(-2, &["BACHER", "MACHER"]));
        if is_ach {
            self.add("K", 2);
        } else if self.is_first() && self.is(0, &["CAESAR"]) {
            self.add("S", 2);
        } else if self.is(0, &["CHIA"]) {
            self.add("K", 2);
        } else if self.is(0, &["CH"]) {
            self.ch();
        } else if self.is(0, &["CZ"]) && !self.is(-2, &["WICZ"]) {
            self.add_two("S", "X", 2);
        } else if self.is(1, &["CIA"]) {
            self.add("X", 3);
        } else if self.is(0, &["CC"]) && !(self.at == 1 && self.word[0] == b'M') {
            if self.is(2, &["I", "E", "H"]) && !self.is(2, &["HU"]) {
                let is_hard = self.at == 1 && self.letter(-1) == b'A' || self.is(-1, &["UCCEE", "UCCES"]);
                self.add(if is_hard { "KS" } else { "X" }, 3);
            } else {
                self.add("K", 2);
            }
        } else if self.is(0, &["CK", "CG", "CQ"]) {
            self.add("K", 2);
        } else if self.is(0, &["CI", "CE", "CY"]) {
            let other = if self.is(0, &["CIO", "CIE", "CIA"]) { "X" } else { "S" };
            self.add_two("S", other, 2);
        } else {
            let step = if self.is(1, &[" C", " Q", " G"]) {
                3
            } else if self.is(1, &["C", "K", "Q"]) && !self.is(1, &["CE", "CI"]) {
                2
            } else {
                1
            };
            self.add("K", step);
        }
    }

    fn ch(&mut self) {
        if !self.is_first() && self.is(0, &["CHAE"]) {
            self.add_two("K", "X", 2);
            return;
        }
        let is_greek = self.is_first()
            && (self.is(1, &["HARAC", "HARIS"]) || self.is(1, &["HOR", "HYM", "HIA", "HEM"]))
            && !self.starts(&["CHORE"]);
        let is_hard = self.is_germanic()
            || self.is(-2, &["ORCHES", "ARCHIT", "ORCHID"])
            || self.is(2, &["T", "S"])
            || (self.is_first() || self.is(-1, &["A", "O", "U", "E"]))
                && self.is(2, &["L", "R", "N", "M", "B", "H", "F", "V", "W", " "]);
        if is_greek || is_hard {
            self.add("K", 2);
        } else if self.is_first() {
            self.add("X", 2);
        } else if self.starts(&["MC"]) {
            self.add("K", 2);
        } else {
            self.add_two("X", "K", 2);
        }
    }

    fn g(&mut self) {
        if self.is(1, &["H"]) {
            self.gh();
        } else if self.is(1, &["N"]) {
            let starts_with_vowel = matches!(self.word[0], b'A' | b'E' | b'I' | b'O' | b'U' | b'Y');
            if self.at == 1 && starts_with_vowel && !self.is_eastern {
                self.add_two("KN", "N", 2);
            } else if !self.is(2, &["EY"]) && self.letter(1) != b'Y' && !self.is_eastern {
                self.add_two("N", "KN", 2);
            } else {
                self.add("KN", 2);
            }
        } else if self.is(1, &["LI"]) && !self.is_eastern {
            self.add_two("KL", "L", 2);
        } else if self.is_first()
            && (self.letter(1) == b'Y'
                || self.is(1, &["ES", "EP", "EB", "EL", "EY", "IB", "IL", "IN", "IE", "EI", "ER"]))
            || (self.is(1, &["ER"]) || self.letter(1) == b'Y')
                && !self.starts(&["DANGER", "RANGER", "MANGER"])
                && !self.is(-1, &["E", "I"])
                && !self.is(-1, &["RGY", "OGY"])
        {
            self.add_two("K", "J", 2);
        } else if self.is(1, &["E", "I", "Y"]) || self.is(-1, &["AGGI", "OGGI"]) {
            if self.is_germanic() || self.is(1, &["ET"]) {
                self.add("K", 2);
            } else if self.is(1, &["IER "]) {
                self.add("J", 2);
            } else {
                self.add_two("J", "K", 2);
            }
        } else {
            self.add("K", self.step_over(&["G"]));
        }
    }

    fn gh(&mut self) {
        if !self.is_first() && !self.is_vowel(-1) {
            self.add("K", 2);
        } else if self.is_first() {
            let sound = if self.letter(2) == b'I' { "J" } else { "K" };
            self.add(sound, 2);
        } else if self.at > 1 && self.is(-2, &["B", "H", "D"])
            || self.at > 2 && self.is(-3, &["B", "H", "D"])
            || self.at > 3 && self.is(-4, &["B", "H"])
        {
            self.at += 2;
        } else if self.at > 2 && self.letter(-1) == b'U' && self.is(-3, &["C", "G", "L", "R", "T"]) {
            self.add("F", 2);
        } else {
            let sound = if self.letter(-1) == b'I' { "" } else { "K" };
            self.add(sound, 2);
        }
    }

    fn j(&mut self) {
        let is_saint = self.starts(&["SAN "]);
        if self.is(0, &["JOSE"]) || is_saint {
            let is_spanish = self.is_first() && self.letter(4) == b' ' || is_saint;
            self.add_two(if is_spanish { "H" } else { "J" }, "H", 1);
            return;
        }
        let step = self.step_over(&["J"]);
        if self.is_first() {
            self.add_two("J", "A", step);
        } else if self.is_vowel(-1) && !self.is_eastern && matches!(self.letter(1), b'A' | b'O') {
            self.add_two("J", "H", step);
        } else if self.is_last() {
            self.add_two("J", "", step);
        } else if !self.is(1, &["L", "T", "K", "S", "N", "M", "B", "Z"]) && !self.is(-1, &["S", "K", "L"]) {
            self.add("J", step);
        } else {
            self.at += step;
        }
    }

    fn l(&mut self) {
        if !self.is(1, &["L"]) {
            self.add("L", 1);
            return;
        }
        let ends = |parts: &[&str]| parts.iter().any(|part| self.word.ends_with(part.as_bytes()));
        let is_spanish = self.at + 3 == self.word.len() && self.is(-1, &["ILLO", "ILLA", "ALLE"])
            || ends(&["AS", "OS", "A", "O"]) && self.is(-1, &["ALLE"]);
        self.add_two("L", if is_spanish { "" } else { "L" }, 2);
    }

    fn s(&mut self) {
        if self.is(-1, &["ISL", "YSL"]) {
            self.at += 1;
        } else if self.is_first() && self.is(0, &["SUGAR"]) {
            self.add_two("X", "S", 1);
        } else if self.is(0, &["SH"]) {
            let sound = if self.is(1, &["HEIM", "HOEK", "HOLM", "HOLZ"]) { "S" } else { "X" };
            self.add(sound, 2);
        } else if self.is(0, &["SIO", "SIA"]) {
            let other = if self.is_eastern { "S" } else { "X" };
            self.add_two("S", other, 3);
        } else if self.is_first() && self.is(1, &["M", "N", "L", "W"]) || self.is(1, &["Z"]) {
            self.add_two("S", "X", self.step_over(&["Z"]));
        } else if self.is(0, &["SC"]) {
            self.sc();
        } else {
            let is_french = self.is_last() && self.is(-2, &["AI", "OI"]);
            self.add_two(if is_french { "" } else { "S" }, "S", self.step_over(&["S", "Z"]));
        }
    }

    fn sc(&mut self) {
        if self.letter(2) == b'H' {
            if self.is(3, &["ER", "EN"]) {
                self.add_two("X", "SK", 3);
            } else if self.is(3, &["OO", "UY", "ED", "EM"]) {
                self.add("SK", 3);
            } else {
                let is_german = self.is_first() && !self.is_vowel(3) && self.letter(3) != b'W';
                self.add_two("X", if is_german { "S" } else { "X" }, 3);
            }
        } else if self.is(2, &["I", "E", "Y"]) {
            self.add("S", 3);
        } else {
            self.add("SK", 3);
        }
    }

    fn t(&mut self) {
        if self.is(0, &["TION"]) || self.is(0, &["TIA", "TCH"]) {
            self.add("X", 3);
        } else if self.is(0, &["TH"]) || self.is(0, &["TTH"]) {
            let is_hard = self.is(2, &["OM", "AM"]) || self.is_germanic();
            self.add_two(if is_hard { "T" } else { "0" }, "T", 2);
        } else {
            self.add("T", self.step_over(&["T", "D"]));
        }
    }

    fn w(&mut self) {
        if self.is(0, &["WR"]) {
            self.add("R", 2);
            return;
        }
        if self.is_first() && (self.is_vowel(1) || self.is(0, &["WH"])) {
            let other = if self.is_vowel(1) { "F" } else { "A" };
            self.add_two("A", other, 0);
        }
        if self.is_last() && self.is_vowel(-1)
            || self.is(-1, &["EWSKI", "EWSKY", "OWSKI", "OWSKY"])
            || self.starts(&["SCH"])
        {
            self.add_two("", "F", 1);
        } else if self.is(0, &["WICZ", "WITZ"]) {
            self.add_two("TS", "FX", 4);
        } else {
            self.at += 1;
        }
    }
}

fn code(a: &[&Datum], which: usize) -> Result<Datum> {
    let codes = Speller::new(text(a[0])?)?.spelled()?;
    Ok(Datum::text(&codes[which]))
}

pub(super) const TABLE: &[Function] = &[
    f("dmetaphone", &[Text], Text, |a, _| code(a, 0)).of_extension("fuzzystrmatch"),
    f("dmetaphone_alt", &[Text], Text, |a, _| code(a, 1)).of_extension("fuzzystrmatch"),
];
