//! Compressed layouts: rows (CSR), columns (CSC) and their variants of blocks (BSR, BSC).

use crate::coo::{Coo, cast, product, take};
use crate::ops::convert::index_of;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{filled, fmt_sizes, room, size_add, size_mul};
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, bail, ensure, ops};
use std::collections::BTreeMap;

/// Whether lines are rows.
pub(crate) fn by_rows(l: Layout) -> bool {
    matches!(l, Layout::SparseCsr | Layout::SparseBsr)
}
/// Whether elements are blocks.
pub(crate) fn in_blocks(l: Layout) -> bool {
    matches!(l, Layout::SparseBsr | Layout::SparseBsc)
}

/// A compressed tensor taken apart.
pub(crate) struct Compressed {
    pub sizes: Vec<i64>,
    pub layout: Layout,
    pub compressed: Tensor,
    pub plain: Tensor,
    pub values: Tensor,
}
impl Compressed {
    pub fn of(t: &Tensor) -> Result<Compressed> {
        match t.sparse_parts() {
            Some(Parts::Compressed { compressed, plain, values }) => {
                Ok(Compressed { sizes: t.sizes().to_vec(), layout: t.layout(), compressed, plain, values })
            }
            _ => Err(Error::runtime(format!(
                "expected a tensor of a compressed sparse layout but got {}",
                crate::coo::layout_name(t.layout())
            ))),
        }
    }
    pub fn build(self) -> Result<Tensor> {
        let parts = Parts::Compressed { compressed: self.compressed, plain: self.plain, values: self.values };
        Tensor::from_sparse_parts(&self.sizes, self.layout, parts)
    }
    /// Number of batch dimensions.
    pub fn batch(&self) -> usize {
        self.plain.dim() - 1
    }
    fn nnz(&self) -> i64 {
        self.plain.sizes()[self.batch()]
    }
    /// Rows and columns of a block.
    fn block(&self) -> (i64, i64) {
        let b = self.batch();
        if in_blocks(self.layout) { (self.values.sizes()[b + 1], self.values.sizes()[b + 2]) } else { (1, 1) }
    }
    fn dense_sizes(&self) -> &[i64] {
        &self.sizes[self.batch() + 2..]
    }
    /// Line and other coordinate of each element (block), batch by batch.
    ///
    /// # Errors
    /// Indices that are none: every element has its line and lies within the sizes, or this is an error.
    pub fn places(&self) -> Result<Vec<(i64, i64)>> {
        let b = self.batch();
        let (br, bc) = self.block();
        let (rows, columns) = (self.sizes[b] / br, self.sizes[b + 1] / bc);
        let (lines, across) = if by_rows(self.layout) { (rows, columns) } else { (columns, rows) };
        let starts = cast(&self.compressed, DType::I64)?.try_to_vec::<i64>()?;
        let plain = cast(&self.plain, DType::I64)?.try_to_vec::<i64>()?;
        let n = self.nnz() as usize;
        let mut out = room(plain.len() as i64)?;
        for batch in 0..product(&self.sizes[..b])? as usize {
            let starts = &starts[batch * (lines as usize + 1)..][..lines as usize + 1];
            ensure!(
                starts[0] == 0
                    && starts[lines as usize] == n as i64
                    && starts.windows(2).all(|w| w[0] <= w[1]),
                Runtime,
                "compressed indices must begin with 0, end with the number of elements and never descend"
            );
            let plain = &plain[batch * n..][..n];
            for (line, w) in starts.windows(2).enumerate() {
                for &p in &plain[w[0] as usize..w[1] as usize] {
                    ensure!(
                        (0..across).contains(&p),
                        Runtime,
                        "plain index {p} is out of range for size {across}"
                    );
                    out.push((line as i64, p));
                }
            }
        }
        Ok(out)
    }
}

/// By coordinates; elements keep their order.
pub(crate) fn to_coo(t: &Tensor) -> Result<Tensor> {
    let c = Compressed::of(t)?;
    let (b, (br, bc), n) = (c.batch(), c.block(), c.nnz());
    let places = c.places()?;
    let total = product(&[places.len() as i64, br, bc])?;
    let mut indices = (0..b + 2).map(|_| room(total)).collect::<Result<Vec<_>>>()?;
    for (k, (line, other)) in places.iter().enumerate() {
        let (i, j) = if by_rows(c.layout) { (line, other) } else { (other, line) };
        let mut rest = k as i64 / n.max(1);
        let mut at = vec![0; b];
        for d in (0..b).rev() {
            at[d] = rest % c.sizes[d];
            rest /= c.sizes[d];
        }
        for u in 0..br {
            for v in 0..bc {
                at.iter().enumerate().for_each(|(d, x)| indices[d].push(*x));
                indices[b].push(i * br + u);
                indices[b + 1].push(j * bc + v);
            }
        }
    }
    let mut value_sizes = vec![total];
    value_sizes.extend_from_slice(c.dense_sizes());
    let values = ops::view(&ops::contiguous(&c.values, MemoryFormat::Contiguous)?, &value_sizes)?;
    let indices = Tensor::from_vec_raw(indices.concat(), &[b as i64 + 2, total])?;
    let mut coo = Coo { sizes: c.sizes.clone(), indices, values, coalesced: false };
    let flat = coo.flat()?;
    coo.coalesced = flat.windows(2).all(|w| w[0] < w[1]);
    if !coo.coalesced {
        // by coordinates means in order
        coo = coo.coalesce()?;
    }
    coo.build()
}

fn check_block(
    from: &str,
    layout: Layout,
    blocksize: Option<&[i64]>,
    rows: i64,
    columns: i64,
) -> Result<(i64, i64)> {
    if !in_blocks(layout) {
        return Ok((1, 1));
    }
    let name = if layout == Layout::SparseBsr { "bsr" } else { "bsc" };
    let (br, bc) = match blocksize {
        Some(&[br, bc]) => (br, bc),
        Some(other) => bail!(
            Runtime,
            "{from}_to_sparse_{name}: blocksize needs to be a tuple of size 2, but got {}",
            other.len()
        ),
        None => bail!(
            Runtime,
            "to_sparse for {} needs a blocksize of two numbers",
            crate::coo::layout_name(layout)
        ),
    };
    ensure!(
        br > 0 && bc > 0,
        Runtime,
        "{from}_to_sparse_{name}: blocksize needs to be positive, but got [{br}, {bc}]"
    );
    ensure!(
        rows % br == 0 && columns % bc == 0,
        Runtime,
        "{from}_to_sparse_{name}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize ({br},{bc})"
    );
    Ok((br, bc))
}

/// From elements (blocks) by line and other coordinate.
struct Lines {
    layout: Layout,
    lines: i64,
    starts: Vec<i64>,
    plain: Vec<i64>,
}
impl Lines {
    fn new(layout: Layout, lines: i64) -> Lines {
        Lines { layout, lines, starts: Vec::new(), plain: Vec::new() }
    }
    /// One batch: places in order.
    ///
    /// # Errors
    /// No memory: the lines are as many as the sizes say, however few the elements.
    fn batch(&mut self, places: &[(i64, i64)]) -> Result<()> {
        let mut at = 0;
        let whole = size_add(self.starts.len() as i64, size_add(self.lines, 1)?)?;
        let mut starts = room(whole)?;
        starts.append(&mut self.starts);
        self.starts = starts;
        self.starts.push(0);
        for line in 0..self.lines {
            while places.get(at).is_some_and(|p| p.0 == line) {
                at += 1;
            }
            self.starts.push(at as i64);
        }
        let mut plain = room(size_add(self.plain.len() as i64, places.len() as i64)?)?;
        plain.append(&mut self.plain);
        plain.extend(places.iter().map(|p| p.1));
        self.plain = plain;
        Ok(())
    }
    fn build(self, sizes: &[i64], batch: &[i64], n: i64, values: Tensor) -> Result<Tensor> {
        let of = |last: i64| [batch, &[last]].concat();
        Compressed {
            sizes: sizes.to_vec(),
            layout: self.layout,
            compressed: index_of(&self.starts, &of(self.lines + 1), DType::I64)?,
            plain: index_of(&self.plain, &of(n), DType::I64)?,
            values,
        }
        .build()
    }
}

/// The elements (blocks) of a dense tensor that are not all zero; every batch must have the same number.
pub(crate) fn from_dense(
    t: &Tensor,
    layout: Layout,
    blocksize: Option<&[i64]>,
    dense_dim: i64,
) -> Result<Tensor> {
    let n = t.dim() as i64;
    ensure!(
        (0..n - 1).contains(&dense_dim),
        Runtime,
        "dense_to_sparse_compressed: expected a tensor of at least 2 + dense_dim dimensions, but got {n} and dense_dim = \
         {dense_dim}"
    );
    let b = (n - 2 - dense_dim) as usize;
    let (rows, columns) = (t.sizes()[b], t.sizes()[b + 1]);
    let (br, bc) = check_block("dense", layout, blocksize, rows, columns)?;
    let batches = product(&t.sizes()[..b])?;
    let count_of_blocks = product(&[batches, rows / br, columns / bc])?;
    room::<i64>(size_mul(batches, size_add(rows.max(columns), 4)?)?)?;
    let dense = &t.sizes()[b + 2..];
    let split = [&[batches, rows / br, br, columns / bc, bc][..], dense].concat();
    let plain = ops::contiguous(&ops::resolve_neg(&ops::resolve_conj(t)?)?, MemoryFormat::Contiguous)?;
    let tail = 5..5 + dense.len() as i64;
    let order: Vec<i64> = [0, 1, 3, 2, 4].into_iter().chain(tail.clone()).collect();
    let x = ops::contiguous(&ops::permute(&ops::view(&plain, &split)?, &order)?, MemoryFormat::Contiguous)?;
    let inner: Vec<i64> = [3, 4].into_iter().chain(tail).collect();
    let set = ops::any_dims(&ops::ne(&x, &flambeau_autograd::shorthand::number(0)?)?, Some(&inner), false)?;
    let set = if by_rows(layout) { set } else { ops::transpose(&set, 1, 2)? };
    let all = ops::nonzero(&set)?.try_to_vec::<i64>()?;
    let lines = if by_rows(layout) { rows / br } else { columns / bc };
    let (mut counts, mut found) = (filled(0usize, batches)?, room(all.len() as i64 / 3)?);
    for p in all.chunks(3) {
        counts[p[0] as usize] += 1;
        found.push((p[1], p[2]));
    }
    let count = counts.first().copied().unwrap_or(0);
    ensure!(
        counts.iter().all(|n| *n == count),
        Runtime,
        "Expect the same number of specified elements per batch."
    );
    let mut out = Lines::new(layout, lines);
    let mut from = room(found.len() as i64)?;
    for k in 0..counts.len() {
        let places = &found[k * count..][..count];
        out.batch(places)?;
        for (line, other) in places {
            let (i, j) = if by_rows(layout) { (line, other) } else { (other, line) };
            from.push((k as i64 * (rows / br) + i) * (columns / bc) + j);
        }
    }
    let blocks = ops::view(&x, &[&[count_of_blocks, br, bc][..], dense].concat())?;
    let values = take(&blocks, 0, &from)?;
    let block: &[i64] = if in_blocks(layout) { &[br, bc] } else { &[] };
    let sizes = [&t.sizes()[..b], &[count as i64], block, dense].concat();
    out.build(t.sizes(), &t.sizes()[..b], count as i64, ops::view(&values, &sizes)?)
}

/// A COO matrix, whose specified zeros stay specified.
pub(crate) fn from_coo(t: &Tensor, layout: Layout, blocksize: Option<&[i64]>) -> Result<Tensor> {
    let c = Coo::of(t, "to_sparse")?.coalesce()?;
    ensure!(
        c.sparse_dim() == 2,
        Runtime,
        "Only tensors with two sparse dimensions can be converted to the {} layout, got self with {} sparse dimensions.",
        crate::coo::layout_name(layout),
        c.sparse_dim()
    );
    let (rows, columns) = (c.sizes[0], c.sizes[1]);
    let (br, bc) = check_block("sparse_compressed", layout, blocksize, rows, columns)?;
    c.flat()?;
    let at = c.indices.try_to_vec::<i64>()?;
    let (r, k) = at.split_at(c.nnz() as usize);
    let mut blocks: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let place = |i: &i64, j: &i64| if by_rows(layout) { (i / br, j / bc) } else { (j / bc, i / br) };
    r.iter().zip(k).for_each(|(i, j)| {
        blocks.insert(place(i, j), 0);
    });
    blocks.values_mut().zip(0..).for_each(|(n, k)| *n = k);
    let to: Vec<i64> =
        r.iter().zip(k).map(|(i, j)| blocks[&place(i, j)] * br * bc + i % br * bc + j % bc).collect();
    let places: Vec<(i64, i64)> = blocks.keys().copied().collect();
    let n = places.len() as i64;
    let mut out = Lines::new(layout, if by_rows(layout) { rows / br } else { columns / bc });
    out.batch(&places)?;
    let block: &[i64] = if in_blocks(layout) { &[br, bc] } else { &[] };
    let sizes = [&[n][..], block, c.dense_sizes()].concat();
    let all = [&[product(&[n, br, bc])?][..], c.dense_sizes()].concat();
    let values = Tensor::zeros_raw(&all, c.values.dtype(), Device::Cpu)?;
    if values.numel() > 0 && c.nnz() > 0 {
        // each place once: moved as they are
        ops::index_copy_(&values, 0, &crate::coo::index(&to)?, &c.values)?;
    }
    out.build(&c.sizes, &[], n, ops::view(&values, &sizes)?)
}
/// From one compressed layout to another.
pub(crate) fn relayout(t: &Tensor, layout: Layout, blocksize: Option<&[i64]>) -> Result<Tensor> {
    let c = Compressed::of(t)?;
    if c.batch() == 0 {
        return from_coo(&to_coo(t)?, layout, blocksize);
    }
    from_dense(&crate::ops::dense_copy(t, None)?, layout, blocksize, c.dense_sizes().len() as i64)
}

/// Zeros of a tensor's sizes in another layout.
pub(crate) fn zeros(t: &Tensor, dtype: DType, layout: Layout) -> Result<Tensor> {
    let dense = crate::ops::dense_dim(t)?;
    if layout == Layout::SparseCoo {
        return Coo::empty(t.sizes(), t.dim() - dense as usize, dtype)?.build();
    }
    empty(t.sizes(), layout, dense as usize, block_of(t), dtype)
}
pub(crate) fn block_of(t: &Tensor) -> (i64, i64) {
    Compressed::of(t).ok().filter(|c| in_blocks(c.layout)).map_or((1, 1), |c| c.block())
}
/// Nothing specified.
pub(crate) fn empty(
    sizes: &[i64],
    layout: Layout,
    dense: usize,
    (br, bc): (i64, i64),
    dtype: DType,
) -> Result<Tensor> {
    ensure!(
        sizes.len() >= 2 + dense,
        Runtime,
        "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {}",
        fmt_sizes(sizes)
    );
    let b = sizes.len() - 2 - dense;
    let lines = if by_rows(layout) { sizes[b] / br } else { sizes[b + 1] / bc };
    let of = |last: i64| [&sizes[..b], &[last]].concat();
    let block: &[i64] = if in_blocks(layout) { &[br, bc] } else { &[] };
    Compressed {
        sizes: sizes.to_vec(),
        layout,
        compressed: Tensor::zeros_raw(&of(size_add(lines, 1)?), DType::I64, Device::Cpu)?,
        plain: Tensor::empty_raw(&of(0), DType::I64, Device::Cpu)?,
        values: Tensor::empty_raw(&[&of(0)[..], block, &sizes[b + 2..]].concat(), dtype, Device::Cpu)?,
    }
    .build()
}

/// Rows become columns: the same parts in the other layout.
pub(crate) fn transpose(t: &Tensor, a: usize, b: usize) -> Result<Tensor> {
    let c = Compressed::of(t)?;
    let s = c.batch();
    if a == b {
        return Ok(t.alias_detached());
    }
    ensure!(
        a.min(b) == s && a.max(b) == s + 1,
        Missing,
        "transpose of dimensions {a} and {b} of a tensor of layout torch.{}",
        c.layout.name()
    );
    let layout = match c.layout {
        Layout::SparseCsr => Layout::SparseCsc,
        Layout::SparseCsc => Layout::SparseCsr,
        Layout::SparseBsr => Layout::SparseBsc,
        _ => Layout::SparseBsr,
    };
    let mut sizes = c.sizes.clone();
    sizes.swap(a, b);
    let values = if in_blocks(layout) {
        ops::contiguous(&ops::transpose(&c.values, s as i64 + 1, s as i64 + 2)?, MemoryFormat::Contiguous)?
    } else {
        c.values
    };
    Compressed { sizes, layout, values, ..c }.build()
}
/// `mul` where one factor at least has a compressed layout: the result has it.
pub(crate) fn mul(a: &Tensor, b: &Tensor, l: Layout, m: Layout) -> Result<Tensor> {
    let layout = if l == Layout::Strided { m } else { l };
    ensure!(
        l == Layout::Strided || m == Layout::Strided || l == m,
        Missing,
        "mul of layouts torch.{} and torch.{}",
        l.name(),
        m.name()
    );
    let block = if l == Layout::Strided { block_of(b) } else { block_of(a) };
    let block = in_blocks(layout).then_some([block.0, block.1]);
    let coo = |t: &Tensor| if t.layout() == Layout::Strided { Ok(t.clone()) } else { to_coo(t) };
    let like = if l == Layout::Strided { b } else { a };
    let r = crate::kernels::arith::mul(&coo(a)?, &coo(b)?)?;
    if Compressed::of(like)?.batch() == 0 && crate::ops::sparse_dim(&r)? == 2 {
        return from_coo(&r, layout, block.as_ref().map(|b| &b[..]));
    }
    // batches: the places of the compressed factor stay
    mask(&crate::ops::dense_copy(&r, None)?, like)
}
/// The elements of a tensor at the places of a compressed one.
pub(crate) fn mask(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let m = Compressed::of(mask)?;
    let coo = to_coo_in_order(&m)?;
    let values = crate::ops::elements_at(t, &coo)?;
    let values = ops::view(&ops::contiguous(&values, MemoryFormat::Contiguous)?, m.values.sizes())?;
    Compressed { values, ..m }.build()
}
/// Coordinates of all elements in the order of the values.
fn to_coo_in_order(c: &Compressed) -> Result<Tensor> {
    let shape = &c.values.sizes()[..c.values.dim() - c.dense_sizes().len()];
    let count = product(shape)?;
    room::<i64>(count)?;
    let numbers = Tensor::from_vec_raw((1..=count).collect::<Vec<i64>>(), shape)?;
    let sizes = c.sizes[..c.batch() + 2].to_vec();
    let numbered = Compressed {
        sizes,
        layout: c.layout,
        compressed: c.compressed.clone(),
        plain: c.plain.clone(),
        values: numbers,
    }
    .build()?;
    let coo = Coo::of(&to_coo(&numbered)?, "mask")?;
    let order = coo.values.try_to_vec::<i64>()?;
    let mut at: Vec<usize> = (0..order.len()).collect();
    at.sort_unstable_by_key(|k| (order[*k], *k));
    take(&coo.indices, 1, &at.iter().map(|k| *k as i64).collect::<Vec<_>>())
}
/// `sum` of a compressed tensor: dense over everything, of the same layout over some dimensions of a CSR tensor, which stay.
pub(crate) fn sum(t: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: DType) -> Result<Tensor> {
    let c = Compressed::of(t)?;
    let Some(dims) = dim.filter(|d| !d.is_empty()) else {
        let all = ops::sum(&c.values, None, false, Some(dtype))?;
        return if keepdim { ops::view(&all, &vec![1; t.dim()]) } else { Ok(all) };
    };
    ensure!(
        c.layout == Layout::SparseCsr,
        Runtime,
        "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout {}",
        crate::coo::layout_name(c.layout)
    );
    ensure!(keepdim, Runtime, "reduction operations on CSR tensors with keepdim=False is unsupported");
    let dims = flambeau_core::tensor::geometry::wrap_dims(dims, t.dim())?;
    crate::kernels::lines::sum_dims(t, &dims, dtype)
}
