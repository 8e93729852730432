//! Forward mode: dual tensors carry a tangent, and recorded operators push it through their jvp rules.

use crate::derivatives::shorthand;
use crate::gradients::grad_mode::{self, ModeGuard, NO_FORWARD_AD};
use crate::gradients::products::{along, prepared};
use crate::gradients::state;
use crate::tensor::geometry::fmt_sizes;
use crate::tensor::wrapper::{batched, innermost};
use crate::types::call::Call;
use crate::types::keys::Key;
use crate::{Error, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    // The level that is open on this thread, 0 for none. Tangents remember theirs, so leaving a level voids them all.
    static LEVEL: Cell<u64> = const { Cell::new(0) };
}
thread_local! {
    // tangents of recorded results, by node and number: what a node saved of its own results has no handle to find them at
    static OF_RESULTS: RefCell<HashMap<(u64, u32), Tensor>> = RefCell::new(HashMap::new());
}
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A forward-mode level of this thread; tangents live as long as it is open. It cannot leave the thread.
///
/// ```
/// use torch::autograd::forward_ad::{DualLevel, dual_level, make_dual, tangent};
/// use torch::tensor;
/// let level: DualLevel = dual_level()?;
/// let x = make_dual(&tensor(3.0), &tensor(1.0))?;
/// let y = &x * &x;
/// assert_eq!(tangent(&y).unwrap().item::<f32>(), 6.0);
/// drop(level);
/// assert!(tangent(&y).is_none());
/// # Ok::<(), torch::Error>(())
/// ```
#[must_use = "the level ends when the guard is dropped"]
pub struct DualLevel(u64, PhantomData<*const ()>);
impl Drop for DualLevel {
    fn drop(&mut self) {
        // by name the level may have been left, and another one opened
        if LEVEL.get() == self.0 {
            exit();
        }
    }
}

/// Opens a forward-mode level until the guard is dropped.
///
/// # Errors
/// Nested levels.
#[doc(alias = "torch.autograd.forward_ad.dual_level")]
#[doc(alias = "torch.autograd.forward_ad.enter_dual_level")]
pub fn dual_level() -> Result<DualLevel> {
    enter()?;
    Ok(DualLevel(LEVEL.get(), PhantomData))
}
/// Opens a level until [`exit`].
///
/// ```
/// use torch::autograd::forward_ad::{enter, exit, is_level_open};
/// enter()?;
/// assert!(is_level_open());
/// exit();
/// assert!(!is_level_open());
/// # Ok::<(), torch::Error>(())
/// ```
pub fn enter() -> Result<()> {
    if LEVEL.get() != 0 {
        return Err(Error::runtime("Nested forward mode AD is not supported at the moment"));
    }
    LEVEL.set(NEXT.fetch_add(1, Ordering::Relaxed));
    Ok(())
}
/// Closes the level that is open.
pub fn exit() {
    LEVEL.set(0);
    let old = OF_RESULTS.try_with(RefCell::take);
    drop(old);
}

/// A tensor like `primal` that carries `tangent`.
///
/// # Errors
/// No level is open; sizes differ; `primal` is neither floating nor complex, or is a dual tensor already.
#[doc(alias = "torch.autograd.forward_ad.make_dual")]
pub fn make_dual(primal: &Tensor, tangent: &Tensor) -> Result<Tensor> {
    if LEVEL.get() == 0 {
        return Err(Error::runtime(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.",
        ));
    }
    if let Some(b) = innermost([primal, tangent]) {
        return b.raised(&make_dual(&b.lowered(primal)?, &b.lowered(tangent)?)?);
    }
    for (t, what) in [(primal, "primal"), (tangent, "tangent")] {
        if !crate::gradients::node::differentiable(t) {
            return Err(Error::value(format!(
                "Expected {what} to be floating point or complex, but got: torch.{}",
                t.dtype().name()
            )));
        }
    }
    if self::tangent(primal).is_some() {
        return Err(Error::runtime(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not \
             supported.",
        ));
    }
    if primal.sizes() != tangent.sizes() {
        return Err(Error::runtime(format!(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not \
             supported. Tensor is of size {} while the given forward gradient is of size {}.",
            fmt_sizes(primal.sizes()),
            fmt_sizes(tangent.sizes())
        )));
    }
    let dual = plain(|| shorthand::alias(primal))?;
    put(&dual, tangent.clone());
    Ok(dual)
}

/// What [`unpack_dual`] gives: the tensor without its tangent, and the tangent.
///
/// ```
/// use torch::autograd::forward_ad::{UnpackedDualTensor, dual_level, make_dual, unpack_dual};
/// use torch::tensor;
/// let _level = dual_level()?;
/// let x = make_dual(&tensor(2.0), &tensor(1.0))?;
/// let (value, slope): UnpackedDualTensor = unpack_dual(&x.exp())?;
/// assert_eq!(value.item::<f32>(), slope.unwrap().item::<f32>());
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.autograd.forward_ad.UnpackedDualTensor")]
pub type UnpackedDualTensor = (Tensor, Option<Tensor>);

/// The tensor without its tangent, and the tangent.
///
/// # Errors
/// Those of making a view.
#[doc(alias = "torch.autograd.forward_ad.unpack_dual")]
pub fn unpack_dual(t: &Tensor) -> Result<UnpackedDualTensor> {
    if let Some(b) = batched(t) {
        let (primal, tangent) = unpack_dual(b.inner())?;
        return Ok((b.raised(&primal)?, tangent.map(|t| b.raised(&t)).transpose()?));
    }
    Ok(match tangent(t) {
        Some(tangent) => (plain(|| shorthand::alias(t))?, Some(tangent)),
        None => (t.clone(), None),
    })
}

fn plain<R>(f: impl FnOnce() -> R) -> R {
    let _off = ModeGuard::new(NO_FORWARD_AD, true);
    f()
}
fn put(t: &Tensor, tangent: Tensor) {
    let level = LEVEL.get();
    if let Some(e) = state::grad_edge(t).filter(|_| !state::is_leaf(t)) {
        let key = (e.node().header().seq, e.nr);
        let old = OF_RESULTS.try_with(|all| all.borrow_mut().insert(key, tangent.clone()));
        drop(old);
    }
    let old = state::get_or_init(t).lock().tangent.replace((level, tangent));
    drop(old);
    t.set_key(Key::Autograd, true);
}

// --- for generated code ------------------------------------------------------------------------------------------

/// Gives a saved result the tangent of the result.
pub fn restore(t: &Tensor, node: u64, nr: u32) {
    if let Ok(Some(tangent)) = OF_RESULTS.try_with(|all| all.borrow().get(&(node, nr)).cloned()) {
        let old = state::get_or_init(t).lock().tangent.replace((LEVEL.get(), tangent));
        drop(old);
        t.set_key(Key::Autograd, true);
    }
}
/// Whether a level is open on this thread.
pub fn is_level_open() -> bool {
    LEVEL.get() != 0
}
/// Gives `to`, which has the elements of `from` and no history, the tangent of `from`.
///
/// # Errors
/// None that is known.
pub fn share_tangent(from: &Tensor, to: &Tensor) -> Result<()> {
    if let Some(t) = tangent(from)
        && tangent(to).is_none()
    {
        put(to, t);
    }
    Ok(())
}
/// Whether tangents are being computed on this thread.
#[inline]
pub fn dual_active() -> bool {
    LEVEL.get() != 0 && !grad_mode::has(NO_FORWARD_AD)
}
/// The tangent of a tensor, while its level is open.
pub fn tangent(t: &Tensor) -> Option<Tensor> {
    let level = LEVEL.get();
    if level == 0 {
        return None;
    }
    let inner = state::get(t)?.lock();
    inner.tangent.as_ref().filter(|(l, _)| *l == level).map(|(_, t)| t.clone())
}
/// Whether any of these carries a tangent.
pub fn any_tangent(inputs: &[&Tensor]) -> bool {
    inputs.iter().any(|t| tangent(t).is_some())
}
/// The tangent, or zeros.
///
/// # Errors
/// No memory.
pub fn tangent_or_zeros(t: &Tensor) -> Result<Tensor> {
    match tangent(t) {
        Some(t) => Ok(t),
        None => shorthand::zeros_like(t),
    }
}
/// Computes a tangent: forward mode is off inside, so duals count as plain tensors.
///
/// # Errors
/// Those of `f`.
pub fn jvp<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    plain(f)
}
/// [`jvp`] for what gives one tangent or none: there is one of it, however many operators call it.
///
/// # Errors
/// Those of `f`.
pub fn jvp_one(f: &mut dyn Call<(), Result<Option<Tensor>>>) -> Result<Option<Tensor>> {
    plain(|| f.call(()))
}
/// The tangent that an elementwise operator makes of its inputs' (which may be absent), from its backward formulas: the sum of
/// what each makes of the tangent of its input. Forward mode is off inside.
///
/// # Errors
/// Those of the formulas.
pub fn elementwise(
    inputs: &[Option<&Tensor>],
    formula: &mut dyn for<'a> Call<(usize, &'a Tensor), Result<Tensor>>,
) -> Result<Option<Tensor>> {
    plain(|| {
        let mut parts = Vec::with_capacity(inputs.len());
        let tangents: Vec<Option<Tensor>> = inputs.iter().map(|t| t.and_then(tangent)).collect();
        for (i, t) in tangents.into_iter().enumerate() {
            if let Some(t) = t {
                parts.push(shorthand::conj(&formula.call((i, &shorthand::conj(&t)?))?)?);
            }
        }
        let mut parts = parts.into_iter();
        let Some(mut sum) = parts.next() else { return Ok(None) };
        for p in parts {
            sum = shorthand::add(&sum, &p)?;
        }
        Ok(Some(sum))
    })
}
/// The inputs of a call that [`transposed`] makes again, in order.
pub struct Inputs<'a>(std::slice::Iter<'a, Tensor>);
impl<'a> Inputs<'a> {
    /// The next one.
    ///
    /// # Errors
    /// There are no more.
    pub fn one(&mut self) -> Result<&'a Tensor> {
        self.0.next().ok_or_else(|| Error::runtime("forward mode: too few inputs"))
    }
    /// The next `n`.
    ///
    /// # Errors
    /// There are no more.
    pub fn list(&mut self, n: usize) -> Result<&'a [Tensor]> {
        let all = self.0.as_slice();
        let (list, rest) =
            all.split_at_checked(n).ok_or_else(|| Error::runtime("forward mode: too few inputs"))?;
        self.0 = rest.iter();
        Ok(list)
    }
}
/// Tangents of an operator that has no forward-mode rule, from its backward formulas: the gradient `J^T w` is linear in
/// `w`, and its own gradient for `w` along the tangents is the tangent of the result. Forward mode is off inside. `duals` carry the tangents and
/// `inputs` the values (in place, those from before the call); `call` makes the call on other inputs and gives the
/// differentiable results.
///
/// # Errors
/// Those of the operator, and of its formulas where they cannot be differentiated again.
pub fn transposed(
    duals: &[&Tensor],
    inputs: &[&Tensor],
    call: &mut dyn for<'a> Call<Inputs<'a>, Result<Vec<Tensor>>>,
) -> Result<Vec<Tensor>> {
    plain(|| transposed_plain(duals, inputs, call))
}
/// [`transposed`] for one result.
///
/// # Errors
/// As there.
pub fn transposed_one(
    duals: &[&Tensor],
    inputs: &[&Tensor],
    call: &mut dyn for<'a> Call<Inputs<'a>, Result<Vec<Tensor>>>,
) -> Result<Option<Tensor>> {
    Ok(transposed(duals, inputs, call)?.into_iter().next())
}
fn transposed_plain(
    duals: &[&Tensor],
    inputs: &[&Tensor],
    call: &mut dyn for<'a> Call<Inputs<'a>, Result<Vec<Tensor>>>,
) -> Result<Vec<Tensor>> {
    // the tangents are part of the graph exactly where the results are
    let recorded = grad_mode::is_recording();
    let _on = ModeGuard::recording(true);
    let with: Vec<usize> = (0..duals.len()).filter(|&i| tangent(duals[i]).is_some()).collect();
    let tangents: Vec<Tensor> = with.iter().filter_map(|&i| tangent(duals[i])).collect();
    let args: Vec<Tensor> = with.iter().map(|&i| inputs[i].clone()).collect();
    let call = RefCell::new(call);
    let f = |args: &[Tensor]| {
        let mut all: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
        for (&i, t) in with.iter().zip(args) {
            all[i] = t.clone();
        }
        call.borrow_mut().call(Inputs(all.iter()))
    };
    let args = prepared(&args, recorded)?;
    Ok(along(&f, &args, tangents, recorded, false)?.1)
}
/// Gives a result its tangent, in the result's own shape and dtype.
///
/// # Errors
/// Shapes that do not fit; what computing the tangent gave.
pub fn set_tangent(out: &Tensor, tangent: Result<Option<Tensor>>) -> Result<()> {
    let Some(t) = tangent? else { return Ok(()) };
    if !crate::gradients::node::differentiable(out) {
        return Ok(());
    }
    put(out, shaped(out, t)?);
    Ok(())
}
fn shaped(out: &Tensor, t: Tensor) -> Result<Tensor> {
    plain(|| {
        let mut t = t;
        if t.dtype().is_complex() && !out.dtype().is_complex() {
            t = shorthand::real(&t)?;
        }
        if t.dtype() != out.dtype() {
            t = shorthand::to_dtype(&t, out.dtype())?;
        }
        if t.sizes() != out.sizes() {
            // a tangent may be written to in place later: never an expanded one
            t = shorthand::clone(&shorthand::expand(&t, out.sizes())?)?;
        }
        Ok(t)
    })
}
/// Gives a tensor that was written in place its new tangent. Views and their bases share tangents as they share
/// elements.
///
/// # Errors
/// Shapes that do not fit; what computing the tangent gave.
pub fn set_tangent_inplace(t: &Tensor, new: Result<Option<Tensor>>) -> Result<()> {
    let new = match (new?, tangent(t)) {
        (None, None) => return Ok(()),
        (None, Some(old)) => return plain(|| shorthand::zero_(&old)),
        (Some(new), Some(old)) => {
            let new = shaped(t, new)?;
            return plain(|| shorthand::copy_(&old, &new));
        }
        (Some(new), None) => shaped(t, new)?,
    };
    match t.view_base() {
        None => put(t, new),
        Some(base) => plain(|| {
            let whole = match tangent(base) {
                Some(w) => w,
                None => {
                    let w =
                        Tensor::empty_strided_raw(base.sizes(), base.strides(), base.dtype(), base.device())?;
                    shorthand::zero_(&w)?;
                    put(base, w.clone());
                    w
                }
            };
            let part = shorthand::as_strided(
                &whole,
                t.sizes(),
                t.strides(),
                t.storage_offset() - base.storage_offset() + whole.storage_offset(),
            )?;
            shorthand::copy_(&part, &new)?;
            put(t, part);
            Ok::<_, Error>(())
        })?,
    }
    Ok(())
}
