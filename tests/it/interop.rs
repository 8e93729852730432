//! Tensors in the formats of serde, as arrays of ndarray and as images.

use torch::interop::image::{pil_to_tensor, try_pil_to_tensor};
use torch::interop::{ToImage, ToNdarray, ToTensor};
use torch::nn::StateDict;
use torch::prelude::*;
use torch::{DType, Device, Tensor};

/// A tensor of each dtype that can be written, with the values that are hard.
fn all_kinds() -> Vec<Tensor> {
    let hard =
        torch::tensor([0.1, -0.0, 1e-40, 3.4e38, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0 / 3.0]);
    let whole = torch::tensor([0i64, 1, 2, 100, 127, 5, 6, 7]);
    let mut all = Vec::new();
    for d in flambeau_core::ALL_DTYPES.into_iter().filter(|d| !d.is_quantized()) {
        let from = if d.is_floating() || d.is_complex() { &hard } else { &whole };
        let Ok(t) = from.try_to(d) else { panic!("{}", d.name()) };
        all.push(t.reshape([2, 4]));
    }
    let z = torch::view_as_complex(&torch::tensor([[1.0, -2.0], [0.5, f64::INFINITY]]));
    all.push(z.conj());
    all.push(z.conj().imag());
    all.push(torch::tensor([i64::MIN, i64::MAX]));
    all.push(torch::tensor([u64::MAX, 0]));
    all.push(hard.expand([3, 8]).transpose(0, 1));
    all.push(torch::zeros([0, 3]));
    all.push(torch::tensor(7.5));
    all
}
/// The bits of both, so that NaN equals itself and -0 is not 0.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let plain = |t: &Tensor| t.contiguous().resolve_conj().resolve_neg();
    let bits = |t: &Tensor| plain(t).reshape([-1]).view_dtype(DType::U8).to_vec::<u8>();
    a.dtype() == b.dtype() && a.sizes() == b.sizes() && (a.numel() == 0 || bits(a) == bits(b))
}

#[test]
fn tensors_come_back_from_json_and_from_bytes() {
    for t in all_kinds() {
        let text = serde_json::to_string(&t).unwrap();
        let back: Tensor = serde_json::from_str(&text).unwrap();
        // a NaN is one of many in text
        let there = same(&t, &back)
            || t.isnan().any().item::<bool>()
                && torch::allclose_with(
                    &t.to(torch::complex128),
                    &back.to(torch::complex128),
                    torch::options::AllcloseOptions::new().rtol(0.0).atol(0.0).equal_nan(true),
                );
        assert!(there && back.dtype() == t.dtype(), "{text}");
        let bytes = postcard::to_stdvec(&t).unwrap();
        let back: Tensor = postcard::from_bytes(&bytes).unwrap();
        assert!(same(&t, &back), "{t:?}");
        // bytes that end early are an error
        for n in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            if n < bytes.len() {
                assert!(postcard::from_bytes::<Tensor>(&bytes[..n]).is_err());
            }
        }
    }
    let text = serde_json::to_string(&torch::tensor([[0.1f32, f32::NAN], [1.0, f32::INFINITY]])).unwrap();
    assert_eq!(text, r#"{"dtype":"float32","shape":[2,2],"data":[0.1,"nan",1.0,"inf"]}"#);
    let text = serde_json::to_string(&torch::view_as_complex(&torch::tensor([[1.0, -2.5]]))).unwrap();
    assert_eq!(text, r#"{"dtype":"complex64","shape":[1],"data":[[1.0,-2.5]]}"#);
}

#[test]
fn forged_tensors_are_errors() {
    let bad = [
        r#"{"dtype":"float31","shape":[1],"data":[1]}"#,
        r#"{"dtype":"quint8","shape":[1],"data":[1]}"#,
        r#"{"dtype":"float32","shape":[2],"data":[1]}"#,
        r#"{"dtype":"float32","shape":[-1],"data":[]}"#,
        r#"{"dtype":"float32","shape":[4611686018427387904,4],"data":[]}"#,
        r#"{"dtype":"float32","shape":[9223372036854775807,3],"data":[]}"#,
        r#"{"dtype":"float32","shape":[1],"data":["many"]}"#,
        r#"{"dtype":"float32","shape":[1],"data":[true]}"#,
        r#"{"dtype":"float32","shape":[1],"data":[[1,2]]}"#,
        r#"{"dtype":"complex64","shape":[1],"data":[[1,2,3]]}"#,
        r#"{"dtype":"complex64","shape":[1],"data":[[1]]}"#,
        r#"{"dtype":"uint8","shape":[1],"data":[256]}"#,
        r#"{"dtype":"uint8","shape":[1],"data":[-1]}"#,
        r#"{"dtype":"int8","shape":[1],"data":[128]}"#,
        r#"{"dtype":"int32","shape":[1],"data":[1.5]}"#,
        r#"{"dtype":"uint64","shape":[1],"data":[-1]}"#,
        r#"{"dtype":"bool","shape":[1],"data":[1]}"#,
        r#"{"dtype":"float32","shape":[1]}"#,
        r#"{"dtype":"float32","shape":[1],"data":[1],"more":1}"#,
        r#"[]"#,
    ];
    for text in bad {
        assert!(serde_json::from_str::<Tensor>(text).is_err(), "{text}");
    }
    // a deep pair ends in the format's own limit, a number as integer is taken where a float is wanted
    let deep =
        format!(r#"{{"dtype":"complex64","shape":[1],"data":[{}{}]}}"#, "[".repeat(9999), "]".repeat(9999));
    assert!(serde_json::from_str::<Tensor>(&deep).is_err());
    let t: Tensor = serde_json::from_str(r#"{"data":[1,2],"shape":[2],"dtype":"float16"}"#).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<f32>()), (torch::float16, vec![1.0, 2.0]));
    // bytes that are no bools, a length that promises more than there is
    let bools = postcard::to_stdvec(&("bool", vec![1i64], serde_bytes_of(&[2]))).unwrap();
    assert!(postcard::from_bytes::<Tensor>(&bools).is_err());
    let mut long = postcard::to_stdvec(&("uint8", vec![1i64 << 40])).unwrap();
    long.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0x1f]);
    assert!(postcard::from_bytes::<Tensor>(&long).is_err());
    let sparse = torch::eye(2).to_sparse();
    let e = serde_json::to_string(&sparse).unwrap_err().to_string();
    assert!(e.contains("torch::save keeps them"), "{e}");
    assert!(serde_json::to_string(&torch::zeros_with([2], Device::Meta)).is_err());
}
/// Bytes as a format with lengths writes them.
fn serde_bytes_of(b: &[u8]) -> Vec<u8> {
    b.to_vec()
}

#[test]
fn state_dicts_are_maps() {
    let model = torch::nn::Sequential::new((torch::nn::Linear::new(2, 3), torch::nn::BatchNorm1d::new(3)));
    let text = serde_json::to_string(&model.state_dict()).unwrap();
    let back: StateDict = serde_json::from_str(&text).unwrap();
    assert_eq!(back.keys().collect::<Vec<_>>(), model.state_dict().keys().collect::<Vec<_>>());
    let other = torch::nn::Sequential::new((torch::nn::Linear::new(2, 3), torch::nn::BatchNorm1d::new(3)));
    other.load_state_dict(&back).unwrap();
    for ((_, a), (_, b)) in model.state_dict().iter().zip(other.state_dict().iter()) {
        assert!(same(a, b));
    }
    let one = serde_json::to_string(&torch::tensor(1.0)).unwrap();
    let twice = format!(r#"{{"a":{one},"a":{one}}}"#);
    let e = serde_json::from_str::<StateDict>(&twice).unwrap_err().to_string();
    assert!(e.contains("two tensors named `a`"), "{e}");
}

#[test]
fn arrays_of_ndarray_keep_their_elements() {
    let t = torch::arange(24).reshape([2, 3, 4]);
    let a = t.transpose(0, 2).to_ndarray::<i64>();
    assert_eq!(a.shape(), [4, 3, 2]);
    assert_eq!(a[[3, 1, 1]], t.i((1, 1, 3)).item::<i64>());
    assert!(torch::equal(&a.to_tensor(), &t.transpose(0, 2)));
    // views in any direction, without elements, of one
    let mut reversed = a.view();
    reversed.invert_axis(ndarray::Axis(0));
    reversed.slice_axis_inplace(ndarray::Axis(2), ndarray::Slice::new(0, None, 2));
    assert!(torch::equal(&reversed.to_tensor(), &t.transpose(0, 2).flip([0]).narrow(2, 0, 1)));
    assert_eq!(ndarray::Array2::<f32>::zeros((0, 3)).to_tensor().sizes(), [0, 3]);
    assert_eq!(ndarray::arr0(2.5f64).to_tensor().item::<f64>(), 2.5);
    assert_eq!(torch::tensor(2.5).to_ndarray::<f32>().ndim(), 0);
    assert!(torch::eye(2).to(Device::Meta).try_to_ndarray::<f32>().is_err());
    // few elements that stand for more than there is memory, both ways
    let one = ndarray::arr0(2.5f64);
    let many = one.broadcast((1 << 20, 1 << 24)).unwrap();
    assert_eq!(many.try_to_tensor().unwrap_err().kind(), torch::ErrorKind::OutOfMemory);
    let many = torch::tensor(2.5).expand([1 << 20, 1 << 24]);
    assert_eq!(many.try_to_ndarray::<f64>().unwrap_err().kind(), torch::ErrorKind::OutOfMemory);
    assert!(many.try_to_image().is_err());
}

#[test]
fn images_are_tensors_with_channels_first() {
    let mut rgb = image::RgbImage::new(3, 2);
    for (x, y, p) in rgb.enumerate_pixels_mut() {
        *p = image::Rgb([x as u8 * 10, y as u8 * 20, 255]);
    }
    let rgb = image::DynamicImage::from(rgb);
    let raw = pil_to_tensor(&rgb);
    assert_eq!(raw.sizes(), [3, 2, 3]);
    assert_eq!(raw.i((0, 1)).to_vec::<u8>(), [0, 10, 20]);
    assert_eq!(raw.to_image(), rgb);
    let t = rgb.to_tensor();
    assert_eq!((t.dtype(), t.i((2, 0, 0)).item::<f32>()), (torch::float32, 1.0));
    assert_eq!(t.to_image(), rgb);
    let kinds: [image::DynamicImage; 6] = [
        image::GrayImage::from_pixel(2, 1, image::Luma([7])).into(),
        image::GrayAlphaImage::from_pixel(2, 1, image::LumaA([7, 8])).into(),
        image::RgbaImage::from_pixel(2, 1, image::Rgba([1, 2, 3, 4])).into(),
        image::ImageBuffer::from_pixel(2, 1, image::Luma([60000u16])).into(),
        image::ImageBuffer::from_pixel(2, 1, image::Rgb([60000u16, 1, 2])).into(),
        image::ImageBuffer::from_pixel(2, 1, image::Rgba([60000u16, 1, 2, 3])).into(),
    ];
    for i in kinds {
        assert_eq!(pil_to_tensor(&i).to_image(), i);
        assert!(i.to_tensor().max().item::<f32>() <= 1.0);
    }
    let float =
        image::DynamicImage::from(image::Rgb32FImage::from_pixel(1, 1, image::Rgb([0.25, 2.0, -1.0])));
    assert_eq!(float.to_tensor().reshape([-1]).to_vec::<f32>(), [0.25, 2.0, -1.0]);
    assert_eq!(float.to_tensor().to_image().into_rgb8().into_raw(), [64, 255, 0]);
    assert_eq!(try_pil_to_tensor(&image::RgbImage::new(0, 2).into()).unwrap().sizes(), [3, 2, 0]);
    for wrong in [
        torch::zeros([5, 2, 2]),
        torch::zeros([2]),
        torch::zeros([1, 1, 2, 2]),
        torch::ones([2, 2]).to(torch::int64),
    ] {
        assert!(wrong.try_to_image().is_err());
    }
}
