//! The functions and operators of `pg_trgm`: how alike texts are, by their trigrams.

use std::sync::Arc;

use super::{Function, f, text};
use crate::array::Array;
use crate::env::Env;
use crate::error::Result;
use crate::tokens::trigram::{self, similarity, word_similarity};
use crate::types::Type::{Bool, Float4, Text};
use crate::value::Datum;

/// How alike two operands are.
type Likeness = fn(&[&Datum]) -> Result<f32>;

fn whole(a: &[&Datum]) -> Result<f32> {
    similarity(text(a[0])?, text(a[1])?)
}

fn left_in_right(a: &[&Datum]) -> Result<f32> {
    word_similarity(text(a[0])?, text(a[1])?, false)
}

fn right_in_left(a: &[&Datum]) -> Result<f32> {
    word_similarity(text(a[1])?, text(a[0])?, false)
}

fn left_in_words_of_right(a: &[&Datum]) -> Result<f32> {
    word_similarity(text(a[0])?, text(a[1])?, true)
}

fn right_in_words_of_left(a: &[&Datum]) -> Result<f32> {
    word_similarity(text(a[1])?, text(a[0])?, true)
}

fn real(value: f32) -> Result<Datum> {
    Ok(Datum::Float(value.into()))
}

/// Between 0, for what has the same trigrams, and 1.
fn distance(a: &[&Datum], alike: Likeness) -> Result<Datum> {
    real(1.0 - alike(a)?)
}

fn reaches(a: &[&Datum], alike: Likeness, threshold: f64) -> Result<Datum> {
    Ok(Datum::Bool(f64::from(alike(a)?) >= threshold))
}

fn of_whole(a: &[&Datum], env: &Env) -> Result<Datum> {
    reaches(a, whole, env.trigram_thresholds.similarity)
}

fn of_words(a: &[&Datum], env: &Env) -> Result<Datum> {
    reaches(a, left_in_right, env.trigram_thresholds.word_similarity)
}

fn of_words_exchanged(a: &[&Datum], env: &Env) -> Result<Datum> {
    reaches(a, right_in_left, env.trigram_thresholds.word_similarity)
}

fn of_whole_words(a: &[&Datum], env: &Env) -> Result<Datum> {
    reaches(a, left_in_words_of_right, env.trigram_thresholds.strict_word_similarity)
}

fn of_whole_words_exchanged(a: &[&Datum], env: &Env) -> Result<Datum> {
    reaches(a, right_in_words_of_left, env.trigram_thresholds.strict_word_similarity)
}

fn shown(a: &[&Datum], _: &Env) -> Result<Datum> {
    let trigrams = trigram::of_text(text(a[0])?)?;
    let shown = trigrams.into_iter().map(|trigram| Datum::text(&trigram::shown(trigram))).collect();
    Ok(Datum::Array(Arc::new(Array::new(Text, shown))))
}

const TEXTS: &[crate::types::Type] = &[Text, Text];

pub(super) const TABLE: &[Function] = &[
    f("show_trgm", &[Text], Text.array_of(), shown),
    f("show_limit", &[], Float4, |_, env| real(env.trigram_thresholds.similarity as f32)).stable(),
    f("similarity", TEXTS, Float4, |a, _| real(whole(a)?)),
    f("word_similarity", TEXTS, Float4, |a, _| real(left_in_right(a)?)),
    f("strict_word_similarity", TEXTS, Float4, |a, _| real(left_in_words_of_right(a)?)),
    f("%", TEXTS, Bool, of_whole).stable(),
    f("<%", TEXTS, Bool, of_words).stable(),
    f("%>", TEXTS, Bool, of_words_exchanged).stable(),
    f("<<%", TEXTS, Bool, of_whole_words).stable(),
    f("%>>", TEXTS, Bool, of_whole_words_exchanged).stable(),
    f("<->", TEXTS, Float4, |a, _| distance(a, whole)),
    f("<<->", TEXTS, Float4, |a, _| distance(a, left_in_right)),
    f("<->>", TEXTS, Float4, |a, _| distance(a, right_in_left)),
    f("<<<->", TEXTS, Float4, |a, _| distance(a, left_in_words_of_right)),
    f("<->>>", TEXTS, Float4, |a, _| distance(a, right_in_words_of_left)),
    f("similarity_op", TEXTS, Bool, of_whole).stable(),
    f("similarity_dist", TEXTS, Float4, |a, _| distance(a, whole)),
    f("word_similarity_op", TEXTS, Bool, of_words).stable(),
    f("word_similarity_commutator_op", TEXTS, Bool, of_words_exchanged).stable(),
    f("word_similarity_dist_op", TEXTS, Float4, |a, _| distance(a, left_in_right)),
    f("word_similarity_dist_commutator_op", TEXTS, Float4, |a, _| distance(a, right_in_left)),
    f("strict_word_similarity_op", TEXTS, Bool, of_whole_words).stable(),
    f("strict_word_similarity_commutator_op", TEXTS, Bool, of_whole_words_exchanged).stable(),
    f("strict_word_similarity_dist_op", TEXTS, Float4, |a, _| distance(a, left_in_words_of_right)),
    f("strict_word_similarity_dist_commutator_op", TEXTS, Float4, |a, _| distance(a, right_in_words_of_left)),
];

/// Whether a function is an operator that `pg_trgm` brings.
#[must_use]
pub fn is_trigram_operator(function: &Function) -> bool {
    const BROUGHT: [&str; 10] = ["%", "<%", "%>", "<<%", "%>>", "<->", "<<->", "<->>", "<<<->", "<->>>"];
    function.args == [Text; 2] && BROUGHT.contains(&function.name)
}
