//! Bad input to the fallible functions: an error of the right kind in PyTorch's words; no panic, no hang, no absurd
//! allocation. The texts are PyTorch's, but where those come from a product that wrapped round or name what
//! only PyTorch has.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, MemoryFormat, Result, Scalar, Tensor, ops};
use flambeau_test_support::hostile::{self, Calls};
use flambeau_test_support::{cases, here};

mod dims;
mod in_place;
mod kinds;
mod numbers;
mod sizes;

const HUGE: i64 = 1 << 62;

fn f32s(sizes: &[i64]) -> Tensor {
    ops::zeros(sizes, None, None, None, None).expect("a small tensor")
}
fn ints(v: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64]).expect("a small tensor")
}
fn of(d: DType) -> Tensor {
    ops::zeros(&[2, 3], Some(d), None, None, None).expect("a small tensor")
}
/// Zeros that want a gradient.
fn leaf(sizes: &[i64]) -> Tensor {
    f32s(sizes).requires_grad_(true)
}
fn complex(re: f64, im: f64) -> Scalar {
    let mut c = Scalar::Int(0).to_complex();
    (c.re, c.im) = (re, im);
    Scalar::Complex(c)
}

/// Operands of the cases.
struct Set {
    /// Zeros `[2, 3]`.
    x: Tensor,
    /// Zeros `[1]`.
    one: Tensor,
    /// The same element as a vector of a length that no memory has.
    wide: Tensor,
    ones: Tensor,
    /// 1 and 2.
    n: Tensor,
    /// 0 and 7: out of range for most.
    i: Tensor,
    /// The same as a row.
    ii: Tensor,
    /// Zeros `[0, 3]`.
    e: Tensor,
    /// No dimensions.
    s: Tensor,
    b: Tensor,
    d: Tensor,
    c: Tensor,
    /// On the meta device.
    m: Tensor,
}
impl Set {
    fn new() -> Result<Set> {
        Ok(Set {
            x: f32s(&[2, 3]),
            one: f32s(&[1]),
            wide: ops::expand(&f32s(&[1]), &[1 << 40], false)?,
            ones: ops::ones(&[3], None, None, None, None)?,
            n: ints(&[1, 2]),
            i: ints(&[0, 7]),
            ii: ops::unsqueeze(&ints(&[0, 7]), 0)?,
            e: f32s(&[0, 3]),
            s: f32s(&[]),
            b: ops::ones(&[2, 3], Some(DType::Bool), None, None, None)?,
            d: of(DType::F64),
            c: ops::zeros(&[2], Some(DType::C64), None, None, None)?,
            m: Tensor::empty_raw(&[2, 3], DType::F32, Device::Meta)?,
        })
    }
}

/// The judge judges: a panic, an abort and a request for absurd memory are found, and what comes after them too.
#[test]
fn the_watch_sees_panics_and_aborts() {
    let names = ["fine", "panics", "aborts", "asks", "accepts"];
    let calls = Calls {
        test: here!(),
        count: names.len(),
        name: &|i| names[i].to_string(),
        run: &|i| {
            match names[i] {
                "panics" => assert!(i > 9, "on purpose"),
                "aborts" => std::process::abort(),
                "asks" => drop(Vec::<u64>::with_capacity(1 << 40)),
                "accepts" => return Some("accepted".into()),
                _ => {}
            }
            None
        },
    };
    if hostile::in_child() {
        return calls.judge();
    }
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| calls.judge()));
    let said = said.expect_err("four calls are wrong");
    let text = said.downcast_ref::<String>().expect("a message");
    for part in [
        "4 of 5 calls",
        "panics: panics: ",
        "aborts: the process died",
        "asks: the process died",
        "accepts: accepted",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
