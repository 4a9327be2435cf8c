//! Stems of words in all languages, against those that PostgreSQL 15 gives.

use colibri_types::text_search::{Dictionary, Language, Lexized};

/// What the stemmers of another version of Snowball make different.
const DIFFERENT: &[(&str, &str, &str)] = &[
    // A step that PostgreSQL's version gives up.
    ("greek", "ίσα", "ισ"),
    ("greek", "ισα", "ισ"),
    // A word that is nothing but an end.
    ("french", "eïes", "eïe"),
    // Marks without a letter at the beginning.
    ("yiddish", "\u{05bf}\u{05b7}\u{05d2}\u{05e2}", "\u{05d2}\u{05e2}"),
];

fn stem(language: Language, word: &str) -> String {
    match Dictionary::of(language).lexize(word).expect("nobody cancels it") {
        Lexized::Known(Some(stem)) => stem,
        // A stop word.
        Lexized::Known(None) => String::new(),
        other => panic!("{} does not know {word}: {other:?}", language.name()),
    }
}

/// Words of the vocabularies that Snowball's authors test with, and of random letters and endings; with
/// each the stem that `ts_lexize` of PostgreSQL 15 gives.
///
/// French words with ï and ë, and Danish ones with digits, had the stems of an older version, so
/// documents written by one of both servers were not found by the other; Greek words such as ισαισα made
/// the stemmer panic, which ended the session. Other stemmers are taken for them.
#[test]
fn stems_are_those_of_postgresql() {
    let mut differences = Vec::new();
    let mut languages: Vec<&str> = Vec::new();
    for line in include_str!("stems/postgresql_15.tsv").lines() {
        let [name, word, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("a line {line}") };
        let language = *Language::ALL.iter().find(|language| language.name() == name).expect("a language");
        languages.push(name);
        let known = DIFFERENT.iter().find(|different| (different.0, different.1) == (name, word));
        let found = stem(language, word);
        if found != known.map_or(expected, |different| different.2) {
            differences.push(format!("{name} {word}: {found}, not {expected}"));
        }
    }
    languages.dedup();
    assert_eq!(languages.len(), Language::ALL.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A stemmer that panics ends the session of whoever writes such a word.
#[test]
fn no_word_makes_a_stemmer_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let lines: Vec<Vec<&str>> =
        include_str!("stems/postgresql_15.tsv").lines().map(|line| line.split('\t').collect()).collect();
    for &language in Language::ALL {
        let words: Vec<&str> = lines.iter().filter(|line| line[0] == language.name()).map(|line| line[1]).collect();
        let letters: Vec<char> = words.iter().flat_map(|word| word.chars()).collect();
        for _ in 0..20_000 {
            // Letters of the language, ends of its words, letters of any other.
            let mut word = String::new();
            for _ in 0..random.usize(1..5) {
                match random.u8(..8) {
                    0..=2 => word.extend(random.choice(&letters)),
                    3..=6 => {
                        let of = random.choice(&words).expect("it has words");
                        let skipped = random.usize(..of.chars().count());
                        word.extend(of.chars().skip(skipped));
                    }
                    _ => {
                        word.push(*random.choice(&['ë', 'ï', '9', 'ß', 'ά', 'я', '\u{0301}', '𐍈', '\'']).expect("some"))
                    }
                }
            }
            stem(language, &word);
        }
    }
}
