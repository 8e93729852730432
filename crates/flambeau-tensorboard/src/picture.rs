//! Pictures: from tensors of any order of dimensions to PNG.

use crate::proto::{Image, Value};
use crate::summary::value;
use flambeau_core::{DType, Error, Result, Tensor, bail, ensure, ops};

/// Rows of pixels of 1, 3 or 4 bytes.
pub struct Picture {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: Vec<u8>,
}

/// Bytes of a picture: those of bytes as they are, numbers from 0 to 1 times 255.
pub fn bytes(t: &Tensor, scale: f32) -> Result<Vec<u8>> {
    // a NaN becomes 0
    Ok(t.try_to_vec::<f32>()?.into_iter().map(|v| (v * scale).clamp(0.0, 255.0) as u8).collect())
}
pub fn scale(t: &Tensor) -> f32 {
    if t.dtype() == DType::U8 { 1.0 } else { 255.0 }
}

fn permuted(t: &Tensor, format: &str, order: &str) -> Result<Tensor> {
    let dims: Vec<i64> = order.chars().filter_map(|c| format.find(c).map(|i| i as i64)).collect();
    ensure!(
        dims.len() == order.len(),
        Value,
        "dataformats {format:?} must be made of the letters of {order:?}"
    );
    ops::permute(t, &dims)
}

/// Pictures (N, C, H, W) with one or three channels as one picture (3, rows, columns).
pub fn grid(t: &Tensor, columns: i64) -> Result<Tensor> {
    let t = if t.sizes().get(1) == Some(&1) {
        ops::cat(&[t.clone(), t.clone(), t.clone()], 1)?
    } else {
        t.clone()
    };
    let [n, 3, h, w] = *t.sizes() else {
        bail!(Assertion, "Input should be a 4D numpy array with 3 channels");
    };
    ensure!(n > 0 && columns > 0, Value, "no pictures");
    let columns = n.min(columns);
    let rows = (n + columns - 1) / columns;
    let padding = ops::zeros(&[rows * columns - n, 3, h, w], Some(t.dtype()), None, None, None)?;
    let all = ops::reshape(&ops::cat(&[t, padding], 0)?, &[rows, columns, 3, h, w])?;
    ops::reshape(&ops::permute(&all, &[2, 0, 3, 1, 4])?, &[3, rows * h, columns * w])
}

/// The picture that a tensor is, by the letters of its dimensions.
fn picture(t: &Tensor, format: &str) -> Result<Picture> {
    let format = format.to_ascii_uppercase();
    let twice = format.char_indices().any(|(i, c)| format[..i].contains(c));
    ensure!(
        !twice,
        Assertion,
        "You can not use the same dimension shorthand twice.             input_format: {format}"
    );
    ensure!(
        t.dim() == format.chars().count(),
        Assertion,
        "size of input tensor and input format are different.         tensor shape: {:?}, input_format: {format}",
        t.sizes()
    );
    let hwc = match t.dim() {
        4 => ops::permute(&grid(&permuted(t, &format, "NCHW")?, GRID_COLUMNS)?, &[1, 2, 0])?,
        3 => permuted(t, &format, "HWC")?,
        2 => ops::unsqueeze(&permuted(t, &format, "HW")?, 2)?,
        n => bail!(Assertion, "a picture has 2, 3 or 4 dimensions, not {n}"),
    };
    let hwc = if hwc.sizes()[2] == 1 { ops::expand(&hwc, &[-1, -1, 3], false)? } else { hwc };
    let [height, width, channels] = *hwc.sizes() else {
        bail!(Assertion, "a picture has height, width, channels")
    };
    ensure!(matches!(channels, 3 | 4), Type, "Cannot handle this data type: (1, 1, {channels}), |u1");
    let pixels = bytes(&hwc, scale(t))?;
    Ok(Picture { height: height as usize, width: width as usize, channels: channels as usize, pixels })
}
/// Pictures in a row of a grid.
const GRID_COLUMNS: i64 = 8;

pub fn png(p: &Picture) -> Result<Vec<u8>> {
    let failed = |e: png::EncodingError| Error::value(format!("png: {e}"));
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, p.width as u32, p.height as u32);
    encoder.set_color(match p.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&p.pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

fn summary(tag: &str, height: usize, width: usize, shown: &Picture) -> Result<Value> {
    let image = Image {
        height: height as i32,
        width: width as i32,
        colorspace: shown.channels as i32,
        encoded_image_string: png(shown)?,
    };
    Ok(Value { image: Some(image), ..value(tag) })
}
pub fn make(tag: &str, t: &Tensor, format: &str) -> Result<Value> {
    let p = picture(t, format)?;
    summary(tag, p.height, p.width, &p)
}

/// A drawing for [`add_figure`](crate::SummaryWriter::add_figure).
///
/// ```
/// use torch::utils::tensorboard::{Figure, SummaryWriter};
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// let writer = SummaryWriter::new(log_dir)?;
/// writer.add_figure("noise", Figure::Pixels(torch::rand([3, 8, 8])), 0)?;
/// assert!(writer.add_figure("drawing", Figure::Png(b"no picture".to_vec()), 0).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum Figure {
    /// A picture (C, H, W), or several (N, C, H, W).
    Pixels(Tensor),
    /// A PNG file.
    Png(Vec<u8>),
}
impl From<&Tensor> for Figure {
    fn from(t: &Tensor) -> Self {
        Figure::Pixels(t.clone())
    }
}
impl From<Tensor> for Figure {
    fn from(t: Tensor) -> Self {
        Figure::Pixels(t)
    }
}
impl From<Vec<u8>> for Figure {
    fn from(file: Vec<u8>) -> Self {
        Figure::Png(file)
    }
}
impl From<&[u8]> for Figure {
    fn from(file: &[u8]) -> Self {
        Figure::Png(file.to_vec())
    }
}
pub fn figure(tag: &str, figure: Figure) -> Result<Value> {
    let file = match figure {
        Figure::Pixels(t) => return make(tag, &t, if t.dim() == 4 { "NCHW" } else { "CHW" }),
        Figure::Png(file) => file,
    };
    let failed = |e: png::DecodingError| Error::value(format!("add_figure: not a PNG file: {e}"));
    let reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().map_err(failed)?;
    let (info, side) = (reader.info(), |n: u32| {
        i32::try_from(n).map_err(|_| Error::value("add_figure: the picture is too large"))
    });
    let image = Image {
        height: side(info.height)?,
        width: side(info.width)?,
        colorspace: info.color_type.samples() as i32,
        encoded_image_string: file.clone(),
    };
    Ok(Value { image: Some(image), ..value(tag) })
}

/// Options of [`add_image_with_boxes`](crate::SummaryWriter::add_image_with_boxes).
#[derive(Clone, Debug)]
pub struct BoxOptions {
    rescale: f64,
    dataformats: String,
    labels: Vec<String>,
}
impl Default for BoxOptions {
    fn default() -> Self {
        BoxOptions { rescale: 1.0, dataformats: "CHW".into(), labels: Vec::new() }
    }
}
impl BoxOptions {
    /// A picture (C, H, W) in its own size.
    pub fn new() -> Self {
        Self::default()
    }
    /// How much larger the picture is shown.
    pub fn rescale(mut self, factor: f64) -> Self {
        self.rescale = factor;
        self
    }
    /// The letters of the picture's dimensions.
    pub fn dataformats(mut self, letters: &str) -> Self {
        self.dataformats = letters.into();
        self
    }
    /// A text for each box. It takes a font, which this library does not have: an error of kind `Missing`.
    pub fn labels<T: Into<String>>(mut self, labels: impl IntoIterator<Item = T>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }
}

const RED: [u8; 4] = [255, 0, 0, 255];

/// A line of two pixels around `[xmin, ymin, xmax, ymax]`, what of it lies in the picture.
fn draw_box(p: &mut Picture, corners: [f64; 4]) {
    // far outside is far enough
    let [xmin, ymin, xmax, ymax] = corners.map(|v| v.clamp(-1e9, 1e9) as i64);
    let mut fill = |x: std::ops::Range<i64>, y: std::ops::Range<i64>| {
        for y in y.start.max(0)..y.end.min(p.height as i64) {
            for x in x.start.max(0)..x.end.min(p.width as i64) {
                let at = (y as usize * p.width + x as usize) * p.channels;
                p.pixels[at..at + p.channels].copy_from_slice(&RED[..p.channels]);
            }
        }
    };
    // PIL's pixels: the second one lies inwards at the sides, outwards above and below
    let (left, right, top, bottom) = (xmin.min(xmax), xmin.max(xmax), ymin.min(ymax), ymin.max(ymax));
    for y in [top - 1, bottom] {
        fill(left..right + 1, y..y + 2);
    }
    for x in [left, right - 1] {
        fill(x..x + 2, top..bottom + 1);
    }
}

/// Weights of the sources of each of `to` pixels out of `from` by Lanczos' window over three lobes; where the picture
/// shrinks, the window is as much wider.
fn lanczos(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    const LOBES: f64 = 3.0;
    let sinc =
        |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
    let ratio = from as f64 / to as f64;
    let stretch = ratio.max(1.0);
    (0..to)
        .map(|i| {
            let center = (i as f64 + 0.5) * ratio;
            let first = ((center - LOBES * stretch + 0.5).max(0.0)) as usize;
            let last = ((center + LOBES * stretch + 0.5) as usize).min(from);
            let weight = |j: usize| {
                let x = (j as f64 - center + 0.5) / stretch;
                if x.abs() < LOBES { sinc(x) * sinc(x / LOBES) } else { 0.0 }
            };
            let weights: Vec<f64> = (first..last).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            (first, weights.into_iter().map(|w| w / sum).collect())
        })
        .collect()
}
/// Lines of `from` pixels, each `step` apart, resampled to `to`.
fn resampled(pixels: &[u8], outer: usize, from: usize, inner: usize, to: usize) -> Vec<u8> {
    let table = lanczos(from, to);
    let mut out = Vec::with_capacity(outer * to * inner);
    for o in 0..outer {
        for (first, weights) in &table {
            for i in 0..inner {
                let sum: f64 = weights
                    .iter()
                    .enumerate()
                    .map(|(k, w)| w * f64::from(pixels[(o * from + first + k) * inner + i]))
                    .sum();
                out.push(sum.round().clamp(0.0, 255.0) as u8);
            }
        }
    }
    out
}

pub fn with_boxes(tag: &str, t: &Tensor, boxes: &Tensor, o: &BoxOptions) -> Result<Value> {
    ensure!(o.labels.is_empty(), Missing, "add_image_with_boxes: labels take a font");
    let mut p = picture(t, &o.dataformats)?;
    ensure!(
        boxes.dim() == 2 && boxes.sizes()[1] == 4,
        Value,
        "box_tensor should be of shape Nx4, but got {:?}",
        boxes.sizes()
    );
    for corners in boxes.try_to_vec::<f64>()?.chunks_exact(4) {
        draw_box(&mut p, [corners[0], corners[1], corners[2], corners[3]]);
    }
    let (height, width) = (p.height, p.width);
    let size = |n: usize| (n as f64 * o.rescale) as usize;
    let (h, w) = (size(height), size(width));
    ensure!((1..=1 << 15).contains(&h) && (1..=1 << 15).contains(&w), Value, "height and width must be > 0");
    if (h, w) != (height, width) {
        p.pixels = resampled(&p.pixels, height, width, p.channels, w);
        p.pixels = resampled(&p.pixels, 1, height, w * p.channels, h);
        (p.height, p.width) = (h, w);
    }
    summary(tag, height, width, &p)
}
