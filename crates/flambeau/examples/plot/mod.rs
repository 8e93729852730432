//! The picture of a run: loss curve, confusion matrix, misread digits.

mod canvas;

use canvas::{BLUE, Canvas, INK, RED};
use std::path::Path;

fn losses(c: &mut Canvas, values: &[f32]) {
    let (left, top, w, h) = (50, 50, 270, 320);
    c.text("training loss", left, 20, 3, INK);
    c.fill(left, top, 1, h, INK);
    c.fill(left, top + h, w, 1, INK);
    let Some(high) = values.iter().copied().reduce(f32::max).filter(|v| *v > 0.0) else {
        return c.text("no training", left + 20, top + 40, 2, INK);
    };
    c.text(&format!("{high:.1}"), 10, top, 2, INK);
    c.text("0", 34, top + h - 8, 2, INK);
    let at = |i: usize| {
        let x = left as f32 + i as f32 / values.len().max(2) as f32 * w as f32;
        (x, top as f32 + (1.0 - values[i] / high) * h as f32)
    };
    (1..values.len()).for_each(|i| c.line(at(i - 1), at(i), BLUE));
    c.text("step", left + w / 2 - 24, top + h + 12, 2, INK);
}

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
pub fn draw(
    path: &Path,
    loss: &[f32],
    labels: &[i64],
    predicted: &[i64],
    images: &[f32],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut c = Canvas::new();
    losses(&mut c, loss);
    confusion(&mut c, labels, predicted);
    misread(&mut c, labels, predicted, images);
    c.save(path)
}
