//! How processes name the memory that they share.

use flambeau_core::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};

static BY_NAME: AtomicBool = AtomicBool::new(false);

/// The ways to share memory: `file_descriptor` and `file_system`.
///
/// ```
/// use torch::multiprocessing as mp;
/// assert!(mp::get_all_sharing_strategies().contains(&mp::get_sharing_strategy()));
/// ```
#[doc(alias = "torch.multiprocessing.get_all_sharing_strategies")]
pub fn get_all_sharing_strategies() -> [&'static str; 2] {
    ["file_descriptor", "file_system"]
}
/// The way that this process sends shared memory: `file_descriptor`, if nothing else was set.
#[doc(alias = "torch.multiprocessing.get_sharing_strategy")]
pub fn get_sharing_strategy() -> &'static str {
    if by_name() { "file_system" } else { "file_descriptor" }
}
/// Sets the way that this process sends shared memory from now on. What was sent can be read whatever is set.
///
/// | strategy | a tensor goes as | limit |
/// |---|---|---|
/// | `file_descriptor` | a descriptor, which keeps the memory while it is on its way | 250 shared memories in one message |
/// | `file_system` | a path under `/proc`, by which the other process opens it: this process must keep the tensor until then | none |
///
/// ```
/// use torch::multiprocessing as mp;
/// mp::set_sharing_strategy("file_system")?;
/// assert_eq!(mp::get_sharing_strategy(), "file_system");
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Another name.
#[doc(alias = "torch.multiprocessing.set_sharing_strategy")]
#[doc(alias = "torch.multiprocessing.sharing-strategy:file_descriptor")]
#[doc(alias = "torch.multiprocessing.sharing-strategy:file_system")]
pub fn set_sharing_strategy(new_strategy: &str) -> Result<()> {
    match new_strategy {
        "file_descriptor" => BY_NAME.store(false, Ordering::Relaxed),
        "file_system" => BY_NAME.store(true, Ordering::Relaxed),
        other => bail!(
            Assertion,
            "invalid sharing strategy '{other}', expected one of {{'file_descriptor', 'file_system'}}"
        ),
    }
    Ok(())
}
pub(crate) fn by_name() -> bool {
    BY_NAME.load(Ordering::Relaxed)
}
