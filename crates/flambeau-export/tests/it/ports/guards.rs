//! What is said of inputs that a program was not exported for: PyTorch's words, as the record has them.

use super::{Port, export, functions, nets, networks, x, xy};
use crate::exporting::floats;
use flambeau_core::{DType, Value, functions as torch};
use flambeau_export::{DynamicShapes, ExportOptions, try_export_values};

fn double(sizes: &[i64]) -> Vec<Value> {
    vec![Value::Tensor(floats(sizes).to(DType::F64))]
}

#[test]
fn guards_speak_as_pytorchs() {
    let cases: Vec<(&str, Vec<Value>, &str)> = vec![
        ("bounded_batch", x(&[9, 3]), "Guard failed: x.size()[0] <= 8"),
        ("bounded_batch", x(&[4, 4]), "Guard failed: x.size()[1] == 3"),
        (
            "bounded_batch",
            double(&[4, 3]),
            "mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
        ("doubled_dim", xy(&[3], &[7]), "Guard failed: 2 * x.size()[0] == y.size()[0]"),
        ("multiple_of_four", x(&[2, 14]), "Guard failed: 2 * x.size()[1] % 8 == 0"),
        ("sliding_dim", xy(&[5], &[5]), "Guard failed: x.size()[0] == -1 + y.size()[0]"),
        ("same_dim", xy(&[3, 2], &[4, 4]), "Guard failed: y.size()[0] == x.size()[0]"),
        ("shape_assertion", x(&[3, 6]), "Guard failed: x.size()[1] == 5"),
    ];
    let all: Vec<Port> =
        functions().into_iter().chain(networks()).chain(nets::layered()).chain(nets::functional()).collect();
    let mut wrong = Vec::new();
    for (name, inputs, text) in &cases {
        let p = all.iter().find(|p| p.name == *name).unwrap();
        let said = match export(p).unwrap().module().unwrap().run(inputs, &[]) {
            Ok(_) => "nothing".to_string(),
            Err(e) => e.message().to_string(),
        };
        if said.lines().next() != Some(text) {
            wrong.push(format!("{name}: {said}\n   instead of {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
/// Numbers and texts that a program was exported with are constants.
#[test]
fn constants_are_guarded_in_pytorchs_words() {
    // specialized_integer
    let run = |v: &[Value], _: &flambeau_core::dispatch::object::Kwargs| {
        let [Value::Tensor(x), Value::Int(n)] = v else { panic!("{v:?}") };
        Ok((0..*n).fold(x.clone(), |x, i| x + i).into())
    };
    let o = ExportOptions::new().names(&["x", "n"]).dynamic_shapes(DynamicShapes::new());
    let p = try_export_values(None, run, &[floats(&[3]).into(), Value::Int(2)], o).unwrap();
    let m = p.module().unwrap();
    let e = m.run(&[floats(&[3]).into(), Value::Int(3)], &[]).unwrap_err();
    assert_eq!(e.message(), "Guard failed: n == 2");
    // constants
    let run = |v: &[Value], _: &flambeau_core::dispatch::object::Kwargs| {
        let [Value::Tensor(x), Value::Str(how), Value::Bool(flag), Value::None, Value::Float(f)] = v else {
            panic!("{v:?}")
        };
        let y = if how == "mean" { x.mean_dim(1, false) } else { x.sum_dim(1, false) };
        Ok(if *flag { y * *f } else { y }.into())
    };
    let given = |how: &str, f: f64| {
        let x = torch::ones([2i64, 3]).into();
        vec![x, Value::Str(how.into()), Value::Bool(true), Value::None, Value::Float(f)]
    };
    let names: &[&str] = &["x", "how", "flag", "nothing", "f"];
    let o = ExportOptions::new().names(names).dynamic_shapes(DynamicShapes::new());
    let m = try_export_values(None, run, &given("mean", 0.5), o).unwrap().module().unwrap();
    m.run(&given("mean", 0.5), &[]).unwrap();
    for (how, f, text) in
        [("sum", 0.5, "Guard failed: how == 'mean'"), ("mean", 0.7, "Guard failed: f == 0.5")]
    {
        assert_eq!(m.run(&given(how, f), &[]).unwrap_err().message(), text);
    }
}
