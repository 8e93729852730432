//! Nothing here has a formula of its own.
