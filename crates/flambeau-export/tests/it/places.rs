//! What is read by places, losses and equations in the core set: PyTorch's operators, and the same results at other sizes.

use crate::exporting::floats;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Result, Tensor, Value, functions as torch};
use flambeau_export::{Dim, ExportOptions, default_decompositions, try_export_values};
use flambeau_library::call_value;

type Program = fn(&Tensor) -> Result<Value>;
fn named(name: &str, args: &[Value]) -> Result<Value> {
    call_value(name, args, &[])
}
/// Places below 3, as many as rows.
fn at(x: &Tensor) -> Tensor {
    torch::arange(x.size(0) * 2).reshape([-1, 2]).remainder(3)
}
/// The operators of a program in the core set; its results at the example's size and others are compared.
fn core(f: Program) -> Vec<String> {
    let run = |v: &[Value], _: &Kwargs| {
        let Value::Tensor(x) = &v[0] else { panic!("{v:?}") };
        f(x)
    };
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("rows").min(2))]);
    let p = try_export_values(None, run, &[floats(&[4, 3]).into()], o).unwrap();
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    let m = core.module().unwrap();
    for n in [4, 2, 7] {
        let x = floats(&[n, 3]);
        let (got, want) = (m.run(&[(&x).into()], &[]).unwrap(), f(&x).unwrap());
        let of = |v: &Value| match v {
            Value::Tensor(t) => vec![t.clone()],
            v => v.items().unwrap().iter().filter_map(|v| v.clone().into_tensor().ok()).collect(),
        };
        let (got, want) = (of(&got), of(&want));
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            assert_eq!((g.sizes(), g.dtype()), (w.sizes(), w.dtype()), "{core}");
            for (g, w) in g.to_vec::<f64>().iter().zip(w.to_vec::<f64>()) {
                assert!((g - w).abs() <= 1e-5 + 1e-5 * w.abs(), "{g} instead of {w}\n{core}");
            }
        }
    }
    core.operators()
}

#[test]
fn parts_are_pytorchs() {
    let all: [(Program, &[&str]); 9] = [
        (
            |x| named("torch.take", &[x.into(), at(x).into()]),
            &[
                "aten.arange.start_step",
                "aten.index.Tensor",
                "aten.remainder.Scalar",
                "aten.sym_size.int",
                "aten.view.default",
                "operator.mul",
            ],
        ),
        (
            |x| named("torch.take_along_dim", &[x.into(), at(x).into(), Value::Int(1)]),
            &[
                "aten.arange.start_step",
                "aten.expand.default",
                "aten.gather.default",
                "aten.remainder.Scalar",
                "aten.sym_size.int",
                "aten.view.default",
                "operator.mul",
            ],
        ),
        (
            |x| named("torch.diag_embed", &[x.into()]),
            &[
                "aten.arange.start_step",
                "aten.eq.Tensor",
                "aten.permute.default",
                "aten.scalar_tensor.default",
                "aten.unsqueeze.default",
                "aten.view.default",
                "aten.where.self",
            ],
        ),
        (
            |x| named("torch.diag", &[(&x.i((..2, ..2))).into()]),
            &["aten.clone.default", "aten.diagonal.default", "aten.slice.Tensor"],
        ),
        (
            |x| {
                let few = torch::arange_start(0.0, 3.0);
                named("torch.isin", &[(&x.round()).into(), few.into()])
            },
            &[
                "aten.any.dims",
                "aten.arange.start_step",
                "aten.eq.Tensor",
                "aten.round.default",
                "aten.sym_size.int",
                "aten.view.default",
            ],
        ),
        (
            |x| named("torch.quantile", &[x.into(), Value::Float(0.3), Value::Int(1)]),
            &[
                "aten._to_copy.default",
                "aten.abs.default",
                "aten.add.Tensor",
                "aten.any.dim",
                "aten.ceil.default",
                "aten.expand.default",
                "aten.gather.default",
                "aten.ge.Scalar",
                "aten.isnan.default",
                "aten.mul.Scalar",
                "aten.mul.Tensor",
                "aten.scalar_tensor.default",
                "aten.sort.default",
                "aten.squeeze.dims",
                "aten.sub.Tensor",
                "aten.sym_size.int",
                "aten.view.default",
                "aten.where.self",
                "operator.getitem",
            ],
        ),
        (
            |x| {
                let y = x.abs();
                named(
                    "torch.nn.functional.margin_ranking_loss",
                    &[x.into(), (&y).into(), (&x.sign()).into(), Value::Float(0.5)],
                )
            },
            &[
                "aten.abs.default",
                "aten.add.Scalar",
                "aten.clamp.default",
                "aten.mean.default",
                "aten.mul.Tensor",
                "aten.neg.default",
                "aten.sign.default",
                "aten.sub.Tensor",
            ],
        ),
        (
            |x| {
                let (y, t) = (x.abs(), x.select(1, 0).sign());
                named(
                    "torch.nn.functional.cosine_embedding_loss",
                    &[x.into(), (&y).into(), (&t).into(), Value::Float(0.2)],
                )
            },
            &[
                "aten.abs.default",
                "aten.add.Scalar",
                "aten.add.Tensor",
                "aten.clamp.default",
                "aten.div.Tensor",
                "aten.empty_permuted.default",
                "aten.eq.Scalar",
                "aten.full_like.default",
                "aten.mean.default",
                "aten.mul.Tensor",
                "aten.select.int",
                "aten.sign.default",
                "aten.sqrt.default",
                "aten.sub.Scalar",
                "aten.sub.Tensor",
                "aten.sum.dim_IntList",
                "aten.where.self",
                "aten.sym_size.int",
            ],
        ),
        (
            |x| {
                let w = torch::arange_start(0.0, 6.0).reshape([3, 2]);
                named(
                    "torch.einsum",
                    &[Value::Str("...ij,jk".into()), Value::List(vec![(&x.unsqueeze(1)).into(), w.into()])],
                )
            },
            &[
                "aten.arange.start_step",
                "aten.bmm.default",
                "aten.permute.default",
                "aten.sym_size.int",
                "aten.unsqueeze.default",
                "aten.view.default",
            ],
        ),
    ];
    let mut wrong = Vec::new();
    for (k, (f, want)) in all.into_iter().enumerate() {
        let mut want = want.to_vec();
        want.sort_unstable();
        let got = core(f);
        if got != want {
            wrong.push(format!("{k}: {got:?}\n   instead of {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
#[test]
fn what_is_taken_away_is_subtracted() {
    let f: Program = |x| Ok(torch::zeros([8 - x.size(0) % 4, 20 - x.size(0)]).into());
    let run = |v: &[Value], _: &Kwargs| {
        let Value::Tensor(x) = &v[0] else { panic!("{v:?}") };
        f(x)
    };
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("rows").min(2).max(20))]);
    let p = try_export_values(None, run, &[floats(&[5, 3]).into()], o).unwrap();
    let want = ["aten.sym_size.int", "aten.zeros.default", "operator.mod", "operator.sub"];
    assert_eq!(p.operators(), want, "{p}");
    let m = p.module().unwrap();
    assert_eq!(m.try_forward(&[&floats(&[7, 3])]).unwrap().sizes(), [5, 13]);
}
