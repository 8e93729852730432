//! Optimiser steps of f32 and f64 slices of run-time type. `None` means that the dtypes are not supported; all slices
//! share one dtype.

use super::{Adam, Sgd};
use crate::erase::erased;
use crate::{Any, AnyMut};

/// [`super::sgd`].
pub fn sgd(o: Sgd, p: AnyMut, g: Any, buf: Option<AnyMut>) -> Option<Result<(), String>> {
    erased!(g, T in [FLOAT], same(p, buf) => super::sgd::<T>(o, p.get(), g.get(), buf.map(|b| b.get())))
}
/// [`super::adam`].
pub fn adam(
    o: Adam,
    p: AnyMut,
    g: Any,
    m: AnyMut,
    v: AnyMut,
    top: Option<AnyMut>,
) -> Option<Result<(), String>> {
    erased!(g, T in [FLOAT], same(p, m, v, top) => {
        super::adam::<T>(o, p.get(), g.get(), m.get(), v.get(), top.map(|t| t.get()))
    })
}
