//! Every row of this crate's table has a checked gradient, or is listed as not differentiable.

use flambeau_linalg as _;
use flambeau_test_rows::{self as rows, Exceptions};
use flambeau_test_support::part;
use std::path::Path;

#[test]
fn every_row_has_its_gradient() {
    let part = part!(rows::PARTS);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops");
    let exceptions = Exceptions {
        refused: &["geqrf", "linalg_ldl_factor_ex", "linalg_ldl_factor", "linalg_ldl_solve"],
        // of all elements of the factor, though one triangle is read, as in PyTorch
        defined: &["cholesky_inverse", "cholesky_solve"],
        no_forward: &["cholesky_inverse", "cholesky_solve"],
        ..Exceptions::default()
    };
    rows::walk("flambeau-linalg", &dir, &exceptions, part);
}
