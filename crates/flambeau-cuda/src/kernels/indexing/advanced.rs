//! Indexing by several tensors, and into the flattened tensor.

use super::*;
use flambeau_core::ops::indexing::{Form, as_fill};

/// An index over its common sizes as one of offsets in bytes, or the only one as it is.
struct Index {
    tensor: Tensor,
    /// In bytes, over the common sizes.
    steps: Vec<i64>,
    size: i64,
    stride: i64,
    wraps: bool,
}
/// Strides in bytes of a tensor that is broadcast to sizes.
fn broadcast(t: &Tensor, sizes: &[i64]) -> Vec<i64> {
    let missing = sizes.len() - t.dim();
    let own = steps(t);
    let of = |d: usize| match d.checked_sub(missing) {
        Some(i) if t.sizes()[i] != 1 => own[i],
        _ => 0,
    };
    (0..sizes.len()).map(of).collect()
}
fn together(name: &'static str, x: &Tensor, f: &Form) -> Result<Option<Index>> {
    let size = x.dtype().size() as i64;
    // indices may lie on the host
    let there = |t: &Tensor| flambeau_core::backend::transfer::to_device(t.clone(), x.device());
    let tensors = f.tensors.iter().map(there).collect::<Result<Vec<_>>>()?;
    if let [only] = &tensors[..] {
        let d = f.used[0];
        let steps = broadcast(only, &f.common);
        let (size, stride) = (x.sizes()[d], x.strides()[d] * size);
        return Ok(Some(Index { tensor: only.clone(), steps, size, stride, wraps: true }));
    }
    let device = device::ordinal(x.device())?;
    let out = Tensor::empty_raw(&f.common, DType::I64, x.device())?;
    let wide = tensors.iter().map(|t| super::super::cast(t, DType::I64)).collect::<Result<Vec<_>>>()?;
    for (k, part) in wide.chunks(3).enumerate() {
        let first = 3 * k;
        let mut strides = vec![steps(&out)];
        let mut start = vec![address(&out)?];
        for t in part {
            strides.push(broadcast(t, &f.common));
            start.push(address(t)?);
        }
        let Some(g) = Geometry::joined(&f.common, &strides, start) else { return Ok(None) };
        let mut list = Args::new().geometry(&g).int(part.len() as i64);
        for i in 0..3 {
            list = list.int(f.used.get(first + i).filter(|_| i < part.len()).map_or(1, |d| x.sizes()[*d]));
        }
        for i in 0..3 {
            let d = f.used.get(first + i).filter(|_| i < part.len());
            list = list.int(d.map_or(0, |d| x.strides()[*d] * size));
        }
        let list = list.int(first as i64).int((k > 0).into()).int(1);
        let list = list.word(fault::place(device)?).word(fault::number(name));
        let text = || text("indexing", "OFFSETS(offsets_k)", "offsets_k");
        launch(device, Which("offsets", 0, [0; 4]), text, shape(g.n), list)?;
    }
    let steps = steps(&out);
    Ok(Some(Index { tensor: out, steps, size: i64::MAX, stride: 1, wraps: false }))
}
/// Strides of the indexed tensor and of the index over the result's sizes.
fn over(x: &Tensor, f: &Form, index: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let own = steps(x);
    let kept = |list: &[usize]| list.iter().map(|d| own[*d]).collect::<Vec<i64>>();
    let none = |n: usize| vec![0; n];
    let data = [kept(&f.before), none(f.common.len()), kept(&f.after)].concat();
    (data, [none(f.before.len()), index.to_vec(), none(f.after.len())].concat())
}
fn picked(x: &Tensor, indices: &[Option<Tensor>], out: &Tensor) -> Result<bool> {
    if out.numel() == 0 {
        return Ok(true);
    }
    let x = resolved(x)?;
    let f = Form::of(&x, indices)?;
    if f.sizes.contains(&0) {
        return Ok(true);
    }
    if f.tensors.is_empty() {
        matrices::write(out, &x)?;
        return Ok(true);
    }
    let Some(i) = together("index", &x, &f)? else { return Ok(false) };
    let (data, steps_of_index) = over(&x, &f, &i.steps);
    let at = Places {
        index: &i.tensor,
        steps: &steps_of_index,
        size: i.size,
        stride: i.stride,
        dim: 0,
        wraps: i.wraps,
    };
    at_places("index", Work::Pick, &f.sizes, (out, &steps(out)), Some((&x, &data)), at)
}
fn index(a: &args::Index, out: &Tensor) -> Result<()> {
    if picked(a.self_, a.indices, out)? {
        return Ok(());
    }
    let host = a
        .indices
        .iter()
        .map(|i| i.as_ref().map(transfer::on_host).transpose())
        .collect::<Result<Vec<_>>>()?;
    by_the_cpu("index", &[a.self_], out, |t| ops::index(&t[0], &host))
}
fn put_at(out: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<bool> {
    // a single number may lie on the CPU, and so may masks
    let moved = |t: &Tensor| transfer::to_device(t.alias_detached(), out.device());
    let away = values.device() != out.device() && values.dim() == 0;
    let own = if away { Some(moved(values)?) } else { None };
    let values = own.as_ref().unwrap_or(values);
    if !accumulate && let Some(mask) = as_fill(out, indices, values) {
        let value = resolved(values)?;
        let value = value.view_raw([0i64; 0], [0i64; 0], value.storage_offset())?;
        let mask = mask?;
        let mask = if mask.device() == out.device() { mask } else { moved(&mask)? };
        ops::masked_fill_tensor_(&out.alias_detached(), &mask, &value)?;
        return Ok(true);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let d = out.dtype();
    if accumulate && matches!(d, DType::BC32 | DType::F8E4M3 | DType::F8E5M2) {
        return Ok(false);
    }
    let f = Form::of(out, indices)?;
    if f.sizes.contains(&0) {
        return Ok(true);
    }
    let values = ops::expand(&resolved(values)?.alias_detached(), &f.sizes, false)?;
    if f.tensors.is_empty() {
        let all = if accumulate { ops::add(&out.alias_detached(), &values, Scalar::Int(1))? } else { values };
        matrices::write(out, &all)?;
        return Ok(true);
    }
    let Some(i) = together("index_put_", out, &f)? else { return Ok(false) };
    let (data, steps_of_index) = over(out, &f, &i.steps);
    let at = Places {
        index: &i.tensor,
        steps: &steps_of_index,
        size: i.size,
        stride: i.stride,
        dim: 0,
        wraps: i.wraps,
    };
    let (to, from) = ((out, &data[..]), (&values, &steps(&values)[..]));
    let deterministic = reduce::in_order(d, accumulate);
    match accumulate {
        true if deterministic => {
            // keys of offsets are as large as the memory is
            let span = out.sizes().iter().zip(steps(out)).map(|(n, s)| (n - 1) * s).sum::<i64>() + 1;
            let at = if i.size == i64::MAX { Places { size: span, ..at } } else { at };
            reduce::add_sorted("index_put_", &f.sizes, to, from, at, None)
        }
        true => at_places("index_put_", Work::Join("Plus", None), &f.sizes, to, Some(from), at),
        false => at_places("index_put_", Work::Put, &f.sizes, to, Some(from), at),
    }
}
fn index_put(a: &args::IndexPut, out: &Tensor) -> Result<()> {
    if put_at(out, a.indices, a.values, a.accumulate)? {
        return Ok(());
    }
    let host = a
        .indices
        .iter()
        .map(|i| i.as_ref().map(transfer::on_host).transpose())
        .collect::<Result<Vec<_>>>()?;
    by_the_cpu("index_put", &[a.self_, a.values], out, |t| ops::index_put(&t[0], &host, &t[1], a.accumulate))
}

/// Places in a flat dense tensor.
fn flat<'a>(index: &'a Tensor, steps: &'a [i64], data: &Tensor) -> Places<'a> {
    Places { index, steps, size: data.numel(), stride: data.dtype().size() as i64, dim: 0, wraps: true }
}
fn take(a: &args::Take, out: &Tensor) -> Result<()> {
    let (x, index) = (dense(a.self_)?, a.index);
    let over = steps(index);
    let none = vec![0; index.dim()];
    let at = flat(index, &over, &x);
    if at_places("take", Work::Pick, index.sizes(), (out, &steps(out)), Some((&x, &none)), at)? {
        return Ok(());
    }
    by_the_cpu("take", &[a.self_, a.index], out, |t| ops::take(&t[0], &t[1]))
}
fn put_flat(a: &args::Put, out: &Tensor) -> Result<bool> {
    if a.index.numel() == 0 || out.numel() == 0 {
        return Ok(true);
    }
    let d = out.dtype();
    if a.accumulate && matches!(d, DType::C32 | DType::BC32 | DType::F8E4M3 | DType::F8E5M2) {
        return Ok(false);
    }
    let (index, source, data) = (dense(a.index)?, dense(a.source)?, dense(out)?);
    let n = [index.numel()];
    let (none, over, from) = ([0], [8], [d.size() as i64]);
    let at = flat(&index, &over, &data);
    let (to, from) = ((&data, &none[..]), (&source, &from[..]));
    let done = match a.accumulate {
        true if reduce::in_order(d, false) => reduce::add_sorted("put_", &n, to, from, at, None)?,
        true => at_places("put_", Work::Join("Plus", None), &n, to, Some(from), at)?,
        false => at_places("put_", Work::Put, &n, to, Some(from), at)?,
    };
    if done && !out.is_contiguous() {
        matrices::write(out, &data)?;
    }
    Ok(done)
}
fn put(a: &args::Put, out: &Tensor) -> Result<()> {
    if put_flat(a, out)? {
        return Ok(());
    }
    by_the_cpu("put", &[a.self_, a.index, a.source], out, |t| ops::put(&t[0], &t[1], &t[2], a.accumulate))
}

/// Fills the rows' tables.
pub(super) fn register() {
    indexing::INDEX_KERNEL.register(Key::Cuda, index);
    indexing::INDEX_PUT_KERNEL.register(Key::Cuda, index_put);
    indexing::TAKE_KERNEL.register(Key::Cuda, take);
    indexing::PUT_KERNEL.register(Key::Cuda, put);
}
