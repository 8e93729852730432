//! Matrix times vector in f32 with AVX-512, written out: the loops wait for memory, and only explicit registers and
//! prefetches reach its full speed.

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    fn tail(n: usize) -> __mmask16 {
        ((1u32 << n.min(16)) - 1) as __mmask16
    }

    /// `y[r] = row r . x` for `R` rows that lie `step` elements apart.
    ///
    /// # Safety
    /// Rows and `x` must be valid for `k` elements, `y` for R.
    #[target_feature(enable = "avx512f")]
    unsafe fn dots<const R: usize>(m: *const f32, step: usize, k: usize, x: *const f32, y: *mut f32) {
        let mut acc = [[_mm512_setzero_ps(); 2]; R];
        let mut p = 0;
        while p + 32 <= k {
            for (r, acc) in acc.iter_mut().enumerate() {
                for (h, acc) in acc.iter_mut().enumerate() {
                    let q = m.wrapping_add(r * step + p + 16 * h);
                    // SAFETY: `p + 32 <= k`; a prefetch may go anywhere.
                    unsafe {
                        _mm_prefetch::<_MM_HINT_T0>(q.wrapping_add(512).cast());
                        *acc = _mm512_fmadd_ps(_mm512_loadu_ps(q), _mm512_loadu_ps(x.add(p + 16 * h)), *acc);
                    }
                }
            }
            p += 32;
        }
        while p < k {
            let mask = tail(k - p);
            for (r, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the mask ends at k.
                unsafe {
                    let row = _mm512_maskz_loadu_ps(mask, m.wrapping_add(r * step + p));
                    acc[0] = _mm512_fmadd_ps(row, _mm512_maskz_loadu_ps(mask, x.add(p)), acc[0]);
                }
            }
            p += 16;
        }
        for (r, acc) in acc.iter().enumerate() {
            // SAFETY: y has R elements.
            unsafe { *y.add(r) = _mm512_reduce_add_ps(_mm512_add_ps(acc[0], acc[1])) };
        }
    }
    /// `y = M x` where rows are contiguous and lie `step` elements apart.
    ///
    /// # Safety
    /// The matrix must be valid for `y.len()` rows of `x.len()` elements.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn by_rows(m: *const f32, step: usize, x: &[f32], y: &mut [f32]) {
        let mut i = 0;
        while i < y.len() {
            let (row, to) = (m.wrapping_add(i * step), y[i..].as_mut_ptr());
            // SAFETY: the caller vouches for the matrix; `y` has as many elements left as rows are taken.
            unsafe {
                if i + 4 <= y.len() {
                    dots::<4>(row, step, x.len(), x.as_ptr(), to);
                    i += 4;
                } else {
                    dots::<1>(row, step, x.len(), x.as_ptr(), to);
                    i += 1;
                }
            }
        }
    }

    /// `y += sum of x[c] column c` for `C` columns that lie `step` elements apart.
    ///
    /// # Safety
    /// Columns must be valid for `y.len()` elements, `x` for C.
    #[target_feature(enable = "avx512f")]
    unsafe fn add<const C: usize>(m: *const f32, step: usize, x: &[f32], y: &mut [f32]) {
        let mut scale = [_mm512_setzero_ps(); C];
        for (s, x) in scale.iter_mut().zip(x) {
            *s = _mm512_set1_ps(*x);
        }
        let n = y.len();
        for i in (0..n).step_by(16) {
            let mask = tail(n - i);
            // SAFETY: the mask ends at n; a prefetch may go anywhere.
            unsafe {
                let to = y.as_mut_ptr().add(i);
                let mut s = _mm512_maskz_loadu_ps(mask, to);
                for (c, scale) in scale.iter().enumerate() {
                    let q = m.wrapping_add(c * step + i);
                    _mm_prefetch::<_MM_HINT_T0>(q.wrapping_add(256).cast());
                    s = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, q), *scale, s);
                }
                _mm512_mask_storeu_ps(to, mask, s);
            }
        }
    }
    /// `y = M x` where columns are contiguous and lie `step` elements apart.
    ///
    /// # Safety
    /// The matrix must be valid for `x.len()` columns of `y.len()` elements.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn by_columns(m: *const f32, step: usize, x: &[f32], y: &mut [f32]) {
        const BLOCK: usize = 4096;
        for (b, y) in y.chunks_mut(BLOCK).enumerate() {
            y.fill(0.0);
            for (j, x) in x.chunks(8).enumerate() {
                let col = m.wrapping_add(j * 8 * step + b * BLOCK);
                // SAFETY: the caller vouches for the matrix.
                unsafe {
                    if x.len() == 8 {
                        add::<8>(col, step, x, y);
                    } else {
                        for (c, x) in x.chunks(1).enumerate() {
                            add::<1>(col.wrapping_add(c * step), step, x, y);
                        }
                    }
                }
            }
        }
    }
}

/// `y = M x` for f32 on a machine with AVX-512; returns whether it did. The contiguous dimension of `m` is that of the
/// rows (`rows`) or of the columns; `step` leads to the next one.
///
/// # Safety
/// `m` must be valid for a matrix of `y.len()` rows and `x.len()` columns of `T`.
pub(super) unsafe fn matvec<T: 'static, A: 'static + bytemuck::Pod>(
    m: *const T,
    step: usize,
    rows: bool,
    x: &[A],
    y: &mut [A],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::any::TypeId;
        let f32_id = TypeId::of::<f32>();
        if TypeId::of::<T>() == f32_id
            && TypeId::of::<A>() == f32_id
            && crate::engine::isa::level() == crate::engine::isa::Level::V4
        {
            let (m, x, y) = (m.cast::<f32>(), bytemuck::cast_slice(x), bytemuck::cast_slice_mut(y));
            // SAFETY: the level says that AVX-512 is there; the caller vouches for the matrix.
            unsafe { if rows { x86::by_rows(m, step, x, y) } else { x86::by_columns(m, step, x, y) } }
            return true;
        }
    }
    let _ = (m, step, rows, x, y);
    false
}
