//! Python's names: regions, their settings, and the scaler.

mod region;
mod scaler;

use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_library::{object, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-amp names", ops: &[], fills: &[install] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn install() {
    for (path, f) in region::FUNCTIONS {
        register_function(path, *f);
    }
    for (path, make) in region::CLASSES.iter().chain(scaler::CLASSES) {
        object::register_class(path, *make);
    }
}
