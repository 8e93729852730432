//! What sparse tensors are told.

use crate::generated::transform;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{Error, Result, Tensor};

static REG: CrateReg = CrateReg { name: "flambeau-fft sparse", ops: &[], fills: &[fill] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn refused(name: &str) -> Result<Tensor> {
    Err(Error::unsupported(format!(
        "Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend."
    )))
}
fn fill() {
    transform::FFT_C2C.register(SparseCpu, |_, _, _, _| refused("_fft_c2c"));
    transform::FFT_R2C.register(SparseCpu, |_, _, _, _| refused("_fft_r2c"));
    transform::FFT_C2R.register(SparseCpu, |_, _, _, _| refused("_fft_c2r"));
}
