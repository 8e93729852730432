//! The elements of tensors as numbers, read from their memory by their strides: no operator under test takes part.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Tensor};
use half::{bf16, f16};
use num_complex::Complex;

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Integers and bools.
    Int(Vec<i128>),
    /// Floats.
    Float(Vec<f64>),
    /// Complex numbers.
    Complex(Vec<Complex<f64>>),
}

/// The logical elements as bytes in row-major order, lazy bits resolved.
///
/// # Errors
/// Without data (meta device).
pub fn bytes(t: &Tensor) -> Result<Vec<u8>, String> {
    let t = &crate::device::here(t).map_err(|e| e.to_string())?;
    if t.device() != flambeau_core::Device::Cpu {
        return Err(format!("a tensor on {}", t.device()));
    }
    if t.layout() != flambeau_core::Layout::Strided {
        return Err(format!("a tensor of layout {}", t.layout().name()));
    }
    let size = t.element_size();
    let (sizes, strides) = (t.sizes().to_vec(), t.strides().to_vec());
    let n = t.numel() as usize;
    let mut out = Vec::with_capacity(n * size);
    let start = t.storage_offset();
    let walk = |b: &[u8]| {
        let mut index = vec![0i64; sizes.len()];
        for _ in 0..n {
            let at: i64 = start + index.iter().zip(&strides).map(|(i, s)| i * s).sum::<i64>();
            let at = at as usize * size;
            out.extend_from_slice(&b[at..at + size]);
            for d in (0..sizes.len()).rev() {
                index[d] += 1;
                if index[d] < sizes[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    };
    t.storage().with_bytes(walk).map_err(|e| e.to_string())?;
    flip(&mut out, t.dtype(), t.is_conj(), t.is_neg());
    Ok(out)
}

/// Changes signs: of imaginary parts, and of everything.
pub fn flip(bytes: &mut [u8], dtype: DType, conj: bool, neg: bool) {
    let part = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    for (i, p) in bytes.chunks_exact_mut(part).enumerate() {
        let imaginary = dtype.is_complex() && i % 2 == 1;
        if neg != (conj && imaginary) {
            p[part - 1] ^= 0x80;
        }
    }
}

fn f8(b: u8, exponent_bits: u32, mantissa_bits: u32, ieee: bool) -> f64 {
    let sign = if b & 0x80 != 0 { -1.0 } else { 1.0 };
    let (e, m) = (u32::from(b & 0x7f) >> mantissa_bits, u32::from(b) & ((1 << mantissa_bits) - 1));
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let top = (1 << exponent_bits) - 1;
    let mant_max = (1 << mantissa_bits) - 1;
    if e == top && ieee {
        return if m == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if e == top && m == mant_max {
        return f64::NAN;
    }
    let frac = f64::from(m) / f64::from(1u32 << mantissa_bits);
    sign * if e == 0 { frac * 2f64.powi(1 - bias) } else { (1.0 + frac) * 2f64.powi(e as i32 - bias) }
}

/// Reads elements from bytes.
pub fn decode(dtype: DType, b: &[u8]) -> Elements {
    macro_rules! read {
        ($variant:ident, $n:expr, |$c:ident| $e:expr) => {
            Elements::$variant(b.chunks_exact($n).map(|$c: &[u8]| $e).collect())
        };
    }
    fn a<const N: usize>(c: &[u8]) -> [u8; N] {
        let mut x = [0; N];
        x.copy_from_slice(&c[..N]);
        x
    }
    use DType::*;
    match dtype {
        Bool => read!(Int, 1, |c| i128::from(c[0] != 0)),
        U8 | QU8 | QU4X2 | QU2X4 => read!(Int, 1, |c| i128::from(c[0])),
        I8 | QI8 => read!(Int, 1, |c| i128::from(c[0] as i8)),
        I16 => read!(Int, 2, |c| i128::from(i16::from_le_bytes(a(c)))),
        U16 => read!(Int, 2, |c| i128::from(u16::from_le_bytes(a(c)))),
        I32 | QI32 => read!(Int, 4, |c| i128::from(i32::from_le_bytes(a(c)))),
        U32 => read!(Int, 4, |c| i128::from(u32::from_le_bytes(a(c)))),
        I64 => read!(Int, 8, |c| i128::from(i64::from_le_bytes(a(c)))),
        U64 => read!(Int, 8, |c| i128::from(u64::from_le_bytes(a(c)))),
        F16 => read!(Float, 2, |c| f16::from_le_bytes(a(c)).to_f64()),
        BF16 => read!(Float, 2, |c| bf16::from_le_bytes(a(c)).to_f64()),
        F32 => read!(Float, 4, |c| f64::from(f32::from_le_bytes(a(c)))),
        F64 => read!(Float, 8, |c| f64::from_le_bytes(a(c))),
        F8E4M3 => read!(Float, 1, |c| f8(c[0], 4, 3, false)),
        F8E5M2 => read!(Float, 1, |c| f8(c[0], 5, 2, true)),
        C32 => read!(Complex, 4, |c| Complex::new(
            f16::from_le_bytes(a(c)).to_f64(),
            f16::from_le_bytes(a(&c[2..])).to_f64()
        )),
        BC32 => read!(Complex, 4, |c| Complex::new(
            bf16::from_le_bytes(a(c)).to_f64(),
            bf16::from_le_bytes(a(&c[2..])).to_f64()
        )),
        C64 => read!(Complex, 8, |c| Complex::new(
            f64::from(f32::from_le_bytes(a(c))),
            f64::from(f32::from_le_bytes(a(&c[4..])))
        )),
        C128 => {
            read!(Complex, 16, |c| Complex::new(f64::from_le_bytes(a(c)), f64::from_le_bytes(a(&c[8..]))))
        }
    }
}

/// The elements of a tensor.
///
/// # Errors
/// Without data.
pub fn of(t: &Tensor) -> Result<Elements, String> {
    Ok(decode(t.dtype(), &bytes(t)?))
}

impl Elements {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::Int(v) => v.len(),
            Elements::Float(v) => v.len(),
            Elements::Complex(v) => v.len(),
        }
    }
    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One element as a complex number.
    pub fn at(&self, i: usize) -> Complex<f64> {
        match self {
            Elements::Int(v) => Complex::new(v[i] as f64, 0.0),
            Elements::Float(v) => Complex::new(v[i], 0.0),
            Elements::Complex(v) => v[i],
        }
    }
}
