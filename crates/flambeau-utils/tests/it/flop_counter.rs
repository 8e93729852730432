//! Operations and modules are those that PyTorch 2.15 counts.

use flambeau_core::functions as torch;
use flambeau_nn as nn;
use flambeau_test_support::alone;
use flambeau_utils::flop_counter::{FlopCounterMode, FlopCounterOptions, register_flop_formula};
use flambeau_utils::module_tracker::ModuleTracker;

// hooks of all modules are the process'
#[test]
fn modules_and_their_backward_passes() {
    alone!();
    let inner =
        nn::Sequential::new((nn::Linear::new(8 * 36, 16), nn::LinearOptions::new(16, 4).bias(false).build()));
    let conv = nn::Conv2dOptions::new(3, 8, 3).padding(1).build();
    let m = nn::Sequential::new((conv, nn::ReLU::new(), nn::Flatten::new(), inner));
    let x = torch::ones([2, 3, 6, 6]);
    let mut f = FlopCounterMode::with(FlopCounterOptions::new().depth(3));
    m.call(&x).sum().backward();
    f.stop();
    let counts = f.get_flop_counts();
    let of = |module: &str| counts[module].iter().map(|(k, v)| (k.as_str(), *v)).collect::<Vec<_>>();
    assert_eq!(f.get_total_flops(), 118_272);
    let all = [
        ("aten.addmm", 18432),
        ("aten.convolution", 31104),
        ("aten.convolution_backward", 31104),
        ("aten.mm", 37632),
    ];
    assert_eq!(of("Global"), all);
    assert_eq!(of("Sequential"), all);
    assert_eq!(of("Sequential.0"), [("aten.convolution", 31104), ("aten.convolution_backward", 31104)]);
    assert_eq!(of("Sequential.3.0"), [("aten.addmm", 18432), ("aten.mm", 36864)]);
    assert_eq!(of("Sequential.3.1"), [("aten.mm", 768)]);
    let table = f.get_table(Some(1));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0].trim_end(), format!("Module{}FLOP    % Total", " ".repeat(28)));
    assert_eq!(lines[2], format!("Sequential{}118.272K    100.00%", " ".repeat(20)));
    // stopped: nothing more is counted
    m.call(&x);
    assert_eq!(f.get_total_flops(), 118_272);
}
#[test]
fn formulas() {
    alone!();
    register_flop_formula("exp", |_, out| out.len() as i64 * 7).unwrap();
    assert_eq!(
        register_flop_formula("mm", |_, _| 0).unwrap_err().message(),
        "duplicate registrations for mm"
    );
    let f = FlopCounterMode::new();
    let _ = torch::ones([2]).exp();
    assert_eq!(f.get_flop_counts()["Global"]["exp"], 7);
    assert_eq!(
        FlopCounterMode::new().get_table(None).lines().last().unwrap().trim(),
        "Global         0         0%"
    );
}
#[test]
fn a_backward_pass_leaves_no_module() {
    alone!();
    let t = ModuleTracker::new();
    let m = nn::Sequential::new((nn::Linear::new(2, 2),));
    let y = m.call(&torch::ones([1, 2])).sum();
    assert_eq!((t.parents(), t.is_bw()), (vec!["Global".to_string()], false));
    y.backward();
    assert_eq!((t.parents(), t.is_bw()), (vec!["Global".to_string()], false));
}
