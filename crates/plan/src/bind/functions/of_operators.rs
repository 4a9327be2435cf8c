//! Functions that PostgreSQL's operators are made of, called by their names: `int4pl(1, 2)` is `1 +
//! 2`.
//!
//! `of_operators.txt` has them, a line each: `function operator left right`, with PostgreSQL's
//! numbers of the operands' types, 0 for the left one of a prefix operator. A call takes part in
//! the choice of an operator as its operands would, once it is known which types its function is
//! declared for.

use std::collections::HashMap;
use std::sync::LazyLock;

use colibri_types::cast::CastContext;
use colibri_types::{Datum, Result, Type, resolve};
use sqlparser::tokenizer::Span;

use crate::bind::Binder;
use crate::bind::expr::Bound;
use crate::expr::Expr;

/// An operator that a function is behind.
struct Behind {
    symbol: &'static str,
    operands: Vec<Type>,
}

static BEHIND: LazyLock<HashMap<&'static str, Vec<Behind>>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Vec<Behind>> = HashMap::new();
    for line in include_str!("of_operators.txt").lines() {
        let words: Vec<&'static str> = line.split(' ').collect();
        let [function, symbol, operands @ ..] = &words[..] else { continue };
        let types = operands.iter().filter(|word| **word != "0").map(|word| Type::from_oid(word.parse().ok()?));
        if let Some(operands) = types.collect::<Option<Vec<Type>>>() {
            all.entry(*function).or_default().push(Behind { symbol, operands });
        }
    }
    all
});

impl Binder<'_> {
    /// A call of a function that is behind an operator; `None` if a name is of no such function, or
    /// its arguments are others.
    pub(in crate::bind) fn function_of_operator(
        &mut self,
        name: &str,
        args: &[Bound],
        span: Span,
    ) -> Result<Option<Bound>> {
        let Some(behind) = BEHIND.get(name) else { return Ok(None) };
        let given: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        let lists: Vec<Vec<Type>> = behind.iter().map(|one| one.operands.clone()).collect();
        let Ok(Some(at)) = resolve::choose_types(&lists, &given) else { return Ok(None) };
        let meant = &behind[at];
        let mut operands = Vec::with_capacity(args.len());
        for (arg, &ty) in args.iter().zip(&meant.operands) {
            let is_open = ty.is_polymorphic() || ty.category() == colibri_types::Category::Pseudo;
            operands.push(if is_open {
                arg.clone()
            } else {
                Bound::new(self.coerce(arg.clone(), ty.into(), CastContext::Implicit, span)?, ty)
            });
        }
        self.apply_operator(meant.symbol, operands, span).map(Some)
    }

    /// The type that a function behind an operator gives, if it takes exactly these types.
    ///
    /// # Errors
    /// What binding a call of it fails with.
    pub fn result_behind_operator(&mut self, name: &str, types: &[Type]) -> Result<Option<Type>> {
        if !BEHIND.get(name).is_some_and(|behind| behind.iter().any(|one| one.operands == types)) {
            return Ok(None);
        }
        let args: Vec<Bound> = types.iter().map(|&ty| Bound::new(Expr::Const(Datum::Null), ty)).collect();
        Ok(self.function_of_operator(name, &args, Span::empty())?.map(|bound| bound.ty.ty))
    }
}
