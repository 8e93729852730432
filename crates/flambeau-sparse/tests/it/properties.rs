//! What holds of every layout: what an operator gives for a sparse tensor is what it gives for the dense one, layouts convert
//! into each other without loss, and what a layout cannot do is an error.

use flambeau_core::{DType, Layout, Result, Scalar, Tensor, functions as torch, ops as core};
use flambeau_sparse::{TensorSparseExt, ops};

const LAYOUTS: [Layout; 5] =
    [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc, Layout::SparseBsr, Layout::SparseBsc];
const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::C64, DType::I64, DType::I32, DType::F16];

/// Mostly zeros, of every sign.
fn dense(dtype: DType, seed: i64) -> Tensor {
    let at = |i: i64| if (i * 7 + seed) % 3 == 0 { (i % 5) - 2 } else { 0 };
    Tensor::from_vec((0..24).map(at).collect::<Vec<i64>>(), [4, 6]).to(dtype)
}
fn block(l: Layout) -> Option<&'static [i64]> {
    matches!(l, Layout::SparseBsr | Layout::SparseBsc).then_some(&[2, 3])
}
fn sparse(t: &Tensor, l: Layout) -> Tensor {
    ops::to_sparse(t, Some(l), block(l), None).unwrap()
}
fn equal(a: &Tensor, b: &Tensor, what: &str) {
    let a = if a.layout() == Layout::Strided { a.clone() } else { a.to_dense() };
    assert_eq!((a.sizes(), a.dtype()), (b.sizes(), b.dtype()), "{what}");
    assert!(torch::equal(&a, b), "{what}: {a} instead of {b}");
}

#[test]
fn all_conversions_keep_all_elements() {
    for dtype in DTYPES {
        let d = dense(dtype, 0);
        for from in LAYOUTS {
            let s = sparse(&d, from);
            assert_eq!((s.layout(), s.dtype(), s.sizes()), (from, dtype, d.sizes()));
            equal(&s, &d, from.name());
            for to in LAYOUTS {
                let again = ops::to_sparse(&s, Some(to), block(to), None).unwrap();
                assert_eq!(again.layout(), to);
                equal(&again, &d, &format!("{} to {}", from.name(), to.name()));
            }
        }
    }
    // batches and dense dimensions
    let batch = core::stack(&[dense(DType::F32, 0), dense(DType::F32, 3)], 0).unwrap();
    for from in [Layout::SparseCsr, Layout::SparseCsc] {
        let s = sparse(&batch, from);
        equal(&s, &batch, "a batch");
        for to in [Layout::SparseCsr, Layout::SparseCsc, Layout::SparseCoo] {
            equal(&ops::to_sparse(&s, Some(to), None, None).unwrap(), &batch, "a batch in another layout");
        }
    }
    let deep = core::stack(&[dense(DType::F64, 0), dense(DType::F64, 0) * 2.0], 2).unwrap();
    for l in [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc] {
        equal(&ops::to_sparse(&deep, Some(l), None, Some(1)).unwrap(), &deep, "dense dimensions");
    }
}

type Function = fn(&Tensor) -> Result<Tensor>;
/// Functions of one tensor that leave zero zero.
const UNARY: &[(&str, Function)] = &[
    ("neg", core::neg),
    ("abs", core::abs),
    ("sgn", core::sgn),
    ("clone", |t| core::clone(t, None)),
    ("times two", |t| core::mul(t, &scalar(2))),
    ("transpose", |t| core::transpose(t, 0, 1)),
    ("t", core::t),
    ("row", |t| core::select(t, 0, 2)),
    ("column", |t| core::select(t, 1, -1)),
    ("rows", |t| core::index_select(t, 0, &Tensor::from_slice(&[3i64, 0, 0], 3))),
    ("sum", |t| core::sum(t, None, false, None)),
    ("plus itself", |t| core::add(t, t, Scalar::Int(2))),
    ("times itself", |t| core::mul(t, t)),
    ("beside itself", |t| core::cat(&[t.clone(), t.clone()], 1)),
    ("below itself", |t| core::cat(&[t.clone(), t.clone()], 0)),
    ("double", |t| core::to(t, Some(DType::F64), None, None, None, false, false, None)),
    ("zeros_like", |t| core::zeros_like(t, None, None, None, None, None)),
];

mod torch_scalar {
    use super::*;
    pub fn scalar(n: i64) -> Tensor {
        flambeau_core::api::ergonomic::wrapped_number(Scalar::Int(n)).unwrap()
    }
}
use torch_scalar::scalar;

#[test]
fn operators_of_one_tensor_agree_with_the_dense_ones() {
    let mut ran = 0;
    for dtype in DTYPES {
        let d = dense(dtype, 1);
        for (name, f) in UNARY {
            let Ok(want) = f(&d) else { continue };
            for l in LAYOUTS {
                let s = sparse(&d, l);
                // blocks of a slice are no blocks
                let in_blocks = block(l).is_some();
                match f(&s) {
                    Ok(got) => {
                        equal(&got, &want, &format!("{name} of {} in {dtype}", l.name()));
                        ran += 1;
                    }
                    Err(e) => assert!(in_blocks || l == Layout::SparseCsc, "{name} of {}: {e}", l.name()),
                }
                equal(&s, &d, "the argument stays as it is");
            }
        }
    }
    assert!(ran > 350, "only {ran} calls ran");
}

#[test]
fn products_agree_with_the_dense_ones() {
    for dtype in DTYPES {
        let (a, b) = (dense(dtype, 2), dense(dtype, 4).t().contiguous());
        let wide = core::cat(&vec![b.clone(); 17], 1).unwrap();
        for other in [&b, &wide, &core::t(&dense(dtype, 5)).unwrap()] {
            let want = core::mm(&a, other).unwrap();
            for l in LAYOUTS {
                let s = sparse(&a, l);
                equal(&core::mm(&s, other).unwrap(), &want, &format!("mm of {} in {dtype}", l.name()));
            }
        }
        let want = core::mm(&b, &a).unwrap();
        for l in LAYOUTS {
            equal(
                &core::mm(&b, &sparse(&a, l)).unwrap(),
                &want,
                &format!("dense mm {} in {dtype}", l.name()),
            );
        }
        for l in [Layout::SparseCoo, Layout::SparseCsr] {
            equal(
                &core::mm(&sparse(&a, l), &sparse(&b, l)).unwrap(),
                &core::mm(&a, &b).unwrap(),
                "both sparse",
            );
        }
        let v = core::select(&b, 1, 0).unwrap();
        for l in LAYOUTS {
            equal(&core::mv(&sparse(&a, l), &v).unwrap(), &core::mv(&a, &v).unwrap(), "mv");
        }
    }
}

#[test]
fn sums_over_dimensions_stay() {
    let d = dense(DType::F64, 0);
    let s = sparse(&d, Layout::SparseCsr);
    for dims in [&[0][..], &[1], &[-1], &[0, 1]] {
        let want = core::sum(&d, Some(dims), true, None).unwrap();
        let got = core::sum(&s, Some(dims), true, None).unwrap();
        assert_eq!(got.layout(), Layout::SparseCsr);
        equal(&got, &want, &format!("{dims:?}"));
    }
    let e = core::sum(&s, Some(&[0]), false, None).unwrap_err();
    assert_eq!(e.message(), "reduction operations on CSR tensors with keepdim=False is unsupported");
    let coo = sparse(&d, Layout::SparseCoo);
    for dims in [&[0][..], &[1], &[0, 1]] {
        for keep in [false, true] {
            equal(
                &core::sum(&coo, Some(dims), keep, None).unwrap(),
                &core::sum(&d, Some(dims), keep, None).unwrap(),
                &format!("{dims:?} {keep}"),
            );
        }
        equal(
            &ops::sparse_sum(&coo, Some(dims), None).unwrap(),
            &core::sum(&d, Some(dims), false, None).unwrap(),
            "sum",
        );
    }
}

#[test]
fn batches_are_selected_and_sampled() {
    let (x, y) = (dense(DType::F64, 0), dense(DType::F64, 3));
    let batch = core::stack(&[x.clone(), y.clone()], 0).unwrap();
    for l in [Layout::SparseCsr, Layout::SparseCsc] {
        let s = sparse(&batch, l);
        let second = core::select(&s, 0, 1).unwrap();
        assert_eq!(second.layout(), l);
        equal(&second, &y, "the second matrix");
        let e = core::select(&s, 1, 0).unwrap_err();
        let text =
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors.";
        assert_eq!(e.message(), text);
    }
    let (a, b) = (torch::ones([2, 4, 5]).to(DType::F64), torch::ones([2, 5, 6]).to(DType::F64));
    let s = sparse(&batch, Layout::SparseCsr);
    let r = ops::sampled_addmm(&s, &a, &b, 2.into(), 3.into()).unwrap();
    let set = core::ne(&batch, &scalar(0)).unwrap();
    let want = (&batch * 2.0) + set.to(DType::F64) * 15.0;
    equal(&r, &want, "sampled");
}

#[test]
fn half_of_every_four() {
    let a = Tensor::from_slice(
        &[0f32, 3.0, 0.0, -1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 1.0, 1.0, 0.0, 0.0],
        [2, 8],
    );
    let s = flambeau_sparse::sparse::to_sparse_semi_structured(&a);
    assert_eq!(s.values().to_vec::<f32>(), [3.0, -1.0, 2.0, 0.0, 5.0, 6.0, 1.0, 1.0]);
    assert!(torch::equal(&s.to_dense(), &a));
    let x = torch::arange(24).to(DType::F32).view([3, 8]);
    let bias = Tensor::from_slice(&[1f32, -1.0], 2);
    let want = core::add(&core::mm(&x, &core::t(&a).unwrap()).unwrap(), &bias, 1.into()).unwrap();
    assert!(torch::equal(&s.linear(&x, Some(&bias)), &want));
    let three = Tensor::from_slice(&[1f32, 2.0, 3.0, 0.0], [1, 4]);
    let e = flambeau_sparse::sparse::SparseSemiStructuredTensor::try_new(&three).unwrap_err();
    assert!(e.message().contains("not 2:4 sparse"), "{e}");
}

#[test]
fn invariants_have_pytorchs_texts() {
    use flambeau_sparse::{SparseOptions, functions as f};
    let v = Tensor::from_slice(&[1f32, 2.0, 3.0], 3);
    let check = |starts: &[i64], columns: &[i64], size: &[i64]| {
        let at = |l: &[i64]| Tensor::from_slice(l, l.len() as i64);
        let o = SparseOptions::new().size(size).check_invariants(true);
        let r = f::try_sparse_compressed_tensor(&at(starts), &at(columns), &v, Layout::SparseCsr, o);
        r.err().map(|e| e.message().to_owned()).unwrap_or_default()
    };
    assert_eq!(check(&[0, 2, 3], &[0, 1, 0], &[2, 2]), "");
    assert_eq!(check(&[1, 2, 3], &[0, 1, 0], &[2, 2]), "`crow_indices[..., 0] == 0` is not satisfied.");
    assert_eq!(check(&[0, 2, 2], &[0, 1, 0], &[2, 2]), "`crow_indices[..., -1] == nnz` is not satisfied.");
    assert_eq!(check(&[0, 2, 3], &[0, 5, 0], &[2, 2]), "`0 <= col_indices < ncols` is not satisfied.");
    assert_eq!(
        check(&[0, 3, 3], &[0, 1, 0], &[2, 2]),
        "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied."
    );
    for columns in [[1, 0, 0], [1, 1, 0]] {
        assert_eq!(
            check(&[0, 2, 3], &columns, &[2, 2]),
            "`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and \
             distinct along the last dimension values` is not satisfied."
        );
    }
    assert_eq!(
        check(&[0, 2, 3, 3], &[0, 1, 0], &[2, 2]),
        "crow_indices.shape[-1] must be equal to the number of rows + 1 (=3), but got 4"
    );
    assert_eq!(
        check(&[0, 2, 3], &[0, 1, 0], &[2, 2, 2]),
        "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + 0) but got 3"
    );
}
