use flambeau_cpu::rnn::*;

fn values(n: usize, seed: u32) -> Vec<f64> {
    let mut x = seed.wrapping_mul(40503).wrapping_add(12345);
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            (x >> 8) as f64 / (1 << 23) as f64 - 1.0
        })
        .collect()
}
struct Layer {
    cell: Cell,
    hidden: usize,
    out: usize,
    steps: Vec<usize>,
    reverse: bool,
    all: [Vec<f64>; 6],
}
impl Layer {
    fn new(cell: Cell, hidden: usize, out: usize, steps: &[usize], reverse: bool) -> Layer {
        let (rows, batch) = (steps.iter().sum::<usize>(), steps[0]);
        let n = cell.gates() * hidden;
        let width = cell.parts() * hidden;
        let projected = out != hidden;
        let sizes = [
            rows * width,
            n * out,
            width,
            if projected { out * hidden } else { 0 },
            batch * out,
            if cell == Cell::Lstm { batch * hidden } else { 0 },
        ];
        let all = std::array::from_fn(|i| values(sizes[i], i as u32 + 1));
        Layer { cell, hidden, out, steps: steps.to_vec(), reverse, all }
    }
    fn shape(&self) -> RecurrentShape<'_> {
        RecurrentShape {
            cell: self.cell,
            hidden: self.hidden,
            out: self.out,
            steps: &self.steps,
            reverse: self.reverse,
        }
    }
    fn run<T: RecurrentScalar>(&self, of: impl Fn(f64) -> T) -> [Vec<T>; 3] {
        let all: Vec<Vec<T>> = self.all.iter().map(|v| v.iter().map(|x| of(*x)).collect()).collect();
        let s = self.shape();
        let plain = self.cell.gates() == 1;
        let mut out = if plain { all[0].clone() } else { vec![T::ZERO; s.rows() * self.out] };
        let mut gates = if plain { Vec::new() } else { all[0].clone() };
        let mut cells = vec![T::ZERO; if self.cell == Cell::Lstm { s.rows() * self.hidden } else { 0 }];
        forward(&s, None, weights(&all), &mut gates, &mut out, &mut cells);
        [out, cells, gates]
    }
    /// The sum of all results, each times its place.
    fn loss(&self) -> f64 {
        let [out, cells, _] = self.run(|x| x);
        let sum =
            |v: &[f64], k: f64| v.iter().enumerate().map(|(i, x)| x * (k + i as f64 * 0.01)).sum::<f64>();
        sum(&out, 0.3) + sum(&cells, -0.2)
    }
}
fn weights<T>(all: &[Vec<T>]) -> Weights<'_, T> {
    Weights {
        hh: &all[1],
        bias: Some(&all[2]),
        hr: Some(&all[3][..]).filter(|v| !v.is_empty()),
        h0: &all[4],
        c0: Some(&all[5][..]).filter(|v| !v.is_empty()),
    }
}
fn layers() -> Vec<Layer> {
    let mut all = Vec::new();
    for reverse in [false, true] {
        for steps in [&[3, 3, 3][..], &[4, 2, 2, 1]] {
            for cell in [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru] {
                all.push(Layer::new(cell, 3, 3, steps, reverse));
            }
            all.push(Layer::new(Cell::Lstm, 3, 2, steps, reverse));
        }
    }
    all
}

/// Rows are sequences: alone they give what they give in a batch.
#[test]
fn rows_are_independent() {
    for l in layers() {
        let [out, _, _] = l.run(|x| x);
        let starts = l.shape().starts();
        let width = l.shape().width();
        for row in 0..l.steps[0] {
            let steps: Vec<usize> = l.steps.iter().take_while(|n| **n > row).map(|_| 1).collect();
            let mut one = Layer::new(l.cell, l.hidden, l.out, &steps, l.reverse);
            let pick = |v: &[f64], at: &[usize], n: usize| -> Vec<f64> {
                at.iter().flat_map(|r| v[r * n..(r + 1) * n].to_vec()).collect()
            };
            let places: Vec<usize> = (0..steps.len()).map(|t| starts[t] + row).collect();
            one.all[0] = pick(&l.all[0], &places, width);
            one.all[1..4].clone_from_slice(&l.all[1..4]);
            one.all[4] = pick(&l.all[4], &[row], l.out);
            if !l.all[5].is_empty() {
                one.all[5] = pick(&l.all[5], &[row], l.hidden);
            }
            let [alone, _, _] = one.run(|x| x);
            for (a, b) in alone.iter().zip(pick(&out, &places, l.out)) {
                assert!((a - b).abs() < 1e-12, "{:?} {a} {b}", l.cell);
            }
        }
    }
}

#[test]
fn gradients_are_slopes() {
    for mut l in layers() {
        let [out, cells, gates] = l.run(|x| x);
        let grad = |v: &[f64], k: f64| (0..v.len()).map(|i| k + i as f64 * 0.01).collect::<Vec<f64>>();
        let (grad_out, grad_cells) = (grad(&out, 0.3), grad(&cells, -0.2));
        let projected = l.out != l.hidden;
        let rows = l.shape().rows();
        let mut dg = vec![0.0; l.all[0].len()];
        let (mut dh, mut dc) = (vec![0.0; l.all[4].len()], vec![0.0; l.all[5].len()]);
        let mut rest = vec![0.0; if projected { rows * l.out } else { 0 }];
        let saved = Saved {
            weights: weights(&l.all),
            gates: &gates,
            out: &out,
            cells: &cells,
            grad_out: Some(&grad_out),
            grad_cells: (!cells.is_empty()).then_some(&grad_cells[..]),
        };
        let g = Gradients { gates: &mut dg, h0: &mut dh, c0: &mut dc, out: &mut rest };
        backward(&l.shape(), saved, g);
        // the fourth part of a gated unit's row is no input
        let (width, h) = (l.shape().width(), l.hidden);
        for (which, got) in [(0, dg), (4, dh), (5, dc)] {
            for (i, got) in got.into_iter().enumerate() {
                if which == 0 && l.cell == Cell::Gru && i % width >= 3 * h {
                    continue;
                }
                let old = l.all[which][i];
                let mut at = |d: f64| {
                    l.all[which][i] = old + d;
                    l.loss()
                };
                let want = (at(1e-6) - at(-1e-6)) / 2e-6;
                l.all[which][i] = old;
                assert!((got - want).abs() < 1e-6, "{:?} input {which}[{i}]: {got} {want}", l.cell);
            }
        }
    }
}

/// The input's part that the layer multiplies itself, for steps of many and of few rows, is what the gates hold otherwise.
#[test]
fn with_the_input() {
    fn check<T: RecurrentScalar>(cell: Cell, steps: &[usize], of: impl Fn(f64) -> T, error: f64) {
        let l = Layer::new(cell, 35, 35, steps, false);
        let (n, k, s) = (cell.gates() * 35, 9, l.shape());
        let (x, ih) = (values(s.rows() * k, 7), values(n * k, 8));
        let mut all: Vec<Vec<T>> = l.all.iter().map(|v| v.iter().map(|x| of(x * 0.2)).collect()).collect();
        for row in 0..s.rows() {
            for j in 0..n {
                let sum = (0..k).map(|p| x[row * k + p] * ih[j * k + p]).sum::<f64>();
                all[0][row * s.width() + j] = of(sum);
            }
        }
        let [x, ih] = [x, ih].map(|v| v.into_iter().map(&of).collect::<Vec<T>>());
        let plain = cell.gates() == 1;
        let run = |input: Option<Input<T>>, start: &[T]| {
            let mut out = if plain { start.to_vec() } else { vec![T::ZERO; s.rows() * 35] };
            let mut gates = if plain { Vec::new() } else { start.to_vec() };
            let mut cells = vec![T::ZERO; if cell == Cell::Lstm { s.rows() * 35 } else { 0 }];
            forward(&s, input, weights(&all), &mut gates, &mut out, &mut cells);
            out
        };
        let want = run(None, &all[0]);
        let got = run(Some(Input { x: &x, ih: &ih }), &vec![T::ZERO; all[0].len()]);
        for (a, b) in got.iter().zip(&want) {
            assert!((a.f64() - b.f64()).abs() < error, "{cell:?} {steps:?}: {a:?} {b:?}");
        }
    }
    for cell in [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru] {
        for steps in [&[20, 17, 3][..], &[5, 5, 2], &[1]] {
            check(cell, steps, |x| x as f32, 2e-5);
            check(cell, steps, |x| x, 1e-12);
        }
    }
}

#[test]
fn both_types_and_many_rows_agree() {
    for cell in [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru] {
        let l = Layer::new(cell, 70, 70, &[37, 37, 20, 3], true);
        let (wide, single) = (l.run(|x| x * 0.1), l.run(|x| (x * 0.1) as f32));
        for (a, b) in wide[0].iter().zip(&single[0]) {
            assert!((a - f64::from(*b)).abs() < 1e-5, "{cell:?} {a} {b}");
        }
    }
}
