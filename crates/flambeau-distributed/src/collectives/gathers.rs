//! Collectives that move data and leave them as they are.

use super::{CollectiveOptions, checks, group_of, root, times, with};
use crate::backend::CollectiveBackend;
use crate::bytes;
use crate::calls::What;
use crate::coalesce;
use crate::gloo::arithmetic::check_dtype;
use crate::gloo::payload::{Place as _, Places};
use crate::group::{Peer, ProcessGroup};
use crate::work::Work;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::{Result, Tensor, bail, ensure};

/// Copies one rank's tensor into all others'.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let all = run_in_threads(3, |rank| {
///     let t = torch::tensor([rank as i64]);
///     distributed::broadcast(&t, 2);
///     t.item::<i64>()
/// });
/// assert_eq!(all, [2, 2, 2]);
/// ```
///
/// # Errors
/// A rank that is none of the group's, ranks that do not come in time or have gone, no job.
#[doc(alias = "torch.distributed.broadcast")]
#[doc(alias = "torch.distributed.broadcast_multigpu")]
#[doc(alias = "torch.distributed.deprecated.broadcast_multigpu")]
#[doc(alias = "torch.distributed.deprecated.broadcast")]
#[flambeau_macros::short(with)]
pub fn try_broadcast(tensor: &Tensor, src: impl Into<Peer>, options: CollectiveOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (src, t) = (src.into(), tensor.clone());
    let own = |b: &dyn CollectiveBackend| b.broadcast(tensor, root(&g, g.peer(src)?, "broadcast")?);
    with(&g, What::new("broadcast", [&t]), (Some(tensor), options.async_op), own, |e, status| {
        let from = root(&g, g.peer(src)?, "broadcast")?;
        check_dtype(t.dtype())?;
        bytes::check(&t)?;
        let writes = g.rank() as usize != from;
        let in_place = if options.async_op { None } else { bytes::InPlace::free(&t, false, writes)? };
        e.run(options.async_op, status, vec![t.clone()], move |c| {
            if let Some(mut place) = in_place {
                return c.broadcast(&mut place, from);
            }
            let mut b = bytes::read(&t)?;
            c.broadcast(&mut b, from)?;
            if c.mesh.rank == from { Ok(()) } else { bytes::write(&t, &b) }
        })
    })
}
/// Gives every rank the tensors of all.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let all = run_in_threads(2, |rank| {
///     let list = [torch::zeros([1]), torch::zeros([1])];
///     distributed::all_gather(&list, &torch::tensor([rank as f32]));
///     [list[0].item::<f32>(), list[1].item::<f32>()]
/// });
/// assert_eq!(all, [[0.0, 1.0], [0.0, 1.0]]);
/// ```
///
/// # Errors
/// A list that is not as long as the group, other dtypes or sizes than the tensor's, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.all_gather")]
#[doc(alias = "torch.distributed.all_gather_multigpu")]
#[doc(alias = "torch.distributed.deprecated.all_gather_multigpu")]
#[doc(alias = "torch.distributed.deprecated.all_gather")]
#[flambeau_macros::short(with)]
pub fn try_all_gather(tensor_list: &[Tensor], tensor: &Tensor, options: CollectiveOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (list, t) = (tensor_list.to_vec(), tensor.clone());
    let own = |b: &dyn CollectiveBackend| b.all_gather(tensor_list, tensor);
    with(
        &g,
        What::new("all_gather", [&t]).gives(times(g.size(), &t)),
        (Some(tensor), options.async_op),
        own,
        |e, status| {
            checks::same_dtype(list.iter().chain([&t]))?;
            ensure!(
                list.len() as i64 == g.size(),
                Runtime,
                "ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length {}, got {})",
                g.size(),
                list.len()
            );
            checks::like("allgather", &list, &t)?;
            check_dtype(t.dtype())?;
            bytes::check(&t)?;
            // an output that is the input would be written while that is read
            let apart = !options.async_op && !list.iter().any(|o| bytes::share(o, &t));
            let outs = || {
                list.iter().map(|o| bytes::InPlace::free(o, true, true)).collect::<Result<Option<Vec<_>>>>()
            };
            let in_place = if apart { bytes::InPlace::free(&t, true, false)?.zip(outs()?) } else { None };
            e.run(options.async_op, status, list.clone(), move |c| {
                if let Some((own, each)) = in_place {
                    let len = own.len();
                    return c.all_gather_into(&own, &mut Places { each, len });
                }
                let own = bytes::read_in_order(&t)?;
                let all = c.all_gather(&own)?;
                list.iter()
                    .enumerate()
                    .try_for_each(|(r, o)| bytes::write_in_order(o, &all[r * own.len()..(r + 1) * own.len()]))
            })
        },
    )
}
/// Gives every rank the tensors of all as one, along the first dimension.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let all = run_in_threads(2, |rank| {
///     let out = torch::zeros([4]);
///     distributed::all_gather_into_tensor(&out, &torch::tensor([rank as f32, 10.0]));
///     out.to_vec::<f32>()
/// });
/// assert_eq!(all[0], [0.0, 10.0, 1.0, 10.0]);
/// ```
///
/// # Errors
/// An output that is not as large as all of them, another dtype, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.all_gather_into_tensor")]
#[flambeau_macros::short(with)]
pub fn try_all_gather_into_tensor(
    output: &Tensor,
    input: &Tensor,
    options: CollectiveOptions,
) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (out, t) = (output.clone(), input.clone());
    if coalesce::takes(&g, || coalesce::Call::AllGather(out.clone(), t.clone()))? {
        return Ok(Work::illegal());
    }
    let own = |b: &dyn CollectiveBackend| b.all_gather_into_tensor(output, input);
    with(
        &g,
        What::new("all_gather_into_tensor", [&t]).gives(vec![out.sizes().to_vec()]),
        (Some(input), options.async_op),
        own,
        |e, status| {
            // PyTorch cuts the output into as many chunks as there are ranks, and compares each
            let (n, first) = (g.size(), |t: &Tensor| t.sizes().first().copied().unwrap_or(1));
            let fits = out.numel() == t.numel() * n && (out.dim() == t.dim() || t.dim() == 0);
            let same = fits && first(&out) == first(&t) * n;
            if out.dtype() != t.dtype() {
                checks::like("allgather", &[out.clone()], &t)?;
            }
            if !same {
                let step = (first(&out) + n - 1) / n;
                let chunks = if step > 0 { (first(&out) + step - 1) / step } else { n };
                ensure!(
                    chunks == n,
                    Runtime,
                    "ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length {n}, got {chunks})"
                );
                for i in 0..n {
                    let mut sizes = out.sizes().to_vec();
                    if let Some(s) = sizes.first_mut() {
                        *s = step.min(first(&out) - i * step).max(0);
                    }
                    if sizes != t.sizes() {
                        let shown: Vec<String> = sizes.iter().map(i64::to_string).collect();
                        bail!(
                            Runtime,
                            "ProcessGroupGloo::allgather: invalid tensor size at index {i} (expected {}, got ({}))",
                            checks::sizes(&t),
                            shown.join(", ")
                        );
                    }
                }
            }
            check_dtype(t.dtype())?;
            bytes::check(&t)?;
            bytes::check(&out)?;
            let apart = !options.async_op && !bytes::share(&out, &t);
            let in_place = if apart {
                bytes::InPlace::free(&t, true, false)?.zip(bytes::InPlace::free(&out, true, true)?)
            } else {
                None
            };
            e.run(options.async_op, status, vec![out.clone()], move |c| {
                if let Some((own, mut all)) = in_place {
                    return c.all_gather_into(&own, &mut all);
                }
                bytes::write_in_order(&out, &c.all_gather(&bytes::read_in_order(&t)?)?)
            })
        },
    )
}
/// [`try_all_gather`] of several tensors at once: each list of `output_tensor_lists` is of one rank.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let all = run_in_threads(2, |rank| {
///     let out = [vec![torch::zeros([1]), torch::zeros([2])], vec![torch::zeros([1]), torch::zeros([2])]];
///     distributed::all_gather_coalesced(&out, &[torch::full([1], rank as f32), torch::ones([2])]);
///     [out[0][0].item::<f32>(), out[1][0].item::<f32>()]
/// });
/// assert_eq!(all, [[0.0, 1.0], [0.0, 1.0]]);
/// ```
///
/// # Errors
/// Those of [`try_all_gather`].
#[doc(alias = "torch.distributed.all_gather_coalesced")]
#[flambeau_macros::short(with)]
pub fn try_all_gather_coalesced(
    output_tensor_lists: &[Vec<Tensor>],
    input_tensor_list: &[Tensor],
    options: CollectiveOptions,
) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (lists, all) = (output_tensor_lists.to_vec(), input_tensor_list.to_vec());
    let own = |b: &dyn CollectiveBackend| b.all_gather_coalesced(output_tensor_lists, input_tensor_list);
    with(
        &g,
        What::new("all_gather_coalesced", &all),
        (input_tensor_list.first(), options.async_op),
        own,
        |e, status| {
            let dtype = checks::coalesced("allgather", "input tensor", &all)?;
            lists.iter().try_for_each(checks::same_dtype)?;
            ensure!(
                lists.len() as i64 == g.size(),
                Runtime,
                "ProcessGroupGloo::allgather_coalesced: output lists should be equal to world size"
            );
            for l in &lists {
                ensure!(
                    l.len() == all.len(),
                    Runtime,
                    "ProcessGroupGloo::allgather_coalesced: invalid output size: (expected length {}, got {})",
                    all.len(),
                    l.len()
                );
                for (i, (o, t)) in l.iter().zip(&all).enumerate() {
                    ensure!(
                        o.sizes() == t.sizes(),
                        Runtime,
                        "ProcessGroupGloo::allgather_coalesced: invalid size of output tensor at index {i} (expected length {}, got {})",
                        checks::sizes(t),
                        checks::sizes(o)
                    );
                    checks::like("allgather_coalesced", std::slice::from_ref(o), t)?;
                }
            }
            check_dtype(dtype)?;
            all.iter().try_for_each(bytes::check)?;
            e.run(options.async_op, status, lists.concat(), move |c| {
                let parts: Vec<Vec<u8>> = all.iter().map(bytes::read_in_order).collect::<Result<_>>()?;
                let got = c.all_gather(&parts.concat())?;
                let mut rest = &got[..];
                for l in &lists {
                    for (o, p) in l.iter().zip(&parts) {
                        let (mine, after) = rest.split_at(p.len());
                        bytes::write_in_order(o, mine)?;
                        rest = after;
                    }
                }
                Ok(())
            })
        },
    )
}

/// Tensors as an option takes them: a vector, an array, or a slice.
///
/// ```
/// use torch::distributed::{GatherOptions, gather_with, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let list = [torch::zeros([1]), torch::zeros([1])];
///     let options = GatherOptions::new().dst(1);
///     let options = if rank == 1 { options.gather_list(&list[..]) } else { options };
///     gather_with(&torch::tensor([rank as f32 + 5.0]), options);
///     list[1].item::<f32>()
/// });
/// assert_eq!(got, [0.0, 6.0]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorList(pub(crate) Vec<Tensor>);
impl IntoArg<TensorList> for Vec<Tensor> {
    fn into_arg(self) -> TensorList {
        TensorList(self)
    }
}
impl IntoArg<TensorList> for &[Tensor] {
    fn into_arg(self) -> TensorList {
        TensorList(self.to_vec())
    }
}
impl<const N: usize> IntoArg<TensorList> for [Tensor; N] {
    fn into_arg(self) -> TensorList {
        TensorList(self.into())
    }
}

/// Keywords of [`gather_with`].
#[flambeau_macros::options]
pub struct GatherOptions {
    /// One tensor for each rank, on the rank that gets them and on no other.
    pub(crate) gather_list: Option<TensorList>,
    /// Who gets them. Default: rank 0.
    #[default(0i64)]
    pub(crate) dst: Peer,
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether it only begins: then a program waits for its [`Work`]. Default: false.
    #[default(false)]
    pub(crate) async_op: bool,
}
/// Gives one rank the tensors of all.
///
/// ```
/// use torch::distributed::{GatherOptions, gather_with, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let list = [torch::zeros([1]), torch::zeros([1])];
///     let options = GatherOptions::new();
///     let options = if rank == 0 { options.gather_list(list.to_vec()) } else { options };
///     gather_with(&torch::tensor([rank as f32 + 5.0]), options);
///     [list[0].item::<f32>(), list[1].item::<f32>()]
/// });
/// assert_eq!(got, [[5.0, 6.0], [0.0, 0.0]]);
/// ```
///
/// # Errors
/// A list on the wrong rank or of another length, other dtypes or sizes than the tensor's, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.gather")]
#[doc(alias = "torch.distributed.deprecated.gather")]
#[flambeau_macros::short(with)]
pub fn try_gather(tensor: &Tensor, options: GatherOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (list, t, dst) = (options.gather_list.unwrap_or_default().0, tensor.clone(), options.dst);
    let outs = list.clone();
    let own = |b: &dyn CollectiveBackend| b.gather(&outs, tensor, root(&g, g.peer(dst)?, "gather")?);
    with(&g, What::new("gather", [&t]), (Some(tensor), options.async_op), own, |e, status| {
        checks::same_dtype(list.iter().chain([&t]))?;
        let to = g.peer(dst)?;
        if to == g.rank() {
            ensure!(
                !list.is_empty(),
                Value,
                "Argument ``gather_list`` must be specified on destination rank."
            );
        } else {
            ensure!(
                list.is_empty(),
                Value,
                "Argument ``gather_list`` must NOT be specified on non-destination ranks."
            );
        }
        let to = root(&g, to, "gather")?;
        if to as i64 == g.rank() {
            ensure!(
                list.len() as i64 == g.size(),
                Runtime,
                "ProcessGroupGloo::gather: Incorrect output list size {}. Output list size should be {}, same as size of the process group.",
                list.len(),
                g.size()
            );
            checks::like("gather", &list, &t)?;
        }
        ensure!(!t.dtype().is_complex(), Runtime, "Invalid scalar type");
        check_dtype(t.dtype())?;
        bytes::check(&t)?;
        e.run(options.async_op, status, list.clone(), move |c| {
            let all = c.gather(&bytes::read_in_order(&t)?, to)?;
            let all = all.unwrap_or_default();
            list.iter().zip(&all).try_for_each(|(o, b)| bytes::write_in_order(o, b))
        })
    })
}

/// Keywords of [`scatter_with`].
#[flambeau_macros::options]
pub struct ScatterOptions {
    /// One tensor for each rank, on the rank that has them and on no other.
    pub(crate) scatter_list: Option<TensorList>,
    /// Who has them. Default: rank 0.
    #[default(0i64)]
    pub(crate) src: Peer,
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether it only begins: then a program waits for its [`Work`]. Default: false.
    #[default(false)]
    pub(crate) async_op: bool,
}
/// Gives every rank one of a rank's tensors.
///
/// ```
/// use torch::distributed::{ScatterOptions, run_in_threads, scatter_with};
///
/// let got = run_in_threads(2, |rank| {
///     let (mine, options) = (torch::zeros([1]), ScatterOptions::new());
///     let parts = vec![torch::tensor([5.0]), torch::tensor([6.0])];
///     scatter_with(&mine, if rank == 0 { options.scatter_list(parts) } else { options });
///     mine.item::<f32>()
/// });
/// assert_eq!(got, [5.0, 6.0]);
/// ```
///
/// # Errors
/// A list on the wrong rank or of another length, other dtypes or sizes than the tensor's, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.scatter")]
#[doc(alias = "torch.distributed.deprecated.scatter")]
#[flambeau_macros::short(with)]
pub fn try_scatter(tensor: &Tensor, options: ScatterOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (list, t, src) = (options.scatter_list.unwrap_or_default().0, tensor.clone(), options.src);
    ensure!(g.is_member(), Value, "Invalid process group specified");
    let ins = list.clone();
    let own = |b: &dyn CollectiveBackend| b.scatter(tensor, &ins, root(&g, g.peer(src)?, "scatter")?);
    with(&g, What::new("scatter", [&t]), (Some(tensor), options.async_op), own, |e, status| {
        checks::same_dtype(list.iter().chain([&t]))?;
        let from = g.peer(src)?;
        if from == g.rank() {
            ensure!(!list.is_empty(), Value, "Argument ``scatter_list`` must be specified on source rank.");
        } else {
            ensure!(
                list.is_empty(),
                Value,
                "Argument ``scatter_list`` must NOT be specified on non-source ranks."
            );
        }
        let from = root(&g, from, "scatter")?;
        if from as i64 == g.rank() {
            ensure!(
                list.len() as i64 == g.size(),
                Runtime,
                "ProcessGroupGloo::scatter: Incorrect input list size {}. Input list size should be {}, same as size of the process group.",
                list.len(),
                g.size()
            );
            checks::like("scatter", &list, &t)?;
        }
        check_dtype(t.dtype())?;
        bytes::check(&t)?;
        e.run(options.async_op, status, vec![t.clone()], move |c| {
            let parts = if c.mesh.rank == from {
                Some(list.iter().map(bytes::read_in_order).collect::<Result<Vec<_>>>()?)
            } else {
                None
            };
            let len = t.numel() as usize * t.dtype().size();
            bytes::write_in_order(&t, &c.scatter(parts, len, from)?)
        })
    })
}

/// Keywords of [`all_to_all_single_with`].
#[flambeau_macros::options]
pub struct AllToAllOptions {
    /// Rows that come from each rank; equal parts if left out.
    pub(crate) output_split_sizes: Option<Vec<i64>>,
    /// Rows that go to each rank; equal parts if left out.
    pub(crate) input_split_sizes: Option<Vec<i64>>,
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether it only begins: then a program waits for its [`Work`]. Default: false.
    #[default(false)]
    pub(crate) async_op: bool,
}
fn splits(given: Option<Vec<i64>>, t: &Tensor, n: i64) -> Result<Vec<usize>> {
    let rows = t.sizes().first().copied().unwrap_or(0);
    let row = if rows == 0 { 0 } else { t.numel() as usize * t.dtype().size() / rows as usize };
    let parts = match given.filter(|g| !g.is_empty()) {
        None => {
            ensure!(rows % n == 0, Runtime, "Tensor's dim 0 does not divide equally across group size");
            vec![rows / n; n as usize]
        }
        Some(p) => {
            ensure!(p.len() as i64 == n, Runtime, "Number of tensor splits not equal to group size");
            ensure!(p.iter().all(|x| *x >= 0), Runtime, "Split sizes must be non-negative");
            ensure!(
                p.iter().try_fold(0i64, |n, x| n.checked_add(*x)) == Some(rows),
                Runtime,
                "Split sizes doesn't match total dim 0 size"
            );
            p
        }
    };
    Ok(parts.into_iter().map(|p| p as usize * row).collect())
}
/// Gives every rank a part of the rows of every rank's tensor.
///
/// ```
/// use torch::distributed::{all_to_all_single, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let (out, r) = (torch::zeros([2]), rank as f32);
///     all_to_all_single(&out, &torch::tensor([10.0 * r, 10.0 * r + 1.0]));
///     out.to_vec::<f32>()
/// });
/// assert_eq!(got, [[0.0, 10.0], [1.0, 11.0]]);
/// ```
///
/// # Errors
/// Rows that do not divide, split sizes that do not fit, different dtypes, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.all_to_all_single")]
#[flambeau_macros::short(with)]
pub fn try_all_to_all_single(output: &Tensor, input: &Tensor, options: AllToAllOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (out, t, o) = (output.clone(), input.clone(), options);
    let (rows_out, rows_in) = (o.output_split_sizes.clone(), o.input_split_sizes.clone());
    let own = |b: &dyn CollectiveBackend| {
        b.all_to_all_single(output, input, &rows_out.unwrap_or_default(), &rows_in.unwrap_or_default())
    };
    with(
        &g,
        What::new("all_to_all_single", [&t]).gives(vec![out.sizes().to_vec()]),
        (Some(input), o.async_op),
        own,
        |e, status| {
            checks::same_dtype([&out, &t])?;
            let lens = splits(o.output_split_sizes, &out, g.size())?;
            let parts = splits(o.input_split_sizes, &t, g.size())?;
            // what this rank gives itself is what it takes
            let me = g.rank() as usize;
            ensure!(parts[me] == lens[me], Runtime, "in->size == out->size. {} vs {}", parts[me], lens[me]);
            check_dtype(t.dtype())?;
            bytes::check(&t)?;
            bytes::check(&out)?;
            e.run(o.async_op, status, vec![out.clone()], move |c| {
                let b = bytes::read_in_order(&t)?;
                let mut rest = &b[..];
                let mut cut = Vec::new();
                for p in parts {
                    let (mine, after) = rest.split_at(p);
                    cut.push(mine.to_vec());
                    rest = after;
                }
                bytes::write_in_order(&out, &c.all_to_all(cut, &lens)?.concat())
            })
        },
    )
}
/// Gives every rank one of every rank's tensors; all have the same sizes.
///
/// ```
/// use torch::distributed::{all_to_all, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let out = [torch::zeros([1]), torch::zeros([1])];
///     all_to_all(&out, &[torch::full([1], rank as f32), torch::full([1], rank as f32 + 10.0)]);
///     [out[0].item::<f32>(), out[1].item::<f32>()]
/// });
/// assert_eq!(got, [[0.0, 1.0], [10.0, 11.0]]);
/// ```
///
/// # Errors
/// Lists that are not as long as the group, different sizes or dtypes, and those of [`try_broadcast`].
#[doc(alias = "torch.distributed.all_to_all")]
#[flambeau_macros::short(with)]
pub fn try_all_to_all(
    output_tensor_list: &[Tensor],
    input_tensor_list: &[Tensor],
    options: CollectiveOptions,
) -> Result<Work> {
    let g = group_of(&options.group)?;
    let (outs, ins) = (output_tensor_list.to_vec(), input_tensor_list.to_vec());
    let own = |b: &dyn CollectiveBackend| b.all_to_all(output_tensor_list, input_tensor_list);
    with(
        &g,
        What::new("all_to_all", &ins),
        (input_tensor_list.first(), options.async_op),
        own,
        |e, status| {
            checks::same_dtype(outs.iter().chain(&ins))?;
            let n = g.size();
            for (what, l) in [("input", &ins), ("output", &outs)] {
                ensure!(
                    l.len() as i64 == n,
                    Runtime,
                    "ProcessGroupGloo::alltoall: {what} tensor list size {} does not match world size {n}",
                    l.len()
                );
            }
            checks::like("alltoall", &ins, &ins[0])?;
            checks::like("alltoall", &outs, &outs[0])?;
            ensure!(
                outs[0].sizes() == ins[0].sizes(),
                Runtime,
                "ProcessGroupGloo::alltoall: input and output tensors must have the same size"
            );
            check_dtype(ins[0].dtype())?;
            ins.iter().chain(&outs).try_for_each(bytes::check)?;
            e.run(options.async_op, status, outs.clone(), move |c| {
                let parts: Vec<Vec<u8>> = ins.iter().map(bytes::read_in_order).collect::<Result<_>>()?;
                let lens: Vec<usize> = parts.iter().map(Vec::len).collect();
                let got = c.all_to_all(parts, &lens)?;
                outs.iter().zip(&got).try_for_each(|(o, b)| bytes::write_in_order(o, b))
            })
        },
    )
}
