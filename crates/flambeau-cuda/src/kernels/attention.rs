//! Scaled dot product attention and its gradients, by tiles.

use super::dense::{dense, floats, matrix_units, room, text, up, wide};
use super::{Args, Which, address, launch};
use crate::device::ordinal;
use crate::driver::Shape;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor};
use flambeau_nn_functional::generated::{args, attention as rows};

const FILE: &str = "attention/attention.cuh";

/// The tensor as it lies if its rows are contiguous, else a copy.
fn by_rows(t: &Tensor) -> Result<Tensor> {
    let near = t.strides()[3] == 1 || t.sizes()[3] == 1;
    if near && !t.is_conj() && !t.is_neg() { Ok(t.clone()) } else { dense(t) }
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
impl Sum<'_> {
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
        mask(list, self.mask, self.x.dtype())
    }
    fn run(&self, own: &str, out: &Tensor) -> Result<()> {
        if out.numel() == 0 {
            return Ok(());
        }
        let (s, columns, d) = (self.x.sizes(), out.sizes()[3], self.x.dtype());
        let device = ordinal(out.device())?;
        let depth = columns.max(s[3]).max(self.second.map_or(0, |s| s[0].sizes()[3]));
        if depth <= 128 && matrix_units(d, device)? {
            let depth = if depth <= 64 { 64 } else { 128 };
            let blocks = s[0] * s[1] * up(s[2], 64);
            let which = Which(self.mode, 0, [d as u8, depth, 0, 0]);
            let text = || text(FILE, &format!("HALF_ATTENTION(k, {own}, {depth}, {})", self.mode));
            let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: 128 };
            return launch(device, which, text, shape, self.args(columns, 1)?);
        }
        // a thread has 4 or 8 columns; more are other blocks'
        let each = if columns <= 64 { 1 } else { 2 };
        let chunks = up(columns, 64 * each);
        let blocks = s[0] * s[1] * up(s[2], 64) * chunks;
        let which = Which(self.mode, 0, [d as u8, each as u8, 0, 0]);
        let text = || text(FILE, &format!("ATTENTION(k, {own}, {each}, {})", self.mode));
        let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: 256 };
        launch(device, which, text, shape, self.args(columns, chunks)?)
    }
}
fn forward(a: &args::FusedAttention, [out, lse]: [&Tensor; 2]) -> Result<()> {
    let own = floats("_fused_attention", a.query.dtype())?;
    let (q, k, v) = (by_rows(a.query)?, by_rows(a.key)?, by_rows(a.value)?);
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
    };
    let d = ordinal(q.device())?;
    let shape = Shape { blocks: up(lse.numel(), 4).clamp(1, 1 << 20) as u32, threads: 128 };
    let which = Which("attention_delta", 0, [q.dtype() as u8, 0, 0, 0]);
    let text = || text(FILE, &format!("ATTENTION_DELTA(k, {own})"));
    launch(d, which, text, shape, sums.args(0, 1)?)?;
    let (lse, delta, causal) = (Some(&lse), Some(&delta), a.is_causal);
    let all = [
        ("OF_QUERY", [&q, &k], Some([&g, &v]), &k, gq),
        ("OF_VALUE", [&k, &q], None, &g, gv),
        ("OF_KEY", [&k, &q], Some([&v, &g]), &q, gk),
    ];
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
        }
        .run(own, out)?;
    }
    Ok(())
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::FUSED_ATTENTION_KERNEL.register(Key::Cuda, forward);
    rows::FUSED_ATTENTION_BACKWARD_KERNEL.register(Key::Cuda, backward);
}
