//! Recurrent networks: stacked layers in one or both directions, over batches and over packed rows.

pub(crate) mod layer;
mod pack;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
pub use layer::{
    recurrent_layer_backward_cpu, recurrent_layer_backward_shape, recurrent_layer_cpu, recurrent_layer_shape,
};
pub use pack::{pack_padded_rows, pad_packed_rows, pad_sequence};

use flambeau_core::dispatch::autocast::{self, DeviceType, without};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Device, Result, Tensor, Value, bail, ensure, ops as core};
use flambeau_cpu::rnn::Cell;
use layer::{Layer, mode_of};

/// What all layers share.
struct Net<'a> {
    cell: Cell,
    params: &'a [Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
}

/// The elements of an int64 vector on the CPU.
fn int_vector(t: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        t.dim() == 1 && t.device() == Device::Cpu && t.dtype() == DType::I64,
        Runtime,
        "'lengths' argument should be a 1D CPU int64 tensor, but got {}D {} {} tensor",
        t.dim(),
        t.device(),
        t.dtype().scalar_type_name()
    );
    t.try_to_vec::<i64>()
}

/// Results of all layers.
struct Done {
    output: Tensor,
    hidden: Tensor,
    cells: Option<Tensor>,
}

impl Net<'_> {
    /// How many tensors one direction of a layer has.
    fn per_direction(&self) -> Result<usize> {
        ensure!(self.num_layers > 0, Runtime, "num_layers must be greater than zero");
        let most = self.params.len() as i64;
        // more layers than parameters would be layers without any
        ensure!(self.num_layers <= most, Runtime, "Expected more hidden states in stacked_rnn");
        let directions = self.num_layers as usize * if self.bidirectional { 2 } else { 1 };
        let least = if self.has_biases { 4 } else { 2 };
        let n = self.params.len() / directions;
        let fits = self.params.len() == n * directions
            && (n == least || (self.cell == Cell::Lstm && n == least + 1));
        ensure!(fits, Runtime, "got an incorrect number of RNN parameters");
        Ok(n)
    }
    /// Runs all layers over packed rows `data` `[rows, features]`.
    fn rows(&self, data: &Tensor, steps: &[i64], hx: &Tensor, cx: Option<&Tensor>) -> Result<Done> {
        let s = autocast::state();
        // PyTorch's has no rule on the CPU: it is made of products, which have one, and of sums in the state's dtype
        if self.cell == Cell::Gru && s.is_enabled(DeviceType::Cpu) && data.device() == Device::Cpu {
            let rounded = |t: &Tensor| {
                let low =
                    autocast::cast(&Value::Tensor(t.clone()), s.dtype(DeviceType::Cpu), DeviceType::Cpu)?;
                Tensor::from_value(&autocast::cast(&low, hx.dtype(), DeviceType::Cpu)?)
            };
            let params = self.params.iter().map(rounded).collect::<Result<Vec<_>>>()?;
            let data = rounded(data)?;
            return without(DeviceType::Cpu, || Net { params: &params, ..*self }.rows(&data, steps, hx, cx));
        }
        let each = self.per_direction()?;
        let directions = if self.bidirectional { 2 } else { 1 };
        let states = self.num_layers * directions;
        for h in [Some(hx), cx].into_iter().flatten() {
            ensure!(
                h.dim() == 3 && h.sizes()[0] == states,
                Runtime,
                "Expected more hidden states in stacked_rnn"
            );
        }
        let last = last_rows(steps)?;
        let (mut hidden, mut cells) = (Vec::new(), Vec::new());
        let mut x = data.clone();
        for l in 0..self.num_layers {
            let mut sides = Vec::new();
            for d in 0..directions {
                let i = l * directions + d;
                let w = &self.params[i as usize * each..][..each];
                let bias = |k: usize| w.get(k).filter(|_| self.has_biases);
                let (h, c) = (core::select(hx, 0, i)?, cx.map(|c| core::select(c, 0, i)).transpose()?);
                let one = Layer {
                    input: &x,
                    hx: &h,
                    cx: c.as_ref(),
                    w_ih: &w[0],
                    w_hh: &w[1],
                    b_ih: bias(2),
                    b_hh: bias(3),
                    w_hr: w.get(if self.has_biases { 4 } else { 2 }),
                    batch_sizes: steps,
                    mode: mode_of(self.cell),
                    reverse: d == 1,
                };
                let (y, c) = layer::run(&one)?;
                hidden.push(last.of(&y, d == 1)?);
                if let Some(c) = c {
                    cells.push(last.of(&c, d == 1)?);
                }
                sides.push(y);
            }
            x = if sides.len() == 1 { sides.remove(0) } else { core::cat(&sides, -1)? };
            if self.dropout != 0.0 && self.train && l + 1 < self.num_layers {
                x = super::dropout_train(&x, self.dropout, true)?;
            }
        }
        let cells = if cells.is_empty() { None } else { Some(core::stack(&cells, 0)?) };
        Ok(Done { output: x, hidden: core::stack(&hidden, 0)?, cells })
    }
    /// Runs all layers over `[steps, batch, features]`, or batch first.
    fn batch(&self, input: &Tensor, hx: &Tensor, cx: Option<&Tensor>, batch_first: bool) -> Result<Done> {
        ensure!(input.dim() == 3, Runtime, "input must have 3 dimensions, got {}", input.dim());
        let x = if batch_first { core::transpose(input, 0, 1)? } else { input.clone() };
        let (steps, batch) = (x.sizes()[0], x.sizes()[1]);
        ensure!(steps > 0, Runtime, "Expected sequence length to be larger than 0 in RNN");
        let rows = core::reshape(&x, &[steps * batch, x.sizes()[2]])?;
        let sizes = geometry::filled(batch, steps)?;
        let mut done = self.rows(&rows, &sizes, hx, cx)?;
        let y = core::reshape(&done.output, &[steps, batch, done.output.sizes()[1]])?;
        done.output = if batch_first { core::transpose(&y, 0, 1)? } else { y };
        Ok(done)
    }
    /// Runs all layers over a packed batch.
    fn packed(&self, data: &Tensor, sizes: &Tensor, hx: &Tensor, cx: Option<&Tensor>) -> Result<Done> {
        let steps = int_vector(sizes)?;
        ensure!(!steps.is_empty(), Runtime, "batch_sizes can not be empty");
        ensure!(steps.iter().all(|n| *n >= 0), Runtime, "batch_sizes can not be negative");
        ensure!(data.dim() == 2, Runtime, "input must have 2 dimensions, got {}", data.dim());
        // sequences longer than what was packed have steps without rows
        let mut left = data.sizes()[0];
        let steps: Vec<i64> = steps
            .into_iter()
            .take_while(|n| {
                left -= n;
                left >= 0
            })
            .collect();
        let h = |t: &Tensor| core::narrow(t, 1, 0, steps.first().copied().unwrap_or(0));
        match cx {
            Some(c) => self.rows(data, &steps, &h(hx)?, Some(&h(c)?)),
            None => self.rows(data, &steps, &h(hx)?, None),
        }
    }
}

/// Where the last row of each sequence lies.
struct Last {
    batch: i64,
    rows: i64,
    /// Given where the sequences end at different steps.
    index: Option<Tensor>,
}
fn last_rows(steps: &[i64]) -> Result<Last> {
    let batch = steps.first().copied().unwrap_or(0);
    let rows = steps.iter().sum();
    let mut index = None;
    if steps.last().is_some_and(|n| *n != batch) {
        let mut ends = geometry::filled(0, batch.max(0))?;
        let mut start = 0;
        for n in steps {
            let own = usize::try_from(*n).ok().and_then(|n| ends.get_mut(..n));
            let Some(own) = own else { bail!(Runtime, "batch_sizes must not grow, and not be negative") };
            own.iter_mut().enumerate().for_each(|(r, e)| *e = start + r as i64);
            start += n;
        }
        index = Some(Tensor::from_vec_raw(ends, &[batch])?);
    }
    Ok(Last { batch, rows, index })
}
impl Last {
    fn of(&self, all: &Tensor, reverse: bool) -> Result<Tensor> {
        match &self.index {
            _ if reverse => core::narrow(all, 0, 0, self.batch),
            Some(i) => core::index_select(all, 0, &super::operands::on(i.clone(), all.device())?),
            None => core::narrow(all, 0, self.rows - self.batch, self.batch),
        }
    }
}

fn two(hx: &[Tensor]) -> Result<[&Tensor; 2]> {
    match hx {
        [h, c] => Ok([h, c]),
        _ => bail!(Runtime, "lstm expects two hidden states"),
    }
}
fn three(d: Done) -> Result<(Tensor, Tensor, Tensor)> {
    match d.cells {
        Some(c) => Ok((d.output, d.hidden, c)),
        None => bail!(Runtime, "lstm expects cell states"),
    }
}

/// `lstm.input`
pub fn lstm(
    input: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let net = Net { cell: Cell::Lstm, params, has_biases, num_layers, dropout, train, bidirectional };
    let [h, c] = two(hx)?;
    three(net.batch(input, h, Some(c), batch_first)?)
}
/// `lstm.data`
pub fn lstm_packed(
    data: &Tensor,
    batch_sizes: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let net = Net { cell: Cell::Lstm, params, has_biases, num_layers, dropout, train, bidirectional };
    let [h, c] = two(hx)?;
    three(net.packed(data, batch_sizes, h, Some(c))?)
}

macro_rules! one_state {
    ($($name:ident $packed:ident $cell:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), ".input`")]
        pub fn $name(
            input: &Tensor,
            hx: &Tensor,
            params: &[Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
            batch_first: bool,
        ) -> Result<(Tensor, Tensor)> {
            let net = Net { cell: Cell::$cell, params, has_biases, num_layers, dropout, train, bidirectional };
            net.batch(input, hx, None, batch_first).map(|d| (d.output, d.hidden))
        }
        #[doc = concat!("`", stringify!($name), ".data`")]
        pub fn $packed(
            data: &Tensor,
            batch_sizes: &Tensor,
            hx: &Tensor,
            params: &[Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
        ) -> Result<(Tensor, Tensor)> {
            let net = Net { cell: Cell::$cell, params, has_biases, num_layers, dropout, train, bidirectional };
            net.packed(data, batch_sizes, hx, None).map(|d| (d.output, d.hidden))
        }
    )*};
}
one_state! {
    gru gru_packed Gru;
    rnn_tanh rnn_tanh_packed Tanh;
    rnn_relu rnn_relu_packed Relu;
}
