//! Programs in the core set.

use crate::exporting::floats;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Result, Tensor, Value, functions as torch, ops};
use flambeau_export::graph_signature::OutputKind;
use flambeau_export::{
    CustomDecompTable, Dim, ExportOptions, ExportedProgram, default_decompositions, load, save,
    try_export_values, try_export_with,
};
use flambeau_fx::{Argument, Graph, GraphModule, Op, Val};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn_functional::functional as F;
use flambeau_test_support::python::{output, python_with};
use std::process::Command;

#[derive(Debug, Module)]
struct Net {
    conv: nn::Conv2d,
    norm: nn::LayerNorm,
    fc: nn::Linear,
}
#[nn::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = F::max_pool2d(&self.conv.call(x).relu(), 2);
        let y = ops::flatten(&y, 1, -1).unwrap();
        torch::softmax(&self.fc.call(&self.norm.call(&y)), 1)
    }
}
fn net() -> Net {
    Net { conv: nn::Conv2d::new(1, 2, 3), norm: nn::LayerNorm::new(8), fc: nn::Linear::new(8, 3) }
}
fn program(m: &Net) -> ExportedProgram {
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").max(16))]);
    try_export_with(m, |x: &[Tensor]| m.try_call(&x[0]), &[&floats(&[3, 1, 6, 6])], o).unwrap()
}
fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()) {
        assert!((x - y).abs() <= 1e-5 + 1e-5 * y.abs(), "{x} instead of {y}");
    }
}

#[test]
fn composites_become_parts_at_all_sizes() {
    let m = net();
    let p = program(&m).run_decompositions(&default_decompositions()).unwrap();
    assert_eq!(
        p.operators(),
        [
            "aten._softmax.default",
            "aten.addmm.default",
            "aten.convolution.default",
            "aten.max_pool2d_with_indices.default",
            "aten.native_layer_norm.default",
            "aten.permute.default",
            "aten.relu.default",
            "aten.sym_size.int",
            "aten.view.default",
            "operator.getitem",
        ]
    );
    let path = std::env::temp_dir().join(format!("decomposed-{}.pt2", std::process::id()));
    save(&p, &path).unwrap();
    let read = load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for n in [2, 5, 16] {
        let x = floats(&[n, 1, 6, 6]);
        for p in [&p, &read] {
            close(&p.module().unwrap().try_forward(&[&x]).unwrap(), &m.call(&x));
        }
    }
    let e = p.module().unwrap().try_forward(&[&floats(&[17, 1, 6, 6])]).unwrap_err();
    assert_eq!(e.message(), "Guard failed: x.size()[0] <= 16");
}
#[test]
fn tables_say_what_is_decomposed() {
    let p = program(&net());
    let before = p.operators();
    assert_eq!(p.run_decompositions(&CustomDecompTable::empty()).unwrap().operators(), before);
    let mut table = default_decompositions();
    assert!(table.remove("aten.linear.default") && !table.remove("aten.linear.default"));
    assert!(!table.remove("aten.no_such_thing.default"));
    assert!(!table.materialize().contains(&"aten.linear.default".to_string()));
    let p = p.run_decompositions(&table).unwrap();
    assert!(p.operators().contains(&"aten.linear.default".to_string()), "{:?}", p.operators());
}

#[test]
fn special_functions_and_products_become_parts() {
    let named = |name: &str, args: &[Value]| {
        let out = flambeau_library::call_value(name, args, &[])?.into_tensor();
        out.map_err(|_| flambeau_core::Error::type_("no tensor"))
    };
    // operators that each name becomes, beside those of the others
    let unary = ["torch.sinc", "torch.special.entr", "torch.special.expit", "torch.rad2deg", "torch.deg2rad"];
    let binary = ["torch.xlogy", "torch.logaddexp", "torch.heaviside", "torch.kron"];
    let none = nn::Sequential::new((nn::Tanh::new(),));
    for name in unary.iter().chain(&binary) {
        let args = |x: &Tensor| match binary.contains(name) {
            true => vec![Value::from(x), Value::from(&(x + 0.5))],
            false => vec![Value::from(x)],
        };
        let f = |x: &[Tensor]| named(name, &args(&x[0]));
        let o = ExportOptions::new().names(&["x"]);
        let p = try_export_with(&none, f, &[&floats(&[2, 3])], o).unwrap();
        let core = p.run_decompositions(&default_decompositions()).unwrap();
        let own = format!("aten.{}.", name.trim_start_matches("torch.").replace('.', "_"));
        assert!(core.operators().iter().all(|o| !o.starts_with(&own)), "{name}: {:?}", core.operators());
        let x = floats(&[2, 3]).abs() + 0.25;
        close(&core.module().unwrap().try_forward(&[&x]).unwrap(), &named(name, &args(&x)).unwrap());
    }
}
#[test]
fn many_bytes_are_read_by_several_threads() {
    let m = nn::Linear::new(1024, 1100);
    let x = floats(&[2, 1024]);
    let p = try_export_with(&m, |x: &[Tensor]| m.try_call(&x[0]), &[&x], ExportOptions::new()).unwrap();
    let path = std::env::temp_dir().join(format!("many-bytes-{}.pt2", std::process::id()));
    save(&p, &path).unwrap();
    let read = load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let names =
        |p: &ExportedProgram| p.module().unwrap().state().into_iter().map(|s| s.0).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&p));
    for ((_, a), (_, b)) in read.module().unwrap().state().iter().zip(p.module().unwrap().state()) {
        assert_eq!(a.to_vec::<f32>(), b.to_vec::<f32>());
    }
}
#[test]
fn integers_are_divided_while_a_program_is_decomposed() {
    let none = nn::Sequential::new((nn::Tanh::new(),));
    let f = |x: &[Tensor]| ops::floor_divide(&x[0], &x[1]);
    let (a, b) = (Tensor::from_vec(vec![7i64, -7, 9], [3]), Tensor::from_vec(vec![2i64, 2, 4], [3]));
    let o = ExportOptions::new().names(&["a", "b"]);
    let p = try_export_with(&none, f, &[&a, &b], o).unwrap();
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    let y = core.module().unwrap().try_forward(&[&a, &b]).unwrap();
    assert_eq!(y.to_vec::<i64>(), [3, -4, 2]);
}

/// Writes to a view of its input, and to the whole.
fn writes(x: &Tensor) -> Result<Tensor> {
    let y = ops::clone(x, None)?;
    ops::select(&y, 0, 1)?.mul_(3.0);
    ops::slice(&ops::t(&y)?, 0, Some(0), Some(1), 1)?.add_(1.0);
    Ok(torch::sum_dim(&y, 1, false))
}
#[test]
fn writes_become_new_values() {
    let none = nn::Sequential::new((nn::Tanh::new(),));
    let o = ExportOptions::new().names(&["x"]).dynamic("x", [(1, Dim::new("columns"))]);
    let p = try_export_with(&none, |x: &[Tensor]| writes(&x[0]), &[&floats(&[3, 4])], o).unwrap();
    assert!(p.operators().iter().any(|o| o.contains("mul_")), "{:?}", p.operators());
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    assert!(core.operators().iter().all(|o| !o.contains("_.")), "{:?}", core.operators());
    for n in [2, 4, 9] {
        let x = floats(&[3, n]);
        close(&core.module().unwrap().try_forward(&[&x]).unwrap(), &writes(&x).unwrap());
    }
}
#[test]
fn new_values_of_buffers_are_results() {
    let m = nn::BatchNorm1d::new(4);
    let x = floats(&[6, 4]);
    let p = try_export_with(&m, |x: &[Tensor]| m.try_call(&x[0]), &[&x], ExportOptions::new()).unwrap();
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    let kinds: Vec<_> =
        core.graph_signature.output_specs.iter().map(|s| (s.kind, s.target.clone())).collect();
    let buffer = |n: &str| (OutputKind::BufferMutation, Some(n.to_string()));
    assert_eq!(
        kinds,
        [
            buffer("running_mean"),
            buffer("running_var"),
            buffer("num_batches_tracked"),
            (OutputKind::UserOutput, None)
        ]
    );
    let run = core.module().unwrap();
    close(&run.try_forward(&[&x]).unwrap(), &m.call(&x));
    let mean = |l: Vec<(String, Tensor)>| l.into_iter().find(|(n, _)| n == "running_mean").map(|(_, t)| t);
    assert!(mean(run.state()).is_some_and(|t| t.to_vec::<f32>().iter().any(|v| *v != 0.0)));
}
#[test]
fn pytorch_opens_decomposed_programs() {
    let Some(python) = python_with("torch") else { return };
    let m = net();
    let p = program(&m).run_decompositions(&default_decompositions()).unwrap();
    let path = std::env::temp_dir().join(format!("decomposed-python-{}.pt2", std::process::id()));
    save(&p, &path).unwrap();
    let x = floats(&[5, 1, 6, 6]);
    let code = format!(
        "import torch\nm = torch.export.load({:?}).module()\nx = torch.tensor({:?}).reshape(5, 1, 6, 6)\n\
         print(m(x).flatten().tolist())",
        path.to_string_lossy(),
        x.to_vec::<f32>()
    );
    let said = output(Command::new(python).args(["-c", &code]), "");
    std::fs::remove_file(&path).unwrap();
    let got: Vec<f32> =
        said.trim().trim_matches(['[', ']']).split(", ").map(|n| n.parse().unwrap()).collect();
    let want = m.call(&x).to_vec::<f32>();
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-5), "{got:?} {want:?}");
}

/// `wrap_with_autocast` over a graph, as PyTorch exports a region.
fn region(p: &ExportedProgram) -> ExportedProgram {
    let mut out = p.clone();
    let mut inner = p.graph_module.graph.clone();
    // what products give in a region
    for n in inner.nodes().collect::<Vec<_>>() {
        let product = ["linear", "mm", "t"].contains(&inner.node(n).name.as_str());
        if let (true, Some(Val::Tensor(t))) = (product, &mut inner.meta_mut(n).val) {
            t.dtype = flambeau_core::DType::BF16;
        }
    }
    let results: Vec<String> = match inner.node(inner.output_node().unwrap()).args() {
        [Argument::Tuple(l)] => l.iter().map(|a| inner.node(a.node().unwrap()).name.clone()).collect(),
        other => panic!("{} results", other.len()),
    };
    let mut g = Graph::new();
    let inputs: Vec<Argument> = inner
        .find_nodes(Op::Placeholder, None)
        .into_iter()
        .map(|n| {
            let d = inner.node(n);
            let new = g.create_node(Op::Placeholder, &d.target, Vec::new(), Vec::new(), Some(&d.name));
            *g.meta_mut(new) = d.meta.clone();
            new.into()
        })
        .collect();
    let f = g.get_attr("submod_1");
    let dtype = Argument::Value(Value::DType(flambeau_core::DType::BF16));
    let mut args = vec!["cpu".into(), dtype, true.into(), false.into(), f.into()];
    args.extend(inputs);
    let call = g.call_function("torch.ops.higher_order.wrap_with_autocast", args, []);
    let mut all = Vec::new();
    for (i, name) in results.iter().enumerate() {
        let args = vec![call.into(), Argument::from(i as i64)];
        let part = g.create_node(Op::CallFunction, "operator.getitem", args, Vec::new(), Some(name));
        g.meta_mut(part).val = inner.node(inner.named(name).unwrap()).meta.val.clone();
        all.push(part.into());
    }
    g.output(Argument::Tuple(all));
    out.graph_module.set_graph("submod_1", GraphModule::new(inner));
    out.graph_module.graph = g;
    out
}
#[test]
fn regions_with_autocast_become_casts() {
    let run = |x: &[Tensor]| -> Result<Value> {
        let y = F::linear(&x[0], &x[1], None);
        let z = torch::mm(&y, &y.t());
        let p = z.prod_dim(1, false);
        Ok(Value::Tuple(vec![y.into(), z.into(), p.into()]))
    };
    let (x, w) = (floats(&[3, 4]), floats(&[5, 4]));
    let o = ExportOptions::new().names(&["x", "w"]).dynamic("x", [(0, Dim::new("rows").min(2))]);
    let values = [Value::from(&x), Value::from(&w)];
    let given = |v: &[Value], _: &Kwargs| -> Result<Value> {
        run(&v.iter().filter_map(|v| v.clone().into_tensor().ok()).collect::<Vec<_>>())
    };
    let p = try_export_values(None, given, &values, o).unwrap();
    let p = region(&p);
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    assert_eq!(
        core.operators(),
        ["aten._to_copy.default", "aten.mm.default", "aten.permute.default", "aten.prod.dim_int"]
    );
    let text = core.to_string();
    // products of matrices run in bfloat16, those of elements in float32
    assert!(text.contains("\"bf16[s77, 5]\" = torch.ops.aten.mm.default"), "{text}");
    assert!(text.contains("\"bf16[s77, s77]\" = torch.ops.aten.mm.default"), "{text}");
    let widened = "\"f32[s77, s77]\" = torch.ops.aten._to_copy.default(mm_1, dtype = torch.float32)";
    assert!(text.contains(widened), "{text}");
    let bf16 = flambeau_amp::AutocastOptions::new("cpu").dtype(flambeau_core::DType::BF16);
    for n in [2, 6] {
        let x = floats(&[n, 4]);
        let want = flambeau_amp::autocast(bf16.clone(), || run(&[x.clone(), w.clone()]).unwrap());
        let got = core.module().unwrap().run(&[(&x).into(), (&w).into()], &[]).unwrap();
        for (g, w) in got.items().unwrap().iter().zip(want.items().unwrap()) {
            let (Value::Tensor(g), Value::Tensor(w)) = (g, w) else { panic!("tensors") };
            assert!(g.dtype() == w.dtype() && g.equal(w));
        }
    }
}
