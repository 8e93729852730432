//! Convolutions of 1 to 3 spatial dimensions over contiguous `[N, C, spatial...]` memory: forward, and the gradients
//! for input, weight and bias. A transposed convolution is the input gradient of the matching convolution.

mod by_channel;
mod by_patches;
mod by_position;
mod depthwise;
pub mod erased;
mod im2col;
mod packing;
mod shape;
mod winograd;

pub use by_patches::{ConvScalar, backward_bias};
pub(crate) use by_patches::{single, single_mut};
pub(crate) use im2col::valid as valid_columns;
pub(crate) use packing::{L as LANES, Packing};
pub use shape::ConvShape;
pub(crate) use shape::three;

use crate::blas::PARALLEL_MACS;
use crate::engine::parallel::with_threads_for;
use crate::engine::span;

/// Runs `$body` with the stride as a constant where it is a usual one.
macro_rules! by_stride {
    ($stride:expr, $s:ident => $body:expr) => {
        match $stride {
            1 => {
                const $s: usize = 1;
                $body
            }
            2 => {
                const $s: usize = 2;
                $body
            }
            $s => $body,
        }
    };
}
pub(crate) use by_stride;

/// Calls `f`, on the calling thread alone where a convolution is less work than a hand-over.
fn shared_out(s: &ConvShape, f: impl FnOnce()) {
    let macs = span::product_of(&[s.y_len(), s.c / s.groups, s.taps()]).unwrap_or(usize::MAX);
    // planes of their own take as long as more products
    let slow = if s.depthwise() { 4 } else { 1 };
    // what is read and written counts where there are few products
    let work = macs.saturating_mul(slow).max(s.x_len().saturating_add(s.y_len()).saturating_mul(8));
    // tests see the seams of small ones too
    let grain = if cfg!(test) { 1 } else { PARALLEL_MACS };
    with_threads_for(work, grain, f);
}

/// `out = conv(x, w) + bias`: x `[N, C, in...]`, w `[O, C / groups, kernel...]`, bias `[O]`, out `[N, O, out...]`.
/// Halves are summed in f32 and rounded once; integers wrap.
///
/// # Panics
/// If a slice has not the length that `shape` says: a bug of the caller.
pub fn forward<T: ConvScalar>(shape: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
    assert_eq!(
        (x.len(), w.len(), out.len()),
        (shape.x_len(), shape.w_len(), shape.y_len()),
        "conv: slice lengths"
    );
    assert!(bias.is_none_or(|b| b.len() == shape.o), "conv: bias length");
    shared_out(shape, || T::conv_forward(shape, x, w, bias, out));
}

/// `grad_x`: the gradient for the input, from that of the output. Overwrites `grad_x`. No conjugation is applied.
///
/// # Panics
/// As [`forward`].
pub fn backward_input<T: ConvScalar>(shape: &ConvShape, grad_y: &[T], w: &[T], grad_x: &mut [T]) {
    assert_eq!(
        (grad_x.len(), w.len(), grad_y.len()),
        (shape.x_len(), shape.w_len(), shape.y_len()),
        "conv: slice lengths"
    );
    shared_out(shape, || T::conv_backward_input(shape, grad_y, w, None, grad_x));
}

/// `grad_w`: the gradient for the weight. Overwrites `grad_w`. No conjugation is applied.
///
/// # Panics
/// As [`forward`].
pub fn backward_weight<T: ConvScalar>(shape: &ConvShape, x: &[T], grad_y: &[T], grad_w: &mut [T]) {
    assert_eq!(
        (x.len(), grad_w.len(), grad_y.len()),
        (shape.x_len(), shape.w_len(), shape.y_len()),
        "conv: slice lengths"
    );
    shared_out(shape, || T::conv_backward_weight(shape, x, grad_y, grad_w));
}

/// Transposed convolution: x `[N, O, out...]` of `shape`, w `[O, C / groups, kernel...]`, bias `[C]`, result
/// `[N, C, in...]`. Build `shape` with [`ConvShape::transposed`].
///
/// # Panics
/// As [`forward`].
pub fn transposed<T: ConvScalar>(shape: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
    assert_eq!(
        (out.len(), w.len(), x.len()),
        (shape.x_len(), shape.w_len(), shape.y_len()),
        "conv: slice lengths"
    );
    assert!(bias.is_none_or(|b| b.len() == shape.c), "conv: bias length");
    shared_out(shape, || T::conv_backward_input(shape, x, w, bias, out));
}

#[cfg(test)]
mod tests;
