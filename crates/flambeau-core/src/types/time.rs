//! Moments that somebody waits for.

use std::time::{Duration, Instant};

/// Longer times are this long: no clock overflows by a hundred years.
pub const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The moment when this much time is over; very long times end in a century.
pub fn after(from: Instant, d: Duration) -> Instant {
    from + d.min(CENTURY)
}
/// The moment when this much time from now is over, as [`after`].
pub fn deadline(d: Duration) -> Instant {
    after(Instant::now(), d)
}
