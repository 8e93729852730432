//! Control flow as functions (`torch.cond`, `while_loop`, `map`, `scan`, `associative_scan`): what runs is recorded, so gradients
//! of any order follow the branch that was taken and the steps that were made.

use crate::shorthand;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::types::deep;
use flambeau_core::{Result, Tensor, TensorList, Value, ensure, ops};
use std::sync::OnceLock;

/// Whether a tensor of one element is true.
fn truth(pred: &Tensor) -> Result<bool> {
    ensure!(
        pred.numel() == 1,
        Runtime,
        "Expected pred to be bool or single-element tensor, but got {pred:?}."
    );
    Ok(pred.try_item::<f64>()? != 0.0)
}

/// What branches give: tensors, or what holds some. Branches that give something else are run, and cannot be captured.
///
/// ```
/// let x = torch::tensor([1.0, 4.0]);
/// let [low, high] = torch::cond(&x.sum().gt(0.0), |x| [x.min(), x.max()], |x| [x.max(), x.min()], &x);
/// assert_eq!((low.item::<f32>(), high.item::<f32>()), (1.0, 4.0));
/// ```
pub trait BranchResult: Sized {
    /// The tensors; none of what holds none.
    fn tensors(&self) -> Option<Vec<Tensor>>;
    /// The same with other tensors, as many as [`tensors`](BranchResult::tensors) gives.
    fn with_tensors(self, tensors: Vec<Tensor>) -> Self;
}
impl BranchResult for Tensor {
    fn tensors(&self) -> Option<Vec<Tensor>> {
        Some(vec![self.clone()])
    }
    fn with_tensors(self, tensors: Vec<Tensor>) -> Self {
        tensors.into_iter().next().unwrap_or(self)
    }
}
impl BranchResult for Vec<Tensor> {
    fn tensors(&self) -> Option<Vec<Tensor>> {
        Some(self.clone())
    }
    fn with_tensors(self, tensors: Vec<Tensor>) -> Self {
        tensors
    }
}
impl<const N: usize> BranchResult for [Tensor; N] {
    fn tensors(&self) -> Option<Vec<Tensor>> {
        Some(self.to_vec())
    }
    fn with_tensors(self, tensors: Vec<Tensor>) -> Self {
        tensors.try_into().unwrap_or(self)
    }
}
impl BranchResult for Value {
    fn tensors(&self) -> Option<Vec<Tensor>> {
        let mut all = Vec::new();
        deep::leaves(self, |v| {
            if let Value::Tensor(t) = v {
                all.push(t.clone());
            }
        });
        Some(all)
    }
    fn with_tensors(mut self, tensors: Vec<Tensor>) -> Self {
        let mut tensors = tensors.into_iter();
        let placed = deep::leaves_mut(&mut self, |v| {
            if let Value::Tensor(t) = v
                && let Some(new) = tensors.next()
            {
                *t = new;
            }
            Ok(())
        });
        debug_assert!(placed.is_ok());
        self
    }
}
macro_rules! branch_results {
    ($($t:ty),* ; $(($($name:ident),*)),*) => {
        $(impl BranchResult for $t {
            fn tensors(&self) -> Option<Vec<Tensor>> {
                None
            }
            fn with_tensors(self, _: Vec<Tensor>) -> Self {
                self
            }
        })*
        $(impl<$($name: BranchResult),*> BranchResult for ($($name,)*) {
            #[allow(non_snake_case)]
            fn tensors(&self) -> Option<Vec<Tensor>> {
                let ($($name,)*) = self;
                let mut all = Vec::new();
                $(all.extend($name.tensors()?);)*
                Some(all)
            }
            #[allow(non_snake_case)]
            fn with_tensors(self, mut tensors: Vec<Tensor>) -> Self {
                let ($($name,)*) = self;
                $(let n = $name.tensors().map_or(0, |l| l.len()).min(tensors.len());
                let rest = tensors.split_off(n);
                let $name = $name.with_tensors(std::mem::replace(&mut tensors, rest));)*
                let _ = tensors;
                ($($name,)*)
            }
        })*
    };
}
branch_results!((), bool, i32, i64, f32, f64, String, Option<Tensor>; (A, B), (A, B, C), (A, B, C, D));

#[doc(hidden)]
/// A function that a captured branch or loop consists of.
pub type Body<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;
#[doc(hidden)]
/// What captures programs: branches and loops are written down in place of being run.
pub struct Capturing {
    /// Whether a program is being captured that this tensor belongs to.
    pub wanted: fn(&Tensor) -> bool,
    /// A branch: the results of both functions, which are called once.
    #[allow(clippy::type_complexity)]
    pub cond: fn(
        &Tensor,
        &mut dyn FnMut() -> Result<Vec<Tensor>>,
        &mut dyn FnMut() -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>>,
    /// A loop: condition, body, what is carried.
    pub while_loop: fn(Body<'_>, Body<'_>, &[Tensor]) -> Result<Vec<Tensor>>,
    /// A function of slices.
    pub map: fn(Body<'_>, &[Tensor]) -> Result<Vec<Tensor>>,
    /// A function of what is carried and of slices, which gives the next of what is carried and outputs.
    pub scan: fn(Body<'_>, &[Tensor], &[Tensor]) -> Result<Vec<Tensor>>,
}
static CAPTURING: OnceLock<Capturing> = OnceLock::new();
#[doc(hidden)]
/// Says how branches and loops are captured, once.
pub fn set_capturing(c: Capturing) {
    let _ = CAPTURING.set(c);
}
/// How they are captured, where one of these tensors belongs to a program that is being captured.
fn capturing<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Option<&'static Capturing> {
    let c = CAPTURING.get()?;
    tensors.into_iter().any(|t| (c.wanted)(t)).then_some(c)
}

/// One of two functions of the same operands, by a tensor of one element.
///
/// ```
/// let f = |x: &torch::Tensor| torch::cond(&x.sum().gt(0.0), |x| x.sin(), |x| x.cos(), x);
/// let x = torch::tensor([0.5f32]).requires_grad_(true);
/// f(&x).sum().backward();
/// assert!((x.grad().unwrap().item::<f32>() - 0.5f32.cos()).abs() < 1e-6);
/// ```
///
/// # Panics
/// A predicate of several elements.
#[track_caller]
#[doc(alias = "torch.cond")]
pub fn cond<T: ?Sized, R: BranchResult>(
    pred: &Tensor,
    true_fn: impl FnOnce(&T) -> R,
    false_fn: impl FnOnce(&T) -> R,
    operands: &T,
) -> R {
    expect(try_cond(pred, |x| Ok(true_fn(x)), |x| Ok(false_fn(x)), operands))
}
/// [`cond`] of functions that may fail.
///
/// # Errors
/// A predicate of several elements; those of the function.
pub fn try_cond<T: ?Sized, R: BranchResult>(
    pred: &Tensor,
    true_fn: impl FnOnce(&T) -> Result<R>,
    false_fn: impl FnOnce(&T) -> Result<R>,
    operands: &T,
) -> Result<R> {
    let Some(c) = capturing([pred]) else {
        return if truth(pred)? { true_fn(operands) } else { false_fn(operands) };
    };
    let missing =
        || flambeau_core::Error::missing("a captured cond whose branches give something else than tensors");
    let mut shape = None;
    let (mut yes, mut no) = (Some(true_fn), Some(false_fn));
    let all = (c.cond)(
        pred,
        &mut || {
            let r = yes.take().ok_or_else(missing)?(operands)?;
            let tensors = r.tensors().ok_or_else(missing)?;
            shape = Some(r);
            Ok(tensors)
        },
        &mut || no.take().ok_or_else(missing)?(operands)?.tensors().ok_or_else(missing),
    )?;
    Ok(shape.ok_or_else(missing)?.with_tensors(all))
}

/// Runs `body` on what it gave before, beginning with `carried`, as long as `cond` of that is true. What is carried keeps its
/// number, sizes and dtypes.
///
/// ```
/// let carried = [torch::tensor(0i64), torch::tensor(1.0f32)];
/// let done = torch::while_loop(
///     |c| c[0].lt(3),
///     |c| vec![&c[0] + 1, &c[1] * 2.0],
///     &carried,
/// );
/// assert_eq!(done[1].item::<f32>(), 8.0);
/// ```
///
/// # Panics
/// A condition of several elements; a body that gives other sizes or dtypes.
#[track_caller]
pub fn while_loop(
    cond: impl Fn(&[Tensor]) -> Tensor,
    body: impl Fn(&[Tensor]) -> Vec<Tensor>,
    carried: impl TensorList,
) -> Vec<Tensor> {
    expect(try_while_loop(|c| Ok(cond(c)), |c| Ok(body(c)), carried))
}
/// [`while_loop`] of functions that may fail.
///
/// # Errors
/// As there, and those of the functions.
pub fn try_while_loop(
    cond: impl Fn(&[Tensor]) -> Result<Tensor>,
    body: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    carried: impl TensorList,
) -> Result<Vec<Tensor>> {
    let mut now = carried.tensor_list().to_vec();
    if let Some(c) = capturing(&now) {
        return (c.while_loop)(&|x| Ok(vec![cond(x)?]), &body, &now);
    }
    while truth(&cond(&now)?)? {
        let next = body(&now)?;
        same("while_loop: body_fn", &now, &next)?;
        now = next;
    }
    Ok(now)
}
/// What is carried on has the shape of what was given.
fn same(what: &str, before: &[Tensor], after: &[Tensor]) -> Result<()> {
    ensure!(
        before.len() == after.len(),
        Runtime,
        "{what} must give {} tensors to carry on, and gave {}",
        before.len(),
        after.len()
    );
    for (i, (a, b)) in before.iter().zip(after).enumerate() {
        ensure!(
            a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.device() == b.device(),
            Runtime,
            "{what} must carry on what it is given: tensor {i} was {:?} of {} on {}, and became {:?} of {} on {}",
            a.sizes(),
            a.dtype(),
            a.device(),
            b.sizes(),
            b.dtype(),
            b.device()
        );
    }
    Ok(())
}

/// The length of the first dimension of all tensors.
fn length(name: &str, xs: &[Tensor], dim: i64) -> Result<i64> {
    let mut all = xs.iter().map(|x| {
        let d = if dim < 0 { dim + x.dim() as i64 } else { dim };
        let size = usize::try_from(d).ok().and_then(|d| x.sizes().get(d));
        size.copied().ok_or_else(|| {
            flambeau_core::Error::runtime("All xs leaves must have at least 'dim + 1' dimensions")
        })
    });
    let first = all
        .next()
        .ok_or_else(|| flambeau_core::Error::runtime(format!("{name}() operator requires xs leaves.")))??;
    for n in all {
        ensure!(n? == first, Runtime, "All xs leaves must have the same scan dimension size");
    }
    Ok(first)
}
fn at(xs: &[Tensor], dim: i64, i: i64) -> Result<Vec<Tensor>> {
    xs.iter().map(|x| ops::select(x, dim, i)).collect()
}
/// Lists of equal lengths, place by place, along a new dimension.
fn stacked(name: &str, rows: &[Vec<Tensor>], dim: i64) -> Result<Vec<Tensor>> {
    let n = rows.first().map_or(0, Vec::len);
    for r in rows {
        ensure!(
            r.len() == n,
            Runtime,
            "{name}: the function gave {n} tensors in one step and {} in another",
            r.len()
        );
    }
    (0..n).map(|i| ops::stack(&rows.iter().map(|r| r[i].clone()).collect::<Vec<_>>(), dim)).collect()
}

/// A function of each slice along the first dimension, and its results stacked there.
///
/// ```
/// let x = torch::arange(6).float().reshape([3, 2]);
/// let y = torch::control_flow::map(|row| row.cumsum(0), &x);
/// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 2.0, 5.0, 4.0, 9.0]);
/// ```
///
/// # Panics
/// A tensor without dimensions or without slices; results of different sizes.
#[track_caller]
pub fn map(f: impl Fn(&Tensor) -> Tensor, xs: &Tensor) -> Tensor {
    let mut all = expect(try_map(|x| Ok(vec![f(&x[0])]), [xs]));
    all.remove(0)
}
/// [`map`] over several tensors, of a function that gives several and may fail.
///
/// # Errors
/// As there, and those of the function.
pub fn try_map(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, xs: impl TensorList) -> Result<Vec<Tensor>> {
    let xs = &*xs.tensor_list();
    let n = length("map", xs, 0)?;
    ensure!(n > 0, Runtime, "Leading dimensions of mapped xs must be larger than 0.");
    if let Some(c) = capturing(xs) {
        return (c.map)(&f, xs);
    }
    let rows = (0..n).map(|i| f(&at(xs, 0, i)?)).collect::<Result<Vec<_>>>()?;
    stacked("map", &rows, 0)
}

/// Which dimension [`scan`] and [`associative_scan`] go along, and from which end.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanOptions {
    dim: i64,
    reverse: bool,
}
impl ScanOptions {
    /// The first dimension, from its beginning.
    pub fn new() -> Self {
        Self::default()
    }
    /// Another dimension.
    pub fn dim(mut self, dim: i64) -> Self {
        self.dim = dim;
        self
    }
    /// From the end.
    pub fn reverse(mut self, on: bool) -> Self {
        self.reverse = on;
        self
    }
}

/// Goes along the slices of a tensor and carries something on: `f(carry, slice)` gives the next carry and an output. Gives the
/// last carry, and the outputs stacked along that dimension.
///
/// ```
/// let x = torch::tensor([1.0f32, 2.0, 3.0]);
/// let (last, sums) = torch::control_flow::scan(|c, x| (c + x, c + x), &torch::tensor(0.0f32), &x);
/// assert_eq!((last.item::<f32>(), sums.to_vec::<f32>()), (6.0, vec![1.0, 3.0, 6.0]));
/// ```
///
/// # Panics
/// A tensor without slices; a carry that changes its sizes or dtype; outputs of different sizes.
#[track_caller]
pub fn scan(
    f: impl Fn(&Tensor, &Tensor) -> (Tensor, Tensor),
    init: &Tensor,
    xs: &Tensor,
) -> (Tensor, Tensor) {
    let step = |c: &[Tensor], x: &[Tensor]| {
        let (c, y) = f(&c[0], &x[0]);
        Ok((vec![c], vec![y]))
    };
    let (mut c, mut y) = expect(try_scan(step, [init], [xs], ScanOptions::new()));
    (c.remove(0), y.remove(0))
}
/// [`scan`] over several tensors with several carries, along any dimension, of a function that may fail.
///
/// # Errors
/// As there, and those of the function.
#[allow(clippy::type_complexity)]
pub fn try_scan(
    f: impl Fn(&[Tensor], &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    init: impl TensorList,
    xs: impl TensorList,
    o: ScanOptions,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let (mut carry, xs) = (init.tensor_list().to_vec(), &*xs.tensor_list());
    ensure!(!carry.is_empty(), Runtime, "scan() operator requires init leaves.");
    let n = length("scan", xs, o.dim)?;
    ensure!(n > 0, Missing, "scan over a dimension without elements");
    if let Some(c) = capturing(carry.iter().chain(xs)) {
        // the captured form goes along the first dimension, from its beginning
        let front = |x: &Tensor| {
            let x = ops::movedim(x, &[o.dim], &[0])?;
            if o.reverse { ops::flip(&x, &[0]) } else { Ok(x) }
        };
        let back = |x: &Tensor| {
            let x = if o.reverse { ops::flip(x, &[0])? } else { x.clone() };
            ops::movedim(&x, &[0], &[o.dim])
        };
        let plain = o.dim == 0 && !o.reverse;
        let xs = if plain { xs.to_vec() } else { xs.iter().map(front).collect::<Result<Vec<_>>>()? };
        let k = carry.len();
        let step = |all: &[Tensor]| {
            let (c, x) = all.split_at(k.min(all.len()));
            let (mut next, y) = f(c, x)?;
            next.extend(y);
            Ok(next)
        };
        let mut all = (c.scan)(&step, &carry, &xs)?;
        let outputs = all.split_off(k.min(all.len()));
        let outputs = if plain { outputs } else { outputs.iter().map(back).collect::<Result<Vec<_>>>()? };
        return Ok((all, outputs));
    }
    let mut rows = Vec::new();
    for i in 0..n {
        let (next, y) = f(&carry, &at(xs, o.dim, if o.reverse { n - 1 - i } else { i })?)?;
        same("scan: combine_fn", &carry, &next)?;
        carry = next;
        rows.push(y);
    }
    if o.reverse {
        rows.reverse();
    }
    let rank = xs.first().map_or(0, Tensor::dim) as i64;
    Ok((carry, stacked("scan", &rows, if o.dim < 0 { o.dim + rank } else { o.dim })?))
}

/// All prefixes of a tensor's slices under an associative function: `[x0, f(x0, x1), f(f(x0, x1), x2), ..]` along the first
/// dimension. `f` is given several slices at once, along that dimension, and must work element by element; there are only as
/// many calls as the length has doublings.
///
/// ```
/// let x = torch::tensor([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(torch::control_flow::associative_scan(|a, b| a * b, &x).to_vec::<f32>(), [1.0, 2.0, 6.0, 24.0]);
/// ```
///
/// # Panics
/// A tensor without dimensions; a function that changes sizes.
#[track_caller]
pub fn associative_scan(f: impl Fn(&Tensor, &Tensor) -> Tensor, xs: &Tensor) -> Tensor {
    let step = |a: &[Tensor], b: &[Tensor]| Ok(vec![f(&a[0], &b[0])]);
    let mut all = expect(try_associative_scan(step, [xs], ScanOptions::new()));
    all.remove(0)
}
/// [`associative_scan`] over several tensors, along any dimension, of a function that may fail.
///
/// # Errors
/// As there, and those of the function.
pub fn try_associative_scan(
    f: impl Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>,
    xs: impl TensorList,
    o: ScanOptions,
) -> Result<Vec<Tensor>> {
    let xs = &*xs.tensor_list();
    let n = length("associative_scan", xs, o.dim)?;
    // slices stand in the first dimension meanwhile, the first one first
    let front = |x: &Tensor| {
        let x = ops::movedim(x, &[o.dim], &[0])?;
        if o.reverse { ops::flip(&x, &[0]) } else { Ok(x) }
    };
    let back = |x: &Tensor| {
        let x = if o.reverse { ops::flip(x, &[0])? } else { x.clone() };
        ops::movedim(&x, &[0], &[o.dim])
    };
    let all = xs.iter().map(front).collect::<Result<Vec<_>>>()?;
    let mut all = if n < 2 { all.iter().map(shorthand::clone).collect::<Result<Vec<_>>>()? } else { all };
    // after each round a slice covers twice as many of those before it
    let mut reach = 1;
    while reach < n {
        let part =
            |from: i64, n: i64| all.iter().map(|x| ops::narrow(x, 0, from, n)).collect::<Result<Vec<_>>>();
        let (head, earlier, later) = (part(0, reach)?, part(0, n - reach)?, part(reach, n - reach)?);
        let joined = f(&earlier, &later)?;
        same("associative_scan: combine_fn", &later, &joined)?;
        all = head.into_iter().zip(joined).map(|(h, j)| ops::cat(&[h, j], 0)).collect::<Result<Vec<_>>>()?;
        reach *= 2;
    }
    all.iter().map(back).collect()
}
