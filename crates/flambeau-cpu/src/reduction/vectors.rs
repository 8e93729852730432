//! Sums of floats by vectors of the machine. What the compiler makes of lanes ([`Lanes`](super::fold::Lanes)) keeps them in memory at
//! the end of a row, which takes as long as a quarter of a row of 1024 numbers.

#[cfg(target_arch = "x86_64")]
use crate::engine::cache::{far, prefetch_far, prefetch_page};
use crate::engine::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::engine::simd::{Vector, x86};
use crate::num::{Arith, Num};
#[cfg(target_arch = "x86_64")]
use flambeau_dtype::DType;

/// Vectors of running sums.
#[cfg(target_arch = "x86_64")]
const SUMS: usize = 8;
/// Steps of a running sum before it is added to the others, so that none adds a long chain one by one.
#[cfg(target_arch = "x86_64")]
const STEPS: usize = 16;

/// # Safety
/// The machine has the vector's instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum<V: Vector<T: Arith>>(x: &[V::T]) -> V::T {
    // SAFETY: the caller's promise; all loads lie in their chunks.
    unsafe {
        let (zero, far) = (V::splat(V::T::ZERO), far());
        let mut total = [zero; SUMS];
        let mut rest: &[V::T] = &[];
        for group in x.chunks(STEPS * SUMS * V::N) {
            if !far {
                prefetch_page(group.as_ptr().cast());
            }
            let steps = group.chunks_exact(SUMS * V::N);
            rest = steps.remainder();
            let mut part = [zero; SUMS];
            for step in steps {
                if far {
                    prefetch_far(step.as_ptr().cast(), size_of_val(step));
                }
                for k in 0..SUMS {
                    part[k] = part[k].add(V::load(step.as_ptr().add(k * V::N)));
                }
            }
            for k in 0..SUMS {
                total[k] = total[k].add(part[k]);
            }
        }
        let vectors = rest.chunks_exact(V::N);
        let last = vectors.remainder().iter().fold(V::T::ZERO, |a, v| a.plus(*v));
        for v in vectors {
            total[0] = total[0].add(V::load(v.as_ptr()));
        }
        for half in [4, 2, 1] {
            for k in 0..half {
                total[k] = total[k].add(total[k + half]);
            }
        }
        let mut lanes = [V::T::ZERO; 8];
        total[0].store(lanes.as_mut_ptr());
        for half in [4, 2, 1] {
            for k in 0..half {
                lanes[k] = lanes[k].plus(lanes[k + half]);
            }
        }
        lanes[0].plus(last)
    }
}

/// The sum of a run, where there are vectors for it and it is no short one.
#[inline(always)]
pub(super) fn sum_of<T: Num, I: Isa>(x: &[T]) -> Option<T::Acc> {
    #[cfg(target_arch = "x86_64")]
    if I::WIDTH == 32 && x.len() >= 32 {
        return match T::DTYPE {
            // SAFETY: a body for registers of 32 bytes is compiled for V3 and runs where the machine has it.
            DType::F32 => Some(bytemuck::cast(unsafe { sum::<x86::F8>(bytemuck::cast_slice(x)) })),
            // SAFETY: as above.
            DType::F64 => Some(bytemuck::cast(unsafe { sum::<x86::D4>(bytemuck::cast_slice(x)) })),
            _ => None,
        };
    }
    let _ = x;
    None
}
