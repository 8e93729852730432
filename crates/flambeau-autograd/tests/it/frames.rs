//! Which frames of a backtrace are the library's and which its user's, by paths as debug information gives them.

#[test]
fn frames_of_the_library_and_of_its_users() {
    use flambeau_autograd::anomaly::is_library;
    for f in [
        "add at /build/crates/flambeau-core/src/generated/ops.rs:12:5",
        "linear at /root/.cargo/registry/src/index/flambeau-nn-functional-0.1.0/src/ops/linear.rs:3:1",
        "flambeau_nn::modules::linear::forward",
        "mul_autograd at ./src/generated/pointwise.rs:1:1",
        "expect at ./crates/flambeau/src/lib.rs:9:1",
    ] {
        assert!(is_library(f), "{f}");
    }
    for f in [
        "main at ./crates/flambeau/examples/digits.rs:80:9",
        "train at /home/me/flambeau-demo/src/main.rs:7:1",
        "second at crates/flambeau-autograd/tests/engine.rs:5:1",
        "digits::main",
    ] {
        assert!(!is_library(f), "{f}");
    }
}
