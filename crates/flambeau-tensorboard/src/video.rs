//! Moving pictures, as GIF.

use crate::picture::{bytes, scale};
use crate::proto::{Image, Value};
use crate::summary::value;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};

/// Videos (N, T, C, H, W) side by side as frames (T, rows, columns, C). Their number is filled up to a power of two.
fn frames(t: &Tensor) -> Result<Tensor> {
    let [b, frames, c, h, w] = *t.sizes() else {
        return Err(Error::value(format!("a video has 5 dimensions (N, T, C, H, W), not {}", t.dim())));
    };
    ensure!(b > 0 && frames > 0, Value, "no frames");
    let t = ops::to_copy(t, Some(DType::F32), None, None, None, false, None)?;
    let all = b.unsigned_abs().next_power_of_two() as i64;
    let empty = ops::zeros(&[all - b, frames, c, h, w], Some(DType::F32), None, None, None)?;
    let rows = 1i64 << (b.ilog2() / 2);
    let columns = all / rows;
    let t = ops::reshape(&ops::cat(&[t, empty], 0)?, &[rows, columns, frames, c, h, w])?;
    ops::reshape(&ops::permute(&t, &[2, 0, 4, 1, 5, 3])?, &[frames, rows * h, columns * w, c])
}

pub fn make(tag: &str, t: &Tensor, fps: f64) -> Result<Value> {
    ensure!(fps > 0.0, Value, "fps must be positive, but got {fps}");
    let scale = scale(t);
    let t = frames(t)?;
    let (h, w, c) = (t.sizes()[1], t.sizes()[2], t.sizes()[3]);
    ensure!(matches!(c, 1 | 3), Value, "a video has 1 or 3 channels, not {c}");
    let size = |n: i64| {
        u16::try_from(n).map_err(|_| Error::value(format!("a GIF has at most {} pixels a side", u16::MAX)))
    };
    let (width, height) = (size(w)?, size(h)?);
    let pixels = bytes(&t, scale)?;
    let failed = |e: gif::EncodingError| Error::value(format!("gif: {e}"));
    let mut out = Vec::new();
    let mut encoder = gif::Encoder::new(&mut out, width, height, &[]).map_err(failed)?;
    encoder.set_repeat(gif::Repeat::Infinite).map_err(failed)?;
    // speed 10 of 30: what the crate calls a good compromise
    const SPEED: i32 = 10;
    for pixels in pixels.chunks_exact((h * w * c) as usize) {
        let mut frame = if c == 3 {
            gif::Frame::from_rgb_speed(width, height, pixels, SPEED)
        } else {
            let rgb: Vec<u8> = pixels.iter().flat_map(|p| [*p; 3]).collect();
            gif::Frame::from_rgb_speed(width, height, &rgb, SPEED)
        };
        // in hundredths of a second
        frame.delay = (100.0 / fps).round() as u16;
        encoder.write_frame(&frame).map_err(failed)?;
    }
    drop(encoder);
    let image = Image { height: h as i32, width: w as i32, colorspace: c as i32, encoded_image_string: out };
    Ok(Value { image: Some(image), ..value(tag) })
}
