//! Quasi-random points: PyTorch's numbers.

use flambeau_core::api::quasirandom::SobolEngine;
use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{DType, ErrorKind};
use flambeau_test_support::alone;

#[test]
fn points_are_pytorchs() {
    let mut e = SobolEngine::new(3).unwrap();
    let want = [0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.75, 0.25, 0.25, 0.25, 0.75, 0.75, 0.375, 0.375, 0.625];
    assert_eq!(e.draw(5, None).unwrap().to_vec::<f32>(), want);
    assert_eq!(e.num_generated(), 5);
}

/// All dimensions: sums of points 1000 and 1001, and the end of the next one.
#[test]
fn every_dimension() {
    let mut e = SobolEngine::new(21201).unwrap();
    let p = e.fast_forward(1000).unwrap().draw(2, None).unwrap().to_vec::<f32>();
    let sum = |l: &[f32]| l.iter().map(|v| f64::from(*v)).sum::<f64>();
    assert_eq!((sum(&p[..21201]), sum(&p[21201..])), (10646.1318359375, 10580.6318359375));
    let last = e.draw(1, None).unwrap().to_vec::<f32>();
    assert_eq!(last[21196..], [0.7314453125, 0.7431640625, 0.6650390625, 0.1962890625, 0.8330078125]);
}

#[test]
fn scrambling_takes_the_random_stream() {
    alone!();
    let mut e = SobolEngine::scrambled(5, Some(7)).unwrap();
    let p = e.draw(3, Some(DType::F64)).unwrap().to_vec::<f64>();
    assert_eq!(p[..2], [0.19947312772274017, 0.17093220353126526]);
    assert_eq!(p[5..8], [0.7324259607121348, 0.8607320971786976, 0.20738640520721674]);
    e.fast_forward(100).unwrap();
    let q = e.draw(1, None).unwrap().to_vec::<f32>();
    let want = [
        0.04703090712428093,
        0.8722456693649292,
        0.7233315706253052,
        0.3872409462928772,
        0.06726106256246567,
    ];
    assert_eq!(q, want.map(|v: f64| v as f32));
    manual_seed(5);
    let r = SobolEngine::scrambled(2, None).unwrap().draw(2, None).unwrap().to_vec::<f32>();
    let want = [0.4802905321121216, 0.11725887656211853, 0.9497883319854736, 0.743020236492157];
    assert_eq!(r, want.map(|v: f64| v as f32));
}

#[test]
fn skipping_and_starting_anew() {
    let mut e = SobolEngine::scrambled(4, Some(1)).unwrap();
    let a = e.fast_forward(5).unwrap().draw(2, None).unwrap().to_vec::<f32>();
    let all = e.reset().draw(7, None).unwrap().to_vec::<f32>();
    assert_eq!(a, all[20..]);
    for steps in [1, 2, 3, 64, 1000] {
        let mut far = SobolEngine::new(7).unwrap();
        far.fast_forward(3).unwrap().fast_forward(steps).unwrap();
        let mut near = SobolEngine::new(7).unwrap();
        near.draw(3 + steps, None).unwrap();
        assert_eq!(far.draw(2, None).unwrap().to_vec::<f32>(), near.draw(2, None).unwrap().to_vec::<f32>());
    }
    assert!(e.fast_forward(1 << 31).is_err());
    assert!(e.fast_forward(-1).is_err());
}

#[test]
fn refusals() {
    let text = |r: flambeau_core::Result<SobolEngine>| r.unwrap_err().to_string();
    let range = "Supported range of dimensionality for SobolEngine is [1, 21201]";
    assert_eq!(text(SobolEngine::new(0)), range);
    assert_eq!(text(SobolEngine::new(21202)), range);
    let mut e = SobolEngine::new(2).unwrap();
    assert_eq!(e.draw(2, Some(DType::I64)).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(e.draw(0, None).unwrap_err().to_string(), "n must be non-negative, but got -1");
    e.draw(3, None).unwrap();
    assert!(e.draw_base2(2, None).unwrap_err().to_string().contains("n=3+2**2=7"));
    assert!(e.draw(i64::MAX, None).is_err());
}
