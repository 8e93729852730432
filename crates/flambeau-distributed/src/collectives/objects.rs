//! Collectives of Python's values: numbers, texts, lists, dicts, tensors. They travel as PyTorch's own pickles, of which nothing is
//! executed.

use super::{CollectiveOptions, GatherOptions, MessageOptions, ScatterOptions, TensorList, group_of};
use crate::bytes::tensor_of;
use crate::group::{Peer, ProcessGroup};
use crate::pickles::{Node, dump, load};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure};

/// Keywords of collectives of values.
#[flambeau_macros::options]
#[doc(alias = "torch.distributed.note:object-collectives")]
pub struct ObjectOptions {
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
    /// Whether values travel as `torch.save` writes them, instead of as pickles: all ranks say the same. Default: false.
    #[default(false)]
    pub(crate) weights_only: bool,
}
impl ObjectOptions {
    fn collective(&self) -> CollectiveOptions {
        let mut o = CollectiveOptions::new();
        o.group = self.group.clone();
        o
    }
}

fn numbers(n: usize) -> Result<Tensor> {
    Tensor::zeros_raw(&[n as i64], DType::I64, Device::Cpu)
}
fn of_numbers(all: &[i64]) -> Result<Tensor> {
    Tensor::from_vec_raw(all.to_vec(), &[all.len() as i64])
}
fn as_numbers(t: &Tensor) -> Result<Vec<usize>> {
    let b = crate::bytes::read(t)?;
    let all = b.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c));
    all.map(|n| usize::try_from(n).map_err(|_| Error::runtime("an object of negative length"))).collect()
}
#[cold]
fn too_long() -> Error {
    Error::runtime("objects that are longer than memory")
}
fn space(n: usize) -> Result<Tensor> {
    Tensor::zeros_raw(&[n as i64], DType::U8, Device::Cpu)
}
/// With zeros up to a length that another process says.
fn padded(mut b: Vec<u8>, n: usize) -> Result<Tensor> {
    let more = n.saturating_sub(b.len());
    b.try_reserve_exact(more)
        .map_err(|_| Error::runtime(format!("an object of {n} bytes: out of memory")))?;
    b.resize(b.len() + more, 0);
    tensor_of(&b)
}
fn part(b: &[u8], at: usize, n: usize) -> Result<&[u8]> {
    at.checked_add(n)
        .and_then(|end| b.get(at..end))
        .ok_or_else(|| Error::runtime("an object that is longer than what came"))
}

/// The values of all ranks, in their order.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
/// use torch::serialization::Tree;
///
/// let all = run_in_threads(2, |rank| {
///     let got = distributed::all_gather_object(&Tree::Str(format!("from {rank}")));
///     got.iter().map(|v| v.as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
/// });
/// assert_eq!(all[0], ["from 0", "from 1"]);
/// ```
///
/// # Errors
/// Values that cannot be written or read, and those of [`try_all_gather_into_tensor`](super::try_all_gather_into_tensor).
#[doc(alias = "torch.distributed.all_gather_object")]
#[flambeau_macros::short(with)]
pub fn try_all_gather_object(object: &Node, options: ObjectOptions) -> Result<Vec<Node>> {
    let g = group_of(&options.group)?;
    if !g.is_member() {
        return Ok(Vec::new());
    }
    let (mine, n) = (dump(object, options.weights_only)?, g.size() as usize);
    let sizes = numbers(n)?;
    super::try_all_gather_into_tensor(&sizes, &of_numbers(&[mine.len() as i64])?, options.collective())?;
    let sizes = as_numbers(&sizes)?;
    let most = sizes.iter().copied().max().unwrap_or(0);
    let all = space(most.checked_mul(n).ok_or_else(too_long)?)?;
    super::try_all_gather_into_tensor(&all, &padded(mine, most)?, options.collective())?;
    let b = crate::bytes::read(&all)?;
    (0..n).map(|r| load(part(&b, r * most, sizes[r])?, options.weights_only)).collect()
}
/// The values of all ranks for one of them, the others get none.
///
/// ```
/// use torch::distributed::{gather_object, run_in_threads};
/// use torch::serialization::Tree;
///
/// let got = run_in_threads(2, |rank| {
///     let all = gather_object(&Tree::Int(rank as i64), 1);
///     all.map(|l| l.iter().filter_map(|v| v.as_i64()).collect::<Vec<_>>())
/// });
/// assert_eq!(got, [None, Some(vec![0, 1])]);
/// ```
///
/// # Errors
/// As [`try_all_gather_object`].
#[doc(alias = "torch.distributed.gather_object")]
#[flambeau_macros::short(with)]
pub fn try_gather_object(
    object: &Node,
    dst: impl Into<Peer>,
    options: ObjectOptions,
) -> Result<Option<Vec<Node>>> {
    let g = group_of(&options.group)?;
    if !g.is_member() {
        return Ok(None);
    }
    let (mine, n, dst) = (dump(object, options.weights_only)?, g.size() as usize, dst.into());
    let here = g.peer(dst)? == g.rank();
    let all = numbers(n)?;
    super::try_all_gather_into_tensor(&all, &of_numbers(&[mine.len() as i64])?, options.collective())?;
    let sizes = as_numbers(&all)?;
    let most = sizes.iter().copied().max().unwrap_or(0);
    let list = if here { Some((0..n).map(|_| space(most)).collect::<Result<Vec<_>>>()?) } else { None };
    let mut o = GatherOptions::new();
    (o.gather_list, o.dst, o.group) = (list.clone().map(TensorList), dst, options.group.clone());
    super::try_gather(&padded(mine, most)?, o)?;
    let Some(list) = list else { return Ok(None) };
    let read = |(t, n): (&Tensor, &usize)| load(part(&crate::bytes::read(t)?, 0, *n)?, options.weights_only);
    list.iter().zip(&sizes).map(read).collect::<Result<Vec<_>>>().map(Some)
}
/// Replaces a list's values by those of one rank's; the lists are equally long.
///
/// ```
/// use torch::distributed::{broadcast_object_list, run_in_threads};
/// use torch::serialization::Tree;
///
/// let got = run_in_threads(2, |rank| {
///     let mut list = vec![if rank == 0 { Tree::Str("settings".into()) } else { Tree::None }];
///     broadcast_object_list(&mut list, 0);
///     list[0].as_str().map(str::to_owned)
/// });
/// assert_eq!(got[1].as_deref(), Some("settings"));
/// ```
///
/// # Errors
/// As [`try_all_gather_object`].
#[doc(alias = "torch.distributed.broadcast_object_list")]
#[flambeau_macros::short(with)]
pub fn try_broadcast_object_list(
    object_list: &mut Vec<Node>,
    src: impl Into<Peer>,
    options: ObjectOptions,
) -> Result<()> {
    let g = group_of(&options.group)?;
    if !g.is_member() {
        return Ok(());
    }
    let src = src.into();
    let mine = g.peer(src)? == g.rank();
    let parts = if mine {
        object_list.iter().map(|v| dump(v, options.weights_only)).collect::<Result<Vec<_>>>()?
    } else {
        Vec::new()
    };
    let sizes = if mine {
        of_numbers(&parts.iter().map(|p| p.len() as i64).collect::<Vec<_>>())?
    } else {
        numbers(object_list.len())?
    };
    super::try_broadcast(&sizes, src, options.collective())?;
    let sizes = as_numbers(&sizes)?;
    let all = if mine { tensor_of(&parts.concat())? } else { space(sizes.iter().sum())? };
    super::try_broadcast(&all, src, options.collective())?;
    if !mine {
        *object_list = cut(&crate::bytes::read(&all)?, &sizes, options.weights_only)?;
    }
    Ok(())
}
fn cut(b: &[u8], sizes: &[usize], weights_only: bool) -> Result<Vec<Node>> {
    let mut at = 0;
    let one = |n: &usize| {
        let v = load(part(b, at, *n)?, weights_only);
        at += n;
        v
    };
    sizes.iter().map(one).collect()
}
/// Gives every rank one of a rank's values.
///
/// ```
/// use torch::distributed::{run_in_threads, scatter_object_list};
/// use torch::serialization::Tree;
///
/// let got = run_in_threads(2, |rank| {
///     let parts = [Tree::Int(5), Tree::Int(6)];
///     scatter_object_list((rank == 0).then_some(&parts[..]), 0).and_then(|v| v.as_i64())
/// });
/// assert_eq!(got, [Some(5), Some(6)]);
/// ```
///
/// # Errors
/// A list that is not as long as the group, and as [`try_all_gather_object`].
#[doc(alias = "torch.distributed.scatter_object_list")]
#[flambeau_macros::short(with)]
pub fn try_scatter_object_list(
    input_list: Option<&[Node]>,
    src: impl Into<Peer>,
    options: ObjectOptions,
) -> Result<Option<Node>> {
    let g = group_of(&options.group)?;
    if !g.is_member() {
        return Ok(None);
    }
    let src = src.into();
    let mine = g.peer(src)? == g.rank();
    let parts = match input_list.filter(|_| mine) {
        Some(l) => {
            ensure!(
                l.len() as i64 == g.size(),
                Value,
                "Expected argument scatter_object_input_list to be a list of as many objects as ranks."
            );
            l.iter().map(|v| dump(v, options.weights_only)).collect::<Result<Vec<_>>>()?
        }
        None => Vec::new(),
    };
    let most = of_numbers(&[parts.iter().map(Vec::len).max().unwrap_or(0) as i64])?;
    super::try_broadcast(&most, src, options.collective())?;
    let most = as_numbers(&most)?.first().copied().unwrap_or(0);
    let scatter = |t: &Tensor, list: Option<Vec<Tensor>>| {
        let mut o = ScatterOptions::new();
        (o.scatter_list, o.src, o.group) = (list.map(TensorList), src, options.group.clone());
        super::try_scatter(t, o)
    };
    let (own, size) = (space(most)?, numbers(1)?);
    let lists = if mine {
        let sizes = parts.iter().map(|p| of_numbers(&[p.len() as i64])).collect::<Result<Vec<_>>>()?;
        (Some(parts.into_iter().map(|p| padded(p, most)).collect::<Result<Vec<_>>>()?), Some(sizes))
    } else {
        (None, None)
    };
    scatter(&own, lists.0)?;
    scatter(&size, lists.1)?;
    let n = as_numbers(&size)?.first().copied().unwrap_or(0);
    load(part(&crate::bytes::read(&own)?, 0, n)?, options.weights_only).map(Some)
}
/// Sends values to one rank.
///
/// ```
/// use torch::distributed::{recv_object_list, run_in_threads, send_object_list};
/// use torch::serialization::Tree;
///
/// let got = run_in_threads(2, |rank| {
///     let mut list = vec![Tree::None];
///     if rank == 0 {
///         send_object_list(&[Tree::Int(7)], 1);
///     } else {
///         recv_object_list(&mut list, 0);
///     }
///     list[0].as_i64()
/// });
/// assert_eq!(got, [None, Some(7)]);
/// ```
///
/// # Errors
/// Values that cannot be written, and those of [`try_send`](super::try_send).
#[doc(alias = "torch.distributed.send_object_list")]
#[flambeau_macros::short(with)]
pub fn try_send_object_list(
    object_list: &[Node],
    dst: impl Into<Peer>,
    options: ObjectOptions,
) -> Result<()> {
    let dst = dst.into();
    let parts = object_list.iter().map(|v| dump(v, options.weights_only)).collect::<Result<Vec<_>>>()?;
    let sizes: Vec<i64> = parts.iter().map(|p| p.len() as i64).collect();
    let mut o = MessageOptions::new();
    o.group = options.group.clone();
    super::try_send(&of_numbers(&sizes)?, dst, o.clone())?;
    super::try_send(&tensor_of(&parts.concat())?, dst, o)
}
/// Receives as many values as the list has, from one rank, and gives that rank.
///
/// # Errors
/// Values that cannot be read, and those of [`try_recv`](super::try_recv).
#[doc(alias = "torch.distributed.recv_object_list")]
#[flambeau_macros::short(with)]
pub fn try_recv_object_list(
    object_list: &mut Vec<Node>,
    src: impl Into<Peer>,
    options: ObjectOptions,
) -> Result<i64> {
    let src = src.into();
    let sizes = numbers(object_list.len())?;
    let mut o = MessageOptions::new();
    o.group = options.group.clone();
    super::try_recv(&sizes, Some(src), o.clone())?;
    let sizes = as_numbers(&sizes)?;
    let all = space(sizes.iter().sum())?;
    let from = super::try_recv(&all, Some(src), o)?;
    *object_list = cut(&crate::bytes::read(&all)?, &sizes, options.weights_only)?;
    Ok(from)
}
