//! Random index expressions against a live PyTorch, where there is one: results of reading, of assigning, and errors.

use flambeau_test_support::python;
use std::process::Command;
use torch::__core::api::indexing::{getitem, setitem};
use torch::Tensor;
use torch::library::Value;

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n) as i64
    }
}

fn ints(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes)
}
/// One item of an index: Python's text and the value.
fn item(r: &mut Random) -> (String, Value) {
    match r.below(13) {
        0..=1 => {
            let i = r.below(8) - 4;
            (i.to_string(), Value::Int(i))
        }
        2..=4 => {
            let end = |r: &mut Random| (r.below(3) > 0).then(|| r.below(9) - 4);
            let (a, b) = (end(r), end(r));
            // a step of 0 is an error
            let s = (r.below(2) > 0).then(|| r.below(4));
            let text = |x: Option<i64>| x.map_or(String::new(), |x| x.to_string());
            (format!("{}:{}:{}", text(a), text(b), text(s)), Value::Slice([a, b, s]))
        }
        5 => ("None".into(), Value::None),
        6 => ("...".into(), Value::Ellipsis),
        7 => {
            let b = r.below(2) > 0;
            ((if b { "True" } else { "False" }).into(), Value::Bool(b))
        }
        8..=9 => {
            let v: Vec<i64> = (0..1 + r.below(3)).map(|_| r.below(5) - 2).collect();
            (format!("{v:?}"), Value::List(v.iter().map(|i| Value::Int(*i)).collect()))
        }
        10 => {
            let v: Vec<i64> = (0..2).map(|_| r.below(4) - 2).collect();
            (format!("torch.tensor([[{}],[{}]])", v[0], v[1]), Value::Tensor(ints(&v, &[2, 1])))
        }
        11 => {
            let i = r.below(4) - 2;
            (format!("torch.tensor({i})"), Value::Tensor(ints(&[i], &[])))
        }
        _ => {
            let n = 2 + r.below(3);
            let v: Vec<bool> = (0..n).map(|_| r.below(2) > 0).collect();
            let text: Vec<&str> = v.iter().map(|b| if *b { "True" } else { "False" }).collect();
            (
                format!("torch.tensor([{}])", text.join(",")),
                Value::Tensor(
                    ints(&v.iter().map(|b| i64::from(*b)).collect::<Vec<_>>(), &[n]).to(torch::bool),
                ),
            )
        }
    }
}
fn shown(t: &Tensor) -> String {
    format!("{:?} {:?}", t.sizes(), t.to_vec::<i64>()).replace(' ', "")
}

const PYTHON: &str = r#"
import sys, torch
def run(f):
    try:
        t = f()
        return (str(list(t.shape)) + str(t.flatten().tolist())).replace(" ", "")
    except Exception as e:
        return "error " + str(e).split("\n")[0]
for line in sys.stdin:
    index, value = line.rstrip("\n").split("\t")
    x = torch.arange(24).view(2, 3, 4)
    def write():
        exec("x[" + index + "] = " + value)
        return x
    print(run(lambda: eval("x[" + index + "]")) + "\t" + run(write))
"#;

#[test]
fn random_expressions_are_pytorchs() {
    let Some(python) = python::python() else { return };
    let mut r = Random(9);
    let mut cases: Vec<(String, Value, String, Value)> = Vec::new();
    while cases.len() < 1500 {
        let items: Vec<(String, Value)> = (0..1 + r.below(4)).map(|_| item(&mut r)).collect();
        let text = items.iter().map(|i| i.0.clone()).collect::<Vec<_>>().join(",") + ",";
        let index = Value::Tuple(items.into_iter().map(|i| i.1).collect());
        let (vt, value) = match r.below(3) {
            0 => ("7".to_string(), Value::Int(7)),
            1 => ("torch.tensor([50,51])".into(), Value::Tensor(ints(&[50, 51], &[2]))),
            _ => ("torch.tensor([[60]])".into(), Value::Tensor(ints(&[60], &[1, 1]))),
        };
        cases.push((text, index, vt, value));
    }
    let lines: String = cases.iter().map(|c| format!("{}\t{}\n", c.0, c.2)).collect();
    let out = python::output(Command::new(python).args(["-W", "ignore", "-c", PYTHON]), &lines);
    let mut wrong = Vec::new();
    let mut good = 0;
    for ((text, index, vt, value), line) in cases.iter().zip(out.lines()) {
        let (read, written) = line.split_once('\t').unwrap();
        let x = torch::arange(24).view([2, 3, 4]);
        let ours = |r: torch::Result<Tensor>| match r {
            Ok(t) => shown(&t),
            Err(e) => format!("error {}", e.message().lines().next().unwrap_or("")),
        };
        let got = ours(getitem(&x, index));
        let x = torch::arange(24).view([2, 3, 4]);
        let set = ours(setitem(&x, index, value).map(|()| x.clone()));
        for (what, got, want) in [("", got, read), (vt.as_str(), set, written)] {
            good += usize::from(!want.starts_with("error"));
            // one place named twice: which value stays is nobody's promise, the sizes are
            if got != want {
                wrong.push(format!("x[{text}] {what}\n  ours    {got}\n  PyTorch {want}"));
            }
        }
    }
    assert_eq!(out.lines().count(), cases.len());
    assert!(good > 800, "only {good} expressions were valid");
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        2 * cases.len(),
        wrong[..wrong.len().min(25)].join("\n")
    );
}
