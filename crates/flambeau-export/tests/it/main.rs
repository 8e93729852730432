//! Exported programs: loading, printing, running, damaged files.

mod archive;
mod control;
mod damaged;
mod decomposing;
mod exporting;
mod ports;
mod running;
mod unflattening;
