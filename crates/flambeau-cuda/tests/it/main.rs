//! The back end on an emulated device.
#![forbid(unsafe_code)]

mod emulated;
<<<<<<< HEAD
mod layers;
=======
mod places;
>>>>>>> hub/c1
mod products;
mod reductions;
mod sorts;
