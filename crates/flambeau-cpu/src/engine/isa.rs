//! Instruction sets, chosen once at run time. A kernel body is written once as a [`Job`], generic over [`Isa`];
//! [`run`] compiles it for each set under `#[target_feature]` and calls the best that the machine has.

use flambeau_dtype::{DType, Element};
use std::sync::atomic::{AtomicU8, Ordering};

/// What a kernel body may know of the instruction set that it is compiled for.
pub trait Isa: Copy + Send + Sync + 'static {
    /// Fused multiply-add is one instruction. Without it `f32::mul_add` is a slow library call, so kernels ask
    /// [`Isa::fma32`] instead.
    const FMA: bool;
    /// Bytes of a vector register, for unroll factors.
    const WIDTH: usize;
    /// `a * b + c`, fused where the machine can.
    #[inline(always)]
    fn fma32(a: f32, b: f32, c: f32) -> f32 {
        if Self::FMA { a.mul_add(b, c) } else { a * b + c }
    }
    /// `a * b + c`, fused where the machine can.
    #[inline(always)]
    fn fma64(a: f64, b: f64, c: f64) -> f64 {
        if Self::FMA { a.mul_add(b, c) } else { a * b + c }
    }
}
/// The portable level: what every x86-64 (SSE2) or other target has.
#[derive(Clone, Copy)]
pub struct Portable;
/// AVX2, FMA, F16C (x86-64-v3).
#[derive(Clone, Copy)]
pub struct V3;
/// AVX-512 F, BW, CD, DQ, VL on top of V3 (x86-64-v4).
#[derive(Clone, Copy)]
pub struct V4;
impl Isa for Portable {
    const FMA: bool = cfg!(target_arch = "aarch64");
    const WIDTH: usize = 16;
}
impl Isa for V3 {
    const FMA: bool = true;
    const WIDTH: usize = 32;
}
impl Isa for V4 {
    const FMA: bool = true;
    const WIDTH: usize = 64;
}

/// The level in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// See [`Portable`].
    Portable = 1,
    /// See [`V3`].
    V3 = 2,
    /// See [`V4`].
    V4 = 3,
}

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level of this machine, or the lower one that `FLAMBEAU_ISA=portable|v3|v4` asks for.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::V3,
        3 => Level::V4,
        _ => detect(),
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn best() -> Level {
    Level::Portable
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn best() -> Level {
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if v4 {
        Level::V4
    } else if v3 {
        Level::V3
    } else {
        Level::Portable
    }
}

/// Whether the processor is AMD's: what pays differs where the instructions do not.
#[inline]
pub(crate) fn amd() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        static AMD: std::sync::LazyLock<bool> =
            std::sync::LazyLock::new(|| std::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Auth"));
        *AMD
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

#[cold]
fn detect() -> Level {
    let best = best();
    let wish = match std::env::var("FLAMBEAU_ISA").as_deref() {
        Ok("portable") => Level::Portable,
        Ok("v3") => Level::V3,
        _ => best,
    };
    let level = wish.min(best);
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// A kernel body that is compiled once per instruction set. Implement [`Job::run`] with `#[inline(always)]`, and mark
/// everything it calls so too: only inlined code is compiled for the set.
pub trait Job {
    /// What the body returns.
    type Out;
    /// The best set that the body is compiled for. Each set is one more copy of the machine code, so bodies that are
    /// stamped for many types give up the wide sets where memory bounds them, or where few people wait for them.
    const BEST: Level = Level::V4;
    /// The body.
    fn run<I: Isa>(self) -> Self::Out;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn run_v3<J: Job>(job: J) -> J::Out {
    job.run::<V3>()
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn run_v4<J: Job>(job: J) -> J::Out {
    job.run::<V4>()
}

/// [`Job::BEST`] of a body over elements of type `T`: all sets for f32, two for the other floats, the portable one for the
/// rest.
pub const fn best_for<T: Element>() -> Level {
    match T::DTYPE {
        DType::F32 => Level::V4,
        DType::F64 | DType::F16 | DType::BF16 => Level::V3,
        _ => Level::Portable,
    }
}

/// Runs `job` with the best instruction set of this machine that it is compiled for.
#[inline]
pub fn run<J: Job>(job: J) -> J::Out {
    #[cfg(target_arch = "x86_64")]
    {
        if const { J::BEST as u8 >= Level::V4 as u8 } && level() >= Level::V4 {
            // SAFETY: `level` returns V4 only where all features of `run_v4` were detected.
            return unsafe { run_v4(job) };
        }
        if const { J::BEST as u8 >= Level::V3 as u8 } && level() >= Level::V3 {
            // SAFETY: `level` returns V3 or above only where all features of `run_v3` were detected.
            return unsafe { run_v3(job) };
        }
    }
    job.run::<Portable>()
}
