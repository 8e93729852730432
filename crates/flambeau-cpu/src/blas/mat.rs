//! Matrices on their way from an operator to its kernel: elements and two steps.

/// A matrix: element `(i, j)` is `data[i * row + j * col]`. A stride of 0 repeats. `D` is a slice, or one of run-time type; of
/// a matrix to write, no two elements may share memory.
#[derive(Clone, Copy)]
pub struct Mat<D> {
    /// Elements, from `(0, 0)` on.
    pub data: D,
    /// Step from one row to the next, in elements.
    pub row: usize,
    /// Step from one column to the next, in elements.
    pub col: usize,
}
/// A matrix to write.
pub type MatMut<'a, T> = Mat<&'a mut [T]>;

impl<D> Mat<D> {
    /// The same matrix over other data of the same layout.
    pub(crate) fn map<E>(self, f: impl FnOnce(D) -> E) -> Mat<E> {
        Mat { data: f(self.data), row: self.row, col: self.col }
    }
}
impl<T> Mat<&[T]> {
    pub(crate) fn raw(&self) -> RawMat<T> {
        RawMat::new(self.data.as_ptr(), self.row, self.col)
    }
}
impl<T> Mat<&mut [T]> {
    pub(crate) fn raw(self) -> RawOut<T> {
        RawOut::new(self.data.as_mut_ptr(), self.row, self.col)
    }
}

/// Pointer form of [`Mat`] for kernels that have checked bounds already.
#[derive(Clone, Copy)]
pub(crate) struct Raw<P> {
    /// Element `(0, 0)`.
    pub p: P,
    /// Step from one row to the next, in elements.
    pub rs: usize,
    /// Step from one column to the next, in elements.
    pub cs: usize,
}
/// A matrix to read.
pub(crate) type RawMat<T> = Raw<*const T>;
/// A matrix to write.
pub(crate) type RawOut<T> = Raw<*mut T>;

/// A pointer to elements.
pub(crate) trait Place: Copy {
    /// `n` elements further.
    fn further(self, n: usize) -> Self;
}
impl<T: crate::Element> Place for *const T {
    #[inline(always)]
    fn further(self, n: usize) -> Self {
        self.wrapping_add(n)
    }
}
impl<T: crate::Element> Place for *mut T {
    #[inline(always)]
    fn further(self, n: usize) -> Self {
        self.wrapping_add(n)
    }
}
// SAFETY: sent to chunks that write disjoint tiles and only read the inputs; elements are `Send` and `Sync`.
unsafe impl<P: Place> Send for Raw<P> {}
// SAFETY: as above.
unsafe impl<P: Place> Sync for Raw<P> {}

impl<P> Raw<P> {
    #[inline(always)]
    pub fn new(p: P, rs: usize, cs: usize) -> Self {
        Raw { p, rs, cs }
    }
    /// Contiguous rows, `step` apart.
    #[inline(always)]
    pub fn rows(p: P, step: usize) -> Self {
        Raw { p, rs: step, cs: 1 }
    }
    /// The transpose.
    #[inline(always)]
    pub fn t(self) -> Self {
        Raw { p: self.p, rs: self.cs, cs: self.rs }
    }
}
impl<P: Place> Raw<P> {
    /// The same layout, `n` elements further.
    #[inline(always)]
    pub fn skip(self, n: usize) -> Self {
        Raw { p: self.p.further(n), ..self }
    }
    /// The sub-matrix that starts at `(i, j)`.
    #[inline(always)]
    pub fn at(self, i: usize, j: usize) -> Self {
        self.skip(i * self.rs + j * self.cs)
    }
}
impl<T> RawMat<T> {
    /// The same memory as elements of another type.
    #[inline(always)]
    pub fn cast<U>(self) -> RawMat<U> {
        Raw { p: self.p.cast(), rs: self.rs, cs: self.cs }
    }
}
impl<T> RawOut<T> {
    /// The same memory as elements of another type.
    #[inline(always)]
    pub fn cast<U>(self) -> RawOut<U> {
        Raw { p: self.p.cast(), rs: self.rs, cs: self.cs }
    }
}

/// The product `C = A B` of `[m, k]` and `[k, n]` as one whose result has contiguous rows: where its columns are contiguous, the
/// transposed product, and none where neither are.
#[inline]
#[allow(clippy::type_complexity)]
pub(super) fn upright<T>(
    m: usize,
    n: usize,
    a: RawMat<T>,
    b: RawMat<T>,
    c: RawOut<T>,
) -> Option<(usize, usize, RawMat<T>, RawMat<T>, RawOut<T>)> {
    match (c.cs, c.rs) {
        (1, _) => Some((m, n, a, b, c)),
        (_, 1) => Some((n, m, b.t(), a.t(), c.t())),
        _ => None,
    }
}
