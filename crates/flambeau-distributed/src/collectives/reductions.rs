//! Reductions: of all ranks' tensors, element by element.

use super::{checks, group_of, root, sparse, with};
use crate::backend::CollectiveBackend;
use crate::bytes;
use crate::calls::What;
use crate::coalesce;
use crate::gloo::arithmetic;
use crate::group::{Peer, ProcessGroup};
use crate::reduce_op::ReduceOp;
use crate::work::Work;
use flambeau_core::{Layout, Result, Tensor, ensure};

/// Keywords of reductions.
#[flambeau_macros::options]
pub struct ReduceOptions {
    /// What is done with the elements. Default: the sum.
    #[default(ReduceOp::Sum)]
    pub(crate) op: ReduceOp,
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether it only begins: then a program waits for its [`Work`]. Default: false.
    #[default(false)]
    pub(crate) async_op: bool,
}

fn complex(name: &str, op: ReduceOp, t: &Tensor) -> Result<()> {
    ensure!(
        !t.dtype().is_complex() || op.takes_complex(),
        Value,
        "{name} does not support {op} on complex tensors"
    );
    Ok(())
}

/// The same where it is the engine that refuses: PyTorch's text has the operation's number as a character there.
fn complex_part(name: &str, op: ReduceOp, t: &Tensor) -> Result<()> {
    ensure!(
        !t.dtype().is_complex() || op.takes_complex(),
        Runtime,
        "{name} does not support{}on complex tensors",
        op.number() as char
    );
    Ok(())
}

/// Reduces the ranks' tensors into each of them: afterwards all have the same.
///
/// Order and rounding of sums are gloo's, bit for bit. A tensor with gaps between its elements is reduced as its elements say (PyTorch
/// reduces the memory behind its first one).
///
/// ```
/// use torch::distributed::{self, ReduceOp, ReduceOptions, run_in_threads};
///
/// let largest = run_in_threads(2, |rank| {
///     let t = torch::tensor([rank as f64, -(rank as f64)]);
///     distributed::all_reduce_with(&t, ReduceOptions::new().op(ReduceOp::Max));
///     t.to_vec::<f64>()
/// });
/// assert_eq!(largest, [[1.0, 0.0], [1.0, 0.0]]);
/// ```
///
/// # Errors
/// Dtypes and reductions that gloo refuses, ranks that do not come in time or have gone, no job.
#[doc(alias = "torch.distributed.all_reduce")]
#[doc(alias = "torch.distributed.all_reduce_multigpu")]
#[doc(alias = "torch.distributed.deprecated.all_reduce_multigpu")]
#[doc(alias = "torch.distributed.deprecated.all_reduce")]
#[flambeau_macros::short(with)]
pub fn try_all_reduce(tensor: &Tensor, options: ReduceOptions) -> Result<Work> {
    let waits = !options.async_op;
    all_reduce_of(tensor, options, waits)
}
/// A sum that runs on in the tensor's own memory: for those who leave it alone until it is over.
pub(crate) fn all_reduce_where_it_lies(tensor: &Tensor, group: &ProcessGroup) -> Result<Work> {
    all_reduce_of(tensor, ReduceOptions::new().group(group).async_op(true), true)
}
fn all_reduce_of(tensor: &Tensor, options: ReduceOptions, where_it_lies: bool) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (op, dtype, t) = (options.op, tensor.dtype(), tensor.clone());
    if coalesce::takes(&g, || coalesce::Call::AllReduce(t.clone(), op))? {
        return Ok(Work::illegal());
    }
    if t.layout() == Layout::SparseCoo {
        let own = |b: &dyn CollectiveBackend| b.all_reduce(tensor, op);
        return with(
            &g,
            What::new("sparse_all_reduce", [&t]),
            (Some(tensor), options.async_op),
            own,
            |e, status| {
                sparse::check(&t, op)?;
                e.run(options.async_op, status, vec![t.clone()], move |c| sparse::all_reduce(c, &t))
            },
        );
    }
    let own = |b: &dyn CollectiveBackend| b.all_reduce(tensor, op);
    with(&g, What::new("all_reduce", [&t]), (Some(tensor), options.async_op), own, |e, status| {
        complex("all_reduce", op, &t)?;
        bytes::check(&t)?;
        arithmetic::check(op, dtype)?;
        let in_place = if where_it_lies { bytes::InPlace::free(&t, false, true)? } else { None };
        e.run(options.async_op, status, vec![t.clone()], move |c| {
            if let Some(mut place) = in_place {
                return c.all_reduce(op, dtype, &mut place);
            }
            let mut b = bytes::read(&t)?;
            c.all_reduce(op, dtype, &mut b)?;
            tidy(dtype, &mut b);
            bytes::write(&t, &b)
        })
    })
}
/// Truth values are 0 or 1 here, whatever their sum was.
fn tidy(dtype: flambeau_core::DType, b: &mut [u8]) {
    if dtype == flambeau_core::DType::Bool {
        b.iter_mut().for_each(|x| *x = u8::from(*x != 0));
    }
}
/// [`try_all_reduce`] of several tensors of one dtype as if they were one.
///
/// ```
/// use torch::distributed::{all_reduce_coalesced, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| {
///     let both = [torch::full([1], rank as f32), torch::ones([1])];
///     all_reduce_coalesced(&both);
///     [both[0].item::<f32>(), both[1].item::<f32>()]
/// });
/// assert_eq!(sums, [[1.0, 2.0], [1.0, 2.0]]);
/// ```
///
/// # Errors
/// Those of [`try_all_reduce`], different dtypes, no tensors.
#[doc(alias = "torch.distributed.all_reduce_coalesced")]
#[flambeau_macros::short(with)]
pub fn try_all_reduce_coalesced(tensors: &[Tensor], options: ReduceOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (op, all) = (options.op, tensors.to_vec());
    let own = |b: &dyn CollectiveBackend| b.all_reduce_coalesced(tensors, op);
    with(
        &g,
        What::new("all_reduce_coalesced", &all),
        (tensors.first(), options.async_op),
        own,
        |e, status| {
            let dtype = checks::coalesced("allreduce", "tensor", &all)?;
            for t in &all {
                complex("all_reduce", op, t)?;
                bytes::check(t)?;
            }
            arithmetic::check(op, dtype)?;
            e.run(options.async_op, status, all.clone(), move |c| {
                let parts: Vec<Vec<u8>> = all.iter().map(bytes::read).collect::<Result<_>>()?;
                let mut b = parts.concat();
                c.all_reduce(op, dtype, &mut b)?;
                tidy(dtype, &mut b);
                let mut rest = &b[..];
                for (t, p) in all.iter().zip(&parts) {
                    let (mine, after) = rest.split_at(p.len());
                    bytes::write(t, mine)?;
                    rest = after;
                }
                Ok(())
            })
        },
    )
}
/// Reduces the ranks' tensors into that of one rank. The others' are left reduced in parts, as gloo leaves them.
///
/// ```
/// use torch::distributed::{reduce, run_in_threads};
///
/// let sums = run_in_threads(3, |rank| {
///     let t = torch::tensor([rank as f32]);
///     reduce(&t, 1);
///     t.item::<f32>()
/// });
/// assert_eq!(sums[1], 3.0);
/// ```
///
/// # Errors
/// Those of [`try_all_reduce`], a rank that is none of the group's.
#[doc(alias = "torch.distributed.reduce")]
#[doc(alias = "torch.distributed.reduce_multigpu")]
#[doc(alias = "torch.distributed.deprecated.reduce_multigpu")]
#[doc(alias = "torch.distributed.deprecated.reduce")]
#[flambeau_macros::short(with)]
pub fn try_reduce(tensor: &Tensor, dst: impl Into<Peer>, options: ReduceOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let dst = dst.into();
    let (op, dtype, t) = (options.op, tensor.dtype(), tensor.clone());
    let own = |b: &dyn CollectiveBackend| b.reduce(tensor, root(&g, g.peer(dst)?, "reduce")?, op);
    with(&g, What::new("reduce", [&t]), (Some(tensor), options.async_op), own, |e, status| {
        let to = root(&g, g.peer(dst)?, "reduce")?;
        complex_part("reduce", op, &t)?;
        bytes::check(&t)?;
        arithmetic::check(op, dtype)?;
        e.run(options.async_op, status, vec![t.clone()], move |c| {
            let mut b = bytes::read(&t)?;
            c.reduce(op, dtype, &mut b, to)?;
            tidy(dtype, &mut b);
            bytes::write(&t, &b)
        })
    })
}
/// Reduces lists of tensors, one for each rank, and gives each rank its own.
///
/// ```
/// use torch::distributed::{reduce_scatter, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| {
///     let (out, r) = (torch::zeros([1]), rank as f32);
///     reduce_scatter(&out, &[torch::full([1], r), torch::full([1], 10.0 * r)]);
///     out.item::<f32>()
/// });
/// assert_eq!(sums, [1.0, 10.0]);
/// ```
///
/// # Errors
/// Those of [`try_all_reduce`], lists that are not as long as the group, other sizes than the output's.
#[doc(alias = "torch.distributed.reduce_scatter")]
#[flambeau_macros::short(with)]
pub fn try_reduce_scatter(output: &Tensor, input_list: &[Tensor], options: ReduceOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (op, dtype, out, all) = (options.op, output.dtype(), output.clone(), input_list.to_vec());
    let own = |b: &dyn CollectiveBackend| b.reduce_scatter(output, input_list, op);
    with(
        &g,
        What::new("reduce_scatter", &all).gives(vec![out.sizes().to_vec()]),
        (Some(output), options.async_op),
        own,
        |e, status| {
            checks::same_dtype(std::iter::once(&out).chain(&all))?;
            let n = g.size() as usize;
            ensure!(all.len() == n, Runtime, "invalid input tensor list size, must be world size");
            for (i, t) in all.iter().enumerate() {
                if i as i64 == g.rank() && t.sizes() != out.sizes() {
                    let what = "outputs[0].sizes().vec() == inputs[0][i].sizes().vec()";
                    return Err(checks::check_failed(what, out.sizes(), t.sizes()));
                }
                complex_part("all_reduce", op, t)?;
                bytes::check(t)?;
            }
            arithmetic::check(op, dtype)?;
            e.run_tags(n as u32, options.async_op, status, vec![out.clone()], move |c| {
                let mut mine = Vec::new();
                let parts: Vec<Vec<u8>> = all.iter().map(bytes::read_in_order).collect::<Result<_>>()?;
                for (r, mut b) in parts.into_iter().enumerate() {
                    c.at(r as u32).all_reduce_to_scatter(op, dtype, &mut b)?;
                    if r == c.mesh.rank {
                        mine = b;
                    }
                }
                tidy(dtype, &mut mine);
                bytes::write_in_order(&out, &mine)
            })
        },
    )
}
/// Reduces tensors, and gives each rank its part along the first dimension.
///
/// ```
/// use torch::distributed::{reduce_scatter_tensor, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| {
///     let (out, r) = (torch::zeros([1]), rank as f32);
///     reduce_scatter_tensor(&out, &torch::tensor([r, 10.0 * r]));
///     out.item::<f32>()
/// });
/// assert_eq!(sums, [1.0, 10.0]);
/// ```
///
/// # Errors
/// Those of [`try_all_reduce`], a first dimension that is not the output's as often as there are ranks.
#[doc(alias = "torch.distributed.reduce_scatter_tensor")]
#[flambeau_macros::short(with)]
pub fn try_reduce_scatter_tensor(output: &Tensor, input: &Tensor, options: ReduceOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (op, dtype, out, all) = (options.op, output.dtype(), output.clone(), input.clone());
    if coalesce::takes(&g, || coalesce::Call::ReduceScatter(out.clone(), all.clone(), op))? {
        return Ok(Work::illegal());
    }
    let own = |b: &dyn CollectiveBackend| b.reduce_scatter_tensor(output, input, op);
    with(
        &g,
        What::new("reduce_scatter_tensor", [&all]).gives(vec![out.sizes().to_vec()]),
        (Some(output), options.async_op),
        own,
        |e, status| {
            checks::output_like(&out, &all)?;
            let n = g.size();
            let first = |t: &Tensor| t.sizes().first().copied().unwrap_or(1);
            if first(&out) * n != first(&all) || out.numel() * n != all.numel() {
                let what = "outputShape[0] * worldSize == inputShape[0]";
                return Err(checks::check_failed(what, &[first(&out) * n], &[first(&all)]));
            }
            complex_part("all_reduce", op, &all)?;
            bytes::check(&all)?;
            bytes::check(&out)?;
            arithmetic::check(op, dtype)?;
            e.run(options.async_op, status, vec![out.clone()], move |c| {
                let mut b = bytes::read_in_order(&all)?;
                c.all_reduce_to_scatter(op, dtype, &mut b)?;
                tidy(dtype, &mut b);
                let part = b.len() / n as usize;
                bytes::write_in_order(&out, &b[c.mesh.rank * part..(c.mesh.rank + 1) * part])
            })
        },
    )
}
