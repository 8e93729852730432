//! Tensors in whatever format serde writes: fields `dtype`, `shape` and `data`.
//!
//! Formats that people read (JSON, TOML) hold elements as numbers, in row-major order: complex ones as pairs, what is not finite as
//! `"nan"`, `"inf"` or `"-inf"`. Others hold their bytes, little-endian. Whether a gradient is wanted is not written.

use crate::{B8, DType, Device, Error, Layout, MemoryFormat, Result, Tensor, bail, ensure, ops};
use num_complex::Complex;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeStruct as _, Serializer};
use std::fmt;

const FIELDS: &[&str] = &["dtype", "shape", "data"];
/// Elements that a length in a file makes room for at once; more come with their data.
const AT_ONCE: usize = 1 << 16;

/// The tensor with its elements in order on the CPU.
fn plain(t: &Tensor) -> Result<Tensor> {
    if t.layout() != Layout::Strided || t.dtype().is_quantized() {
        bail!(
            Missing,
            "serde of tensors with layout {} and dtype {}: torch::save keeps them",
            t.layout().name(),
            t.dtype().name()
        );
    }
    let t = t.alias_detached();
    let t = ops::to(&t, None, None, Some(Device::Cpu), None, false, false, None)?;
    ops::resolve_neg(&ops::resolve_conj(&ops::contiguous(&t, MemoryFormat::Contiguous)?)?)
}
impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let t = plain(self).map_err(S::Error::custom)?;
        let readable = s.is_human_readable();
        let mut all = s.serialize_struct("Tensor", FIELDS.len())?;
        all.serialize_field(FIELDS[0], t.dtype().name())?;
        all.serialize_field(FIELDS[1], t.sizes())?;
        if readable {
            all.serialize_field(FIELDS[2], &Numbers(&t))?;
        } else {
            all.serialize_field(FIELDS[2], &Bytes(&t))?;
        }
        all.end()
    }
}
struct Bytes<'a>(&'a Tensor);
impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let t = self.0;
        let size = t.dtype().size();
        let (at, n) = (t.storage_offset() as usize * size, t.numel() as usize * size);
        // no guard of the memory is held while the format's own code runs
        let mut b = Vec::new();
        b.try_reserve_exact(n).map_err(S::Error::custom)?;
        b.resize(n, 0);
        t.storage().read_at(at, &mut b).map_err(S::Error::custom)?;
        s.serialize_bytes(&b)
    }
}
struct Numbers<'a>(&'a Tensor);
impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let t = self.0;
        let narrow = !matches!(t.dtype(), DType::F64 | DType::C128);
        let real = |x: f64| Real(x, narrow);
        macro_rules! all {
            ($of:ty, $one:expr) => {{
                let v = t.try_to_vec::<$of>().map_err(S::Error::custom)?;
                s.collect_seq(v.into_iter().map($one))
            }};
        }
        match t.dtype() {
            DType::Bool => all!(B8, B8::get),
            DType::U64 => all!(u64, |x| x),
            d if d.is_integral(false) => all!(i64, |x| x),
            d if d.is_complex() => all!(Complex<f64>, |x| (real(x.re), real(x.im))),
            _ => all!(f64, real),
        }
    }
}
/// A number in as few digits as its dtype needs.
struct Real(f64, bool);
impl Serialize for Real {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let Real(x, narrow) = *self;
        if x.is_nan() {
            s.serialize_str("nan")
        } else if x.is_infinite() {
            s.serialize_str(if x > 0.0 { "inf" } else { "-inf" })
        } else if narrow {
            s.serialize_f32(x as f32)
        } else {
            s.serialize_f64(x)
        }
    }
}

/// An element as a format says it.
#[derive(Clone, Copy)]
enum Number {
    Bool(bool),
    Integer(i128),
    Real(f64),
    Complex(f64, f64),
}
impl Number {
    fn real(self) -> Option<f64> {
        match self {
            Number::Integer(n) => Some(n as f64),
            Number::Real(x) => Some(x),
            _ => None,
        }
    }
}
impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a pair of numbers, a bool, \"nan\", \"inf\" or \"-inf\"")
            }
            fn visit_bool<E>(self, v: bool) -> std::result::Result<Number, E> {
                Ok(Number::Bool(v))
            }
            fn visit_i64<E>(self, v: i64) -> std::result::Result<Number, E> {
                Ok(Number::Integer(v.into()))
            }
            fn visit_u64<E>(self, v: u64) -> std::result::Result<Number, E> {
                Ok(Number::Integer(v.into()))
            }
            fn visit_f64<E>(self, v: f64) -> std::result::Result<Number, E> {
                Ok(Number::Real(v))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> std::result::Result<Number, E> {
                Ok(Number::Real(match v {
                    "nan" => f64::NAN,
                    "inf" => f64::INFINITY,
                    "-inf" => f64::NEG_INFINITY,
                    _ => return Err(E::invalid_value(de::Unexpected::Str(v), &self)),
                }))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> std::result::Result<Number, A::Error> {
                let mut part = |i| {
                    let n: Option<Number> = a.next_element()?;
                    n.and_then(Number::real).ok_or_else(|| de::Error::invalid_length(i, &"a pair of numbers"))
                };
                let pair = Number::Complex(part(0)?, part(1)?);
                match a.next_element::<de::IgnoredAny>()? {
                    None => Ok(pair),
                    Some(_) => Err(de::Error::invalid_length(3, &"a pair of numbers")),
                }
            }
        }
        d.deserialize_any(Any)
    }
}
enum Data {
    Bytes(Vec<u8>),
    Numbers(Vec<Number>),
}
impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Raw;
        impl<'de> Visitor<'de> for Raw {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, v: &[u8]) -> std::result::Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
            fn visit_byte_buf<E>(self, v: Vec<u8>) -> std::result::Result<Vec<u8>, E> {
                Ok(v)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> std::result::Result<Vec<u8>, A::Error> {
                let mut all = Vec::with_capacity(a.size_hint().unwrap_or(0).min(AT_ONCE));
                while let Some(b) = a.next_element()? {
                    all.push(b);
                }
                Ok(all)
            }
        }
        if d.is_human_readable() {
            Vec::deserialize(d).map(Data::Numbers)
        } else {
            d.deserialize_byte_buf(Raw).map(Data::Bytes)
        }
    }
}
impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Tensor;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tensor: dtype, shape and data")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> std::result::Result<Tensor, A::Error> {
                let none = |i| de::Error::invalid_length(i, &"dtype, shape and data");
                let dtype: String = a.next_element()?.ok_or_else(|| none(0))?;
                let shape: Vec<i64> = a.next_element()?.ok_or_else(|| none(1))?;
                let data: Data = a.next_element()?.ok_or_else(|| none(2))?;
                made(&dtype, &shape, data).map_err(de::Error::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> std::result::Result<Tensor, A::Error> {
                let (mut dtype, mut shape, mut data) = (None::<String>, None::<Vec<i64>>, None::<Data>);
                while let Some(k) = a.next_key::<String>()? {
                    match k.as_str() {
                        "dtype" => dtype = Some(a.next_value()?),
                        "shape" => shape = Some(a.next_value()?),
                        "data" => data = Some(a.next_value()?),
                        other => return Err(de::Error::unknown_field(other, FIELDS)),
                    }
                }
                let dtype = dtype.ok_or_else(|| de::Error::missing_field("dtype"))?;
                let shape = shape.ok_or_else(|| de::Error::missing_field("shape"))?;
                let data = data.ok_or_else(|| de::Error::missing_field("data"))?;
                made(&dtype, &shape, data).map_err(de::Error::custom)
            }
        }
        d.deserialize_struct("Tensor", FIELDS, Parts)
    }
}
fn made(dtype: &str, shape: &[i64], data: Data) -> Result<Tensor> {
    let dtype = DType::from_name(dtype)
        .filter(|d| !d.is_quantized())
        .ok_or_else(|| Error::value(format!("a tensor of dtype {dtype:?}")))?;
    let size = |n: i64, s: &i64| if *s < 0 { None } else { n.checked_mul(*s) };
    let count = shape.iter().try_fold(1i64, size).and_then(|n| usize::try_from(n).ok());
    let (of, given) = match &data {
        Data::Bytes(b) => (dtype.size(), b.len()),
        Data::Numbers(n) => (1, n.len()),
    };
    ensure!(
        count.and_then(|n| n.checked_mul(of)) == Some(given),
        Value,
        "a tensor of shape {shape:?} and dtype {} with data of length {given}",
        dtype.name()
    );
    match data {
        Data::Bytes(b) => {
            ensure!(
                dtype != DType::Bool || b.iter().all(|b| *b < 2),
                Value,
                "a tensor of bools with bytes that are neither 0 nor 1"
            );
            let t = Tensor::empty_raw(shape, dtype, Device::Cpu)?;
            if !b.is_empty() {
                t.storage().with_bytes_mut(|to| to[..b.len()].copy_from_slice(&b))?;
            }
            Ok(t)
        }
        Data::Numbers(n) => from_numbers(dtype, shape, &n),
    }
}
fn from_numbers(dtype: DType, shape: &[i64], all: &[Number]) -> Result<Tensor> {
    let wrong = || Error::value(format!("an element that is no number of dtype {}", dtype.name()));
    fn each<T>(all: &[Number], one: impl Fn(Number) -> Option<T>) -> Option<Vec<T>> {
        all.iter().map(|n| one(*n)).collect()
    }
    let t = match dtype {
        DType::Bool => {
            let one = |n| if let Number::Bool(b) = n { Some(B8::from(b)) } else { None };
            Tensor::from_vec_raw(each(all, one).ok_or_else(wrong)?, shape)?
        }
        DType::U64 => {
            let one = |n| if let Number::Integer(n) = n { u64::try_from(n).ok() } else { None };
            Tensor::from_vec_raw(each(all, one).ok_or_else(wrong)?, shape)?
        }
        d if d.is_integral(false) => {
            let bits = 8 * d.size() as u32;
            let signed = matches!(d, DType::I8 | DType::I16 | DType::I32 | DType::I64);
            let range = if signed { -(1i128 << (bits - 1))..1 << (bits - 1) } else { 0..1 << bits };
            let one = |n| match n {
                Number::Integer(n) if range.contains(&n) => i64::try_from(n).ok(),
                _ => None,
            };
            Tensor::from_vec_raw(each(all, one).ok_or_else(wrong)?, shape)?
        }
        d if d.is_complex() => {
            let one = |n| match n {
                Number::Complex(re, im) => Some(Complex::new(re, im)),
                n => n.real().map(|x| Complex::new(x, 0.0)),
            };
            Tensor::from_vec_raw(each(all, one).ok_or_else(wrong)?, shape)?
        }
        _ => Tensor::from_vec_raw(each(all, Number::real).ok_or_else(wrong)?, shape)?,
    };
    ops::to(&t, Some(dtype), None, None, None, false, false, None)
}
