//! Times, printed on request: `cargo test --release -p flambeau-cpu --test it -- --ignored --nocapture speed`.

use crate::Rng;
use flambeau_cpu::engine::parallel::set_num_threads;
use flambeau_cpu::norm::layer;
use flambeau_cpu::reduction::{self, Geo};
use flambeau_cpu::{scan, softmax, sorting};

/// Speed of the three contiguous cases.
#[test]
#[ignore]
fn speed_of_reductions() {
    set_num_threads(1);
    let x: Vec<f32> = (0..4096 * 1024).map(|i| (i % 1000) as f32).collect();
    let time = |what: &str, f: &mut dyn FnMut()| {
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let t = std::time::Instant::now();
            f();
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{what}: {:.2} ms, {:.1} GB/s", best * 1e3, x.len() as f64 * 4.0 / best / 1e9);
    };
    for g in [Geo::contiguous(1, x.len(), 1), Geo::contiguous(4096, 1024, 1), Geo::contiguous(1, 4096, 1024)]
    {
        let mut o = vec![0f32; g.rows()];
        let mut i = vec![0i64; g.rows()];
        println!("{g:?}");
        time("sum", &mut || reduction::sum(&x, g, &mut o));
        time("amax", &mut || reduction::amax(&x, g, &mut o));
        time("argmax", &mut || reduction::argmax(&x, g, &mut i));
        time("var", &mut || reduction::var::<f32, f32>(&x, g, 1.0, &mut o));
        time("norm2", &mut || reduction::norm(&x, g, 2.0, &mut o));
        time("logsumexp", &mut || reduction::logsumexp(&x, g, &mut o));
    }
}

/// Times with one thread.
#[test]
#[ignore]
fn speed_of_rows() {
    set_num_threads(1);
    let mut r = Rng(4);
    let x: Vec<f32> = (0..1_000_000).map(|_| r.f() as f32).collect();
    let z: Vec<i64> = (0..1_000_000).map(|_| r.bits() as i64 >> 4).collect();
    let (mut v, mut at) = (x.clone(), vec![0i64; x.len()]);
    let mut w = z.clone();
    let time = |what: &str, f: &mut dyn FnMut()| {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let t = std::time::Instant::now();
            f();
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{what}: {:.2} ms", best * 1e3);
    };
    let (one, rows, cols) =
        (Geo::contiguous(1, 1_000_000, 1), Geo::contiguous(1000, 1000, 1), Geo::contiguous(1, 1000, 1000));
    time("sort f32 1e6", &mut || sorting::sort(&x, one, false, &mut v, &mut at));
    time("sort i64 1e6", &mut || sorting::sort(&z, one, false, &mut w, &mut at));
    time("sort f32 rows of 1000", &mut || sorting::sort(&x, rows, false, &mut v, &mut at));
    time("topk 100 of 1e6", &mut || sorting::topk(&x, one, 100, true, true, &mut v[..100], &mut at[..100]));
    time("softmax rows", &mut || softmax::softmax(&x, 1000, 1000, 1, &mut v));
    time("softmax columns", &mut || softmax::softmax(&x, 1, 1000, 1000, &mut v));
    time("cumsum rows", &mut || scan::cumsum(&x, rows, &mut v));
    time("cumsum columns", &mut || scan::cumsum(&x, cols, &mut v));
    let (mut m, mut s) = (vec![0f32; 1000], vec![0f32; 1000]);
    let a = layer::Affine { gamma: Some(&x[..1000]), beta: Some(&x[..1000]) };
    time("layer norm", &mut || layer::layer_norm(&x, 1000, a, 1e-5, &mut v, &mut m, &mut s));
}
