use super::*;

#[test]
fn ties_go_to_even_and_ends_hold() {
    let rule = Rule { inverse: 2.0, zero: 10, low: 0, high: 255 };
    let x = [-1000.0, -0.75, -0.25, 0.25, 0.75, 1e9, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let mut q = [0u8; 9];
    quantize(&x, &mut q, rule);
    assert_eq!(q, [0, 8, 10, 10, 12, 255, 255, 255, 0]);
    let mut back = [0f32; 9];
    dequantize(&q, &mut back, 0.5, 10);
    assert_eq!(back[..4], [-5.0, -1.0, 0.0, 0.0]);
}
#[test]
fn many_are_shared_out() {
    let x: Vec<f32> = (0..300_000).map(|i| (i % 1000) as f32 / 100.0 - 5.0).collect();
    let rule = Rule { inverse: 20.0, zero: 3, low: -128, high: 127 };
    let mut q = vec![0i8; x.len()];
    quantize(&x, &mut q, rule);
    assert!(x.iter().zip(&q).all(|(x, q)| i32::from(*q) == rule.apply(*x)));
}
