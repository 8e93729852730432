//! The picture of a run: loss curve, confusion matrix, misread digits.

use crate::common::Outcome;
use crate::common::canvas::{BLUE, Canvas, Frame, INK, RED};
use std::path::Path;

fn confusion(c: &mut Canvas, labels: &[i64], predicted: &[i64]) {
    let (left, top, cell) = (390, 70, 30);
    c.text("confusion", left, 20, 3, INK);
    c.text("predicted", left + 90, top - 18 - 12, 2, INK);
    let mut counts = [[0usize; 10]; 10];
    labels.iter().zip(predicted).for_each(|(l, p)| counts[*l as usize][*p as usize] += 1);
    let high = counts.iter().flatten().copied().max().unwrap_or(1).max(1);
    for (l, row) in counts.iter().enumerate() {
        c.text(&l.to_string(), left - 16, top + l * cell + 9, 2, INK);
        c.text(&l.to_string(), left + l * cell + 11, top - 14, 2, INK);
        for (p, n) in row.iter().enumerate() {
            let shade = 255 - (*n * 200 / high) as u8;
            let colour = match (*n, l == p) {
                (0, _) => [245, 245, 245],
                (_, true) => [shade, shade, 255],
                (_, false) => [255, 190, 180],
            };
            let (x, y) = (left + p * cell, top + l * cell);
            c.fill(x, y, cell - 1, cell - 1, colour);
            if *n > 0 {
                let text = n.to_string();
                c.text(&text, x + 15 - text.len() * 4, y + 10, 2, if shade < 130 { [255; 3] } else { INK });
            }
        }
    }
}

fn misread(c: &mut Canvas, labels: &[i64], predicted: &[i64], images: &[f32]) {
    let (left, top, cell) = (740, 60, 76);
    c.text("misread", left, 20, 3, INK);
    let wrong = (0..labels.len()).filter(|i| labels[*i] != predicted[*i]).take(12);
    for (k, i) in wrong.enumerate() {
        let (x, y) = (left + k % 3 * cell, top + k / 3 * (cell + 12));
        for p in 0..64 {
            let v = 255 - (images[i * 64 + p] * 255.0) as u8;
            c.fill(x + p % 8 * 8, y + p / 8 * 8, 8, 8, [v; 3]);
        }
        c.text(&format!("{} as {}", labels[i], predicted[i]), x, y + 68, 2, RED);
    }
}

/// Writes the picture.
pub fn draw(path: &Path, loss: &[f64], labels: &[i64], predicted: &[i64], images: &[f32]) -> Outcome {
    let mut c = Canvas::new(980, 420);
    c.chart("training loss", Frame { x: 10, y: 20, w: 310, h: 380 }, &[("", BLUE, loss)]);
    confusion(&mut c, labels, predicted);
    misread(&mut c, labels, predicted, images);
    c.save(path)
}
