//! Elements at places that indices name.

mod advanced;
mod along;
mod compact;
mod reduce;

use super::dense::power;
use super::{
    Args, Geometry, Which, address, by_the_cpu, dense, element, launch, opaque, resolved, shape, wrapped,
};
use crate::{device, fault};
use flambeau_core::backend::{matrices, transfer};
use flambeau_core::generated::{args, indexing};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};

/// The kernels' source.
fn text(file: &str, line: &str, name: &str) -> (String, String) {
    (format!("#include \"indexing/{file}.cuh\"\n{line}\n"), name.to_string())
}
/// The C++ name of indices.
fn index_type(d: DType) -> Option<&'static str> {
    match d {
        DType::I64 => Some("i64"),
        DType::I32 => Some("i32"),
        _ => None,
    }
}
/// A tensor without dimensions as a vector of one element.
fn vector(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => t.alias_detached().view_raw([1i64], [1i64], t.storage_offset()),
        _ => Ok(t.clone()),
    }
}
/// The strides of a tensor in bytes.
fn steps(t: &Tensor) -> Vec<i64> {
    t.strides().iter().map(|s| s * t.dtype().size() as i64).collect()
}
/// The same with none along a dimension.
fn steps_without(t: &Tensor, dim: usize) -> Vec<i64> {
    let mut s = steps(t);
    s[dim] = 0;
    s
}

/// Places that an index names: along a dimension of `size` elements that lie `stride` bytes apart.
#[derive(Clone, Copy)]
struct Places<'a> {
    index: &'a Tensor,
    /// Of the index, in bytes, over what is gone over.
    steps: &'a [i64],
    size: i64,
    stride: i64,
    /// How errors call the dimension.
    dim: i64,
    /// Whether negative indices count from the end.
    wraps: bool,
}
/// What is done at the places.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// The elements there are read into a tensor; `source` lies without the dimension.
    Pick,
    /// A tensor's elements are written there.
    Put,
    /// One element, by its bytes, is written there.
    Value([u64; 2]),
    /// A tensor's elements are joined with those there; sums may be of multiples.
    Join(&'a str, Option<Scalar>),
}
/// Does it, over `sizes`: `to` and `from` are tensors with their strides in bytes. `false` where there is no kernel for it.
fn at_places(
    name: &'static str,
    work: Work,
    sizes: &[i64],
    to: (&Tensor, &[i64]),
    from: Option<(&Tensor, &[i64])>,
    at: Places,
) -> Result<bool> {
    let Some(index) = index_type(at.index.dtype()) else { return Ok(false) };
    if sizes.contains(&0) {
        return Ok(true);
    }
    let mut strides = vec![to.1.to_vec()];
    let mut start = vec![address(to.0)?];
    if let Some((t, s)) = from {
        strides.push(s.to_vec());
        start.push(address(t)?);
    }
    strides.push(at.steps.to_vec());
    start.push(address(at.index)?);
    let Some(g) = Geometry::joined(sizes, &strides, start) else { return Ok(false) };
    let d = to.0.dtype();
    let size = d.size();
    let (g, unit) = match work {
        Work::Pick | Work::Put => g.widened(size, 2, &[at.stride]),
        _ => (g, size),
    };
    let device = device::ordinal(to.0.device())?;
    let narrow = u8::from(index == "i32");
    if let (Work::Pick, [rows, units], [to, from, of]) = (work, &g.sizes[..], &g.strides[..])
        && *units >= 4
        && to[1] == unit as i64
        && from[..] == [0, unit as i64]
        && of[1] == 0
    {
        let threads = power(*units, 1, 32);
        let list = g.start.iter().fold(Args::new(), |l, a| l.word(*a)).int(*rows).int(*units);
        let list = list.int(to[0]).int(of[0]).int(threads);
        let list = list.int(at.size).int(at.stride).int(at.dim).int(at.wraps.into());
        let list = list.word(fault::place(device)?).word(fault::number(name));
        let text = || text("indexing", &format!("PICK_ROWS(pick_k, {}, {index})", opaque(unit)), "pick_k");
        let which = Which("pick_rows", 0, [unit as u8, narrow, 0, 0]);
        launch(device, which, text, shape(rows * threads), list)?;
        return Ok(true);
    }
    let (value, alpha) = match work {
        Work::Value(v) => (v, None),
        Work::Join(_, alpha) => ([0; 2], alpha),
        _ => ([0; 2], None),
    };
    let list = Args::new().geometry(&g).int(at.size).int(at.stride).int(at.dim).int(at.wraps.into());
    let list = list.word(fault::place(device)?).word(fault::number(name)).word(value[0]).word(value[1]);
    let list = super::scalar(list, alpha).int(alpha.is_some().into());
    let own = opaque(unit);
    match work {
        Work::Pick => {
            let text = || text("indexing", &format!("PICK(pick_k, {own}, {index})"), "pick_k");
            launch(device, Which("pick", 0, [unit as u8, narrow, 0, 0]), text, shape(g.n), list)?;
        }
        Work::Put => {
            let text = || text("indexing", &format!("PUT(put_k, {own}, {index})"), "put_k");
            launch(device, Which("put", 0, [unit as u8, narrow, 0, 0]), text, shape(g.n), list)?;
        }
        Work::Value(_) => {
            let text = || text("indexing", &format!("PUT_VALUE(put_k, {own}, {index})"), "put_k");
            launch(device, Which("put_value", 0, [unit as u8, narrow, 0, 0]), text, shape(g.n), list)?;
        }
        Work::Join(op, _) => {
            let Some(own) = element(d) else { return Ok(false) };
            let text = || text("reduce", &format!("COMBINE(combine_k, {own}, {index}, {op})"), "combine_k");
            let which = Which("combine", 0, [d as u8, narrow, op.as_bytes()[0], op.as_bytes()[1]]);
            launch(device, which, text, shape(g.n), list)?;
        }
    }
    Ok(true)
}
/// The bytes of a number as an element of a dtype.
fn number(value: Scalar, d: DType) -> Result<[u64; 2]> {
    let one = ops::full(&[], value, Some(d), None, Some(flambeau_core::Device::Cpu), None)?;
    one.storage().with_bytes(super::creation::words)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    along::register();
    advanced::register();
    compact::register();
}
