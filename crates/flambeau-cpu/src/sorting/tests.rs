use super::*;

fn numbers(n: usize) -> impl Iterator<Item = u64> {
    let mut s = 7u64;
    (0..n).map(move |_| {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        s ^ s >> 29
    })
}
/// Against a stable sort of places by their elements; rows along a dimension in the middle, and contiguous ones.
fn check<T: Order + PartialEq + std::fmt::Debug>(x: &[T], g: Geo) {
    for descending in [false, true] {
        let (mut values, mut indices) = (x.to_vec(), vec![0i64; x.len()]);
        sort(x, g, descending, &mut values, &mut indices);
        for row in 0..g.rows() {
            let at = |k: usize| row / g.inner * g.n * g.inner + k * g.inner + row % g.inner;
            let mut want: Vec<usize> = (0..g.n).collect();
            want.sort_by(|i, j| {
                let by = x[at(*i)].key().cmp(&x[at(*j)].key());
                if descending { by.reverse() } else { by }
            });
            for (k, w) in want.iter().enumerate() {
                assert_eq!(indices[at(k)], *w as i64, "{} elements, row {row}, place {k}", g.n);
                assert_eq!(values[at(k)], x[at(*w)], "{} elements, row {row}, place {k}", g.n);
            }
        }
    }
}
fn all_kinds(n: usize, g: Geo) {
    check::<i64>(&numbers(n).map(|v| (v >> 40) as i64 - (1 << 23)).collect::<Vec<_>>(), g);
    check::<i64>(&numbers(n).map(|v| v as i64).collect::<Vec<_>>(), g);
    check::<u64>(&numbers(n).map(|v| v % 5).collect::<Vec<_>>(), g);
    check::<u64>(&numbers(n).collect::<Vec<_>>(), g);
    check::<i32>(&numbers(n).map(|v| v as i32).collect::<Vec<_>>(), g);
    check::<i64>(&vec![-3; n], g);
    check::<f32>(&numbers(n).map(|v| v as i32 as f32).collect::<Vec<_>>(), g);
    check::<f64>(&numbers(n).map(|v| v as i64 as f64).collect::<Vec<_>>(), g);
}
#[test]
fn sorts_are_stable_ones() {
    for n in [1, 2, 255, 300, 20_000] {
        all_kinds(n, Geo::contiguous(1, n, 1));
    }
    all_kinds(3 * 400 * 2, Geo::contiguous(3, 400, 2));
    all_kinds(70 * 5, Geo::contiguous(70, 5, 1));
}
#[test]
fn long_rows_on_several_threads() {
    let before = num_threads();
    for threads in [1, 3] {
        crate::engine::parallel::set_num_threads(threads);
        all_kinds(LONG + 77, Geo::contiguous(1, LONG + 77, 1));
    }
    crate::engine::parallel::set_num_threads(before);
}
#[test]
fn keys_of_integers_give_them_back() {
    for v in numbers(100) {
        assert_eq!(i64::of_key((v as i64).key()), Some(v as i64));
        assert_eq!(u64::of_key(Order::key(v)), Some(v));
        assert_eq!(i32::of_key((v as i32).key()), Some(v as i32));
        assert_eq!(u32::of_key((v as u32).key()), Some(v as u32));
        assert_eq!(i16::of_key((v as i16).key()), Some(v as i16));
        assert_eq!(u16::of_key((v as u16).key()), Some(v as u16));
        assert_eq!(i8::of_key((v as i8).key()), Some(v as i8));
        assert_eq!(u8::of_key((v as u8).key()), Some(v as u8));
        assert_eq!(unkey::<i32>(key(v as i32, true), true), Some(v as i32));
    }
    assert_eq!(f32::of_key(1.0f32.key()), None);
}
