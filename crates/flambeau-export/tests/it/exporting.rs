//! Programs captured here: their operators, sizes, guards, errors, and their files, which PyTorch opens.

use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Result, Tensor, Value, functions as torch};
use flambeau_export::{
    AdditionalInputs, Dim, DynamicShapes, ExportOptions, ExportedProgram, ShapesCollection, load,
    register_dataclass, save, try_export_values, try_export_with,
};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn_functional::functional as F;
use flambeau_serialization::torch_format::Tree;
// operators of programs that PyTorch wrote
use flambeau_fft as _;
use flambeau_linalg as _;
use flambeau_test_support::python::{output, python_with};
use std::process::Command;

pub fn floats(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let v: Vec<f32> = (0..n).map(|i| ((i * 7 + 3) % 23) as f32 / 11.0 - 1.0).collect();
    Tensor::from_vec(v, sizes)
}

#[derive(Debug, Module)]
struct Mlp {
    fc1: nn::Linear,
    drop: nn::Dropout,
    fc2: nn::Linear,
}
#[nn::forward]
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc2.call(&self.drop.call(&self.fc1.call(x).relu()))
    }
}
fn mlp() -> Mlp {
    let m = Mlp { fc1: nn::Linear::new(4, 8), drop: nn::Dropout::new(0.2), fc2: nn::Linear::new(8, 3) };
    m.eval();
    m
}
fn exported_mlp(m: &Mlp) -> ExportedProgram {
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch"))]);
    try_export_with(m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&[3, 4])], o).unwrap()
}
fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()) {
        assert!((x - y).abs() <= 1e-5 + 1e-5 * y.abs(), "{x} instead of {y}");
    }
}

#[derive(Debug, Module)]
struct Attends {
    attention: nn::MultiheadAttention,
    layer: nn::TransformerEncoderLayer,
}
#[nn::forward]
impl Attends {
    fn forward(&self, x: &Tensor) -> (Tensor, Tensor) {
        let (y, weights) = self.attention.call(x, x, x);
        (self.layer.call(&y), weights.unwrap())
    }
}
/// Attention serves every size of a batch, in training and in evaluation; the program gives several tensors.
#[test]
fn transformers_have_dynamic_batches() {
    for first in [false, true] {
        let layer = nn::TransformerEncoderLayerOptions::new(8, 2).dim_feedforward(16).dropout(0.0);
        let m = Attends {
            attention: nn::MultiheadAttentionOptions::new(8, 2).batch_first(first).build(),
            layer: layer.batch_first(first).build(),
        };
        let sizes = |n: i64| if first { [n, 5, 8] } else { [5, n, 8] };
        for training in [true, false] {
            if training {
                m.train();
            } else {
                m.eval();
            }
            let o =
                ExportOptions::new().names(&["x"]).dynamic("x", [(usize::from(!first), Dim::new("batch"))]);
            let p = try_export_with(&m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&sizes(2))], o).unwrap();
            let x = floats(&sizes(3));
            let got = p.module().unwrap().try_forward_all(&[&x]).unwrap();
            let (y, weights) = m.call(&x);
            close(&got[0], &y);
            close(&got[1], &weights);
        }
    }
}

#[test]
fn a_network_becomes_pytorchs_program() {
    let m = mlp();
    let p = exported_mlp(&m);
    assert_eq!(p.operators(), ["aten.dropout.default", "aten.linear.default", "aten.relu.default"]);
    assert_eq!(
        p.graph_signature.to_string(),
        "\n# inputs\np_fc1_weight: PARAMETER target='fc1.weight'\np_fc1_bias: PARAMETER target='fc1.bias'\n\
         p_fc2_weight: PARAMETER target='fc2.weight'\np_fc2_bias: PARAMETER target='fc2.bias'\nx: USER_INPUT\n\n\
         # outputs\nlinear_1: USER_OUTPUT\n"
    );
    assert_eq!(p.ranges_text(), "{s77: VR[0, int_oo]}");
    let text = p.to_string();
    assert!(
        text.contains("dropout: \"f32[s77, 8]\" = torch.ops.aten.dropout.default(relu, 0.2, False)"),
        "{text}"
    );
    let module = p.module().unwrap();
    for n in [1, 3, 17] {
        let x = floats(&[n, 4]);
        close(&module.try_forward(&[&x]).unwrap(), &m.call(&x));
    }
    let e = module.try_forward(&[&floats(&[2, 5])]).unwrap_err();
    assert_eq!(e.message(), "Guard failed: x.size()[1] == 4");
}

fn flat(v: &Value) -> Vec<Tensor> {
    let leaves = flambeau_fx::pytree::leaves(v);
    leaves.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect()
}
/// Saves programs, opens them here and in PyTorch, and compares results at the inputs' sizes; gives what is wrong.
pub fn round_trips(name: &str, all: &[(&str, ExportedProgram, Vec<Vec<Tensor>>)]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("flambeau_export_{}_{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut wrong, mut written) = (Vec::new(), Vec::new());
    for (name, p, inputs) in all {
        let path = folder.join(format!("{name}.pt2"));
        let again = match save(p, &path).and_then(|()| load(&path)) {
            Ok(again) => again,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        assert_eq!(again.operators(), p.operators());
        assert_eq!(again.graph_signature.to_string(), p.graph_signature.to_string());
        assert_eq!(again.ranges_text(), p.ranges_text());
        let (m, n) = (p.module().unwrap(), again.module().unwrap());
        assert_eq!(m.guards(), n.guards());
        let mut cases: Vec<(String, Tensor)> = Vec::new();
        for (i, x) in inputs.iter().enumerate() {
            let args: Vec<Value> = x.iter().cloned().map(Value::Tensor).collect();
            let (a, b) = (flat(&m.run(&args, &[]).unwrap()), flat(&n.run(&args, &[]).unwrap()));
            assert_eq!(a.len(), b.len());
            for (a, b) in a.iter().zip(&b) {
                assert_eq!(a.to_vec::<f64>(), b.to_vec::<f64>(), "{name}");
            }
            let plain = |t: &Tensor| flambeau_core::ops::detach(t).unwrap();
            cases.extend(x.iter().enumerate().map(|(j, t)| (format!("{i}.in.{j}"), t.clone())));
            cases.extend(a.iter().enumerate().map(|(j, t)| (format!("{i}.out.{j}"), plain(t))));
        }
        let entries = cases.into_iter().map(|(k, t)| (Tree::Str(k), Tree::Tensor(t))).collect();
        flambeau_serialization::tensors::save(&Tree::Dict(entries), folder.join(format!("{name}.cases")))
            .unwrap();
        written.push(name.to_string());
    }
    if let Some(python) = python_with("torch") {
        let script = "import sys, torch\n\
            from torch.utils import _pytree as pytree\n\
            for name in sys.argv[2:]:\n\
            \x20 try:\n\
            \x20   m = torch.export.load(f'{sys.argv[1]}/{name}.pt2').module()\n\
            \x20   d = torch.load(f'{sys.argv[1]}/{name}.cases')\n\
            \x20   i = 0\n\
            \x20   while f'{i}.in.0' in d:\n\
            \x20     n = sum(k.startswith(f'{i}.in.') for k in d)\n\
            \x20     out = pytree.tree_leaves(m(*[d[f'{i}.in.{j}'] for j in range(n)]))\n\
            \x20     out = [t for t in out if isinstance(t, torch.Tensor)]\n\
            \x20     assert len(out) == sum(k.startswith(f'{i}.out.') for k in d), 'number of results'\n\
            \x20     for j, t in enumerate(out):\n\
            \x20       torch.testing.assert_close(t, d[f'{i}.out.{j}'], rtol=1e-4, atol=1e-4)\n\
            \x20     i += 1\n\
            \x20 except Exception as e:\n\
            \x20   print(name, type(e).__name__, str(e)[:600].replace(chr(10), ' | '))\n\
            print('done')\n";
        let mut c = Command::new(python);
        c.arg("-c").arg(script).arg(&folder).args(&written);
        let said = output(&mut c, "");
        let mut lines: Vec<String> = said.lines().map(str::to_string).collect();
        assert_eq!(lines.pop().as_deref(), Some("done"), "{said}");
        wrong.extend(lines.into_iter().map(|l| format!("PyTorch: {l}")));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    wrong
}
fn round_trip(name: &str, p: &ExportedProgram, inputs: &[Vec<Tensor>]) {
    let wrong = round_trips(name, &[(name, p.clone(), inputs.to_vec())]);
    assert!(wrong.is_empty(), "{}\n{p}", wrong.join("\n"));
}

#[test]
fn pytorch_opens_what_is_written() {
    let m = mlp();
    round_trip("mlp", &exported_mlp(&m), &[vec![floats(&[2, 4])], vec![floats(&[7, 4])]]);
}

/// A program of tensors without weights.
fn program(
    f: impl Fn(&[Tensor]) -> Value,
    names: &[&str],
    inputs: &[Tensor],
    dynamic: DynamicShapes,
) -> Result<ExportedProgram> {
    let args: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
    let run = |args: &[Value], _: &Kwargs| -> Result<Value> {
        let t: Vec<Tensor> = args
            .iter()
            .filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None })
            .collect();
        Ok(f(&t))
    };
    try_export_values(None, run, &args, ExportOptions::new().names(names).dynamic_shapes(dynamic))
}
fn tuple(l: &[&Tensor]) -> Value {
    Value::Tuple(l.iter().map(|t| Value::Tensor((*t).clone())).collect())
}

#[test]
fn sizes_become_expressions() {
    let f = |x: &[Tensor]| {
        let x = &x[0];
        let (b, t) = (x.size(0), x.size(1));
        let y = torch::zeros([b * 2, t + 3]);
        let z = x.reshape([t, b]) * (t / 2) as f64;
        tuple(&[&y, &z, &x.reshape([-1])])
    };
    let shapes = DynamicShapes::new()
        .with("x", [(0, Dim::new("batch").min(1).max(64)), (1, Dim::new("time").min(5).max(64))]);
    let p = program(f, &["x"], &[floats(&[2, 7])], shapes);
    // a factor that follows from a size is a floating number here, which is refused by its node
    assert!(p.is_err());
    let f = |x: &[Tensor]| {
        let x = &x[0];
        let (b, t) = (x.size(0), x.size(1));
        let y = torch::zeros([b * 2, t + 3]);
        let z = x.narrow(1, 1, (t - 1) / 2);
        tuple(&[&y, &x.reshape([t, b]), &x.reshape([-1]), &z])
    };
    let shapes = DynamicShapes::new()
        .with("x", [(0, Dim::new("batch").min(1).max(64)), (1, Dim::new("time").min(5).max(64))]);
    let p = program(f, &["x"], &[floats(&[2, 7])], shapes).unwrap();
    assert_eq!(p.ranges_text(), "{s77: VR[1, 64], s27: VR[5, 64]}");
    let text = p.to_string();
    assert!(text.contains("zeros: \"f32[2*s77, s27 + 3]\""), "{text}");
    assert!(text.contains("\"f32[s27*s77]\""), "{text}");
    assert!(text.contains("\"f32[s77, ((s27 - 1)//2)]\""), "{text}");
    let m = p.module().unwrap();
    assert_eq!(m.guards(), ["x.size()[0] <= 64", "x.size()[1] >= 5", "x.size()[1] <= 64"]);
    round_trip("sizes", &p, &[vec![floats(&[2, 7])], vec![floats(&[5, 12])]]);
}

#[test]
fn derived_dims() {
    let mut all = Vec::new();
    let f = |x: &[Tensor]| {
        let n = x[0].size(0);
        tuple(&[&(&x[0] + &x[1].narrow(0, 1, n)), &(&x[1].narrow(0, 0, n) * &x[0])])
    };
    let time = || Dim::new("time").min(3).max(20);
    let shapes = DynamicShapes::new().with("x", [(0, time())]).with("y", [(0, time() + 1)]);
    let p = program(f, &["x", "y"], &[floats(&[5]), floats(&[6])], shapes).unwrap();
    assert_eq!(p.ranges_text(), "{s77: VR[3, 20], s77 + 1: VR[4, 21]}");
    all.push(("derived", p, vec![vec![floats(&[5]), floats(&[6])], vec![floats(&[9]), floats(&[10])]]));
    let f = |x: &[Tensor]| tuple(&[&x[0].reshape([x[0].size(0), 4, -1]).sum_dim([1], false)]);
    let shapes = DynamicShapes::new().with("x", [(1, 4 * Dim::new("blocks").min(1).max(16))]);
    let p = program(f, &["x"], &[floats(&[2, 12])], shapes).unwrap();
    assert_eq!(p.ranges_text(), "{4*s79: VR[4, 64], s79: VR[2, 16]}");
    let bounds = ["x.size()[0] == 2", "x.size()[1] >= 4", "x.size()[1] <= 64"];
    assert_eq!(p.module().unwrap().guards(), [&bounds[..], &["2 * x.size()[1] % 8 == 0"]].concat());
    all.push(("blocks", p, vec![vec![floats(&[2, 12])], vec![floats(&[2, 20])]]));
    // two sizes that follow from one that no size is
    let f =
        |x: &[Tensor]| tuple(&[&x[0].reshape([-1, 2]).repeat([1, 3]), &x[1].reshape([-1, 3]), &x[2].neg()]);
    let n = || Dim::new("n").min(2).max(8);
    let shapes = DynamicShapes::new()
        .with("x", [(0, n() * 2)])
        .with("y", [(0, n() * 3)])
        .with("z", [(0, n() * 2 + 1)]);
    let p = program(f, &["x", "y", "z"], &[floats(&[6]), floats(&[9]), floats(&[7])], shapes).unwrap();
    let m = p.module().unwrap();
    assert_eq!(
        m.guards()[6..],
        [
            "x.size()[0] % 2 == 0",
            "3 * (x.size()[0] // 2) == y.size()[0]",
            "1 + 2 * (x.size()[0] // 2) == z.size()[0]"
        ]
    );
    all.push(("follow", p, vec![vec![floats(&[8]), floats(&[12]), floats(&[9])]]));
    let e = m.run(&[floats(&[8]).into(), floats(&[9]).into(), floats(&[9]).into()], &[]).unwrap_err();
    assert_eq!(e.message(), "Guard failed: 3 * (x.size()[0] // 2) == y.size()[0]");
    let wrong = round_trips("derived", &all);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hints_find_out_what_is_dynamic() {
    let f = |x: &[Tensor]| Value::from(&x[0] + &x[1]);
    let shapes = DynamicShapes::new()
        .with("x", [(0, Dim::AUTO), (1, Dim::STATIC)])
        .with("y", [(0, Dim::AUTO), (1, Dim::AUTO)]);
    let p = program(f, &["x", "y"], &[floats(&[3, 4]), floats(&[3, 4])], shapes).unwrap();
    assert_eq!(p.ranges_text(), "{s17: VR[2, int_oo]}");
    let mut collection = ShapesCollection::new();
    let x = floats(&[3, 4]);
    collection.set(&x, [(0, Dim::DYNAMIC)]);
    let shapes = collection.dynamic_shapes(&["x"], &[Value::from(x.clone())], &[]).unwrap();
    let p = program(|x| Value::from(x[0].relu()), &["x"], std::slice::from_ref(&x), shapes).unwrap();
    assert_eq!(p.ranges_text(), "{s77: VR[2, int_oo]}");
    let mut more = AdditionalInputs::new();
    more.add(&[Value::from(floats(&[3, 9]))], &[]);
    let shapes = more.dynamic_shapes(&["x"], &[Value::from(x.clone())], &[]).unwrap();
    let p = program(|x| Value::from(x[0].relu()), &["x"], &[x], shapes).unwrap();
    assert_eq!(p.ranges_text(), "{s27: VR[2, int_oo]}");
    more.verify(&p).unwrap();
    more.add(&[Value::from(floats(&[4, 9]))], &[]);
    assert!(more.verify(&p).is_err());
}

#[test]
fn expressions_read_what_they_print() {
    use flambeau_fx::symbolic::Expr;
    for text in [
        "2*s77 + 1",
        "(((s27 - 1)//2)) + 1",
        "Max(3, s77) + Min(10, s27)",
        "Mod(s27, 3)",
        "-s0 + 4",
        "IntTrueDiv(s27, 2)",
        "Eq(u0, 1)",
        "s27*s77",
        "s0**2",
        "u0 >= 0",
    ] {
        let e = Expr::read(text).unwrap();
        assert_eq!(e.to_string(), text);
        assert_eq!(Expr::parse(&e.srepr()).unwrap(), e);
    }
    for bad in ["", "s0 +", "(s0", "s0)", "Max(", "f(s0)", "1 2", &"(".repeat(500)] {
        assert!(Expr::read(bad).is_err(), "{bad}");
    }
}
#[test]
fn functions_of_networks() {
    let x = floats(&[3, 4]);
    let f = |x: &[Tensor]| {
        let y = x[0].softmax(-1);
        tuple(&[&F::gelu(&y), &(&y / 2.0), &y.gt(0.5), &y.max_dim(1, false).values])
    };
    let p = program(f, &["x"], &[x.clone()], DynamicShapes::new().with("x", [(0, Dim::new("n"))])).unwrap();
    assert_eq!(
        p.operators(),
        [
            "aten.div.Tensor",
            "aten.gelu.default",
            "aten.gt.Scalar",
            "aten.max.dim",
            "aten.softmax.int",
            "operator.getitem"
        ]
    );
    round_trip("functions", &p, &[vec![x], vec![floats(&[6, 4])]]);
}

/// Programs that PyTorch wrote (all of the folder `FLAMBEAU_GRAPHS`) are written again: the same program here, and in PyTorch.
#[test]
fn pytorchs_programs_are_written_again() {
    let Ok(folder) = std::env::var("FLAMBEAU_GRAPHS") else {
        println!("skipped: FLAMBEAU_GRAPHS names no folder of programs");
        return;
    };
    let out = std::env::temp_dir().join(format!("flambeau_export_{}_again", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "pt2"));
    files.sort();
    for f in &files {
        count += 1;
        let p = load(f).unwrap();
        let path = out.join(f.file_name().unwrap());
        match save(&p, &path).and_then(|()| load(&path)) {
            Ok(again) => {
                if again.to_string() != p.to_string() || again.guards_code != p.guards_code {
                    wrong.push(format!("{}: another program", f.display()));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", f.display())),
        }
    }
    if let Some(python) = python_with("torch") {
        let script = "import sys, glob, torch\n\
            for f in sorted(glob.glob(sys.argv[1] + '/*.pt2')):\n\
            \x20 try:\n\
            \x20   torch.export.load(sys.argv[2] + f[len(sys.argv[1]):])\n\
            \x20 except Exception:\n\
            \x20   continue # classes of a program that is not here\n\
            \x20 try:\n\
            \x20   torch.export.load(f)\n\
            \x20 except Exception as e:\n\
            \x20   print(f, type(e).__name__, str(e)[:300].replace(chr(10), ' | '))\n";
        let mut c = Command::new(python);
        c.arg("-c").arg(script).arg(&out).arg(&folder);
        wrong.extend(output(&mut c, "").lines().map(|l| format!("PyTorch: {l}")));
    }
    if wrong.is_empty() {
        std::fs::remove_dir_all(&out).unwrap();
    }
    assert!(wrong.is_empty(), "{} faults in {count} programs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn data_classes_are_arguments_and_results() {
    let batch = register_dataclass("example.Batch", &["images", "labels"]).unwrap();
    let images = floats(&[2, 3]);
    let arg = batch.value([images.clone().into(), Value::None]).unwrap();
    let run = |args: &[Value], _: &Kwargs| -> Result<Value> {
        let Value::Tensor(ref x) = batch.field(&args[0], "images")? else { panic!("no tensor") };
        batch.value([Value::None, (x * 2.0).into()])
    };
    let p =
        try_export_values(None, run, std::slice::from_ref(&arg), ExportOptions::new().names(&["b"])).unwrap();
    let m = p.module().unwrap();
    let out = m.run(std::slice::from_ref(&arg), &[]).unwrap();
    assert!(matches!(batch.field(&out, "images"), Ok(Value::None)));
    let Ok(Value::Tensor(ref y)) = batch.field(&out, "labels") else { panic!("no tensor") };
    assert_eq!(y.to_vec::<f32>(), (&images * 2.0).to_vec::<f32>());
    // another field is None
    let other = batch.value([Value::None, images.into()]).unwrap();
    assert!(m.run(&[other], &[]).is_err());
    assert!(batch.value([]).is_err() && batch.field(&Value::None, "images").is_err());
    for (class, fields) in
        [("collections.OrderedDict", ["a", "b"]), ("a b", ["a", "b"]), ("A", ["a", "a"]), ("A", ["1", "b"])]
    {
        assert!(register_dataclass(class, &fields).is_err(), "{class} {fields:?}");
    }
}
