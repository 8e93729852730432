//! Random fills: no gradient flows through them.
