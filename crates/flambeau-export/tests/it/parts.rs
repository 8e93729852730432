//! Operators whose parts follow from their options: each program in the core set gives what the operator gives.

use crate::exporting::floats;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{DType, Result, Tensor, Value};
use flambeau_export::{Dim, ExportOptions, ExportedProgram, default_decompositions, try_export_values};
use flambeau_library as library;

type Named = [(&'static str, Value)];

fn kwargs(of: &Named) -> Vec<(String, Value)> {
    of.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}
fn exported(name: &str, args: &[Value], named: &Named, o: ExportOptions) -> ExportedProgram {
    let run = |v: &[Value], _: &Kwargs| library::call_value(name, v, &kwargs(named));
    try_export_values(None, run, args, o).unwrap()
}
fn real(v: &Value) -> Result<Vec<f64>> {
    let v = match v {
        Value::Tensor(t) if t.dtype().is_complex() => {
            let v = library::method(v, "resolve_conj", &[], &[])?;
            library::call_value("torch.view_as_real", &[v], &[])?
        }
        v => v.clone(),
    };
    Ok(v.into_tensor().map_err(|_| flambeau_core::Error::type_("no tensor"))?.to(DType::F64).to_vec::<f64>())
}
fn near(name: &str, got: &Value, want: &Value) {
    if let (Some(g), Some(w)) = (got.items(), want.items()) {
        for (g, w) in g.iter().zip(w) {
            near(name, g, w);
        }
        return;
    }
    let (got, want) = (real(got).unwrap(), real(want).unwrap());
    assert_eq!(got.len(), want.len(), "{name}");
    for (g, w) in got.iter().zip(&want) {
        assert!((g - w).abs() <= 2e-5 * (1.0 + w.abs()), "{name}: {got:?} {want:?}");
    }
}
/// Decomposes a call, whose operator must be gone, and compares the results.
fn check(name: &str, operator: &str, args: &[Value], named: &Named) {
    let core = exported(name, args, named, ExportOptions::new())
        .run_decompositions(&default_decompositions())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let own = format!("aten.{operator}.");
    assert!(core.operators().iter().all(|o| !o.starts_with(&own)), "{name}: {:?}", core.operators());
    let got = core.module().unwrap().run(args, &[]).unwrap();
    near(name, &got, &library::call_value(name, args, &kwargs(named)).unwrap());
}
fn value(sizes: &[i64]) -> Value {
    Value::Tensor(floats(sizes))
}
fn numbers(v: Vec<i64>, sizes: &[i64]) -> Value {
    Value::Tensor(Tensor::from_vec(v, sizes))
}

#[test]
fn grouped_attention() {
    let name = "torch.nn.functional.scaled_dot_product_attention";
    let operator = "scaled_dot_product_attention";
    let yes = Value::Bool(true);
    for heads in [1, 2, 4] {
        let args = [value(&[2, 4, 5, 8]), value(&[2, heads, 6, 8]), value(&[2, heads, 6, 8])];
        check(name, operator, &args, &[("enable_gqa", yes.clone())]);
        check(name, operator, &args, &[("enable_gqa", yes.clone()), ("is_causal", yes.clone())]);
    }
    for sizes in [vec![3, 4, 8], vec![2, 2, 3, 4, 8]] {
        check(name, operator, &[value(&sizes), value(&sizes), value(&sizes)], &[]);
    }
}
#[test]
fn losses_of_classes() {
    let weight = || ("weight", Value::Tensor(floats(&[5]).abs() + 0.5));
    let ignore = ("ignore_index", Value::Int(2));
    let targets = [(vec![3, 5], vec![0, 2, 4], vec![3]), (vec![2, 5, 2], vec![1, 2, 3, 0], vec![2, 2])];
    let wide = (vec![1, 5, 2, 2], vec![4, 2, 0, 1], vec![1, 2, 2]);
    for (sizes, classes, of) in targets.into_iter().chain([wide]) {
        let args = [value(&sizes), numbers(classes, &of)];
        for how in ["mean", "sum", "none"] {
            let how = ("reduction", Value::Str(how.into()));
            for smoothing in [0.0, 0.1] {
                let smoothing = ("label_smoothing", Value::Float(smoothing));
                for named in [vec![], vec![weight()], vec![weight(), ignore.clone()]] {
                    let named = [named, vec![how.clone(), smoothing.clone()]].concat();
                    check("torch.nn.functional.cross_entropy", "cross_entropy_loss", &args, &named);
                }
            }
            let named = [weight(), how, ignore.clone()];
            check("torch.nn.functional.nll_loss", "nll_loss_nd", &args, &named);
        }
    }
    for how in ["mean", "sum", "none"] {
        let named = [weight(), ("label_smoothing", Value::Float(0.2)), ("reduction", Value::Str(how.into()))];
        let shares = Value::Tensor(floats(&[3, 5, 2]).abs());
        check(
            "torch.nn.functional.cross_entropy",
            "cross_entropy_loss",
            &[value(&[3, 5, 2]), shares],
            &named,
        );
    }
}
#[test]
fn losses_of_distances() {
    let args = || vec![value(&[3, 5]), Value::Tensor(floats(&[3, 5]) + 0.5), Value::Tensor(-floats(&[3, 5]))];
    let name = "torch.nn.functional.triplet_margin_loss";
    check(name, "triplet_margin_loss", &args(), &[]);
    let named =
        [("swap", Value::Bool(true)), ("p", Value::Float(1.0)), ("reduction", Value::Str("sum".into()))];
    check(name, "triplet_margin_loss", &args(), &named);
    let named = [("p", Value::Float(3.0)), ("keepdim", Value::Bool(true))];
    check("torch.nn.functional.pairwise_distance", "pairwise_distance", &args()[..2], &named);
    let name = "torch.nn.functional.binary_cross_entropy_with_logits";
    let target = Value::Tensor(floats(&[3, 5]).abs());
    let named = [("pos_weight", Value::Tensor(floats(&[5]).abs() + 1.0))];
    check(name, "binary_cross_entropy_with_logits", &[value(&[3, 5]), target], &named);
}
#[test]
fn pictures_of_other_sizes() {
    let name = "torch.nn.functional.interpolate";
    let mode = ("mode", Value::Str("bicubic".into()));
    let list = |l: &[f64]| Value::List(l.iter().map(|x| Value::Float(*x)).collect());
    let size = Value::List(vec![Value::Int(7), Value::Int(5)]);
    for corners in [false, true] {
        let corners = ("align_corners", Value::Bool(corners));
        for to in [("size", size.clone()), ("scale_factor", list(&[2.0, 1.5]))] {
            check(name, "upsample_bicubic2d", &[value(&[2, 3, 4, 6])], &[mode.clone(), corners.clone(), to]);
        }
    }
    // steps that follow from a size that is no number: the operator stays, and is right at all sizes
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(2, Dim::new("h").max(32))]);
    let named = [mode, ("size", size)];
    let p = exported(name, &[value(&[1, 1, 4, 6])], &named, o);
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    for h in [3, 9] {
        let x = value(&[1, 1, h, 6]);
        let got = core.module().unwrap().run(&[x.clone()], &[]).unwrap();
        near(name, &got, &library::call_value(name, &[x], &kwargs(&named)).unwrap());
    }
}
#[test]
fn linear_algebra() {
    let a = || value(&[3, 3]);
    for (name, operator) in [
        ("torch.linalg.det", "linalg_det"),
        ("torch.linalg.slogdet", "linalg_slogdet"),
        ("torch.linalg.svd", "linalg_svd"),
        ("torch.linalg.eigh", "linalg_eigh"),
        ("torch.linalg.matrix_norm", "linalg_matrix_norm"),
    ] {
        check(name, operator, &[a()], &[]);
    }
    for n in [1, 2, 3, 5, 6, 8] {
        check("torch.linalg.matrix_power", "linalg_matrix_power", &[a(), Value::Int(n)], &[]);
    }
    let b = Value::Tensor(floats(&[1, 3]) + 1.0);
    check("torch.linalg.cross", "linalg_cross", &[a(), b], &[]);
}
#[test]
fn transforms() {
    for name in ["fft", "ifft", "fft2", "ifft2", "fftn", "ifftn"] {
        let ortho = [("norm", Value::Str("ortho".into()))];
        let operator = format!("fft_{name}");
        check(&format!("torch.fft.{name}"), &operator, &[value(&[2, 3, 4])], &[]);
        check(&format!("torch.fft.{name}"), &operator, &[value(&[2, 3, 4])], &ortho);
    }
    let named = |w: i64| {
        let window = ("window", Value::Tensor(floats(&[w]) + 1.0));
        let sizes = [("hop_length", Value::Int(4)), ("win_length", Value::Int(w))];
        [vec![window, ("return_complex", Value::Bool(true))], sizes.to_vec()].concat()
    };
    for (sizes, w) in [(vec![2, 16], 8), (vec![16], 6)] {
        check("torch.stft", "stft", &[value(&sizes), Value::Int(8)], &named(w));
    }
}
#[test]
fn signals_from_frequencies() {
    let whole = |n: i64| ("length", Value::Int(n));
    let named = |w: i64, hop: i64| {
        let window = ("window", Value::Tensor(floats(&[w]).abs() + 1.0));
        vec![window, ("hop_length", Value::Int(hop)), ("win_length", Value::Int(w))]
    };
    let cases = [
        (vec![2, 5, 6], named(8, 4)),
        (vec![5, 6], vec![("center", Value::Bool(false))]),
        (vec![5, 6], [named(6, 3), vec![whole(14), ("normalized", Value::Bool(true))]].concat()),
    ];
    for (sizes, named) in cases {
        let run = |v: &[Value], _: &Kwargs| -> Result<Value> {
            let z = library::call_value("torch.complex", &[v[0].clone(), v[1].clone()], &[])?;
            library::call_value("torch.istft", &[z, Value::Int(8)], &kwargs(&named))
        };
        let args = [value(&sizes), Value::Tensor(floats(&sizes) * 0.5)];
        let core = try_export_values(None, run, &args, ExportOptions::new()).unwrap();
        assert!(core.operators().contains(&"aten.istft.default".to_string()));
        let core = core.run_decompositions(&default_decompositions()).unwrap();
        assert!(!core.operators().contains(&"aten.istft.default".to_string()), "{:?}", core.operators());
        let got = core.module().unwrap().run(&args, &[]).unwrap();
        near("istft", &got, &run(&args, &Vec::new()).unwrap());
    }
}
/// Exports a call of tensors whose first size is dynamic, decomposes it without an operator, and compares at two sizes.
fn at_sizes(operator: &str, run: impl Fn(&[Value]) -> Result<Value>, sizes: &[Vec<i64>]) -> Vec<String> {
    let all = |n: i64| -> Vec<Value> {
        let own = |s: &Vec<i64>| s.iter().map(|k| if *k == 0 { n } else { *k }).collect::<Vec<i64>>();
        sizes.iter().map(|s| value(&own(s))).collect()
    };
    let names = ["a", "b", "c", "d"];
    let mut o = ExportOptions::new().names(&names[..sizes.len()]);
    for (s, name) in sizes.iter().zip(names) {
        let dims = s.iter().enumerate().filter(|(_, n)| **n == 0);
        o = o.dynamic(name, dims.map(|(d, _)| (d, Dim::new("n").min(2).max(64))).collect::<Vec<_>>());
    }
    let p = try_export_values(None, |v: &[Value], _: &Kwargs| run(v), &all(4), o).unwrap();
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    let own = format!("aten.{operator}.");
    assert!(core.operators().iter().all(|o| !o.starts_with(&own)), "{operator}: {:?}", core.operators());
    for n in [4, 7] {
        let got = core.module().unwrap().run(&all(n), &[]).unwrap();
        near(operator, &got, &run(&all(n)).unwrap());
    }
    core.operators()
}
#[test]
fn products_of_several() {
    let einsum = |text: &'static str| {
        move |v: &[Value]| {
            library::call_value("torch.einsum", &[vec![Value::Str(text.into())], v.to_vec()].concat(), &[])
        }
    };
    for (text, sizes) in [
        ("ij,jk,kl->il", vec![vec![0, 3], vec![3, 5], vec![5, 2]]),
        ("bi,bj,bk->bijk", vec![vec![0, 3], vec![0, 2], vec![0, 5]]),
        ("i,j->ij", vec![vec![0], vec![3]]),
        ("bij,bjk,km->bim", vec![vec![0, 3, 2], vec![0, 2, 5], vec![5, 4]]),
        ("ab,cb,cd,da->a", vec![vec![0, 3], vec![2, 3], vec![2, 5], vec![5, 0]]),
        ("ab,ac,d->c", vec![vec![0, 3], vec![0, 2], vec![5]]),
    ] {
        at_sizes("einsum", einsum(text), &sizes);
    }
    let dot = |v: &[Value]| library::call_value("torch.linalg.multi_dot", &[Value::List(v.to_vec())], &[]);
    at_sizes("linalg_multi_dot", dot, &[vec![0, 3], vec![3, 5]]);
    for sizes in [
        vec![vec![2, 3], vec![3, 4], vec![4, 5]],
        vec![vec![3], vec![3, 4], vec![4]],
        vec![vec![2, 3], vec![3, 4], vec![4, 5], vec![5]],
    ] {
        let n = sizes.len() - 1;
        let operators = at_sizes("linalg_multi_dot", dot, &sizes);
        assert!(operators.contains(&"aten.mm.default".to_string()), "{n}: {operators:?}");
    }
}
#[test]
fn choices_borders_and_volumes() {
    for (r, again) in [(1, false), (2, false), (3, true), (5, false)] {
        let named = [("r", Value::Int(r)), ("with_replacement", Value::Bool(again))];
        check("torch.combinations", "combinations", &[value(&[4])], &named);
    }
    for pad in [vec![1, 2], vec![1, 2, 2, 1], vec![-1, 2, 2, -1]] {
        let sizes = [0, 3, 4, 5][..2 + pad.len() / 2].to_vec();
        let pad = Value::List(pad.into_iter().map(Value::Int).collect());
        let run = move |v: &[Value]| {
            let mode = Value::Str("circular".into());
            library::call_value("torch.nn.functional.pad", &[v[0].clone(), pad.clone(), mode], &[])
        };
        at_sizes("pad", run, &[sizes]);
    }
    let name = "torch.nn.functional.interpolate";
    let mode = ("mode", Value::Str("trilinear".into()));
    let size = Value::List([3, 5, 7].map(Value::Int).to_vec());
    for corners in [false, true] {
        let named = [mode.clone(), ("align_corners", Value::Bool(corners)), ("size", size.clone())];
        check(name, "upsample_trilinear3d", &[value(&[2, 3, 4, 5, 6])], &named);
    }
}
/// What our own export makes of overloads: the operator is in the program, and the program gives what the call gives.
#[test]
fn windows_and_unpooling_are_exported() {
    let float = |name: &str, x: f64| (name.to_string(), Value::Float(x));
    for (name, overload, named) in [
        ("hann_window", "default", vec![]),
        ("bartlett_window", "default", vec![]),
        ("blackman_window", "default", vec![]),
        ("hamming_window", "default", vec![]),
        ("kaiser_window", "default", vec![]),
        ("hamming_window", "periodic_alpha", vec![float("alpha", 0.6)]),
        ("hamming_window", "periodic_alpha_beta", vec![float("beta", 0.4)]),
        ("kaiser_window", "beta", vec![float("beta", 7.5)]),
    ] {
        for periodic in [true, false] {
            let named = [vec![("periodic".to_string(), Value::Bool(periodic))], named.clone()].concat();
            let run = |v: &[Value], _: &Kwargs| -> Result<Value> {
                let w = library::call_value(&format!("torch.{name}"), &[Value::Int(8)], &named)?;
                library::call_value("torch.mul", &[v[0].clone(), w], &[])
            };
            let args = [value(&[3, 8])];
            let p = try_export_values(None, run, &args, ExportOptions::new()).unwrap();
            let overload = if overload == "default" && !periodic { "periodic" } else { overload };
            let own = format!("aten.{name}.{overload}");
            assert!(p.operators().contains(&own), "{:?}", p.operators());
            let core = p.run_decompositions(&default_decompositions()).unwrap();
            // PyTorch decomposes the first of them alone
            assert_eq!(core.operators().contains(&own), name != "hann_window", "{:?}", core.operators());
            let want = run(&args, &Vec::new()).unwrap();
            for p in [&p, &core] {
                near(name, &p.module().unwrap().run(&args, &[]).unwrap(), &want);
            }
        }
    }
    for n in [2, 3] {
        let sizes = [vec![0, 2], vec![4; n]].concat();
        let run = move |v: &[Value]| -> Result<Value> {
            let pooled = library::call_value(
                &format!("torch.nn.functional.max_pool{n}d_with_indices"),
                &[v[0].clone(), Value::Int(2)],
                &[],
            )?;
            let parts = pooled.items().unwrap_or(&[]).to_vec();
            let name = format!("torch.nn.functional.max_unpool{n}d");
            library::call_value(&name, &[parts, vec![Value::Int(2)]].concat(), &[])
        };
        at_sizes(&format!("max_unpool{n}d"), run, &[sizes]);
    }
}
/// Remainders of sizes stay computed by the program.
#[test]
fn remainders_of_sizes() {
    let run = |v: &[Value]| -> Result<Value> {
        let n = v[0].clone().into_tensor().unwrap().size(0);
        library::method(&v[0], "new_zeros", &[Value::List(vec![Value::Int(n % 3 + 2)])], &[])
    };
    let operators = at_sizes("new_zeros", run, &[vec![0]]);
    assert!(operators.contains(&"operator.mod".to_string()), "{operators:?}");
}
#[test]
fn bits_and_slopes() {
    for name in ["__and__", "__or__", "__xor__"] {
        let run = |v: &[Value], _: &Kwargs| library::method(&v[0], name, &[Value::Int(3)], &[]);
        let x = numbers(vec![1, 6, 12], &[3]);
        let core = try_export_values(None, run, &[x.clone()], ExportOptions::new()).unwrap();
        let core = core.run_decompositions(&default_decompositions()).unwrap();
        assert_eq!(core.operators(), [format!("aten.bitwise_{}.Scalar", name.trim_matches('_'))]);
        let got = core.module().unwrap().run(&[x.clone()], &[]).unwrap();
        near(name, &got, &run(&[x], &Vec::new()).unwrap());
    }
    check("torch.nn.functional.rrelu", "rrelu", &[value(&[3, 4])], &[("lower", Value::Float(0.2))]);
}
#[test]
fn conjugates_are_copied_for_what_computes() {
    let run = |v: &[Value], _: &Kwargs| -> Result<Value> {
        let z = library::call_value("torch.complex", &[v[0].clone(), v[1].clone()], &[])?;
        let conj = library::method(&z, "conj", &[], &[])?;
        Ok(Value::Tuple(vec![library::call_value("torch.mul", &[z, conj.clone()], &[])?, conj]))
    };
    let args = [value(&[2, 3]), value(&[2, 3])];
    let core = try_export_values(None, run, &args, ExportOptions::new()).unwrap();
    let core = core.run_decompositions(&default_decompositions()).unwrap();
    let want = ["aten._conj.default", "aten.clone.default", "aten.complex.default", "aten.mul.Tensor"];
    assert_eq!(core.operators(), want);
    let got = core.module().unwrap().run(&args, &[]).unwrap();
    near("conj", &got, &run(&args, &Vec::new()).unwrap());
}
