//! Pointwise rows: the formulas of the CPU as device functions (`cargo xtask kernels`), in one loop for all of them.

use super::{Args, Geometry, OPERANDS, Quick, Which, address, element, launch, lists, opaque, shape};
use crate::device;
use crate::generated::pointwise::{FORMULAS, PAIRS, PLANNED, SPECS};
use flambeau_core::iter::spec::{PointwiseCall, PointwiseKernel};
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor};
use flambeau_cpu::pointwise::{self as cpu, Pointwise};
use std::cell::RefCell;
use std::fmt::Write as _;

/// How a class computes in a dtype: the type of computation and the elements of the output; `None` where it has no loop. As
/// flambeau-cpu's loops do.
fn computes(class: &str, d: DType) -> Option<(&'static str, DType)> {
    use DType::*;
    let float = |wide: bool| match d {
        F32 | F16 | BF16 => Some(if wide { "double" } else { "float" }),
        F64 => Some("double"),
        F8E4M3 | F8E5M2 if !wide => Some("double"),
        _ => None,
    };
    let int = || match d {
        U64 => Some("Whole<u64>"),
        I64 | U32 => Some("Whole<i64>"),
        I32 | U8 | I8 | I16 | U16 => Some("Whole<i32>"),
        _ => None,
    };
    let complex = |hot: bool| match d {
        C64 if hot => Some("Cx<float>"),
        C32 | BC32 | C64 | C128 => Some("Cx<double>"),
        _ => None,
    };
    let part = || match d {
        C128 => F64,
        C64 => F32,
        BC32 => BF16,
        _ => F16,
    };
    Some(match class {
        "float" | "float_hot" => (float(false)?, d),
        "float_wide" | "float_scalar" | "one_by_one" => (float(true)?, d),
        "one_by_one_wide" => (float(true).filter(|_| matches!(d, F32 | F64))?, d),
        "float_bool" => (float(false)?, Bool),
        "int" => (int()?, d),
        "int_bool" => (int()?, Bool),
        "boolean" => ("bool", d),
        "complex" => (complex(false)?, d),
        "complex_hot" => (complex(true)?, d),
        "complex_bool" => (complex(false)?, Bool),
        "complex_real" => (complex(false)?, part()),
        "real_complex" => match d {
            F64 => ("double", C128),
            F32 => ("double", C64),
            F16 => ("double", C32),
            _ => return None,
        },
        _ => return None,
    })
    .filter(|_| class != "boolean" || d == Bool)
}
const DTYPES: [DType; 19] = {
    use DType::*;
    [U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, Bool, C32, BC32, C64, C128, F8E4M3, F8E5M2]
};

/// What a formula is in a dtype.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The formula's address.
    formula: usize,
    name: &'static str,
    classes: &'static [&'static str],
    /// Whether a thread computes several elements at once.
    packs: bool,
    /// The dtype among [`DTYPES`].
    place: usize,
}
impl Found {
    /// Its kernel of one form: of any geometry, of dense operands, of lists.
    pub(super) fn which(&self, form: u8) -> Which {
        Which("pointwise", self.formula, [self.place as u8, form, 0, 0])
    }
    /// Whether both are the same formula in the same dtype.
    pub(super) fn is(&self, other: &Found) -> bool {
        self.formula == other.formula && self.place == other.place
    }
}
/// The kernel of a formula for many tensors.
pub(super) fn list_text(f: &Found) -> (String, String) {
    let d = DTYPES[f.place];
    let found = f.classes.iter().find_map(|c| Some((c, computes(c, d)?)));
    let instance = found.zip(element(d)).map(|((class, (compute, out)), own)| {
        let out = element(out).unwrap_or("b8");
        format!("LIST_POINTWISE(k, formula::{}::of_{class}, {compute}, {own}, {out})\n", f.name)
    });
    let files = "#include \"pointwise/loop.cuh\"\n#include \"generated/pointwise.cuh\"\n";
    (format!("{files}{}", instance.unwrap_or_default()), "k".into())
}
/// Looks a formula up, which takes longer than a launch may.
fn found(kernel: &'static Pointwise, compute: DType) -> Option<Found> {
    thread_local! {
        static KNOWN: RefCell<Quick<(usize, DType), Found>> = RefCell::default();
    }
    let key = (std::ptr::from_ref(kernel) as usize, compute);
    if let Some(f) = KNOWN.try_with(|k| k.borrow().get(&key).copied()).ok().flatten() {
        return Some(f);
    }
    let own = match by_dtype(kernel) {
        Some([_, double]) if compute == DType::F64 => double,
        Some([single, _]) => single,
        None => kernel,
    };
    let (name, classes) = formula(own)?;
    let (computed, _) = classes.iter().find_map(|c| computes(c, compute))?;
    let place = DTYPES.iter().position(|x| *x == compute)?;
    let packs = matches!(computed, "float" | "bool" | "Whole<i32>");
    let f = Found { formula: std::ptr::from_ref(own) as usize, name, classes, packs, place };
    // a thread that ends keeps nothing
    let _ = KNOWN.try_with(|k| k.borrow_mut().insert(key, f));
    Some(f)
}
fn formula(p: &'static Pointwise) -> Option<(&'static str, &'static [&'static str])> {
    FORMULAS.iter().find(|f| std::ptr::eq(f.0, p)).map(|f| (f.1, f.2))
}
/// Whether a formula has a kernel here.
pub(crate) fn knows(p: &'static Pointwise) -> bool {
    formula(p).is_some() || std::ptr::eq(p, &cpu::WHERE) || by_dtype(p).is_some()
}
/// Formulas that round as the dtype does have one text for each.
fn by_dtype(p: &'static Pointwise) -> Option<[&'static Pointwise; 2]> {
    PAIRS.iter().find(|(whole, _)| std::ptr::eq(*whole, p)).map(|(_, parts)| *parts)
}
/// The kernel of a formula for one dtype, by its place among them; together with all its others where that costs nothing.
fn text(name: &str, classes: &[&str], place: usize, dense: bool, all: bool) -> (String, String) {
    let mut s = String::from("#include \"pointwise/loop.cuh\"\n#include \"generated/pointwise.cuh\"\n");
    for (i, d) in DTYPES.iter().enumerate().filter(|(i, _)| all || *i == place) {
        let found = classes.iter().find_map(|c| Some((c, computes(c, *d)?)));
        if let (Some((class, (compute, out))), Some(own)) = (found, element(*d)) {
            let out = element(out).unwrap_or("b8");
            let end = format!("formula::{name}::of_{class}, {compute}, {own}, {out})");
            if all || !dense {
                let _ = writeln!(s, "POINTWISE(k_{i}, {end}");
            }
            if all || dense {
                let _ = writeln!(s, "DENSE_POINTWISE(dense_{i}, {end}");
            }
        }
    }
    (s, format!("{}_{place}", if dense { "dense" } else { "k" }))
}
/// The addresses of operands that lie side by side in the same order, aligned for packs.
fn dense(operands: &[&Tensor]) -> Result<Option<[u64; 4]>> {
    let out = operands[0];
    let span = 1 + out.sizes().iter().zip(out.strides()).map(|(n, s)| (n - 1) * s).sum::<i64>();
    let alike = |t: &&Tensor| t.sizes() == out.sizes() && t.strides() == out.strides();
    if span != out.numel() || !operands[1..].iter().all(alike) {
        return Ok(None);
    }
    let mut start = [0; 4];
    for (at, t) in start.iter_mut().zip(operands) {
        *at = address(t)?;
    }
    Ok(start.iter().all(|a| a % 16 == 0).then_some(start))
}

/// One call.
///
/// # Errors
/// Of the launch.
pub(crate) fn run(call: &PointwiseCall) -> Result<()> {
    let mut operands = [call.out; OPERANDS];
    let n = 1 + call.inputs.len();
    let Some(inputs) = operands.get_mut(1..n) else {
        return Err(Error::missing(format!("{} of {n} operands on CUDA", call.spec.name)));
    };
    inputs.iter_mut().zip(call.inputs).for_each(|(to, t)| *to = t);
    let operands = &operands[..n];
    if call.out.numel() == 0 {
        return Ok(());
    }
    let d = device::ordinal(call.out.device())?;
    let missing = || Error::missing(format!("{} has no CUDA kernel for {}", call.spec.name, call.compute));
    let geometry = || {
        let g = Geometry::of(call.out.sizes(), operands)?;
        g.ok_or_else(|| Error::missing(format!("{} of more than 12 dimensions on CUDA", call.spec.name)))
    };
    if std::ptr::eq(call.spec.kernel, &cpu::WHERE) {
        let own = opaque(call.out.dtype().size());
        let which = Which("where", 0, [call.out.dtype().size() as u8, 0, 0, 0]);
        let text = || (format!("#include \"copy/copy.cuh\"\nWHERE(choose, {own})\n"), "choose".into());
        let g = geometry()?;
        return launch(d, which, text, shape(g.n), Args::new().geometry(&g).int(0).int(0));
    }
    let f = found(call.spec.kernel, call.compute).ok_or_else(missing)?;
    let n = call.out.numel();
    // as `together` of kernels/pointwise/loop.cuh
    let widest = operands.iter().map(|t| t.dtype().size()).max().unwrap_or(1);
    let each = if f.packs { (16 / widest.clamp(1, 16)) as i64 } else { 1 };
    // three numbers, each in all its readings
    let mut numbers = [0u8; 72];
    for (to, p) in numbers.chunks_exact_mut(24).zip(call.params) {
        to[..8].copy_from_slice(&p.re.to_ne_bytes());
        to[8..16].copy_from_slice(&p.im.to_ne_bytes());
        to[16..].copy_from_slice(&cut(p.int, call.compute).to_ne_bytes());
    }
    if lists::offer(d, f, operands, &numbers)? {
        return Ok(());
    }
    let (args, dense, each) = match dense(operands)? {
        Some(start) => (start.iter().fold(Args::new().int(n), |list, a| list.word(*a)), true, each),
        None => {
            let g = geometry()?;
            (Args::new().geometry(&g), false, if g.packed() { each } else { 1 })
        }
    };
    let args = args.raw(&numbers);
    let all = crate::driver::driver()?.compiles_families();
    launch(
        d,
        f.which(dense.into()),
        || text(f.name, f.classes, f.place, dense, all),
        shape((n as u64).div_ceil(each as u64) as i64),
        args,
    )
}
/// A number as the dtype holds it: small integers compute in wider ones.
fn cut(v: i64, d: DType) -> i64 {
    match d {
        DType::U8 => i64::from(v as u8),
        DType::I8 => i64::from(v as i8),
        DType::I16 => i64::from(v as i16),
        DType::U16 => i64::from(v as u16),
        DType::U32 => i64::from(v as u32),
        _ => v,
    }
}

/// Fills the tables of all rows whose formula has a kernel.
pub(crate) fn register() {
    for spec in SPECS.iter().filter(|s| knows(s.kernel)) {
        spec.kernels.register(Key::Cuda, run as PointwiseKernel);
    }
    for kernels in PLANNED {
        kernels.register(Key::Cuda, run_or_cpu as PointwiseKernel);
    }
}
/// A formula that a plan picked: where it has no kernel, the CPU computes it over copies.
fn run_or_cpu(call: &PointwiseCall) -> Result<()> {
    if knows(call.spec.kernel) {
        return run(call);
    }
    use flambeau_core::backend::{pointwise::pointwise_typed, transfer};
    let inputs = call.inputs.iter().map(transfer::on_host).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let made = pointwise_typed(call.spec, Some(call.compute), &inputs, call.params)?;
    flambeau_core::backend::matrices::write(call.out, &made)
}
