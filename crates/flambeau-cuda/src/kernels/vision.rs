//! Interpolation, one dimension at a time, and its gradient.

use super::dense::{dense, quotient, text};
use super::{Args, Which, address, element, launch, shape};
use crate::device::ordinal;
use flambeau_core::backend::transfer::to_device;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Device, Error, Result, Tensor};
use flambeau_cpu::vision::resample::{Weights, Whole};
use flambeau_nn_functional::generated::{args, vision as rows};
use flambeau_nn_functional::ops as nn;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};

const FILE: &str = "vision/resample.cuh";
/// Tables that are kept on devices.
const TABLES: usize = 64;

/// Entries of each result on a device.
struct Table {
    starts: Tensor,
    at: Tensor,
    weights: Tensor,
    bits: i64,
}
/// What a table is made of: sources, results, flags, what scale is given, dtypes, the mode.
type Made = (Device, [i64; 2], [bool; 3], Option<u64>, [DType; 2], String);
/// The table of these numbers, made once while it is in use.
fn table(key: Made, make: impl FnOnce() -> Result<Weights>) -> Result<Arc<Table>> {
    static KNOWN: OnceLock<Mutex<HashMap<Made, Arc<Table>>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    if let Some(t) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(t.clone());
    }
    let (device, d) = (key.0, key.4[0]);
    let t = make()?;
    let list = |v: Vec<usize>| {
        let n = v.len() as i64;
        to_device(Tensor::from_vec_raw(v.into_iter().map(|i| i as i64).collect(), &[n])?, device)
    };
    let made = match d {
        DType::U8 => {
            let w = Whole::of(&t);
            let n = w.w.len() as i64;
            let weights = to_device(Tensor::from_vec_raw(w.w, &[n])?, device)?;
            Table { starts: list(w.starts)?, at: list(w.at)?, weights, bits: i64::from(w.bits) }
        }
        _ => {
            let n = t.w.len() as i64;
            let weights = match d {
                DType::F64 => Tensor::from_vec_raw(t.w, &[n])?,
                _ => Tensor::from_vec_raw(t.w.into_iter().map(|w| w as f32).collect(), &[n])?,
            };
            Table { starts: list(t.starts)?, at: list(t.at)?, weights: to_device(weights, device)?, bits: 0 }
        }
    };
    let made = Arc::new(made);
    let mut all = known.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= TABLES {
        all.clear();
    }
    all.insert(key, made.clone());
    Ok(made)
}
fn run(x: &Tensor, dim: i64, t: &Table, out: &Tensor) -> Result<()> {
    let (d, at) = (x.dtype(), dim as usize);
    let own = element(d).filter(|_| out.dtype() == d);
    let own = own.ok_or_else(|| Error::not_implemented_for("upsample", d))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (n, m, inner) = (x.sizes()[at], out.sizes()[at], x.sizes()[at + 1..].iter().product::<i64>());
    let list = Args::new().word(address(out)?).word(address(x)?).word(address(&t.starts)?);
    let list =
        list.word(address(&t.at)?).word(address(&t.weights)?).int(out.numel()).int(m).int(n).int(inner);
    let list = list.word(quotient(m)).word(quotient(inner)).int(t.bits);
    let weight = if d == DType::U8 { "i32" } else { own };
    let text = || text(FILE, &format!("RESAMPLE(k, {own}, {weight})"));
    launch(ordinal(out.device())?, Which("resample", 0, [d as u8, 0, 0, 0]), text, shape(out.numel()), list)
}
/// Floats that are not halves, which come widened, and bytes.
fn taken(d: DType, label: &str, bytes: bool) -> Result<()> {
    if matches!(d, DType::F32 | DType::F64) || bytes && d == DType::U8 {
        return Ok(());
    }
    Err(Error::not_implemented_for(label, d))
}
fn resample(a: &args::Resample, out: &Tensor) -> Result<()> {
    let d = a.self_.dtype();
    taken(d, "upsample", true)?;
    let x = dense(a.self_)?;
    let n = x.sizes()[a.dim as usize];
    let flags = [a.align_corners, a.antialias, false];
    let dtypes = [d, a.weights.unwrap_or(d)];
    let key = (out.device(), [n, a.size], flags, a.scale.map(f64::to_bits), dtypes, a.mode.to_string());
    run(&x, a.dim, &*table(key, || nn::resample_table(a))?, out)
}
fn resample_backward(a: &args::ResampleBackward, out: &Tensor) -> Result<()> {
    let d = a.grad_output.dtype();
    taken(d, "upsample_backward", false)?;
    let g = dense(a.grad_output)?;
    let m = g.sizes()[a.dim as usize];
    let flags = [a.align_corners, a.antialias, true];
    let key = (out.device(), [a.size, m], flags, a.scale.map(f64::to_bits), [d; 2], a.mode.to_string());
    let table = table(key, || Ok(nn::resample_backward_table(a)?.transposed(a.size as usize)))?;
    run(&g, a.dim, &table, out)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::RESAMPLE_KERNEL.register(Key::Cuda, resample);
    rows::RESAMPLE_BACKWARD_KERNEL.register(Key::Cuda, resample_backward);
}
