//! Which blocks of pairs take part.

use super::{Computed, MaskMod, every_pair, positions};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{B8, DType, Device, Result, Tensor, bail, ensure, ops};
use std::fmt;
use std::sync::Arc;

/// Which blocks of queries and keys take part in attention, and the mask within those that do so in part.
///
/// For each batch, head and row of blocks, `kv_num_blocks` `(B, H, rows)` says how many blocks take part in part, and
/// `kv_indices` `(B, H, rows, columns)` begins with their columns; `full_kv_*` say the same of blocks that take part
/// whole, `q_*` and `full_q_*` of the columns' rows.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::attention::flex_attention::{BlockMask, BlockMaskOptions, create_block_mask_with};
/// let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
/// let options = BlockMaskOptions::new().block_size((2, 2));
/// let mask: BlockMask = create_block_mask_with(causal, None, None, 4, 4, options);
/// assert_eq!(mask.shape(), [1, 1, 4, 4]);
/// // one of the four blocks takes no part
/// assert_eq!(mask.sparsity(), 25.0);
/// ```
#[derive(Clone)]
#[doc(alias = "torch.nn.attention.flex_attention.BlockMask")]
pub struct BlockMask {
    /// Numbers of queries and keys.
    pub seq_lengths: (i64, i64),
    /// Number of blocks in each row that take part in part.
    pub kv_num_blocks: Tensor,
    /// Their columns, in front.
    pub kv_indices: Tensor,
    /// Number of blocks in each row that take part whole.
    pub full_kv_num_blocks: Option<Tensor>,
    /// Their columns, in front.
    pub full_kv_indices: Option<Tensor>,
    /// Number of blocks in each column that take part in part.
    pub q_num_blocks: Tensor,
    /// Their rows, in front.
    pub q_indices: Tensor,
    /// Number of blocks in each column that take part whole.
    pub full_q_num_blocks: Option<Tensor>,
    /// Their rows, in front.
    pub full_q_indices: Option<Tensor>,
    /// Queries and keys of a block.
    pub block_size: (i64, i64),
    mask_mod: MaskMod,
}

/// Options of [`create_block_mask_with`].
#[derive(Clone, Copy, Debug)]
pub struct BlockMaskOptions {
    device: Device,
    block_size: (i64, i64),
    separate_full_blocks: bool,
}
impl Default for BlockMaskOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl BlockMaskOptions {
    /// The documented defaults: blocks of 128, those that take part whole apart, on the CPU.
    pub fn new() -> Self {
        BlockMaskOptions { device: Device::Cpu, block_size: (128, 128), separate_full_blocks: true }
    }
    /// Device of the mask.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }
    /// Queries and keys of a block.
    pub fn block_size(mut self, block_size: (i64, i64)) -> Self {
        self.block_size = block_size;
        self
    }
    /// Whether blocks that take part whole stand apart, so that the mask need not be computed within them.
    pub fn separate_full_blocks(mut self, on: bool) -> Self {
        self.separate_full_blocks = on;
        self
    }
}

/// The mask of all pairs as a bool tensor `(B, H, q_len, kv_len)`; `None` for the batch or the heads means that the mask
/// is the same for all, and gives 1.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::attention::flex_attention::create_mask;
/// let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
/// let mask = create_mask(causal, None, None, 2, 3);
/// assert_eq!(mask.sizes(), &[1, 1, 2, 3]);
/// assert_eq!(mask.squeeze().to_vec2::<bool>(), [[true, false, false], [true, true, false]]);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.attention.flex_attention.create_mask")]
pub fn create_mask<R: Computed>(
    mask_mod: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R,
    batch: Option<i64>,
    heads: Option<i64>,
    q_len: i64,
    kv_len: i64,
) -> Tensor {
    expect(try_create_mask(mask_mod, batch, heads, q_len, kv_len, Device::Cpu))
}
/// [`create_mask`] with a result, on a device.
///
/// # Errors
/// Negative sizes; a mask that is not bool, or does not broadcast to the sizes; errors of the closure.
pub fn try_create_mask<R: Computed>(
    mask_mod: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R,
    batch: Option<i64>,
    heads: Option<i64>,
    q_len: i64,
    kv_len: i64,
    device: Device,
) -> Result<Tensor> {
    let f = |n: &Tensor, h: &Tensor, q: &Tensor, kv: &Tensor| mask_mod(n, h, q, kv).computed();
    mask_of(&f, [batch.unwrap_or(1), heads.unwrap_or(1), q_len, kv_len], device)
}
fn mask_of(
    f: &dyn Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    sizes: [i64; 4],
    device: Device,
) -> Result<Tensor> {
    let at = |d: usize| positions(0, sizes[d], d, device);
    let mask = f(&at(0)?, &at(1)?, &at(2)?, &at(3)?)?;
    ensure!(
        mask.dtype() == DType::Bool,
        Assertion,
        "mask.dtype must be torch.bool, got torch.{}",
        mask.dtype().name()
    );
    ops::expand(&mask, &sizes, false)
}

/// The block mask of a closure; `None` for the batch or the heads means that the mask is the same for all.
#[track_caller]
#[doc(alias = "torch.nn.attention.flex_attention.create_block_mask")]
pub fn create_block_mask<R: Computed>(
    mask_mod: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R + Send + Sync + 'static,
    batch: Option<i64>,
    heads: Option<i64>,
    q_len: i64,
    kv_len: i64,
) -> BlockMask {
    create_block_mask_with(mask_mod, batch, heads, q_len, kv_len, BlockMaskOptions::new())
}
/// [`create_block_mask`] with its options.
#[track_caller]
pub fn create_block_mask_with<R: Computed>(
    mask_mod: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R + Send + Sync + 'static,
    batch: Option<i64>,
    heads: Option<i64>,
    q_len: i64,
    kv_len: i64,
    options: BlockMaskOptions,
) -> BlockMask {
    expect(try_create_block_mask(mask_mod, batch, heads, q_len, kv_len, options))
}
/// [`create_block_mask_with`] with a result.
///
/// # Errors
/// As for [`try_create_mask`]; a block size that is not positive.
pub fn try_create_block_mask<R: Computed>(
    mask_mod: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R + Send + Sync + 'static,
    batch: Option<i64>,
    heads: Option<i64>,
    q_len: i64,
    kv_len: i64,
    options: BlockMaskOptions,
) -> Result<BlockMask> {
    let sizes = [batch.unwrap_or(1), heads.unwrap_or(1), q_len, kv_len];
    create(super::mask_mod(mask_mod), sizes, &options)
}
fn create(mask_mod: MaskMod, sizes: [i64; 4], o: &BlockMaskOptions) -> Result<BlockMask> {
    let [b, h, l, s] = sizes;
    let (bq, bk) = o.block_size;
    positive(o.block_size)?;
    let mask: Vec<bool> =
        mask_of(&*mask_mod, sizes, o.device)?.try_to_vec::<B8>()?.into_iter().map(B8::get).collect();
    let (rows, columns) = (blocks(l, bq), blocks(s, bk));
    // pairs that take part in each block; beyond the end there are none
    let mut counts = vec![0i64; (b * h * rows * columns) as usize];
    for (i, seen) in mask.iter().enumerate() {
        let i = i as i64;
        let (outer, q, k) = (i / (l * s), i / s % l, i % s);
        counts[((outer * rows + q / bq) * columns + k / bk) as usize] += i64::from(*seen);
    }
    let whole = |n: &i64| o.separate_full_blocks && *n == bq * bk;
    let shape = [b, h, rows, columns];
    let in_part = ordered(&counts.iter().map(|n| *n > 0 && !whole(n)).collect::<Vec<_>>(), shape, o.device)?;
    let full = ordered(&counts.iter().map(whole).collect::<Vec<_>>(), shape, o.device)?;
    let full = o.separate_full_blocks.then_some(full);
    BlockMask::of_blocks(in_part, full, o.block_size, Some(mask_mod), Some((l, s)))
}
/// How many in each row are set, and the columns with those in front, both in order.
fn ordered(set: &[bool], [b, h, rows, columns]: [i64; 4], device: Device) -> Result<(Tensor, Tensor)> {
    let (mut counts, mut indices): (Vec<i32>, Vec<i32>) = (Vec::new(), Vec::new());
    for r in 0..(b * h * rows) as usize {
        let row = &set[r * columns as usize..(r + 1) * columns as usize];
        let at = |want: bool| (0..columns as i32).filter(move |c| row[*c as usize] == want);
        counts.push(at(true).count() as i32);
        indices.extend(at(true).chain(at(false)));
    }
    let counts = Tensor::from_vec_raw(counts, &[b, h, rows])?;
    let indices = Tensor::from_vec_raw(indices, &[b, h, rows, columns])?;
    Ok((counts.try_to(device)?, indices.try_to(device)?))
}
/// The blocks as a table of flags, of `columns` columns, with its sizes.
fn dense(counts: &Tensor, indices: &Tensor, columns: i64) -> Result<(Vec<bool>, Vec<i64>)> {
    let (n, all) = (counts.try_to_vec::<i64>()?, indices.try_to_vec::<i64>()?);
    let width = *indices.sizes().last().unwrap_or(&0);
    ensure!(
        all.len() as i64 == n.len() as i64 * width,
        Runtime,
        "BlockMask: {} numbers of blocks for {} indices in rows of {width}",
        n.len(),
        all.len()
    );
    let mut out = vec![false; n.len() * columns as usize];
    for (r, n) in n.iter().enumerate() {
        let row = &all[r * width as usize..(r + 1) * width as usize];
        for c in row.iter().take(*n as usize) {
            ensure!(
                (0..columns).contains(c),
                Index,
                "index {c} is out of bounds for dimension 0 with size {columns}"
            );
            out[r * columns as usize + *c as usize] = true;
        }
    }
    let mut sizes = counts.sizes().to_vec();
    sizes.push(columns);
    Ok((out, sizes))
}
/// The rows of each column.
fn transposed(counts: &Tensor, indices: &Tensor, columns: i64) -> Result<(Tensor, Tensor)> {
    let (flags, sizes) = dense(counts, indices, columns)?;
    let [b, h, rows, columns] = four(&sizes)?;
    let at = |i: usize| {
        let (outer, c, r) = (i as i64 / (rows * columns), i as i64 / rows % columns, i as i64 % rows);
        flags[((outer * rows + r) * columns + c) as usize]
    };
    let turned: Vec<bool> = (0..flags.len()).map(at).collect();
    ordered(&turned, [b, h, columns, rows], counts.device())
}
/// Blocks that cover a length.
fn blocks(length: i64, size: i64) -> i64 {
    length / size + i64::from(length % size != 0)
}
fn positive((q, k): (i64, i64)) -> Result<()> {
    ensure!(q > 0 && k > 0, Value, "BLOCK_SIZE must be positive, got ({q}, {k})");
    Ok(())
}
fn four(sizes: &[i64]) -> Result<[i64; 4]> {
    match sizes {
        [b, h, r, c] => Ok([*b, *h, *r, *c]),
        _ => bail!(Runtime, "BlockMask must have batch, head, row and column dimensions"),
    }
}

/// Some rows of blocks and the keys that they see.
pub(super) struct Strip {
    /// First query and number of queries.
    pub queries: (i64, i64),
    /// First key and number of keys.
    pub keys: (i64, i64),
}

impl BlockMask {
    /// Of blocks by their columns in each row. Without a closure all pairs of the blocks take part; without lengths the
    /// last blocks are whole.
    ///
    /// # Errors
    /// Tensors of other shapes.
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.from_kv_blocks")]
    pub fn from_kv_blocks(
        kv_num_blocks: &Tensor,
        kv_indices: &Tensor,
        full: Option<(&Tensor, &Tensor)>,
        block_size: (i64, i64),
        mask_mod: Option<Box<dyn Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Tensor + Send + Sync>>,
        seq_lengths: Option<(i64, i64)>,
    ) -> Result<BlockMask> {
        ensure!(kv_indices.dim() >= 2, Runtime, "BlockMask must have at least 2 dimensions");
        let full = full.map(|(n, i)| (n.clone(), i.clone()));
        let in_part = (kv_num_blocks.clone(), kv_indices.clone());
        Self::of_blocks(in_part, full, block_size, mask_mod.map(super::mask_mod), seq_lengths)
    }
    fn of_blocks(
        (kv_num_blocks, kv_indices): (Tensor, Tensor),
        full: Option<(Tensor, Tensor)>,
        block_size: (i64, i64),
        mask_mod: Option<MaskMod>,
        seq_lengths: Option<(i64, i64)>,
    ) -> Result<BlockMask> {
        for (n, i) in
            std::iter::once((&kv_num_blocks, &kv_indices)).chain(full.as_ref().map(|f| (&f.0, &f.1)))
        {
            let sizes = four(i.sizes())?;
            ensure!(
                n.sizes() == &sizes[..3],
                Runtime,
                "BlockMask: {:?} numbers of blocks for indices of sizes {sizes:?}",
                n.sizes()
            );
        }
        let [_, _, rows, columns] = four(kv_indices.sizes())?;
        positive(block_size)?;
        let whole = || Some((rows.checked_mul(block_size.0)?, columns.checked_mul(block_size.1)?));
        let Some(seq_lengths) = seq_lengths.or_else(whole) else {
            bail!(Value, "BLOCK_SIZE is too large, got {block_size:?} for {rows} rows and {columns} columns");
        };
        let (l, s) = seq_lengths;
        ensure!(l >= 0 && s >= 0, Value, "seq_lengths must not be negative, got {seq_lengths:?}");
        ensure!(
            blocks(l, block_size.0) <= rows,
            Value,
            "BlockMask: {rows} rows of {} queries are not enough for {l}",
            block_size.0
        );
        let columns = blocks(s, block_size.1);
        if let Some((_, i)) = &full {
            let sizes = four(i.sizes())?;
            ensure!(
                sizes[..3] == kv_indices.sizes()[..3],
                Runtime,
                "BlockMask: whole blocks of sizes {sizes:?} and others of sizes {:?}",
                kv_indices.sizes()
            );
        }
        let (q_num_blocks, q_indices) = transposed(&kv_num_blocks, &kv_indices, columns)?;
        let full_q = full.as_ref().map(|(n, i)| transposed(n, i, columns)).transpose()?;
        let (full_kv_num_blocks, full_kv_indices) = full.unzip();
        let (full_q_num_blocks, full_q_indices) = full_q.unzip();
        let mask_mod = mask_mod.unwrap_or_else(|| Arc::new(|batch, _, _, _| every_pair(batch.device())));
        Ok(BlockMask {
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            q_num_blocks,
            q_indices,
            full_q_num_blocks,
            full_q_indices,
            block_size,
            mask_mod,
        })
    }
    /// `[B, H, q_len, kv_len]`
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.shape")]
    pub fn shape(&self) -> Vec<i64> {
        let outer = &self.kv_indices.sizes()[..self.kv_indices.dim().saturating_sub(2)];
        [outer, &[self.seq_lengths.0, self.seq_lengths.1]].concat()
    }
    /// Number of pairs, whether they take part or not.
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.numel")]
    pub fn numel(&self) -> i64 {
        self.shape().iter().product()
    }
    /// Columns of blocks.
    fn columns(&self) -> Result<i64> {
        positive(self.block_size)?;
        Ok(blocks(self.seq_lengths.1.max(0), self.block_size.1))
    }
    /// Blocks that take part, and those that do so whole, as flags `(B, H, rows, columns)`.
    fn flags(&self) -> Result<([i64; 4], Vec<bool>, Vec<bool>)> {
        let columns = self.columns()?;
        let (mut any, sizes) = dense(&self.kv_num_blocks, &self.kv_indices, columns)?;
        let whole = match (&self.full_kv_num_blocks, &self.full_kv_indices) {
            (Some(n), Some(i)) => dense(n, i, columns)?.0,
            _ => vec![false; any.len()],
        };
        ensure!(any.len() == whole.len(), Runtime, "BlockMask: other numbers of whole blocks than of others");
        any.iter_mut().zip(&whole).for_each(|(a, w)| *a |= w);
        Ok((four(&sizes)?, any, whole))
    }
    /// Part of the blocks that take no part, in percent.
    #[track_caller]
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.sparsity")]
    pub fn sparsity(&self) -> f64 {
        expect(self.try_sparsity())
    }
    /// [`BlockMask::sparsity`] with a result.
    ///
    /// # Errors
    /// Fields that no longer fit each other.
    pub fn try_sparsity(&self) -> Result<f64> {
        let (_, any, _) = self.flags()?;
        let ratio = any.iter().filter(|f| **f).count() as f64 / any.len() as f64;
        Ok(100.0 * (1.0 - ratio))
    }
    /// 1 for each block that takes part, `(B, H, rows, columns)` of int32.
    ///
    /// # Errors
    /// Indices beyond the last column.
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.to_dense")]
    pub fn to_dense(&self) -> Result<Tensor> {
        let (sizes, any, _) = self.flags()?;
        Tensor::from_vec_raw(any.into_iter().map(i32::from).collect::<Vec<_>>(), &sizes)
    }
    /// A picture of the blocks of the first batches and heads.
    #[track_caller]
    #[doc(alias = "torch.nn.attention.flex_attention.BlockMask.to_string")]
    pub fn to_picture(&self, grid_size: (i64, i64), limit: usize) -> String {
        expect(self.try_to_picture(grid_size, limit))
    }
    /// [`BlockMask::to_picture`] with a result.
    ///
    /// # Errors
    /// Fields that no longer fit each other.
    pub fn try_to_picture(&self, grid_size: (i64, i64), limit: usize) -> Result<String> {
        let ([b, h, rows, columns], any, _) = self.flags()?;
        let step = |n: i64, max: i64| (n / max.max(1) + i64::from(n % max.max(1) != 0)).max(1);
        let (dr, dc) = (step(rows, grid_size.0), step(columns, grid_size.1));
        let mut all = Vec::new();
        for i in 0..(b * h) as usize {
            if i == limit {
                all.push("...".to_owned());
                all.push("To print out more, set BlockMask.to_string(limit=N)".to_owned());
                all.push(
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head"
                        .to_owned(),
                );
                break;
            }
            let mut text = format!("({}, {})\n", i as i64 / h, i as i64 % h);
            for r in (0..rows).step_by(dr as usize) {
                for c in (0..columns).step_by(dc as usize) {
                    let cells =
                        (r..rows.min(r + dr)).flat_map(|r| (c..columns.min(c + dc)).map(move |c| (r, c)));
                    let set: Vec<bool> =
                        cells.map(|(r, c)| any[((i as i64 * rows + r) * columns + c) as usize]).collect();
                    let n = set.iter().filter(|s| **s).count();
                    text.push_str(if n == set.len() {
                        "██"
                    } else if n == 0 {
                        "  "
                    } else {
                        "░░"
                    });
                }
                text.push('\n');
            }
            all.push(text);
        }
        Ok(all.join("\n"))
    }
    /// The mask cut to its upper left corner, for shorter sequences.
    ///
    /// # Errors
    /// Negative lengths.
    pub fn adjust(&self, q_len: i64, kv_len: i64) -> Result<BlockMask> {
        ensure!(q_len >= 0 && kv_len >= 0, Value, "negative lengths: ({q_len}, {kv_len})");
        positive(self.block_size)?;
        let (rows, columns) = (blocks(q_len, self.block_size.0), blocks(kv_len, self.block_size.1));
        let cut = |n: &Tensor, i: &Tensor| -> Result<(Tensor, Tensor)> {
            let (flags, sizes) = dense(n, i, self.columns()?)?;
            let [b, h, r, c] = four(&sizes)?;
            let (rows, columns) = (rows.min(r), columns.min(c));
            let mut kept = Vec::new();
            for o in 0..b * h {
                for y in 0..rows {
                    let start = ((o * r + y) * c) as usize;
                    kept.extend_from_slice(&flags[start..start + columns as usize]);
                }
            }
            ordered(&kept, [b, h, rows, columns], n.device())
        };
        let in_part = cut(&self.kv_num_blocks, &self.kv_indices)?;
        let full = match (&self.full_kv_num_blocks, &self.full_kv_indices) {
            (Some(n), Some(i)) => Some(cut(n, i)?),
            _ => None,
        };
        Self::of_blocks(in_part, full, self.block_size, Some(self.mask_mod.clone()), Some((q_len, kv_len)))
    }
    /// Whether the mask is for sequences of these lengths.
    pub(super) fn check_lengths(&self, q_len: i64, kv_len: i64) -> Result<()> {
        let (mq, mk) = self.seq_lengths;
        ensure!(
            q_len <= mq && kv_len <= mk,
            Runtime,
            "block_mask was created for a smaller length than you're using it for, you likely need to create a new block mask."
        );
        ensure!(
            q_len == mq && kv_len == mk,
            Runtime,
            "block_mask was created for a larger length than you're using it for, you can either 1. create a new block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left corner, which does not work for all mask_mods!"
        );
        Ok(())
    }
    /// The rows of blocks, each with the keys from its first block to its last.
    pub(super) fn strips(&self) -> Result<Vec<Strip>> {
        let ([b, h, rows, columns], any, _) = self.flags()?;
        let (bq, bk) = self.block_size;
        let strip = |r: i64| {
            let seen = |c: i64| (0..b * h).any(|o| any[((o * rows + r) * columns + c) as usize]);
            let first = (0..columns).find(|c| seen(*c)).unwrap_or(0);
            let end = (0..columns).rev().find(|c| seen(*c)).map_or(0, |c| c + 1);
            let (k0, k1) = (first * bk, (end * bk).min(self.seq_lengths.1));
            let (q0, q1) = (r * bq, ((r + 1) * bq).min(self.seq_lengths.0));
            Strip { queries: (q0, q1 - q0), keys: (k0.min(k1), (k1 - k0).max(0)) }
        };
        Ok((0..rows).map(strip).filter(|s| s.queries.1 > 0).collect())
    }
    /// Which pairs of a strip take part.
    pub(super) fn seen(
        &self,
        strip: &Strip,
        batch: &Tensor,
        head: &Tensor,
        at_q: &Tensor,
        at_k: &Tensor,
    ) -> Result<Tensor> {
        let ([b, h, rows, columns], any, whole) = self.flags()?;
        let (bq, bk) = self.block_size;
        let r = strip.queries.0 / bq;
        let spread = |flags: &[bool]| -> Result<Tensor> {
            let keys = strip.keys.0..strip.keys.0 + strip.keys.1;
            let all: Vec<B8> = (0..b * h)
                .flat_map(|o| keys.clone().map(move |k| ((o * rows + r) * columns + k / bk) as usize))
                .map(|i| B8::from(flags[i]))
                .collect();
            Tensor::from_vec_raw(all, &[b, h, 1, strip.keys.1])?.try_to(batch.device())
        };
        let within = (self.mask_mod)(batch, head, at_q, at_k)?;
        let seen = ops::bitwise_and(&spread(&any)?, &within)?;
        if whole.iter().any(|w| *w) { ops::bitwise_or(&seen, &spread(&whole)?) } else { Ok(seen) }
    }
}
impl fmt::Display for BlockMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_sparsity().and_then(|s| Ok((s, self.try_to_picture((20, 20), 4)?))) {
            Ok((sparsity, picture)) => {
                writeln!(f, "BlockMask(shape={}, sparsity={sparsity:.2}%, ", self.shape().py_text())?;
                write!(f, "{}\n)", picture.trim())
            }
            Err(e) => write!(f, "BlockMask({e})"),
        }
    }
}
impl fmt::Debug for BlockMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockMask")
            .field("seq_lengths", &self.seq_lengths)
            .field("block_size", &self.block_size)
            .field("kv_num_blocks", &self.kv_num_blocks)
            .field("kv_indices", &self.kv_indices)
            .finish_non_exhaustive()
    }
}
