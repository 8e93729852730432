//! NCCL as a group's engine, for tensors on CUDA devices: the feature `nccl`. Work is queued on the thread's stream, behind what made the
//! tensors and before what uses them: who waits for it waits for nothing more than that.

use crate::backend::{BackendArguments, CollectiveBackend, Message};
use crate::reduce_op::ReduceOp;
use crate::work::Work;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Device, Result, Tensor, bail, ensure, ops};
use flambeau_cuda::nccl::{self, Communicator, Reduction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// NCCL for one group.
struct Nccl {
    a: BackendArguments,
    /// one for each device, made on first use
    made: Mutex<BTreeMap<u16, Arc<Communicator>>>,
    aborted: AtomicBool,
    /// whether calls wait until they are done (`TORCH_NCCL_BLOCKING_WAIT`)
    waits: bool,
}
/// Whether it can work here.
pub(crate) fn is_present() -> bool {
    nccl::is_present()
}
/// Says what is missing, for those who have asked for it by name.
///
/// # Errors
/// No library, no device.
pub(crate) fn check() -> Result<()> {
    nccl::version()?;
    ensure!(nccl::devices() > 0, Value, "ProcessGroupNCCL is only supported with GPUs, no GPUs found!");
    Ok(())
}
/// Joins a group; its communicators are made when a collective needs them.
pub(crate) fn make(a: &BackendArguments) -> Result<Arc<dyn CollectiveBackend>> {
    let waits = crate::World::current().env("TORCH_NCCL_BLOCKING_WAIT").as_deref() == Some("1");
    let (made, aborted) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false));
    Ok(Arc::new(Nccl { a: a.clone(), made, aborted, waits }))
}

impl Nccl {
    fn on(&self, t: &Tensor) -> Result<Arc<Communicator>> {
        let Device::Cuda(device) = t.device() else {
            bail!(Runtime, "No backend type associated with device type {}", t.device().kind())
        };
        ensure!(!self.aborted.load(Ordering::Relaxed), Runtime, "NCCL communicator was aborted");
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(c) = made.get(&device) {
            return Ok(c.clone());
        }
        // PyTorch's key: how many communicators the group has made
        let key = made.len().to_string();
        let id: [u8; 128] = if self.a.rank == 0 {
            let id = nccl::unique_id()?;
            self.a.store.set(&key, &id)?;
            id
        } else {
            self.a.store.wait_timeout(&[&key], self.a.timeout)?;
            match self.a.store.get(&key)?.try_into() {
                Ok(id) => id,
                Err(_) => bail!(Runtime, "the store has no id of NCCL's under {key}"),
            }
        };
        let c = Arc::new(Communicator::new(&id, self.a.rank, self.a.size, t.device())?);
        made.insert(device, c.clone());
        Ok(c)
    }
    /// The end of a call.
    fn done(&self, c: &Communicator, written: &[Tensor]) -> Result<Work> {
        if self.waits {
            c.wait()?;
        }
        Ok(Work::completed(written.to_vec()))
    }
    fn list(&self, all: &[Tensor]) -> Result<()> {
        ensure!(
            all.len() == self.a.size,
            Value,
            "Tensor list input to scatter/gather must match number of collective participants"
        );
        Ok(())
    }
    /// Parts of a tensor's rows: equal ones, or of these numbers of rows.
    fn parts(&self, t: &Tensor, splits: &[i64]) -> Result<Vec<(usize, Tensor)>> {
        let (n, rows) = (self.a.size as i64, t.sizes().first().copied().unwrap_or(1));
        let equal = vec![rows / n; self.a.size];
        if splits.is_empty() {
            ensure!(rows % n == 0, Runtime, "Tensor's dim 0 does not divide equally across group size");
        } else {
            ensure!(splits.len() as i64 == n, Runtime, "Number of tensor splits not equal to group size");
            let fits = splits.iter().all(|s| *s >= 0) && splits.iter().sum::<i64>() == rows;
            ensure!(fits, Runtime, "Split sizes doesn't match total dim 0 size");
        }
        let mut at = 0;
        let one = |(r, n): (usize, &i64)| {
            at += n;
            Ok((r, ops::narrow(&t.alias_detached(), 0, at - n, *n)?))
        };
        (if splits.is_empty() { &equal[..] } else { splits }).iter().enumerate().map(one).collect()
    }
    /// What NCCL does for this reduction.
    fn reduction(t: &Tensor, op: ReduceOp) -> Result<Reduction> {
        ensure!(
            !t.dtype().is_complex() || matches!(op, ReduceOp::Sum | ReduceOp::Avg),
            Runtime,
            "Cannot use ReduceOp.{} with NCCL on complex tensors",
            op.name()
        );
        Ok(match op {
            ReduceOp::Sum => Reduction::Sum,
            ReduceOp::Product => Reduction::Product,
            ReduceOp::Min => Reduction::Min,
            ReduceOp::Max => Reduction::Max,
            ReduceOp::Avg if t.dtype() == DType::Bool => {
                bail!(Type, "Cannot use ReduceOp.AVG with Boolean inputs")
            }
            ReduceOp::Avg => Reduction::Avg,
            ReduceOp::PremulSum(_) => bail!(Missing, "ReduceOp.PREMUL_SUM with NCCL"),
            ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => {
                bail!(Value, "Cannot use ReduceOp.{} with NCCL", op.name())
            }
        })
    }
}
/// Sums of bytes that are truth values are the largest of them.
fn of_bool(t: &Tensor, op: Reduction) -> Reduction {
    match (t.dtype(), op) {
        (DType::Bool, Reduction::Sum) => Reduction::Max,
        (DType::Bool, Reduction::Product) => Reduction::Min,
        (_, op) => op,
    }
}
fn like<'a>(all: impl IntoIterator<Item = &'a Tensor>, t: &Tensor) -> Result<()> {
    for o in all {
        ensure!(o.dtype() == t.dtype(), Type, "Tensors must have identical type");
        ensure!(o.numel() == t.numel(), Value, "Tensors must have identical size");
    }
    Ok(())
}
fn numbered(all: &[Tensor]) -> Vec<(usize, Tensor)> {
    all.iter().cloned().enumerate().collect()
}

impl CollectiveBackend for Nccl {
    fn name(&self) -> &str {
        "nccl"
    }
    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Work> {
        let c = self.on(tensor)?;
        c.broadcast(tensor, root)?;
        self.done(&c, std::slice::from_ref(tensor))
    }
    fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Work> {
        let op = of_bool(tensor, Nccl::reduction(tensor, op)?);
        let c = self.on(tensor)?;
        c.all_reduce(tensor, tensor, op)?;
        self.done(&c, std::slice::from_ref(tensor))
    }
    fn all_reduce_coalesced(&self, tensors: &[Tensor], op: ReduceOp) -> Result<Work> {
        tensors.iter().try_for_each(|t| self.all_reduce(t, op).map(drop))?;
        Ok(Work::completed(tensors.to_vec()))
    }
    fn reduce(&self, tensor: &Tensor, root: usize, op: ReduceOp) -> Result<Work> {
        let op = of_bool(tensor, Nccl::reduction(tensor, op)?);
        let c = self.on(tensor)?;
        c.reduce(tensor, root, op)?;
        self.done(&c, std::slice::from_ref(tensor))
    }
    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Work> {
        self.list(outputs)?;
        like(outputs, input)?;
        let sizes = [&[self.a.size as i64], input.sizes()].concat();
        let all = Tensor::empty_raw(&sizes, input.dtype(), input.device())?;
        let c = self.on(input)?;
        c.all_gather(input, &all)?;
        for (i, o) in outputs.iter().enumerate() {
            ops::copy_(&o.alias_detached(), &ops::view(&ops::select(&all, 0, i as i64)?, o.sizes())?, false)?;
        }
        self.done(&c, outputs)
    }
    fn all_gather_into_tensor(&self, output: &Tensor, input: &Tensor) -> Result<Work> {
        let c = self.on(input)?;
        c.all_gather(input, output)?;
        self.done(&c, std::slice::from_ref(output))
    }
    fn all_gather_coalesced(&self, outputs: &[Vec<Tensor>], inputs: &[Tensor]) -> Result<Work> {
        for (i, input) in inputs.iter().enumerate() {
            let mine: Vec<Tensor> = outputs.iter().filter_map(|l| l.get(i).cloned()).collect();
            self.all_gather(&mine, input)?;
        }
        Ok(Work::completed(outputs.concat()))
    }
    fn gather(&self, outputs: &[Tensor], input: &Tensor, root: usize) -> Result<Work> {
        let c = self.on(input)?;
        if self.a.rank != root {
            c.exchange(&[(root, input.clone())], &[])?;
            return self.done(&c, &[]);
        }
        self.list(outputs)?;
        like(outputs, input)?;
        c.exchange(&[(root, input.clone())], &numbered(outputs))?;
        self.done(&c, outputs)
    }
    fn scatter(&self, output: &Tensor, inputs: &[Tensor], root: usize) -> Result<Work> {
        let (c, mine) = (self.on(output)?, [(root, output.clone())]);
        if self.a.rank == root {
            self.list(inputs)?;
            like(inputs, output)?;
            c.exchange(&numbered(inputs), &mine)?;
        } else {
            c.exchange(&[], &mine)?;
        }
        self.done(&c, std::slice::from_ref(output))
    }
    fn reduce_scatter(&self, output: &Tensor, inputs: &[Tensor], op: ReduceOp) -> Result<Work> {
        self.list(inputs)?;
        like(inputs, output)?;
        let flat: Vec<Tensor> =
            inputs.iter().map(|t| ops::reshape(&t.alias_detached(), &[-1])).collect::<Result<_>>()?;
        self.reduce_scatter_tensor(output, &ops::cat(&flat, 0)?, op)
    }
    fn reduce_scatter_tensor(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work> {
        let op = of_bool(input, Nccl::reduction(input, op)?);
        let c = self.on(input)?;
        c.reduce_scatter(input, output, op)?;
        self.done(&c, std::slice::from_ref(output))
    }
    fn all_to_all_single(
        &self,
        output: &Tensor,
        input: &Tensor,
        output_splits: &[i64],
        input_splits: &[i64],
    ) -> Result<Work> {
        ensure!(output.dtype() == input.dtype(), Type, "Tensors must have identical type");
        ensure!(output.is_contiguous() && input.is_contiguous(), Value, "Tensors must be contiguous");
        let (sends, recvs) = (self.parts(input, input_splits)?, self.parts(output, output_splits)?);
        let c = self.on(input)?;
        c.exchange(&sends, &recvs)?;
        self.done(&c, std::slice::from_ref(output))
    }
    fn all_to_all(&self, outputs: &[Tensor], inputs: &[Tensor]) -> Result<Work> {
        self.list(outputs)?;
        self.list(inputs)?;
        let c = self.on(&inputs[0])?;
        c.exchange(&numbered(inputs), &numbered(outputs))?;
        self.done(&c, outputs)
    }
    fn send(&self, tensor: &Tensor, to: usize, _: i64) -> Result<Work> {
        let c = self.on(tensor)?;
        c.exchange(&[(to, tensor.clone())], &[])?;
        self.done(&c, &[])
    }
    fn recv(&self, tensor: &Tensor, from: usize, _: i64) -> Result<Work> {
        let c = self.on(tensor)?;
        c.exchange(&[], &[(from, tensor.clone())])?;
        self.done(&c, std::slice::from_ref(tensor))
    }
    /// In one call: NCCL would wait for the first of them before it begins the second.
    fn batch_isend_irecv(&self, messages: &[Message]) -> Result<Vec<Work>> {
        let Some(first) = messages.first() else { return Ok(Vec::new()) };
        let of = |send| -> Vec<(usize, Tensor)> {
            messages.iter().filter(|m| m.send == send).map(|m| (m.peer, m.tensor.clone())).collect()
        };
        let c = self.on(&first.tensor)?;
        c.exchange(&of(true), &of(false))?;
        let written = |m: &Message| if m.send { Vec::new() } else { vec![m.tensor.clone()] };
        messages.iter().map(|m| self.done(&c, &written(m))).collect()
    }
    fn barrier(&self) -> Result<Work> {
        let device = {
            let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.keys().next().copied()
        };
        // a device that has been used, else that of the rank on its machine
        let device = device.unwrap_or_else(|| (self.a.rank % nccl::devices().max(1)) as u16);
        let t = Tensor::zeros_raw(&[1], DType::F32, Device::Cuda(device))?;
        let c = self.on(&t)?;
        c.all_reduce(&t, &t, Reduction::Sum)?;
        c.wait()?;
        self.done(&c, &[])
    }
    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.values().for_each(|c| c.abort());
    }
}
