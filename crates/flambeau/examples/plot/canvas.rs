//! A picture that is drawn dot by dot and saved as PNG.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

pub const WIDTH: usize = 980;
pub const HEIGHT: usize = 420;
/// Of text and axes.
pub const INK: [u8; 3] = [40, 40, 48];
pub const BLUE: [u8; 3] = [45, 105, 180];
pub const RED: [u8; 3] = [200, 50, 40];

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

pub struct Canvas(Vec<u8>);
impl Canvas {
    /// White.
    pub fn new() -> Self {
        Canvas(vec![255; WIDTH * HEIGHT * 3])
    }
    pub fn save(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut png = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH as u32, HEIGHT as u32);
        png.set_color(png::ColorType::Rgb);
        png.set_depth(png::BitDepth::Eight);
        png.write_header()?.write_image_data(&self.0)?;
        Ok(())
    }
    fn dot(&mut self, x: usize, y: usize, c: [u8; 3]) {
        if x < WIDTH && y < HEIGHT {
            self.0[(y * WIDTH + x) * 3..][..3].copy_from_slice(&c);
        }
    }
    pub fn fill(&mut self, x: usize, y: usize, w: usize, h: usize, c: [u8; 3]) {
        (y..y + h).for_each(|y| (x..x + w).for_each(|x| self.dot(x, y, c)));
    }
    pub fn line(&mut self, (x0, y0): (f32, f32), (x1, y1): (f32, f32), c: [u8; 3]) {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for i in 0..=steps {
            let t = i as f32 / steps as f32;
            let (x, y) = ((x0 + (x1 - x0) * t) as usize, (y0 + (y1 - y0) * t) as usize);
            self.fill(x, y, 2, 2, c);
        }
    }
    pub fn text(&mut self, text: &str, x: usize, y: usize, size: usize, c: [u8; 3]) {
        for (i, letter) in text.chars().enumerate() {
            let bits = FONT.iter().find(|(l, _)| *l == letter).map_or(0, |(_, b)| *b);
            for p in (0..15).filter(|p| bits >> (14 - p) & 1 == 1) {
                self.fill(x + (i * 4 + p % 3) * size, y + p / 3 * size, size, size, c);
            }
        }
    }
}
