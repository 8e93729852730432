//! Copies and casts.
