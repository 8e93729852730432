//! The functions of `torch.func` over Rust closures.

use crate::gradients::{Inputs, Linear, jacobian_by_columns, jacobian_by_rows, push};
use crate::levels::Randomness;
use crate::mapping::{Place, Results, map_chunks};
use crate::tree::Tree;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::{Error, Result, Tensor, ensure};

/// Where the dimension is that vmap maps over: one place for all tensors, or one for each member of the arguments (each tensor
/// of them, if there are as many). `None`: the tensor is the same for all slices.
///
/// ```
/// use torch::func::{Dims, VmapOptions, vmap_with};
/// use torch::Tensor;
/// let m = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let sums = |d: Dims| vmap_with(|x: &Tensor| x.sum(), VmapOptions::new().in_dims(d))(&m).to_vec::<f32>();
/// assert_eq!(sums(Dims::All(0)), [3.0, 7.0]);
/// assert_eq!(sums(1.into()), [4.0, 6.0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dims {
    /// For all tensors.
    All(i64),
    /// For each member, or for each tensor.
    Each(Vec<Option<i64>>),
}
impl From<i64> for Dims {
    fn from(d: i64) -> Dims {
        Dims::All(d)
    }
}
impl From<i32> for Dims {
    fn from(d: i32) -> Dims {
        Dims::All(d.into())
    }
}
impl<const N: usize> From<[Option<i64>; N]> for Dims {
    fn from(d: [Option<i64>; N]) -> Dims {
        Dims::Each(d.to_vec())
    }
}
impl From<Vec<Option<i64>>> for Dims {
    fn from(d: Vec<Option<i64>>) -> Dims {
        Dims::Each(d)
    }
}
/// A place in a tuple of places: `(0, None)`.
///
/// ```
/// use torch::func::Dim;
/// assert_eq!((Dim::dim(1), Dim::dim(None)), (Some(1), None));
/// ```
pub trait Dim {
    /// The dimension, or none.
    fn dim(self) -> Option<i64>;
}
impl Dim for i64 {
    fn dim(self) -> Option<i64> {
        Some(self)
    }
}
impl Dim for i32 {
    fn dim(self) -> Option<i64> {
        Some(self.into())
    }
}
impl Dim for Option<i64> {
    fn dim(self) -> Option<i64> {
        self
    }
}
macro_rules! places {
    ($($($t:ident $i:tt),+;)*) => {$(
        impl<$($t: Dim),+> From<($($t,)+)> for Dims {
            fn from(d: ($($t,)+)) -> Dims {
                Dims::Each(vec![$(d.$i.dim()),+])
            }
        }
    )*};
}
places! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}
impl Dims {
    /// One for each tensor of a tree.
    fn of(&self, members: &[usize], what: &str) -> Result<Vec<Option<i64>>> {
        let total: usize = members.iter().sum();
        match self {
            Dims::All(d) => Ok(vec![Some(*d); total]),
            Dims::Each(l) if l.len() == members.len() => {
                Ok(l.iter().zip(members).flat_map(|(d, n)| std::iter::repeat_n(*d, *n)).collect())
            }
            Dims::Each(l) if l.len() == total => Ok(l.clone()),
            Dims::Each(l) => Err(Error::value(format!(
                "vmap: {what} has {} places, for {} members with {total} tensors",
                l.len(),
                members.len()
            ))),
        }
    }
}

/// Keywords of [`vmap_with`].
#[derive(Clone, Debug)]
pub struct VmapOptions {
    in_dims: Dims,
    out_dims: Dims,
    randomness: Randomness,
    chunk_size: Option<i64>,
}
impl Default for VmapOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl VmapOptions {
    /// The documented defaults: the first dimension of all arguments and results, no random numbers, all slices at once.
    pub fn new() -> Self {
        VmapOptions {
            in_dims: Dims::All(0),
            out_dims: Dims::All(0),
            randomness: Randomness::Error,
            chunk_size: None,
        }
    }
    /// The dimensions of the arguments that are mapped over.
    pub fn in_dims(mut self, d: impl Into<Dims>) -> Self {
        self.in_dims = d.into();
        self
    }
    /// Where the dimension stands in the results.
    pub fn out_dims(mut self, d: impl Into<Dims>) -> Self {
        self.out_dims = d.into();
        self
    }
    /// What random operators do: PyTorch's word, or a [`Randomness`]. Default: "error".
    ///
    /// # Panics
    /// Another word than "error", "different" and "same"; of a word from outside [`Randomness::parse`] gives an error.
    #[track_caller]
    pub fn randomness(mut self, r: impl IntoArg<Randomness>) -> Self {
        self.randomness = r.into_arg();
        self
    }
    /// At most so many slices at once.
    pub fn chunk_size(mut self, n: impl Into<Option<i64>>) -> Self {
        self.chunk_size = n.into();
        self
    }
}

/// A function of slices as a function of tensors: one call of `f` for all slices along the first dimension.
///
/// `f` sees tensors without that dimension and is called once: operators work on all slices together. What `f` captures is the same
/// for all slices. Results get the dimension in front.
///
/// Source: PyTorch's `torch.func.vmap`.
///
/// ```
/// use torch::prelude::*;
/// use torch::{Tensor, func};
/// let m = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let norms = func::vmap(|x: &Tensor| (x * x).sum())(&m);
/// assert_eq!(norms.to_vec::<f32>(), [5.0, 25.0]);
/// // gradients of each row alone
/// let g = func::vmap(func::grad(|x: &Tensor| (x * x).sum()))(&m);
/// assert_eq!(g.to_vec::<f32>(), [2.0, 4.0, 6.0, 8.0]);
/// ```
///
/// # Panics
/// The returned function panics where [`try_vmap`]'s gives an error.
#[doc(alias = "torch.func.vmap")]
#[doc(alias = "torch.vmap")]
pub fn vmap<A: Tree, R: Tree>(f: impl Fn(&A) -> R) -> impl Fn(&A) -> R {
    vmap_with(f, VmapOptions::new())
}
/// [`vmap`] with its keywords.
///
/// ```
/// use torch::{Tensor, func};
/// let m = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let v = torch::tensor([10.0, 20.0]);
/// let f = |(a, b): &(Tensor, Tensor)| a.dot(b);
/// let by_rows = func::vmap_with(f, func::VmapOptions::new().in_dims((0, None)))(&(m, v));
/// assert_eq!(by_rows.to_vec::<f32>(), [50.0, 110.0]);
/// ```
///
/// # Panics
/// As [`vmap`].
pub fn vmap_with<A: Tree, R: Tree>(f: impl Fn(&A) -> R, options: VmapOptions) -> impl Fn(&A) -> R {
    let mapped = try_vmap(move |a: &A| Ok(f(a)), options);
    move |a| expect(mapped(a))
}
/// [`vmap_with`] of a function that may fail.
///
/// # Errors
/// The returned function's: those of `f`; dimensions of different sizes or that are not there; operators that depend on data;
/// random operators without leave; writes into tensors that slices share.
pub fn try_vmap<A: Tree, R: Tree>(
    f: impl Fn(&A) -> Result<R>,
    options: VmapOptions,
) -> impl Fn(&A) -> Result<R> {
    move |args| {
        ensure!(
            options.chunk_size.is_none_or(|n| n > 0),
            Value,
            "vmap: chunk_size should be None or greater than 0. (got {})",
            options.chunk_size.unwrap_or(0)
        );
        let leaves = args.tensors();
        let dims = options.in_dims.of(&args.members(), "in_dims")?;
        let dims = leaves
            .iter()
            .zip(dims)
            .map(|(t, d)| {
                let Some(d) = d else { return Ok(None) };
                let n = t.dim() as i64;
                ensure!(
                    (-n..n).contains(&d),
                    Value,
                    "vmap: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} so expected in_dim to \
                     satisfy -{n} <= in_dim < {n}."
                );
                Ok(Some(d.rem_euclid(n) as usize))
            })
            .collect::<Result<Vec<_>>>()?;
        let (out, r) = map_chunks("f", &leaves, &dims, options.randomness, options.chunk_size, |slices| {
            let r = f(&args.rebuild(&mut slices.into_iter()))?;
            let places = options.out_dims.of(&r.members(), "out_dims")?;
            let places = places.into_iter().map(|d| d.map_or(Place::Nowhere, Place::At)).collect();
            Ok(Results { tensors: r.tensors(), places, rest: r })
        })?;
        Ok(r.rebuild(&mut out.into_iter()))
    }
}

fn scalar(t: &Tensor) -> Result<()> {
    ensure!(
        t.dim() == 0,
        Runtime,
        "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {} dims. Maybe you wanted to use \
         the vjp or jacrev APIs instead?",
        t.dim()
    );
    Ok(())
}
/// The gradient of a function with one number as its result, as a function of the same arguments: a tree like them.
///
/// What `f` captures counts as constant, but the gradient can be differentiated for it. Source: PyTorch's `torch.func.grad`.
///
/// ```
/// use torch::{Tensor, func};
/// let x = torch::tensor(3.0);
/// let cube = |x: &Tensor| x * x * x;
/// assert_eq!(func::grad(cube)(&x).item::<f32>(), 27.0);
/// assert_eq!(func::grad(func::grad(cube))(&x).item::<f32>(), 18.0);
/// ```
///
/// # Panics
/// The returned function panics where [`try_grad_and_value`]'s gives an error.
#[doc(alias = "torch.func.grad")]
pub fn grad<A: Tree>(f: impl Fn(&A) -> Tensor) -> impl Fn(&A) -> A {
    let both = grad_and_value(f);
    move |a| both(a).0
}
/// The gradient and the value.
///
/// ```
/// use torch::{Tensor, func};
/// let (slope, value) = func::grad_and_value(|x: &Tensor| x * x)(&torch::tensor(3.0));
/// assert_eq!((slope.item::<f32>(), value.item::<f32>()), (6.0, 9.0));
/// ```
///
/// # Panics
/// As [`grad`].
#[doc(alias = "torch.func.grad_and_value")]
pub fn grad_and_value<A: Tree>(f: impl Fn(&A) -> Tensor) -> impl Fn(&A) -> (A, Tensor) {
    let both = try_grad_and_value(move |a: &A| Ok(f(a)));
    move |a| expect(both(a))
}
/// [`grad_and_value`] of a function that may fail.
///
/// # Errors
/// The returned function's: those of `f`; arguments that are not floating; a result with dimensions.
pub fn try_grad_and_value<A: Tree>(f: impl Fn(&A) -> Result<Tensor>) -> impl Fn(&A) -> Result<(A, Tensor)> {
    move |args| {
        let inputs = Inputs::new(&args.tensors())?;
        let value = inputs.call(|| f(&args.rebuild(&mut inputs.args.iter().cloned())))?;
        scalar(&value)?;
        let g = inputs.pull(std::slice::from_ref(&value), &[None], false)?;
        Ok((args.rebuild(&mut g.into_iter()), inputs.cut(&value)?))
    }
}
/// Results of a function at a point, and the function that takes gradients of the results to gradients of the arguments. It may be
/// called any number of times.
///
/// ```
/// use torch::{Tensor, func};
/// let x = torch::tensor([1.0, 2.0]);
/// let (y, pull) = func::vjp(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// assert_eq!(pull(&torch::tensor([1.0, 10.0])).to_vec::<f32>(), [2.0, 40.0]);
/// ```
///
/// # Panics
/// Where [`try_vjp`] gives an error.
#[doc(alias = "torch.func.vjp")]
#[track_caller]
pub fn vjp<A: Tree + Clone, R: Tree, F: Fn(&A) -> R>(f: F, at: &A) -> (R, impl Fn(&R) -> A + use<A, R, F>) {
    let (r, pull) = expect(try_vjp(move |a: &A| Ok(f(a)), at));
    (r, move |v: &R| expect(pull(v)))
}
/// [`vjp`] with errors.
///
/// # Errors
/// Those of `f`; arguments that are not floating; gradients of other sizes than the results.
pub fn try_vjp<A: Tree + Clone, R: Tree, F: Fn(&A) -> Result<R>>(
    f: F,
    at: &A,
) -> Result<(R, impl Fn(&R) -> Result<A> + use<A, R, F>)> {
    let inputs = Inputs::new(&at.tensors())?;
    let r = inputs.call(|| f(&at.rebuild(&mut inputs.args.iter().cloned())))?;
    let outs = r.tensors();
    let shown = outs.iter().map(|t| inputs.cut(t)).collect::<Result<Vec<_>>>()?;
    let at = at.clone();
    let pull = move |v: &R| {
        let v: Vec<Option<Tensor>> = v.tensors().into_iter().map(Some).collect();
        Ok(at.rebuild(&mut inputs.pull(&outs, &v, true)?.into_iter()))
    };
    Ok((r.rebuild(&mut shown.into_iter()), pull))
}
/// Results of a function and their tangents, for tangents of the arguments.
///
/// ```
/// use torch::{Tensor, func};
/// let (x, t) = (torch::tensor(2.0), torch::tensor(1.0));
/// let (y, dy) = func::jvp(|x: &Tensor| x * x * x, &x, &t);
/// assert_eq!((y.item::<f32>(), dy.item::<f32>()), (8.0, 12.0));
/// ```
///
/// # Panics
/// Where [`try_jvp`] gives an error.
#[doc(alias = "torch.func.jvp")]
#[track_caller]
pub fn jvp<A: Tree, R: Tree>(f: impl Fn(&A) -> R, primals: &A, tangents: &A) -> (R, R) {
    expect(try_jvp(move |a: &A| Ok(f(a)), primals, tangents))
}
/// [`jvp`] with errors.
///
/// # Errors
/// Those of `f`; tangents of other sizes or dtypes.
pub fn try_jvp<A: Tree, R: Tree>(f: impl Fn(&A) -> Result<R>, primals: &A, tangents: &A) -> Result<(R, R)> {
    let (values, pushed, r) = push(&primals.tensors(), &tangents.tensors(), |duals| {
        let r = f(&primals.rebuild(&mut duals.into_iter()))?;
        Ok((r.tensors(), r))
    })?;
    Ok((r.rebuild(&mut values.into_iter()), r.rebuild(&mut pushed.into_iter())))
}
/// The Jacobian of a function of one tensor with one tensor as its result, by its rows: of sizes of the result and sizes of the
/// argument.
///
/// ```
/// use torch::{Tensor, func};
/// let x = torch::tensor([1.0, 2.0]);
/// let j = func::jacrev(|x: &Tensor| x * x)(&x);
/// assert_eq!(j.to_vec2::<f32>(), [[2.0, 0.0], [0.0, 4.0]]);
/// assert_eq!(func::jacfwd(|x: &Tensor| x * x)(&x).to_vec2::<f32>(), [[2.0, 0.0], [0.0, 4.0]]);
/// ```
///
/// # Panics
/// The returned function panics where that of [`try_jacrev`] gives an error.
#[doc(alias = "torch.func.jacrev")]
pub fn jacrev(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    let j = try_jacrev(move |x: &Tensor| Ok(f(x)), None);
    move |x| expect(j(x).map(only))
}
fn only(mut all: Vec<Tensor>) -> Tensor {
    all.swap_remove(0)
}
/// The Jacobians of a function of a tree, by rows: for each tensor of the result a tree like the arguments. `chunk_size`: at most so
/// many rows at once.
///
/// # Errors
/// The returned function's: those of `f`; arguments that are not floating.
pub fn try_jacrev<A: Tree, R: Tree>(
    f: impl Fn(&A) -> Result<R>,
    chunk_size: Option<i64>,
) -> impl Fn(&A) -> Result<Vec<A>> {
    move |args| {
        ensure!(chunk_size.is_none_or(|n| n > 0), Value, "jacrev: `chunk_size` should be greater than 0.");
        let call = |xs: Vec<Tensor>| Ok((f(&args.rebuild(&mut xs.into_iter()))?.tensors(), ()));
        let (all, ()) = jacobian_by_rows(&args.tensors(), chunk_size, call)?;
        Ok(all.into_iter().map(|row| args.rebuild(&mut row.into_iter())).collect())
    }
}
/// [`jacrev`] by columns, in forward mode: for functions with more results than arguments.
///
/// # Panics
/// The returned function panics where that of [`try_jacfwd`] gives an error.
#[doc(alias = "torch.func.jacfwd")]
pub fn jacfwd(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    let j = try_jacfwd(move |x: &Tensor| Ok(f(x)), Randomness::Error);
    move |x| expect(j(x).map(only))
}
/// The Jacobians of a function of a tree, by columns: for each tensor of the result a tree like the arguments.
///
/// # Errors
/// The returned function's: those of `f`; arguments that are not floating.
pub fn try_jacfwd<A: Tree, R: Tree>(
    f: impl Fn(&A) -> Result<R>,
    randomness: Randomness,
) -> impl Fn(&A) -> Result<Vec<A>> {
    move |args| {
        let call = |xs: Vec<Tensor>| Ok((f(&args.rebuild(&mut xs.into_iter()))?.tensors(), ()));
        let (all, ()) = jacobian_by_columns(&args.tensors(), randomness, call)?;
        Ok(all.into_iter().map(|row| args.rebuild(&mut row.into_iter())).collect())
    }
}
/// Second derivatives of a function of one tensor with one number as its result: [`jacfwd`] of [`jacrev`].
///
/// ```
/// use torch::{Tensor, func};
/// let x = torch::tensor([1.0, 2.0]);
/// let h = func::hessian(|x: &Tensor| (x * x * x).sum())(&x);
/// assert_eq!(h.to_vec2::<f32>(), [[6.0, 0.0], [0.0, 12.0]]);
/// ```
///
/// # Panics
/// As [`jacfwd`].
#[doc(alias = "torch.func.hessian")]
pub fn hessian(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    jacfwd(jacrev(f))
}
/// Results of a function at a point, and the function that takes tangents of the arguments to tangents of the results, which
/// computes nothing of `f` again.
///
/// ```
/// use torch::{Tensor, func};
/// let at = torch::tensor(2.0);
/// let (y, push) = func::linearize(|x: &Tensor| x * x * x, &at);
/// assert_eq!(y.item::<f32>(), 8.0);
/// assert_eq!(push(&torch::tensor(1.0)).item::<f32>(), 12.0);
/// assert_eq!(push(&torch::tensor(0.5)).item::<f32>(), 6.0);
/// ```
///
/// # Panics
/// Where [`try_linearize`] gives an error.
#[doc(alias = "torch.func.linearize")]
#[track_caller]
pub fn linearize<A: Tree, R: Tree + Clone, F: Fn(&A) -> R>(
    f: F,
    at: &A,
) -> (R, impl Fn(&A) -> R + use<A, R, F>) {
    let (r, push) = expect(try_linearize(move |a: &A| Ok(f(a)), at));
    (r, move |t: &A| expect(push(t)))
}
/// [`linearize`] with errors.
///
/// # Errors
/// Those of `f`; arguments that are not floating; tangents of other sizes.
pub fn try_linearize<A: Tree, R: Tree + Clone, F: Fn(&A) -> Result<R>>(
    f: F,
    at: &A,
) -> Result<(R, impl Fn(&A) -> Result<R> + use<A, R, F>)> {
    let inputs = Inputs::new(&at.tensors())?;
    let r = inputs.call(|| f(&at.rebuild(&mut inputs.args.iter().cloned())))?;
    let outs = r.tensors();
    let linear = Linear::new(inputs, &outs)?;
    let shown = outs.iter().map(|t| linear.cut(t)).collect::<Result<Vec<_>>>()?;
    let shown = r.rebuild(&mut shown.into_iter());
    let like = shown.clone();
    let pushed = move |t: &A| Ok(like.rebuild(&mut linear.push(&t.tensors())?.into_iter()));
    Ok((shown, pushed))
}
