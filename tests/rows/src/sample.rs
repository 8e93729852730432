//! Sample arguments of table rows: by schema, and by the row's `sample` where the schema does not say enough.
//!
//! A tensor in a sample is a text: a kind, sizes or values, and what values it may have.
//!
//! | text | tensor |
//! |---|---|
//! | `f(2,3)` | float64 that wants a gradient; complex128 in the complex run |
//! | `r(2,3)` | the same, but float64 in the complex run too |
//! | `n(2,3)` | float64, a constant |
//! | `s(2,3)` | float32, a constant |
//! | `c(2,3)` | complex128 that wants a gradient |
//! | `i(2,3) 5` | int64 below 5 |
//! | `p[1,2]` | int32, these values |
//! | `b(2,3)` | bool |
//! | `f(2,3) 1..2` | values between 1 and 2 |
//! | `i[2,0,1]`, `f[0.5,1.5](1,2)` | these values, in one dimension or in these sizes |
//! | `none` | no tensor |

use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::schema::{Arg, Default_, Ty};
use flambeau_core::{B8, DType, Tensor, Value};
use num_complex::Complex;

/// What a run wants of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// Between 0.15 and 0.85 where the sample does not say otherwise.
    Positive,
    /// Of both signs.
    Signed,
    /// `f` tensors are complex.
    Complex,
    /// Tensors that the sample leaves to the schema have no dimension.
    ZeroDim,
    /// They have no element.
    Empty,
}

/// Arguments of one call, with the places of the tensors that want a gradient.
pub struct Call {
    pub args: Vec<Value>,
    /// Argument, and place in it where that is a list.
    pub leaves: Vec<(usize, Option<usize>)>,
    /// Some value range was left to the run.
    pub open: bool,
}

impl Call {
    pub fn leaf_tensors(&self) -> Vec<Tensor> {
        let at = |&(i, j): &(usize, Option<usize>)| match (&self.args[i], j) {
            (Value::Tensor(t), None) => t.clone(),
            (Value::List(l), Some(j)) => match &l[j] {
                Value::Tensor(t) => t.clone(),
                v => panic!("{} is no tensor", v.type_name()),
            },
            (v, _) => panic!("{} is no tensor", v.type_name()),
        };
        self.leaves.iter().map(at).collect()
    }
    /// The arguments with other tensors at the places of the leaves.
    pub fn with(&self, leaves: &[Tensor]) -> Vec<Value> {
        let mut args = self.args.clone();
        for (&(i, j), t) in self.leaves.iter().zip(leaves) {
            match (&mut args[i], j) {
                (Value::List(l), Some(j)) => l[j] = Value::Tensor(t.clone()),
                (slot, _) => *slot = Value::Tensor(t.clone()),
            }
        }
        args
    }
    /// Takes an argument's tensors out of the leaves.
    pub fn freeze(&mut self, arg: usize) {
        self.leaves.retain(|l| l.0 != arg);
    }
}

/// Distinct values in an order that follows no pattern.
struct Values(u64);
impl Values {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut v: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            v.swap(i, self.word() as usize % (i + 1));
        }
        v
    }
    /// `n` values, one in the middle part of each of `n` equal steps.
    fn floats(&mut self, n: usize, lo: f64, hi: f64) -> Vec<f64> {
        let at = |i: usize, u: f64| lo + (hi - lo) * (i as f64 + 0.25 + 0.5 * u) / n as f64;
        self.order(n).into_iter().map(|i| at(i, (self.word() >> 11) as f64 / (1u64 << 53) as f64)).collect()
    }
    /// Of both signs, away from 0.
    fn signed(&mut self, n: usize) -> Vec<f64> {
        let v = self.floats(n, 0.15, 0.85);
        v.into_iter().enumerate().map(|(i, x)| if (i ^ self.0 as usize) & 1 == 0 { x } else { -x }).collect()
    }
}

struct Maker {
    run: Run,
    scale: i64,
    values: Values,
    open: bool,
}

/// What stands between the brackets, and what follows them.
fn bracketed(text: &str, close: char) -> (Vec<&str>, &str) {
    let end = text.find(close).unwrap_or_else(|| panic!("sample `{text}`: no `{close}`"));
    let items = text[1..end].split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
    (items, text[end + 1..].trim())
}
fn number<T: std::str::FromStr>(s: &str) -> T {
    s.trim().parse().unwrap_or_else(|_| panic!("sample: `{s}` is no number"))
}

impl Maker {
    fn floats(&mut self, n: usize, range: &str) -> Vec<f64> {
        if let Some((lo, hi)) = range.split_once("..") {
            return self.values.floats(n, number(lo), number(hi));
        }
        assert!(range.is_empty(), "sample: `{range}` is no range");
        self.open = true;
        match self.run {
            Run::Signed | Run::Complex => self.values.signed(n),
            _ => self.values.floats(n, 0.15, 0.85),
        }
    }
    /// The tensor, and whether it wants a gradient.
    fn tensor(&mut self, spec: &str) -> Option<(Tensor, bool)> {
        let kind = spec.chars().next()?;
        let rest = &spec[1..];
        if spec == "none" {
            return None;
        }
        let given = rest.starts_with('[');
        let (items, mut range) = bracketed(rest, if given { ']' } else { ')' });
        let mut sizes: Vec<i64> = vec![items.len() as i64];
        if !given {
            sizes = items
                .iter()
                .map(|s| number(s))
                .map(|n: i64| if n > 1 { n * self.scale } else { n })
                .collect();
        } else if range.starts_with('(') {
            let (dims, rest) = bracketed(range, ')');
            sizes = dims.iter().map(|s| number(s)).collect();
            range = rest;
        }
        let n: usize = sizes.iter().product::<i64>() as usize;
        let make = |v: Vec<f64>| Tensor::from_vec_raw(v, &sizes).unwrap();
        let complex = kind == 'c' || kind == 'f' && self.run == Run::Complex;
        let t = match kind {
            'f' | 'r' | 'n' | 's' | 'c' => {
                let re: Vec<f64> =
                    if given { items.iter().map(|s| number(s)).collect() } else { self.floats(n, range) };
                if complex {
                    let im = self.values.signed(n);
                    let v: Vec<Complex<f64>> =
                        re.iter().zip(im).map(|(a, b)| Complex::new(*a, 0.8 * b)).collect();
                    Tensor::from_vec_raw(v, &sizes).unwrap()
                } else if kind == 's' {
                    make(re).try_to(DType::F32).unwrap()
                } else {
                    make(re)
                }
            }
            'i' => {
                let v: Vec<i64> = if given {
                    items.iter().map(|s| number(s)).collect()
                } else {
                    let below: i64 = number(range);
                    (0..n).map(|_| (self.values.word() >> 8) as i64 % below).collect()
                };
                Tensor::from_vec_raw(v, &sizes).unwrap()
            }
            'p' => {
                let v: Vec<i32> = items.iter().map(|s| number(s)).collect();
                Tensor::from_vec_raw(v, &sizes).unwrap()
            }
            'b' => {
                let v: Vec<B8> = self.values.order(n).into_iter().map(|i| B8::from(i % 2 == 0)).collect();
                Tensor::from_vec_raw(v, &sizes).unwrap()
            }
            _ => panic!("sample `{spec}`: no kind `{kind}`"),
        };
        Some((t, matches!(kind, 'f' | 'r' | 'c')))
    }
    fn given(&mut self, arg: &Arg, v: &toml::Value) -> (Value, Vec<Option<usize>>) {
        let is_tensor = matches!(arg.ty, Ty::Tensor | Ty::OptTensor);
        match v {
            toml::Value::String(s) if is_tensor => match self.tensor(s) {
                Some((t, leaf)) => (Value::Tensor(t), if leaf { vec![None] } else { vec![] }),
                None => (Value::None, vec![]),
            },
            // a list form with its row's sample: two tensors of the kind
            toml::Value::String(s) if arg.ty == Ty::TensorList => {
                self.given(arg, &toml::Value::Array(vec![s.as_str().into(), s.as_str().into()]))
            }
            toml::Value::Float(_) | toml::Value::Integer(_) if arg.ty == Ty::ScalarList => {
                (Value::List(vec![plain(arg, v), plain(arg, v)]), vec![])
            }
            toml::Value::Array(a) if matches!(arg.ty, Ty::TensorList | Ty::OptTensorList) => {
                let (mut list, mut leaves) = (Vec::new(), Vec::new());
                for (j, s) in a.iter().enumerate() {
                    let spec = s.as_str().unwrap_or_else(|| panic!("sample: {s:?} is no tensor"));
                    list.push(match self.tensor(spec) {
                        Some((t, leaf)) => {
                            if leaf {
                                leaves.push(Some(j));
                            }
                            Value::Tensor(t)
                        }
                        None => Value::None,
                    });
                }
                (Value::List(list), leaves)
            }
            other => (plain(arg, other), vec![]),
        }
    }
    /// What the schema alone suggests.
    fn generic(&mut self, arg: &Arg) -> (Value, Vec<Option<usize>>) {
        let sizes = match self.run {
            Run::ZeroDim => "()",
            Run::Empty => "(0,3)",
            _ => "(3,3)",
        };
        let tensor = |m: &mut Self, spec: &str| match m.tensor(&spec.replace("(3,3)", sizes)) {
            Some((t, leaf)) => (Value::Tensor(t), if leaf { vec![None] } else { vec![] }),
            None => (Value::None, vec![]),
        };
        let ints = |v: &[i64]| Value::List(v.iter().map(|i| Value::Int(*i)).collect());
        let value = match (arg.default, arg.ty) {
            (Default_::Required, Ty::Tensor) => {
                return match arg.name {
                    "index" | "indices" => tensor(self, "i(3,3) 3"),
                    "mask" | "condition" => tensor(self, "b(3,3)"),
                    _ => tensor(self, "f(3,3)"),
                };
            }
            (Default_::Required, Ty::TensorList) => {
                let (a, b) = (self.tensor(&format!("f{sizes}")), self.tensor(&format!("f{sizes}")));
                let list = [a, b].into_iter().flatten().map(|(t, _)| Value::Tensor(t)).collect();
                return (Value::List(list), vec![Some(0), Some(1)]);
            }
            (
                Default_::Required,
                Ty::OptTensor | Ty::OptInt | Ty::OptIntList(_) | Ty::OptBool | Ty::OptGenerator,
            ) => Value::None,
            (Default_::Required, Ty::Int) => Value::Int(i64::from(arg.name != "dim0" && arg.name != "axis0")),
            (Default_::Required, Ty::Scalar | Ty::Float) => Value::Float(0.5),
            (Default_::Required, Ty::ScalarList) => Value::List(vec![Value::Float(0.5), Value::Float(2.0)]),
            (Default_::Required, Ty::Bool) => Value::Bool(false),
            (Default_::Required, Ty::IntList(_)) => match arg.name {
                "size" | "shape" => ints(&[3, 3]),
                "dim" | "dims" => ints(&[0]),
                _ => ints(&[1, 2]),
            },
            (Default_::Required, ty) => panic!("argument `{}` of type {ty:?} needs a sample", arg.name),
            (Default_::None, _) => Value::None,
            (Default_::Int(i), _) => Value::Int(i),
            (Default_::Float(f), _) => Value::Float(f),
            (Default_::Bool(b), _) => Value::Bool(b),
            (Default_::Str(s), _) => Value::Str(s.to_string()),
            (Default_::IntList(l), _) => ints(l),
            (Default_::MemoryFormat(m), _) => Value::MemoryFormat(m),
            (Default_::Layout(l), _) => Value::Layout(l),
        };
        (value, vec![])
    }
}

fn plain(arg: &Arg, v: &toml::Value) -> Value {
    match v {
        toml::Value::Integer(i) => Value::Int(*i),
        toml::Value::Float(f) => Value::Float(*f),
        toml::Value::Boolean(b) => Value::Bool(*b),
        toml::Value::String(s) if s == "none" && arg.ty != Ty::Str => Value::None,
        toml::Value::String(s) if matches!(arg.ty, Ty::DType | Ty::OptDType) => {
            Value::DType(dtype(s).unwrap_or_else(|| panic!("sample: no dtype `{s}`")))
        }
        toml::Value::String(s) => Value::Str(s.clone()),
        toml::Value::Array(a) => Value::List(a.iter().map(|v| plain(arg, v)).collect()),
        other => panic!("sample: `{}` cannot be {other:?}", arg.name),
    }
}
fn dtype(name: &str) -> Option<DType> {
    [DType::F32, DType::F64, DType::C64, DType::C128, DType::I64].into_iter().find(|d| d.name() == name)
}

/// The call of one sample.
pub fn call(args: &'static [Arg], sample: &toml::Table, run: Run, seed: u64) -> Call {
    scaled(args, sample, run, seed, 1)
}
/// The same with all sizes above 1 multiplied; whether the sample's other arguments allow that, the call says.
pub fn scaled(args: &'static [Arg], sample: &toml::Table, run: Run, seed: u64, scale: i64) -> Call {
    let mut m = Maker { run, scale, values: Values(seed), open: false };
    let mut c = Call { args: Vec::new(), leaves: Vec::new(), open: false };
    for (i, a) in args.iter().enumerate() {
        let (v, leaves) = match sample.get(a.name) {
            Some(v) => m.given(a, v),
            None => m.generic(a),
        };
        c.args.push(v);
        c.leaves.extend(leaves.into_iter().map(|j| (i, j)));
    }
    c.open = m.open;
    c
}
