//! Rules by hand, in all dtypes, and over many tensors at once.

use flambeau_cpu::optim::erased::Step;
use flambeau_cpu::optim::*;
use flambeau_cpu::{Any, AnyMut, Element};

fn sgd(momentum: f64) -> SGD {
    SGD {
        lr: 0.1,
        momentum,
        dampening: 0.5,
        weight_decay: 0.01,
        nesterov: false,
        maximize: false,
        first: true,
    }
}
fn item<'a, T: Element, R>(rule: R, p: &'a mut [T], g: &'a [T], kept: Vec<&'a mut [T]>) -> Item<'a, R> {
    let mut kept = kept.into_iter().map(AnyMut::new);
    Item { rule, param: AnyMut::new(p), grad: Any::new(g), kept: [kept.next(), kept.next(), kept.next()] }
}

#[test]
fn sgd_by_hand() {
    let (mut p, mut b) = ([1.0f64, -2.0], [0.0; 2]);
    let o = sgd(0.9);
    SGD::step(vec![item(o, &mut p, &[0.5, 0.25], vec![&mut b])]).unwrap().unwrap();
    let want = [1.0 - 0.1 * 0.51, -2.0 - 0.1 * 0.23];
    assert!((p[0] - want[0]).abs() < 1e-15 && (p[1] - want[1]).abs() < 1e-15, "{p:?}");
    let o = SGD { first: false, ..o };
    SGD::step(vec![item(o, &mut p, &[0.5, 0.25], vec![&mut b])]).unwrap().unwrap();
    let g = 0.5 + 0.01 * want[0];
    assert!((b[0] - (0.9 * 0.51 + 0.5 * g)).abs() < 1e-15, "{b:?}");
}

/// Adam's rule written out, over lengths around blocks and grains, against one call over many tensors.
#[test]
fn many_tensors_are_one_row() {
    let lengths = [1usize, 63, 64, 65, 0, 5000, 100_003, 7];
    for (amsgrad, decoupled, maximize) in [(false, false, false), (true, true, true)] {
        let rule = Adam {
            lr: 0.01,
            betas: (0.9, 0.99),
            eps: 1e-8,
            weight_decay: 0.1,
            decoupled,
            amsgrad,
            maximize,
            correction1: 0.19,
            root2: 0.0199f64.sqrt(),
        };
        let value = |i: usize, k: f64| ((i as f64 + 1.0) * k).sin();
        let make = |k: f64| -> Vec<Vec<f64>> {
            lengths.iter().map(|n| (0..*n).map(|i| value(i, k)).collect()).collect()
        };
        let (mut p, g, mut m, mut v, mut top) = (make(0.3), make(0.7), make(0.2), make(0.5), make(0.9));
        v.iter_mut().chain(&mut top).flatten().for_each(|x| *x = x.abs());
        let (p0, m0, v0, top0) = (p.clone(), m.clone(), v.clone(), top.clone());
        let items =
            p.iter_mut().zip(&g).zip(m.iter_mut().zip(&mut v)).zip(&mut top).map(|(((p, g), (m, v)), t)| {
                let mut kept: Vec<&mut [f64]> = vec![m, v];
                if amsgrad {
                    kept.push(t);
                }
                item(rule, p, g, kept)
            });
        Adam::step(items.collect()).unwrap().unwrap();
        for t in 0..lengths.len() {
            for i in 0..lengths[t] {
                let mut gi = if maximize { -g[t][i] } else { g[t][i] };
                let mut pi = p0[t][i];
                if decoupled {
                    pi *= 1.0 - 0.01 * 0.1;
                } else {
                    gi += 0.1 * pi;
                }
                let mi = 0.9 * m0[t][i] + 0.1 * gi;
                let vi = 0.99 * v0[t][i] + 0.01 * gi * gi;
                let second = if amsgrad { vi.max(top0[t][i]) } else { vi };
                pi -= 0.01 / 0.19 * mi / (second.sqrt() / rule.root2 + 1e-8);
                assert!((p[t][i] - pi).abs() < 1e-12, "{t} {i}: {} {pi}", p[t][i]);
                assert!((m[t][i] - mi).abs() < 1e-14 && (v[t][i] - vi).abs() < 1e-14);
            }
        }
    }
}

#[test]
fn halves_are_computed_in_f32() {
    use half::bf16;
    let n = 10_000;
    let numbers = |k: f32| -> Vec<bf16> { (0..n).map(|i| bf16::from_f32((i as f32 * k).sin())).collect() };
    let (mut p, g, mut b) = (numbers(0.3), numbers(0.7), numbers(0.2));
    let wide = |v: &[bf16]| -> Vec<f32> { v.iter().map(|x| x.to_f32()).collect() };
    let (mut wp, wg, mut wb) = (wide(&p), wide(&g), wide(&b));
    let o = SGD { first: false, ..sgd(0.9) };
    SGD::step(vec![item(o, &mut p, &g, vec![&mut b])]).unwrap().unwrap();
    SGD::step(vec![item(o, &mut wp, &wg, vec![&mut wb])]).unwrap().unwrap();
    for i in 0..n {
        assert_eq!(p[i], bf16::from_f32(wp[i]), "{i}");
        assert_eq!(b[i], bf16::from_f32(wb[i]), "{i}");
    }
}

#[test]
fn rprop_signs() {
    let rule = Rprop { etas: (0.5, 1.2), step_sizes: (1e-6, 50.0), maximize: false };
    let mut p = [1.0f32; 4];
    let (mut previous, mut sizes) = ([1.0f32, 1.0, 0.0, f32::NAN], [0.1f32; 4]);
    Rprop::step(vec![item(rule, &mut p, &[2.0, -2.0, -2.0, 1.0], vec![&mut previous, &mut sizes])])
        .unwrap()
        .unwrap();
    assert_eq!(&p[..3], [1.0 - 0.1 * 1.2, 1.0, 1.1]);
    assert!(p[3].is_nan());
    assert_eq!(&previous, &[2.0, 0.0, -2.0, 1.0]);
    assert_eq!(&sizes[..3], [0.1 * 1.2, 0.05, 0.1]);
}

#[test]
fn refusals() {
    let o = sgd(0.0);
    assert!(SGD::step(vec![item(o, &mut [1f32], &[], vec![])]).unwrap().is_err());
    assert!(SGD::step(vec![item(o, &mut [1f32], &[1.0], vec![&mut [1.0]])]).unwrap().is_err());
    assert!(SGD::step(vec![item(o, &mut [1i32], &[1], vec![])]).is_none());
    let mut single = [1f32];
    let mixed =
        Item { rule: o, param: AnyMut::new(&mut single), grad: Any::new(&[1f64]), kept: [None, None, None] };
    assert!(SGD::step(vec![mixed]).is_none());
    assert!(SGD::step(vec![]).unwrap().is_ok());
}
