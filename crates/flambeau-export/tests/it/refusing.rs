//! Programs that cannot be exported, of which PyTorch says what it saw in Python's source; here it is said of the Rust program.

use crate::exporting::floats;
use flambeau_autograd::control_flow::try_cond;
use flambeau_core::dispatch::object::{Object, ObjectRef};
use flambeau_core::{Result, Tensor, Value, functions as torch};
use flambeau_export::{Dim, DynamicShapes, ExportOptions, try_export_values};
use std::any::Any;

/// What is said of a program with these inputs.
fn refusal(
    f: impl Fn(&[Tensor]) -> Result<Value>,
    inputs: &[Tensor],
    names: &'static [&'static str],
    shapes: DynamicShapes,
) -> String {
    let run = |args: &[Value], _: &flambeau_core::dispatch::object::Kwargs| {
        let given: Vec<Tensor> = args.iter().filter_map(|v| v.clone().into_tensor().ok()).collect();
        f(&given)
    };
    let inputs: Vec<Value> = inputs.iter().map(Value::from).collect();
    let o = ExportOptions::new().names(names).dynamic_shapes(shapes);
    match try_export_values(None, run, &inputs, o) {
        Ok(p) => panic!("exported:\n{p}"),
        Err(e) => e.message().to_string(),
    }
}
fn fixed() -> DynamicShapes {
    DynamicShapes::new()
}

#[test]
fn data_cannot_decide() {
    // data_dependent_branch
    let branch = |x: &[Tensor]| {
        Ok(if x[0].sum().gt(0.0).try_item::<bool>()? { &x[0] + 1.0 } else { &x[0] - 1.0 }.into())
    };
    let e = refusal(branch, &[floats(&[3])], &["x"], fixed());
    assert!(e.contains("being captured"), "{e}");
    // unbacked_guard
    let guard = |x: &[Tensor]| {
        let k = x[1].try_item::<i64>()?;
        let y = if k > 2 { x[0].narrow(0, 0, k) } else { x[0].clone() };
        Ok(y.into())
    };
    let e = refusal(guard, &[floats(&[5]), torch::full([0i64; 0], 3)], &["x", "n"], fixed());
    assert!(e.contains("being captured"), "{e}");
    // numpy_conversion
    let number = |x: &[Tensor]| Ok((&x[0] * x[0].sum().try_item::<f64>()?).into());
    let e = refusal(number, &[floats(&[3])], &["x"], fixed());
    assert!(e.contains("being captured"), "{e}");
}
#[test]
fn branches_must_agree() {
    // cond_branch_shapes
    let shapes = |x: &[Tensor]| {
        let y = try_cond(&x[0].sum().gt(0.0), |t: &Tensor| Ok(t.sum()), |t: &Tensor| Ok(t * 2.0), &x[0])?;
        Ok(y.into())
    };
    let e = refusal(shapes, &[floats(&[3])], &["x"], fixed());
    assert!(e.contains("the branches give other tensors: float32[] and float32[3]"), "{e}");
    // cond_branch_count
    let count = |x: &[Tensor]| {
        let two = |t: &Tensor| Ok(vec![t.clone(), t.clone()]);
        let y = try_cond(&x[0].sum().gt(0.0), two, |t: &Tensor| Ok(vec![t.clone()]), &x[0])?;
        Ok(Value::Tuple(y.into_iter().map(Value::Tensor).collect()))
    };
    let e = refusal(count, &[floats(&[3])], &["x"], fixed());
    assert!(e.starts_with("cond: the branches give"), "{e}");
}
#[test]
fn derived_sizes_must_fit() {
    // derived_dim_mismatch
    let shapes = DynamicShapes::new().with("x", [(0, Dim::new("n"))]).with("y", [(0, 2 * Dim::new("n"))]);
    let joined = |x: &[Tensor]| Ok((torch::cat([&x[0], &x[0]], 0) + &x[1]).into());
    let e = refusal(joined, &[floats(&[3]), floats(&[7])], &["x", "y"], shapes);
    assert!(e.contains('7') && (e.contains('3') || e.contains('6')), "{e}");
}
#[test]
fn results_are_values_of_programs() {
    // returns_unsupported_object
    struct Thing;
    impl Object for Thing {
        fn type_name(&self) -> &'static str {
            "Thing"
        }
        fn method(
            &self,
            _: &str,
            _: &[Value],
            _: &flambeau_core::dispatch::object::Kwargs,
        ) -> Result<Vec<Value>> {
            Ok(Vec::new())
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    let e = refusal(|_| Ok(Value::Object(ObjectRef::new(Thing))), &[floats(&[3])], &["x"], fixed());
    assert!(e.contains("Thing") && e.contains("output"), "{e}");
}
