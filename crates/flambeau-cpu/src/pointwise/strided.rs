//! The driver that takes a strided run to a contiguous kernel. It knows no types: halves are widened, strided operands
//! gathered, results narrowed, scattered or streamed in blocks that stay in the first-level cache. So a formula is
//! compiled once per working dtype, whatever the layout of its operands.

use std::mem::MaybeUninit;

use super::convert::Conv;
use super::{Param, STREAM};
use crate::engine::cache::{prefetch, stream_copy, stream_fence};
use crate::engine::isa::{self, Isa, Job, Level};

/// A contiguous kernel; see `loops::body`. Its output overlaps no input.
pub(crate) type Kernel =
    unsafe fn(out: &mut [MaybeUninit<u8>], ins: [*const u8; 3], n: usize, params: *const Param, form: u8);
/// The form of kernels without forms of their own that run on blocks, since memory is not dense.
pub(crate) const APART: u8 = 3;
/// Fits a scalar argument to the dtype.
pub(crate) type Prepare = fn(Param) -> Param;

/// An operand of a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// Size of the kernel's element.
    pub work: u8,
    /// Conversion from memory.
    pub conv: Conv,
}
impl Slot {
    /// Size of the memory element.
    fn size(&self) -> usize {
        let (mem, work) = self.conv.sizes();
        self.work as usize * mem / work
    }
    /// Lanes of the conversion in an element.
    fn lanes(&self) -> usize {
        self.work as usize / self.conv.sizes().1
    }
}

/// A loop over a 1-D run: a kernel, and how memory differs from what it works on.
#[derive(Clone, Copy)]
pub struct LoopFn {
    /// `None` copies elements.
    pub(crate) kernel: Option<Kernel>,
    pub(crate) prepare: Option<Prepare>,
    pub(crate) inputs: u8,
    pub(crate) params: u8,
    pub(crate) forms: bool,
    pub(crate) out: Slot,
    pub(crate) ins: [Slot; 3],
}
impl LoopFn {
    /// Whether it reads that many inputs and that many scalar arguments, no more.
    #[inline(always)]
    pub fn takes(&self, inputs: usize, params: usize) -> bool {
        usize::from(self.inputs) == inputs && usize::from(self.params) <= params
    }
    /// Sizes of the inputs' elements in memory, 0 where there is no input.
    pub fn input_sizes(&self) -> [usize; 3] {
        std::array::from_fn(|k| if k < self.inputs as usize { self.ins[k].size() } else { 0 })
    }
    /// The size of the elements, if the loop only copies them.
    pub fn copies(&self) -> Option<usize> {
        if self.kernel.is_none() { Some(self.out.work as usize) } else { None }
    }
    /// Runs `n` elements. `ptrs`: the output first, then the inputs; `strides` in bytes, in the same order; `flags`: 0
    /// or [`STREAM`].
    ///
    /// # Safety
    /// Every pointer must be valid and aligned for `n` elements of its dtype at its stride; the output may be the very
    /// same run as an input (in place) and must not overlap one otherwise; `params` points to as many values as the
    /// formula names.
    #[inline]
    pub unsafe fn call(
        &self,
        ptrs: *const *mut u8,
        strides: *const isize,
        n: usize,
        params: *const Param,
        flags: u32,
    ) {
        // SAFETY: same contract.
        unsafe { self.call_unfenced(ptrs, strides, n, params, flags) };
        finish(flags);
    }
    /// [`LoopFn::call`] for one of many runs: [`finish`] comes after the last, before other threads may read the output.
    ///
    /// # Safety
    /// As for [`LoopFn::call`].
    pub unsafe fn call_unfenced(
        &self,
        ptrs: *const *mut u8,
        strides: *const isize,
        n: usize,
        params: *const Param,
        flags: u32,
    ) {
        let Some(kernel) = self.kernel else {
            // SAFETY: the caller passes an output and an input.
            return unsafe {
                copy_run(*ptrs, *strides, *ptrs.add(1), *strides.add(1), n, self.out.work as usize, flags)
            };
        };
        let Some(prepare) = self.prepare else {
            // SAFETY: same contract.
            return unsafe { run_strided(self, kernel, ptrs, strides, n, params, flags) };
        };
        let mut p = [Param::default(); 3];
        for (k, p) in p.iter_mut().enumerate().take(self.params as usize) {
            // SAFETY: the caller passes that many parameters.
            *p = prepare(unsafe { *params.add(k) });
        }
        // SAFETY: same contract.
        unsafe { run_strided(self, kernel, ptrs, strides, n, p.as_ptr(), flags) }
    }
    /// Whether the kernel works on memory as it lies: no halves, no small integers. `form` 1 or 2: with a single element
    /// for that input.
    #[inline]
    pub fn works_as_it_lies(&self, form: u8) -> bool {
        self.kernel.is_some()
            && self.out.conv == Conv::None
            && self.ins.iter().all(|s| s.conv == Conv::None)
            && (form == 0 || self.forms)
    }
    /// Runs `n` elements that lie densely, where [`LoopFn::works_as_it_lies`]; elsewhere does nothing.
    ///
    /// # Safety
    /// Every pointer must be valid and aligned for `n` elements of its dtype (for one, where `form` says so), and the
    /// output must overlap no input; `params` as for [`LoopFn::call`].
    #[inline]
    pub unsafe fn call_dense(
        &self,
        out: *mut u8,
        ins: [*const u8; 3],
        n: usize,
        params: *const Param,
        form: u8,
    ) {
        let Some(kernel) = self.kernel.filter(|_| n > 0 && self.works_as_it_lies(form)) else { return };
        let Some(prepare) = self.prepare else {
            // SAFETY: the caller's promise.
            return unsafe { kernel(dense(out, n, self.out.work), ins, n, params, form) };
        };
        let mut p = [Param::default(); 3];
        for (k, p) in p.iter_mut().enumerate().take(self.params as usize) {
            // SAFETY: the caller passes that many parameters.
            *p = prepare(unsafe { *params.add(k) });
        }
        // SAFETY: the caller's promise.
        unsafe { kernel(dense(out, n, self.out.work), ins, n, p.as_ptr(), form) }
    }
}
/// Orders streamed stores before whatever publishes the output. It waits for them: once per task, not per run.
#[inline]
pub fn finish(flags: u32) {
    if flags & STREAM != 0 {
        stream_fence();
    }
}
impl std::fmt::Debug for LoopFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoopFn({} inputs, {:?} to {:?})", self.inputs, self.ins[0].conv, self.out.conv)
    }
}

/// Elements per block of a long run that is computed in place or streamed: while one block's results are on their way to
/// memory, the machine reads the next one ahead, which it does not across long blocks.
const SHORT_BLOCK: usize = 256;
/// The same of dense runs in place, whose results are written where the operand just was: each block is a call.
const IN_PLACE_BLOCK: usize = 1024;
/// Elements from which that pays: shorter runs lie in the caches, where each block costs.
const LONG: usize = 1 << 15;
/// Bytes of a block of the widest elements. Narrow ones take less, so that all operands' blocks stay in the first-level cache.
const BLOCK: usize = 8192;
/// Elements per block: few enough for the widest operand, in memory and in the kernel.
fn block_of(d: &LoopFn) -> usize {
    let widest = |s: &Slot| s.size().max(s.work as usize);
    let size = d.ins[..d.inputs as usize].iter().map(widest).fold(widest(&d.out), usize::max);
    BLOCK / size.max(8)
}
/// A block of elements.
#[repr(C, align(64))]
struct Buffer([MaybeUninit<u8>; BLOCK]);
impl Buffer {
    #[inline(always)]
    fn new() -> Self {
        Buffer([MaybeUninit::uninit(); BLOCK])
    }
    #[inline(always)]
    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The output of `n` elements of `size` bytes.
///
/// # Safety
/// The run must be valid, and nothing else may refer to it meanwhile.
#[inline(always)]
unsafe fn dense<'a>(out: *mut u8, n: usize, size: u8) -> &'a mut [MaybeUninit<u8>] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(out.cast(), n * size as usize) }
}

/// Runs `n` elements; the contract is that of [`LoopFn::call`].
unsafe fn run_strided(
    d: &LoopFn,
    kernel: Kernel,
    ptrs: *const *mut u8,
    strides: *const isize,
    n: usize,
    params: *const Param,
    flags: u32,
) {
    if n == 0 {
        return;
    }
    let k = d.inputs as usize;
    // SAFETY: the caller passes 1 + inputs pointers and strides.
    let (out, so) = unsafe { (*ptrs, *strides) };
    let mut ins = [std::ptr::null::<u8>(); 3];
    let mut si = [0isize; 3];
    for j in 0..k {
        // SAFETY: as above.
        (ins[j], si[j]) = unsafe { (*ptrs.add(1 + j) as *const u8, *strides.add(1 + j)) };
    }
    let dense_out = so == d.out.size() as isize;
    let plain_out = dense_out && d.out.conv == Conv::None;
    let mut plain = [true; 3];
    let mut in_place = false;
    for j in 0..k {
        plain[j] = si[j] == d.ins[j].size() as isize && d.ins[j].conv == Conv::None;
        in_place |= std::ptr::eq(ins[j], out);
    }
    let form = match (k, n) {
        (2, 2..) if d.forms && si[0] == 0 && si[1] != 0 => 1,
        (2, 2..) if d.forms && si[1] == 0 && si[0] != 0 => 2,
        _ => 0u8,
    };
    let stream =
        flags & STREAM != 0 && plain_out && !in_place && (out as usize).is_multiple_of(d.out.work as usize);
    let direct = plain_out && !in_place && !stream;
    if direct && form == 0 && plain[..k].iter().all(|p| *p) {
        // SAFETY: all operands are dense runs of the kernel's elements.
        return unsafe { kernel(dense(out, n, d.out.work), ins, n, params, 0) };
    }
    // SAFETY: same contract.
    unsafe { blocks(d, kernel, out, so, ins, si, plain, n, params, form, direct, stream) }
}

#[inline(never)]
unsafe fn blocks(
    d: &LoopFn,
    kernel: Kernel,
    out: *mut u8,
    so: isize,
    ins: [*const u8; 3],
    si: [isize; 3],
    plain: [bool; 3],
    n: usize,
    params: *const Param,
    form: u8,
    direct: bool,
    stream: bool,
) {
    let mut bufs = [Buffer::new(), Buffer::new(), Buffer::new()];
    let mut result = Buffer::new();
    let mut raw = Buffer::new();
    let (result, raw) = (result.ptr(), raw.ptr());
    let k = d.inputs as usize;
    let in_place = ins[..k].iter().any(|p| std::ptr::eq(*p, out));
    let spread = (0..k).any(|j| si[j] != 0 && si[j] != d.ins[j].size() as isize);
    let most = match n >= LONG {
        true if stream || spread => SHORT_BLOCK,
        true if in_place => IN_PLACE_BLOCK,
        _ => BLOCK,
    };
    let block = block_of(d).min(most);
    let mut at = [std::ptr::null::<u8>(); 3];
    for j in 0..k {
        at[j] = bufs[j].ptr();
        if si[j] == 0 {
            // One value for the whole run: widened once, and repeated unless the kernel takes it as a scalar. The copy
            // also keeps it from being overwritten half way when the output is in place.
            let count = if form == j as u8 + 1 { 1 } else { n.min(block) };
            // SAFETY: the source is one element, the buffers hold a block of the widest.
            unsafe { load(&d.ins[j], bufs[j].ptr(), ins[j], 0, count, raw) };
        }
    }
    // Only scalars and dense runs, all readable in place: one call does it.
    if direct && (0..k).all(|j| plain[j] || form == j as u8 + 1) {
        let src = std::array::from_fn(|j| if form == j as u8 + 1 { at[j] } else { ins[j] });
        // SAFETY: all operands are dense runs of the kernel's elements, or the scalar of this form.
        return unsafe { kernel(dense(out, n, d.out.work), src, n, params, form) };
    }
    let dense_run = |s: &Slot, stride: isize| n == 1 || stride == s.size() as isize;
    let apart = !dense_run(&d.out, so) || !(0..k).all(|j| dense_run(&d.ins[j], si[j]));
    let form = if form == 0 && apart { APART } else { form };
    // A first short block brings a streamed output to a cache line.
    let mut size = if stream { (out.align_offset(64) / d.out.work as usize).min(block) } else { 0 };
    let mut i = 0;
    while i < n {
        let m = (if size == 0 { block } else { size }).min(n - i);
        let short = size != 0;
        size = 0;
        let mut src = at;
        for j in 0..k {
            // SAFETY: `i + m <= n`, so these elements exist; buffers hold a block of the widest.
            unsafe {
                let from = ins[j].offset(i as isize * si[j]);
                if plain[j] {
                    src[j] = from;
                } else if si[j] != 0 {
                    load(&d.ins[j], at[j] as *mut u8, from, si[j], m, raw);
                }
            }
        }
        // SAFETY: as above; the kernel's output is either the dense output itself or a buffer.
        unsafe {
            let to = out.offset(i as isize * so);
            kernel(dense(if direct { to } else { result }, m, d.out.work), src, m, params, form);
            if direct {
            } else if stream && !short && (to as usize).is_multiple_of(64) {
                stream_copy(result, to, m * d.out.work as usize);
            } else {
                store(&d.out, to, so, result, m, raw);
            }
        }
        i += m;
    }
}

/// Brings `n` strided memory elements into a dense buffer of the kernel's elements.
unsafe fn load(s: &Slot, to: *mut u8, from: *const u8, stride: isize, n: usize, raw: *mut u8) {
    let size = s.size();
    let lanes = s.lanes() * n;
    // SAFETY: `from` has n elements at the stride; `to` and `raw` hold a block of the widest element.
    unsafe {
        if s.conv == Conv::None {
            return gather(to, from, stride, n, size);
        }
        let dense = if stride == size as isize {
            from
        } else {
            gather(raw, from, stride, n, size);
            raw as *const u8
        };
        s.conv.load(dense, to, lanes);
    }
}

/// Brings `n` kernel elements to strided memory.
unsafe fn store(s: &Slot, to: *mut u8, stride: isize, from: *const u8, n: usize, raw: *mut u8) {
    let size = s.size();
    let lanes = s.lanes() * n;
    let dense = stride == size as isize;
    // SAFETY: `to` has n elements at the stride; `from` and `raw` hold a block of the widest element.
    unsafe {
        let from = if s.conv == Conv::None {
            from
        } else {
            s.conv.store(from, if dense { to } else { raw }, lanes);
            if dense {
                return;
            }
            raw as *const u8
        };
        scatter(to, stride, from, n, size);
    }
}

/// Copies `n` elements of `size` bytes from a strided run to a dense one.
pub(crate) unsafe fn gather(to: *mut u8, from: *const u8, stride: isize, n: usize, size: usize) {
    // SAFETY: the caller vouches for both runs.
    unsafe { copy(to, size as isize, from, stride, n, size) }
}
/// Copies `n` elements of `size` bytes from a dense run to a strided one.
pub(crate) unsafe fn scatter(to: *mut u8, stride: isize, from: *const u8, n: usize, size: usize) {
    // SAFETY: the caller vouches for both runs.
    unsafe { copy(to, stride, from, size as isize, n, size) }
}

/// Elements gathered at a time.
const CHUNK: usize = 16;
/// How many elements ahead of a gather memory is asked for: several streams alternate block by block, which the
/// machine's own prefetching does not follow across pages.
const AHEAD: usize = 256;

/// Gathers whole chunks into a dense run; returns how many elements that were. At least the last one is left.
///
/// # Safety
/// As [`copy`], with a dense `to`.
#[inline(always)]
unsafe fn chunks<T: Copy>(to: *mut T, from: *const u8, sf: isize, n: usize) -> usize {
    // the stride of a few elements may be anything
    if n <= CHUNK {
        return 0;
    }
    let lines = (CHUNK * sf.unsigned_abs()).div_ceil(64).min(CHUNK);
    let step = CHUNK as isize * sf / lines as isize;
    // SAFETY: the caller vouches for `n` elements at the stride.
    unsafe {
        each_chunk(n, to, |i| {
            let at = from.offset(i as isize * sf);
            for k in 0..lines {
                prefetch(at.wrapping_offset(AHEAD as isize * sf + k as isize * step));
            }
            std::array::from_fn(|k| at.offset(k as isize * sf).cast::<T>().read_unaligned())
        })
    }
}
/// [`chunks`] of every second element, which shuffles of whole vectors gather.
struct Halves<T> {
    to: *mut T,
    from: *const T,
    n: usize,
}
impl<T: Copy> Job for Halves<T> {
    type Out = usize;
    const BEST: Level = Level::V3;
    #[inline(always)]
    fn run<I: Isa>(self) -> usize {
        // SAFETY: the caller of `halves` vouches for `n` elements. A chunk is not the last, so the neighbours of its elements lie
        // inside of the run as well.
        unsafe {
            each_chunk(self.n, self.to, |i| {
                let both = self.from.add(2 * i).cast::<[[T; 2]; CHUNK]>().read_unaligned();
                std::array::from_fn(|k| both[k][0])
            })
        }
    }
}
/// Runs [`Halves`].
///
/// # Safety
/// As [`copy`], with a dense `to` and a stride of two elements.
unsafe fn halves<T: Copy>(to: *mut T, from: *const T, n: usize) -> usize {
    isa::run(Halves { to, from, n })
}
/// Writes chunks while more than one is left; returns how many elements that were.
///
/// # Safety
/// `to` has `n` elements.
#[inline(always)]
unsafe fn each_chunk<T: Copy>(n: usize, to: *mut T, read: impl Fn(usize) -> [T; CHUNK]) -> usize {
    let mut i = 0;
    while i + CHUNK < n {
        // SAFETY: the caller's promise.
        unsafe { to.add(i).cast::<[T; CHUNK]>().write_unaligned(read(i)) };
        i += CHUNK;
    }
    i
}

/// Copies `n` elements of `size` bytes between strided runs.
///
/// # Safety
/// Both runs must be valid, and distinct or the very same.
pub(crate) unsafe fn copy(to: *mut u8, st: isize, from: *const u8, sf: isize, n: usize, size: usize) {
    #[inline(always)]
    unsafe fn typed<T: Copy>(to: *mut u8, st: isize, from: *const u8, sf: isize, n: usize) {
        let w = size_of::<T>() as isize;
        // SAFETY: the caller vouches for both runs.
        unsafe {
            if sf == 0 && st == w {
                let v = from.cast::<T>().read_unaligned();
                for i in 0..n {
                    to.cast::<T>().add(i).write_unaligned(v);
                }
                return;
            }
            let done = match (st == w, sf == 2 * w) {
                (true, true) => halves::<T>(to.cast(), from.cast(), n),
                (true, false) => chunks::<T>(to.cast(), from, sf, n),
                _ => 0,
            };
            for i in done as isize..n as isize {
                let v = from.offset(i * sf).cast::<T>().read_unaligned();
                to.offset(i * st).cast::<T>().write_unaligned(v);
            }
        }
    }
    // SAFETY: as above; equal dense runs are copied as bytes (`copy` allows the very same run).
    unsafe {
        if st == size as isize && sf == st {
            return std::ptr::copy(from, to, n * size);
        }
        match size {
            1 => typed::<u8>(to, st, from, sf, n),
            2 => typed::<u16>(to, st, from, sf, n),
            4 => typed::<u32>(to, st, from, sf, n),
            8 => typed::<u64>(to, st, from, sf, n),
            _ => typed::<[u64; 2]>(to, st, from, sf, n),
        }
    }
}

/// Copies between strided runs, past the caches where `flags` allow it.
///
/// # Safety
/// As [`copy`].
pub(crate) unsafe fn copy_run(
    to: *mut u8,
    st: isize,
    from: *const u8,
    sf: isize,
    n: usize,
    size: usize,
    flags: u32,
) {
    let dense = st == size as isize && sf == st;
    // SAFETY: the caller vouches for both runs; a streamed destination is aligned.
    unsafe {
        if flags & STREAM == 0 || !dense || !(to as usize).is_multiple_of(64) {
            return copy(to, st, from, sf, n, size);
        }
        stream_copy(from, to, n * size);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_of_every_size_are_gathered() {
        fn check<T: Copy + PartialEq + std::fmt::Debug + Default>(make: impl Fn(usize) -> T) {
            let x: Box<[T]> = (0..200).map(make).collect();
            for n in [0, 1, 2, 15, 16, 17, 18, 33, 40] {
                for stride in [2isize, 3, 5, -1, -2] {
                    // the last element is the last of the allocation: whoever reads its neighbour is caught by Miri
                    let last = (n as isize - 1).max(0) * stride;
                    let (x, first) = if stride < 0 { (&x[..], 199) } else { (&x[199 - last as usize..], 0) };
                    let mut out = vec![T::default(); n];
                    let w = size_of::<T>();
                    // SAFETY: the run lies within `x`, which has 200 elements, or ends with it.
                    unsafe {
                        super::gather(
                            out.as_mut_ptr().cast(),
                            x.as_ptr().add(first).cast(),
                            stride * w as isize,
                            n,
                            w,
                        );
                    }
                    for (i, out) in out.into_iter().enumerate() {
                        assert_eq!(
                            out,
                            x[(first as isize + i as isize * stride) as usize],
                            "{n} at {stride}"
                        );
                    }
                }
            }
        }
        check(|i| i as u8);
        check(|i| i as u16 * 77);
        check(|i| i as u32 * 7777);
        check(|i| i as u64 * 77_777_777_777);
        check(|i| [i as u64, !(i as u64)]);
    }
}
