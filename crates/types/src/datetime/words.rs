//! The words of dates and times: months, days, special moments, and the abbreviations of time
//! zones.
//!
//! The abbreviations are those that PostgreSQL knows by default. Most stand for an offset. Some
//! have meant different offsets over the years, and stand for a zone, whose history says which
//! offset is meant on a date.

use super::{MONTHS, WEEKDAYS};

/// A word's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// 1 to 12.
    Month(i64),
    Weekday,
    Meridiem {
        pm: bool,
    },
    Era {
        bc: bool,
    },
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Epoch,
    Infinity,
    MinusInfinity,
    /// Midnight in UTC.
    Midnight,
    /// `t` before a time.
    IsoTime,
    /// A word that says what the number behind it is.
    Unit(Label),
    /// `dst` behind a zone.
    SummerTime,
    Noise,
}

/// What a number is, as the word before it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    IsoTime,
    /// `dow` and others, which no number can be.
    Other,
}

/// The number of letters by which words are told apart.
const LETTERS_MAX: usize = 10;

/// The meaning of a word in lower case.
pub(super) fn word(word: &str) -> Option<Word> {
    let word = word.get(..LETTERS_MAX).unwrap_or(word);
    let named = |names: &[&str]| {
        names.iter().position(|name| {
            name.eq_ignore_ascii_case(word) || (word.len() == 3 && name[..3].eq_ignore_ascii_case(word))
        })
    };
    if word.len() >= 3 && word.is_ascii() {
        if let Some(month) = named(&MONTHS) {
            return Some(Word::Month(month as i64 + 1));
        }
        if named(&WEEKDAYS).is_some() {
            return Some(Word::Weekday);
        }
    }
    Some(match word {
        "sept" => Word::Month(9),
        "tues" | "weds" | "thur" | "thurs" => Word::Weekday,
        "am" => Word::Meridiem { pm: false },
        "pm" => Word::Meridiem { pm: true },
        "bc" => Word::Era { bc: true },
        "ad" => Word::Era { bc: false },
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "-infinity" => Word::MinusInfinity,
        "allballs" => Word::Midnight,
        "t" => Word::IsoTime,
        "y" => Word::Unit(Label::Year),
        "m" => Word::Unit(Label::Month),
        "d" => Word::Unit(Label::Day),
        "h" => Word::Unit(Label::Hour),
        "mm" => Word::Unit(Label::Minute),
        "s" => Word::Unit(Label::Second),
        "j" | "jd" | "julian" => Word::Unit(Label::Julian),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit(Label::Other),
        "dst" => Word::SummerTime,
        "at" | "on" => Word::Noise,
        _ => return None,
    })
}

/// What an abbreviation stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// Seconds east of Greenwich, and whether it is a summer time.
    Offset(i32, bool),
    /// The zone whose history tells.
    Zone(&'static str),
}

/// The meaning of an abbreviation, in any case.
pub(super) fn abbreviation(text: &str) -> Option<Abbreviation> {
    let lower = text.get(..LETTERS_MAX).unwrap_or(text).to_ascii_lowercase();
    let found = ABBREVIATIONS.binary_search_by(|(name, ..)| (*name).cmp(&lower));
    if let Ok(at) = found {
        let (_, minutes, is_summer) = ABBREVIATIONS[at];
        return Some(Abbreviation::Offset(minutes * 60, is_summer));
    }
    let at = ZONES.binary_search_by(|(name, _)| (*name).cmp(&lower)).ok()?;
    Some(Abbreviation::Zone(ZONES[at].1))
}

/// All abbreviations, in lower case, and what each stands for.
pub(super) fn all_abbreviations() -> impl Iterator<Item = (&'static str, Abbreviation)> {
    let fixed =
        ABBREVIATIONS.iter().map(|&(name, minutes, is_summer)| (name, Abbreviation::Offset(minutes * 60, is_summer)));
    fixed.chain(ZONES.iter().map(|&(name, zone)| (name, Abbreviation::Zone(zone))))
}

/// Abbreviations with their minutes east of Greenwich, and whether they are summer times; sorted.
const ABBREVIATIONS: [(&str, i32, bool); 145] = [
    ("acdt", 630, true),
    ("acsst", 630, true),
    ("acst", 570, false),
    ("act", -300, false),
    ("acwst", 525, false),
    ("adt", -180, true),
    ("aedt", 660, true),
    ("aesst", 660, true),
    ("aest", 600, false),
    ("aft", 270, false),
    ("akdt", -480, true),
    ("akst", -540, false),
    ("almst", 420, true),
    ("almt", 360, false),
    ("amt", -240, false),
    ("ast", -240, false),
    ("awsst", 540, true),
    ("awst", 480, false),
    ("azost", 0, true),
    ("azot", -60, false),
    ("bdst", 120, true),
    ("bdt", 360, false),
    ("bnt", 480, false),
    ("bort", 480, false),
    ("bot", -240, false),
    ("bra", -180, false),
    ("brst", -120, true),
    ("brt", -180, false),
    ("bst", 60, true),
    ("btt", 360, false),
    ("cadt", 630, true),
    ("cast", 570, false),
    ("cct", 480, false),
    ("cdt", -300, true),
    ("cest", 120, true),
    ("cet", 60, false),
    ("cetdst", 120, true),
    ("chadt", 825, true),
    ("chast", 765, false),
    ("chut", 600, false),
    ("clst", -180, true),
    ("cot", -300, false),
    ("cst", -360, false),
    ("cxt", 420, false),
    ("ddut", 600, false),
    ("eat", 180, false),
    ("edt", -240, true),
    ("eest", 180, true),
    ("eet", 120, false),
    ("eetdst", 180, true),
    ("egst", 0, true),
    ("egt", -60, false),
    ("est", -300, false),
    ("fet", 180, false),
    ("fjst", 780, true),
    ("fjt", 720, false),
    ("fnst", -60, true),
    ("fnt", -120, false),
    ("galt", -360, false),
    ("gamt", -540, false),
    ("gft", -180, false),
    ("gilt", 720, false),
    ("gmt", 0, false),
    ("hkt", 480, false),
    ("hst", -600, false),
    ("ict", 420, false),
    ("idt", 180, true),
    ("irt", 210, false),
    ("ist", 120, false),
    ("jayt", 540, false),
    ("jst", 540, false),
    ("kdt", 600, true),
    ("kgst", 360, true),
    ("kst", 540, false),
    ("lhst", 630, false),
    ("ligt", 600, false),
    ("mart", -570, false),
    ("mdt", -360, true),
    ("mest", 120, true),
    ("mesz", 120, true),
    ("met", 60, false),
    ("metdst", 120, true),
    ("mez", 60, false),
    ("mht", 720, false),
    ("mmt", 390, false),
    ("mpt", 600, false),
    ("msd", 240, true),
    ("mst", -420, false),
    ("must", 300, true),
    ("mut", 240, false),
    ("mvt", 300, false),
    ("myt", 480, false),
    ("ndt", -150, true),
    ("nft", -210, false),
    ("npt", 345, false),
    ("nst", -210, false),
    ("nzdt", 780, true),
    ("nzst", 720, false),
    ("nzt", 720, false),
    ("pdt", -420, true),
    ("pet", -300, false),
    ("pgt", 600, false),
    ("pht", 480, false),
    ("pkst", 360, true),
    ("pkt", 300, false),
    ("pmdt", -120, true),
    ("pmst", -180, false),
    ("pont", 660, false),
    ("pst", -480, false),
    ("pwt", 540, false),
    ("pyst", -180, true),
    ("ret", 240, false),
    ("sadt", 630, true),
    ("sast", 120, false),
    ("sct", 240, false),
    ("taht", -600, false),
    ("tft", 300, false),
    ("tjt", 300, false),
    ("tot", 780, false),
    ("trut", 600, false),
    ("tvt", 720, false),
    ("uct", 0, false),
    ("ulast", 540, true),
    ("ut", 0, false),
    ("utc", 0, false),
    ("uyst", -120, true),
    ("uyt", -180, false),
    ("uzst", 360, true),
    ("uzt", 300, false),
    ("vut", 660, false),
    ("wadt", 480, true),
    ("wakt", 720, false),
    ("wast", 420, false),
    ("wat", 60, false),
    ("wdt", 540, true),
    ("wet", 0, false),
    ("wetdst", 60, true),
    ("wft", 720, false),
    ("wgst", -120, true),
    ("wgt", -180, false),
    ("xjt", 360, false),
    ("yapt", 600, false),
    ("yekst", 360, true),
    ("z", 0, false),
    ("zulu", 0, false),
];

/// Abbreviations that have had several meanings, with their zones; sorted.
const ZONES: [(&str, &str); 50] = [
    ("amst", "Asia/Yerevan"),
    ("anast", "Asia/Anadyr"),
    ("anat", "Asia/Anadyr"),
    ("arst", "America/Argentina/Buenos_Aires"),
    ("art", "America/Argentina/Buenos_Aires"),
    ("azst", "Asia/Baku"),
    ("azt", "Asia/Baku"),
    ("ckt", "Pacific/Rarotonga"),
    ("clt", "America/Santiago"),
    ("davt", "Antarctica/Davis"),
    ("easst", "Pacific/Easter"),
    ("east", "Pacific/Easter"),
    ("fkst", "Atlantic/Stanley"),
    ("fkt", "Atlantic/Stanley"),
    ("gest", "Asia/Tbilisi"),
    ("get", "Asia/Tbilisi"),
    ("gyt", "America/Guyana"),
    ("iot", "Indian/Chagos"),
    ("irkst", "Asia/Irkutsk"),
    ("irkt", "Asia/Irkutsk"),
    ("kgt", "Asia/Bishkek"),
    ("kost", "Pacific/Kosrae"),
    ("krast", "Asia/Krasnoyarsk"),
    ("krat", "Asia/Krasnoyarsk"),
    ("lhdt", "Australia/Lord_Howe"),
    ("lint", "Pacific/Kiritimati"),
    ("lkt", "Asia/Colombo"),
    ("magst", "Asia/Magadan"),
    ("magt", "Asia/Magadan"),
    ("mawt", "Antarctica/Mawson"),
    ("msk", "Europe/Moscow"),
    ("novst", "Asia/Novosibirsk"),
    ("novt", "Asia/Novosibirsk"),
    ("nut", "Pacific/Niue"),
    ("omsst", "Asia/Omsk"),
    ("omst", "Asia/Omsk"),
    ("petst", "Asia/Kamchatka"),
    ("pett", "Asia/Kamchatka"),
    ("pyt", "America/Asuncion"),
    ("sgt", "Asia/Singapore"),
    ("tkt", "Pacific/Fakaofo"),
    ("tmt", "Asia/Ashgabat"),
    ("ulat", "Asia/Ulaanbaatar"),
    ("vet", "America/Caracas"),
    ("vlast", "Asia/Vladivostok"),
    ("vlat", "Asia/Vladivostok"),
    ("volt", "Europe/Volgograd"),
    ("yakst", "Asia/Yakutsk"),
    ("yakt", "Asia/Yakutsk"),
    ("yekt", "Asia/Yekaterinburg"),
];

#[cfg(test)]
mod tests {
    use super::{ABBREVIATIONS, ZONES};

    #[test]
    fn the_tables_of_abbreviations_are_sorted() {
        assert!(ABBREVIATIONS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(ZONES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
