//! What transforms of one length need, kept between calls.

use flambeau_core::Result;
use flambeau_core::internal::Access;
use flambeau_core::types::order::Mutex;
use flambeau_cpu_fft::{Plan, Point, Shape};
use num_complex::Complex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Bytes of plans that are kept; what goes beyond starts afresh.
const MOST_BYTES: usize = 64 << 20;

#[derive(Default)]
pub struct Plans<T> {
    bytes: usize,
    all: HashMap<(usize, Shape), Arc<Plan<T>>>,
}

/// f32 and f64, each with its plans.
pub trait Real: Point {
    fn plans() -> &'static Mutex<Plans<Self>>;
    /// Complex elements of an input.
    fn complex<'a>(access: &'a Access<'_>, i: usize) -> Result<&'a [Complex<Self>]>;
    /// Complex elements of an output.
    // the access holds its outputs for itself alone
    #[allow(clippy::mut_from_ref)]
    fn complex_mut<'a>(access: &'a Access<'_>, i: usize) -> Result<&'a mut [Complex<Self>]>;
}
macro_rules! real {
    ($($t:ty)*) => {$(
        impl Real for $t {
            fn plans() -> &'static Mutex<Plans<$t>> {
                static PLANS: OnceLock<Mutex<Plans<$t>>> = OnceLock::new();
                PLANS.get_or_init(|| Mutex::new(Plans { bytes: 0, all: HashMap::new() }))
            }
            fn complex<'a>(access: &'a Access<'_>, i: usize) -> Result<&'a [Complex<$t>]> {
                access.slice(i)
            }
            fn complex_mut<'a>(access: &'a Access<'_>, i: usize) -> Result<&'a mut [Complex<$t>]> {
                access.slice_mut(i)
            }
        }
    )*};
}
real!(f32 f64);

/// The plan of a length.
pub fn plan<T: Real>(n: usize, shape: Shape) -> Arc<Plan<T>> {
    let lock = || T::plans().lock().unwrap_or_else(|e| e.into_inner());
    if let Some(p) = lock().all.get(&(n, shape)) {
        return p.clone();
    }
    // made without the lock: other lengths need not wait
    let made = Arc::new(Plan::new(n, shape));
    let bytes = made.bytes();
    let mut plans = lock();
    if plans.bytes + bytes > MOST_BYTES {
        plans.all.clear();
        plans.bytes = 0;
    }
    if plans.all.insert((n, shape), made.clone()).is_none() {
        plans.bytes += bytes;
    }
    made
}
