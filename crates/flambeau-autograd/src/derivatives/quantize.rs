//! Rounding to quantized numbers: the formulas stand in the rows.
