//! The operators that CUDA devices leave to the CPU: the program behind `cargo xtask kernels --fallbacks`.

#![forbid(unsafe_code)]

fn main() {
    let (names, all) = flambeau_cuda::by_the_cpu();
    assert!(all > 1000, "rows do not register themselves: the feature `by-name` is off");
    println!(
        "# Operators of flambeau-core and flambeau-nn-functional that CUDA devices leave to the CPU, over copies. Written by\n\
         # `cargo xtask kernels --fallbacks`; do not edit. {} of {all}: {:.1} %",
        names.len(),
        100.0 * names.len() as f64 / all.max(1) as f64
    );
    names.iter().for_each(|n| println!("{n}"));
}
