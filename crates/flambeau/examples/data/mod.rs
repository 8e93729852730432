//! The digits that the examples learn from.

use std::io::Read;
use torch::prelude::*;

/// 1,797 images (N, 1, 8, 8) from 0 to 1, and labels (N).
pub fn digits() -> Result<(Tensor, Tensor), Box<dyn std::error::Error>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("digits.csv.gz")[..]).read_to_string(&mut text)?;
    let rows: Vec<i64> =
        text.split([',', '\n']).filter(|v| !v.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let count = rows.len() / 65;
    let table = Tensor::from_vec(rows, [count, 65]);
    Ok((table.narrow(1, 0, 64).reshape([-1, 1, 8, 8]).to(f32) / 16, table.select(1, 64)))
}
