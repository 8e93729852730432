//! Sums of sparse tensors: what each rank has goes to all, which add it up.

use crate::bytes;
use crate::gloo::algorithms::Call;
use crate::gloo::arithmetic::check_dtype;
use crate::reduce_op::ReduceOp;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Scalar, Tensor, bail, ensure, ops};
use flambeau_sparse::ops as sparse;

/// What a rank tells of its tensor: sizes of up to four sparse and four dense dimensions, and the number of elements.
const WORDS: usize = 9;

pub(super) fn check(t: &Tensor, op: ReduceOp) -> Result<()> {
    ensure!(
        t.device() == Device::Cpu,
        Runtime,
        "No backend type associated with device type {}",
        t.device().kind()
    );
    ensure!(
        op == ReduceOp::Sum,
        Runtime,
        "ProcessGroupGloo::allreduce: unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)"
    );
    check_dtype(t.dtype())
}

/// The sum of all ranks' tensors, in their order, coalesced.
pub(super) fn all_reduce(c: &Call<'_>, t: &Tensor) -> Result<()> {
    let n = c.mesh.size;
    let own = sparse::coalesce(&t.alias_detached())?;
    let (indices, values) = (sparse::indices(&own)?, sparse::values(&own)?);
    let (dims, count) = (indices.sizes()[0] as usize, indices.sizes()[1]);
    let dense = &values.sizes()[1..];
    ensure!(
        dims <= 4 && dense.len() <= 4,
        Runtime,
        "sparse tensors of more than 4 sparse or dense dimensions"
    );
    let mut words = [0i64; WORDS];
    words[..dims].copy_from_slice(&t.sizes()[..dims]);
    words[4..4 + dense.len()].copy_from_slice(dense);
    words[8] = count;
    let mine: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let all = c.all_gather(&mine)?;
    let all: Vec<i64> = all.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect();
    let mut counts = Vec::new();
    for rank in all.chunks(WORDS) {
        if rank[..8] != words[..8] || rank[8] < 0 {
            bail!(Runtime, "Sparse dimensions do not match");
        }
        counts.push(rank[8]);
    }
    let row = values.sizes()[1..].iter().product::<i64>();
    let size = t.dtype().size();
    let lens = |each: i64, size: usize| -> Vec<usize> {
        counts.iter().map(|k| (k * each) as usize * size).collect()
    };
    let all_indices = c.all_gather_parts(&bytes::read_in_order(&indices)?, &lens(dims as i64, 8))?;
    let all_values = c.all_gather_parts(&bytes::read_in_order(&values)?, &lens(row, size))?;
    let mut sum: Option<Tensor> = None;
    for r in 0..n {
        let i = Tensor::empty_raw(&[dims as i64, counts[r]], DType::I64, Device::Cpu)?;
        bytes::write(&i, &all_indices[r])?;
        let shape = [&[counts[r]], &values.sizes()[1..]].concat();
        let v = Tensor::empty_raw(&shape, t.dtype(), Device::Cpu)?;
        bytes::write(&v, &all_values[r])?;
        let part = sparse::sparse_coo_tensor_unsafe(&i, &v, t.sizes(), None)?;
        sum = Some(match sum {
            None => part,
            Some(s) => ops::add(&s, &part, Scalar::from(1i64))?,
        });
    }
    match sum {
        // its parts are exchanged in this handle: another handle of it would not see them
        Some(s) => flambeau_autograd::no_grad(|| ops::copy_(t, &sparse::coalesce(&s)?, false)),
        None => Ok(()),
    }
}
