//! The list of operators that devices leave to the CPU.

use std::collections::BTreeSet;

/// Made anew by `cargo xtask kernels --fallbacks`.
#[test]
fn few_operators_go_by_the_cpu() {
    let (names, all) = flambeau_cuda::by_the_cpu();
    assert!(all > 1000, "{all}");
    // what every network has
    assert!(!names.iter().any(|n| ["sin", "cos", "exp", "mm", "add.Tensor"].contains(n)), "{names:?}");
    assert!(names.len() * 20 <= all, "{} of {all} operators, more than 5 %: {names:?}", names.len());
    let listed: BTreeSet<&str> =
        include_str!("../../../../kernels/by_the_cpu.txt").lines().filter(|l| !l.starts_with('#')).collect();
    let names: BTreeSet<&str> = names.into_iter().collect();
    let wrong: Vec<_> = listed.symmetric_difference(&names).collect();
    assert!(
        wrong.is_empty(),
        "kernels/by_the_cpu.txt is not what `cargo xtask kernels --fallbacks` writes: {wrong:?}"
    );
}
