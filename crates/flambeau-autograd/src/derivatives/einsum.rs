//! `einsum` is a composite: no formulas of its own.
