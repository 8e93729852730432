//! Exported programs: loading, printing, running, damaged files.

mod archive;
mod control;
mod damaged;
mod decomposing;
mod exporting;
mod mapped;
mod parts;
mod places;
mod ports;
mod refusing;
mod running;
mod unbacked;
mod unflattening;
