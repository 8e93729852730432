//! Calls on few elements, where the way to the kernel costs more than the kernel: operands that lie densely and agree in
//! sizes and dtype, or of which one is a number. Whatever needs a decision beyond that takes the general way.

use crate::DType;
use crate::iter::spec::{PointwiseSpec, Promote, Rare};
use crate::tensor::handle::Tensor;
use crate::tensor::storage::busy;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::thread_keys;
use flambeau_cpu::pointwise::{Loop, Param};
use flambeau_memory::Few;
use std::mem::MaybeUninit;

/// Beyond this many elements threads and streaming stores may pay off.
const FEW: i64 = 4096;
/// Bytes of a result that is made beside the tensor it is for, since a kernel's output overlaps no input.
const ASIDE: usize = 1024;

#[repr(align(64))]
struct Aside(MaybeUninit<[u8; ASIDE]>);

/// What a call needs beyond its operands.
pub(crate) struct Way {
    l: Loop,
    /// The input that is a number; the number of inputs if none is.
    number: usize,
}

/// The way for these inputs and `P` scalar arguments, if they are such and as many as the loop reads.
#[inline(always)]
pub(crate) fn way<const N: usize, const P: usize>(
    spec: &PointwiseSpec,
    inputs: &[&Tensor; N],
) -> Option<Way> {
    let a = inputs[0];
    let mut alike = a.is_plain();
    for i in 1..N {
        let t = inputs[i];
        alike = alike && t.is_plain() && t.dtype() == a.dtype() && t.same_sizes(a);
    }
    let number = if alike { N } else { number(spec, inputs)? };
    let a = inputs[usize::from(number == 0)];
    let d = a.dtype();
    if a.numel() > FEW
        || (spec.promote == Promote::Divide && d.is_integral(true))
        || spec.compute_of_same(d) != d
        || Rare::of(d) != Rare::NONE
    {
        return None;
    }
    let l = spec.find(d)?;
    for i in 0..N {
        if l.ins[i] != d {
            return None;
        }
    }
    (l.run.takes(N, P) && l.run.works_as_it_lies(form(a, number, N))).then_some(Way { l, number })
}

/// Which of two inputs is a number of a kind that does not change the other's dtype.
#[inline(never)]
fn number<const N: usize>(spec: &PointwiseSpec, inputs: &[&Tensor; N]) -> Option<usize> {
    if N != 2
        || !matches!(
            spec.promote,
            Promote::Default | Promote::IntToFloat | Promote::Divide | Promote::Reversed
        )
    {
        return None;
    }
    let fits = |t: &Tensor, s: &Tensor| {
        t.is_plain()
            && s.is_plain_number()
            && match t.dtype() {
                DType::F32 | DType::F64 => matches!(s.dtype(), DType::F64 | DType::I64 | DType::Bool),
                DType::I64 | DType::I32 => matches!(s.dtype(), DType::I64 | DType::Bool),
                _ => false,
            }
    };
    match (fits(inputs[0], inputs[1]), fits(inputs[1], inputs[0])) {
        (true, _) => Some(1),
        (_, true) => Some(0),
        _ => None,
    }
}

/// The kernel's form: one element needs none.
#[inline(always)]
fn form(a: &Tensor, number: usize, inputs: usize) -> u8 {
    if number == inputs || a.numel() == 1 { 0 } else { number as u8 + 1 }
}

/// Where each input begins; a number is put into `buf` in the dtype of the other input.
///
/// # Safety
/// The inputs are held, and `way` let them through.
#[inline(always)]
unsafe fn pointers<const N: usize>(
    inputs: &[&Tensor; N],
    d: DType,
    number: usize,
    buf: &mut [u8; 8],
) -> [*const u8; 3] {
    let size = d.size();
    let mut p = [std::ptr::null::<u8>(); 3];
    for i in 0..N {
        let t = inputs[i];
        let at = t.storage().ptr();
        p[i] = if i == number {
            // SAFETY: a number is one element of its dtype, held by the caller.
            unsafe {
                read_number(
                    at.wrapping_add(t.storage_offset() as usize * t.dtype().size()),
                    t.dtype(),
                    d,
                    buf,
                )
            };
            buf.as_ptr()
        } else {
            // views are checked against their storage when made, and storages never shrink
            at.wrapping_add(t.storage_offset() as usize * size)
        };
    }
    p
}

/// # Safety
/// `at` is one readable element of dtype `from`.
#[inline(never)]
unsafe fn read_number(at: *const u8, from: DType, to: DType, buf: &mut [u8; 8]) {
    // SAFETY: the caller's promise.
    let (float, int) = unsafe {
        match from {
            DType::F64 => (at.cast::<f64>().read_unaligned(), 0),
            DType::I64 => (0.0, at.cast::<i64>().read_unaligned()),
            _ => (0.0, i64::from(*at != 0)),
        }
    };
    let is_float = from == DType::F64;
    match to {
        DType::F32 => {
            let v = if is_float { float as f32 } else { int as f32 };
            buf[..4].copy_from_slice(&v.to_ne_bytes());
        }
        DType::F64 => *buf = if is_float { float } else { int as f64 }.to_ne_bytes(),
        DType::I32 => buf[..4].copy_from_slice(&(int as i32).to_ne_bytes()),
        _ => *buf = int.to_ne_bytes(),
    }
}

/// Holds on the inputs, on the one at `write` for writing.
#[inline(always)]
fn hold<'a, const N: usize>(inputs: &[&'a Tensor; N], write: usize) -> Result<Few<'a>> {
    let mut locks = [inputs[0].storage().lock(); N];
    for i in 1..N {
        locks[i] = inputs[i].storage().lock();
    }
    Few::new(locks, write).map_err(busy)
}

/// Into a fresh tensor.
#[inline(always)]
pub(crate) fn fresh<const N: usize>(way: &Way, inputs: &[&Tensor; N], params: &[Param]) -> Result<Tensor> {
    let a = inputs[usize::from(way.number == 0)];
    let out = a.fresh_like(way.l.out)?;
    let _held = hold(inputs, N)?;
    let mut buf = [0; 8];
    // SAFETY: the inputs are held; all operands have `numel` elements of the loop's dtypes, densely; the output is fresh,
    // so it overlaps nothing.
    unsafe {
        let ins = pointers(inputs, a.dtype(), way.number, &mut buf);
        let form = form(a, way.number, N);
        way.l.run.call_dense(out.storage().ptr(), ins, a.numel() as usize, params.as_ptr(), form);
    }
    Ok(out)
}

/// Into the first input. False, with nothing done, where that needs more care.
#[inline(always)]
pub(crate) fn in_place<const N: usize>(way: &Way, inputs: &[&Tensor; N], params: &[Param]) -> Result<bool> {
    let out = inputs[0];
    let (n, size) = (out.numel() as usize, out.dtype().size());
    // what shares the storage must be the very same elements
    let mut apart = true;
    for i in 1..N {
        let t = inputs[i];
        apart &= !t.storage().same(out.storage()) || t.storage_offset() == out.storage_offset();
    }
    if way.number == 0 || way.l.out != out.dtype() || n * size > ASIDE || !apart {
        return Ok(false);
    }
    let _held = hold(inputs, 0)?;
    let mut buf = [0; 8];
    let mut aside = Aside(MaybeUninit::uninit());
    let result = aside.0.as_mut_ptr().cast::<u8>();
    // SAFETY: the output is held exclusively, the inputs at least shared; all operands have `n` elements of one dtype,
    // densely; the buffer holds `n` of them, overlaps nothing, and the kernel writes all before they are copied.
    unsafe {
        let ins = pointers(inputs, out.dtype(), way.number, &mut buf);
        way.l.run.call_dense(result, ins, n, params.as_ptr(), form(out, way.number, N));
        let to = out.storage().ptr().add(out.storage_offset() as usize * size);
        std::ptr::copy_nonoverlapping(result, to, n * size);
    }
    Ok(true)
}

/// See [`add_unshared`](crate::backend::pointwise::add_unshared).
pub(crate) fn add_unshared(sum: &mut Tensor, g: &mut Tensor) -> bool {
    let (d, n, size) = (sum.dtype(), sum.numel() as usize, sum.dtype().size());
    let keys = thread_keys::effective(sum.key_set() | g.key_set());
    if keys != KeySet::of(Key::Cpu)
        || n * size > ASIDE
        || g.dtype() != d
        || !g.is_plain()
        || !sum.same_sizes(g)
        || !sum.is_unshared()
    {
        return false;
    }
    let Some(l) = flambeau_cpu::pointwise::ADD.find(d) else { return false };
    if l.out != d || l.ins[0] != d || l.ins[1] != d || !l.run.works_as_it_lies(0) {
        return false;
    }
    let mut aside = Aside(MaybeUninit::uninit());
    let result = aside.0.as_mut_ptr().cast::<u8>();
    let params = [Param::from(1i64)];
    let _held = if g.is_unshared() {
        None
    } else {
        match Few::new([g.storage().lock()], 1) {
            Ok(held) => Some(held),
            Err(_) => return false,
        }
    };
    // SAFETY: `sum` is borrowed exclusively and no other handle reaches its memory, so nobody else reads or writes it;
    // the same goes for `g`, or it is held, and its memory is another; all operands have `n` elements of one dtype, densely; the buffer holds `n` of them, overlaps nothing,
    // and the kernel writes all before they are copied.
    unsafe {
        let to = sum.storage().ptr().add(sum.storage_offset() as usize * size);
        let from = g.storage().ptr().add(g.storage_offset() as usize * size);
        l.run.call_dense(result, [to, from, std::ptr::null()], n, params.as_ptr(), 0);
        std::ptr::copy_nonoverlapping(result, to, n * size);
    }
    true
}
