//! Factories and fills.
