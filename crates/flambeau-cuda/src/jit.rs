//! Kernels of C++ text (`torch.cuda.jiterator`): a function that is called for each element.

use crate::device;
use crate::kernels::{Args, Which, address, cast, dense, element, launch, shape};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, ensure, ops};
use flambeau_devices::cuda::jiterator::Formula;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What elements are in memory and in the function: halves are computed in `float`.
fn types(d: DType) -> Result<(&'static str, &'static str)> {
    let missing = || Error::missing(format!("jiterator with tensors of {d}"));
    let own = element(d).ok_or_else(missing)?;
    Ok(match d {
        DType::F16 | DType::BF16 => (own, "float"),
        DType::Bool => (own, "bool"),
        d if d.is_complex() || matches!(d, DType::F8E4M3 | DType::F8E5M2) => return Err(missing()),
        _ => (own, own),
    })
}
/// The source: the text in a space of its own, and a loop that calls its function.
fn source(f: &Formula, own: &str, computed: &str, inputs: usize, numbers: usize) -> String {
    let mut call = String::new();
    for k in 0..inputs {
        let _ = write!(call, "(T)Element<M>::up(at<M>(p.from[{k}])[i]), ");
    }
    for k in 0..numbers {
        let _ = write!(call, "number<T>(p.numbers[{k}]), ");
    }
    let mut body = String::new();
    if f.by_reference {
        for k in 0..f.outputs {
            let _ = write!(body, "T y{k}{{}}; ");
            let _ = write!(call, "y{k}, ");
        }
    }
    let call = format!("jitted::{}<T>({})", f.name, call.trim_end_matches(", "));
    body += &if f.by_reference { format!("{call};") } else { format!("T y0 = {call};") };
    for k in 0..f.outputs {
        let _ = write!(body, " at<M>(p.to[{k}])[i] = Element<M>::down((typename Element<M>::C)y{k});");
    }
    format!(
        r#"#define HOST_HEADERS
#include "device/number.cuh"
#ifdef FLAMBEAU_EMULATED
#include <math.h>
template <class T> T min(T a, T b) {{ return b < a ? b : a; }}
template <class T> T max(T a, T b) {{ return a < b ? b : a; }}
#endif
namespace jitted {{
{}
}}
typedef {own} M;
typedef {computed} T;
template <class V> DEVICE V number(Param p) {{ return p.re != 0 ? (V)p.re : (V)p.integer; }}
struct JitParams {{ i64 n; u64 from[8], to[8]; Param numbers[16]; }};
KERNEL(jit_k, JitParams) {{
    for (i64 i = first_index(); i < p.n; i += all_threads()) {{ {body} }}
}}
"#,
        f.code
    )
}
/// Computes it.
///
/// # Errors
/// Tensors of other devices, or that do not broadcast; more than 16 numbers; the compiler refuses the text.
pub(crate) fn run(f: &Formula, tensors: &[Tensor], numbers: &[Scalar]) -> Result<Vec<Tensor>> {
    let first = tensors.first().ok_or_else(|| Error::runtime("jiterator needs at least one tensor"))?;
    ensure!(
        matches!(first.device(), Device::Cuda(_)) && tensors.iter().all(|t| t.device() == first.device()),
        Runtime,
        "jiterator: all tensors have to be on the same CUDA device"
    );
    ensure!(numbers.len() <= 16, Missing, "jiterator with more than 16 numbers");
    ensure!(f.outputs <= 8 && tensors.len() <= 8, Runtime, "jiterator: at most 8 tensors and 8 results");
    let mut dtype = first.dtype();
    for t in &tensors[1..] {
        dtype = flambeau_core::iter::promotion::promote_types(dtype, t.dtype())?;
    }
    let (own, computed) = types(dtype)?;
    let all = tensors.iter().map(|t| cast(&t.alias_detached(), dtype)).collect::<Result<Vec<_>>>()?;
    let all = ops::broadcast_tensors(&all)?.iter().map(dense).collect::<Result<Vec<_>>>()?;
    let out = (0..f.outputs)
        .map(|_| Tensor::empty_raw(all[0].sizes(), dtype, first.device()))
        .collect::<Result<Vec<_>>>()?;
    let n = all[0].numel();
    if n == 0 {
        return Ok(out);
    }
    let d = device::ordinal(first.device())?;
    let mut list = Args::new().int(n);
    for own in [&all, &out] {
        for k in 0..8 {
            list = list.word(own.get(k).map_or(Ok(0), address)?);
        }
    }
    for k in 0..16 {
        list = crate::kernels::scalar(list, numbers.get(k).copied());
    }
    let text = source(f, own, computed, all.len(), numbers.len());
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let which = Which("jit", hash.finish() as usize, [0; 4]);
    launch(d, which, || (text, "jit_k".into()), shape(n), list)?;
    Ok(out)
}
