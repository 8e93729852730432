//! What generated wrappers and backward structs are made of.
//!
//! The shape of generated code (see also `saved.rs`, `inplace.rs`, `forward_ad.rs`, all re-exported here):
//!
//! ```text
//! pub struct MulBackward { self_: Saved, other: Saved }
//! impl Backward for MulBackward {
//!     const NAME: &'static str = "MulBackward0";
//!     fn apply(&self, cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {
//!         // one Some per differentiable output that has a gradient; at least one is Some
//!         let Some(grad) = &grads[0] else { return Ok(rt::no_grads(cx)) };
//!         let g0 = if cx.need(0) {
//!             let other = &self.other.unpack_last(cx, "other")?;   // `unpack` where a later formula needs it too
//!             Some(mul(grad, &conj(other)?)?)
//!         } else {
//!             None
//!         };
//!         let g1 = ..;
//!         Ok(Grads::from_buf([g0, g1]))                      // one per edge, in order
//!     }
//!     fn release(&self) { self.self_.release(); self.other.release(); }
//! }
//! fn mul_autograd(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
//!     let rec = rt::recording(&[self_, other]);
//!     let mut out = {
//!         let _below = rt::Below::new();
//!         ops::mul(self_, other)
//!     }?;
//!     if rec {
//!         let edges = Edges::of([Some(self_), Some(other)]);
//!         let body = MulBackward {
//!             self_: Saved::input_if(edges.wants(1), self_),   // only what a wanted formula uses
//!             other: Saved::input_if(edges.wants(0), other),
//!         };
//!         rt::check_saved()?;                                  // where something was saved
//!         rt::record(&mut out, edges, body);
//!     }
//!     if rt::dual_active() && rt::any_tangent(&[self_, other]) {
//!         let t = rt::jvp_one(&mut || { ... Result<Option<Tensor>> ... });    // forward mode is off inside
//!         rt::set_tangent(&out, t)?;
//!     }
//!     Ok(out)
//! }
//! ```
//! - Saved outputs: `Saved::output(&out, nr)` (nr among the differentiable outputs), made before `record`.
//! - Fallible saving (pack hooks may fail): `Saved::input(..)` and all the others return the value itself; a failing
//!   hook's error is kept and comes out of `unpack`.
//! - Optional tensors: `SavedOpt::input(weight)` (`Option<&Tensor>`), `Edges::of([Some(input), weight])`; more than three:
//!   `Edges::new().tensor(input).opt(weight)`; lists:
//!   `SavedList::input(tensors)`, `Edges::list(tensors)`; `cx.need_any(a..b)`; `cx.needs()` gives all as a slice-like vector.
//! - Several differentiable outputs: `rt::record_multi(&[&a, &b], edges, body)`; a `Vec<Tensor>` result:
//!   `rt::record_list(&outs, edges, body)`.
//! - Views: `rt::record_view(self_, &mut out, edges, body)`; `Vec<Tensor>` of views: `rt::record_views(self_, &outs, edges, body)`;
//!   and when not recording `rt::view_unrecorded(self_, &out)` / `rt::views_unrecorded(self_, &outs)`.
//! - In-place (`NAME_` rows; the result is `()`):
//! ```text
//!     let rec = rt::recording(&[self_, other]);
//!     if rec { rt::check_inplace(self_)?; }
//!     if rec {
//!         let edges = Edges::of([Some(self_), Some(other)]);
//!         let s_other = ...;                                  // saved inputs; self by Saved::copy_of(self_)?
//!         { let _below = rt::Below::new(); ops::mul_(self_, other) }?;
//!         rt::rebase(self_, edges, MulBackward { .. });       // Saved::output(self_, 0) here
//!     } else {
//!         { let _below = rt::Below::new(); ops::mul_(self_, other) }?;
//!     }
//!     if rt::dual_active() && rt::any_tangent(&[self_, other]) { rt::set_tangent_inplace(self_, rt::jvp_one(..))?; }
//! ```
//!   A formula of forward mode that needs `self_` as it was before the call clones it first, under `dual_active()`.
//!   Rows with grad = "none": `rt::check_inplace(self_)` when recording, call, and `rt::rebase_none(self_)`.
//! - `out=`: `rt::check_out("add", &[self_, other], &[out])?` first, then the call below.
//! - Arguments that have no formula: `rt::not_differentiable("name", "arg", t)?` (float tensors that require a gradient).
//! - Forward mode: `rt::tangent(t) -> Option<Tensor>`, `rt::tangent_or_zeros(t) -> Result<Tensor>`,
//!   `auto_linear`: the operator on the tangents. `auto_elementwise`: the sum of `conj(formula with grad = conj(tangent))` over
//!   the inputs with a tangent, by `rt::elementwise(inputs, |i, grad| formula)`. Rows without a rule: `rt::transposed(inputs, call)`
//!   makes the tangents from the backward formulas.

pub use crate::gradients::forward_ad::{
    Inputs, any_tangent, dual_active, elementwise, jvp, jvp_one, set_tangent, set_tangent_inplace, tangent,
    tangent_or_zeros, transposed, transposed_one,
};
pub use crate::gradients::grad_mode::is_recording;
pub use crate::gradients::inplace::{
    check_inplace, check_out, check_resized, rebase, rebase_none, record_view, record_views, view_unrecorded,
    views_unrecorded,
};
pub use crate::gradients::node::*;
pub use crate::gradients::saved::{Saved, SavedList, SavedOpt, check_saved};
pub use crate::gradients::state::{grad_edge, requires_grad};
