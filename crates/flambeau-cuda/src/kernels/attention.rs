//! Scaled dot product attention and its gradients, by tiles.

use super::dense::{Units, dense, dense_opt, float_units, floats, room, text, units, up, wide};
use super::random::take;
use super::{Args, Which, address, launch, launch_with_shared, shape};
use crate::device::ordinal;
use crate::driver::Shape;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor};
use flambeau_nn_functional::generated::{args, attention as rows};

const FILE: &str = "attention/attention.cuh";

/// The tensor as it lies if its rows are contiguous, else a copy.
fn by_rows(t: &Tensor) -> Result<Tensor> {
    let near = t.strides()[3] == 1 || t.sizes()[3] == 1;
    if near && !t.is_conj() && !t.is_neg() { Ok(t.clone()) } else { dense(t) }
}
/// Whether all rows are whole numbers of 16 bytes and aligned so, of halves.
fn in_packs(t: &Tensor) -> bool {
    let steps = t.sizes().iter().zip(t.strides()).take(3).all(|(n, s)| *n == 1 || s % 8 == 0);
    steps && t.sizes()[3] % 8 == 0 && address(t).is_ok_and(|a| a % 16 == 0)
}
fn heads(list: Args, t: Option<&Tensor>) -> Result<Args> {
    let Some(t) = t else { return Ok(list.int(0).int(0).int(0).int(0)) };
    Ok(t.strides()[..3].iter().fold(list.word(address(t)?), |l, s| l.int(*s)))
}
/// One of the four sums: `out = T b`, where T is made of the scores `x y^T`, and for gradients of weights of `second`.
struct Sum<'a> {
    mode: &'static str,
    x: &'a Tensor,
    y: &'a Tensor,
    second: Option<[&'a Tensor; 2]>,
    b: Option<&'a Tensor>,
    out: Option<&'a Tensor>,
    lse: Option<&'a Tensor>,
    delta: Option<&'a Tensor>,
    mask: Option<&'a Tensor>,
    causal: bool,
    scale: f64,
    dropout: Option<Dropout<'a>>,
}
/// Weights that are dropped: the generators' states of the batches, and the share.
#[derive(Clone, Copy)]
struct Dropout<'a> {
    states: &'a Tensor,
    p: f64,
}
impl<'a> Dropout<'a> {
    /// `None` where nothing is dropped.
    ///
    /// # Errors
    /// Something is, and there are no states.
    fn of(p: f64, states: Option<&'a Tensor>) -> Result<Option<Dropout<'a>>> {
        match (p > 0.0, states) {
            (false, _) => Ok(None),
            (true, Some(states)) => Ok(Some(Dropout { states, p })),
            (true, None) => Err(Error::runtime("_fused_attention: dropout without states of a generator")),
        }
    }
    /// As `DropoutParams` of kernels/attention/dropout.cuh.
    fn args(this: Option<Dropout<'_>>, list: Args) -> Result<Args> {
        let Some(Dropout { states, p }) = this else { return Ok(list.word(0).int(0).number(0.0)) };
        let by = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        Ok(list.word(address(states)?).int(((1.0 - p) * 65536.0).round() as i64).number(by))
    }
}
/// A mask: its address, how kernels read it, its strides.
fn mask(list: Args, t: Option<&Tensor>, d: DType) -> Result<Args> {
    let Some(t) = t else { return Ok((0..6).fold(list, |l, _| l.int(0))) };
    let kind = match t.dtype() {
        DType::Bool => 1,
        DType::F32 => 2,
        own if own == d => 3,
        other => return Err(Error::not_implemented_for("_fused_attention: a mask", other)),
    };
    Ok(t.strides().iter().fold(list.word(address(t)?).int(kind), |l, s| l.int(*s)))
}
/// How `GROUP_ATTENTION` divides its work: the columns that rows are given room for, rows of a tile of the other side, and how many
/// blocks a multiprocessor has room for. A block is one group: several of them are faster side by side than one of several groups,
/// which wait for each other.
#[derive(Clone, Copy)]
struct Tile {
    depth: i64,
    other: i64,
    resident: i64,
}
impl Tile {
    /// What was fastest on an H200; `None` of the modes that this kernel lacks. Masks and dropout take registers.
    fn of(mode: &str, depth: i64, masked: bool, drops: bool) -> Option<Tile> {
        let depth = if depth <= 64 { 64 } else { 128 };
        let [other, resident] = match (mode, depth, masked || drops) {
            ("FORWARD", 64, _) => [128, if drops { 2 } else { 3 }],
            ("OF_QUERY", 64, false) => [64, 4],
            ("OF_BOTH", 64, false) => [128, 2],
            ("FORWARD" | "OF_QUERY" | "OF_BOTH", ..) => [64, 2],
            _ => return None,
        };
        Some(Tile { depth, other, resident })
    }
    /// Bytes of shared memory: own rows, two tiles of two matrices, the queries' numbers, and what it takes to begin at 1024.
    fn shared(self, mode: &str) -> i64 {
        let own = if mode == "FORWARD" { 1 } else { 2 };
        let numbers = if mode == "OF_BOTH" { 16 * self.other } else { 0 };
        2 * self.depth * (own * 64 + 4 * self.other) + numbers + 1024
    }
}
impl Sum<'_> {
    /// Where the device multiplies by groups of warps.
    fn by_groups(&self, own: &str, device: usize, t: Tile) -> Result<()> {
        let (s, shared) = (self.x.sizes(), t.shared(self.mode));
        let (masked, drops) = (self.mask.is_some(), self.dropout.is_some());
        let which = Which(self.mode, 1, [self.x.dtype() as u8, t.depth as u8, masked.into(), drops.into()]);
        let text = || {
            let (mode, Tile { depth, other, resident }) = (self.mode, t);
            let numbers = format!("1, {other}, {resident}, {shared}");
            let flags = format!("{masked}, {drops}");
            text(
                "attention/groups.cuh",
                &format!("GROUP_ATTENTION(k, {own}, {depth}, {mode}, {flags}, {numbers})"),
            )
        };
        let blocks = s[0] * s[1] * up(s[2], 64);
        let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: 128 };
        launch_with_shared(device, which, shared as u32, text, shape, self.args(self.columns(), 1)?)
    }
    /// Columns of the result.
    fn columns(&self) -> i64 {
        self.out.map_or(0, |t| t.sizes()[3])
    }
    fn args(&self, columns: i64, chunks: i64) -> Result<Args> {
        let mut list = Args::new();
        let second = |i: usize| self.second.map(|s| s[i]);
        for t in [Some(self.x), Some(self.y), second(0), second(1), self.b, self.out] {
            list = heads(list, t)?;
        }
        let list = list.word(super::dense::address_of(self.lse)?).word(super::dense::address_of(self.delta)?);
        let (s, width2) = (self.x.sizes(), second(0).map_or(0, |t| t.sizes()[3]));
        let list = list.int(s[0]).int(s[1]).int(s[2]).int(self.y.sizes()[2]).int(s[3]).int(width2);
        let list = list.int(columns).int(self.causal.into()).int(chunks).number(self.scale);
        Dropout::args(self.dropout, mask(list, self.mask, self.x.dtype())?)
    }
    fn run(&self, own: &str, out: &Tensor) -> Result<()> {
        if out.numel() == 0 {
            return Ok(());
        }
        let (s, columns, d) = (self.x.sizes(), out.sizes()[3], self.x.dtype());
        let device = ordinal(out.device())?;
        let depth = columns.max(s[3]).max(self.second.map_or(0, |s| s[0].sizes()[3]));
        let (units, drops) = (units(d, device)?, self.dropout.is_some());
        // of both gradients `b` is written
        let read = self.b.filter(|_| self.mode != "OF_BOTH");
        let packs = || {
            [self.x, self.y].into_iter().chain(self.second.into_iter().flatten()).chain(read).all(in_packs)
        };
        if units == Units::Groups
            && depth <= 128
            && packs()
            && let Some(tile) = Tile::of(self.mode, depth, self.mask.is_some(), drops)
        {
            return self.by_groups(own, device, tile);
        }
        if depth <= 128 && (units != Units::None || float_units(d, device)?) {
            let depth = if depth <= 64 { 64 } else { 128 };
            let blocks = s[0] * s[1] * up(s[2], 64);
            let which = Which(self.mode, 0, [d as u8, depth, drops.into(), 0]);
            let text = || text(FILE, &format!("WARP_ATTENTION(k, {own}, {depth}, {}, {drops})", self.mode));
            let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: 128 };
            return launch(device, which, text, shape, self.args(columns, 1)?);
        }
        // a thread has 4 or 8 columns; more are other blocks'
        let each = if columns <= 64 { 1 } else { 2 };
        let chunks = up(columns, 64 * each);
        let blocks = s[0] * s[1] * up(s[2], 64) * chunks;
        let which = Which(self.mode, 0, [d as u8, each as u8, drops.into(), 0]);
        let text = || text(FILE, &format!("ATTENTION(k, {own}, {each}, {}, {drops})", self.mode));
        let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: 256 };
        launch(device, which, text, shape, self.args(columns, chunks)?)
    }
}
fn forward(a: &args::FusedAttention, [out, lse]: [&Tensor; 2]) -> Result<()> {
    let own = floats("_fused_attention", a.query.dtype())?;
    let (q, k, v) = (by_rows(a.query)?, by_rows(a.key)?, by_rows(a.value)?);
    let states = dense_opt(a.states)?;
    Sum {
        mode: "FORWARD",
        x: &q,
        y: &k,
        second: None,
        b: Some(&v),
        out: Some(out),
        lse: Some(lse),
        delta: None,
        mask: a.attn_mask,
        causal: a.is_causal,
        scale: a.scale,
        dropout: Dropout::of(a.dropout_p, states.as_ref())?,
    }
    .run(own, out)
}
fn backward(a: &args::FusedAttentionBackward, [gq, gk, gv]: [&Tensor; 3]) -> Result<()> {
    let own = floats("_fused_attention_backward", a.query.dtype())?;
    let (q, k, v) = (by_rows(a.query)?, by_rows(a.key)?, by_rows(a.value)?);
    let (g, out, lse) = (by_rows(a.grad_output)?, by_rows(a.output)?, dense(a.logsumexp)?);
    let delta = room(lse.numel(), wide(q.dtype()), &q)?;
    let sums = Sum {
        mode: "",
        x: &out,
        y: &g,
        second: None,
        b: None,
        out: None,
        lse: None,
        delta: Some(&delta),
        mask: None,
        causal: false,
        scale: a.scale,
        dropout: None,
    };
    let d = ordinal(q.device())?;
    let shape = Shape {
        blocks: up(lse.numel(), if wide(q.dtype()) == q.dtype() { 4 } else { 16 }).clamp(1, 1 << 20) as u32,
        threads: 128,
    };
    let which = Which("attention_delta", 0, [q.dtype() as u8, 0, 0, 0]);
    let text = || text(FILE, &format!("ATTENTION_DELTA(k, {own})"));
    launch(d, which, text, shape, sums.args(0, 1)?)?;
    let (lse, delta, causal) = (Some(&lse), Some(&delta), a.is_causal);
    let states = dense_opt(a.states)?;
    let dropout = Dropout::of(a.dropout_p, states.as_ref())?;
    let query = ("OF_QUERY", [&q, &k], Some([&g, &v]), &k, gq);
    let value = ("OF_VALUE", [&k, &q], None, &g, gv);
    let key = ("OF_KEY", [&k, &q], Some([&v, &g]), &q, gk);
    // both at once: the second result stands where the others have what they sum
    let both = ("OF_BOTH", [&k, &q], Some([&v, &g]), gv, gk);
    let wide = q.sizes()[3].max(v.sizes()[3]) > 128;
    let all = match units(q.dtype(), d)? {
        Units::Groups if !wide && [&q, &k, &v, &g].into_iter().all(in_packs) => vec![query, both],
        _ => vec![query, value, key],
    };
    for (mode, [x, y], second, b, out) in all {
        Sum {
            mode,
            x,
            y,
            second,
            b: Some(b),
            out: Some(out),
            lse,
            delta,
            mask: a.attn_mask,
            causal,
            scale: a.scale,
            dropout,
        }
        .run(own, out)?;
    }
    Ok(())
}

/// Seeds and offsets of a generator, one pair for each row.
fn states(_: &args::PhiloxStates, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (d, made) = (ordinal(out.device())?, Tensor::empty_raw(out.sizes(), DType::I64, out.device())?);
    let n = out.numel() / 2;
    let (seed, offset) = take(d, None, 4 * n as u64)?;
    let list = Args::new().word(address(&made)?).int(n).word(seed).word(offset);
    let which = Which("philox_states", 0, [0; 4]);
    launch(d, which, || text("attention/dropout.cuh", "PHILOX_STATES(k)"), shape(n), list)?;
    flambeau_core::backend::matrices::write(out, &made)
}
/// What dropout does to each weight.
fn factors(a: &args::AttentionDropoutMask, out: &Tensor) -> Result<()> {
    let own = floats("_attention_dropout_mask", out.dtype())?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (d, made) = (ordinal(out.device())?, Tensor::empty_raw(out.sizes(), out.dtype(), out.device())?);
    let states = dense(a.states)?;
    let list = out.sizes().iter().fold(Args::new().word(address(&made)?), |l, n| l.int(*n));
    let list = Dropout::args(Some(Dropout { states: &states, p: a.p }), list)?;
    let which = Which("attention_mask", 0, [out.dtype() as u8, 0, 0, 0]);
    let text = || text("attention/dropout.cuh", &format!("ATTENTION_MASK(k, {own})"));
    launch(d, which, text, shape(out.numel()), list)?;
    flambeau_core::backend::matrices::write(out, &made)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::PHILOX_STATES_KERNEL.register(Key::Cuda, states);
    rows::ATTENTION_DROPOUT_MASK_KERNEL.register(Key::Cuda, factors);
    rows::FUSED_ATTENTION_KERNEL.register(Key::Cuda, forward);
    rows::FUSED_ATTENTION_BACKWARD_KERNEL.register(Key::Cuda, backward);
}
