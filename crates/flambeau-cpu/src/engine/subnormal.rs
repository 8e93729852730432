//! Subnormal numbers as zero: a mode of the processor that each thread has for itself. A new thread begins with the mode of the
//! one that started it where the system copies it (Linux does). Workers of the pool take over that of the thread whose kernel
//! they work for.

use std::cell::Cell;

thread_local! {
    /// What this thread's processor was told, asked once: the thread may have begun with the mode on.
    static ON: Cell<bool> = Cell::new(asked());
}

/// Whether the calling thread counts subnormal numbers as zero.
pub fn is_on() -> bool {
    ON.get()
}

/// Counts subnormal operands and results as zero on the calling thread, and in its kernels on others, or not. Says whether the
/// processor can.
pub fn set(on: bool) -> bool {
    let can = switch(on);
    ON.set(on && can);
    can
}

/// Takes over another thread's mode.
pub(super) fn follow(on: bool) {
    if ON.get() != on {
        set(on);
    }
}

/// The mode that the processor is in, by what it makes of a subnormal result.
fn asked() -> bool {
    std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5) == 0.0
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn switch(on: bool) -> bool {
    /// Subnormal results are zero (bit 15), and so are such operands (bit 6).
    const BOTH: u32 = 1 << 15 | 1 << 6;
    let mut word = 0u32;
    // SAFETY: the two bits change no exceptions, no rounding and no memory but `word`. The compiler takes the default mode for
    // granted where it computes constants, and keeps subnormal numbers there: only such values can differ.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        word = if on { word | BOTH } else { word & !BOTH };
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
    }
    true
}
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn switch(on: bool) -> bool {
    /// Subnormal operands and results are zero.
    const BOTH: u64 = 1 << 24;
    let mut word: u64;
    // SAFETY: as for x86-64; the register holds modes alone.
    unsafe {
        std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags));
        word = if on { word | BOTH } else { word & !BOTH };
        std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags));
    }
    true
}
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn switch(_: bool) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn half_of_the_least_normal() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn threads_have_their_own_mode_and_workers_that_of_the_caller() {
        if !set(true) {
            return;
        }
        assert_eq!(half_of_the_least_normal(), 0.0);
        let others = || assert_eq!(is_on(), half_of_the_least_normal() == 0.0);
        std::thread::spawn(others).join().unwrap();
        let zeros = |n: usize| {
            let found = AtomicUsize::new(0);
            crate::engine::parallel::parallel_chunks(n, &|_| {
                std::thread::sleep(std::time::Duration::from_micros(100));
                found.fetch_add(usize::from(half_of_the_least_normal() == 0.0), Ordering::Relaxed);
            });
            found.into_inner()
        };
        assert_eq!(zeros(200), 200);
        assert!(set(false));
        assert!(half_of_the_least_normal() > 0.0);
        assert_eq!(zeros(200), 0);
    }
}
