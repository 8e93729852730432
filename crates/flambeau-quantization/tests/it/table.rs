//! Every row of this crate's table has a checked gradient, or is listed as not differentiable.

use flambeau_quantization as _;
use flambeau_test_rows as rows;
use flambeau_test_support::part;
use std::path::Path;

#[test]
fn every_row_has_its_gradient() {
    let part = part!(rows::PARTS);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops");
    rows::walk("flambeau-quantization", &dir, part);
}
