//! How many threads operators may use.

use flambeau_cpu::engine::parallel;

/// Threads that one operator may use, the caller's included.
#[doc(alias = "torch.get_num_threads")]
pub fn get_num_threads() -> usize {
    parallel::num_threads()
}

/// Sets the number of threads that one operator may use, the caller's included. Panics on 0.
///
/// ```
/// torch::set_num_threads(2);
/// assert_eq!(torch::get_num_threads(), 2);
/// ```
#[track_caller]
#[doc(alias = "torch.set_num_threads")]
pub fn set_num_threads(count: usize) {
    assert!(count > 0, "set_num_threads expects a positive integer");
    parallel::set_num_threads(count);
}

/// Operators that the calling thread runs use no other threads (`on`), or may again; returns what held before. Meant for
/// threads that are many themselves, such as the workers of a data loader.
pub fn set_alone(on: bool) -> bool {
    parallel::set_alone(on)
}
