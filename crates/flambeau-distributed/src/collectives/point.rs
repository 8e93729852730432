//! Messages from one rank to another.

use super::{group_of, noted, tag_of};
use crate::backend::Message;
use crate::bytes;
use crate::calls::What;
use crate::gloo::arithmetic::check_dtype;
use crate::group::{Engine, Peer, ProcessGroup};
use crate::work::Work;
use flambeau_core::{Result, Tensor, bail, ensure};

/// Keywords of messages.
#[flambeau_macros::options]
pub struct MessageOptions {
    /// A number that both sides name. Default: 0.
    #[default(0)]
    pub(crate) tag: i64,
    /// The group; the default one if left out.
    pub(crate) group: Option<ProcessGroup>,
}

fn peer_of(g: &ProcessGroup, e: &Engine, p: Peer, what: &str) -> Result<usize> {
    let r = g.peer(p)?;
    match usize::try_from(r) {
        Ok(u) if u < e.mesh.size && u != e.mesh.rank => Ok(u),
        Ok(u) if u == e.mesh.rank && what == "destination" => bail!(
            Value,
            "Invalid {what} rank: {what} rank should not be the same as the rank of the current process."
        ),
        Ok(u) if u == e.mesh.rank => {
            let here = e.mesh.address();
            bail!(
                Runtime,
                "state_ >= CONNECTED. 1 vs 4. Pair is not connected ([{}]:{}${u} <--> [none])",
                here.ip(),
                here.port()
            )
        }
        _ => bail!(Value, "Invalid {what} rank: {r} is not in a group of {}", e.mesh.size),
    }
}

/// Another member, as a program's own engine counts it.
fn other(g: &ProcessGroup, p: Peer, what: &str) -> Result<usize> {
    let r = g.peer(p)?;
    match usize::try_from(r) {
        Ok(u) if r < g.size() && r != g.rank() => Ok(u),
        _ => bail!(Value, "Invalid {what} rank: {r} is not another one of {}", g.size()),
    }
}
/// A group without an engine for a tensor: nothing to do where this process is not in it.
fn none(g: &ProcessGroup, tensor: &Tensor) -> Result<Work> {
    ensure!(
        !g.is_member(),
        Runtime,
        "No backend type associated with device type {}",
        tensor.device().kind()
    );
    Ok(Work::ended(Vec::new()))
}

/// Begins to send a tensor. It is read at once.
///
/// # Errors
/// A rank that is none of the group's or this one, a negative tag, a tensor that is not contiguous, a peer that has gone, no job.
#[doc(alias = "torch.distributed.isend")]
#[doc(alias = "torch.distributed.deprecated.isend")]
#[flambeau_macros::short(with)]
pub fn try_isend(tensor: &Tensor, dst: impl Into<Peer>, options: MessageOptions) -> Result<Work> {
    let w = begin_send(tensor, dst.into(), options)?;
    w.leave_alone()?;
    Ok(w)
}
/// The same for those who wait for it next.
fn begin_send(tensor: &Tensor, dst: Peer, options: MessageOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    if let Some(b) = g.own(tensor.device().kind()) {
        let to = other(&g, dst, "destination")?;
        return noted(&g.begin(What::new("send", [tensor])), b.send(tensor, to, options.tag));
    }
    let Some(e) = g.engine() else { return none(&g, tensor) };
    let to = peer_of(&g, e, dst, "destination")?;
    let slot = tag_of(options.tag)?;
    ensure!(tensor.is_contiguous(), Runtime, "input tensor has to be contiguous");
    check_dtype(tensor.dtype())?;
    let status = g.begin(What::new("send", [tensor]));
    let t = e.mesh.send(to, slot, bytes::read_in_order(tensor)?)?;
    Ok(Work::transfer(t, e.mesh.clone(), e.mesh.timeout(), None, g.ranks().to_vec(), status))
}
/// Begins to receive a tensor, which is written when its [`Work`] has been waited for. A message may be shorter than the tensor: the rest
/// stays as it is. Without a source it comes from whoever sends first.
///
/// # Errors
/// As [`try_isend`]; a message that is too long is one of the [`Work`].
#[doc(alias = "torch.distributed.irecv")]
#[flambeau_macros::short(with)]
pub fn try_irecv(tensor: &Tensor, src: Option<Peer>, options: MessageOptions) -> Result<Work> {
    let w = begin_recv(tensor, src, options)?;
    w.leave_alone()?;
    Ok(w)
}
fn begin_recv(tensor: &Tensor, src: Option<Peer>, options: MessageOptions) -> Result<Work> {
    let g = group_of(&options.group)?;
    if let Some(b) = g.own(tensor.device().kind()) {
        let Some(src) = src else { bail!(Runtime, "Backend {} does not support recvAnysource", b.name()) };
        let from = other(&g, src, "source")?;
        return noted(&g.begin(What::new("recv", [tensor])), b.recv(tensor, from, options.tag));
    }
    let Some(e) = g.engine() else { return none(&g, tensor) };
    let slot = tag_of(options.tag)?;
    check_dtype(tensor.dtype())?;
    bytes::check(tensor)?;
    let most = tensor.numel() as usize * tensor.dtype().size();
    let status = g.begin(What::new("recv", [tensor]));
    let t = match src {
        Some(p) => e.mesh.recv(peer_of(&g, e, p, "source")?, slot, most)?,
        None => e.mesh.recv_any(slot, most)?,
    };
    let into = Some(tensor.clone());
    Ok(Work::transfer(t, e.mesh.clone(), e.mesh.timeout(), into, g.ranks().to_vec(), status))
}
/// Sends a tensor, and returns once it is on its way.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let got = run_in_threads(2, |rank| {
///     let t = torch::tensor([rank as f32]);
///     if rank == 0 { distributed::send(&t, 1) } else { assert_eq!(distributed::recv(&t, None), 0) }
///     t.item::<f32>()
/// });
/// assert_eq!(got, [0.0, 0.0]);
/// ```
///
/// # Errors
/// See [`try_isend`]; a peer that does not receive in time.
#[doc(alias = "torch.distributed.send")]
#[doc(alias = "torch.distributed.deprecated.send")]
#[flambeau_macros::short(with)]
pub fn try_send(tensor: &Tensor, dst: impl Into<Peer>, options: MessageOptions) -> Result<()> {
    begin_send(tensor, dst.into(), options)?.try_wait()
}
/// Receives a tensor, and gives the rank that has sent it; -1 where this process is not in the group.
///
/// # Errors
/// See [`try_irecv`]; nobody who sends in time, a message that is too long.
#[doc(alias = "torch.distributed.recv")]
#[doc(alias = "torch.distributed.deprecated.recv")]
#[flambeau_macros::short(with)]
pub fn try_recv(tensor: &Tensor, src: Option<Peer>, options: MessageOptions) -> Result<i64> {
    if let Some(g) = &options.group
        && !g.is_member()
    {
        return Ok(-1);
    }
    let w = begin_recv(tensor, src, options.clone())?;
    w.try_wait()?;
    match src {
        // engines of a program's own say nothing of it
        Some(p) if group_of(&options.group)?.own(tensor.device().kind()).is_some() => {
            let g = group_of(&options.group)?;
            g.global_rank(g.peer(p)?)
        }
        _ => w.source_rank(),
    }
}

/// A message of [`batch_isend_irecv`].
///
/// ```
/// use torch::distributed::{self, P2POp, run_in_threads};
///
/// let got = run_in_threads(3, |rank| {
///     let (own, other) = (torch::tensor([rank as f32]), torch::zeros([1]));
///     let ring = [P2POp::isend(&own, (rank + 1) % 3), P2POp::irecv(&other, (rank + 2) % 3)];
///     distributed::batch_isend_irecv(&ring).iter().for_each(|w| w.wait());
///     other.item::<f32>()
/// });
/// assert_eq!(got, [2.0, 0.0, 1.0]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.P2POp")]
pub struct P2POp {
    send: bool,
    tensor: Tensor,
    peer: Peer,
    options: MessageOptions,
}
impl P2POp {
    /// A tensor to send.
    pub fn isend(tensor: &Tensor, peer: impl Into<Peer>) -> P2POp {
        P2POp { send: true, tensor: tensor.clone(), peer: peer.into(), options: MessageOptions::new() }
    }
    /// A tensor to receive.
    pub fn irecv(tensor: &Tensor, peer: impl Into<Peer>) -> P2POp {
        P2POp { send: false, tensor: tensor.clone(), peer: peer.into(), options: MessageOptions::new() }
    }
    /// With a group and a tag.
    pub fn with(mut self, options: MessageOptions) -> P2POp {
        self.options = options;
        self
    }
}
/// All of them by an engine of the program's own, or over NCCL, where all are of one group and it has one.
fn together(all: &[P2POp]) -> Result<Option<Vec<Work>>> {
    let groups: Vec<_> = all.iter().map(|o| group_of(&o.options.group)).collect::<Result<_>>()?;
    let g = &groups[0];
    let kind = all[0].tensor.device().kind();
    let one = groups.iter().all(|o| o.same(g)) && all.iter().all(|o| o.tensor.device().kind() == kind);
    let Some(b) = g.own(kind).filter(|_| one) else { return Ok(None) };
    let message = |o: &P2POp| {
        let peer = other(g, o.peer, if o.send { "destination" } else { "source" })?;
        g.begin(What::new(if o.send { "send" } else { "recv" }, [&o.tensor])).end(true);
        Ok(Message { send: o.send, tensor: o.tensor.clone(), peer, tag: o.options.tag })
    };
    let messages: Vec<Message> = all.iter().map(message).collect::<Result<_>>()?;
    b.batch_isend_irecv(&messages).map(Some)
}
/// Begins all these messages, of whatever directions.
///
/// # Errors
/// No message, and those of [`try_isend`] and [`try_irecv`].
#[doc(alias = "torch.distributed.batch_isend_irecv")]
#[flambeau_macros::short]
pub fn try_batch_isend_irecv(p2p_op_list: &[P2POp]) -> Result<Vec<Work>> {
    ensure!(!p2p_op_list.is_empty(), Index, "list index out of range");
    if let Some(works) = together(p2p_op_list)? {
        return Ok(works);
    }
    let one = |o: &P2POp| {
        if o.send {
            try_isend(&o.tensor, o.peer, o.options.clone())
        } else {
            try_irecv(&o.tensor, Some(o.peer), o.options.clone())
        }
    };
    p2p_op_list.iter().map(one).collect()
}
