//! Products of matrices by NVIDIA's cuBLASLt, loaded at run time where it is there.
#![allow(unsafe_code)]

use super::Address;
use cudarc::cublaslt::sys as lt;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Error, Result};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{OnceLock, PoisonError};

/// A matrix, or one for each batch: where it starts, and its strides in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: Address,
    pub(crate) batch: i64,
    pub(crate) row: i64,
    pub(crate) column: i64,
}
/// `out = alpha a b + beta out + bias`, where `a` is (m, k), `b` is (k, n), and `bias` has n elements side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) dtype: DType,
    /// Of the result: that of the factors, or of the sums.
    pub(crate) to: DType,
    /// Batches, m, n, k: none is zero.
    pub(crate) sizes: [i64; 4],
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) out: Matrix,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) bias: Option<Address>,
    /// Whether float32 may be multiplied as TensorFloat-32.
    pub(crate) tf32: bool,
}

/// Bytes that algorithms may work in.
const WORKSPACE: usize = 32 << 20;
/// More plans than this are not kept.
const PLANS: usize = 4096;

/// A matrix as cuBLASLt stores it, by columns: its rows, columns and leading dimension, and whether it is read transposed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Stored {
    rows: i64,
    columns: i64,
    leading: i64,
    batch: i64,
    transposed: bool,
    /// The largest power of two, up to 256, that divides its address.
    aligned: u32,
}
impl Stored {
    /// The transpose of a matrix of these sizes: what lies by rows for us lies by columns for it. `None` where neither
    /// rows nor columns lie side by side.
    fn transpose(m: &Matrix, rows: i64, columns: i64) -> Option<Stored> {
        let aligned = 1 << m.address.trailing_zeros().min(8);
        let batch = m.batch;
        if (m.column == 1 || columns == 1) && (m.row >= columns || rows == 1) {
            let leading = m.row.max(columns);
            return Some(Stored { rows: columns, columns: rows, leading, batch, transposed: false, aligned });
        }
        if (m.row == 1 || rows == 1) && (m.column >= rows || columns == 1) {
            let leading = m.column.max(rows);
            return Some(Stored { rows, columns, leading, batch, transposed: true, aligned });
        }
        None
    }
}
#[derive(PartialEq, Eq, Hash)]
struct Key {
    dtype: DType,
    to: DType,
    batches: i64,
    operands: [Stored; 3],
    bias: bool,
    tf32: bool,
}
/// Descriptions of one product and the algorithm for it; `None` where cuBLASLt has none.
struct Plan {
    product: lt::cublasLtMatmulDesc_t,
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    algorithm: Option<lt::cublasLtMatmulAlgo_t>,
}
// SAFETY: descriptions are plain memory of the library, which any thread may use; the lock around all plans lets one at a time.
unsafe impl Send for Plan {}
impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: each was created once and is destroyed here alone.
        unsafe {
            lt::cublasLtMatmulDescDestroy(self.product);
            self.layouts.iter().for_each(|l| {
                lt::cublasLtMatrixLayoutDestroy(*l);
            });
        }
    }
}
/// The library's handle for one device.
pub(crate) struct Products {
    handle: usize,
    workspace: Mutex<HashMap<u64, Address>>,
    plans: Mutex<HashMap<Key, Plan>>,
}

fn check(r: lt::cublasStatus_t) -> Result<()> {
    match r {
        lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        r => Err(Error::runtime(format!("CUDA error: {r:?} of cuBLASLt"))),
    }
}
/// Types of elements, of scale factors, and of sums.
fn types(d: DType, tf32: bool) -> Option<(lt::cudaDataType_t, lt::cudaDataType_t, lt::cublasComputeType_t)> {
    use lt::cublasComputeType_t as C;
    use lt::cudaDataType_t as T;
    let single = if tf32 { C::CUBLAS_COMPUTE_32F_FAST_TF32 } else { C::CUBLAS_COMPUTE_32F };
    Some(match d {
        DType::F16 => (T::CUDA_R_16F, T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F),
        DType::BF16 => (T::CUDA_R_16BF, T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F),
        DType::F32 => (T::CUDA_R_32F, T::CUDA_R_32F, single),
        DType::F64 => (T::CUDA_R_64F, T::CUDA_R_64F, C::CUBLAS_COMPUTE_64F),
        DType::C64 => (T::CUDA_C_32F, T::CUDA_C_32F, single),
        DType::C128 => (T::CUDA_C_64F, T::CUDA_C_64F, C::CUBLAS_COMPUTE_64F),
        _ => return None,
    })
}
/// A scale factor as the library reads it: a number in the type of scale factors, and zero behind it.
fn factor(d: DType, v: f64) -> [u8; 16] {
    let mut out = [0u8; 16];
    match d {
        DType::F64 | DType::C128 => out[..8].copy_from_slice(&v.to_ne_bytes()),
        _ => out[..4].copy_from_slice(&(v as f32).to_ne_bytes()),
    }
    out
}

impl Products {
    /// The library's handle, for the context that is current. `None` where there is no such library.
    pub(crate) fn new() -> Option<Products> {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        // SAFETY: loads the library and nothing else.
        if !*PRESENT.get_or_init(|| unsafe { lt::is_culib_present() }) {
            return None;
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { lt::cublasLtCreate(&mut handle) }).ok()?;
        Some(Products { handle: handle as usize, workspace: Mutex::default(), plans: Mutex::default() })
    }
    /// Queues a product. `false` where the library has no algorithm for it.
    ///
    /// # Errors
    /// Of the library, and of the memory that it works in.
    pub(crate) fn run(
        &self,
        p: &Product,
        stream: (u64, cudarc::driver::sys::CUstream),
        room: impl FnOnce(usize) -> Result<Option<Address>>,
    ) -> Result<bool> {
        let [batches, m, n, k] = p.sizes;
        let stored = [
            Stored::transpose(&p.b, k, n),
            Stored::transpose(&p.a, m, k),
            Stored::transpose(&p.out, m, n).filter(|s| !s.transposed),
        ];
        let [Some(first), Some(second), Some(out)] = stored else { return Ok(false) };
        if types(p.dtype, false).is_none() {
            return Ok(false);
        }
        let workspace = {
            let mut all = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(&stream.0) {
                Some(a) => *a,
                None => {
                    let a = room(WORKSPACE)?.unwrap_or(0);
                    all.insert(stream.0, a);
                    a
                }
            }
        };
        let key = Key {
            dtype: p.dtype,
            to: p.to,
            batches,
            operands: [first, second, out],
            bias: p.bias.is_some(),
            tf32: p.tf32,
        };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= PLANS {
            plans.clear();
        }
        let plan = match plans.entry(key) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => {
                let made = self.plan(e.key(), if workspace == 0 { 0 } else { WORKSPACE })?;
                e.insert(made)
            }
        };
        let Some(algorithm) = &plan.algorithm else { return Ok(false) };
        let (alpha, beta) = (factor(p.dtype, p.alpha), factor(p.dtype, p.beta));
        let pointer = |a: Address| std::ptr::with_exposed_provenance_mut::<c_void>(a as usize);
        // SAFETY: the descriptions are of these matrices, whose memory is as large as the caller's tensors say; the bias has n
        // elements; factors are of the type of scale factors; the workspace is as large as said and belongs to the stream.
        unsafe {
            if let Some(bias) = p.bias {
                let attribute = lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
                check(lt::cublasLtMatmulDescSetAttribute(
                    plan.product,
                    attribute,
                    (&raw const bias).cast(),
                    8,
                ))?;
            }
            check(lt::cublasLtMatmul(
                self.handle as lt::cublasLtHandle_t,
                plan.product,
                alpha.as_ptr().cast(),
                pointer(p.b.address),
                plan.layouts[0],
                pointer(p.a.address),
                plan.layouts[1],
                beta.as_ptr().cast(),
                pointer(p.out.address),
                plan.layouts[2],
                pointer(p.out.address),
                plan.layouts[2],
                algorithm,
                pointer(workspace),
                if workspace == 0 { 0 } else { WORKSPACE },
                stream.1.cast(),
            ))?;
        }
        Ok(true)
    }
    fn plan(&self, key: &Key, workspace: usize) -> Result<Plan> {
        use lt::cublasLtMatmulDescAttributes_t as D;
        use lt::cublasLtMatmulPreferenceAttributes_t as P;
        use lt::cublasLtMatrixLayoutAttribute_t as L;
        let known = |d| types(d, key.tf32).ok_or_else(|| Error::runtime("a product of this dtype"));
        let (element, scale, compute) = known(key.dtype)?;
        let elements = [element, element, known(key.to)?.0];
        let mut plan =
            Plan { product: std::ptr::null_mut(), layouts: [std::ptr::null_mut(); 3], algorithm: None };
        // SAFETY: handles are written before they are read; attributes have the sizes that the library documents for them;
        // destroying null is allowed.
        unsafe {
            check(lt::cublasLtMatmulDescCreate(&mut plan.product, compute, scale))?;
            let set = |what: D, v: u32| {
                check(lt::cublasLtMatmulDescSetAttribute(plan.product, what, (&raw const v).cast(), 4))
            };
            let turned = |s: &Stored| u32::from(s.transposed);
            set(D::CUBLASLT_MATMUL_DESC_TRANSA, turned(&key.operands[0]))?;
            set(D::CUBLASLT_MATMUL_DESC_TRANSB, turned(&key.operands[1]))?;
            if key.bias {
                let bias = lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
                set(D::CUBLASLT_MATMUL_DESC_EPILOGUE, bias as u32)?;
            }
            for ((layout, s), element) in plan.layouts.iter_mut().zip(&key.operands).zip(elements) {
                check(lt::cublasLtMatrixLayoutCreate(
                    layout,
                    element,
                    s.rows as u64,
                    s.columns as u64,
                    s.leading,
                ))?;
                if key.batches > 1 {
                    let count = key.batches as i32;
                    let (n, by) = ((&raw const count).cast(), (&raw const s.batch).cast());
                    let at = L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
                    check(lt::cublasLtMatrixLayoutSetAttribute(
                        *layout,
                        L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                        n,
                        4,
                    ))?;
                    check(lt::cublasLtMatrixLayoutSetAttribute(*layout, at, by, 8))?;
                }
            }
            let mut wishes = std::ptr::null_mut();
            check(lt::cublasLtMatmulPreferenceCreate(&mut wishes))?;
            let set = |what: P, v: *const c_void, n: usize| {
                check(lt::cublasLtMatmulPreferenceSetAttribute(wishes, what, v, n))
            };
            let [a, b, c] = key.operands.map(|s| s.aligned);
            let wished = set(P::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const workspace).cast(), 8)
                .and_then(|()| set(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (&raw const a).cast(), 4))
                .and_then(|()| set(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (&raw const b).cast(), 4))
                .and_then(|()| set(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (&raw const c).cast(), 4))
                .and_then(|()| set(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (&raw const c).cast(), 4));
            let mut found = std::mem::zeroed::<lt::cublasLtMatmulHeuristicResult_t>();
            let mut n = 0;
            let asked = wished.map(|()| {
                lt::cublasLtMatmulAlgoGetHeuristic(
                    self.handle as lt::cublasLtHandle_t,
                    plan.product,
                    plan.layouts[0],
                    plan.layouts[1],
                    plan.layouts[2],
                    plan.layouts[2],
                    wishes,
                    1,
                    &mut found,
                    &mut n,
                )
            });
            lt::cublasLtMatmulPreferenceDestroy(wishes);
            // a refusal means that there is no algorithm: kernels of our own serve those
            if asked? == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS && n > 0 {
                plan.algorithm = Some(found.algo);
            }
        }
        Ok(plan)
    }
}
