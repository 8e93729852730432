//! Every row of core's operator table has a checked gradient, or says that it is not differentiable.

use flambeau_test_rows as rows;
use flambeau_test_support::part;
use std::path::Path;

#[test]
fn every_row_has_its_gradient() {
    let part = part!(rows::PARTS);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flambeau-core/ops");
    rows::walk("flambeau-core", &dir, part);
}
