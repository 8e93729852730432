//! Connectionist temporal classification and its gradient.

use super::dense::{address_of, cast, dense, power, room, text};
use super::{Args, Which, address, element, launch};
use crate::device::ordinal;
use crate::driver::Shape;
use crate::fault;
use flambeau_core::backend::transfer::to_device;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor};
use flambeau_nn_functional::generated::{args, loss as rows};

const FILE: &str = "loss/ctc.cuh";

/// What the kernels share.
struct Ctc {
    p: Tensor,
    targets: Tensor,
    stride: i64,
    lists: [Tensor; 3],
    blank: i64,
    wide: i64,
    own: &'static str,
}
impl Ctc {
    fn new(
        p: &Tensor,
        targets: &Tensor,
        input: &[i64],
        lengths: &[i64],
        blank: i64,
        label: &str,
    ) -> Result<Ctc> {
        let own = element(p.dtype()).filter(|_| matches!(p.dtype(), DType::F32 | DType::F64));
        let own = own.ok_or_else(|| Error::not_implemented_for(label, p.dtype()))?;
        // PyTorch counts where a row of concatenated targets begins in elements of memory, and its elements by the stride
        let strided = targets.dim() == 1 && targets.strides()[0] > 1 && targets.numel() > 0;
        let (targets, stride) = match strided {
            true => {
                let stride = targets.strides()[0];
                let memory = (targets.numel() - 1) * stride + 1;
                (targets.view_raw([memory], [1], targets.storage_offset())?, stride)
            }
            false => (targets.clone(), 1),
        };
        let width = if targets.dim() == 2 { Some(targets.sizes()[1]) } else { None };
        let mut next = 0;
        let firsts = lengths.iter().enumerate().map(|(i, n)| {
            let first = width.map_or(next, |w| w * i as i64);
            next += n;
            first
        });
        let list = |v: Vec<i64>| {
            let n = v.len() as i64;
            to_device(Tensor::from_vec_raw(v, &[n])?, p.device())
        };
        let lists = [list(firsts.collect())?, list(input.to_vec())?, list(lengths.to_vec())?];
        let wide = 2 * lengths.iter().copied().max().unwrap_or(0) + 1;
        Ok(Ctc { p: dense(p)?, targets: cast(&targets, DType::I64)?, stride, lists, blank, wide, own })
    }
    fn run(
        &self,
        f: &'static str,
        alpha: &Tensor,
        loss: &Tensor,
        back: Option<[&Tensor; 4]>,
        zero: bool,
    ) -> Result<()> {
        let d = ordinal(self.p.device())?;
        let [steps, n, c] = [0, 1, 2].map(|k| self.p.sizes()[k]);
        let [firsts, times, lengths] = &self.lists;
        let list = Args::new().word(address(&self.p)?).word(address(&self.targets)?).word(address(times)?);
        let list =
            list.word(address(lengths)?).word(address(firsts)?).word(address(alpha)?).word(address(loss)?);
        let list = [0, 1, 2, 3]
            .iter()
            .try_fold(list, |l, i| Ok::<_, Error>(l.word(address_of(back.map(|b| b[*i]))?)))?;
        let list =
            list.int(steps).int(n).int(c).int(self.wide).int(self.stride).int(self.blank).int(zero.into());
        let number = fault::number("ctc_loss: target {index} is out of bounds for {size} classes");
        let list = list.word(fault::place(d)?).word(number);
        let (blocks, most) = if f == "ctc_gradient" { (n * steps, self.wide.max(c)) } else { (n, self.wide) };
        let shape = Shape { blocks: blocks.clamp(1, 1 << 20) as u32, threads: power(most, 32, 256) as u32 };
        let text = || text(FILE, &format!("CTC(k, {f}, {})", self.own));
        launch(d, Which(f, 0, [self.p.dtype() as u8, 0, 0, 0]), text, shape, list)
    }
}
fn forward(a: &args::FusedCtcLoss, [loss, alpha]: [&Tensor; 2]) -> Result<()> {
    let (input, lengths) = (a.input_lengths, a.target_lengths);
    let ctc = Ctc::new(a.log_probs, a.targets, input, lengths, a.blank, "ctc_loss_cpu")?;
    ctc.run("ctc_forward", alpha, loss, None, a.zero_infinity)
}
fn backward(a: &args::FusedCtcLossBackward, out: &Tensor) -> Result<()> {
    let (input, lengths) = (a.input_lengths, a.target_lengths);
    let ctc = Ctc::new(a.log_probs, a.targets, input, lengths, a.blank, "ctc_loss_backward_cpu")?;
    let (g, loss, alpha) = (dense(a.grad)?, dense(a.neg_log_likelihood)?, dense(a.log_alpha)?);
    let n = a.log_probs.sizes()[1];
    let both = room(alpha.numel(), alpha.dtype(), out)?;
    let beta = room(2 * n * ctc.wide, alpha.dtype(), out)?;
    let back = Some([&g, out, &both, &beta]);
    ctc.run("ctc_backward", &alpha, &loss, back, a.zero_infinity)?;
    ctc.run("ctc_gradient", &alpha, &loss, back, a.zero_infinity)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::FUSED_CTC_LOSS_KERNEL.register(Key::Cuda, forward);
    rows::FUSED_CTC_LOSS_BACKWARD_KERNEL.register(Key::Cuda, backward);
}
