//! Tools around a program: comparison of results (`torch.testing`), what operators cost (`torch.profiler`), how long statements take
//! (`torch.utils.benchmark`), events and statistics of them (`torch.monitor`).
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod flop_counter;
#[cfg(feature = "hub")]
pub mod hub;
pub mod module_tracker;
pub mod monitor;
pub mod profiler;
pub mod testing;

#[cfg(feature = "by-name")]
mod by_name {
    use flambeau_core::dispatch::registry::{self, CrateReg};

    fn install() {
        for (path, f) in [crate::testing::by_name::NAMES, crate::profiler::NAMES].into_iter().flatten() {
            flambeau_library::register_function(path, *f);
        }
    }
    static REG: CrateReg = CrateReg { name: "flambeau-utils", ops: &[], fills: &[install] };
    #[linkme::distributed_slice(registry::CRATES)]
    static LINKED: &CrateReg = &REG;
}
