//! The data that the programs learn from.

use super::Outcome;
use std::io::Read;
use torch::prelude::*;

/// Twenty-nine of Shakespeare's sonnets.
pub const SONNETS: &str = include_str!("../data/sonnets.txt");
/// Ten of Blake's songs.
pub const SONGS: &str = include_str!("../data/songs.txt");

/// How many of the digits are kept back by [`digits_apart`].
pub const TEST: i64 = 360;

/// 1,797 images (N, 1, 8, 8) from 0 to 1 in the default dtype, and labels (N).
pub fn digits() -> Outcome<(Tensor, Tensor)> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("../data/digits.csv.gz")[..]).read_to_string(&mut text)?;
    let rows: Vec<i64> =
        text.split([',', '\n']).filter(|v| !v.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let count = rows.len() / 65;
    let table = Tensor::from_vec(rows, [count, 65]);
    Ok((table.narrow(1, 0, 64).reshape([-1, 1, 8, 8]) / 16, table.select(1, 64)))
}

/// Images and labels.
pub struct Digits {
    pub images: Tensor,
    pub labels: Tensor,
}
/// The digits in two parts, drawn by lot: those to learn from, and [`TEST`] unseen ones.
pub fn digits_apart() -> Outcome<(Digits, Digits)> {
    let (images, labels) = digits()?;
    let order = torch::randperm(images.size(0));
    let part = |at: Tensor| Digits { images: images.i(&at), labels: labels.i(&at) };
    Ok((part(order.i(TEST..)), part(order.i(..TEST))))
}

/// The text as numbers of those of its characters that the alphabet has, and the alphabet in order.
pub fn characters(text: &str, alphabet: &str) -> (Tensor, Vec<char>) {
    let mut all: Vec<char> = alphabet.chars().collect();
    all.sort_unstable();
    all.dedup();
    let numbers = text.chars().filter_map(|c| all.binary_search(&c).ok()).map(|i| i as i64);
    (torch::tensor(numbers.collect::<Vec<_>>()), all)
}
