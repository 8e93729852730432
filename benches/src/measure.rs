//! The timing rules.

use crate::row::Body;
use std::time::Instant;

/// What the samples of a row say.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Seconds of a call, middle sample.
    pub median: f64,
    /// Seconds of a call, fastest sample.
    pub min: f64,
    /// Processor seconds of the whole process for a call, least sample; none where the system cannot tell.
    pub cpu: Option<f64>,
    /// Number of samples.
    pub repeats: usize,
    /// Calls in a sample.
    pub inner: usize,
    /// How often the row was measured again.
    pub reruns: usize,
}

const WARM_UP: f64 = 0.15;
const WARM_UP_CALLS: usize = 2;
const SAMPLE: f64 = 4e-3;
const MOST_CALLS: f64 = 1e5;
const LEAST_SAMPLES: usize = 7;
/// Slow rows stop here with fewer samples.
const LONGEST: f64 = 3.0;
const LEAST_SLOW_SAMPLES: usize = 3;
const NOISY: f64 = 1.2;
const MOST_RERUNS: usize = 2;
const SLOW: f64 = 0.3;

/// Processor time of this process so far, all threads together.
#[cfg(unix)]
fn cpu_seconds() -> Option<f64> {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9)
}
#[cfg(not(unix))]
fn cpu_seconds() -> Option<f64> {
    None
}

fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    0.5 * (sorted[(n - 1) / 2] + sorted[n / 2])
}

/// Calls in a sample: enough for the clock, by the fastest call of the warm-up.
fn calls_per_sample(fastest: f64) -> usize {
    (SAMPLE / fastest.max(1e-8)).ceil().clamp(1.0, MOST_CALLS) as usize
}

fn once(body: &mut dyn Body, min_time: f64) -> Timing {
    let (start, mut fastest, mut calls) = (Instant::now(), f64::INFINITY, 0);
    while calls < WARM_UP_CALLS || start.elapsed().as_secs_f64() < WARM_UP {
        let t = Instant::now();
        body.repeat(1);
        fastest = fastest.min(t.elapsed().as_secs_f64());
        calls += 1;
    }
    let inner = calls_per_sample(fastest);
    let (mut samples, mut total, mut cpu) = (Vec::new(), 0.0, None::<f64>);
    while !(total >= min_time && samples.len() >= LEAST_SAMPLES
        || total >= LONGEST && samples.len() >= LEAST_SLOW_SAMPLES)
    {
        let (c, t) = (cpu_seconds(), Instant::now());
        body.repeat(inner);
        let wall = t.elapsed().as_secs_f64();
        let used = cpu_seconds().zip(c).map(|(after, before)| after - before);
        cpu = used.map(|u| cpu.map_or(u, |least| least.min(u)));
        samples.push(wall / inner as f64);
        total += wall;
    }
    samples.sort_by(f64::total_cmp);
    let cpu = cpu.map(|c| c / inner as f64);
    Timing { median: median(&samples), min: samples[0], cpu, repeats: samples.len(), inner, reruns: 0 }
}

/// Of two measurements of one row: the one with the lower median, with the least of both in `min` and `cpu`.
fn better(a: Timing, b: Timing) -> Timing {
    let (min, cpu) = (a.min.min(b.min), a.cpu.zip(b.cpu).map(|(x, y)| x.min(y)));
    Timing { min, cpu, ..if b.median < a.median { b } else { a } }
}

/// Times a row; noisy ones of several threads are measured again.
pub fn measure(body: &mut dyn Body, min_time: f64, threads: usize) -> Timing {
    let mut best = once(body, min_time);
    let mut reruns = 0;
    while threads > 1 && best.median > NOISY * best.min && best.median < SLOW && reruns < MOST_RERUNS {
        reruns += 1;
        best = better(best, once(body, min_time));
    }
    Timing { reruns, ..best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }

    #[test]
    fn samples_take_four_milliseconds() {
        assert_eq!(calls_per_sample(1e-3), 4);
        assert_eq!(calls_per_sample(3e-3), 2);
        assert_eq!(calls_per_sample(1.0), 1);
        assert_eq!(calls_per_sample(0.0), 100_000);
    }

    #[test]
    fn every_sample_calls_often_enough() {
        let mut calls = 0;
        let t = measure(&mut || calls += 1, 0.01, 1);
        assert!(t.repeats >= LEAST_SAMPLES && calls > t.repeats * t.inner, "{t:?} {calls}");
        assert!(t.min <= t.median && t.reruns == 0);
    }

    #[test]
    fn the_better_of_two() {
        let t = |median, min, cpu| Timing { median, min, cpu: Some(cpu), repeats: 7, inner: 1, reruns: 0 };
        let b = better(t(2.0, 1.5, 1.0), t(1.8, 1.6, 1.2));
        assert_eq!((b.median, b.min, b.cpu), (1.8, 1.5, Some(1.0)));
    }
}
