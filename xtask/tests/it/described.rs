//! The lists of rows without the keys of documentation, and of names without an example, only shrink.

use super::root;
use std::fs;

/// How long `xtask/undescribed.txt` is. `cargo xtask codegen` strikes rows out; nothing puts one in.
const LISTED: usize = 0;
/// By how much the list may be shorter before this number follows.
const BEHIND: usize = 25;

#[test]
fn undescribed_rows_grow_fewer() {
    let list = fs::read_to_string(root().join("xtask/undescribed.txt")).expect("the list");
    let lines = list.lines().count();
    assert_eq!(lines, LISTED, "{lines} rows are listed, more than {LISTED}: describe the new ones instead");
    assert!(lines + BEHIND > LISTED, "{lines} rows are listed: write that in the place of {LISTED}");
}

#[test]
fn the_list_is_sorted_and_has_each_row_once() {
    let list = fs::read_to_string(root().join("xtask/undescribed.txt")).expect("the list");
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines.windows(2).all(|w| w[0] < w[1]));
}

/// How many names `xtask/without_examples.txt` has. `cargo xtask examples` says which need it no longer.
const WITHOUT: usize = 193;

#[test]
fn names_without_examples_grow_fewer() {
    let list = fs::read_to_string(root().join("xtask/without_examples.txt")).expect("the list");
    let (mut names, mut reason) = (0, false);
    for line in list.lines() {
        match line.strip_prefix('#') {
            Some(why) => reason = why.trim().len() > 20,
            None => names += 1,
        }
        assert!(reason, "{line} has no reason above it");
    }
    assert_eq!(names, WITHOUT, "names without an example grow fewer: write the number that is left");
}
