//! Calls of recurrent modules with plain arguments, as PyTorch's `forward` has them.

use super::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell};
use crate::module::forward::{Call, Forward};
use crate::utils::rnn::PackedSequence;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Result, Tensor};

/// An argument that may be left out: `None`, or N tensors. One tensor is `&h`, `Some(&h)` or `&state` of an `Option<Tensor>`; two are
/// `(&h, &c)`, `&state` of a pair that a call before gave, or options of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not taken where {N} tensors or `None` are wanted",
    label = "`None`, or {N} tensors, are wanted here",
    note = "one tensor is `&h`; two, as an LSTM has them, are `(&h, &c)`, or `&state` of the pair that the call before gave"
)]
pub trait MaybeTensors<const N: usize> {
    /// The tensors, if there are any.
    fn tensors(&self) -> Option<[&Tensor; N]>;
}
macro_rules! maybe {
    ($($n:literal $t:ty, |$s:ident| $e:expr;)*) => {$(
        impl MaybeTensors<$n> for $t {
            fn tensors(&self) -> Option<[&Tensor; $n]> {
                let $s = self;
                $e
            }
        }
    )*};
}
maybe! {
    1 Tensor, |s| Some([s]);
    1 &Tensor, |s| Some([s]);
    1 Option<&Tensor>, |s| s.map(|s| [s]);
    1 &Option<Tensor>, |s| s.as_ref().map(|s| [s]);
    2 (Tensor, Tensor), |s| Some([&s.0, &s.1]);
    2 &(Tensor, Tensor), |s| Some([&s.0, &s.1]);
    2 (&Tensor, &Tensor), |s| Some([s.0, s.1]);
    2 Option<(&Tensor, &Tensor)>, |s| s.map(|(h, c)| [h, c]);
    2 &Option<(Tensor, Tensor)>, |s| s.as_ref().map(|(h, c)| [h, c]);
}

/// A recurrent module's input: `&Tensor`, or `&PackedSequence`, which gives one back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of a recurrent module",
    label = "`&x` of a tensor or a packed sequence is wanted here",
    note = "inputs are borrowed: `lstm.call(&x, None)`"
)]
pub trait Steps: Sized {
    /// The hidden states of all steps.
    type Output;
    #[doc(hidden)]
    fn rnn(self, m: &RNN, hx: Option<[&Tensor; 1]>, hooks: bool) -> Result<(Self::Output, Tensor)>;
    #[doc(hidden)]
    fn gru(self, m: &GRU, hx: Option<[&Tensor; 1]>, hooks: bool) -> Result<(Self::Output, Tensor)>;
    #[doc(hidden)]
    fn lstm(
        self,
        m: &LSTM,
        hx: Option<[&Tensor; 2]>,
        hooks: bool,
    ) -> Result<(Self::Output, (Tensor, Tensor))>;
}
/// `forward`, or the call with its hooks, with or without states.
macro_rules! run {
    ($m:expr, $x:expr, $hx:expr, $hooks:expr, $states:pat => $given:expr) => {
        match ($hx, $hooks) {
            (None, true) => Call::try_call($m, $x),
            (None, false) => Forward::try_forward($m, $x),
            (Some($states), true) => Call::try_call($m, ($x, $given)),
            (Some($states), false) => Forward::try_forward($m, ($x, $given)),
        }
    };
}
macro_rules! steps {
    ($($t:ty => $out:ty;)*) => {$(
        impl Steps for &$t {
            type Output = $out;
            fn rnn(self, m: &RNN, hx: Option<[&Tensor; 1]>, hooks: bool) -> Result<($out, Tensor)> {
                run!(m, self, hx, hooks, [h] => h)
            }
            fn gru(self, m: &GRU, hx: Option<[&Tensor; 1]>, hooks: bool) -> Result<($out, Tensor)> {
                run!(m, self, hx, hooks, [h] => h)
            }
            fn lstm(
                self,
                m: &LSTM,
                hx: Option<[&Tensor; 2]>,
                hooks: bool,
            ) -> Result<($out, (Tensor, Tensor))> {
                run!(m, self, hx, hooks, [h, c] => (h, c))
            }
        }
    )*};
}
steps! {
    Tensor => Tensor;
    PackedSequence => PackedSequence;
}

/// The methods: `call` with hooks, `forward` without, each with an error instead of a panic too.
macro_rules! methods {
    ($t:ident, [$($generics:tt)*], $input:ty, $n:literal, $out:ty, |$m:ident, $x:ident, $hx:ident, $hooks:ident| $run:expr) => {
        impl $t {
            /// Runs the module and its hooks; `hx` is `None` or the states that it starts from. Panics with the error's text.
            #[track_caller]
            #[doc(alias = "torch.nn.Module.__call__")]
            pub fn call<$($generics)*>(&self, input: $input, hx: impl MaybeTensors<$n>) -> $out {
                expect(self.try_call(input, hx))
            }
            #[doc = concat!("[`", stringify!($t), "::call`] with an error instead of a panic.")]
            ///
            /// # Errors
            /// Inputs that do not fit; those of hooks.
            pub fn try_call<$($generics)*>(&self, input: $input, hx: impl MaybeTensors<$n>) -> Result<$out> {
                let ($m, $x, $hx, $hooks) = (self, input, hx.tensors(), true);
                $run
            }
            /// Computes it, without hooks; panics with the error's text.
            #[track_caller]
            pub fn forward<$($generics)*>(&self, input: $input, hx: impl MaybeTensors<$n>) -> $out {
                expect(self.try_forward(input, hx))
            }
            #[doc = concat!("[`", stringify!($t), "::forward`] with an error instead of a panic.")]
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward<$($generics)*>(&self, input: $input, hx: impl MaybeTensors<$n>) -> Result<$out> {
                let ($m, $x, $hx, $hooks) = (self, input, hx.tensors(), false);
                $run
            }
        }
    };
}
methods!(RNN, [I: Steps], I, 1, (I::Output, Tensor), |m, x, hx, hooks| x.rnn(m, hx, hooks));
methods!(GRU, [I: Steps], I, 1, (I::Output, Tensor), |m, x, hx, hooks| x.gru(m, hx, hooks));
methods!(LSTM, [I: Steps], I, 2, (I::Output, (Tensor, Tensor)), |m, x, hx, hooks| x.lstm(m, hx, hooks));
methods!(RNNCell, [], &Tensor, 1, Tensor, |m, x, hx, hooks| run!(m, x, hx, hooks, [h] => h));
methods!(GRUCell, [], &Tensor, 1, Tensor, |m, x, hx, hooks| run!(m, x, hx, hooks, [h] => h));
methods!(
    LSTMCell,
    [],
    &Tensor,
    2,
    (Tensor, Tensor),
    |m, x, hx, hooks| run!(m, x, hx, hooks, [h, c] => (h, c))
);
