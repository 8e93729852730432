//! `torch.nn.utils`: gradients that are clipped, parameters as one vector, weights that are computed from others
//! (parametrisations, norms, pruning), layers that are fused, calls with other parameters.

mod clip;
mod convert;
pub mod fusion;
pub mod parametrizations;
#[doc(alias = "torch.nn.utils.parametrize")]
pub mod parametrize;
#[doc(alias = "torch.nn.utils.prune")]
pub mod prune;
#[doc(alias = "torch.nn.utils.rnn")]
pub mod rnn;
mod slot;
mod spectral_norm;
pub mod stateless;
mod weight_norm;

pub use clip::{
    ClipGradOptions, clip_grad_norm, clip_grad_norm_, clip_grad_norm_with_, clip_grad_value_,
    clip_grads_with_norm_, get_total_norm, get_total_norm_with, try_clip_grad_norm_, try_clip_grad_value_,
    try_clip_grads_with_norm_, try_get_total_norm,
};
pub use convert::{
    convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format, parameters_to_vector,
    skip_init, try_convert_conv2d_weight_memory_format, try_convert_conv3d_weight_memory_format,
    try_parameters_to_vector, try_vector_to_parameters, vector_to_parameters,
};
pub use fusion::{
    fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights,
    try_fuse_conv_bn_eval, try_fuse_conv_bn_weights, try_fuse_linear_bn_eval, try_fuse_linear_bn_weights,
};
pub use spectral_norm::{
    SpectralNormOptions, remove_spectral_norm, spectral_norm, spectral_norm_with, try_remove_spectral_norm,
    try_spectral_norm,
};
pub use weight_norm::{
    WeightNormOptions, remove_weight_norm, try_remove_weight_norm, try_weight_norm, weight_norm,
    weight_norm_with,
};
