//! Memory, views, writes, random numbers and errors of the vault.

use crate::{agree, floats, numbers, reads, vault};
use flambeau_core::backend;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_test_support::alone;
use torch::prelude::*;

#[test]
fn there_and_back() {
    let t = numbers(&[3, 4]);
    let there = t.t().to(vault());
    assert_eq!(there.strides(), [1, 4], "copies keep strides");
    agree("transposed", &there, &t.t(), 0.0);
    assert_eq!(floats(&there.to(torch::Device::Cpu)), floats(&t.t()));
    for d in [torch::DType::BF16, torch::DType::I64, torch::DType::Bool, torch::DType::C64] {
        let there = t.to(vault()).to(d);
        let same = there.to(torch::Device::Cpu).eq(t.to(d)).all().item::<bool>();
        assert!(same, "{d}");
    }
    assert_eq!(torch::zeros([0, 3]).to(vault()).sizes(), [0, 3]);
}

#[test]
fn views_share_memory() {
    let whole = numbers(&[4, 6]).to(vault());
    let before = floats(&whole);
    let part = whole.narrow(1, 2, 3).t();
    assert!(!part.is_contiguous());
    part.mul_(torch::tensor(2f32).to(vault()));
    let after = floats(&whole);
    for (i, (a, b)) in after.iter().zip(&before).enumerate() {
        let within = (2..5).contains(&(i % 6));
        assert_eq!(*a, if within { b * 2.0 } else { *b });
    }
    // what the CPU computes is written back through a view as well
    let row = whole.select(0, 1);
    row.cumsum_(0);
    let here = numbers(&[4, 6]);
    here.narrow(1, 2, 3).mul_(2.0);
    here.select(0, 1).cumsum_(0);
    agree("view", &whole, &here, 1e-6);
    agree("expanded", &whole.select(0, 0).expand([2, 6]), &here.select(0, 0).expand([2, 6]), 1e-6);
}

#[test]
fn results_into_given_tensors() {
    let (a, b) = (numbers(&[3, 4]), numbers(&[4, 2]));
    let (x, y) = (a.to(vault()), b.to(vault()));
    // a kernel of the vault's, a formula, what goes by way of the CPU; resized, and through a view
    let mut out = torch::empty([0]).to(vault());
    torch::ops::mm_out(&x, &y, &mut out).unwrap();
    agree("mm", &out, &a.mm(&b), 1e-6);
    let mut out = torch::empty([0]).to(vault());
    torch::ops::exp_out(&x, &mut out).unwrap();
    agree("exp", &out, &a.exp(), 1e-6);
    let whole = torch::zeros([3, 8]).to(vault());
    let mut out = whole.narrow(1, 4, 4);
    torch::ops::cumsum_out(&x, 1, None, &mut out).unwrap();
    agree("cumsum", &whole.narrow(1, 4, 4), &a.cumsum(1), 1e-6);
    assert_eq!(floats(&whole.narrow(1, 0, 4)), [0.0; 12]);
    let (mut values, mut places) =
        (torch::empty([0]).to(vault()), torch::empty([0]).to(torch::DType::I64).to(vault()));
    torch::ops::sort_out(&x, 1, true, &mut values, &mut places).unwrap();
    agree("sort", &values, &a.sort(1, true).values, 0.0);
    let e = torch::ops::exp_out(&x, &mut torch::empty([3, 4])).unwrap_err();
    assert!(e.message().contains("device"), "{e}");
}

#[test]
fn what_has_no_kernel_goes_by_way_of_the_cpu() {
    let a = numbers(&[4, 5]);
    let x = a.to(vault());
    agree("softmax", &x.softmax(1), &a.softmax(1), 1e-6);
    agree("cat", &torch::cat(&[x.clone(), x.clone()], 0), &torch::cat(&[a.clone(), a.clone()], 0), 0.0);
    agree(
        "index",
        &x.index_select(0, &torch::tensor([2i64, 0]).to(vault())),
        &a.index_select(0, &torch::tensor([2i64, 0])),
        0.0,
    );
    let parts = (x.split(2, 0), a.split(2, 0));
    parts.0.iter().zip(&parts.1).for_each(|(x, a)| agree("split", x, a, 0.0));
    agree("norm", &x.norm(), &a.norm(), 1e-6);
    let clamped = x.clone();
    clamped.clamp_(-0.1, 0.1);
    agree("in place", &clamped, &a.clamp(-0.1, 0.1), 0.0);
}

#[test]
fn values_of_the_cpu_are_taken_where_pytorch_takes_them() {
    let (a, x) = (numbers(&[3, 4]), numbers(&[3, 4]).to(vault()));
    // a number that is a tensor of the CPU
    agree("0-d", &(&x * &torch::tensor(2f32)), &(&a * 2.0), 1e-6);
    let e = torch::ops::mul(&x, &a).unwrap_err();
    assert!(e.message().contains("at least two devices"), "{e}");
    // and values that an index sets: views, places, masks
    let set = |t: &Tensor, device: torch::Device| {
        let there = |t: Tensor| t.to(device);
        t.set_i(0, torch::tensor([1f32, 2.0, 3.0, 4.0]));
        t.set_i((there(torch::tensor([1i64, 2])), 1), torch::tensor(7f32));
        t.set_i(there(torch::tensor([false, true, false])), 5.0);
        t.set_i(t.gt(torch::tensor(6f32)), there(torch::tensor(-1f32)));
    };
    set(&a, torch::Device::Cpu);
    set(&x, vault());
    agree("setitem", &x, &a, 0.0);
    // copies go between devices
    x.copy_(&(&a + 1.0));
    agree("copy_", &x, &(&a + 1.0), 1e-6);
}

#[test]
fn random_numbers_are_the_cpus() {
    alone!();
    torch::manual_seed(11);
    let here = (torch::randn([5]), torch::rand([3]));
    torch::manual_seed(11);
    let there = torch::zeros([5]).to(vault());
    torch::ops::normal_(&there, 0.0, 1.0, None).unwrap();
    agree("normal_", &there, &here.0, 0.0);
    let there = torch::zeros([3]).to(vault());
    torch::ops::uniform_(&there, 0.0, 1.0, None).unwrap();
    agree("uniform_", &there, &here.1, 0.0);
    let table = backend::of(vault()).unwrap();
    assert!(std::ptr::eq(table.default_generator(vault()), torch::default_generator()));
}

#[test]
fn forged_sizes_are_refused() {
    let storage = Storage::empty(16, vault()).unwrap();
    let over = |sizes: &[i64], strides: &[i64], offset: i64| {
        Tensor::from_storage(&storage, sizes, strides, offset, torch::DType::F32)
    };
    assert!(over(&[4], &[1], 0).is_ok());
    for (sizes, strides, offset) in [
        (5, 1, 0),
        (4, 1, 1),
        (2, 4, 0),
        (2, -1, 0),
        (i64::MAX, 1, 0),
        (2, i64::MAX, 0),
        (-1, 1, 0),
        (1, 1, -1),
    ] {
        assert!(over(&[sizes], &[strides], offset).is_err(), "{sizes} {strides} {offset}");
    }
    let x = numbers(&[4]).to(vault());
    assert!(torch::ops::as_strided(&x, &[2, 3], &[2, 1], None).is_err());
    let e = torch::ops::empty(&[1 << 46], None, None, Some(vault()), None, None).unwrap_err();
    assert!(e.message().contains("room") || e.message().contains("memory"), "{e}");
    assert!(
        torch::Device::parse("vault:1")
            .and_then(|d| torch::ops::zeros(&[1], None, None, Some(d), None))
            .is_err()
    );
}

/// A kernel that fails after its call is reported by the next call that waits, once.
#[test]
fn late_errors_are_reported() {
    alone!();
    let p = vec![numbers(&[3]).to(vault())];
    let g = vec![numbers(&[4]).to(vault())];
    torch::ops::fused_sgd_(&p, &g, &[], 0.0, 0.0, 0.1, 0.0, false, false, true, None, None).unwrap();
    let e = backend::synchronize(vault()).unwrap_err();
    assert!(e.message().contains("does not fit"), "{e}");
    backend::synchronize(vault()).unwrap();
    assert_eq!(floats(&p[0]), floats(&numbers(&[3])), "nothing was written");
    torch::ops::fused_sgd_(&p, &g, &[], 0.0, 0.0, 0.1, 0.0, false, false, true, None, None).unwrap();
    let e = p[0].try_to_vec::<f32>().unwrap_err();
    assert!(e.message().contains("does not fit"), "{e}");
}

#[test]
fn marks_in_the_queue() {
    let x = numbers(&[64, 64]).to(vault());
    let y = x.mm(&x);
    let mark = backend::of(vault()).unwrap().event(vault()).unwrap();
    mark.wait().unwrap();
    assert!(mark.done());
    // the vault gives no pointer, and says so
    assert!(x.try_elements::<f32>().is_err());
    drop(x);
    agree("mm", &y, &numbers(&[64, 64]).mm(&numbers(&[64, 64])), 1e-4);
    let before = reads();
    assert!(before > 0);
}
