//! Integers that a program reads from its tensors: what PyTorch's export makes of the same programs.

use crate::exporting::{floats, round_trips};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Result, Tensor, Value, functions as torch};
use flambeau_export::{Dim, DynamicShapes, ExportOptions, ExportedProgram, try_export_values};

fn export(
    f: impl Fn(&[Tensor]) -> Result<Value>,
    inputs: &[Tensor],
    shapes: DynamicShapes,
) -> ExportedProgram {
    let run = |args: &[Value], _: &Kwargs| {
        let given: Vec<Tensor> = args.iter().filter_map(|v| v.clone().into_tensor().ok()).collect();
        f(&given)
    };
    let inputs: Vec<Value> = inputs.iter().map(Value::from).collect();
    try_export_values(None, run, &inputs, ExportOptions::new().names(&["x", "n"]).dynamic_shapes(shapes))
        .unwrap()
}
fn n(k: i64) -> Tensor {
    torch::full([0i64; 0], k)
}
type Program = fn(&[Tensor]) -> Result<Value>;

#[test]
fn integers_of_data_are_symbols() {
    let all: [(&str, Program, &[&str], &str, &[i64]); 7] = [
        (
            "zeros",
            |x| Ok((torch::zeros([x[1].try_item::<i64>()?]) + 1.0).into()),
            &[
                "aten._assert_scalar.default",
                "aten.add.Tensor",
                "aten.item.default",
                "aten.zeros.default",
                "operator.ge",
            ],
            "{u0: VR[0, int_oo]}",
            &[0, 1, 7],
        ),
        (
            "narrow",
            |x| Ok(x[0].narrow(0, 0, x[1].try_item::<i64>()?).into()),
            &[
                "aten._assert_scalar.default",
                "aten.item.default",
                "aten.narrow.default",
                "operator.ge",
                "operator.le",
            ],
            "{u0: VR[0, 5]}",
            &[0, 2, 5],
        ),
        (
            "times",
            |x| Ok((&x[0] * x[1].try_item::<i64>()?).into()),
            &["aten.item.default", "aten.mul.Tensor"],
            "{u0: VR[-int_oo, int_oo]}",
            &[-4, 0, 9],
        ),
        (
            "line",
            |x| Ok((&x[0] * (2 * x[1].try_item::<i64>()? + 1)).into()),
            &["aten.item.default", "aten.mul.Tensor", "operator.add", "operator.mul"],
            "{u0: VR[-int_oo, int_oo]}",
            &[-4, 0, 9],
        ),
        (
            "result",
            |x| Ok(Value::Tuple(vec![(&x[0] + 1.0).into(), Value::Int(x[1].try_item::<i64>()?)])),
            &["aten.add.Tensor", "aten.item.default"],
            "{u0: VR[-int_oo, int_oo]}",
            &[-4, 0, 9],
        ),
        (
            "two",
            |x| {
                let (a, b) = (x[1].try_item::<i64>()?, (&x[1] + 1).try_item::<i64>()?);
                Ok((&x[0] * a + b).into())
            },
            &["aten.add.Tensor", "aten.item.default", "aten.mul.Tensor"],
            "{u0: VR[-int_oo, int_oo], u1: VR[-int_oo, int_oo]}",
            &[-4, 0, 9],
        ),
        (
            "of_a_sum",
            |x| {
                let k = x[0].gt(0.0).sum().try_item::<i64>()?;
                Ok((torch::arange(k) + &x[1]).into())
            },
            &[
                "aten._assert_scalar.default",
                "aten.add.Tensor",
                "aten.arange.default",
                "aten.gt.Scalar",
                "aten.item.default",
                "aten.sum.default",
                "operator.ge",
            ],
            "{u0: VR[0, int_oo]}",
            &[1, 3],
        ),
    ];
    let mut files = Vec::new();
    for (name, f, operators, ranges, others) in all {
        let p = export(f, &[floats(&[5]), n(3)], DynamicShapes::new());
        assert_eq!(p.operators(), operators, "{name}\n{p}");
        assert_eq!(p.ranges_text(), ranges, "{name}\n{p}");
        let m = p.module().unwrap();
        let mut inputs = vec![vec![floats(&[5]), n(3)]];
        inputs.extend(others.iter().map(|k| vec![floats(&[5]), n(*k)]));
        for i in &inputs {
            let args: Vec<Value> = i.iter().map(Value::from).collect();
            let (got, want) = (m.run(&args, &[]).unwrap(), f(i).unwrap());
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{name}\n{p}");
        }
        files.push((name, p, inputs));
    }
    let wrong = round_trips("unbacked", &files);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
#[test]
fn ranges_are_asserted() {
    let f: Program = |x| Ok(x[0].narrow(0, 0, x[1].try_item::<i64>()?).into());
    let m = export(f, &[floats(&[5]), n(3)], DynamicShapes::new()).module().unwrap();
    for (k, text) in [
        (6, "Runtime assertion failed for expression u0 <= 5 on node 'le'"),
        (-1, "Runtime assertion failed for expression u0 >= 0 on node 'ge'"),
    ] {
        let e = m.run(&[floats(&[5]).into(), n(k).into()], &[]).unwrap_err();
        assert_eq!(e.message(), text);
    }
}
#[test]
fn they_stand_beside_dynamic_sizes() {
    let f: Program = |x| {
        let k = x[1].try_item::<i64>()?;
        Ok((x[0].repeat([k, 1]) * x[0].size(0)).into())
    };
    let shapes = DynamicShapes::new().with("x", [(0, Dim::new("batch"))]);
    let p = export(f, &[floats(&[3, 2]), n(4)], shapes);
    assert_eq!(p.ranges_text(), "{s77: VR[0, int_oo], u0: VR[0, int_oo]}");
    let m = p.module().unwrap();
    for (b, k) in [(3, 4), (5, 1), (2, 0)] {
        let i = [floats(&[b, 2]), n(k)];
        let args: Vec<Value> = i.iter().map(Value::from).collect();
        assert_eq!(format!("{:?}", m.run(&args, &[]).unwrap()), format!("{:?}", f(&i).unwrap()));
    }
}
