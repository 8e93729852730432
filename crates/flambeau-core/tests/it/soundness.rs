//! What safe calls of this crate may be told, and what they check of it.

use flambeau_core::backend::pointwise;
use flambeau_core::dispatch::op::Kernels;
use flambeau_core::internal::{Access, RawTensor as _, excluding};
use flambeau_core::iter::spec::Label;
use flambeau_core::iter::{PointwiseSpec, Promote, Rare};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::{DType, Device, Tensor, functions as torch, ops};
use flambeau_cpu::pointwise::{self as formulas, Param, Pointwise};

fn text<T>(r: flambeau_core::Result<T>) -> String {
    r.err().expect("an error").message().to_owned()
}

#[test]
fn lists_of_two_lengths_are_errors() {
    let t = torch::ones([4]);
    for (sizes, strides) in [(&[2i64, 2][..], &[1i64][..]), (&[2], &[1, 1]), (&[], &[1]), (&[4; 9], &[1; 3])]
    {
        let want = "mismatch in length of strides and shape";
        assert_eq!(text(t.view_raw(sizes, strides, 0)), want);
        assert_eq!(text(Tensor::from_storage(t.storage(), sizes, strides, 0, DType::F32)), want);
        assert!(Tensor::empty_strided_raw(sizes, strides, DType::F32, Device::Cpu).is_err());
    }
}

const fn spec(kernel: &'static Pointwise, promote: Promote) -> PointwiseSpec {
    PointwiseSpec {
        name: "x",
        label: Label::plain("x"),
        kernel,
        promote,
        rare: Rare::ALL,
        kernels: Kernels::new(&[]),
    }
}

#[test]
fn formulas_get_as_many_operands_as_they_read() {
    static SPECS: [PointwiseSpec; 6] = [
        spec(&formulas::ADD, Promote::Default),
        spec(&formulas::NEG, Promote::Default),
        spec(&formulas::WHERE, Promote::SkipFirst),
        spec(&formulas::FILL, Promote::First),
        spec(&formulas::DIV, Promote::Divide),
        spec(&formulas::SOFTPLUS, Promote::Reversed),
    ];
    let p = Param::from(1i64);
    for n in [1i64, 64, 5000] {
        let t = torch::ones([n]);
        for s in &SPECS {
            let reads = (s.kernel.inputs, s.kernel.params);
            let fits = |n: usize, p: usize| n > 0 && n == reads.0 && p >= reads.1;
            let check = |n, p, r: flambeau_core::Result<()>| {
                // `where` wants a bool mask; what matters is that fewer operands are never read
                assert!(r.is_err() || fits(n, p), "{reads:?} was given {n} and {p}");
            };
            check(0, 0, pointwise::pointwise(s, &[], &[]).map(drop));
            check(1, 0, pointwise::pointwise(s, &[&t], &[]).map(drop));
            check(1, 1, pointwise::pointwise(s, &[&t], &[p]).map(drop));
            check(1, 2, pointwise::pointwise(s, &[&t], &[p, p]).map(drop));
            check(2, 0, pointwise::pointwise(s, &[&t, &t], &[]).map(drop));
            check(2, 1, pointwise::pointwise(s, &[&t, &t], &[p]).map(drop));
            check(3, 0, pointwise::pointwise(s, &[&t, &t, &t], &[]).map(drop));
            check(0, 0, pointwise::pointwise_inplace(s, &[], &[]));
            check(1, 0, pointwise::pointwise_inplace(s, &[&t], &[]));
            check(2, 0, pointwise::pointwise_inplace(s, &[&t, &t], &[]));
            check(2, 1, pointwise::pointwise_inplace(s, &[&t, &t], &[p]));
            for inputs in 0..5 {
                let all = vec![&t; inputs];
                check(inputs, 0, pointwise::pointwise_typed(s, None, &all, &[]).map(drop));
                check(inputs, 0, pointwise::pointwise_typed(s, Some(DType::F32), &all, &[]).map(drop));
                check(inputs, 0, pointwise::pointwise_into(s, None, &all, &[], &t));
            }
            assert!(reads == (0, 1) || pointwise::fill(s, &t, p).is_err());
        }
    }
}

#[test]
fn an_operator_inside_of_a_kernel_is_an_error() {
    let (a, b) = (torch::ones([4]), torch::ones([4]));
    let access = Access::new(&[&a], &[&b]).unwrap();
    assert!(text(ops::add_(&a, &a, 1.into())).contains("inside of a kernel"));
    assert!(text(ops::add(&b, &a, 1.into())).contains("inside of a kernel"));
    assert!(a.try_elements_mut::<f32>().is_err());
    assert!(Access::new(&[], &[&a]).is_err());
    drop(access);
    ops::add_(&a, &b, 1.into()).unwrap();
    assert_eq!(a.to_vec::<f32>(), [2.0; 4]);
}

#[test]
fn keys_of_a_closure_end_with_it() {
    let x = torch::ones([2]);
    let keys = KeySet::of(Key::Cpu);
    let caught = std::panic::catch_unwind(|| excluding(keys, || panic!("within")));
    assert!(caught.is_err());
    ops::exp(&x).unwrap();
}
