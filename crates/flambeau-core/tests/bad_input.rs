//! Bad input to the fallible functions: an error of the right kind; no panic, no hang, no absurd allocation.

use flambeau_core::ErrorKind::{self, *};
use flambeau_core::{DType, Device, Result, Tensor, ops};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const HUGE: i64 = 1 << 62;

fn f32s(sizes: &[i64]) -> Tensor {
    Tensor::zeros_raw(sizes, DType::F32, Device::Cpu).unwrap()
}
fn ints(v: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64]).unwrap()
}
fn meta(sizes: &[i64]) -> Tensor {
    Tensor::empty_raw(sizes, DType::F32, Device::Meta).unwrap()
}

/// Most memory that the process ever had resident, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// What a call gave, without its values.
type Outcome = Result<()>;
type Case<'a> = (&'a str, &'a [ErrorKind], Box<dyn Fn() -> Outcome + 'a>);

/// Runs all cases and reports all that are wrong at once.
fn judge(cases: Vec<Case>) {
    let mut broken = Vec::new();
    let before = peak_bytes();
    for (name, kinds, call) in cases {
        let begin = Instant::now();
        match catch_unwind(AssertUnwindSafe(&call)) {
            Err(_) => broken.push(format!("{name}: panicked")),
            Ok(Ok(())) => broken.push(format!("{name}: accepted")),
            Ok(Err(e)) if !kinds.contains(&e.kind()) => {
                broken.push(format!("{name}: {:?} instead of {kinds:?}: {e}", e.kind()));
            }
            Ok(Err(e)) if e.message().is_empty() => broken.push(format!("{name}: no text")),
            Ok(Err(_)) => {}
        }
        if begin.elapsed() > Duration::from_secs(5) {
            broken.push(format!("{name}: took {:?}", begin.elapsed()));
        }
    }
    if let (Some(a), Some(b)) = (before, peak_bytes()) {
        if b - a > 256 << 20 {
            broken.push(format!("{} MiB were touched", (b - a) >> 20));
        }
    }
    assert!(broken.is_empty(), "{} wrong:\n{}", broken.len(), broken.join("\n"));
}

macro_rules! cases {
    ($($name:literal, [$($kind:ident),+] => $call:expr;)+) => {
        judge(vec![$(($name, &[$($kind),+] as &[ErrorKind], Box::new(|| $call.map(drop)) as Box<dyn Fn() -> Outcome>)),+])
    };
}

/// Sizes whose product or byte count overflows, or that no machine has.
#[test]
fn huge_sizes() {
    let x = f32s(&[2, 3]);
    let one = f32s(&[1]);
    let wide = ops::expand(&one, &[1 << 45], false).unwrap();
    cases! {
        "empty", [Shape, OutOfMemory] => ops::empty(&[HUGE, 4], None, None, None, None, None);
        "empty, bytes overflow", [Shape, OutOfMemory] => ops::empty(&[HUGE], None, None, None, None, None);
        "empty, no such memory", [OutOfMemory] => ops::empty(&[1 << 50], None, None, None, None, None);
        "zeros", [Shape, OutOfMemory] => ops::zeros(&[HUGE, HUGE], None, None, None, None);
        "zeros, no such memory", [OutOfMemory] => ops::zeros(&[1 << 50], None, None, None, None);
        "ones", [Shape, OutOfMemory] => ops::ones(&[1 << 31, 1 << 31, 4], None, None, None, None);
        "full", [OutOfMemory] => ops::full(&[1 << 55], 1.into(), None, None, None, None);
        "eye", [Shape, OutOfMemory] => ops::eye(1 << 40, None, None, None, None);
        "arange", [OutOfMemory, Shape] => ops::arange(HUGE.into(), None, None, None, None);
        "arange, tiny step", [OutOfMemory, Shape, Runtime, Value] =>
            ops::arange_step(0.0.into(), 1.0.into(), 1e-300.into(), None, None, None, None);
        "arange to infinity", [Runtime, Value] => ops::arange(f64::INFINITY.into(), None, None, None, None);
        "arange of nan", [Runtime, Value] => ops::arange(f64::NAN.into(), None, None, None, None);
        "linspace", [OutOfMemory, Shape] => ops::linspace(0.into(), 1.into(), HUGE, None, None, None, None);
        "randperm", [OutOfMemory, Shape, Value, Runtime] => ops::randperm(HUGE, None, None, None, None, None);
        "tril_indices", [OutOfMemory, Shape] => ops::tril_indices(1 << 40, 1 << 40, 0, None, None, None, None);
        "repeat", [OutOfMemory, Shape] => ops::repeat(&x, &[1 << 40, 1 << 40]);
        "repeat, no such memory", [OutOfMemory] => ops::repeat(&x, &[1 << 45, 1]);
        "tile", [OutOfMemory, Shape] => ops::tile(&x, &[HUGE, 2]);
        "repeat_interleave", [OutOfMemory, Shape] => ops::repeat_interleave_int(&x, 1 << 50, Some(0), None);
        "repeat_interleave by tensor", [OutOfMemory, Shape] => ops::repeat_interleave(&ints(&[HUGE, HUGE, HUGE]), None);
        "expand", [Shape, OutOfMemory, Storage] => ops::expand(&one, &[HUGE, HUGE, 1], false).and_then(|t| ops::clone(&t, None));
        "copy of an expanded view", [OutOfMemory] => ops::contiguous(&wide, flambeau_core::MemoryFormat::Contiguous);
        "add on an expanded view", [OutOfMemory] => ops::add(&wide, &one, 1.into());
        "outer of expanded views", [OutOfMemory, Shape] => ops::outer(&wide, &wide);
        "cat of expanded views", [OutOfMemory, Shape] => ops::cat(&[wide.clone(), wide.clone()], 0);
        "as_strided beyond the storage", [Storage] => ops::as_strided(&x, &[HUGE], &[1], None);
        "as_strided, span overflows", [Storage, Shape, OutOfMemory] => ops::as_strided(&x, &[HUGE, HUGE], &[HUGE, HUGE], None);
        "as_strided, offset", [Storage] => ops::as_strided(&x, &[1], &[1], Some(i64::MAX));
        "view", [Shape] => ops::view(&x, &[HUGE, 4]);
        "reshape", [Shape] => ops::reshape(&x, &[HUGE, -1]);
        "diag_embed", [OutOfMemory, Shape, Index] => ops::diag_embed(&x, 1 << 40, 0, 1);
        "bincount", [OutOfMemory, Shape] => ops::bincount(&ints(&[1 << 55]), None, 0);
        "bincount, largest", [OutOfMemory, Shape, Runtime, Value] => ops::bincount(&ints(&[i64::MAX]), None, 0);
        "randint", [OutOfMemory, Shape] => ops::randint(5, &[HUGE, 2], None, None, None, None, None);
        "new_empty", [OutOfMemory, Shape] => ops::new_empty(&x, &[HUGE, 9], None, None, None, None);
        "unfold", [Index, Shape, Runtime, Value] => ops::unfold(&x, 0, HUGE, 1);
    }
    // a geometry without data is free: the meta device takes what has a byte count
    assert_eq!(ops::empty(&[1 << 50], None, None, Some(Device::Meta), None, None).unwrap().numel(), 1 << 50);
    assert!(ops::empty(&[HUGE, 4], None, None, Some(Device::Meta), None, None).is_err());
}

#[test]
fn negative_sizes_and_steps() {
    let x = f32s(&[2, 3]);
    cases! {
        "empty", [Shape] => ops::empty(&[-1], None, None, None, None, None);
        "zeros", [Shape] => ops::zeros(&[2, -3], None, None, None, None);
        "full", [Shape] => ops::full(&[i64::MIN], 0.into(), None, None, None, None);
        "eye", [Shape, Runtime, Value] => ops::eye(-1, None, None, None, None);
        "arange", [Runtime, Value, Shape] => ops::arange((-1).into(), None, None, None, None);
        "arange, step 0", [Runtime, Value, Shape] => ops::arange_step(0.into(), 1.into(), 0.into(), None, None, None, None);
        "linspace", [Runtime, Value, Shape] => ops::linspace(0.into(), 1.into(), -1, None, None, None, None);
        "randperm", [Runtime, Value, Shape] => ops::randperm(-1, None, None, None, None, None);
        "view", [Shape] => ops::view(&x, &[-2, 3]);
        "view, two unknown", [Shape] => ops::view(&x, &[-1, -1]);
        "reshape", [Shape] => ops::reshape(&x, &[-6]);
        "expand", [Shape] => ops::expand(&x, &[-1, 2, 3], false);
        "expand, other size", [Shape] => ops::expand(&x, &[2, 4], false);
        "repeat", [Shape] => ops::repeat(&x, &[-1, 2]);
        "repeat, too few", [Shape] => ops::repeat(&x, &[2]);
        "repeat_interleave", [Runtime, Value, Shape] => ops::repeat_interleave_int(&x, -1, Some(0), None);
        "repeat_interleave by tensor", [Runtime, Value, Shape] => ops::repeat_interleave(&ints(&[1, -2]), None);
        "narrow, length", [Runtime, Value, Shape, Index] => ops::narrow(&x, 0, 0, -1);
        "narrow, beyond", [Runtime, Value, Shape, Index] => ops::narrow(&x, 0, 1, 2);
        "narrow, overflow", [Runtime, Value, Shape, Index] => ops::narrow(&x, 0, 1, i64::MAX);
        "slice, step 0", [Runtime, Value, Index] => ops::slice(&x, 0, None, None, 0);
        "slice, step -1", [Runtime, Value, Index] => ops::slice(&x, 0, None, None, -1);
        "split", [Runtime, Value, Shape] => ops::split(&x, -1, 0);
        "chunk 0", [Runtime, Value, Shape] => ops::chunk(&x, 0, 0);
        "unfold, size", [Runtime, Value, Shape, Index] => ops::unfold(&x, 0, -1, 1);
        "unfold, step", [Runtime, Value, Shape, Index] => ops::unfold(&x, 0, 1, 0);
        "as_strided, size", [Shape, Runtime, Storage] => ops::as_strided(&x, &[-1], &[1], None);
        "as_strided, stride", [Shape, Runtime, Storage] => ops::as_strided(&x, &[2], &[-1], None);
        "as_strided, offset", [Shape, Runtime, Storage] => ops::as_strided(&x, &[1], &[1], Some(-1));
        "as_strided, ranks differ", [Shape, Runtime] => ops::as_strided(&x, &[1, 1], &[1], None);
        "topk", [Runtime, Value, Index] => ops::topk(&x, -1, 0, true, true);
        "topk, too many", [Runtime, Value, Index] => ops::topk(&x, 4, 1, true, true);
        "tril_indices", [Runtime, Value, Shape] => ops::tril_indices(-1, 2, 0, None, None, None, None);
        "bincount", [Runtime, Value, Shape] => ops::bincount(&ints(&[-1]), None, 0);
        "randint, empty range", [Runtime, Value] => ops::randint(0, &[2], None, None, None, None, None);
    }
}

#[test]
fn dims_and_indices_out_of_range() {
    let x = f32s(&[2, 3]);
    let i = ints(&[0, 7]);
    let none = f32s(&[0, 3]);
    cases! {
        "transpose", [Index] => ops::transpose(&x, 0, 2);
        "transpose, smallest", [Index] => ops::transpose(&x, i64::MIN, 0);
        "permute", [Index] => ops::permute(&x, &[0, 2]);
        "permute, twice", [Shape, Runtime, Value] => ops::permute(&x, &[0, 0]);
        "permute, too few", [Shape, Runtime] => ops::permute(&x, &[0]);
        "movedim", [Index] => ops::movedim(&x, &[0], &[5]);
        "unsqueeze", [Index] => ops::unsqueeze(&x, 4);
        "squeeze", [Index] => ops::squeeze_dim(&x, -3);
        "select, dim", [Index] => ops::select(&x, 2, 0);
        "select", [Index] => ops::select(&x, 0, 2);
        "select, largest", [Index] => ops::select(&x, 0, i64::MAX);
        "select, smallest", [Index] => ops::select(&x, 0, i64::MIN);
        "select of no dims", [Index] => ops::select(&f32s(&[]), 0, 0);
        "flatten", [Index] => ops::flatten(&x, 0, 2);
        "flatten, swapped", [Runtime, Value, Shape] => ops::flatten(&x, 1, 0);
        "unbind", [Index] => ops::unbind(&x, 2);
        "diagonal", [Index] => ops::diagonal(&x, 0, 0, 2);
        "diagonal, same dim", [Runtime, Value, Shape] => ops::diagonal(&x, 0, 0, 0);
        "sum", [Index] => ops::sum(&x, Some(&[2]), false, None);
        "sum, twice", [Runtime, Value, Shape] => ops::sum(&x, Some(&[0, -2]), false, None);
        "max", [Index] => ops::max_dim(&x, 2, false);
        "max of nothing", [Index] => ops::max_dim(&none, 0, false);
        "softmax", [Index] => ops::softmax(&x, 2, None);
        "cumsum", [Index] => ops::cumsum(&x, 2, None);
        "logsumexp", [Index] => ops::logsumexp(&x, &[2], false);
        "sort", [Index] => ops::sort(&x, 2, false);
        "cat, dim", [Index] => ops::cat(&[x.clone(), x.clone()], 2);
        "cat of nothing", [Runtime, Value, Shape] => ops::cat(&[], 0);
        "cat, sizes", [Shape, Runtime] => ops::cat(&[x.clone(), f32s(&[2, 2])], 0);
        "stack", [Index] => ops::stack(&[x.clone(), x.clone()], 3);
        "stack, sizes", [Shape, Runtime] => ops::stack(&[x.clone(), f32s(&[2, 2])], 0);
        "flip", [Index] => ops::flip(&x, &[2]);
        "roll", [Index] => ops::roll(&x, &[1], &[2]);
        "index_select", [Index] => ops::index_select(&x, 0, &i);
        "index_select, dim", [Index] => ops::index_select(&x, 2, &i);
        "gather", [Index, Runtime] => ops::gather(&x, 0, &ops::unsqueeze(&i, 0).unwrap(), false);
        "take", [Index] => ops::take(&x, &i);
        "scatter", [Index, Runtime] => ops::scatter(&x, 0, &ops::unsqueeze(&i, 0).unwrap(), &f32s(&[1, 2]));
        "split, dim", [Index] => ops::split(&x, 1, 2);
        "narrow, dim", [Index] => ops::narrow(&x, 2, 0, 1);
        "narrow, start", [Index] => ops::narrow(&x, 0, 5, 0);
    }
}

#[test]
fn dtypes_shapes_and_devices_that_do_not_fit() {
    let x = f32s(&[2, 3]);
    let n = ints(&[1, 2]);
    let m = meta(&[2, 3]);
    let b = ops::to_copy(&x, Some(DType::Bool), None, None, None, false, None).unwrap();
    let d = ops::to_copy(&x, Some(DType::F64), None, None, None, false, None).unwrap();
    cases! {
        "add, sizes", [Shape] => ops::add(&x, &f32s(&[2, 4]), 1.into());
        "add_, result is larger", [Shape] => ops::add_(&x, &f32s(&[4, 2, 3]), 1.into());
        "add_, result dtype", [DType, Runtime, Type] => ops::add_(&n, &f32s(&[2]), 1.into());
        "add_, overlapping", [Storage, Runtime] => ops::add_(&ops::expand(&f32s(&[1]), &[4], false).unwrap(), &f32s(&[4]), 1.into());
        "bitwise_and of floats", [Unsupported] => ops::bitwise_and(&x, &x);
        "sub of bools", [Runtime, DType, Unsupported, Type] => ops::sub(&b, &b, 1.into());
        "mm, sizes", [Shape, Runtime] => ops::mm(&x, &x);
        "mm, dims", [Shape, Runtime] => ops::mm(&x, &n);
        "mm, dtypes", [DType, Runtime] => ops::mm(&x, &ops::transpose(&d, 0, 1).unwrap());
        "matmul of no dims", [Shape, Runtime] => ops::matmul(&f32s(&[]), &x);
        "bmm", [Shape, Runtime] => ops::bmm(&x, &x);
        "dot", [Shape, Runtime] => ops::dot(&f32s(&[2]), &f32s(&[3]));
        "addmm", [Shape, Runtime] => ops::addmm(&f32s(&[5]), &x, &ops::transpose(&x, 0, 1).unwrap(), 1.into(), 1.into());
        "index_select by floats", [DType, Index, Runtime, Type, Unsupported] => ops::index_select(&x, 0, &f32s(&[1]));
        "gather by floats", [DType, Index, Runtime, Type, Unsupported] => ops::gather(&x, 0, &x, false);
        "take by floats", [DType, Index, Runtime, Type, Unsupported] => ops::take(&x, &x);
        "masked_fill by floats", [DType, Runtime, Type, Unsupported, Index] => ops::masked_fill(&x, &x, 0.into());
        "where by floats", [DType, Runtime, Type, Unsupported] => ops::where_(&x, &x, &x);
        "bincount of floats", [DType, Runtime, Type, Unsupported, Value] => ops::bincount(&x, None, 0);
        "view of other bytes", [Shape, Runtime] => ops::view_dtype(&f32s(&[3, 3]), DType::F64);
        "softmax of ints", [Unsupported] => ops::softmax(&n, 0, None);
        "einsum", [Runtime, Value, Shape] => ops::einsum("ij,jk->ik", std::slice::from_ref(&x), None);
        "einsum, letters", [Runtime, Value, Shape] => ops::einsum("i?", std::slice::from_ref(&x), None);
        "kron into itself", [OutOfMemory, Shape] => {
            let wide = ops::expand(&f32s(&[1]), &[1 << 40], false).unwrap();
            ops::kron(&wide, &wide)
        };
        "add, meta and cpu", [Device, Runtime] => ops::add(&x, &m, 1.into());
        "mm, meta and cpu", [Device, Runtime] => ops::mm(&x, &ops::transpose(&m, 0, 1).unwrap());
        "add_, meta into cpu", [Device, Runtime] => ops::add_(&x, &m, 1.into());
        "cat, meta and cpu", [Device, Runtime] => ops::cat(&[x.clone(), m.clone()], 0);
        "copy_ from meta", [Device, Unsupported, Runtime] => ops::copy_(&x, &m, false);
        "to cpu from meta", [Device, Unsupported, Runtime] => ops::to_copy(&m, None, None, Some(Device::Cpu), None, false, None);
        "index_select, meta index", [Device, Runtime] => ops::index_select(&x, 0, &meta(&[2]));
        "elements of meta", [Device, Unsupported, Runtime] => m.try_to_vec::<f32>();
        "elements of another type", [DType] => x.try_to_vec::<i64>();
    }
}
