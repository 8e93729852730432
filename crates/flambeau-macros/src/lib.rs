//! Procedural macros of Flambeau.
#![forbid(unsafe_code)]

mod class;
mod collate;
mod dims;
mod forward;
mod module;
mod paths;
mod short;
mod tensors;

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

/// Makes a struct or an enum something that modules can take and give: hooks see the tensors in its fields. A struct with
/// one lifetime can be taken only.
#[proc_macro_derive(Tensors)]
pub fn derive_tensors(input: TokenStream) -> TokenStream {
    tensors::derive(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Stands on an `impl` block with `fn forward(&self, ...)` and writes what calls need: `call` and `try_call` with the same
/// arguments, which run the module's hooks, and `Forward` of the arguments as one tuple (and of a single one as it is), for
/// containers and generic code.
///
/// The arguments and the result can be of any types whose tensors hooks can see: `Inputs` and `Tensors`. A body that may
/// fail returns `Result`, and stands under the name `forward` or `try_forward`: `try_forward` and `try_call` then give the
/// error, `forward` and `call` panic with its text.
///
/// ```ignore
/// #[nn::forward]
/// impl Net {
///     fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor { .. }
/// }
/// let y = net.call(&x, None);
/// ```
#[proc_macro_attribute]
pub fn forward(attr: TokenStream, item: TokenStream) -> TokenStream {
    forward::expand(attr.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// The short form of a function of this workspace that has no operator behind it: of `fn try_name(..) -> Result<T>` it makes
/// `fn name(..) -> T`, which panics with the error's text at the caller's line. The documentation stands on the fallible one,
/// with `# Errors` at its end. `#[short(with)]`, where the last argument is options, makes `name` without them and `name_with`.
#[proc_macro_attribute]
pub fn short(attr: TokenStream, item: TokenStream) -> TokenStream {
    short::expand(&attr.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Implements `Collate` for a struct with named fields: a struct with `Batch` after its name, whose fields are the
/// batches of the fields.
#[proc_macro_derive(Collate)]
pub fn derive_collate(input: TokenStream) -> TokenStream {
    collate::derive(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Declares a documented class on its options struct: `#[class("torch.nn.Linear", build = Linear, repr(...))]`.
///
/// Fields without `#[default(value)]` that are no `Option` are required; `#[positional]` fields with a default are
/// arguments of the target's `new` too. The macro makes `new` of the required arguments, a setter per keyword,
/// `build` and `try_build` where there is a target (without one, `make = path` names the constructor of the list of
/// classes), with `values` reading and writing of arguments by name, conversion from values by position and keyword,
/// PyTorch's text of the arguments (`repr(a, b=, c=?)`: the value of a; `b=value`; the same unless c has its default;
/// `d=!` in quotes), the doc alias, and the entry in the list of classes, if the crate's
/// feature `by-name` is on.
///
/// `include(Group, Other<2>, Third(lr = 2e-3))` adds the fields of groups that [`macro@fields`] declares, some with
/// defaults of their own; `order(a, Group, b)` gives all fields the order of PyTorch's signature (a group's name
/// stands for its fields, and those that the order leaves out are left out), which otherwise has the groups last. A
/// struct without a doc comment is documented as the class's options.
#[proc_macro_attribute]
pub fn class(attr: TokenStream, item: TokenStream) -> TokenStream {
    class::expand(attr.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// The keywords of a function, `NAMEOptions` of `NAME_with`: makes `new` with the defaults (`#[default(value)]`, or `None` of an
/// `Option`) and a setter per field. Fields are `pub(crate)`, so that a further keyword breaks no program.
#[proc_macro_attribute]
pub fn options(_: TokenStream, item: TokenStream) -> TokenStream {
    class::options(item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Declares a group of fields that options structs include: `#[class(..., include(Group))]`. The struct itself stands
/// for the group's values: `Group::from(&options)` of options that have all its fields. Types are written with full
/// paths, since the fields are pasted where the group is included, which needs nothing but the group's name in scope.
#[proc_macro_attribute]
pub fn fields(_attr: TokenStream, item: TokenStream) -> TokenStream {
    class::declare(item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// What the macro of a group calls.
#[doc(hidden)]
#[proc_macro]
pub fn __including(input: TokenStream) -> TokenStream {
    class::including(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Items that are written once and stand there for several numbers of dimensions: `dims! { 1, 2, 3 => items }`. `N` is the
/// number, and `Nd` in names and texts is `1d`, `2d`, `3d`: `MaxPoolNd`, `"torch.nn.MaxPoolNd"`. What differs otherwise is a word
/// with a value for each number: `dims! { 1 [SIZES = "(C, L)"], 2 [SIZES = "(C, H, W)"] => items }`.
#[proc_macro]
pub fn dims(input: TokenStream) -> TokenStream {
    dims::expand(input.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}
