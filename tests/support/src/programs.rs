//! The facade's examples, for tests that run them as their users do.

use crate::python::output;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// Where an example's program is, once cargo has brought all of them up to date.
///
/// It builds them as `cargo test --workspace` has built them, so that nothing is compiled a second time: with the features of the whole
/// workspace, and with its libraries, since what only macros use is compiled otherwise where no library uses it too.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let profile = if cfg!(debug_assertions) { "test" } else { "release" };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--workspace", "--lib", "--examples"]);
        output(cargo.args(["--manifest-path", manifest, "--profile", profile]), "");
        let test = std::env::current_exe().expect("a test has a program");
        test.parent().and_then(|deps| deps.parent()).expect("cargo's folders").join("examples")
    });
    FOLDER.join(name)
}
