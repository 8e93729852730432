//! Copies of views are composites: they have no formulas of their own.
