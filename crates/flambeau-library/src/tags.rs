//! What operators are marked with (`torch.Tag`).

use crate::generated::TAGS;
use flambeau_core::Result;
use flambeau_core::dispatch::object::{Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::registry;
use flambeau_core::dispatch::value::Value;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $python:literal;)*) => {
        /// A mark of an operator, for what takes programs apart and puts them together again.
        #[doc(alias = "torch.Tag")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Tag {
            $($(#[$doc])* #[doc(alias = $python)] $name = $number,)*
        }
        impl Tag {
            /// All of them.
            pub const ALL: &[Tag] = &[$(Tag::$name,)*];
            /// Its documented name: `torch.Tag.inplace_view`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Tag::$name => $python,)*
                }
            }
        }
        /// Part of the registry's start: the marks under their names.
        pub(crate) fn register() {
            $(crate::register_constant($python, || Value::Object(ObjectRef::new(Tag::$name)));)*
        }
    };
}
tags! {
    /// It cannot be part of recorded work of a CUDA device.
    CudagraphUnsafe = 1, "torch.Tag.cudagraph_unsafe";
    /// Its result, not a tensor, depends on elements: `equal`.
    DataDependentOutput = 2, "torch.Tag.data_dependent_output";
    /// The sizes of its results depend on elements: `nonzero`.
    DynamicOutputShape = 3, "torch.Tag.dynamic_output_shape";
    /// It takes any strides, and gives results of any.
    FlexibleLayout = 4, "torch.Tag.flexible_layout";
    /// It changes sizes or strides of its argument, not elements: `transpose_`.
    InplaceView = 7, "torch.Tag.inplace_view";
    /// Its result may share memory with an argument, or it may write to one, though its schema does not say so: `dropout`.
    MaybeAliasingOrMutating = 8, "torch.Tag.maybe_aliasing_or_mutating";
    /// It needs contiguous arguments.
    NeedsContiguousStrides = 9, "torch.Tag.needs_contiguous_strides";
    /// It needs arguments of the strides that they have.
    NeedsExactStrides = 10, "torch.Tag.needs_exact_strides";
    /// It needs arguments whose dimensions lie in the order that they have.
    NeedsFixedStrideOrder = 11, "torch.Tag.needs_fixed_stride_order";
    /// Two calls may give results that differ in their last bits.
    NondeterministicBitwise = 12, "torch.Tag.nondeterministic_bitwise";
    /// It draws random numbers, the same from the same seed.
    NondeterministicSeeded = 13, "torch.Tag.nondeterministic_seeded";
    /// It keeps the rules for compiled programs: all operators of the library do.
    Pt2CompliantTag = 17, "torch.Tag.pt2_compliant_tag";
}
impl Object for Tag {
    fn type_name(&self) -> &'static str {
        "Tag"
    }
    fn repr(&self) -> String {
        format!("<{self}: {}>", *self as usize)
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "name" => Ok(Value::Str(self.to_string().trim_start_matches("Tag.").to_string())),
            "value" => Ok(Value::Int(*self as i64)),
            _ => Err(no_attribute("Tag", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().strip_prefix("torch.").unwrap_or(self.name()))
    }
}

/// The marks of the library's operator of this name, as ATen writes it (`nonzero`, `add.Tensor`); none where there is no such operator.
///
/// ```
/// use torch::library::{Tag, tags};
/// assert_eq!(tags("nonzero").unwrap(), [Tag::DynamicOutputShape, Tag::Pt2CompliantTag]);
/// assert_eq!(tags("add.Tensor").unwrap(), [Tag::Pt2CompliantTag]);
/// assert!(tags("no_such_operator").is_none());
/// ```
pub fn tags(operator: &str) -> Option<Vec<Tag>> {
    static ALL: OnceLock<HashMap<&str, &[Tag]>> = OnceLock::new();
    let name = operator.strip_prefix("aten::").unwrap_or(operator);
    let known = registry::crates().iter().flat_map(|c| c.ops).any(|o| o.info().name == name);
    if !known {
        return None;
    }
    let all = ALL.get_or_init(|| TAGS.iter().copied().collect());
    let mut found = all.get(name).map_or_else(Vec::new, |t| t.to_vec());
    found.push(Tag::Pt2CompliantTag);
    Some(found)
}
