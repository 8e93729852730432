//! Random numbers of a device: Philox itself by its published vectors, PyTorch's sequences, and the distributions.

use crate::emulated::floats;
use flambeau_core::types::generator::{Generator, manual_seed};
use flambeau_core::{DType, Device, Tensor, ops};

/// Philox4x32-10 on the host.
fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let (mut k, mut c) = ([key as u32, (key >> 32) as u32], counter);
    for _ in 0..10 {
        let (a, b) = (0xD251_1F53u64 * u64::from(c[0]), 0xCD9E_8D57u64 * u64::from(c[2]));
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}
/// What the authors of Philox published with it.
#[test]
fn published_vectors() {
    assert_eq!(philox(0, [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox(u64::MAX, [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    assert_eq!(philox(0x299f_31d0_a409_3822, pi), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}

fn fresh(sizes: &[i64], d: DType) -> Tensor {
    ops::empty(sizes, Some(d), None, Some(Device::cuda(0)), None, None).unwrap()
}
fn close(got: &Tensor, want: &[f64]) {
    for (a, b) in floats(got).iter().zip(want) {
        assert!((a - b).abs() < 6e-5, "{a} {b}");
    }
}
pub fn all() {
    sequences();
    memory_order();
    offsets();
    moments();
    chances();
    permutations();
    choices();
}
/// The first numbers of each thread, as PyTorch has them on its devices.
fn sequences() {
    manual_seed(0);
    close(
        &in_place::uniform(&fresh(&[6], DType::F32), 0.0, 1.0, None),
        &[0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967],
    );
    manual_seed(0);
    close(
        &in_place::normal(&fresh(&[6], DType::F32), 0.0, 1.0, None),
        &[-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797],
    );
    // all 64 bits: the halves of a block, in turn for elements that lie as many apart as there are threads
    let seed = 0x0123_4567_89ab_cdef;
    let g = Generator::new();
    g.manual_seed(seed);
    let t = fresh(&[300], DType::I64);
    ops::random_from_(&t, i64::MIN, None, Some(&g)).unwrap();
    for (i, v) in t.try_to_vec::<i64>().unwrap().into_iter().enumerate() {
        let w = philox(seed, [0, 0, i as u32, 0]);
        assert_eq!(v as u64, u64::from(w[0]) << 32 | u64::from(w[1]), "{i}");
    }
    // and what is drawn next begins with the next block
    ops::random_from_(&t, 0, Some(1000), Some(&g)).unwrap();
    for (i, v) in t.try_to_vec::<i64>().unwrap().into_iter().enumerate() {
        assert_eq!(v as u32, philox(seed, [1, 0, i as u32, 0])[0] % 1000, "{i}");
    }
}
mod in_place {
    //! Draws that give their tensor back.
    use super::*;
    pub fn uniform(t: &Tensor, a: f64, b: f64, g: Option<&Generator>) -> Tensor {
        ops::uniform_(t, a, b, g).unwrap();
        t.clone()
    }
    pub fn normal(t: &Tensor, a: f64, b: f64, g: Option<&Generator>) -> Tensor {
        ops::normal_(t, a, b, g).unwrap();
        t.clone()
    }
}
/// A tensor by columns gets the same numbers in the order of its memory.
fn memory_order() {
    let flat = fresh(&[12], DType::F32);
    let turned = ops::t(&fresh(&[4, 3], DType::F32)).unwrap();
    for t in [&flat, &turned] {
        manual_seed(3);
        ops::uniform_(t, -1.0, 2.0, None).unwrap();
    }
    assert_eq!(floats(&ops::t(&turned).unwrap()), floats(&flat));
}
/// Offsets move by four for each call of the generator, and states bring them back.
fn offsets() {
    use flambeau_devices::cuda;
    manual_seed(5);
    let t = fresh(&[1000], DType::F32);
    let before = cuda::get_rng_state();
    ops::uniform_(&t, 0.0, 1.0, None).unwrap();
    let first = floats(&t);
    ops::uniform_(&t, 0.0, 1.0, None).unwrap();
    assert_ne!(floats(&t), first);
    cuda::set_rng_state(before);
    ops::uniform_(&t, 0.0, 1.0, None).unwrap();
    assert_eq!(floats(&t), first);
    // a generator keeps its own offset, also in its state
    let g = Generator::new();
    let state = g.state_bytes();
    let one = floats(&in_place::uniform(&t, 0.0, 1.0, Some(&g)));
    let later = g.state_bytes();
    let two = floats(&in_place::uniform(&t, 0.0, 1.0, Some(&g)));
    assert_ne!(one, two);
    g.set_state_bytes(&later).unwrap();
    assert_eq!(floats(&in_place::uniform(&t, 0.0, 1.0, Some(&g))), two);
    g.set_state_bytes(&state).unwrap();
    assert_eq!(floats(&in_place::uniform(&t, 0.0, 1.0, Some(&g))), one);
}
fn mean_and_spread(t: &Tensor) -> (f64, f64) {
    let v = floats(t);
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    (mean, (v.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt())
}
fn about(what: &str, t: &Tensor, mean: f64, spread: f64) {
    let n = t.numel() as f64;
    let (m, s) = mean_and_spread(t);
    // five times as far as it is likely to be
    assert!((m - mean).abs() <= 5.0 * spread / n.sqrt() + 4e-3 * mean.abs(), "{what}: mean {m}, not {mean}");
    assert!((s - spread).abs() <= 0.06 * spread + 1e-9, "{what}: spread {s}, not {spread}");
}
fn moments() {
    manual_seed(11);
    for d in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let t = fresh(&[20000], d);
        ops::uniform_(&t, -1.0, 3.0, None).unwrap();
        about(&format!("uniform {d}"), &t, 1.0, 4.0 / 12f64.sqrt());
        assert!(floats(&t).iter().all(|v| (-1.0..3.0).contains(v)));
        ops::normal_(&t, 2.0, 3.0, None).unwrap();
        about(&format!("normal {d}"), &t, 2.0, 3.0);
        ops::exponential_(&t, 2.0, None).unwrap();
        about(&format!("exponential {d}"), &t, 0.5, 0.5);
        assert!(floats(&t).iter().all(|v| *v > 0.0));
        ops::log_normal_(&t, 0.0, 0.25, None).unwrap();
        let e = (0.0625f64).exp();
        about(&format!("log-normal {d}"), &t, e.sqrt(), (e * (e - 1.0)).sqrt());
        ops::geometric_(&t, 0.4, None).unwrap();
        about(&format!("geometric {d}"), &t, 2.5, 0.6f64.sqrt() / 0.4);
        let rates = ops::full(&[8000], 3.5.into(), Some(d), None, Some(Device::cuda(0)), None).unwrap();
        about(&format!("poisson {d}"), &ops::poisson(&rates, None).unwrap(), 3.5, 3.5f64.sqrt());
        about(&format!("gamma {d}"), &ops::standard_gamma(&rates, None).unwrap(), 3.5, 3.5f64.sqrt());
        ops::cauchy_(&t, 1.0, 1.0, None).unwrap();
        let mut v = floats(&t);
        v.sort_by(f64::total_cmp);
        assert!((v[10000] - 1.0).abs() < 0.1 && (v[15000] - 2.0).abs() < 0.2, "cauchy {d}");
    }
    let wide =
        |v: f64| ops::full(&[8000], v.into(), Some(DType::F64), None, Some(Device::cuda(0)), None).unwrap();
    about("large rates", &ops::poisson(&wide(200.0), None).unwrap(), 200.0, 200f64.sqrt());
    about("few trials", &ops::binomial(&wide(12.0), &wide(0.3), None).unwrap(), 3.6, (12.0 * 0.21f64).sqrt());
    about("trials", &ops::binomial(&wide(90.0), &wide(0.7), None).unwrap(), 63.0, (90.0 * 0.21f64).sqrt());
    about("small shapes", &ops::standard_gamma(&wide(0.3), None).unwrap(), 0.3, 0.3f64.sqrt());
    let complex = fresh(&[8000], DType::C64);
    ops::normal_(&complex, 0.0, 2.0, None).unwrap();
    about("complex", &ops::view_as_real(&complex).unwrap(), 0.0, 2f64.sqrt());
    for (d, most) in [(DType::U8, 255.0), (DType::I8, 127.0), (DType::I32, 2147483647.0), (DType::Bool, 1.0)]
    {
        let t = fresh(&[20000], d);
        ops::random_(&t, None).unwrap();
        let n: f64 = most + 1.0;
        about(&format!("random {d}"), &t, most / 2.0, ((n * n - 1.0) / 12.0).sqrt());
    }
}
fn chances() {
    manual_seed(13);
    for d in [DType::F32, DType::F64, DType::F16, DType::I64, DType::Bool] {
        let t = fresh(&[20000], d);
        ops::bernoulli_float_(&t, 0.3, None).unwrap();
        about(&format!("ones {d}"), &t, 0.3, 0.21f64.sqrt());
        let p = ops::full(&[], 0.8.into(), Some(DType::F64), None, Some(Device::cuda(0)), None).unwrap();
        ops::bernoulli_tensor_(&t, &p, None).unwrap();
        about(&format!("each {d}"), &t, 0.8, 0.4);
    }
    let wrong = ops::full(&[3], 1.5.into(), None, None, Some(Device::cuda(0)), None).unwrap();
    assert!(ops::bernoulli(&wrong, None).unwrap().try_to_vec::<f32>().is_err());
}
fn permutations() {
    manual_seed(17);
    for n in [1, 2, 5, 300, 9000] {
        let p = ops::randperm(n, None, None, None, Some(Device::cuda(0)), None).unwrap();
        let mut v = p.try_to_vec::<i64>().unwrap();
        assert!(n < 100 || v.iter().enumerate().any(|(i, x)| i as i64 != *x));
        v.sort_unstable();
        assert_eq!(v, (0..n).collect::<Vec<_>>());
    }
    // each order of three is as likely
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..600 {
        let p = ops::randperm(3, None, None, None, Some(Device::cuda(0)), None).unwrap();
        *seen.entry(p.try_to_vec::<i64>().unwrap()).or_insert(0) += 1;
    }
    assert!(seen.len() == 6 && seen.values().all(|n| (60..140).contains(n)), "{seen:?}");
}
fn choices() {
    manual_seed(19);
    let weights =
        crate::emulated::there(&Tensor::from_slice(&[1f32, 0.0, 3.0, 4.0, 2.0, 0.0, 0.0, 2.0], [2, 4]));
    let drawn = ops::multinomial(&weights, 4000, true, None).unwrap().try_to_vec::<i64>().unwrap();
    for (row, w) in drawn.chunks(4000).zip([[1.0, 0.0, 3.0, 4.0], [2.0, 0.0, 0.0, 2.0]]) {
        let all: f64 = w.iter().sum();
        for (k, w) in w.iter().enumerate() {
            let n = row.iter().filter(|v| **v == k as i64).count() as f64;
            assert!((n / 4000.0 - w / all).abs() < 0.04 && (*w > 0.0 || n == 0.0), "{k}: {n}");
        }
    }
    let once = ops::multinomial(&weights, 2, false, None).unwrap().try_to_vec::<i64>().unwrap();
    assert!(once[0] != once[1] && once[2] + once[3] == 3, "{once:?}");
    let none = ops::zeros(&[3], None, None, Some(Device::cuda(0)), None).unwrap();
    assert!(ops::multinomial(&none, 1, false, None).is_err());
}
