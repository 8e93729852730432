//! The words of `out_dtype`: to which dtypes an `out=` form writes.

use serde::Deserialize;

/// To which dtypes an `out=` form writes.
#[derive(Clone, PartialEq, Debug)]
pub enum OutRule {
    Cast,
    CastOr(String, bool),
    Any,
    /// It computes in the output's dtype, unless a `dtype` is asked for, which the output then has.
    Follows,
    Exact(String),
    ExactOrByte(String),
    Complex(String),
    Floating(String),
    Computed(String),
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum RawOutRule {
    Word(String),
    OrByte {
        text: String,
        or: String,
    },
    Casts {
        cast: String,
        #[serde(default)]
        type_error: bool,
    },
    Complex {
        complex: String,
    },
    Floating {
        floating: String,
    },
    Computed {
        computed: String,
    },
}
#[derive(Clone, Default, Deserialize)]
#[serde(untagged)]
/// One for all outputs, or one for each.
pub enum OutRules {
    #[default]
    None,
    One(RawOutRule),
    Several(Vec<RawOutRule>),
}

/// PyTorch's usual text for an output of another dtype; `OutDtype::EXACT` in core.
pub const EXACT: &str = "Expected out tensor to have dtype {want_c}, but got {got_c} instead";

/// The rule that a word or table stands for.
pub fn out_rule(raw: &RawOutRule) -> Result<OutRule, String> {
    Ok(match raw {
        RawOutRule::Word(w) if w == "any" => OutRule::Any,
        RawOutRule::Word(w) if w == "follows" => OutRule::Follows,
        RawOutRule::Word(w) if w == "exact" => OutRule::Exact(EXACT.into()),
        RawOutRule::Word(w) if w == "found" => OutRule::Exact("Found dtype {got} but expected {want}".into()),
        RawOutRule::Word(w) if !w.contains(' ') => return Err(format!("out_dtype: unknown rule `{w}`")),
        RawOutRule::Word(w) => OutRule::Exact(w.clone()),
        RawOutRule::OrByte { text, or } if or == "uint8" => OutRule::ExactOrByte(text.clone()),
        RawOutRule::OrByte { or, .. } => {
            return Err(format!("out_dtype: `or` is \"uint8\" alone, not `{or}`"));
        }
        RawOutRule::Casts { cast, type_error } => OutRule::CastOr(cast.clone(), *type_error),
        RawOutRule::Complex { complex } => OutRule::Complex(complex.clone()),
        RawOutRule::Floating { floating } => OutRule::Floating(floating.clone()),
        RawOutRule::Computed { computed } => OutRule::Computed(computed.clone()),
    })
}
