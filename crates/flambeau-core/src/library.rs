//! Calls by name.
