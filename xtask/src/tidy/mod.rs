//! `cargo xtask tidy`: what core's files know of each other, and who opens memory. `xtask/tests` has the rules that need no command.

mod arrows;
mod memory;

use arrows::Arrows;
pub use arrows::is_word;
use std::path::Path;

/// Core's rooms, the lowest first: a file names files of its own room and of rooms before it.
const ROOMS: [&str; 12] = [
    "types",
    "tensor",
    "dispatch",
    "iter",
    "backend",
    "settings",
    "ops",
    "text",
    "api",
    "derivatives",
    "gradients",
    "internal",
];
/// The most files that may form a circle, and the most arrows that may run back up.
const CIRCLE: usize = 5;
const UP: usize = 18;

/// Counts and judges.
pub fn run(root: &Path, _: &[String]) -> Result<bool, String> {
    let arrows = Arrows::of(&root.join("crates/flambeau-core/src"))?;
    let circles = arrows.circles();
    let up = arrows.back_up(&ROOMS)?;
    println!("core: {} files, {} arrows", arrows.files(), arrows.len());
    for c in &circles {
        println!("circle of {}: {}", c.len(), c.join(", "));
    }
    println!("{} arrows run back up:", up.len());
    for (from, to) in &up {
        println!("  {from} -> {to}");
    }
    let largest = circles.first().map_or(0, Vec::len);
    if largest > CIRCLE {
        println!("a circle has {largest} files, more than {CIRCLE}");
    }
    if up.len() > UP {
        println!("more than {UP} arrows run back up");
    }
    let opened = memory::opened(root)?;
    for row in &opened {
        println!("serves every device and opens the CPU's memory: {row}");
    }
    Ok(largest <= CIRCLE && up.len() <= UP && opened.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn cores_files_keep_their_order() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        assert!(
            super::run(root, &[]).expect("core's files"),
            "see the counts above; docs/architecture.md has the rule"
        );
    }
}
