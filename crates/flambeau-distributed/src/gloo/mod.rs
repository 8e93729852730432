//! Gloo's transport and algorithms, bit for bit: any rank of a group may be PyTorch.

mod address;
pub(crate) mod algorithms;
pub(crate) mod arithmetic;
pub(crate) mod mesh;
pub(crate) mod pair;
pub(crate) mod payload;
mod progress;

pub(crate) use address::host_name;
use flambeau_core::Result;

/// A thread for connections: many, with little to do.
fn thread(name: &str, f: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(f)?;
    Ok(())
}
