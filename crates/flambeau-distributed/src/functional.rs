//! Collectives that give new tensors, and have gradients (`torch.distributed.nn.functional`, `torch.distributed._functional_collectives`).

use crate::group::{Peer, ProcessGroup};
use crate::reduce_op::ReduceOp;
use crate::world::World;
use crate::{
    AllToAllOptions, CollectiveOptions, ReduceOptions, try_all_gather_into_tensor,
    try_all_to_all_single as begin_all_to_all, try_broadcast as begin_broadcast, try_reduce as begin_reduce,
    try_reduce_scatter_tensor as begin_reduce_scatter,
};
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, MemoryFormat, Result, Tensor, bail, ensure, ops};

/// Keywords of these collectives.
#[flambeau_macros::options]
pub struct FunctionalOptions {
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// What reductions do with the elements. Default: the sum.
    #[default(ReduceOp::Sum)]
    pub(crate) op: ReduceOp,
}
impl FunctionalOptions {
    fn members(&self) -> Result<ProcessGroup> {
        let g = match &self.group {
            Some(g) => g.clone(),
            None => World::current().default_group()?,
        };
        ensure!(g.is_member(), Runtime, "this process is not in the group");
        Ok(g)
    }
}
#[derive(Clone)]
enum Kind {
    AllReduce(ReduceOp),
    Broadcast(i64),
    Reduce(i64, ReduceOp),
    /// along the first dimension
    AllGather,
    ReduceScatter(ReduceOp),
    /// rows that come, and rows that go
    AllToAll(Option<Vec<i64>>, Option<Vec<i64>>),
}
#[derive(Clone)]
struct Collective {
    group: ProcessGroup,
    kind: Kind,
}
fn only_linear(op: ReduceOp) -> Result<()> {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => Ok(()),
        other => bail!(Missing, "gradients of reductions with {other}"),
    }
}
impl Collective {
    /// What it gives, without gradients.
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        let g = &self.group;
        let reduce = |op| ReduceOptions::new().group(g).op(op);
        let plain = || CollectiveOptions::new().group(g);
        let x = ops::contiguous(&x.alias_detached(), MemoryFormat::Contiguous)?;
        let rows = x.sizes().first().copied().unwrap_or(1);
        let resized = |rows: i64| {
            let mut sizes = x.sizes().to_vec();
            match sizes.first_mut() {
                Some(s) => *s = rows,
                None => sizes.push(rows),
            }
            Tensor::zeros_raw(&sizes, x.dtype(), Device::Cpu)
        };
        Ok(match &self.kind {
            Kind::AllReduce(op) => {
                let y = ops::clone(&x, None)?;
                crate::try_all_reduce(&y, reduce(*op))?;
                y
            }
            Kind::Broadcast(from) => {
                let y = ops::clone(&x, None)?;
                begin_broadcast(&y, Peer::InGroup(*from), plain())?;
                y
            }
            Kind::Reduce(to, op) => {
                let y = ops::clone(&x, None)?;
                begin_reduce(&y, Peer::InGroup(*to), reduce(*op))?;
                // others have what was left half reduced: their result is their input
                if g.rank() == *to { y } else { ops::clone(&x, None)? }
            }
            Kind::AllGather => {
                let y = resized(rows * g.size())?;
                try_all_gather_into_tensor(&y, &x, plain())?;
                y
            }
            Kind::ReduceScatter(op) => {
                ensure!(
                    rows % g.size() == 0,
                    Runtime,
                    "input dimension 0 ({rows} must be a multiple of group_size {})",
                    g.size()
                );
                let y = resized(rows / g.size())?;
                begin_reduce_scatter(&y, &x, reduce(*op))?;
                y
            }
            Kind::AllToAll(come, go) => {
                let y = resized(come.as_ref().map_or(rows, |c| c.iter().sum()))?;
                let mut o = AllToAllOptions::new().group(g);
                (o.output_split_sizes, o.input_split_sizes) = (come.clone(), go.clone());
                begin_all_to_all(&y, &x, o)?;
                y
            }
        })
    }
    /// What brings gradients back.
    fn reversed(&self) -> Result<Collective> {
        let kind = match &self.kind {
            Kind::AllReduce(op) => {
                only_linear(*op)?;
                Kind::AllReduce(*op)
            }
            Kind::Broadcast(from) => Kind::Reduce(*from, ReduceOp::Sum),
            Kind::Reduce(to, op) => {
                only_linear(*op)?;
                Kind::Broadcast(*to)
            }
            Kind::AllGather => Kind::ReduceScatter(ReduceOp::Sum),
            Kind::ReduceScatter(op) => {
                only_linear(*op)?;
                Kind::AllGather
            }
            Kind::AllToAll(come, go) => Kind::AllToAll(go.clone(), come.clone()),
        };
        Ok(Collective { group: self.group.clone(), kind })
    }
}
impl Function for Collective {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Borrowed(match self.kind {
            Kind::AllReduce(_) => "_AllReduce",
            Kind::Broadcast(_) => "_Broadcast",
            Kind::Reduce(..) => "_Reduce",
            Kind::AllGather => "_AllGatherBase",
            Kind::ReduceScatter(_) => "_Reduce_Scatter",
            Kind::AllToAll(..) => "_AlltoAllSingle",
        })
    }
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![self.run(&inputs[0])?])
    }
    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let Some(Some(g)) = grads.first() else { return Ok(vec![None]) };
        let back = self.reversed()?;
        let mut r = function::apply(back, &[g.clone()])?.swap_remove(0);
        // ranks that only gave their input away, or whose input nobody read, have no part in the result
        match &self.kind {
            Kind::Broadcast(from) if self.group.rank() != *from => {
                r = ops::mul(&r, &Tensor::wrapped_raw(0.0)?)?
            }
            Kind::ReduceScatter(ReduceOp::Avg) | Kind::Reduce(_, ReduceOp::Avg) => {
                r = ops::div(&r, &Tensor::wrapped_raw(self.group.size() as f64)?)?;
            }
            _ => {}
        }
        Ok(vec![Some(r)])
    }
}
fn apply(o: &FunctionalOptions, kind: Kind, x: &Tensor) -> Result<Tensor> {
    let c = Collective { group: o.members()?, kind };
    Ok(function::apply(c, &[x.clone()])?.swap_remove(0))
}

/// The reduction of all ranks' tensors, as a new tensor. Its gradient is reduced in the same way.
///
/// ```
/// use torch::distributed::{functional, run_in_threads};
///
/// let gradients = run_in_threads(2, |rank| {
///     let x = torch::full([1], rank as f64).requires_grad_(true);
///     let y = functional::all_reduce(&x);
///     (y * (rank as f64 + 1.0)).sum().backward();
///     x.grad().unwrap().item::<f32>()
/// });
/// assert_eq!(gradients, [3.0, 3.0]);
/// ```
///
/// # Errors
/// Those of [`try_all_reduce`](crate::try_all_reduce).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.all_reduce")]
#[doc(alias = "torch.distributed._functional_collectives.all_reduce")]
pub fn try_all_reduce(tensor: &Tensor, options: FunctionalOptions) -> Result<Tensor> {
    apply(&options, Kind::AllReduce(options.op), tensor)
}
/// One rank's tensor, as a new tensor on all. Its gradients are summed up on that rank.
///
/// # Errors
/// Those of [`try_broadcast`](crate::try_broadcast).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.broadcast")]
#[doc(alias = "torch.distributed._functional_collectives.broadcast")]
pub fn try_broadcast(tensor: &Tensor, src: impl Into<Peer>, options: FunctionalOptions) -> Result<Tensor> {
    let from = options.members()?.peer(src.into())?;
    apply(&options, Kind::Broadcast(from), tensor)
}
/// The reduction of all ranks' tensors for one of them; the others get their own. Its gradient goes to all.
///
/// ```
/// use torch::distributed::{functional, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| functional::reduce(&torch::full([1], rank as f32), 0).item::<f32>());
/// assert_eq!(sums, [1.0, 1.0]);
/// ```
///
/// # Errors
/// Those of [`try_reduce`](crate::try_reduce).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.reduce")]
pub fn try_reduce(tensor: &Tensor, dst: impl Into<Peer>, options: FunctionalOptions) -> Result<Tensor> {
    let to = options.members()?.peer(dst.into())?;
    apply(&options, Kind::Reduce(to, options.op), tensor)
}
/// All ranks' tensors one after the other along a dimension. Their gradients are summed up, each on its rank.
///
/// ```
/// use torch::distributed::{functional, run_in_threads};
///
/// let all = run_in_threads(2, |rank| {
///     functional::all_gather_tensor(&torch::full([1, 2], rank as f32), 1).to_vec::<f32>()
/// });
/// assert_eq!(all, [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]);
/// ```
///
/// # Errors
/// A dimension that there is not, and those of [`try_all_gather_into_tensor`](crate::try_all_gather_into_tensor).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.all_gather")]
#[doc(alias = "torch.distributed._functional_collectives.all_gather_tensor")]
pub fn try_all_gather_tensor(tensor: &Tensor, gather_dim: i64, options: FunctionalOptions) -> Result<Tensor> {
    let y = apply(&options, Kind::AllGather, tensor)?;
    let dim = if gather_dim < 0 { gather_dim + tensor.dim() as i64 } else { gather_dim };
    if dim == 0 {
        return Ok(y);
    }
    ops::cat(&ops::chunk(&y, options.members()?.size(), 0)?, dim)
}
/// The reduction of all ranks' tensors, of which each rank gets its part along a dimension. Gradients are put together again.
///
/// ```
/// use torch::distributed::{functional, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| {
///     functional::reduce_scatter_tensor(&torch::tensor([1.0, rank as f32]), 0).item::<f32>()
/// });
/// assert_eq!(sums, [2.0, 1.0]);
/// ```
///
/// # Errors
/// A dimension that does not divide, and those of [`try_reduce_scatter_tensor`](crate::try_reduce_scatter_tensor).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.reduce_scatter")]
#[doc(alias = "torch.distributed._functional_collectives.reduce_scatter_tensor")]
pub fn try_reduce_scatter_tensor(
    tensor: &Tensor,
    scatter_dim: i64,
    options: FunctionalOptions,
) -> Result<Tensor> {
    let dim = if scatter_dim < 0 { scatter_dim + tensor.dim() as i64 } else { scatter_dim };
    let x = if dim == 0 {
        tensor.clone()
    } else {
        ops::cat(&ops::chunk(tensor, options.members()?.size(), dim)?, 0)?
    };
    apply(&options, Kind::ReduceScatter(options.op), &x)
}
/// A part of the rows of every rank's tensor. Gradients go the same way back.
///
/// ```
/// use torch::distributed::{functional, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let r = rank as f32;
///     functional::all_to_all_single(&torch::tensor([10.0 * r, 10.0 * r + 1.0]), None, None).to_vec::<f32>()
/// });
/// assert_eq!(got, [[0.0, 10.0], [1.0, 11.0]]);
/// ```
///
/// # Errors
/// Those of [`try_all_to_all_single`](crate::try_all_to_all_single).
#[flambeau_macros::short(with)]
#[doc(alias = "torch.distributed.nn.functional.all_to_all_single")]
#[doc(alias = "torch.distributed._functional_collectives.all_to_all_single")]
pub fn try_all_to_all_single(
    tensor: &Tensor,
    output_split_sizes: Option<&[i64]>,
    input_split_sizes: Option<&[i64]>,
    options: FunctionalOptions,
) -> Result<Tensor> {
    let own = |l: Option<&[i64]>| l.map(<[i64]>::to_vec);
    apply(&options, Kind::AllToAll(own(output_split_sizes), own(input_split_sizes)), tensor)
}
