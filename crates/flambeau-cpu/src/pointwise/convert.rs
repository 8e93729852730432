//! Conversions between what lies in memory and what a kernel works on, by dense blocks. They let a formula be compiled
//! for a few working types only and still run on every dtype.

use half::{bf16, f16};

use crate::num::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::num::half::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, round_bf16, round_f16, widen_bf16, widen_f16,
};

/// How memory elements differ from what the kernel works on. Complex numbers count as two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Conv {
    /// They do not.
    None,
    /// f16 in memory, f32 in the kernel.
    F16,
    /// bf16 in memory, f32 in the kernel.
    BF16,
    /// f32 in memory, f64 in the kernel.
    F32D,
    /// f16 in memory, f64 in the kernel.
    F16D,
    /// bf16 in memory, f64 in the kernel.
    BF16D,
    /// float8 in memory, f64 in the kernel.
    E4M3D,
    /// float8 in memory, f64 in the kernel.
    E5M2D,
    /// Integers that an i32 holds.
    I8I,
    /// As above.
    U8I,
    /// As above.
    I16I,
    /// As above.
    U16I,
    /// Truth values as 0 and 1 of an i64; loads only, as what follows.
    BoolL,
    /// Integers that an i64 holds.
    U8L,
    /// As above.
    I8L,
    /// As above.
    I16L,
    /// As above.
    U16L,
    /// As above.
    I32L,
    /// As above; stores too.
    U32L,
}

type Lanes = unsafe fn(from: *const u8, to: *mut u8, lanes: usize);

/// Converts `n` elements, one by one.
///
/// # Safety
/// Both pointers must be valid for `n` elements and not overlap.
#[inline(always)]
unsafe fn each<A: Copy, B>(from: *const u8, to: *mut u8, n: usize, f: impl Fn(A) -> B) {
    // SAFETY: the caller vouches for both runs.
    unsafe {
        elements(std::slice::from_raw_parts(from.cast(), n), std::slice::from_raw_parts_mut(to.cast(), n), f)
    }
}
/// Slices as arguments tell the compiler that the runs do not overlap.
#[inline(never)]
fn elements<A: Copy, B>(from: &[A], to: &mut [std::mem::MaybeUninit<B>], f: impl Fn(A) -> B) {
    for (to, from) in to.iter_mut().zip(from) {
        to.write(f(*from));
    }
}

macro_rules! table {
    ($($C:ident: $mem:literal $work:literal, $load:expr, $store:expr;)*) => {
        impl Conv {
            /// Bytes of a lane in memory and in the kernel.
            pub(crate) fn sizes(self) -> (usize, usize) {
                match self { Conv::None => (1, 1), $(Conv::$C => ($mem, $work),)* }
            }
            /// Brings `lanes` dense memory lanes to the kernel's form.
            ///
            /// # Safety
            /// Both pointers must be valid for as many lanes and aligned; the runs must not overlap.
            pub(super) unsafe fn load(self, from: *const u8, to: *mut u8, lanes: usize) {
                let f: Lanes = match self { Conv::None => return, $(Conv::$C => $load,)* };
                // SAFETY: same contract.
                unsafe { f(from, to, lanes) }
            }
            /// Brings `lanes` dense lanes of the kernel to memory.
            ///
            /// # Safety
            /// As [`Conv::load`].
            pub(super) unsafe fn store(self, from: *const u8, to: *mut u8, lanes: usize) {
                let f: Lanes = match self { Conv::None => return, $(Conv::$C => $store,)* };
                // SAFETY: same contract.
                unsafe { f(from, to, lanes) }
            }
        }
    };
}
/// A conversion of single elements as a conversion of blocks.
macro_rules! lanes {
    ($f:expr) => {
        // SAFETY: the contract of `Conv::load`.
        |a, b, n| unsafe { each(a, b, n, $f) }
    };
}
/// A conversion that works on blocks already.
macro_rules! block {
    ($f:ident) => {
        // SAFETY: the contract of `Conv::load`.
        |a, b, n| unsafe { $f(a.cast(), b.cast(), n) }
    };
}
table! {
    F16: 2 4, block!(widen_f16), block!(round_f16);
    BF16: 2 4, block!(widen_bf16), block!(round_bf16);
    F32D: 4 8, lanes!(|v: f32| v as f64), lanes!(|v: f64| v as f32);
    F16D: 2 8, lanes!(|v: f16| f16_to_f32(v) as f64), lanes!(|v: f64| f32_to_f16(v as f32));
    BF16D: 2 8, lanes!(|v: bf16| bf16_to_f32(v) as f64), lanes!(|v: f64| f32_to_bf16(v as f32));
    E4M3D: 1 8, lanes!(|v: u8| e4m3_to_f32(v) as f64), lanes!(|v: f64| f32_to_e4m3(v as f32));
    E5M2D: 1 8, lanes!(|v: u8| e5m2_to_f32(v) as f64), lanes!(|v: f64| f32_to_e5m2(v as f32));
    I8I: 1 4, lanes!(|v: i8| v as i32), lanes!(|v: i32| v as u8);
    U8I: 1 4, lanes!(|v: u8| v as i32), lanes!(|v: i32| v as u8);
    I16I: 2 4, lanes!(|v: i16| v as i32), lanes!(|v: i32| v as u16);
    U16I: 2 4, lanes!(|v: u16| v as i32), lanes!(|v: i32| v as u16);
    BoolL: 1 8, lanes!(|v: u8| (v != 0) as i64), no_store;
    U8L: 1 8, lanes!(|v: u8| v as i64), no_store;
    I8L: 1 8, lanes!(|v: i8| v as i64), no_store;
    I16L: 2 8, lanes!(|v: i16| v as i64), no_store;
    U16L: 2 8, lanes!(|v: u16| v as i64), no_store;
    I32L: 4 8, lanes!(|v: i32| v as i64), no_store;
    U32L: 4 8, lanes!(|v: u32| v as i64), lanes!(|v: i64| v as u32);
}
/// The conversions of inputs only are never asked to store.
unsafe fn no_store(_: *const u8, _: *mut u8, _: usize) {
    debug_assert!(false, "a conversion of inputs was asked to store");
}
