//! Branches and loops of captured programs.

use crate::exporting::floats;
use flambeau_autograd::control_flow::{ScanOptions, cond, map, try_scan, try_while_loop};
use flambeau_core::{Result, Tensor, Value, functions as torch, ops};
use flambeau_export::{
    Dim, ExportOptions, ExportedProgram, default_decompositions, load, save, try_export_with,
};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_test_support::python::{output, python_with};
use std::process::Command;

#[derive(Debug, Module)]
struct Flow {
    left: nn::Linear,
    right: nn::Linear,
}
impl Flow {
    fn run(&self, x: &Tensor) -> Result<Vec<Tensor>> {
        let y =
            cond(&x.sum().gt(0.0), |x: &Tensor| self.left.call(x), |x: &Tensor| self.right.call(x).tanh(), x);
        // what the loop uses beside what it carries
        let step = y.mean();
        let start = [Tensor::from_slice(&[0i64], ()), x.clone()];
        let looped =
            try_while_loop(|c| Ok(c[0].lt(3)), |c| Ok(vec![&c[0] + 1, &c[1] * 0.5 + &step]), &start)?;
        let rows = map(|r: &Tensor| r.cumsum(0) + &step, x);
        let (last, sums) = try_scan(
            |c, r| Ok((vec![&c[0] + &r[0]], vec![&c[0] * 2.0])),
            [&torch::sum_dim(x, 0, false)],
            [x],
            ScanOptions::new(),
        )?;
        Ok(vec![y, looped[0].clone(), looped[1].clone(), rows, last[0].clone(), sums[0].clone()])
    }
}
fn flow() -> Flow {
    Flow { left: nn::Linear::new(4, 4), right: nn::Linear::new(4, 4) }
}
fn program(m: &Flow) -> ExportedProgram {
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("rows").min(2))]);
    let run = |x: &[Tensor]| -> Result<Value> {
        Ok(Value::Tuple(m.run(&x[0])?.into_iter().map(Value::Tensor).collect()))
    };
    try_export_with(m, run, &[&floats(&[3, 4])], o).unwrap()
}
fn check(p: &ExportedProgram, m: &Flow) {
    let run = p.module().unwrap();
    for n in [2, 5] {
        for sign in [1.0, -1.0] {
            let x = ops::abs(&floats(&[n, 4])).unwrap() * sign;
            let got = run.run(&[x.clone().into()], &[]).unwrap();
            let want = m.run(&x).unwrap();
            let got = got.items().unwrap().to_vec();
            assert_eq!(got.len(), want.len());
            for (g, w) in got.into_iter().zip(want) {
                let g = g.into_tensor().unwrap();
                assert_eq!((g.sizes(), g.dtype()), (w.sizes(), w.dtype()));
                let off = (g.float() - w.float()).abs().max().item::<f32>();
                assert!(off < 1e-5, "{off}");
            }
        }
    }
}

#[test]
fn branches_and_loops_are_calls_of_graphs() {
    let m = flow();
    let p = program(&m);
    let operators = p.operators();
    for name in ["cond", "while_loop", "map_impl", "scan", "aten.linear.default", "aten.tanh.default"] {
        assert!(operators.contains(&name.to_string()), "{operators:?}");
    }
    check(&p, &m);
    check(&p.run_decompositions(&default_decompositions()).unwrap(), &m);
    let path = std::env::temp_dir().join(format!("flow-{}.pt2", std::process::id()));
    save(&p, &path).unwrap();
    check(&load(&path).unwrap(), &m);
    std::fs::remove_file(&path).unwrap();
}
#[test]
fn pytorch_runs_branches_and_loops() {
    let Some(python) = python_with("torch") else { return };
    let m = flow();
    let path = std::env::temp_dir().join(format!("flow-python-{}.pt2", std::process::id()));
    save(&program(&m), &path).unwrap();
    let x = ops::abs(&floats(&[5, 4])).unwrap();
    let want: Vec<f32> = m.run(&x).unwrap().iter().map(|t| t.float().sum().item::<f32>()).collect();
    let code = format!(
        "import torch\nm = torch.export.load({:?}).module()\nx = torch.tensor({:?}).reshape(5, 4)\n\
         print([t.double().sum().item() for t in m(x)])",
        path.to_string_lossy(),
        x.to_vec::<f32>()
    );
    let said = output(Command::new(python).args(["-c", &code]), "");
    std::fs::remove_file(&path).unwrap();
    let got: Vec<f32> =
        said.trim().trim_matches(['[', ']']).split(", ").map(|n| n.parse().unwrap()).collect();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(&want) {
        assert!((g - w).abs() < 1e-3 * w.abs().max(1.0), "{got:?} {want:?}");
    }
}
#[test]
fn branches_must_agree() {
    let none = nn::Tanh::new();
    let bad = |x: &[Tensor]| -> Result<Tensor> {
        Ok(cond(&x[0].sum().gt(0.0), |x: &Tensor| x.sum(), |x: &Tensor| x * 2.0, &x[0]))
    };
    let e = try_export_with(&none, bad, &[&floats(&[3, 4])], ExportOptions::new()).unwrap_err();
    assert!(e.message().contains("expected same dim but got 0 and 2."), "{e}");
    let plain = |x: &[Tensor]| -> Result<Tensor> {
        Ok(&x[0] * f64::from(cond(&x[0].sum().gt(0.0), |_: &()| 1, |_: &()| 2, &())))
    };
    let e = try_export_with(&none, plain, &[&floats(&[3, 4])], ExportOptions::new()).unwrap_err();
    assert!(e.message().contains("branches give something else than tensors"), "{e}");
}
