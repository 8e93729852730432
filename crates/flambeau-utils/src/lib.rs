//! Tools around a program: comparison of results (`torch.testing`), what operators cost (`torch.profiler`), how long statements take
//! (`torch.utils.benchmark`), where a program's time goes (`torch.utils.bottleneck`), events and statistics of them (`torch.monitor`), what the library says of its work (`torch._logging`).
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod bottleneck;
pub mod flop_counter;
#[cfg(feature = "hub")]
pub mod hub;
pub mod logging;
pub mod module_tracker;
pub mod monitor;
pub mod profiler;
pub mod testing;

#[cfg(feature = "by-name")]
mod by_name {
    use flambeau_core::dispatch::registry::{self, CrateReg};

    fn install() {
        let all = [crate::testing::by_name::NAMES, crate::profiler::NAMES, crate::logging::by_name::NAMES];
        for (path, f) in all.into_iter().flatten() {
            flambeau_library::register_function(path, *f);
        }
        if let Err(e) = crate::logging::init() {
            eprintln!("{}", e.message());
        }
    }
    static REG: CrateReg = CrateReg { name: "flambeau-utils", ops: &[], fills: &[install] };
    #[linkme::distributed_slice(registry::CRATES)]
    static LINKED: &CrateReg = &REG;
}
