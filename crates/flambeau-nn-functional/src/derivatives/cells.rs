//! Single steps of recurrent networks: their gradients come from their bodies.
