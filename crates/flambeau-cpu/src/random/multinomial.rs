//! Weighted choice of categories.

use super::Generator;
use super::bulk::RandomFloat;
use crate::engine::room::{collected, filled, room};

const INVALID: &str = "probability tensor contains either `inf`, `nan` or element < 0";
const ZERO_SUM: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

/// The places of the `samples` largest values of each row, the largest first.
fn winners(race: &[f64], categories: usize, samples: usize, out: &mut [i64]) {
    let mut order: Vec<usize> = room(categories);
    for (row, out) in race.chunks(categories).zip(out.chunks_mut(samples)) {
        order.clear();
        order.extend(0..categories);
        let before = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]).then(a.cmp(b));
        if samples < categories {
            order.select_nth_unstable_by(samples - 1, before);
        }
        order[..samples].sort_unstable_by(before);
        out.iter_mut().zip(&order).for_each(|(o, i)| *o = *i as i64);
    }
}

impl Generator {
    /// Draws `samples` category indices per row of `weights` (rows of `categories` values, not normalised), with or
    /// without replacement (`multinomial`). `out` has `rows * samples` elements. Errors for a negative, infinite or NaN
    /// weight, for a row without weight, and for more samples than categories without replacement.
    pub fn multinomial<T: RandomFloat>(
        &mut self,
        weights: &[T],
        categories: usize,
        samples: usize,
        replacement: bool,
        out: &mut [i64],
    ) -> Result<(), String> {
        if categories == 0 || samples == 0 {
            return Err("cannot sample n_sample <= 0 samples".into());
        }
        // A single draw is the same either way, and the race below is what the recorded streams have.
        if replacement && samples > 1 {
            let weights = collected(weights.iter().map(|w| w.to_f64()));
            return self.with_replacement(&weights, T::WIDE, categories, samples, out);
        }
        if samples > categories {
            return Err("cannot sample n_sample > prob_dist.size(-1) samples without replacement".into());
        }
        let weights = collected(weights.iter().map(|w| w.to_f64()));
        if weights.iter().any(|w| !(*w >= 0.0 && *w < f64::INFINITY)) {
            return Err(INVALID.into());
        }
        if weights.chunks(categories).any(|r| r.iter().all(|w| *w == 0.0)) {
            return Err(ZERO_SUM.into());
        }
        // The largest weight / Exp(1) are the sample (the Gumbel trick), both rounded to the dtype.
        let mut race = filled(T::of_f64(0.0), weights.len());
        self.exponential(&mut race, 1.0);
        let ratio = |(r, w): (&T, &f64)| {
            let v =
                if T::WIDE { T::of_f64(w / r.to_f64()) } else { T::of_f32(*w as f32 / r.to_f64() as f32) };
            v.to_f64()
        };
        let race = collected(race.iter().zip(&weights).map(ratio));
        winners(&race, categories, samples, out);
        Ok(())
    }

    fn with_replacement(
        &mut self,
        weights: &[f64],
        wide: bool,
        categories: usize,
        samples: usize,
        out: &mut [i64],
    ) -> Result<(), String> {
        // Sums are in float32 but for float64 weights.
        let round = |v: f64| if wide { v } else { f64::from(v as f32) };
        let mut cumulative = filled(0.0, categories);
        for (row, out) in weights.chunks(categories).zip(out.chunks_mut(samples)) {
            let mut sum = 0.0;
            for (c, &w) in cumulative.iter_mut().zip(row) {
                if w < 0.0 || w.is_nan() {
                    return Err(
                        "invalid multinomial distribution (encountering probability entry < 0)".into()
                    );
                }
                if w.is_infinite() {
                    return Err(
                        "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
                            .into(),
                    );
                }
                sum = round(sum + w);
                *c = sum;
            }
            if sum <= 0.0 || sum.is_nan() {
                return Err(ZERO_SUM.into());
            }
            cumulative.iter_mut().for_each(|c| *c = round(*c / sum));
            cumulative[categories - 1] = 1.0;
            for o in out {
                let u = self.uniform53();
                *o = cumulative.partition_point(|c| *c < u) as i64;
            }
        }
        Ok(())
    }
}
