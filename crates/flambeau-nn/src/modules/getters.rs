//! What modules were made with, under Python's names: `linear.in_features()`, `conv.bias()`.

use super::all::*;
use crate::parameter::Parameter;

/// Numbers of the options, by value.
macro_rules! getters {
    ($($t:ident: $($name:ident $ty:ty $(= |$o:ident| $e:expr)?),+;)*) => {$(
        impl $t {
            $(
                #[doc = concat!("The argument `", stringify!($name), "` that the module was made with.")]
                pub fn $name(&self) -> $ty {
                    getters!(@ self, $name $(, |$o| $e)?)
                }
            )+
        }
    )*};
    (@ $s:ident, $name:ident) => { $s.options.$name };
    (@ $s:ident, $name:ident, |$o:ident| $e:expr) => {{ let $o = &$s.options; $e }};
}
/// Parameters that may be left out.
macro_rules! optional {
    ($($t:ident: $($name:ident),+;)*) => {$(
        impl $t {
            $(
                #[doc = concat!("The parameter `", stringify!($name), "`. Panics if the module was made without it.")]
                #[track_caller]
                pub fn $name(&self) -> &Parameter {
                    self.$name.as_ref().unwrap_or_else(|| panic!(
                        "{} has no {}: it was made without one", stringify!($t), stringify!($name)
                    ))
                }
            )+
        }
    )*};
}
macro_rules! conv {
    ($($n:literal $t:ident),*) => {
        getters! {$(
            $t: in_channels i64, out_channels i64, groups i64, kernel_size [i64; $n] = |o| o.kernel_size.0,
                stride [i64; $n] = |o| o.stride.0, dilation [i64; $n] = |o| o.dilation.0;
        )*}
        optional! { $($t: bias;)* }
    };
}
conv!(1 Conv1d, 2 Conv2d, 3 Conv3d, 1 ConvTranspose1d, 2 ConvTranspose2d, 3 ConvTranspose3d);
macro_rules! running {
    ($($t:ident),*) => {
        getters! { $($t: num_features i64, eps f64;)* }
        optional! { $($t: weight, bias;)* }
    };
}
running!(BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d);
macro_rules! recurrent {
    ($($t:ident),*) => {
        getters! {
            $($t: input_size i64, hidden_size i64, num_layers i64, batch_first bool, bidirectional bool, dropout f64;)*
        }
    };
}
recurrent!(RNN, LSTM, GRU);
getters! {
    Linear: in_features i64, out_features i64;
    Bilinear: in1_features i64, in2_features i64, out_features i64;
    Embedding: num_embeddings i64, embedding_dim i64, padding_idx Option<i64>;
    EmbeddingBag: num_embeddings i64, embedding_dim i64, padding_idx Option<i64>;
    LayerNorm: normalized_shape &[i64] = |o| &o.normalized_shape, eps f64;
    GroupNorm: num_groups i64, num_channels i64, eps f64;
    MultiheadAttention: embed_dim i64, num_heads i64, batch_first bool;
    RNNCell: input_size i64, hidden_size i64;
    LSTMCell: input_size i64, hidden_size i64;
    GRUCell: input_size i64, hidden_size i64;
    Dropout: p f64 = |o| o.p.to_f64();
}
optional! {
    Linear: bias;
    Bilinear: bias;
    LayerNorm: weight, bias;
    GroupNorm: weight, bias;
}
