//! Figures and texts of measurements: those of PyTorch 2.15 for the same numbers.

use flambeau_utils::benchmark::*;

fn spec(stmt: &str, description: &str, threads: usize) -> TaskSpec {
    TaskSpec {
        stmt: stmt.into(),
        setup: "y=1".into(),
        label: Some("L".into()),
        sub_label: Some("S".into()),
        description: Some(description.into()),
        env: None,
        num_threads: threads,
    }
}
fn measured() -> Measurement {
    Measurement {
        number_per_run: 10,
        raw_times: vec![1e-5, 2e-5, 1.1e-5, 1.05e-5],
        task_spec: spec("x+y", "D", 2),
    }
}

#[test]
fn figures() {
    let m = measured();
    assert!((m.median() - 1.075e-6).abs() < 1e-15 && (m.mean() - 1.2875e-6).abs() < 1e-15);
    assert!((m.iqr() - 2.875e-7).abs() < 1e-15);
    assert_eq!((m.significant_figures(), m.has_warnings()), (1, true));
    assert_eq!(
        m.to_string(),
        "L: S\nD\nsetup: y=1\n  Median: 1.07 us\n  IQR:    0.29 us (1.04 to 1.33)\n  4 measurements, 10 runs per measurement, 2 \
         threads\n  WARNING: Interquartile range is 26.7% of the median measurement.\n           This suggests significant environmental \
         influence."
    );
    let merged = Measurement::merge(&[m.clone(), m]);
    assert_eq!((merged.len(), merged[0].raw_times.len(), merged[0].number_per_run), (1, 8, 1));
}

#[test]
fn tables() {
    let mut other = measured();
    other.task_spec.description = Some("D2".into());
    other.raw_times = vec![4e-5; 4];
    let mut c = Compare::new([measured(), other]);
    let t = c.to_string();
    assert!(t.contains("2 threads: ---"), "{t}");
    assert!(t.contains("1.1") && t.contains("4.0"), "{t}");
    assert!(t.trim_end().ends_with("Times are in microseconds (us)."), "{t}");
    c.trim_significant_figures();
    c.highlight_warnings();
    assert!(c.to_string().contains("(! 27%)"), "{c}");
    assert_eq!(trim_sigfig(3.14159, 2), 3.1);
    assert_eq!((select_unit(2e-7).0, unit_to_english("ms")), ("ns", "millisecond"));
}

#[test]
fn timers_measure() {
    let mut n = 0u64;
    let m = Timer::new("n += 1", || n = std::hint::black_box(n + 1)).sub_label("sum").timeit(1000);
    assert_eq!((m.number_per_run, m.raw_times.len(), m.title()), (1000, 1, "n += 1: sum".into()));
    assert_eq!(n, 1010);
    let m = Timer::new("x", || {
        std::hint::black_box(0);
    })
    .blocked_autorange(0.01);
    assert!(m.raw_times.iter().sum::<f64>() >= 0.01);
    let m = Timer::new("x", || {
        std::hint::black_box(0);
    })
    .adaptive_autorange(10.0, 0.01, 1.0);
    assert!(m.raw_times.len() > 3);
}

#[test]
fn counts_of_functions() {
    let one = |count, f: &str| FunctionCount { count, function: f.to_string() };
    let a = FunctionCounts::new([one(5, "b"), one(7, "a"), one(3, "b")], false);
    assert_eq!(a.iter().map(|c| c.count).collect::<Vec<_>>(), [8, 7]);
    let b = FunctionCounts::new([one(8, "b"), one(1, "c"), one(4, "_int_malloc")], false);
    assert_eq!((&a - &b).sum(), 15 - 13);
    assert_eq!(b.denoise().sum(), 9);
    assert_eq!(a.transform(|_| "x".into()).len(), 1);
    assert_eq!(a.filter(|f| f == "a").sum(), 7);
    // counts at the ends of what numbers hold, as a file may have them
    let ends = FunctionCounts::new([one(i64::MAX, "b"), one(i64::MAX, "b"), one(i64::MIN, "c")], false);
    let twice = &ends + &ends;
    assert_eq!((twice.sum(), (&ends - &ends).len()), (-1, 1));
    assert!(ends.to_string().contains("9223372036854775807"));
    let e = CallgrindStats::read("/no/such/file").unwrap_err();
    assert!(!e.message().is_empty());
}
