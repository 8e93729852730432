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
    let first = |e: &str| e.lines().next().unwrap_or("").to_string();
    let guard_on = |c: &str| {
        format!(
            "Could not guard on data-dependent expression {c} (unhinted: {c}).  (Size-like symbols: none)"
        )
    };
    let e = refusal(branch, &[floats(&[3])], &["x"], fixed());
    assert_eq!(first(&e), guard_on("Eq(u0, 1)"));
    assert!(e.contains("torch::cond") && e.ends_with(NOTE), "{e}");
    // unbacked_guard
    let guard = |x: &[Tensor]| {
        let k = x[1].try_item::<i64>()?;
        let y = if k > 2 { x[0].narrow(0, 0, k) } else { x[0].clone() };
        Ok(y.into())
    };
    let n = || torch::full([0i64; 0], 3);
    let e = refusal(guard, &[floats(&[5]), n()], &["x", "n"], fixed());
    assert_eq!(first(&e), guard_on("u0 > 2"));
    // the other conditions on an integer
    type Condition = fn(i64) -> bool;
    let conditions: [(Condition, &str); 4] = [
        (|k| k < 9, "u0 < 9"),
        (|k| k == 3, "Eq(u0, 3)"),
        (|k| k % 2 == 1, "Eq(PythonMod(u0, 2), 1)"),
        (|k| k >= 0, "u0 > -1"),
    ];
    for (holds, text) in conditions {
        let guard = |x: &[Tensor]| {
            let y = if holds(x[1].try_item::<i64>()?) { &x[0] * 2.0 } else { &x[0] + 1.0 };
            Ok(y.into())
        };
        let e = refusal(guard, &[floats(&[5]), n()], &["x", "n"], fixed());
        assert_eq!(first(&e), guard_on(text));
    }
    let many = |x: &[Tensor]| Ok((0..x[1].try_item::<i64>()?).fold(x[0].clone(), |y, _| y + 1.0).into());
    let e = refusal(many, &[floats(&[5]), n()], &["x", "n"], fixed());
    let want = "Could not extract specialized integer from data-dependent expression u0 (unhinted: u0).  (Size-like symbols: none)";
    assert_eq!(first(&e), want);
    // the second number that is read
    let second = |x: &[Tensor]| {
        let k = x[1].try_item::<i64>()?;
        Ok(if (&x[1] + k).gt(4).try_item::<bool>()? { &x[0] * k } else { x[0].clone() }.into())
    };
    let e = refusal(second, &[floats(&[5]), n()], &["x", "n"], fixed());
    assert_eq!(first(&e), guard_on("Eq(u1, 1)"));
    // numpy_conversion
    let number = |x: &[Tensor]| Ok((&x[0] * x[0].sum().try_item::<f64>()?).into());
    let e = refusal(number, &[floats(&[3])], &["x"], fixed());
    assert_eq!(first(&e), guard_on("zuf0"));
}
#[test]
fn branches_must_agree() {
    // cond_branch_shapes
    let shapes = |x: &[Tensor]| {
        let y = try_cond(&x[0].sum().gt(0.0), |t: &Tensor| Ok(t.sum()), |t: &Tensor| Ok(t * 2.0), &x[0])?;
        Ok(y.into())
    };
    let e = refusal(shapes, &[floats(&[3])], &["x"], fixed());
    let of = |differ: &str| {
        format!(
            "RuntimeError when making fake tensor call\n  Explanation: Dynamo failed to run FX node with fake tensors: call_function \
             cond(*(FakeTensor(..., size=(), dtype=torch.bool), GraphModule(), GraphModule(), (FakeTensor(..., size=(3,)),)), \
             **{{}}): got RuntimeError(\"When merging two branches' output in torch.cond,  expected same {differ}.\")"
        )
    };
    assert_eq!(e, of("dim but got 0 and 1"));
    let dtypes = |x: &[Tensor]| {
        let whole = |t: &Tensor| Ok(t.to(flambeau_core::DType::I64));
        Ok(try_cond(&x[0].sum().gt(0.0), whole, |t: &Tensor| Ok(t * 2.0), &x[0])?.into())
    };
    assert_eq!(
        refusal(dtypes, &[floats(&[3])], &["x"], fixed()),
        of("dtype but got torch.int64 and torch.float32")
    );
    let sizes = |x: &[Tensor]| {
        let short = |t: &Tensor| Ok(t.narrow(0, 0, 2) * 1.0);
        Ok(try_cond(&x[0].sum().gt(0.0), short, |t: &Tensor| Ok(t * 2.0), &x[0])?.into())
    };
    let e = refusal(sizes, &[floats(&[3])], &["x"], fixed());
    assert!(e.contains("a captured cond whose branches give other sizes, [2] and [3]"), "{e}");
    // cond_branch_count
    let count = |x: &[Tensor]| {
        let two = |t: &Tensor| Ok(vec![t.clone(), t.clone()]);
        let y = try_cond(&x[0].sum().gt(0.0), two, |t: &Tensor| Ok(vec![t.clone()]), &x[0])?;
        Ok(Value::Tuple(y.into_iter().map(Value::Tensor).collect()))
    };
    let e = refusal(count, &[floats(&[3])], &["x"], fixed());
    let captured = "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph \
                    break/error:\n\n";
    let aliasing = format!("{captured}Encountered aliasing during higher order op tracing\n");
    let given =
        |text: &str| text.lines().find(|l| l.contains("debug context")).unwrap_or("").trim().to_string();
    assert!(e.starts_with(&aliasing), "{e}");
    assert_eq!(
        given(&e),
        "Developer debug context: Output-to-output aliasing detected at nodes lifted_0 and lifted_0 in"
    );
    // an input, or a view of one
    for view in [false, true] {
        let same = |x: &[Tensor]| {
            let own = |t: &Tensor| Ok(if view { t.unsqueeze(0) } else { t.clone() });
            let other = |t: &Tensor| Ok(if view { t.unsqueeze(0) } else { t.clone() } * 2.0);
            Ok(try_cond(&x[0].sum().gt(0.0), other, own, &x[0])?.into())
        };
        let e = refusal(same, &[floats(&[3])], &["x"], fixed());
        let name = if view { "unsqueeze" } else { "lifted_0" };
        assert!(e.starts_with(&aliasing), "{e}");
        let want = format!(
            "Developer debug context: Input-to-output aliasing detected at nodes lifted_0 and {name} in"
        );
        assert_eq!(given(&e), want);
    }
    let other = |x: &[Tensor]| {
        let (two, one) = (|t: &Tensor| Ok(vec![t * 2.0, t * 3.0]), |t: &Tensor| Ok(vec![t * 2.0]));
        let y = try_cond(&x[0].sum().gt(0.0), two, one, &x[0])?;
        Ok(Value::Tuple(y.into_iter().map(Value::Tensor).collect()))
    };
    let e = refusal(other, &[floats(&[3])], &["x"], fixed());
    assert!(e.starts_with(&format!("{captured}torch.cond: differing branch outputs\n")), "{e}");
}
const NOTE: &str = "\n\nThe error above occurred when calling torch.export.export. If you would like to view some more information \
about this error, and get a list of all other errors that may occur in your export call, you can replace your `export()` call with \
`draft_export()`.";
const CONSTRAINTS: &str = "For more information, run with TORCH_LOGS=\"+dynamic\".";

fn n() -> DynamicShapes {
    DynamicShapes::new().with("x", [(0, Dim::new("n"))])
}
/// Texts of PyTorch's, whole.
#[test]
fn what_dims_ask_for_is_said_in_pytorchs_words() {
    let w = floats(&[4]);
    let bounded = |low, high| DynamicShapes::new().with("x", [(0, Dim::new("n").min(low).max(high))]);
    // dim_specialized
    let e = refusal(|x| Ok((&x[0] + &w).into()), &[floats(&[4])], &["x"], n());
    let want = "  - You marked n as dynamic but your code specialized it to be a constant (4). If you're using mark_dynamic, either \
                remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or \
                Dim.AUTO.\nSuggested fixes:\n  n = 4";
    assert_eq!(e, format!("Constraints violated (n)! {CONSTRAINTS}\n{want}{NOTE}"));
    // dims_not_equal
    let two = DynamicShapes::new().with("x", [(0, Dim::new("a"))]).with("y", [(0, Dim::new("b"))]);
    let e = refusal(|x| Ok((&x[0] + &x[1]).into()), &[floats(&[4]), floats(&[4])], &["x", "y"], two);
    let want = "  - The values of b = L['y'].size()[0] and a = L['x'].size()[0] must always be equal.\nSuggested fixes:\n  b = a";
    assert_eq!(e, format!("Constraints violated (b)! {CONSTRAINTS}\n{want}{NOTE}"));
    // range_violated_by_code
    let short = |x: &[Tensor]| {
        assert!(x[0].size(0) <= 10, "too long");
        Ok((&x[0] * 2.0).into())
    };
    let e = refusal(short, &[floats(&[4])], &["x"], bounded(2, 100));
    let want = "  - Not all values of n = L['x'].size()[0] in the specified range n <= 100 satisfy the generated guard 2 <= \
                L['x'].size()[0] and L['x'].size()[0] <= 10\nSuggested fixes:\n  n = Dim('n', max=10)";
    assert_eq!(e, format!("Constraints violated (n)! {CONSTRAINTS}\n{want}{NOTE}"));
    // modulo_constraint
    let e = refusal(|x| Ok(x[0].view([-1, 4]).into()), &[floats(&[8])], &["x"], n());
    let want = "  - Not all values of n = L['x'].size()[0] in the specified range satisfy the generated guard (L['x'].size()[0] % 4) \
                == 0.\n  - Not all values of n = L['x'].size()[0] in the specified range satisfy the generated guard \
                (L['x'].size()[0] // 4) != 1.\nSuggested fixes:\n  _n = Dim('_n', min=1, max=oo)\n  n = 4*_n";
    assert_eq!(e, format!("Constraints violated (n)! {CONSTRAINTS}\n{want}{NOTE}"));
    // unknown_dynamic_name
    let shapes = DynamicShapes::new().with("y", [(0, Dim::new("n"))]);
    let e = refusal(|x| Ok((&x[0] + 1.0).into()), &[floats(&[3])], &["x"], shapes);
    let want = "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names ['x'] of `inputs`, but here \
                they are ['y']. Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple \
                matching `inputs`. For more information about this error, see: \
                https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation";
    assert_eq!(e, format!("{want}{NOTE}"));
    // example_outside_range
    let e = refusal(|x| Ok((&x[0] + 1.0).into()), &[floats(&[3])], &["x"], bounded(5, 9));
    assert_eq!(e, format!("3 not in range [5, 9]{NOTE}"));
    // a size that does not follow from the other
    let shapes = n().with("y", [(0, 2 * Dim::new("n"))]);
    let apart = |x: &[Tensor]| Ok(Value::Tuple(vec![(&x[0] + 1.0).into(), (&x[1] + 1.0).into()]));
    let e = refusal(apart, &[floats(&[3]), floats(&[7])], &["x", "y"], shapes);
    assert_eq!(
        e,
        format!("Expected input L['y'].size()[0] to be equal to 2*n, where n = 3, but got 7{NOTE}")
    );
}
/// What operators say of dynamic sizes has them as PyTorch's symbols.
#[test]
fn operators_speak_of_symbols() {
    // wrong_shape_inside
    let view = |x: &[Tensor]| Ok(x[0].view([5]).into());
    assert_eq!(refusal(view, &[floats(&[4])], &["x"], fixed()), "shape '[5]' is invalid for input of size 4");
    assert_eq!(refusal(view, &[floats(&[8])], &["x"], n()), "shape '[5]' is invalid for input of size s77");
    // derived_dim_mismatch: the text ends with a parenthesis that nothing opened, as PyTorch's
    let shapes = n().with("y", [(0, 2 * Dim::new("n"))]);
    let joined = |x: &[Tensor]| Ok(torch::cat([&x[0], &x[0]], 0).add(&x[1]).into());
    let e = refusal(joined, &[floats(&[3]), floats(&[7])], &["x", "y"], shapes);
    let want =
        "The size of tensor a (2*s77) must match the size of tensor b (s17) at non-singleton dimension 0)";
    assert_eq!(e, want);
    // other sizes, other ways: the example's numbers stay
    let ways = |x: &[Tensor]| Ok(if x[0].size(0) > 9 { x[0].mm(&x[0]) } else { x[0].view([1000, 7]) }.into());
    let e = refusal(ways, &[floats(&[8])], &["x"], n());
    assert_eq!(e, "shape '[1000, 7]' is invalid for input of size 8");
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
    let want = "Found <class 'Thing'> in output, which is not a known type. If this type holds tensors, you need to register a pytree \
                for it. See https://github.com/pytorch/functorch/issues/475 for a brief explanation why. If you don't need to \
                register a pytree, please leave a comment explaining your use case and we'll make this more ergonomic to deal with";
    assert_eq!(e, want);
}
