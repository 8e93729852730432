//! Recurrent layers, step by step.

use super::super::build::{Builder, Call, Item, op};
use super::product::linear;
use super::view::{permuted, sliced};
use flambeau_core::Result;

/// Slices along the first dimension, without it.
fn steps(b: &mut Builder, x: &Item) -> Result<Vec<Item>> {
    let n = x.size(0)?;
    let mut parts = Vec::new();
    for i in 0..n {
        parts.push(sliced(b, x, 0, i, i + 1)?);
    }
    let mut out = Vec::new();
    for p in &parts {
        out.push(op!(b, "squeeze.dims", p, vec![0]));
    }
    Ok(out)
}
fn parts(b: &mut Builder, x: &Item, count: i64, d: i64) -> Result<Vec<Item>> {
    let each = x.size(d)? / count;
    let all = op!(b, "split_with_sizes.default", x, vec![each; count as usize], d);
    (0..count as usize).map(|i| b.part(&all, i)).collect()
}
/// One direction of a layer: the results of all steps, and the states at the end.
fn direction(
    b: &mut Builder,
    x: &Item,
    states: &[Item],
    w: &[Item],
    lstm: bool,
    backwards: bool,
) -> Result<(Item, Vec<Item>)> {
    // the last of an odd number makes the state narrower
    let (w, narrow) = if w.len() % 2 == 1 { w.split_at(w.len() - 1) } else { (w, &w[..0]) };
    let [wi, wh, biases @ ..] = w else { return Err(flambeau_core::Error::value("a layer without weights")) };
    let (bi, bh) = (biases.first(), biases.get(1));
    let mut now = Vec::new();
    for s in states {
        now.push(op!(b, "unsqueeze.default", s, 0));
    }
    let mut given = linear(b, x, wi, bi)?;
    if backwards {
        given = op!(b, "flip.default", &given, vec![0]);
    }
    let mut all = Vec::new();
    for step in steps(b, &given)? {
        let own = linear(b, &now[0], wh, bh)?;
        if lstm {
            let gates = op!(b, "add.Tensor", &own, &step);
            let (mut hidden, cell) = lstm_step(b, &gates, &now[1], 2)?;
            if let [w] = narrow {
                hidden = linear(b, &hidden, w, None)?;
            }
            now = vec![hidden, cell];
        } else {
            let gi = parts(b, &step, 3, 1)?;
            let gh = parts(b, &own, 3, 2)?;
            let r = op!(b, "add.Tensor", &gh[0], &gi[0]);
            let r = op!(b, "sigmoid.default", &r);
            let z = op!(b, "add.Tensor", &gh[1], &gi[1]);
            let z = op!(b, "sigmoid.default", &z);
            let n = op!(b, "mul.Tensor", &gh[2], &r);
            let n = op!(b, "add.Tensor", &gi[2], &n);
            let n = op!(b, "tanh.default", &n);
            let less = op!(b, "sub.Tensor", &now[0], &n);
            let part = op!(b, "mul.Tensor", &less, &z);
            now = vec![op!(b, "add.Tensor", &part, &n)];
        }
        all.push(now[0].clone());
    }
    if backwards {
        all.reverse();
    }
    let out = op!(b, "cat.default", all);
    let mut last = Vec::new();
    for s in &now {
        last.push(op!(b, "squeeze.dims", s, vec![0]));
    }
    Ok((out, last))
}
/// The next hidden and cell state from the gates.
fn lstm_step(b: &mut Builder, gates: &Item, cell: &Item, d: i64) -> Result<(Item, Item)> {
    let gates = parts(b, gates, 4, d)?;
    let i = op!(b, "sigmoid.default", &gates[0]);
    let f = op!(b, "sigmoid.default", &gates[1]);
    let g = op!(b, "tanh.default", &gates[2]);
    let o = op!(b, "sigmoid.default", &gates[3]);
    let kept = op!(b, "mul.Tensor", &f, cell);
    let new = op!(b, "mul.Tensor", &i, &g);
    let cell = op!(b, "add.Tensor", &kept, &new);
    let t = op!(b, "tanh.default", &cell);
    Ok((op!(b, "mul.Tensor", &o, &t), cell))
}
/// One step of a layer.
fn lstm_cell(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let (x, states) = (c.need(0, "input")?, c.need(1, "hx")?.items());
    let [hidden, cell] = &states[..] else { return Ok(None) };
    let (bi, bh) = (c.get(4, "b_ih"), c.get(5, "b_hh"));
    let own = linear(b, hidden, &c.need(3, "w_hh")?, bh.as_ref())?;
    let given = linear(b, &x, &c.need(2, "w_ih")?, bi.as_ref())?;
    let gates = op!(b, "add.Tensor", &own, &given);
    let (hidden, cell) = lstm_step(b, &gates, cell, 1)?;
    Ok(Some(vec![hidden, cell].into()))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let lstm = match c.name.as_str() {
        "lstm.input" => true,
        "gru.input" => false,
        "lstm_cell.default" => return lstm_cell(b, c),
        _ => return Ok(None),
    };
    let x = c.need(0, "input")?;
    let hx = c.need(1, "hx")?;
    let (weights, biased) = (c.need(2, "params")?.items(), c.flag(3, "has_biases", true));
    let (layers, dropout, train) =
        (c.int(4, "num_layers", 1), c.float(5, "dropout", 0.0), c.flag(6, "train", false));
    let (both, first) = (c.flag(7, "bidirectional", false), c.flag(8, "batch_first", false));
    if train && dropout > 0.0 {
        return Ok(None);
    }
    let mut states = Vec::new();
    for s in if lstm { hx.items() } else { vec![hx] } {
        states.push(steps(b, &s)?);
    }
    let mut now = if first { permuted(b, &x, vec![1, 0, 2])? } else { x };
    let (mut each, sides) = (if biased { 4 } else { 2 }, if both { 2 } else { 1 });
    each += usize::from(lstm && weights.len() == layers.max(0) as usize * sides * (each + 1));
    let mut last: Vec<Vec<Item>> = vec![Vec::new(); states.len()];
    for layer in 0..layers as usize {
        let mut outs = Vec::new();
        for side in 0..sides {
            let k = layer * sides + side;
            let own: Vec<Item> = states.iter().filter_map(|s| s.get(k).cloned()).collect();
            let Some(w) = weights.get(k * each..(k + 1) * each) else { return Ok(None) };
            if own.len() != states.len() {
                return Ok(None);
            }
            let (out, end) = direction(b, &now, &own, w, lstm, side == 1)?;
            outs.push(out);
            for (l, e) in last.iter_mut().zip(end) {
                l.push(e);
            }
        }
        now = match &outs[..] {
            [one] => one.clone(),
            _ => op!(b, "cat.default", outs, 2),
        };
    }
    if first {
        now = permuted(b, &now, vec![1, 0, 2])?;
    }
    let mut results = vec![now];
    for l in last {
        let mut sizes = vec![l.len() as i64];
        sizes.extend(l[0].sizes()?);
        let joined = op!(b, "cat.default", l);
        results.push(op!(b, "view.default", &joined, sizes));
    }
    Ok(Some(results.into()))
}
