//! What a row is: an id, and how to build what is timed under it.

use torch::Tensor;
use torch::library::{self, Value};
use torch::options::BackwardOptions;
use torch::prelude::*;

/// What a timed call gives.
pub trait Output {
    /// Mean of the absolute values, in float64: it catches wrong work, not wrong digits.
    fn check(&self) -> Option<f64>;
}
impl Output for () {
    fn check(&self) -> Option<f64> {
        None
    }
}
impl Output for Tensor {
    fn check(&self) -> Option<f64> {
        let plain = match self.dtype() {
            d if d.is_complex() => self.view_as_real(),
            d if d.is_quantized() => torch::dequantize(self),
            _ => self.clone(),
        };
        Some(torch::no_grad(|| plain.to(f64).abs().mean().item::<f64>()))
    }
}
/// The first output is checked.
impl Output for (Tensor, Tensor) {
    fn check(&self) -> Option<f64> {
        self.0.check()
    }
}
impl Output for Vec<Value> {
    fn check(&self) -> Option<f64> {
        let first = match self.first()? {
            Value::Tuple(items) | Value::List(items) => items.first()?,
            other => other,
        };
        match first {
            Value::Tensor(t) => t.check(),
            _ => None,
        }
    }
}

/// What is timed.
pub trait Body {
    /// One call, and the check of its result.
    fn once(&mut self) -> Option<f64>;
    /// Calls that drop their results.
    fn repeat(&mut self, calls: usize);
}
// the loop is compiled into each body, so that a call costs no more than it does in a user's program
impl<T: Output, F: FnMut() -> T> Body for F {
    fn once(&mut self) -> Option<f64> {
        self().check()
    }
    fn repeat(&mut self, calls: usize) {
        for _ in 0..calls {
            std::hint::black_box(self());
        }
    }
}

/// What a row measures.
pub enum Work {
    /// Seconds of a call.
    Time(Box<dyn Body>),
    /// Bytes.
    Bytes(u64),
}

/// Why there is nothing to measure.
pub enum Failure {
    /// The library has no operator of this documented name.
    NotImplemented(String),
    /// It has, and something went wrong.
    Error(String),
}

/// One row.
pub struct Row {
    /// The id; the part before `/` is the group.
    pub id: String,
    /// Whether gradients are recorded.
    pub grad: bool,
    /// Whether the output can be compared with another implementation's.
    pub check: bool,
    /// Builds the inputs and gives what is timed.
    pub make: Box<dyn Fn() -> Result<Work, Failure>>,
}
impl Row {
    /// Records no gradients.
    pub fn no_grad(&mut self) -> &mut Row {
        self.grad = false;
        self
    }
    /// Random or trained: nothing to compare.
    pub fn no_check(&mut self) -> &mut Row {
        self.check = false;
        self
    }
}

/// All rows that this program can measure.
#[derive(Default)]
pub struct Rows(pub Vec<Row>);
impl Rows {
    fn push(
        &mut self,
        id: impl Into<String>,
        make: impl Fn() -> Result<Work, Failure> + 'static,
    ) -> &mut Row {
        let at = self.0.len();
        self.0.push(Row { id: id.into(), grad: true, check: true, make: Box::new(make) });
        &mut self.0[at]
    }
    /// A timed row: `make` builds the inputs and gives the call.
    pub fn add<B: Body + 'static>(
        &mut self,
        id: impl Into<String>,
        make: impl Fn() -> B + 'static,
    ) -> &mut Row {
        self.push(id, move || Ok(Work::Time(Box::new(make()))))
    }
    /// A timed row whose call is boxed already.
    pub fn boxed(&mut self, id: impl Into<String>, make: impl Fn() -> Box<dyn Body> + 'static) -> &mut Row {
        self.push(id, move || Ok(Work::Time(make())))
    }
    /// A timed call by name: runs as soon as the library has an operator of that name.
    pub fn by_name(
        &mut self,
        id: impl Into<String>,
        path: &'static str,
        args: impl Fn() -> Vec<Value> + 'static,
    ) -> &mut Row {
        self.push(id, move || {
            let f = library::lookup(path).ok_or_else(|| Failure::NotImplemented(path.to_string()))?;
            let args = args();
            let call = move || f.call(&args, &[]).unwrap_or_else(|e| panic!("{e}"));
            Ok(Work::Time(Box::new(call)))
        })
    }
    /// A number of bytes.
    pub fn bytes(
        &mut self,
        id: impl Into<String>,
        count: impl Fn() -> Result<u64, String> + 'static,
    ) -> &mut Row {
        self.push(id, move || count().map(Work::Bytes).map_err(Failure::Error)).no_check()
    }
    /// The row of an id.
    pub fn get(&self, id: &str) -> Option<&Row> {
        self.0.iter().find(|r| r.id == id)
    }
}

/// Forward, then backward from ones made beforehand; gradients of the leaves are dropped first.
pub fn forward_backward(leaves: Vec<Tensor>, forward: impl Fn() -> Tensor) -> impl FnMut() -> Tensor {
    let ones = torch::no_grad(|| torch::ones_like(&forward()));
    let from_ones = BackwardOptions::new().gradient(&ones);
    move || {
        for l in &leaves {
            l.set_grad(None);
        }
        let y = forward();
        y.backward_with(from_ones.clone());
        y
    }
}
