//! A picture that is drawn dot by dot and saved as PNG.

use super::Outcome;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use torch::prelude::*;

pub type Colour = [u8; 3];
/// Of text and axes.
pub const INK: Colour = [40, 40, 48];
pub const BLUE: Colour = [45, 105, 180];
pub const RED: Colour = [200, 50, 40];
pub const GREY: Colour = [190, 190, 196];
/// One for each of ten classes.
pub const CLASSES: [Colour; 10] = [
    [31, 119, 180],
    [255, 127, 14],
    [44, 160, 44],
    [214, 39, 40],
    [148, 103, 189],
    [140, 86, 75],
    [227, 119, 194],
    [127, 127, 127],
    [188, 189, 34],
    [23, 190, 207],
];

/// Letters of 3 by 5 points, five rows of three bits from the top.
const FONT: [(char, u16); 40] = [
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
    (':', 0o02020),
    ('%', 0o51245),
];

/// A place and a size, in dots from the upper left corner.
#[derive(Clone, Copy)]
pub struct Frame {
    pub x: usize,
    pub y: usize,
    pub w: usize,
    pub h: usize,
}

pub struct Canvas {
    pub width: usize,
    pub height: usize,
    dots: Vec<u8>,
}
impl Canvas {
    /// White.
    pub fn new(width: usize, height: usize) -> Self {
        Canvas { width, height, dots: vec![255; width * height * 3] }
    }
    pub fn save(&self, path: impl AsRef<Path>) -> Outcome {
        let file = BufWriter::new(File::create(path)?);
        let mut png = png::Encoder::new(file, self.width as u32, self.height as u32);
        png.set_color(png::ColorType::Rgb);
        png.set_depth(png::BitDepth::Eight);
        png.write_header()?.write_image_data(&self.dots)?;
        Ok(())
    }
    fn dot(&mut self, x: usize, y: usize, c: Colour) {
        if x < self.width && y < self.height {
            self.dots[(y * self.width + x) * 3..][..3].copy_from_slice(&c);
        }
    }
    pub fn fill(&mut self, x: usize, y: usize, w: usize, h: usize, c: Colour) {
        (y..y + h).for_each(|y| (x..x + w).for_each(|x| self.dot(x, y, c)));
    }
    pub fn disc(&mut self, (x, y): (f32, f32), radius: f32, c: Colour) {
        let reach = |v: f32| (v - radius).max(0.0) as usize..=(v + radius).max(0.0) as usize;
        for i in reach(x) {
            for j in reach(y) {
                if (i as f32 - x).hypot(j as f32 - y) <= radius {
                    self.dot(i, j, c);
                }
            }
        }
    }
    pub fn line(&mut self, (x0, y0): (f32, f32), (x1, y1): (f32, f32), c: Colour) {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for i in 0..=steps {
            let t = i as f32 / steps as f32;
            let (x, y) = ((x0 + (x1 - x0) * t) as usize, (y0 + (y1 - y0) * t) as usize);
            self.fill(x, y, 2, 2, c);
        }
    }
    /// Small letters, digits and a few signs; `size` dots a point.
    pub fn text(&mut self, text: &str, x: usize, y: usize, size: usize, c: Colour) {
        for (i, letter) in text.to_lowercase().chars().enumerate() {
            let bits = FONT.iter().find(|(l, _)| *l == letter).map_or(0, |(_, b)| *b);
            for p in (0..15).filter(|p| bits >> (14 - p) & 1 == 1) {
                self.fill(x + (i * 4 + p % 3) * size, y + p / 3 * size, size, size, c);
            }
        }
    }
    /// A grey image (H, W) from 0, white, to 1, black; `scale` dots a point.
    pub fn image(&mut self, image: &Tensor, x: usize, y: usize, scale: usize) {
        let [_, w] = image.dims();
        let values = (image.detach().clamp(0, 1) * -255 + 255).to_vec::<u8>();
        for (i, v) in values.into_iter().enumerate() {
            let (row, column) = (i / w as usize, i % w as usize);
            self.fill(x + column * scale, y + row * scale, scale, scale, [v; 3]);
        }
    }
    /// Grey images (N, H, W) side by side, `columns` in a row, a point apart.
    pub fn images(&mut self, images: &Tensor, columns: usize, x: usize, y: usize, scale: usize) {
        for (i, image) in images.iter().enumerate() {
            let (h, w) = (image.size(0) as usize + 1, image.size(1) as usize + 1);
            self.image(&image, x + i % columns * w * scale, y + i / columns * h * scale, scale);
        }
    }
    /// A line for each series over its steps, on common axes, with the highest and the lowest value.
    pub fn chart(&mut self, title: &str, frame: Frame, series: &[(&str, Colour, &[f64])]) {
        let Frame { x, y, w, h } = frame;
        self.text(title, x, y, 3, INK);
        let (left, top, w, h) = (x + 50, y + 40, w - 50, h - 60);
        self.fill(left, top, 1, h, INK);
        self.fill(left, top + h, w, 1, INK);
        let mut legend = left + 10;
        for (name, colour, _) in series {
            self.text(name, legend, y + 24, 2, *colour);
            legend += (name.len() + 2) * 8;
        }
        let values = || series.iter().flat_map(|s| s.2).copied().filter(|v| v.is_finite());
        let (Some(low), Some(high)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
            return self.text("no values", left + 20, top + 40, 2, INK);
        };
        self.text(&short(high), x, top, 2, INK);
        self.text(&short(low), x, top + h - 10, 2, INK);
        let range = if high > low { high - low } else { 1.0 };
        for (_, colour, values) in series {
            let at = |i: usize| {
                let right = i as f64 / (values.len().max(2) - 1) as f64 * w as f64;
                let down = (1.0 - (values[i].clamp(low, high) - low) / range) * h as f64;
                (left as f32 + right as f32, top as f32 + down as f32)
            };
            (1..values.len()).for_each(|i| self.line(at(i - 1), at(i), *colour));
        }
    }
    /// Points (N, 2), spread over the frame: where each lies.
    pub fn spread(&self, points: &Tensor, frame: Frame) -> Vec<(f32, f32)> {
        let (low, high) = (points.amin(0, true), points.amax(0, true));
        let unit = (points - &low) / (&high - &low).clamp(1e-12, None);
        let place = |p: &[f32]| {
            (frame.x as f32 + p[0] * frame.w as f32, frame.y as f32 + (1.0 - p[1]) * frame.h as f32)
        };
        unit.detach().to_vec::<f32>().chunks(2).map(place).collect()
    }
}

/// A number in at most five letters.
fn short(v: f64) -> String {
    match v.abs() {
        10_000.0.. => format!("{v:.0e}"),
        100.0.. => format!("{v:.0}"),
        1.0.. => format!("{v:.1}"),
        0.01.. => format!("{v:.2}"),
        0.0 => "0".into(),
        _ => format!("{v:.0e}"),
    }
}
