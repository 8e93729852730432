//! The tests of flambeau-conformance, in one binary.

mod judging;
