//! `torch.amp` for Flambeau: regions in which each operator picks its dtype, and scaling of gradients that would be lost in
//! float16.
//!
//! | module | what |
//! |---|---|
//! | [`region`] | [`autocast`], and the settings of a thread |
//! | [`custom`] | functions with a gradient of their own inside such regions |
//! | [`grad_scaler`] | [`GradScaler`] |
//! | [`generated::ops`] | the operators of the scaler as fallible functions, nothing defaulted |
//!
//! What autocast does with an operator stands in its row, under the key `autocast`; `flambeau_core::dispatch::autocast` is what
//! reads it.

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
pub mod custom;
#[rustfmt::skip]
pub mod generated;
pub mod grad_scaler;
pub mod ops;
pub mod region;

pub use custom::{custom_bwd, custom_fwd, custom_fwd_cast};
pub use grad_scaler::{GradScaler, GradScalerOptions};
pub use region::{
    AutocastOptions, Region, autocast, autocast_decrement_nesting, autocast_guard,
    autocast_increment_nesting, clear_autocast_cache, get_autocast_dtype, is_autocast_available,
    is_autocast_cache_enabled, is_autocast_enabled, set_autocast_cache_enabled, set_autocast_dtype,
    set_autocast_enabled, try_autocast, try_autocast_guard, try_get_autocast_dtype,
    try_is_autocast_available, try_is_autocast_enabled, try_set_autocast_dtype, try_set_autocast_enabled,
};
