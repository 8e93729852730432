//! Single steps of recurrent networks.

use flambeau_core::{Result, Scalar, Tensor, bail, ensure, ops as core};

const ONE: Scalar = Scalar::Int(1);

fn check_input(input: &Tensor, w_ih: &Tensor) -> Result<()> {
    ensure!(input.dim() == 2, Runtime, "Expected 2D input (batch x feature), but got {}D input", input.dim());
    ensure!(w_ih.dim() == 2, Runtime, "Expected the input weights as a matrix, but got {}D", w_ih.dim());
    let (got, want) = (input.sizes()[1], w_ih.sizes()[1]);
    ensure!(got == want, Runtime, "input has inconsistent input_size: got {got} expected {want}");
    Ok(())
}
fn check_hidden(input: &Tensor, hx: &Tensor, size: i64, which: usize) -> Result<()> {
    ensure!(
        hx.dim() == 2,
        Runtime,
        "Expected 2D hidden{which} (batch x hidden_size), but got {}D tensor",
        hx.dim()
    );
    let (batch, rows) = (input.sizes()[0], hx.sizes()[0]);
    ensure!(batch == rows, Runtime, "Input batch size {batch} doesn't match hidden{which} batch size {rows}");
    let got = hx.sizes()[1];
    ensure!(got == size, Runtime, "hidden{which} has inconsistent hidden_size: got {got}, expected {size}");
    Ok(())
}
/// The gates of input and hidden state, after the checks.
#[allow(clippy::too_many_arguments)]
fn gates(
    input: &Tensor,
    hx: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    check_input(input, w_ih)?;
    ensure!(w_hh.dim() == 2, Runtime, "Expected the hidden weights as a matrix, but got {}D", w_hh.dim());
    check_hidden(input, hx, w_hh.sizes()[1], 0)?;
    Ok((crate::ops::linear(input, w_ih, b_ih)?, crate::ops::linear(hx, w_hh, b_hh)?))
}
/// `n` equal parts of the columns.
fn parts<const N: usize>(t: &Tensor) -> Result<[Tensor; N]> {
    let columns = t.sizes()[1];
    ensure!(
        columns % N as i64 == 0,
        Runtime,
        "the weights must hold {N} gates of equal size one below the other, but have {columns} rows"
    );
    let each = columns / N as i64;
    let mut all = Vec::with_capacity(N);
    for i in 0..N as i64 {
        all.push(core::narrow(t, 1, i * each, each)?);
    }
    match all.try_into() {
        Ok(a) => Ok(a),
        Err(_) => bail!(Runtime, "the weights must hold {N} gates"),
    }
}

macro_rules! plain_cells {
    ($($name:ident $f:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub fn $name(
            input: &Tensor,
            hx: &Tensor,
            w_ih: &Tensor,
            w_hh: &Tensor,
            b_ih: Option<&Tensor>,
            b_hh: Option<&Tensor>,
        ) -> Result<Tensor> {
            let (i, h) = gates(input, hx, w_ih, w_hh, b_ih, b_hh)?;
            core::$f(&core::add(&h, &i, ONE)?)
        }
    )*};
}
plain_cells! {
    rnn_tanh_cell tanh;
    rnn_relu_cell relu;
}
/// `gru_cell`
pub fn gru_cell(
    input: &Tensor,
    hx: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<Tensor> {
    let (i, h) = gates(input, hx, w_ih, w_hh, b_ih, b_hh)?;
    gru_step(&i, &h, hx)
}
/// The next hidden state from the gates of input and hidden state.
pub(crate) fn gru_step(i: &Tensor, h: &Tensor, hx: &Tensor) -> Result<Tensor> {
    let ([ir, iz, inew], [hr, hz, hnew]) = (parts::<3>(i)?, parts::<3>(h)?);
    let reset = core::sigmoid(&core::add(&hr, &ir, ONE)?)?;
    let update = core::sigmoid(&core::add(&hz, &iz, ONE)?)?;
    let new = core::tanh(&core::add(&inew, &core::mul(&hnew, &reset)?, ONE)?)?;
    core::add(&core::mul(&core::sub(hx, &new, ONE)?, &update)?, &new, ONE)
}
/// `lstm_cell`
pub fn lstm_cell(
    input: &Tensor,
    hx: &[Tensor],
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let [hidden, cell] = hx else {
        bail!(Runtime, "lstm_cell expects two hidden states");
    };
    let (i, h) = gates(input, hidden, w_ih, w_hh, b_ih, b_hh)?;
    check_hidden(input, cell, w_hh.sizes()[1], 1)?;
    lstm_step(&core::add(&h, &i, ONE)?, cell)
}
/// The next hidden and cell state from the gates.
pub(crate) fn lstm_step(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
    let [input_gate, forget, new, output] = parts::<4>(gates)?;
    let kept = core::mul(&core::sigmoid(&forget)?, cell)?;
    let added = core::mul(&core::sigmoid(&input_gate)?, &core::tanh(&new)?)?;
    let cell = core::add(&kept, &added, ONE)?;
    let hidden = core::mul(&core::sigmoid(&output)?, &core::tanh(&cell)?)?;
    Ok((hidden, cell))
}
