//! `torch.cuda.gds`: files that a device reads by itself.

use super::absent;
use crate::table::{absent_class, answers};

answers! { "torch.cuda.gds", NAMES {
    /// Whether devices read files by themselves: none does.
    fn is_available() -> bool { false }
    /// Makes a storage known to the driver.
    try try_gds_register_buffer(s: crate::Anything) -> () { absent() }
    /// Ends that.
    try try_gds_deregister_buffer(s: crate::Anything) -> () { absent() }
} }
absent_class! { "torch.cuda.gds", FILE {
    /// A file that a device reads by itself.
    GdsFile = flambeau_core::Error::assertion("Torch not compiled with CUDA enabled");
    /// Makes the file known to the driver.
    register_handle() -> ();
    /// Ends that.
    deregister_handle() -> ();
} }
