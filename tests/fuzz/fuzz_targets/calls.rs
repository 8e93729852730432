//! Programs of random calls over tensors that live on: see the file that it shares with the workspace's tests.
#![no_main]

#[path = "../../it/attack/steps.rs"]
mod steps;

use std::panic;
use std::sync::Once;

/// libFuzzer's hook ends the process at every panic; those of a program's own closures are caught.
static HOOK: Once = Once::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    HOOK.call_once(|| {
        let ends = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<steps::Thrown>() {
                ends(info);
            }
        }));
    });
    steps::run(data, false);
});
