//! What devices and engines that are not there answer.
mod answers;
