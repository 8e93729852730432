//! What core itself puts into the registry besides its rows: the fallbacks of keys that no single operator has. Core's entry in
//! the list of crates names this; the registry knows none of them.

/// Core's entry calls it once.
pub(crate) fn install() {
    super::apart::install();
    super::autocast::install();
    super::stand_in::install();
    super::wrapper::install();
}
