//! The report of where time goes.

use flambeau_core::functions as torch;
use flambeau_utils::bottleneck::run;
use std::time::Duration;

#[test]
fn the_report_has_its_parts() {
    let mut runs = 0;
    let report = run(|| {
        runs += 1;
        let x = torch::ones([32, 32]);
        let _ = torch::sum(&torch::matmul(&x, &x));
        std::thread::sleep(Duration::from_millis(5));
    })
    .unwrap();
    assert_eq!(runs, 2);
    assert!(report.elapsed() >= Duration::from_millis(5));
    assert!(report.in_operators() > Duration::ZERO && report.in_operators() < Duration::from_secs(5));
    let text = report.to_string();
    let mut at = 0;
    for part in [
        "  Environment Summary\n",
        "get_num_threads",
        "  Program\n",
        "ms  of that in ",
        "  autograd profiler output (CPU mode)\n",
        "top 15 events sorted by self_cpu_time_total",
        "aten::mm",
        "top 15 events sorted by cpu_time_total",
        "aten::matmul",
    ] {
        let next = text[at..].find(part).unwrap_or_else(|| panic!("no {part:?} after {at} of:\n{text}"));
        at += next + part.len();
    }
}

#[test]
fn a_program_without_operators() {
    let text = run(|| ()).unwrap().to_string();
    assert!(text.contains(" in 0 calls of operators"), "{text}");
}
