//! Differences at uneven points, segments, histograms, hashes, parts of numbers.

use super::{ints, near, t};
use flambeau_core::{DType, ErrorKind, Scalar, Tensor, ops};

const NAN: f64 = f64::NAN;

const INF: f64 = f64::INFINITY;

#[test]
fn gradients_of_uneven_points() {
    let squares: Vec<f64> = (0..12).map(|i| f64::from(i * i)).collect();
    let x = t(&squares, &[3, 4]);
    let at = t(&[0.0, 1.0, 3.0], &[3]);
    let by_coordinates = ops::gradient_coordinates_dims(&x, &[at], &[0], 2).unwrap();
    near(
        &by_coordinates[0],
        &[
            13.333333333333334,
            22.666666666666664,
            32.0,
            41.333333333333336,
            18.666666666666664,
            25.333333333333336,
            32.0,
            38.666666666666664,
            29.333333333333336,
            30.666666666666664,
            32.0,
            33.333333333333336,
        ],
    );
    let even = ops::gradient_spacing_dims(&x, Scalar::Float(0.5), &[1], 1).unwrap();
    near(&even[0], &[2.0, 4.0, 8.0, 10.0, 18.0, 20.0, 24.0, 26.0, 34.0, 36.0, 40.0, 42.0]);
    // the parabola through three points is exact for squares
    let line = t(&[0.0, 1.0, 4.0, 9.0], &[4]);
    near(&ops::gradient(&line, None, Some(0), 2).unwrap()[0], &[0.0, 2.0, 4.0, 6.0]);
    assert!(ops::gradient(&t(&[1.0], &[]), None, None, 1).unwrap().is_empty());
}

#[test]
fn segments() {
    let d = t(&[1.0, 5.0, 2.0, NAN, 3.0], &[5]);
    let lengths = ints(&[2, 0, 1, 2]);
    let offsets = ints(&[1, 3]);
    for (how, plain, initial, by_offsets) in [
        ("sum", [6.0, 0.0, 2.0, NAN], [10.0, 4.0, 6.0, NAN], 8.0),
        ("mean", [3.0, NAN, 2.0, NAN], [5.0, 4.0, 6.0, NAN], 4.0),
        ("prod", [5.0, 1.0, 2.0, NAN], [20.0, 4.0, 8.0, NAN], 10.0),
        ("max", [5.0, -INF, 2.0, NAN], [5.0, 4.0, 4.0, NAN], 5.0),
        ("min", [1.0, INF, 2.0, NAN], [1.0, 4.0, 2.0, NAN], 1.0),
    ] {
        let run = |l: Option<&Tensor>, o: Option<&Tensor>, i: Option<i64>| {
            ops::segment_reduce(&d, how, l, None, o, 0, false, i.map(Scalar::Int)).unwrap()
        };
        near(&run(Some(&lengths), None, None), &plain);
        near(&run(Some(&lengths), None, Some(4)), &initial);
        near(&run(None, Some(&offsets), Some(1)), &[by_offsets]);
    }
    let short = ints(&[2, 1]);
    let reduce = |unsafe_| ops::segment_reduce(&d, "sum", Some(&short), None, None, 0, unsafe_, None);
    assert!(reduce(false).unwrap_err().message().contains("sum to data.size"));
    near(&reduce(true).unwrap(), &[6.0, 2.0]);
    // PyTorch reads beyond the data here
    let long = ints(&[2, 9]);
    assert!(ops::segment_reduce(&d, "sum", Some(&long), None, None, 0, true, None).is_err());
}

#[test]
fn histograms() {
    let points = t(&[0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 0.25, 0.5, 2.0, 0.0], &[5, 2]);
    let range = [0.0, 1.0, 0.0, 2.0];
    let w = t(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5]);
    let (h, edges) = ops::histogramdd(&points, &[2, 2], Some(&range), Some(&w), false).unwrap();
    near(&h, &[5.0, 0.0, 0.0, 5.0]);
    near(&edges[1], &[0.0, 1.0, 2.0]);
    let (h, _) = ops::histogramdd(&points, &[2, 2], Some(&range), None, true).unwrap();
    near(&h, &[1.0, 0.0, 0.0, 1.0]);
    // the last bin has both its edges, numbers outside and NaN are in none
    let x = t(&[1.0, 2.0, 1.0, 4.0, NAN, -3.0, 3.0], &[7]);
    let (h, edges) = ops::histogram(&x, 4, Some(&[0.0, 3.0]), None, false).unwrap();
    near(&h, &[0.0, 2.0, 1.0, 1.0]);
    near(&edges, &[0.0, 0.75, 1.5, 2.25, 3.0]);
    let none = t(&[], &[0]);
    near(&ops::histogram(&none, 2, None, None, false).unwrap().1, &[0.0, 0.5, 1.0]);
    assert!(ops::histogram(&x, 1 << 60, Some(&[0.0, 3.0]), None, false).is_err());
    let e = ops::histogram(&x, 2, None, None, false).unwrap_err();
    assert!(e.message().contains("is not finite"), "{e}");
}

#[test]
fn hashes() {
    let hash = |x: &Tensor| ops::hash_tensor(x, &[], false, 0).unwrap().to_vec::<u64>()[0];
    assert_eq!(hash(&t(&[1.5], &[1])), 1.5f64.to_bits());
    assert_eq!(hash(&t(&[1.5, 2.0, -0.0], &[3]).to(DType::BF16)), 18444492273895866368);
    assert_eq!(hash(&Tensor::from_slice(&[1i8, 2, -3], 3)), 18446744073709551614);
    let rows = Tensor::from_slice(&[1i64, 2, 4, 8, 16, 32], [2, 3]);
    assert_eq!(ops::hash_tensor(&rows, &[1], false, 0).unwrap().to_vec::<u64>(), [7, 56]);
    assert_eq!(ops::hash_tensor(&rows, &[0], true, 0).unwrap().sizes(), [1, 3]);
    let e = ops::hash_tensor(&t(&[], &[0, 2]), &[0], false, 0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Index);
}

#[test]
fn mantissas_and_exponents() {
    let x = t(&[0.0, -0.0, 5e-324, INF, -INF, NAN, 3.0, -0.1], &[8]);
    let (m, e) = ops::frexp(&x).unwrap();
    near(&m, &[0.0, -0.0, 0.5, INF, -INF, NAN, 0.75, -0.8]);
    assert_eq!(e.to_vec::<i32>(), [0, 0, -1073, 0, 0, 0, 2, -3]);
    let column = ops::transpose(&t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), 0, 1).unwrap();
    assert_eq!(ops::frexp(&column).unwrap().1.to_vec::<i32>(), [1, 2, 2, 3]);
    assert!(ops::frexp(&ints(&[1])).is_err());
}
