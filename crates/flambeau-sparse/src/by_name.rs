//! Functions by their documented names that are no operators.

use crate::construct::{self, SparseOptions, set_check_invariants};
use crate::{ops, resize};
use flambeau_core::api::literal::from_value_as;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::{FromValue, tensor_arg};
use flambeau_core::{DType, Error, Layout, Result, Tensor, Value, ensure};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-sparse names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS.iter().copied().chain(crate::typed::all()) {
        register_function(path, f);
    }
}

fn tensor(v: &Value, dtype: Option<DType>) -> Result<Tensor> {
    match v {
        Value::Tensor(t) => Ok(t.clone()),
        v => from_value_as(v, dtype),
    }
}
/// Keywords from place `at`: dtype, device, pin_memory, requires_grad, check_invariants, is_coalesced.
fn options(s: &Slots<'_>, size: Option<usize>, at: usize) -> Result<SparseOptions> {
    let mut o = SparseOptions::new();
    if let Some(size) = size.map(|i| s.get::<Vec<i64>>(i)).transpose()?.flatten() {
        o = o.size(size);
    }
    if let Some(d) = s.get(at)? {
        o = o.dtype(d);
    }
    if let Some(d) = s.device(at + 1)? {
        o = o.device(d);
    }
    ensure!(s.get::<bool>(at + 2)? != Some(true), Missing, "pinned memory");
    if s.get(at + 3)? == Some(true) {
        o = o.requires_grad(true);
    }
    if let Some(on) = s.get(at + 4)? {
        o = o.check_invariants(on);
    }
    if s.values.len() > at + 5
        && let Some(on) = s.get(at + 5)?
    {
        o = o.is_coalesced(on);
    }
    Ok(o)
}

const COO: &[&str] = &[
    "indices",
    "values",
    "size",
    "dtype",
    "device",
    "pin_memory",
    "requires_grad",
    "check_invariants",
    "is_coalesced",
];
fn sparse_coo_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("sparse_coo_tensor", COO, a, k)?;
    // a size alone
    if s.values[1].is_none() {
        let size = match s.values[2] {
            Some(v) => v,
            None => s.must(0)?,
        };
        return one(construct::coo_zeros(&Vec::<i64>::from_value(size)?, &options(&s, None, 3)?)?);
    }
    let o = options(&s, Some(2), 3)?;
    let indices = tensor(s.must(0)?, Some(DType::I64))?;
    one(construct::coo(&indices, &tensor(s.must(1)?, s.get(3)?)?, &o)?)
}
fn compressed(s: &Slots<'_>, layout: Layout, at: usize) -> Result<Vec<Value>> {
    let o = options(s, Some(3), at)?;
    let (c, p) = (tensor(s.must(0)?, Some(DType::I64))?, tensor(s.must(1)?, Some(DType::I64))?);
    one(construct::compressed(&c, &p, &tensor(s.must(2)?, s.get(at)?)?, layout, &o)?)
}
fn sparse_compressed_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const NAMES: &[&str] = &[
        "compressed_indices",
        "plain_indices",
        "values",
        "size",
        "dtype",
        "device",
        "pin_memory",
        "requires_grad",
        "check_invariants",
        "layout",
    ];
    let s = Slots::new("sparse_compressed_tensor", NAMES, a, k)?;
    let layout = s.get::<Layout>(9)?.ok_or_else(|| {
        Error::runtime("sparse_compressed_tensor expected sparse compressed tensor layout but got none")
    })?;
    let mut o = s;
    o.values.truncate(9);
    compressed(&o, layout, 4)
}
macro_rules! compressed_by_name {
    ($($name:ident $layout:ident $a:literal $b:literal;)*) => {$(
        fn $name(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
            const NAMES: &[&str] = &[
                $a, $b, "values", "size", "dtype", "device", "pin_memory", "requires_grad", "check_invariants",
            ];
            compressed(&Slots::new(stringify!($name), NAMES, a, k)?, Layout::$layout, 4)
        }
    )*};
}
compressed_by_name! {
    sparse_csr_tensor SparseCsr "crow_indices" "col_indices";
    sparse_csc_tensor SparseCsc "ccol_indices" "row_indices";
    sparse_bsr_tensor SparseBsr "crow_indices" "col_indices";
    sparse_bsc_tensor SparseBsc "ccol_indices" "row_indices";
}

fn resized(
    name: &'static str,
    a: &[Value],
    k: &Kwargs,
    f: fn(&mut Tensor, &[i64], i64, i64) -> Result<()>,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["self", "size", "sparse_dim", "dense_dim"], a, k)?;
    let mut t = s.tensor()?;
    let size = Vec::<i64>::from_value(s.must(1)?)?;
    f(&mut t, &size, i64::from_value(s.must(2)?)?, i64::from_value(s.must(3)?)?)?;
    one(t)
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.sparse_coo_tensor", sparse_coo_tensor),
    ("torch.sparse_compressed_tensor", sparse_compressed_tensor),
    ("torch.sparse_csr_tensor", sparse_csr_tensor),
    ("torch.sparse_csc_tensor", sparse_csc_tensor),
    ("torch.sparse_bsr_tensor", sparse_bsr_tensor),
    ("torch.sparse_bsc_tensor", sparse_bsc_tensor),
    ("torch.Tensor.sparse_resize_", |a, k| resized("sparse_resize_", a, k, resize::resize)),
    ("torch.Tensor.sparse_resize_and_clear_", |a, k| {
        resized("sparse_resize_and_clear_", a, k, resize::resize_and_clear)
    }),
    ("torch.Tensor._dimI", |a, _| one(ops::sparse_dim(tensor_arg(a, 0)?)?)),
    ("torch.Tensor._dimV", |a, _| one(ops::dense_dim(tensor_arg(a, 0)?)?)),
    ("torch.sparse.check_sparse_tensor_invariants.is_enabled", |_, _| {
        one(construct::is_checking_invariants())
    }),
    ("torch.sparse.check_sparse_tensor_invariants.enable", |_, _| {
        set_check_invariants(true);
        Ok(Vec::new())
    }),
    ("torch.sparse.check_sparse_tensor_invariants.disable", |_, _| {
        set_check_invariants(false);
        Ok(Vec::new())
    }),
];
