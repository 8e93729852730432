//! Sizes, strides and what follows from them.

use crate::types::error::{Error, Result};
use crate::types::layout::MemoryFormat;
use smallvec::SmallVec;

/// Sizes, strides or dims, inline up to rank 5.
pub type SizeVec = SmallVec<[i64; 5]>;

/// Sizes up to this rank lie inside a tensor, and inside a [`SizeVec`].
const INLINE: usize = 5;

/// A copy of a list, or of what `f` makes of its elements; short lists without calls or loops of pushes.
#[inline(always)]
pub fn map_sizes<T: Copy>(s: &[T], f: impl Fn(T) -> i64) -> SizeVec {
    if s.len() > INLINE {
        return s.iter().map(|v| f(*v)).collect();
    }
    short_sizes(s, f)
}
#[inline(always)]
fn short_sizes<T: Copy>(s: &[T], f: impl Fn(T) -> i64) -> SizeVec {
    let mut buf = [0; INLINE];
    for i in 0..INLINE {
        if i < s.len() {
            buf[i] = f(s[i]);
        }
    }
    SizeVec::from_buf_and_len(buf, s.len().min(INLINE))
}
/// A copy of a list.
#[inline]
pub fn size_vec(s: &[i64]) -> SizeVec {
    if s.len() > INLINE { long_sizes(s) } else { short_sizes(s, |v| v) }
}
/// Never unwinds, so that callers may keep values in registers meanwhile.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called from Rust only; `extern` is what rules unwinding out")]
extern "C" fn long_sizes(s: &[i64]) -> SizeVec {
    SizeVec::from_slice(s)
}

/// Sizes and strides of a tensor, which never change. Unlike two vectors they are made without loops of pushes, and
/// compared without a call.
pub(crate) struct Dims {
    rank: usize,
    /// Up to [`INLINE`] dimensions; the rest is zero.
    sizes: [i64; INLINE],
    strides: [i64; INLINE],
    /// Sizes, then strides, of more dimensions.
    many: Option<Box<[i64]>>,
}
impl Dims {
    /// Of two lists of the same length.
    #[inline(always)]
    pub(crate) fn new(sizes: &[i64], strides: &[i64]) -> Dims {
        let rank = sizes.len();
        let (mut a, mut b) = ([0; INLINE], [0; INLINE]);
        assert_eq!(rank, strides.len(), "a size and a stride for each dimension");
        if rank > INLINE {
            return Self::of_many(sizes, strides);
        }
        // all places, not `rank` of them: that would become calls of memcpy
        for d in 0..INLINE {
            if d < rank {
                (a[d], b[d]) = (sizes[d], strides[d]);
            }
        }
        Dims { rank, sizes: a, strides: b, many: None }
    }
    /// A copy, if there are few dimensions. Make the tensor in the branch that has it: then the copy goes from memory to
    /// memory, while one that is joined with a copy of many is put together on the stack first, and waited for.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<Dims> {
        let few = self.rank <= INLINE;
        few.then_some(Dims { rank: self.rank, sizes: self.sizes, strides: self.strides, many: None })
    }
    /// Never unwinds, so that callers may keep values in registers meanwhile.
    #[cold]
    #[inline(never)]
    #[allow(
        improper_ctypes_definitions,
        reason = "called from Rust only; `extern` is what rules unwinding out"
    )]
    extern "C" fn of_many(sizes: &[i64], strides: &[i64]) -> Dims {
        Dims {
            rank: sizes.len(),
            sizes: [0; INLINE],
            strides: [0; INLINE],
            many: Some(sizes.iter().chain(strides).copied().collect()),
        }
    }
    /// Row-major over these sizes.
    #[inline(always)]
    pub(crate) fn contiguous(sizes: &[i64]) -> Dims {
        let rank = sizes.len();
        if rank > INLINE {
            return Self::of_many(sizes, &contiguous_strides(sizes));
        }
        let mut a = [0; INLINE];
        for d in 0..INLINE {
            if d < rank {
                a[d] = sizes[d];
            }
        }
        Dims { rank, sizes: a, strides: Self::row_major(&a, rank), many: None }
    }
    /// Both lists, to be changed before the tensor is handed out.
    #[inline(always)]
    pub(crate) fn parts_mut(&mut self) -> (&mut [i64], &mut [i64]) {
        let rank = self.rank;
        match &mut self.many {
            Some(m) if rank > INLINE => m.split_at_mut(rank),
            _ => (&mut self.sizes[..rank.min(INLINE)], &mut self.strides[..rank.min(INLINE)]),
        }
    }
    #[inline(always)]
    fn row_major(sizes: &[i64; INLINE], rank: usize) -> [i64; INLINE] {
        let mut b = [0; INLINE];
        let mut acc = 1i64;
        for d in (0..INLINE).rev() {
            if d < rank {
                b[d] = acc;
                acc = acc.saturating_mul(sizes[d].max(1));
            }
        }
        b
    }
    #[inline(always)]
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }
    #[inline(always)]
    pub(crate) fn sizes(&self) -> &[i64] {
        if self.rank <= INLINE { &self.sizes[..self.rank] } else { &self.spilled()[..self.rank] }
    }
    #[inline(always)]
    pub(crate) fn strides(&self) -> &[i64] {
        if self.rank <= INLINE { &self.strides[..self.rank] } else { &self.spilled()[self.rank..] }
    }
    #[cold]
    fn spilled(&self) -> &[i64] {
        self.many.as_deref().unwrap_or_default()
    }
    /// The same sizes.
    #[inline(always)]
    pub(crate) fn same_sizes(&self, o: &Dims) -> bool {
        // unused places are zero
        self.rank == o.rank
            && if self.rank <= INLINE {
                // without a branch for each, and without a call
                (0..INLINE).fold(0, |d, i| d | (self.sizes[i] ^ o.sizes[i])) == 0
            } else {
                self.sizes() == o.sizes()
            }
    }
}

/// What a geometry is, found in one pass.
#[derive(Clone, Copy)]
pub(crate) struct Survey {
    /// Elements.
    pub numel: i64,
    /// As [`is_contiguous`].
    pub contiguous: bool,
    /// Not empty, and the strides are exactly [`contiguous_strides`].
    pub row_major: bool,
    /// Distance from the first element to the last; -1 without elements.
    pub last: i64,
}
/// `None`: negative sizes or strides, or numbers that do not fit.
#[inline(always)]
pub(crate) fn survey(sizes: &[i64], strides: &[i64]) -> Option<Survey> {
    let (mut numel, mut last) = (1i64, 0i64);
    let (mut contiguous, mut row_major) = (true, true);
    for (&n, &st) in sizes.iter().zip(strides).rev() {
        if (n | st) < 0 {
            return None;
        }
        row_major &= st == numel;
        contiguous &= n == 1 || st == numel;
        numel = numel.checked_mul(n)?;
        last = last.checked_add((n - 1).checked_mul(st)?)?;
    }
    Some(match numel {
        0 => Survey { numel, contiguous: true, row_major: false, last: -1 },
        _ => Survey { numel, contiguous, row_major, last },
    })
}
impl Survey {
    /// Of a row-major geometry of so many elements.
    #[inline(always)]
    pub(crate) fn row_major(numel: i64) -> Survey {
        Survey { numel, contiguous: true, row_major: numel != 0, last: numel - 1 }
    }
}

/// Elements of a tensor with these sizes, multiplied from the first to the last; `None` where a product does not fit, even
/// if a later size is 0. The one place where sizes are multiplied unchecked elsewhere afterwards ([`numel`]).
#[inline]
pub fn product(sizes: &[i64]) -> Option<i64> {
    sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s))
}
/// Elements from the first to the last that strides reach; at least 1, also of an empty geometry. `None` where there is not
/// a stride for each size, for negative ones, and where a number does not fit.
pub fn checked_span(sizes: &[i64], strides: &[i64]) -> Option<i64> {
    if sizes.len() != strides.len() {
        return None;
    }
    sizes.iter().zip(strides).try_fold(1i64, |span, (&n, &st)| {
        if (n | st) < 0 {
            return None;
        }
        span.checked_add((n - 1).max(0).checked_mul(st)?)
    })
}
/// Elements of a fresh tensor with these sizes.
///
/// # Errors
/// For negative sizes, and where the product does not fit.
pub fn checked_numel(sizes: &[i64]) -> Result<i64> {
    if let Some(s) = sizes.iter().find(|s| **s < 0) {
        return Err(Error::shape(format!(
            "Trying to create tensor with negative dimension {s}: {}",
            fmt_sizes(sizes)
        )));
    }
    product(sizes).ok_or_else(|| Error::memory(too_big(sizes)))
}
/// Elements of a view with these sizes, none of them negative.
///
/// # Errors
/// Where the product does not fit.
#[inline]
pub fn view_numel(sizes: &[i64]) -> Result<i64> {
    product(sizes).ok_or_else(|| Error::shape("numel: integer multiplication overflow"))
}
/// The offset of element `i` of a dimension. It saturates: only the geometry of an empty tensor gets that far, and a
/// saturated offset of any other is out of its storage.
#[inline]
pub fn offset_at(offset: i64, i: i64, stride: i64) -> i64 {
    offset.saturating_add(i.saturating_mul(stride))
}
/// A size computed from others.
///
/// # Errors
/// Where the product does not fit.
pub fn size_mul(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or_else(|| Error::memory(format!("Storage size calculation overflowed: {a} * {b}")))
}
/// A size computed from others.
///
/// # Errors
/// Where the sum does not fit.
pub fn size_add(a: i64, b: i64) -> Result<i64> {
    a.checked_add(b).ok_or_else(|| Error::memory(format!("Storage size calculation overflowed: {a} + {b}")))
}
/// Room for `n` elements, for lists whose length the arguments decide.
///
/// # Errors
/// When the system has no such memory.
pub fn room<T>(n: i64) -> Result<Vec<T>> {
    let mut v = Vec::new();
    let bytes = n as i128 * size_of::<T>() as i128;
    match usize::try_from(n).map(|n| v.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(v),
        _ => Err(too_large(usize::try_from(bytes).unwrap_or(usize::MAX))),
    }
}
/// A list of `n` times the same element, for lists whose length the arguments decide.
///
/// # Errors
/// When the system has no such memory.
pub fn filled<T: Clone>(value: T, n: i64) -> Result<Vec<T>> {
    let mut v = room(n)?;
    v.resize(n as usize, value);
    Ok(v)
}
/// What an iterator gives, of which it says beforehand how much there is at least.
///
/// # Errors
/// When the system has no such memory.
pub fn listed<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let items = items.into_iter();
    let mut v = room(i64::try_from(items.size_hint().0).unwrap_or(i64::MAX))?;
    v.extend(items);
    Ok(v)
}
fn too_big(sizes: &[i64]) -> String {
    format!("Storage size calculation overflowed with sizes={}", fmt_sizes(sizes))
}
/// Product of sizes that are known to be valid.
#[inline]
pub fn numel(sizes: &[i64]) -> i64 {
    sizes.iter().product()
}
/// Bytes of a fresh contiguous tensor.
pub fn checked_bytes(sizes: &[i64], itemsize: usize) -> Result<usize> {
    let n = checked_numel(sizes)?;
    n.checked_mul(itemsize as i64).map(|b| b as usize).ok_or_else(|| Error::memory(too_big(sizes)))
}
/// `[2, 3]`, as PyTorch's error texts write sizes.
pub fn fmt_sizes(sizes: &[i64]) -> String {
    format!("[{}]", sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}
/// Row-major strides.
#[inline]
pub fn contiguous_strides(sizes: &[i64]) -> SizeVec {
    let mut st = size_vec(sizes);
    let mut acc = 1i64;
    for i in (0..sizes.len()).rev() {
        st[i] = acc;
        acc = acc.saturating_mul(sizes[i].max(1));
    }
    st
}
/// Strides with dimensions laid out in the given order, slowest first.
pub fn strides_in_order(sizes: &[i64], order: &[usize]) -> SizeVec {
    let mut st = SizeVec::from_elem(1, sizes.len());
    let mut acc = 1i64;
    for &d in order.iter().rev() {
        st[d] = acc;
        acc = acc.saturating_mul(sizes[d].max(1));
    }
    st
}
/// Strides of a fresh tensor in a memory format.
///
/// # Errors
/// When the format does not fit the number of dimensions.
pub fn format_strides(sizes: &[i64], format: MemoryFormat) -> Result<SizeVec> {
    match (format, sizes.len()) {
        (MemoryFormat::Contiguous | MemoryFormat::Preserve, _) => Ok(contiguous_strides(sizes)),
        (MemoryFormat::ChannelsLast, 4) => Ok(strides_in_order(sizes, &[0, 2, 3, 1])),
        (MemoryFormat::ChannelsLast, _) => {
            Err(Error::shape("required rank 4 tensor to use channels_last format"))
        }
        (MemoryFormat::ChannelsLast3d, 5) => Ok(strides_in_order(sizes, &[0, 2, 3, 4, 1])),
        (MemoryFormat::ChannelsLast3d, _) => {
            Err(Error::shape("required rank 5 tensor to use channels_last_3d format"))
        }
    }
}
/// Row-major without gaps (dimensions of size 1 may have any stride; empty tensors count).
#[inline]
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expect = 1;
    for i in (0..sizes.len()).rev() {
        if sizes[i] != 1 {
            if sizes[i] == 0 {
                return true;
            }
            if strides[i] != expect {
                return sizes.contains(&0);
            }
            // only the sizes of an empty tensor can overflow here, and those are contiguous whatever is compared
            expect = expect.wrapping_mul(sizes[i]);
        }
    }
    true
}
/// Contiguous in the given dimension order (slowest first).
pub fn is_contiguous_in_order(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    if sizes.len() != order.len() {
        return false;
    }
    let mut expect = 1;
    for &d in order.iter().rev() {
        if sizes[d] != 1 {
            if strides[d] != expect {
                return false;
            }
            expect = expect.wrapping_mul(sizes[d]);
        }
    }
    true
}
/// Whether the geometry is contiguous in a memory format.
pub fn is_contiguous_format(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => is_contiguous(sizes, strides),
        MemoryFormat::ChannelsLast => is_contiguous_in_order(sizes, strides, &[0, 2, 3, 1]),
        MemoryFormat::ChannelsLast3d => is_contiguous_in_order(sizes, strides, &[0, 2, 3, 4, 1]),
    }
}
/// Every element has its own memory and there are no gaps, in some order of dimensions.
pub fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if is_contiguous(sizes, strides) {
        return true;
    }
    let mut dims: SmallVec<[usize; 5]> = (0..sizes.len()).filter(|&d| sizes[d] != 1).collect();
    dims.sort_by_key(|&d| strides[d]);
    let mut expect = 1;
    for d in dims {
        if strides[d] != expect {
            return false;
        }
        expect = expect.wrapping_mul(sizes[d]);
    }
    true
}
/// Elements from the first to one past the last that the geometry reaches (strides are never negative).
#[inline]
pub fn span(sizes: &[i64], strides: &[i64]) -> i64 {
    let mut last = 0i64;
    for (&n, &s) in sizes.iter().zip(strides) {
        if n == 0 {
            return 0;
        }
        // what has no memory may have any sizes
        last = last.saturating_add((n - 1).saturating_mul(s));
    }
    last.saturating_add(1)
}
/// Two elements certainly share memory: some dimension of more than one element has stride 0. PyTorch refuses to write
/// there, and only there.
pub fn has_internal_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if is_contiguous(sizes, strides) {
        return false;
    }
    sizes.iter().zip(strides).any(|(&n, &s)| n > 1 && s == 0)
}
/// Two elements may share memory: the strides do not nest. Several threads must not write there at once.
pub fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if is_contiguous(sizes, strides) {
        return false;
    }
    let mut dims: SmallVec<[usize; 5]> = (0..sizes.len()).filter(|&d| sizes[d] > 1).collect();
    dims.sort_by_key(|&d| strides[d]);
    // the last element that the faster dimensions reach
    let mut reach = 0;
    dims.iter().any(|&d| {
        let inside = strides[d] <= reach;
        reach += (sizes[d] - 1) * strides[d];
        inside
    })
}
/// Brings a dimension into `0..rank`; a zero-dim tensor counts as one of rank 1.
///
/// # Errors
/// `IndexError` text of PyTorch when it is out of range.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = (rank as i64).max(1);
    if dim < -n || dim >= n {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        )));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}
/// Like [`wrap_dim`] but an error for zero-dim tensors.
pub fn wrap_dim_strict(dim: i64, rank: usize) -> Result<usize> {
    if rank == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, rank)
}
/// Wraps several dims and refuses duplicates.
pub fn wrap_dims(dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 5]>> {
    if rank > 64 {
        return Err(Error::runtime("only tensors with up to 64 dims are supported"));
    }
    let mut out = SmallVec::new();
    for &d in dims {
        let w = wrap_dim(d, rank)?;
        if out.contains(&w) {
            return Err(Error::runtime(format!("dim {w} appears multiple times in the list of dims")));
        }
        out.push(w);
    }
    Ok(out)
}
/// The sizes that two shapes broadcast to.
pub fn broadcast_shapes(a: &[i64], b: &[i64]) -> Result<SizeVec> {
    let n = a.len().max(b.len());
    let mut out = SizeVec::from_elem(1, n);
    for i in 0..n {
        let x = if i + a.len() >= n { a[i + a.len() - n] } else { 1 };
        let y = if i + b.len() >= n { b[i + b.len() - n] } else { 1 };
        out[i] = if x == y || y == 1 {
            x
        } else if x == 1 {
            y
        } else {
            return Err(Error::shape(format!(
                "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
            )));
        };
    }
    Ok(out)
}
/// The sizes that any number of shapes broadcast to.
///
/// # Errors
/// They do not go together.
#[doc(alias = "torch.broadcast_shapes")]
pub fn broadcast_all(shapes: &[&[i64]]) -> Result<Vec<i64>> {
    broadcast_shown(shapes, |k| format!("torch.Size({})", fmt_sizes(shapes[k])))
}
/// [`broadcast_all`]; `shown` is how an error's text shows a shape.
pub fn broadcast_shown(shapes: &[&[i64]], shown: impl Fn(usize) -> String) -> Result<Vec<i64>> {
    let mut all = vec![1; shapes.iter().map(|s| s.len()).max().unwrap_or(0)];
    for (k, shape) in shapes.iter().enumerate() {
        for (i, &n) in shape.iter().rev().enumerate() {
            let at = all.len() - 1 - i;
            if n == 1 || n == all[at] {
                continue;
            }
            if all[at] == 1 && n < 0 {
                return Err(Error::value("Attempting to broadcast a dimension with negative length!"));
            }
            if all[at] != 1 {
                return Err(Error::runtime(format!(
                    "Attempting to broadcast a dimension of length {n} at -{}! Mismatching argument at index {k} had {}; \
                     but expected shape should be broadcastable to {}",
                    i + 1,
                    shown(k),
                    fmt_sizes(&all)
                )));
            }
            all[at] = n;
        }
    }
    Ok(all)
}

/// Strides under which a tensor of sizes/strides reads as the (broadcast) target sizes.
///
/// # Errors
/// When the sizes do not expand to the target.
pub fn expand_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Result<SizeVec> {
    let extra = target.len().checked_sub(sizes.len()).ok_or_else(|| {
        Error::shape(format!(
            "expand({}, size={}): the number of sizes provided ({}) must be greater or equal to the number of \
             dimensions in the tensor ({})",
            fmt_sizes(sizes),
            fmt_sizes(target),
            target.len(),
            sizes.len()
        ))
    })?;
    let mut out = SizeVec::from_elem(0, target.len());
    for i in 0..sizes.len() {
        let (n, t) = (sizes[i], target[i + extra]);
        if n == t {
            out[i + extra] = strides[i];
        } else if n != 1 {
            return Err(Error::shape(format!(
                "The expanded size of the tensor ({t}) must match the existing size ({n}) at non-singleton \
                 dimension {}.  Target sizes: {}.  Tensor sizes: {}",
                i + extra,
                fmt_sizes(target),
                fmt_sizes(sizes)
            )));
        }
    }
    Ok(out)
}
/// Strides of a view with other sizes over the same elements, if one exists (`view`).
pub fn view_strides(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<SizeVec> {
    let n = numel(sizes);
    if n == 0 {
        return Some(if sizes == new { SizeVec::from_slice(strides) } else { contiguous_strides(new) });
    }
    let mut out = SizeVec::from_elem(0, new.len());
    let mut d = new.len() as i64 - 1;
    let mut chunk_base = strides.last().copied().unwrap_or(1);
    let (mut t_numel, mut v_numel) = (1i64, 1i64);
    if sizes.is_empty() {
        out.iter_mut().for_each(|s| *s = 1);
        return Some(out);
    }
    for i in (0..sizes.len()).rev() {
        t_numel *= sizes[i];
        let ends = i == 0 || (sizes[i - 1] != 1 && strides[i - 1] != t_numel.wrapping_mul(chunk_base));
        if ends {
            while d >= 0 && (v_numel < t_numel || new[d as usize] == 1) {
                // the stride of a single element may be anything, so this may overflow where nothing is reached by it
                out[d as usize] = v_numel.saturating_mul(chunk_base);
                v_numel *= new[d as usize];
                d -= 1;
            }
            if v_numel != t_numel {
                return None;
            }
            if i > 0 {
                chunk_base = strides[i - 1];
                t_numel = 1;
                v_numel = 1;
            }
        }
    }
    (d == -1).then_some(out)
}
/// Replaces the one -1 in a requested shape.
///
/// # Errors
/// As PyTorch's `view` and `reshape`.
pub fn infer_size(shape: &[i64], numel: i64) -> Result<SizeVec> {
    let mut infer = None;
    let mut known: i64 = 1;
    for (i, &s) in shape.iter().enumerate() {
        if s == -1 {
            if infer.is_some() {
                return Err(Error::shape("only one dimension can be inferred"));
            }
            infer = Some(i);
        } else if s < 0 {
            return Err(Error::shape(format!(
                "invalid shape dimension {s} at index {i} of shape {}",
                fmt_sizes(shape)
            )));
        } else {
            // a product that does not fit equals no number of elements; 0 is not lost by saturation
            known = known.saturating_mul(s);
        }
    }
    let bad = || Error::shape(format!("shape '{}' is invalid for input of size {numel}", fmt_sizes(shape)));
    let mut out = SizeVec::from_slice(shape);
    match infer {
        Some(i) => {
            if known == 0 {
                if numel == 0 {
                    return Err(Error::shape(format!(
                        "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 \
                         can be any value and is ambiguous",
                        fmt_sizes(shape)
                    )));
                }
                return Err(bad());
            }
            if numel % known != 0 {
                return Err(bad());
            }
            out[i] = numel / known;
        }
        None if known != numel => return Err(bad()),
        None => {}
    }
    Ok(out)
}

/// "can't allocate memory", in PyTorch's words.
#[cold]
pub(crate) fn too_large(bytes: usize) -> Error {
    Error::memory(format!(
        "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes."
    ))
}
