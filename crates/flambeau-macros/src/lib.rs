//! Procedural macros of Flambeau.
#![forbid(unsafe_code)]

mod class;
mod collate;
mod module;
mod paths;

use proc_macro::TokenStream;

/// Implements `Module` and `Display` for a struct whose fields are parameters, buffers, child modules (also behind
/// `Option`, `Vec` and maps) and plain data.
///
/// Attributes of a field: `#[module(skip)]` leaves it out, `#[module(rename = "name")]` gives it another name in
/// dotted paths. Attributes of the struct: `#[module(extra_repr)]` and `#[module(version = 2)]` for modules that
/// define `fn extra_repr(&self) -> String` or changed their saved form, `#[module(name = "Name")]` for printing under
/// another name, `#[module(may_lack = "entry")]` for an entry that checkpoints of older versions lack.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    module::derive(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Implements `Collate` for a struct with named fields: a struct with `Batch` after its name, whose fields are the batches
/// of the fields.
#[proc_macro_derive(Collate)]
pub fn derive_collate(input: TokenStream) -> TokenStream {
    collate::derive(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Declares a documented class on its options struct: `#[class("torch.nn.Linear", build = Linear, repr(...))]`.
///
/// Fields without `#[default(value)]` that are no `Option` are required; `#[positional]` fields with a default are
/// arguments of the target's `new` too. The macro makes `new` of the required arguments, a setter per keyword, `build`
/// and `try_build` where there is a target (without one, `make = path` names the constructor of the list of
/// classes), with `values` reading and writing of arguments by name, conversion from values by position and keyword, PyTorch's text of the
/// arguments (`repr(a, b=, c=?)`: the value of a; `b=value`; the same unless c has its default; `d=!` in quotes), the doc alias, and
/// the entry in the list of classes, if the crate's feature `by-name` is on.
#[proc_macro_attribute]
pub fn class(attr: TokenStream, item: TokenStream) -> TokenStream {
    class::expand(attr.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}
