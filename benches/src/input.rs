//! Inputs of the rows: the same elements in every implementation, by a hash of their place.

use torch::Tensor;

/// The hash of element `i` of the tensor with this seed.
fn hash(i: u32, seed: u32) -> u32 {
    let mut h = i.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503).wrapping_add(12_345));
    h ^= h >> 15;
    h = h.wrapping_mul(2_246_822_519);
    h ^ (h >> 13)
}

fn each<T: torch::Element, const N: usize>(sizes: [i64; N], seed: u32, f: impl Fn(u32) -> T) -> Tensor {
    let count = sizes.iter().product::<i64>() as u32;
    // NumPy, which makes PyTorch's inputs, asks for huge pages, and a vector does not: so the copy, in a tensor's own memory.
    Tensor::from_vec((0..count).map(|i| f(hash(i, seed))).collect::<Vec<T>>(), sizes).copy()
}

/// float32, uniform in [-1, 1).
pub fn fill<const N: usize>(sizes: [i64; N], seed: u32) -> Tensor {
    each(sizes, seed, |h| (h >> 8) as f32 * (1.0 / (1u32 << 23) as f32) - 1.0)
}

/// [`fill`] that wants a gradient.
pub fn leaf<const N: usize>(sizes: [i64; N], seed: u32) -> Tensor {
    fill(sizes, seed).requires_grad_(true)
}

/// int64 in 0..`end`.
pub fn ints<const N: usize>(sizes: [i64; N], end: u32, seed: u32) -> Tensor {
    each(sizes, seed, |h| i64::from((h >> 8) % end))
}

/// bool, half of it true.
pub fn mask<const N: usize>(sizes: [i64; N], seed: u32) -> Tensor {
    fill(sizes, seed).gt(0)
}

/// complex64.
pub fn complex<const N: usize>(sizes: [i64; N]) -> Tensor {
    torch::complex(&fill(sizes, 1), &fill(sizes, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_elements() {
        // numbers of an independent implementation (NumPy, 32-bit unsigned arithmetic)
        assert_eq!(fill([4], 1).to_vec::<f32>(), [0.703_336_7, 0.482_973_7, 0.749_167_44, 0.307_009_82]);
        assert_eq!(ints([4], 1000, 2).to_vec::<i64>(), [180, 30, 707, 22]);
    }
}
