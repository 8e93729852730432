//! The judge itself: whatever differs from the record must fail.

use flambeau_conformance::compare::{self, Tol, positions, unordered};
use flambeau_conformance::expr::Expr;
use flambeau_conformance::families::{File, Outcome, outputs};
use flambeau_conformance::report::{Line, Report};
use flambeau_conformance::store::Store;
use flambeau_conformance::{elements, worker};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Element, Tensor, Value};
use serde_json::{Value as J, json};
use std::sync::atomic::{AtomicUsize, Ordering};

const TOL: Tol = Tol::Close { rtol: 1e-3, atol: 1e-6 };

fn t<T: Element>(v: &[T]) -> Tensor {
    Tensor::from_slice(v, v.len())
}
fn close<A: Element, B: Element>(a: &[A], b: &[B]) -> bool {
    compare::compare_tensors(&t(a), &t(b), TOL).is_ok()
}

#[test]
fn values_within_tolerance_only() {
    assert!(close(&[1.0f32, 2.0], &[1.0005f32, 2.0]));
    assert!(!close(&[1.0f32, 2.0], &[1.01f32, 2.0]));
    assert!(!close(&[1.0f32], &[-1.0f32]));
    assert!(!close(&[0.0f32], &[1e-5f32]));
}

#[test]
fn dtype_and_shape_count() {
    assert!(!close(&[1.0f32], &[1.0f64]));
    assert!(!close(&[1i64], &[1i32]));
    assert!(!close(&[1.0f32], &[1.0f32, 1.0]));
    let row = Tensor::from_slice(&[1.0f32, 2.0], [1, 2]);
    assert!(compare::compare_tensors(&row, &t(&[1.0f32, 2.0]), TOL).is_err());
    assert!(compare::compare_tensors(&row, &t(&[1.0f32, 2.0]), Tol::Shape).is_err());
    assert!(compare::compare_tensors(&t(&[9.0f32]), &t(&[1.0f32]), Tol::Shape).is_ok());
}

#[test]
fn integers_exactly_and_large_ones_too() {
    assert!(close(&[i64::MAX], &[i64::MAX]));
    assert!(!close(&[i64::MAX], &[i64::MAX - 1]));
    assert!(!close(&[1000i32], &[1001i32]));
    assert!(!close(&[u64::MAX], &[u64::MAX - 1]));
}

#[test]
fn nan_and_infinities() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert!(close(&[nan, inf], &[nan, inf]));
    assert!(!close(&[1.0f32], &[nan]));
    assert!(!close(&[nan], &[1.0f32]));
    assert!(!close(&[inf], &[-inf]));
    assert!(!close(&[f32::MAX], &[inf]));
    assert!(!close(&[inf], &[f32::MAX]));
}

#[test]
fn bits() {
    let bits = |a: f32, b: f32| compare::compare_tensors(&t(&[a]), &t(&[b]), Tol::Bits).is_ok();
    assert!(bits(1.0, 1.0) && bits(f32::NAN, f32::NAN));
    assert!(!bits(1.0, f32::from_bits(1.0f32.to_bits() + 1)));
    assert!(!bits(0.0, -0.0));
}

#[test]
fn structure_counts() {
    let store = Store::default();
    let v = |g: Value, w: J| compare::value(&g, &w, &store, TOL).is_ok();
    assert!(v(Value::Int(3), json!(3)) && !v(Value::Int(3), json!(4)) && !v(Value::Float(3.0), json!(3)));
    assert!(
        v(Value::Float(1.0), json!(1.0)) && !v(Value::Int(1), json!(1.0)) && !v(Value::Bool(true), json!(1))
    );
    assert!(v(Value::None, J::Null) && !v(Value::None, json!(0)) && !v(Value::Int(0), J::Null));
    let pair = Value::Tuple(vec![Value::Int(1), Value::Int(2)]);
    assert!(v(pair.clone(), json!({"tuple": [1, 2]})));
    assert!(
        !v(pair.clone(), json!({"tuple": [1]}))
            && !v(pair.clone(), json!({"tuple": [1, 2, 3]}))
            && !v(pair, json!(1))
    );
    assert!(
        v(Value::DType(DType::F32), json!({"dtype": "float32"}))
            && !v(Value::DType(DType::F64), json!({"dtype": "float32"}))
    );
    assert!(
        v(Value::Float(f64::NAN), json!({"float": "nan"})) && !v(Value::Float(1.0), json!({"float": "nan"}))
    );
    let d = Value::Dict(vec![("a".into(), Value::Int(1))]);
    assert!(
        v(d.clone(), json!({"dict": {"a": 1}}))
            && !v(d.clone(), json!({"dict": {}}))
            && !v(d, json!({"dict": {"a": 1, "b": 2}}))
    );
}

#[test]
fn positions_of_equal_values_may_differ() {
    let input = t(&[3.0f32, 3.0, 1.0]);
    assert!(positions(&t(&[1i64]), &t(&[0i64]), &input, Some(0)).is_ok());
    assert!(positions(&t(&[2i64]), &t(&[0i64]), &input, Some(0)).is_err());
    assert!(positions(&t(&[7i64]), &t(&[0i64]), &input, None).is_err());
}

#[test]
fn sets_along_the_last_dimension() {
    assert!(unordered(&t(&[1.0f64, 2.0, 2.0]), &t(&[2.0f64, 1.0, 2.0]), TOL).is_ok());
    assert!(unordered(&t(&[1.0f64, 1.0, 2.0]), &t(&[2.0f64, 1.0, 2.0]), TOL).is_err());
}

#[test]
fn elements_follow_strides_and_all_floats_decode() {
    let a = Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6], [2, 3]);
    let col = a.view_raw([2], [3], 1).unwrap();
    assert_eq!(elements::of(&col).unwrap(), elements::Elements::Int(vec![2, 5]));
    let f8 = elements::decode(DType::F8E4M3, &[0x38, 0x01, 0x7e, 0xb8]);
    assert_eq!(f8, elements::Elements::Float(vec![1.0, 2f64.powi(-9), 448.0, -1.0]));
    let f8 = elements::decode(DType::F8E5M2, &[0x3c, 0x7c, 0x01]);
    assert_eq!(f8, elements::Elements::Float(vec![1.0, f64::INFINITY, 2f64.powi(-16)]));
}

#[test]
fn expressions() {
    let num = |s: &str| match Expr::parse(s).unwrap().eval(&[("epoch".into(), Value::Int(6))]).unwrap() {
        Value::Int(i) => i as f64,
        Value::Float(f) => f,
        v => panic!("{v:?}"),
    };
    assert_eq!(num("1 + 2 * 3 ** 2"), 19.0);
    assert_eq!(num("0.95 ** epoch"), 0.95f64.powf(6.0));
    assert_eq!(num("0.5 if epoch % 3 == 0 else 1.1"), 0.5);
    assert_eq!(num("epoch // 4"), 1.0);
    assert_eq!(num("-(1 - 3)"), 2.0);
    assert_eq!(num("1e-4 + 2.5E+1"), 25.0001);
    for text in [
        "(o0[..., :, :o1.shape[-1]] * o1.unsqueeze(-2)) @ o2[..., :o1.shape[-1], :]",
        "torch.linalg.vector_norm(o1, dim=-2)",
        "torch.nn.ModuleDict({'a': torch.nn.Linear(1, 2), 'b': torch.nn.GELU()})",
    ] {
        Expr::parse(text).unwrap();
    }
    assert!(Expr::parse("1 +").is_err() && Expr::parse("(1").is_err() && Expr::parse("1 2").is_err());
}

#[test]
fn outputs_are_matched_by_kind() {
    let two = Value::List(vec![Value::Int(1), Value::Int(2)]);
    assert_eq!(outputs(vec![two.clone()], "list").len(), 2);
    assert_eq!(outputs(vec![two], "single").len(), 1);
    assert_eq!(outputs(vec![Value::Int(1), Value::Int(2)], "namedtuple").len(), 2);
}

/// A set of one file with these cases, run to its end.
fn run(cases: J) -> Vec<Outcome> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("flambeau-judging-{}-{n}", std::process::id()));
    std::fs::create_dir_all(dir.join("ops")).unwrap();
    let file = json!({"name": "x", "call": "torch.numel", "kind": "function", "cases": cases});
    std::fs::write(dir.join("ops/x.json"), file.to_string()).unwrap();
    let mut bytes = Vec::new();
    let header = r#"{"t0":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#;
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend([0u8; 12]);
    std::fs::write(dir.join("ops/x.safetensors"), bytes).unwrap();
    let f = File::open(&dir, "ops/x").unwrap();
    let outcomes = f.cases().iter().map(worker::run).collect();
    std::fs::remove_dir_all(&dir).unwrap();
    outcomes
}

#[test]
fn a_case_from_end_to_end() {
    let case = |out: J| {
        json!({"id": "a", "args": [{"t": "t0"}], "kwargs": {}, "output_kind": "single", "outputs": [out],
               "compare": "values", "rtol": 0.0, "atol": 0.0})
    };
    assert_eq!(run(json!([case(json!(3))])), [Outcome::Passed]);
    assert!(matches!(&run(json!([case(json!(5))]))[..], [Outcome::Failed(_)]));
    let mut unstable = case(json!(5));
    unstable["unstable"] = json!(true);
    assert!(matches!(&run(json!([unstable]))[..], [Outcome::Apart(_)]));
    let mut wrong_argument = case(json!(3));
    wrong_argument["args"] = json!([7]);
    assert!(matches!(&run(json!([wrong_argument]))[..], [Outcome::Failed(_)]));
}

#[test]
fn records_find_what_got_worse() {
    let line = |id: &str, outcome: Outcome| Line {
        file: "ops/x".into(),
        number: 0,
        id: id.into(),
        call: "torch.x".into(),
        core: true,
        outcome,
    };
    let old = Report { lines: vec![line("a", Outcome::Passed), line("b", Outcome::Failed("e".into()))] };
    let record = old.record(0);
    assert!(old.regressions(&record).is_empty());
    let now = Report { lines: vec![line("a", Outcome::Missing("n".into())), line("b", Outcome::Passed)] };
    assert_eq!(now.regressions(&record).iter().map(|l| l.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(now.summary().ends_with("total: 1 passed, 0 failed, 1 not implemented\n"));
}

#[test]
fn onnx_models_pass_only_where_the_script_says_so() {
    use flambeau_conformance::families::graphs::onnx::Judged;
    let end = "files missing, 0 without a file that PyTorch cannot make either\n";
    let all = Judged::read(&format!("2 cases passed, 0 failed, 0 {end}"), "a.b", 2);
    assert!(all.case("0").is_ok() && all.case("1").is_ok());
    let one =
        Judged::read(&format!("FAIL a.b 1: values differ by 1\n1 cases passed, 1 failed, 0 {end}"), "a.b", 2);
    assert!(one.case("0").is_ok() && one.case("1").is_err());
    for bad in [
        String::new(),
        format!("MISSING a.b\n0 cases passed, 0 failed, 1 {end}"),
        format!("1 cases passed, 0 failed, 0 {end}"),
        format!("FAIL a.c 0: other\n1 cases passed, 1 failed, 0 {end}"),
    ] {
        let j = Judged::read(&bad, "a.b", 2);
        assert!(j.case("0").is_err() && j.case("1").is_err(), "{bad}");
    }
}
