//! PyTorch's tags of operators: what rows say, and what follows from them.

use super::form::{Form, Mode};
use crate::schema::Base;
use crate::table::{CrateTable, Kind};
use std::collections::BTreeMap;

/// Tags, and their variants in Rust.
const WORDS: [(&str, &str); 11] = [
    ("cudagraph_unsafe", "CudagraphUnsafe"),
    ("data_dependent_output", "DataDependentOutput"),
    ("dynamic_output_shape", "DynamicOutputShape"),
    ("flexible_layout", "FlexibleLayout"),
    ("inplace_view", "InplaceView"),
    ("maybe_aliasing_or_mutating", "MaybeAliasingOrMutating"),
    ("needs_contiguous_strides", "NeedsContiguousStrides"),
    ("needs_exact_strides", "NeedsExactStrides"),
    ("needs_fixed_stride_order", "NeedsFixedStrideOrder"),
    ("nondeterministic_bitwise", "NondeterministicBitwise"),
    ("nondeterministic_seeded", "NondeterministicSeeded"),
];

/// The words of a row, if they are tags that do not follow from it.
pub fn checked(words: Vec<String>) -> Result<Vec<String>, String> {
    for w in &words {
        if !WORDS.iter().any(|k| k.0 == w) {
            return Err(format!("tags: `{w}` is no tag"));
        }
    }
    Ok(words)
}

/// The generated module of flambeau-library: a line for each form with a tag but `pt2_compliant_tag`, which all have.
pub fn emit(tables: &[CrateTable]) -> BTreeMap<String, String> {
    let mut s = String::from(
        "//! Tags of operators.\n\nuse crate::tags::Tag::{self, *};\n\n/// By ATen's name.\n#[rustfmt::skip]\n\
         pub(crate) static TAGS: &[(&str, &[Tag])] = &[\n",
    );
    let mut lines = Vec::new();
    for row in tables.iter().flat_map(|c| &c.families).flat_map(|f| &f.rows) {
        for form in Form::all(row) {
            // in place and into given tensors a row aliases nothing, and its sizes are those of the data still
            let keeps = |t: &&String| match form.mode {
                Mode::Plain => true,
                Mode::Inplace => *t == "nondeterministic_seeded",
                Mode::Out => *t != "maybe_aliasing_or_mutating",
            };
            let mut tags: Vec<&str> = row.tags.iter().filter(keeps).map(String::as_str).collect();
            if form.mode == Mode::Inplace && row.kind == Kind::View {
                tags.push("inplace_view");
            }
            if row.schema.args.iter().any(|a| a.ty.base == Base::Generator)
                && !tags.contains(&"nondeterministic_seeded")
            {
                tags.push("nondeterministic_seeded");
            }
            let variant = |t: &&str| WORDS.iter().find(|w| w.0 == *t).map(|w| w.1);
            let mut variants: Vec<&str> = tags.iter().filter_map(variant).collect();
            variants.sort_unstable();
            if !variants.is_empty() {
                lines.push(format!("    ({:?}, &[{}]),\n", form.aten(), variants.join(", ")));
            }
        }
    }
    lines.sort();
    lines.iter().for_each(|l| s += l);
    s += "];\n";
    BTreeMap::from([("mod.rs".to_string(), s)])
}
