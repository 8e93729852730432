//! Tests of calls by name.

mod calls;
