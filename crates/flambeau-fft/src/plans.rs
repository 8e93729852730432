//! What transforms of one length need, kept between calls.

use flambeau_core::Result;
use flambeau_core::internal::Access;
use flambeau_core::types::order::Mutex;
use flambeau_cpu::engine::room;
use flambeau_cpu_fft::{Plan, Point, Shape, Single};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Bytes of plans that are kept; what goes beyond starts afresh.
const MOST_BYTES: usize = 64 << 20;

/// A plan, and the transforms of single lines once they were asked for.
pub struct Known<T> {
    pub plan: Plan<T>,
    forward: OnceLock<Arc<dyn Single<T>>>,
    backward: OnceLock<Arc<dyn Single<T>>>,
}

/// One line by rustfft.
struct One<T>(Arc<dyn Fft<T>>);
impl<T: FftNum> Single<T> for One<T> {
    fn scratch(&self) -> usize {
        self.0.get_inplace_scratch_len()
    }
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        self.0.process_with_scratch(line, scratch);
    }
}

impl<T: Real> Known<T> {
    /// The transform of one line.
    pub fn single(&self, forward: bool) -> Arc<dyn Single<T>> {
        let (slot, direction) = match self.plan.shape {
            Shape::Real => (&self.backward, FftDirection::Inverse),
            Shape::Complex if !forward => (&self.backward, FftDirection::Inverse),
            _ => (&self.forward, FftDirection::Forward),
        };
        let length = self.plan.shape.length(self.plan.n);
        let make = || {
            // rustfft would end the process; its plans are several times as long as the line
            room::ask(length.saturating_mul(16 * size_of::<Complex<T>>()));
            let one: Arc<dyn Single<T>> = Arc::new(One(FftPlanner::new().plan_fft(length, direction)));
            one
        };
        slot.get_or_init(make).clone()
    }
}

#[derive(Default)]
pub struct Plans<T> {
    bytes: usize,
    all: HashMap<(usize, Shape), Arc<Known<T>>>,
}

/// f32 and f64, each with its plans.
pub trait Real: Point + FftNum {
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
pub fn plan<T: Real>(n: usize, shape: Shape) -> Arc<Known<T>> {
    let lock = || T::plans().lock().unwrap_or_else(|e| e.into_inner());
    if let Some(p) = lock().all.get(&(n, shape)) {
        return p.clone();
    }
    // made without the lock: other lengths need not wait
    let made =
        Arc::new(Known { plan: Plan::new(n, shape), forward: OnceLock::new(), backward: OnceLock::new() });
    let bytes = made.plan.bytes();
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
