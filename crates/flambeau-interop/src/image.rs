//! Images of the crate `image`, in torchvision's form: channels first.

use crate::ToTensor;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::{DType, Element, Error, Result, Tensor, bail, ensure, ops};
use image::{DynamicImage, ImageBuffer, Luma, LumaA, Pixel, Rgb, Rgba};

/// The values of an image as they are, `[channels, height, width]`: uint8, uint16 or float32 as the image has them (torchvision's
/// `pil_to_tensor`).
///
/// # Errors
/// A kind of image that the crate `image` adds later.
pub fn try_pil_to_tensor(image: &DynamicImage) -> Result<Tensor> {
    // an image without places has its channels too
    let sizes = [image.height().into(), image.width().into(), image.color().channel_count().into()];
    fn channels_first<T: Element>(all: &[T], sizes: &[i64; 3]) -> Result<Tensor> {
        let t = Tensor::from_vec_raw(geometry::listed(all.iter().copied())?, sizes)?;
        ops::contiguous(&ops::permute(&t, &[2, 0, 1])?, flambeau_core::MemoryFormat::Contiguous)
    }
    match image {
        DynamicImage::ImageLuma8(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageLumaA8(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgb8(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgba8(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageLuma16(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageLumaA16(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgb16(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgba16(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgb32F(b) => channels_first(b.as_raw(), &sizes),
        DynamicImage::ImageRgba32F(b) => channels_first(b.as_raw(), &sizes),
        other => bail!(Missing, "images of color type {:?} as tensors", other.color()),
    }
}
/// [`try_pil_to_tensor`]; panics with the error's text.
///
/// ```
/// use torch::interop::image::pil_to_tensor;
/// let red = image::RgbImage::from_pixel(3, 2, image::Rgb([255, 0, 0]));
/// let t = pil_to_tensor(&red.into());
/// assert_eq!(t.sizes(), [3, 2, 3]);
/// assert_eq!((t.dtype(), t.max().item::<u8>()), (torch::uint8, 255));
/// ```
#[track_caller]
pub fn pil_to_tensor(image: &DynamicImage) -> Tensor {
    expect(try_pil_to_tensor(image))
}
/// As float32 from 0 to 1, `[channels, height, width]` (torchvision's `to_tensor`): values of 8 bits are divided by 255, of 16 bits by
/// 65535, floats stay.
impl ToTensor for DynamicImage {
    fn try_to_tensor(&self) -> Result<Tensor> {
        let t = try_pil_to_tensor(self)?;
        let most = match t.dtype() {
            DType::U8 => f64::from(u8::MAX),
            DType::U16 => f64::from(u16::MAX),
            _ => return Ok(t),
        };
        ops::div(&t.try_to(DType::F32)?, &Tensor::wrapped_raw(most)?)
    }
}
/// Tensors as images.
pub trait ToImage {
    /// `[channels, height, width]` or `[height, width]` as an image of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 channels (RGBA).
    /// uint8 and uint16 give images of 8 and 16 bits; floats, from 0 to 1, are multiplied by 255, rounded and brought between 0 and
    /// 255 (as torchvision's `save_image` does).
    ///
    /// # Errors
    /// Other sizes or dtypes.
    fn try_to_image(&self) -> Result<DynamicImage>;
    /// [`try_to_image`](ToImage::try_to_image); panics with the error's text.
    ///
    /// ```
    /// use torch::interop::{ToImage, ToTensor};
    /// let t = torch::tensor([[0.0, 0.5, 1.0]]);
    /// let grey = t.to_image();
    /// assert_eq!(grey.as_luma8().unwrap().as_raw(), &[0, 128, 255]);
    /// assert_eq!(grey.to_tensor().sizes(), [1, 1, 3]);
    /// ```
    #[track_caller]
    fn to_image(&self) -> DynamicImage {
        expect(self.try_to_image())
    }
}
impl ToImage for Tensor {
    fn try_to_image(&self) -> Result<DynamicImage> {
        let t = if self.dim() == 2 { ops::unsqueeze(self, 0)? } else { self.clone() };
        let [channels, h, w] = *t.sizes() else {
            bail!(Value, "pic should be 2/3 dimensional. Got {} dimensions.", self.dim())
        };
        ensure!(channels <= 4, Value, "pic should not have > 4 channels. Got {channels} channels.");
        let sides = [h, w].map(|n| u32::try_from(n).ok());
        let [Some(h), Some(w)] = sides else { bail!(Value, "an image of {h} times {w}") };
        let t = ops::permute(&t, &[1, 2, 0])?;
        if t.dtype() == DType::U16 {
            let v = t.try_to_vec::<u16>()?;
            return Ok(match channels {
                1 => DynamicImage::ImageLuma16(buffer::<Luma<u16>>(w, h, v)?),
                2 => DynamicImage::ImageLumaA16(buffer::<LumaA<u16>>(w, h, v)?),
                3 => DynamicImage::ImageRgb16(buffer::<Rgb<u16>>(w, h, v)?),
                4 => DynamicImage::ImageRgba16(buffer::<Rgba<u16>>(w, h, v)?),
                _ => bail!(Value, "an image without channels"),
            });
        }
        let v = match t.dtype() {
            DType::U8 => t.try_to_vec::<u8>()?,
            d if d.is_floating() => {
                let v = t.alias_detached().try_to_vec::<f32>()?;
                // `as` brings what is out of range to the nearest end, and NaN to 0
                v.into_iter().map(|x| (x * 255.0 + 0.5) as u8).collect()
            }
            d => bail!(Type, "Input type {} is not supported", d.name()),
        };
        Ok(match channels {
            1 => DynamicImage::ImageLuma8(buffer::<Luma<u8>>(w, h, v)?),
            2 => DynamicImage::ImageLumaA8(buffer::<LumaA<u8>>(w, h, v)?),
            3 => DynamicImage::ImageRgb8(buffer::<Rgb<u8>>(w, h, v)?),
            4 => DynamicImage::ImageRgba8(buffer::<Rgba<u8>>(w, h, v)?),
            _ => bail!(Value, "an image without channels"),
        })
    }
}
fn buffer<P: Pixel>(w: u32, h: u32, v: Vec<P::Subpixel>) -> Result<ImageBuffer<P, Vec<P::Subpixel>>> {
    ImageBuffer::from_raw(w, h, v).ok_or_else(|| Error::value(format!("an image of {h} times {w}")))
}
