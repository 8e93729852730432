//! Tests of the driver (layouts, halves, streaming) and of the formulas' edge values.

use flambeau_cpu::DType;
use flambeau_cpu::pointwise::*;
use half::{bf16, f16};

/// Runs an operator on dense inputs.
fn apply<T: Copy + Default, U: Copy + Default>(
    op: &Pointwise,
    compute: DType,
    ins: &[&[T]],
    params: &[f64],
) -> Vec<U> {
    let n = ins[0].len();
    let mut out = vec![U::default(); n];
    let l = op.find(compute).unwrap();
    assert_eq!(op.inputs, ins.len());
    assert_eq!(op.params, params.len());
    let params: Vec<Param> = params.iter().map(|p| Param::from(*p)).collect();
    let mut ptrs = vec![out.as_mut_ptr().cast::<u8>()];
    let mut strides = vec![size_of::<U>() as isize];
    for i in ins {
        assert_eq!(i.len(), n);
        ptrs.push(i.as_ptr() as *mut u8);
        strides.push(size_of::<T>() as isize);
    }
    // SAFETY: dense runs of n elements of the operator's dtypes.
    unsafe { l.run.call(ptrs.as_ptr(), strides.as_ptr(), n, params.as_ptr(), 0) };
    out
}
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}
fn check1(op: &Pointwise, params: &[f64], cases: &[(f32, f32)]) {
    let x: Vec<f32> = cases.iter().map(|c| c.0).collect();
    let y: Vec<f32> = apply(op, DType::F32, &[&x], params);
    for (c, y) in cases.iter().zip(y) {
        assert!(same(c.1, y), "{}({}) = {y}, not {}", op.name, c.0, c.1);
    }
}

#[test]
fn all_layouts_agree() {
    let n = 1500usize;
    let a: Vec<f32> = (0..n * 3).map(|i| i as f32 * 0.37 - 700.0).collect();
    let b: Vec<f32> = (0..n * 3).map(|i| (i as f32).sin()).collect();
    let l = ADD.find(DType::F32).unwrap();
    let p = [Param::from(2.0)];
    for (so, sa, sb) in
        [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (3, 2, 0), (2, 3, -1), (1, 3, 2)]
    {
        for flags in [0, STREAM] {
            let mut out = vec![-1.0f32; n * 3];
            let off = if sb < 0 { n } else { 0 };
            let ptrs = [out.as_mut_ptr().cast::<u8>(), a.as_ptr() as *mut u8, b[off..].as_ptr() as *mut u8];
            let strides = [4 * so, 4 * sa, 4 * sb];
            // SAFETY: the runs lie within 3n elements.
            unsafe { l.run.call(ptrs.as_ptr(), strides.as_ptr(), n, p.as_ptr(), flags) };
            for i in 0..n as isize {
                let want = b[(off as isize + i * sb) as usize].mul_add(2.0, a[(i * sa) as usize]);
                let got = out[(i * so) as usize];
                assert!((want - got).abs() < 1e-4, "{so} {sa} {sb} at {i}: {got} {want}");
            }
            if so > 1 {
                assert!(out[1..].iter().step_by(so as usize).all(|v| *v == -1.0));
            }
        }
    }
}

/// Runs that are long enough for short blocks: in place, streamed, with steps, with ends of all lengths.
#[test]
fn long_runs() {
    let n = 33_000usize;
    let a: Vec<f32> = (0..2 * n).map(|i| i as f32 * 0.25 - 700.0).collect();
    let b: Vec<f32> = (0..2 * n).map(|i| (i % 97) as f32).collect();
    let l = ADD.find(DType::F32).unwrap();
    let p = [Param::from(1.0)];
    for n in (0..130).map(|k| n - k) {
        for (sa, sb, flags) in [(1, 2, 0), (2, 2, STREAM), (1, 0, STREAM), (-2, 1, 0)] {
            let mut out = vec![-1.0f32; n + 1];
            let first = if sa < 0 { 2 * (n - 1) } else { 0 };
            let ptrs = [out.as_mut_ptr().cast::<u8>(), a[first..].as_ptr() as *mut u8, b.as_ptr() as *mut u8];
            // SAFETY: the runs lie within 2n elements.
            unsafe { l.run.call(ptrs.as_ptr(), [4, 4 * sa, 4 * sb].as_ptr(), n, p.as_ptr(), flags) };
            let want =
                |i: usize| a[(first as isize + i as isize * sa) as usize] + b[(i as isize * sb) as usize];
            assert!((0..n).all(|i| out[i] == want(i)) && out[n] == -1.0, "{n} {sa} {sb}");
        }
        let mut x = a.clone();
        let to = x.as_mut_ptr().cast::<u8>();
        // SAFETY: in place over a part of the vector.
        unsafe { l.run.call([to, to, b.as_ptr() as *mut u8].as_ptr(), [4; 3].as_ptr(), n, p.as_ptr(), 0) };
        assert!((0..n).all(|i| x[i] == a[i] + b[i]) && x[n..] == a[n..], "{n} in place");
    }
}

#[test]
fn in_place_with_its_own_first_element() {
    let mut x: Vec<f32> = (1..2000).map(|i| i as f32).collect();
    let l = MUL.find(DType::F32).unwrap();
    x[0] = 3.0;
    let p = x.as_mut_ptr().cast::<u8>();
    // SAFETY: in place over the whole vector; the scalar is one of its elements.
    unsafe { l.run.call([p, p, p].as_ptr(), [4, 4, 0].as_ptr(), x.len(), std::ptr::null(), 0) };
    assert_eq!(x[0], 9.0);
    assert!(x[1..].iter().enumerate().all(|(i, v)| *v == 3.0 * (i + 2) as f32));
}

#[test]
fn halves_go_through_f32() {
    use half::{bf16, f16};
    let x: Vec<f16> = (0..1100).map(|i| f16::from_f32(i as f32 * 0.01 - 5.0)).collect();
    let y: Vec<f16> = apply(&EXP, DType::F16, &[&x], &[]);
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(f16::from_f64(x.to_f64().exp()), *y);
    }
    let x: Vec<bf16> = (0..1100).map(|i| bf16::from_f32(i as f32 * 0.01 - 5.0)).collect();
    let y: Vec<bf16> = apply(&MUL, DType::BF16, &[&x, &x], &[]);
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(bf16::from_f32(x.to_f32() * x.to_f32()), *y);
    }
    let z: Vec<bool> = apply::<bf16, u8>(&GT, DType::BF16, &[&x, &y], &[]).iter().map(|v| *v == 1).collect();
    assert_eq!(z, x.iter().zip(&y).map(|(a, b)| a > b).collect::<Vec<_>>());
}

/// Results of gelu below -5 are a few of float16's smallest numbers: what the distribution function leaves out shows there.
#[test]
fn gelu_of_every_half() {
    use half::f16;
    let x: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|v| v.is_finite()).collect();
    let y: Vec<f16> = apply(&GELU, DType::F16, &[&x], &[]);
    for (x, y) in x.iter().zip(&y) {
        let x = x.to_f64();
        let want = 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        // the distance of float16 numbers there
        let (_, exponent) = libm::frexp(want);
        let unit = libm::ldexp(1.0, exponent.max(-13) - 11);
        assert!((y.to_f64() - want).abs() <= unit, "{x}: {y} for {want}");
    }
}

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

#[test]
fn edges_of_unary_formulas() {
    check1(&ROUND, &[], &[(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (NAN, NAN), (INF, INF)]);
    check1(&SIGN, &[], &[(NAN, 0.0), (-0.0, 0.0), (-2.0, -1.0), (INF, 1.0)]);
    check1(&RELU, &[], &[(NAN, NAN), (-1.0, 0.0), (2.0, 2.0)]);
    check1(&CLAMP, &[-1.0, 1.0], &[(NAN, NAN), (-5.0, -1.0), (5.0, 1.0), (0.5, 0.5)]);
    check1(&CLAMP, &[f64::NAN, 1.0], &[(0.0, NAN)]);
    check1(&SOFTPLUS, &[1.0, 20.0], &[(100.0, 100.0), (-INF, 0.0), (NAN, NAN), (-200.0, 0.0)]);
    check1(&HARDSHRINK, &[0.5], &[(0.5, 0.0), (0.6, 0.6), (NAN, NAN)]);
    check1(&LOG, &[], &[(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (1.0, 0.0)]);
    check1(&SIGMOID, &[], &[(INF, 1.0), (-INF, 0.0), (NAN, NAN), (0.0, 0.5), (-200.0, 0.0)]);
    check1(&SINC, &[], &[(0.0, 1.0)]);
    check1(&THRESHOLD, &[1.0, 7.0], &[(1.0, 7.0), (1.5, 1.5), (NAN, NAN)]);
}

#[test]
fn edges_of_binary_formulas() {
    let cases: &[(&Pointwise, f32, f32, f32)] = &[
        (&REMAINDER, -7.0, 3.0, 2.0),
        (&REMAINDER, 7.0, -3.0, -2.0),
        (&REMAINDER, 1.0, 0.0, NAN),
        (&FMOD, -7.0, 3.0, -1.0),
        (&DIV_FLOOR, -7.0, 2.0, -4.0),
        (&DIV_FLOOR, 1.0, 0.0, INF),
        (&DIV_FLOOR, -0.0, 2.0, -0.0),
        (&DIV_TRUNC, -7.0, 2.0, -3.0),
        (&MAXIMUM, NAN, 1.0, NAN),
        (&MAXIMUM, 1.0, NAN, NAN),
        (&MINIMUM, 1.0, NAN, NAN),
        (&FMAX, NAN, 1.0, 1.0),
        (&FMAX, 1.0, NAN, 1.0),
        (&FMIN, NAN, 1.0, 1.0),
        (&POW, -2.0, 3.0, -8.0),
        (&POW, 0.0, 0.0, 1.0),
        (&XLOGY, 0.0, 0.0, 0.0),
        (&XLOGY, 0.0, NAN, NAN),
        (&LOGADDEXP, -INF, -INF, -INF),
        (&LOGADDEXP, INF, INF, INF),
        (&COPYSIGN, 1.0, -0.0, -1.0),
        (&HEAVISIDE, 0.0, 0.5, 0.5),
        (&HEAVISIDE, NAN, 0.5, 0.0),
        (&NEXTAFTER, 1.0, 2.0, 1.0 + f32::EPSILON),
        (&HYPOT, 3e30, 4e30, 5e30),
        (&HYPOT, INF, NAN, INF),
    ];
    for (op, a, b, want) in cases {
        let got: Vec<f32> = apply(op, DType::F32, &[&[*a][..], &[*b]], &[]);
        assert!(same(got[0], *want), "{}({a}, {b}) = {}, not {want}", op.name, got[0]);
    }
}

#[test]
fn integers_wrap() {
    let got: Vec<i8> = apply(&ADD, DType::I8, &[&[100i8, -128][..], &[100, -1]], &[1.0]);
    assert_eq!(got, [-56, 127]);
    let got: Vec<i32> = apply(&REMAINDER, DType::I32, &[&[-7i32, 7, i32::MIN][..], &[3, -3, -1]], &[]);
    assert_eq!(got, [2, -2, 0]);
    let got: Vec<i64> = apply(&DIV_FLOOR, DType::I64, &[&[-7i64, 7, -6][..], &[2, -2, 3]], &[]);
    assert_eq!(got, [-4, -4, -2]);
    let got: Vec<i32> = apply(&POW, DType::I32, &[&[3i32, -1, 2, 1][..], &[4, -3, -1, -5]], &[]);
    assert_eq!(got, [81, -1, 0, 1]);
    let got: Vec<i32> = apply(&RIGHT_SHIFT, DType::I32, &[&[-8i32, -8, 8][..], &[1, 40, -1]], &[]);
    assert_eq!(got, [-4, -1, 0]);
}

/// Prints microseconds per 10^4 elements: `cargo test --release -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures, asserts nothing"]
fn speed() {
    let x: Vec<f32> = (0..10_000).map(|i| i as f32 * 0.001 - 5.0).collect();
    let mut out = vec![0f32; 10_000];
    let all: &[(&Pointwise, &[f64])] = &[
        (&EXP, &[]),
        (&TANH, &[]),
        (&GELU, &[]),
        (&GELU_TANH, &[]),
        (&SIGMOID, &[]),
        (&SILU, &[]),
        (&SOFTPLUS, &[1.0, 20.0]),
        (&ERF, &[]),
        (&LOG, &[]),
        (&LOG1P, &[]),
        (&EXPM1, &[]),
        (&SIN, &[]),
        (&COS, &[]),
        (&MISH, &[]),
        (&SQRT, &[]),
        (&RELU, &[]),
        (&ADD, &[1.0]),
        (&MUL, &[]),
        (&POW, &[]),
    ];
    for (op, p) in all {
        let p: Vec<Param> = p.iter().map(|v| Param::from(*v)).collect();
        for d in [DType::F32, DType::F16, DType::BF16] {
            let w = d.size() as isize;
            let l = op.find(d).unwrap();
            let (h, b): (Vec<f16>, Vec<bf16>) =
                x.iter().map(|v| (f16::from_f32(*v), bf16::from_f32(*v))).unzip();
            let i = match d {
                DType::F32 => x.as_ptr() as *mut u8,
                DType::F16 => h.as_ptr() as *mut u8,
                _ => b.as_ptr() as *mut u8,
            };
            let mut best = f64::INFINITY;
            for _ in 0..300 {
                let t = std::time::Instant::now();
                // SAFETY: dense runs of 10^4 elements.
                unsafe {
                    l.run.call(
                        [out.as_mut_ptr().cast(), i, i].as_ptr(),
                        [w; 3].as_ptr(),
                        x.len(),
                        p.as_ptr(),
                        0,
                    )
                };
                best = best.min(t.elapsed().as_secs_f64() * 1e6);
            }
            print!("{:10} {:8} {best:7.2} us  ", op.name, d.name());
        }
        println!();
    }
}
