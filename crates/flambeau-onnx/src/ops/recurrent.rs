//! Recurrent networks and their cells.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.lstm", |b, c| recurrent(b, c, Kind::Lstm)),
    ("aten.gru", |b, c| recurrent(b, c, Kind::Gru)),
    ("aten.rnn_tanh", |b, c| recurrent(b, c, Kind::Rnn("Tanh"))),
    ("aten.rnn_relu", |b, c| recurrent(b, c, Kind::Rnn("Relu"))),
    ("aten.lstm_cell", lstm_cell),
    ("aten.gru_cell", gru_cell),
    ("aten.rnn_tanh_cell", |b, c| rnn_cell(b, c, "Tanh")),
    ("aten.rnn_relu_cell", |b, c| rnn_cell(b, c, "Relu")),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lstm,
    Gru,
    Rnn(&'static str),
}
impl Kind {
    fn op(self) -> &'static str {
        match self {
            Kind::Lstm => "LSTM",
            Kind::Gru => "GRU",
            Kind::Rnn(_) => "RNN",
        }
    }
    /// ONNX's order of gates in PyTorch's numbers.
    fn gates(self) -> &'static [i64] {
        match self {
            Kind::Lstm => &[0, 3, 1, 2],
            Kind::Gru => &[1, 0, 2],
            Kind::Rnn(_) => &[0],
        }
    }
}
/// Rows of a weight in ONNX's order of gates, with a first dimension of one direction.
fn ordered(b: &mut Builder, w: &Var, kind: Kind, hidden: i64) -> Result<Var> {
    let gates = kind.gates();
    let w = if gates.len() == 1 {
        w.clone()
    } else {
        let parts = b.split(w, &vec![Dim::Int(hidden); gates.len()], 0)?;
        let parts: Vec<Var> = gates.iter().map(|g| parts[*g as usize].clone()).collect();
        b.concat(&parts, 0)?
    };
    b.unsqueeze(&w, &[0])
}
fn recurrent(b: &mut Builder, c: &Call, kind: Kind) -> Result<Arg> {
    if c.overload() == "data" {
        return Err(Error::missing("recurrent networks over packed sequences as ONNX"));
    }
    let x = c.tensor(0, "input")?;
    let states: Vec<Var> = match kind {
        Kind::Lstm => c.tensors(1, "hx")?,
        _ => vec![c.tensor(1, "hx")?],
    };
    let params = c.tensors(2, "params")?;
    let biases = c.bool_or(3, "has_biases", true)?;
    let layers = c.int(4, "num_layers")?;
    if c.float_or(5, "dropout", 0.0)? > 0.0 && c.bool_or(6, "train", false)? {
        return Err(Error::missing("dropout between layers of recurrent networks in training as ONNX"));
    }
    let dirs = if c.bool_or(7, "bidirectional", false)? { 2 } else { 1 };
    let batch_first = c.bool_or(8, "batch_first", false)?;
    let per = if biases { 4 } else { 2 };
    if params.len() as i64 != per * layers * dirs {
        return Err(Error::missing("LSTM with projections as ONNX: its operator has none"));
    }
    let alone = x.rank() == 2;
    let mut y = if alone {
        b.unsqueeze(&x, &[1])?
    } else if batch_first {
        b.transpose(&x, &[1, 0, 2])?
    } else {
        x.clone()
    };
    let states: Vec<Var> = states
        .iter()
        .map(|s| if s.rank() == 2 { b.unsqueeze(s, &[1]) } else { Ok(s.clone()) })
        .collect::<Result<_>>()?;
    let d = x.dtype();
    let mut finals: Vec<Vec<Var>> = vec![Vec::new(); states.len()];
    for layer in 0..layers {
        let own = |dir: i64, k: i64| params[((layer * dirs + dir) * per + k) as usize].clone();
        let hidden = own(0, 1).shape[1]
            .ok_or_else(|| Error::missing("recurrent weights whose sizes are not known"))?;
        let joined = |b: &mut Builder, k: i64| -> Result<Var> {
            let all: Vec<Var> =
                (0..dirs).map(|dir| ordered(b, &own(dir, k), kind, hidden)).collect::<Result<_>>()?;
            b.concat(&all, 0)
        };
        let (w, r) = (joined(b, 0)?, joined(b, 1)?);
        let bias = if biases {
            let (bi, bh) = (joined(b, 2)?, joined(b, 3)?);
            b.concat(&[bi, bh], 1)?
        } else {
            Var::none()
        };
        let mut begin = Vec::new();
        for s in &states {
            begin.push(if layers == 1 {
                s.clone()
            } else {
                b.narrow(s, 0, layer * dirs, (layer + 1) * dirs)?
            });
        }
        let mut inputs = vec![y.clone(), w, r, bias, Var::none()];
        inputs.extend(begin);
        let mut attr = vec![
            Attribute::int("hidden_size", hidden),
            Attribute::text("direction", if dirs == 2 { "bidirectional" } else { "forward" }),
        ];
        match kind {
            Kind::Gru => attr.push(Attribute::int("linear_before_reset", 1)),
            Kind::Rnn(f) => attr.push(Attribute::texts("activations", &vec![f; dirs as usize])),
            Kind::Lstm => {}
        }
        let (seq, batch) = (y.shape[0], y.shape[1]);
        let state = (d, vec![Some(dirs), batch, Some(hidden)]);
        let mut outputs = vec![(d, vec![seq, Some(dirs), batch, Some(hidden)]), state.clone()];
        if kind == Kind::Lstm {
            outputs.push(state);
        }
        let refs: Vec<&Var> = inputs.iter().collect();
        let made = b.nodes(kind.op(), &refs, attr, &outputs)?;
        for (l, v) in finals.iter_mut().zip(&made[1..]) {
            l.push(v.clone());
        }
        // [time, directions, batch, hidden]: the directions side by side
        y = if dirs == 1 {
            b.squeeze(&made[0], &[1])?
        } else {
            let t = b.transpose(&made[0], &[0, 2, 1, 3])?;
            let (seq, batch) = (b.size(&y, 0)?, b.size(&y, 1)?);
            b.reshape(&t, &[seq, batch, Dim::Int(dirs * hidden)])?
        };
    }
    let mut out = vec![if alone {
        b.squeeze(&y, &[1])?
    } else if batch_first {
        b.transpose(&y, &[1, 0, 2])?
    } else {
        y
    }];
    for l in finals {
        let s = b.concat(&l, 0)?;
        out.push(if alone { b.squeeze(&s, &[1])? } else { s });
    }
    Ok(out.into())
}
/// `x W^T + b`
fn affine(b: &mut Builder, x: &Var, w: &Var, bias: Option<Var>) -> Result<Var> {
    let w = b.transpose(w, &[1, 0])?;
    let p = b.matmul(x, &w)?;
    match bias {
        Some(v) => b.add(&p, &v),
        None => Ok(p),
    }
}
fn parts(b: &mut Builder, x: &Var, n: i64) -> Result<Vec<Var>> {
    let d = x.rank() as i64 - 1;
    let whole = b.size(x, d)?;
    let one = b.dim_div(&whole, &Dim::Int(n))?;
    b.split(x, &vec![one; n as usize], d)
}
fn lstm_cell(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, hx) = (c.tensor(0, "input")?, c.tensors(1, "hx")?);
    let (wi, wh) = (c.tensor(2, "w_ih")?, c.tensor(3, "w_hh")?);
    let (p, q) =
        (affine(b, &x, &wi, c.optional(4, "b_ih")?)?, affine(b, &hx[0], &wh, c.optional(5, "b_hh")?)?);
    let all = b.add(&p, &q)?;
    let g = parts(b, &all, 4)?;
    let (i, f, o) = (b.unary("Sigmoid", &g[0])?, b.unary("Sigmoid", &g[1])?, b.unary("Sigmoid", &g[3])?);
    let n = b.unary("Tanh", &g[2])?;
    let (kept, new) = (b.mul(&f, &hx[1])?, b.mul(&i, &n)?);
    let cell = b.add(&kept, &new)?;
    let t = b.unary("Tanh", &cell)?;
    Ok(vec![b.mul(&o, &t)?, cell].into())
}
fn gru_cell(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, h) = (c.tensor(0, "input")?, c.tensor(1, "hx")?);
    let (wi, wh) = (c.tensor(2, "w_ih")?, c.tensor(3, "w_hh")?);
    let (p, q) = (affine(b, &x, &wi, c.optional(4, "b_ih")?)?, affine(b, &h, &wh, c.optional(5, "b_hh")?)?);
    let (p, q) = (parts(b, &p, 3)?, parts(b, &q, 3)?);
    let (r, z) = (b.add(&p[0], &q[0])?, b.add(&p[1], &q[1])?);
    let (r, z) = (b.unary("Sigmoid", &r)?, b.unary("Sigmoid", &z)?);
    let inner = b.mul(&r, &q[2])?;
    let n = b.add(&p[2], &inner)?;
    let n = b.unary("Tanh", &n)?;
    let gap = b.sub(&h, &n)?;
    let part = b.mul(&gap, &z)?;
    Ok(b.add(&n, &part)?.into())
}
fn rnn_cell(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let (x, h) = (c.tensor(0, "input")?, c.tensor(1, "hx")?);
    let (wi, wh) = (c.tensor(2, "w_ih")?, c.tensor(3, "w_hh")?);
    let (p, q) = (affine(b, &x, &wi, c.optional(4, "b_ih")?)?, affine(b, &h, &wh, c.optional(5, "b_hh")?)?);
    let s = b.add(&p, &q)?;
    Ok(b.unary(op, &s)?.into())
}
