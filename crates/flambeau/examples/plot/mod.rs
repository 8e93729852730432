//! The picture of a run: loss curve, confusion matrix, misread digits.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

const WIDTH: usize = 980;
const HEIGHT: usize = 420;
const INK: [u8; 3] = [40, 40, 48];
const BLUE: [u8; 3] = [45, 105, 180];
const RED: [u8; 3] = [200, 50, 40];

/// Letters of 3 by 5 points, five rows of three bits from the top.
const FONT: [(char, u16); 38] = [
    ('0', 0o75557),
    ('1', 0o26227),
    ('2', 0o71747),
    ('3', 0o71717),
    ('4', 0o55711),
    ('5', 0o74717),
    ('6', 0o74757),
    ('7', 0o71122),
    ('8', 0o75757),
    ('9', 0o75717),
    ('a', 0o25755),
    ('b', 0o65656),
    ('c', 0o34443),
    ('d', 0o65556),
    ('e', 0o74647),
    ('f', 0o74644),
    ('g', 0o34553),
    ('h', 0o55755),
    ('i', 0o72227),
    ('j', 0o11152),
    ('k', 0o55655),
    ('l', 0o44447),
    ('m', 0o57755),
    ('n', 0o65555),
    ('o', 0o25552),
    ('p', 0o65644),
    ('q', 0o25563),
    ('r', 0o65655),
    ('s', 0o34216),
    ('t', 0o72222),
    ('u', 0o55557),
    ('v', 0o55552),
    ('w', 0o55775),
    ('x', 0o55255),
    ('y', 0o55222),
    ('z', 0o71247),
    ('.', 0o00002),
    ('-', 0o00700),
];

struct Canvas(Vec<u8>);
impl Canvas {
    fn dot(&mut self, x: usize, y: usize, c: [u8; 3]) {
        if x < WIDTH && y < HEIGHT {
            self.0[(y * WIDTH + x) * 3..][..3].copy_from_slice(&c);
        }
    }
    fn fill(&mut self, x: usize, y: usize, w: usize, h: usize, c: [u8; 3]) {
        (y..y + h).for_each(|y| (x..x + w).for_each(|x| self.dot(x, y, c)));
    }
    fn line(&mut self, (x0, y0): (f32, f32), (x1, y1): (f32, f32), c: [u8; 3]) {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for i in 0..=steps {
            let t = i as f32 / steps as f32;
            let (x, y) = ((x0 + (x1 - x0) * t) as usize, (y0 + (y1 - y0) * t) as usize);
            self.fill(x, y, 2, 2, c);
        }
    }
    fn text(&mut self, text: &str, x: usize, y: usize, size: usize, c: [u8; 3]) {
        for (i, letter) in text.chars().enumerate() {
            let bits = FONT.iter().find(|(l, _)| *l == letter).map_or(0, |(_, b)| *b);
            for p in (0..15).filter(|p| bits >> (14 - p) & 1 == 1) {
                self.fill(x + (i * 4 + p % 3) * size, y + p / 3 * size, size, size, c);
            }
        }
    }
}

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
    let mut c = Canvas(vec![255; WIDTH * HEIGHT * 3]);
    losses(&mut c, loss);
    confusion(&mut c, labels, predicted);
    misread(&mut c, labels, predicted, images);
    let mut png = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH as u32, HEIGHT as u32);
    png.set_color(png::ColorType::Rgb);
    png.set_depth(png::BitDepth::Eight);
    png.write_header()?.write_image_data(&c.0)?;
    Ok(())
}
