//! Functions by their documented names that are no operators.

#![allow(deprecated)]

use crate::lobpcg::{LobpcgOptions, try_lobpcg};
use crate::low_rank::{PcaLowrankOptions, SvdLowrankOptions, try_pca_lowrank, try_svd_lowrank};
use crate::{legacy, ops};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{Result, Tensor, ensure};
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-linalg names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
}

fn several(ts: impl IntoIterator<Item = Tensor>) -> Result<Vec<Value>> {
    Ok(ts.into_iter().map(Value::Tensor).collect())
}
fn two((a, b): (Tensor, Tensor)) -> Result<Vec<Value>> {
    several([a, b])
}
fn three((a, b, c): (Tensor, Tensor, Tensor)) -> Result<Vec<Value>> {
    several([a, b, c])
}
fn tensor(s: &Slots<'_>, i: usize) -> Result<Tensor> {
    Tensor::from_value(s.must(i)?)
}
fn flag(s: &Slots<'_>, i: usize, default: bool) -> Result<bool> {
    Ok(s.get::<bool>(i)?.unwrap_or(default))
}

fn lu(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("lu", &["A", "pivot", "get_infos", "out"], a, k)?;
    let (lu, pivots, info) = ops::lu_with_info(&s.tensor()?, flag(&s, 1, true)?, true)?;
    let infos = flag(&s, 2, false)?;
    let mut all = vec![lu, pivots];
    if infos {
        all.push(info);
    }
    if let Some(out) = s.values[3].filter(|v| !matches!(v, Value::None)) {
        let outs = Vec::<Tensor>::from_value(out)?;
        ensure!(
            outs.len() == all.len(),
            Type,
            "expected tuple of {} elements but got {}",
            all.len(),
            outs.len()
        );
        let mut filled = Vec::with_capacity(outs.len());
        for (mut o, t) in outs.into_iter().zip(&all) {
            flambeau_core::backend::out::resize_output(&mut o, t.sizes())?;
            flambeau_core::ops::copy_(&o, t, false)?;
            filled.push(o);
        }
        return several(filled);
    }
    several(all)
}
fn svd_lowrank(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("svd_lowrank", &["A", "q", "niter", "M"], a, k)?;
    let o = SvdLowrankOptions { q: s.get(1)?.unwrap_or(6), niter: s.get(2)?.unwrap_or(2), m: s.get(3)? };
    three(try_svd_lowrank(&s.tensor()?, o)?)
}
fn pca_lowrank(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("pca_lowrank", &["A", "q", "center", "niter"], a, k)?;
    let (center, niter) = (flag(&s, 2, true)?, s.get(3)?.unwrap_or(2));
    three(try_pca_lowrank(&s.tensor()?, PcaLowrankOptions { q: s.get(1)?, center, niter })?)
}
const LOBPCG: &[&str] = &[
    "A",
    "k",
    "B",
    "X",
    "n",
    "iK",
    "niter",
    "tol",
    "largest",
    "method",
    "tracker",
    "ortho_iparams",
    "ortho_fparams",
    "ortho_bparams",
];
fn lobpcg(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("lobpcg", LOBPCG, a, k)?;
    for i in 10..14 {
        let given = s.values[i].is_some_and(|v| !matches!(v, Value::None));
        ensure!(!given, Missing, "lobpcg: `{}`", LOBPCG[i]);
    }
    let o = LobpcgOptions {
        k: s.get(1)?,
        b: s.get(2)?,
        x: s.get(3)?,
        n: s.get(4)?,
        ik: s.get(5)?,
        niter: s.get(6)?,
        tol: s.get(7)?,
        largest: s.get(8)?,
        method: s.get(9)?,
    };
    two(try_lobpcg(&s.tensor()?, o)?)
}

/// What the parameters of an old name are called, and the call.
macro_rules! old {
    ($($name:ident [$($p:literal),*] |$s:ident| $body:expr;)*) => {$(
        fn $name(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
            let $s = &Slots::new(stringify!($name), &[$($p),*], a, k)?;
            $body
        }
    )*};
}
old! {
    solve ["B", "A"] |s| two(legacy::try_solve(&tensor(s, 0)?, &tensor(s, 1)?)?);
    gesv ["b", "A"] |s| two(legacy::try_solve(&tensor(s, 0)?, &tensor(s, 1)?)?);
    gels ["B", "A"] |s| two(legacy::try_lstsq(&tensor(s, 0)?, &tensor(s, 1)?)?);
    lstsq ["input", "A"] |s| two(legacy::try_lstsq(&tensor(s, 0)?, &tensor(s, 1)?)?);
    potrf ["a", "upper"] |s| several([legacy::try_potrf(&tensor(s, 0)?, flag(s, 1, true)?)?]);
    potrs ["b", "u", "upper"] |s| several([legacy::try_potrs(&tensor(s, 0)?, &tensor(s, 1)?, flag(s, 2, true)?)?]);
    potri ["u", "upper"] |s| several([legacy::try_potri(&tensor(s, 0)?, flag(s, 1, true)?)?]);
    pstrf ["a", "upper", "tol"] |s| two(legacy::try_pstrf(&tensor(s, 0)?, flag(s, 1, true)?, s.get(2)?.unwrap_or(-1.0))?);
    btrifact ["A", "pivot"] |s| two(legacy::try_btrifact(&tensor(s, 0)?, flag(s, 1, true)?)?);
    btrifact_with_info ["A", "pivot"] |s| three(legacy::try_btrifact_with_info(&tensor(s, 0)?, flag(s, 1, true)?)?);
    btrisolve ["b", "LU_data", "LU_pivots"] |s| {
        several([legacy::try_btrisolve(&tensor(s, 0)?, &tensor(s, 1)?, &tensor(s, 2)?)?])
    };
    btriunpack ["LU_data", "LU_pivots", "unpack_data", "unpack_pivots"] |s| {
        three(legacy::try_btriunpack(&tensor(s, 0)?, &tensor(s, 1)?, flag(s, 2, true)?, flag(s, 3, true)?)?)
    };
    trtrs ["b", "A", "upper", "transpose", "unitriangular"] |s| {
        let (b, a) = (tensor(s, 0)?, tensor(s, 1)?);
        two(legacy::try_trtrs(&b, &a, flag(s, 2, true)?, flag(s, 3, false)?, flag(s, 4, false)?)?)
    };
    symeig ["input", "eigenvectors", "upper"] |s| {
        two(legacy::try_symeig(&tensor(s, 0)?, flag(s, 1, false)?, flag(s, 2, true)?)?)
    };
    eig ["a", "eigenvectors"] |s| two(legacy::try_eig(&tensor(s, 0)?, flag(s, 1, false)?)?);
    matrix_rank ["input", "tol", "symmetric"] |s| {
        several([legacy::try_matrix_rank(&tensor(s, 0)?, s.get(1)?, flag(s, 2, false)?)?])
    };
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.lu", lu),
    ("torch.Tensor.lu", lu),
    ("torch.svd_lowrank", svd_lowrank),
    ("torch.Tensor.svd_lowrank", svd_lowrank),
    ("torch.pca_lowrank", pca_lowrank),
    ("torch.Tensor.pca_lowrank", pca_lowrank),
    ("torch.lobpcg", lobpcg),
    ("torch.Tensor.lobpcg", lobpcg),
    ("torch.solve", solve),
    ("torch.Tensor.solve", solve),
    ("torch.gesv", gesv),
    ("torch.Tensor.gesv", gesv),
    ("torch.gels", gels),
    ("torch.Tensor.gels", gels),
    ("torch.lstsq", lstsq),
    ("torch.Tensor.lstsq", lstsq),
    ("torch.potrf", potrf),
    ("torch.Tensor.potrf", potrf),
    ("torch.potrs", potrs),
    ("torch.Tensor.potrs", potrs),
    ("torch.potri", potri),
    ("torch.Tensor.potri", potri),
    ("torch.pstrf", pstrf),
    ("torch.Tensor.pstrf", pstrf),
    ("torch.btrifact", btrifact),
    ("torch.Tensor.btrifact", btrifact),
    ("torch.btrifact_with_info", btrifact_with_info),
    ("torch.Tensor.btrifact_with_info", btrifact_with_info),
    ("torch.btrisolve", btrisolve),
    ("torch.Tensor.btrisolve", btrisolve),
    ("torch.btriunpack", btriunpack),
    ("torch.trtrs", trtrs),
    ("torch.Tensor.trtrs", trtrs),
    ("torch.symeig", symeig),
    ("torch.Tensor.symeig", symeig),
    ("torch.eig", eig),
    ("torch.Tensor.eig", eig),
    ("torch.matrix_rank", matrix_rank),
    ("torch.Tensor.matrix_rank", matrix_rank),
];
