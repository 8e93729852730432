//! Random fills of slices of run-time type. `None` means that the dtypes are not supported.

use super::Generator;
use crate::engine::erase::erased;
use crate::{Any, AnyMut};

macro_rules! fill {
    ($($(#[$doc:meta])* $name:ident [$($set:ident),+] ($($a:ident: $at:ty),*);)*) => {$(
        $(#[$doc])*
        pub fn $name(g: &mut Generator, out: AnyMut, $($a: $at),*) -> Option<()> {
            erased!(out, T in [$($set),+] => g.$name::<T>(out.get(), $($a),*))
        }
    )*};
}
fill! {
    /// [`Generator::uniform`] of floats.
    uniform [HALF, FLOAT] (from: f64, to: f64);
    /// [`Generator::normal`] of floats.
    normal [HALF, FLOAT] (mean: f64, std: f64);
    /// [`Generator::normal_serial`] of floats.
    normal_serial [HALF, FLOAT] (mean: f64, std: f64);
    /// [`Generator::exponential`] of floats.
    exponential [HALF, FLOAT] (lambda: f64);
    /// [`Generator::cauchy`] of floats.
    cauchy [HALF, FLOAT] (median: f64, sigma: f64);
    /// [`Generator::log_normal`] of floats.
    log_normal [HALF, FLOAT] (mean: f64, std: f64);
    /// [`Generator::geometric`] of integers and floats.
    geometric [INT, UINT, HALF, FLOAT] (p: f64);
    /// [`Generator::bernoulli`] of bool, integers and floats.
    bernoulli [BOOL, INT, UINT, HALF, FLOAT] (p: f64);
    /// [`Generator::dropout_mask`] of floats.
    dropout_mask [HALF, FLOAT] (p: f64);
    /// [`Generator::random_from_to`] of bool, integers and floats.
    random_from_to [BOOL, INT, UINT, HALF, FLOAT] (range: u64, from: i64);
    /// [`Generator::random_full`] of bool, integers and floats.
    random_full [BOOL, INT, HALF, FLOAT] ();
    /// [`Generator::randperm`] of integers and floats.
    randperm [INT, UINT, HALF, FLOAT] ();
}
/// [`Generator::bernoulli_each`] of bool, integers and floats, with probabilities of any floating dtype.
pub fn bernoulli_each(g: &mut Generator, out: AnyMut, p: Any) -> Option<Result<(), String>> {
    fn to<T: super::bulk::RandomValue>(
        g: &mut Generator,
        out: &mut [T],
        p: Any,
    ) -> Option<Result<(), String>> {
        erased!(p, P in [HALF, FLOAT] => g.bernoulli_each::<T, P>(out, p.get()))
    }
    erased!(out, T in [BOOL, INT, HALF, FLOAT] => to::<T>(g, out.get(), p))?
}
/// [`Generator::multinomial`] of floating weights.
pub fn multinomial(
    g: &mut Generator,
    weights: Any,
    categories: usize,
    samples: usize,
    replacement: bool,
    out: &mut [i64],
) -> Option<Result<(), String>> {
    erased!(weights, T in [HALF, FLOAT] => {
        g.multinomial::<T>(weights.get(), categories, samples, replacement, out)
    })
}
/// [`Generator::poisson`] of floats.
pub fn poisson(g: &mut Generator, lambda: Any, out: AnyMut) -> Option<Result<(), String>> {
    erased!(lambda, T in [HALF, FLOAT], same(out) => g.poisson::<T>(lambda.get(), out.get()))
}
/// [`Generator::binomial`] of floats.
pub fn binomial(g: &mut Generator, count: Any, prob: Any, out: AnyMut) -> Option<()> {
    erased!(count, T in [HALF, FLOAT], same(prob, out) => g.binomial::<T>(count.get(), prob.get(), out.get()))
}
/// [`Generator::standard_gamma`] of floats.
pub fn standard_gamma(g: &mut Generator, alpha: Any, out: AnyMut) -> Option<()> {
    erased!(alpha, T in [FLOAT], same(out) => g.standard_gamma::<T>(alpha.get(), out.get()))
}
/// [`Generator::dirichlet`] of floats.
pub fn dirichlet(g: &mut Generator, alpha: Any, out: AnyMut, width: usize) -> Option<()> {
    erased!(alpha, T in [FLOAT], same(out) => g.dirichlet::<T>(alpha.get(), out.get(), width))
}
