//! Where memory goes wrong if it does: storages, views and the iterator at their edges. Small, for the memory checkers
//! (`cargo xtask memcheck`), which see a read or write past an end that a plain run does not.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::{DType, Device, Result, Tensor, ops};

fn ramp(sizes: &[i64], d: DType) -> Result<Tensor> {
    let n = sizes.iter().product::<i64>();
    let t = Tensor::from_vec_raw((0..n).collect::<Vec<i64>>(), sizes)?;
    ops::to_copy(&t, Some(d), None, None, None, false, None)
}
fn values(t: &Tensor) -> Result<Vec<f64>> {
    t.try_to_vec::<f64>()
}

/// Views of every kind, each with what it must read. Last elements matter: one too many is past the end.
fn views(x: &Tensor) -> Result<Vec<(Tensor, Vec<f64>)>> {
    let all: Vec<f64> = (0..12).map(f64::from).collect();
    let pick = |i: &[usize]| i.iter().map(|i| all[*i]).collect::<Vec<_>>();
    Ok(vec![
        (x.clone(), all.clone()),
        (ops::transpose(x, 0, 1)?, pick(&[0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11])),
        (ops::slice(x, 1, Some(1), None, 2)?, pick(&[1, 3, 5, 7, 9, 11])),
        (ops::select(x, 0, -1)?, pick(&[8, 9, 10, 11])),
        (ops::select(x, 1, 3)?, pick(&[3, 7, 11])),
        (ops::diagonal(x, 1, 0, 1)?, pick(&[1, 6, 11])),
        (ops::unfold(x, 1, 3, 1)?, pick(&[0, 1, 2, 1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9, 10, 9, 10, 11])),
        (ops::as_strided(x, &[2, 2], &[7, 4], Some(0))?, pick(&[0, 4, 7, 11])),
        (ops::as_strided(x, &[3], &[0], Some(11))?, pick(&[11, 11, 11])),
        (ops::narrow(x, 0, 2, 1)?, pick(&[8, 9, 10, 11])),
        (ops::narrow(x, 0, 3, 0)?, vec![]),
        (ops::expand(&ops::select(x, 0, 2)?, &[2, 4], false)?, pick(&[8, 9, 10, 11, 8, 9, 10, 11])),
        (ops::view(x, &[2, 6])?, all.clone()),
        (
            ops::permute(&ops::view(x, &[3, 2, 2])?, &[2, 0, 1])?,
            pick(&[0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]),
        ),
        (ops::unsqueeze(&ops::slice(x, 0, Some(2), None, 1)?, -1)?, pick(&[8, 9, 10, 11])),
    ])
}

const TYPES: [DType; 6] = [DType::F32, DType::F64, DType::I64, DType::U8, DType::F16, DType::C64];

#[test]
fn views_read_their_elements() -> Result<()> {
    for d in TYPES {
        let x = ramp(&[3, 4], d)?;
        for (i, (v, want)) in views(&x)?.into_iter().enumerate() {
            assert_eq!(values(&v)?, want, "view {i} of {d}");
            assert!(v.storage().same(x.storage()));
            assert_eq!(values(&ops::contiguous(&v, flambeau_core::MemoryFormat::Contiguous)?)?, want);
            assert_eq!(values(&ops::clone(&v, None)?)?, want);
        }
    }
    Ok(())
}

/// The iterator over every pair of layouts, fresh and in place.
#[test]
fn operators_over_all_layouts() -> Result<()> {
    for d in TYPES {
        let (x, y) = (ramp(&[3, 4], d)?, ramp(&[3, 4], d)?);
        for (a, va) in views(&x)? {
            for (b, vb) in views(&y)?.into_iter().filter(|(b, _)| b.sizes() == a.sizes()) {
                let want: Vec<f64> = va.iter().zip(&vb).map(|(a, b)| a + b).collect();
                assert_eq!(values(&ops::add(&a, &b, 1.into())?)?, want);
            }
            let total: f64 = va.iter().sum();
            if d != DType::U8 {
                assert_eq!(ops::sum(&a, None, false, None)?.try_item::<f64>()?, total);
            }
        }
        for i in 0..views(&x)?.len() {
            let x = ramp(&[3, 4], d)?;
            let (v, before) = views(&x)?.swap_remove(i);
            if ops::mul_(&v, &ramp(&[], d)?).is_err() {
                continue; // elements that certainly share memory are refused
            }
            assert_eq!(values(&v)?, vec![0.0; before.len()], "in place through view {i} of {d}");
            let left: Vec<f64> = (0..12).map(f64::from).filter(|e| !before.contains(e)).collect();
            assert_eq!(values(&x)?.iter().sum::<f64>(), left.iter().sum::<f64>());
        }
    }
    Ok(())
}

/// Lengths around the widths of vectors and blocks, at offsets that no vector load is aligned for.
#[test]
fn lengths_around_vectors() -> Result<()> {
    for d in TYPES {
        for n in [0i64, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 511, 513, 1025] {
            let base = ops::ones(&[n + 3], Some(d), None, None, None)?;
            let x = ops::slice(&base, 0, Some(3), None, 1)?;
            assert_eq!(values(&ops::add(&x, &x, 1.into())?)?, vec![2.0; n as usize]);
            ops::add_(&x, &x, 1.into())?;
            assert_eq!(values(&x)?, vec![2.0; n as usize]);
            assert_eq!(values(&base)?[..3], [1.0; 3]);
            assert_eq!(values(&ops::cat(&[x.clone(), base.clone()], 0)?)?.len(), 2 * n as usize + 3);
            if d.is_floating() {
                assert!(values(&ops::exp(&x)?)?.iter().all(|v| (v - 2f64.exp()).abs() < 0.01));
            }
        }
    }
    Ok(())
}

#[test]
fn storages_grow_and_keep_their_content() -> Result<()> {
    let mut out = ramp(&[2, 2], DType::F32)?;
    let alias = out.clone();
    let wide = ramp(&[600, 700], DType::F32)?;
    ops::add_out(&wide, &wide, 1.into(), &mut out)?;
    assert!(out.storage().same(alias.storage()), "one storage, grown");
    assert_eq!((out.sizes(), alias.sizes()), (&[600, 700][..], &[2, 2][..]));
    assert_eq!(values(&alias)?, [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(values(&ops::select(&out, 0, 599)?)?[699], 2.0 * (600.0 * 700.0 - 1.0));
    let s = Storage::zeroed(10, Device::Cpu)?;
    s.with_bytes_mut(|b| b.fill(7))?;
    s.grow(5000)?;
    s.with_bytes(|b| assert!(b.len() == 5000 && b[..10] == [7; 10]))?;
    Ok(())
}

#[test]
fn foreign_memory_of_any_alignment() -> Result<()> {
    for n in 0..40usize {
        let mut v: Vec<u8> = (0..n as u8).collect();
        v.shrink_to_fit();
        let t = Tensor::from_vec_raw(v, &[n as i64])?;
        assert_eq!(t.try_to_vec::<u8>()?, (0..n as u8).collect::<Vec<_>>());
        if n.is_multiple_of(8) && n > 0 {
            let w = ops::view_dtype(&t, DType::F64)?;
            assert_eq!(w.sizes(), [n as i64 / 8]);
            assert_eq!(values(&w)?.len(), n / 8);
        }
        // a view with a wider type that does not start where such an element may
        let odd = ops::slice(&t, 0, Some(1), None, 1)?;
        assert!(n == 0 || ops::view_dtype(&odd, DType::I32).is_err() || odd.numel() == 0);
    }
    Ok(())
}

#[test]
fn overlapping_reads_and_writes() -> Result<()> {
    let x = ramp(&[12], DType::F32)?;
    let (low, high) = (ops::slice(&x, 0, Some(0), Some(8), 1)?, ops::slice(&x, 0, Some(4), Some(12), 1)?);
    assert!(ops::add_(&low, &high, 1.into()).is_err(), "partial overlap is refused");
    ops::copy_(&low, &high, false)?;
    assert_eq!(values(&x)?, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 8.0, 9.0, 10.0, 11.0]);
    ops::copy_(&x, &ops::flip(&x, &[0])?, false)?;
    assert_eq!(values(&x)?[0], 11.0);
    let m = ramp(&[3, 3], DType::F32)?;
    ops::copy_(&m, &ops::t(&m)?, false)?;
    assert_eq!(values(&m)?, [0.0, 3.0, 6.0, 1.0, 4.0, 7.0, 2.0, 5.0, 8.0]);
    Ok(())
}

#[test]
fn indices_reach_the_last_element() -> Result<()> {
    let x = ramp(&[5, 7], DType::F32)?;
    let i = Tensor::from_vec_raw(vec![4i64, 0, 4], &[3])?;
    assert_eq!(values(&ops::index_select(&x, 0, &i)?)?[6], 34.0);
    assert_eq!(values(&ops::take(&x, &Tensor::from_vec_raw(vec![34i64, -35], &[2])?)?)?, [34.0, 0.0]);
    let columns = ops::expand(&i, &[5, 3], false)?;
    assert_eq!(values(&ops::gather(&x, 1, &columns, false)?)?[14], 32.0);
    assert_eq!(values(&ops::index(&x, &[Some(i.clone()), Some(i.clone())])?)?, [32.0, 0.0, 32.0]);
    ops::index_put_(&x, &[Some(i.clone()), None], &ramp(&[7], DType::F32)?, true)?;
    assert_eq!(values(&ops::select(&x, 0, 4)?)?[6], 34.0 + 12.0);
    let mask = ops::gt(&x, &ramp(&[], DType::F32)?)?;
    assert_eq!(ops::masked_select(&x, &mask)?.numel(), ops::nonzero(&mask)?.sizes()[0]);
    for bad in [35, -36, i64::MAX, i64::MIN] {
        assert!(ops::take(&x, &Tensor::from_vec_raw(vec![bad], &[1])?).is_err());
    }
    Ok(())
}

#[test]
fn guards_see_their_elements() -> Result<()> {
    let x = ramp(&[4, 5], DType::F32)?;
    let row = ops::select(&x, 0, 3)?;
    assert_eq!(row.try_elements::<f32>()?.last(), Some(&19.0));
    row.try_elements_mut::<f32>()?[4] = -1.0;
    assert_eq!(values(&x)?[19], -1.0);
    assert!(ops::t(&x)?.try_elements::<f32>().is_err());
    let kept = {
        let owner = ramp(&[3], DType::I64)?;
        ops::slice(&owner, 0, Some(2), None, 1)?
    };
    assert_eq!(kept.try_to_vec::<i64>()?, [2], "a view keeps the memory");
    Ok(())
}

#[test]
fn sorts_reductions_and_products_at_their_ends() -> Result<()> {
    for n in [1i64, 2, 17, 33, 130] {
        let x = ramp(&[3, n], DType::F32)?;
        let back = ops::flip(&x, &[1])?;
        let (sorted, order) = ops::sort(&back, 1, false)?;
        assert_eq!(values(&sorted)?, values(&x)?);
        assert_eq!(order.try_to_vec::<i64>()?[0], n - 1);
        assert_eq!(values(&ops::topk(&x, 1, 1, true, true)?.0)?[2], (3 * n - 1) as f64);
        assert_eq!(values(&ops::max_dim(&ops::t(&x)?, 0, false)?.0)?, values(&ops::amax(&x, &[1], false)?)?);
        let p = ops::mm(&x, &ops::t(&x)?)?;
        assert_eq!(p.sizes(), [3, 3]);
        assert_eq!(values(&ops::cumsum(&x, 1, None)?)?.len(), 3 * n as usize);
        assert!((values(&ops::sum(&ops::softmax(&x, 1, None)?, None, false, None)?)?[0] - 3.0).abs() < 1e-5);
    }
    Ok(())
}
