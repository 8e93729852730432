//! Every row of this crate's table has a checked gradient, or is listed as not differentiable.

use flambeau_nn_functional as _;
use flambeau_test_rows::{self as rows, Exceptions};
use flambeau_test_support::part;
use std::path::Path;

#[test]
fn every_row_has_its_gradient() {
    let part = part!(rows::PARTS);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops");
    let exceptions = Exceptions {
        constant: &["_dropout_mask", "_rrelu_slopes"],
        refused: &[
            "embedding_renorm_",
            "_cross_entropy_backward",
            "native_batch_norm_backward",
            "native_layer_norm_backward",
            "_fused_rms_norm_backward",
            "native_group_norm_backward",
            "_ctc_loss_backward",
        ],
        // of log-probabilities: the gradient is that of a softmax before them
        defined: &["_ctc_loss", "ctc_loss", "ctc_loss.lengths"],
        // the mask is drawn in the order of memory, as in PyTorch
        memory: &[
            "alpha_dropout",
            "alpha_dropout_",
            "alpha_dropout.training",
            "dropout",
            "dropout_",
            "dropout.training",
            "native_dropout",
        ],
        // as in PyTorch: the gradient is no function of the saved likelihoods
        no_forward: &["_ctc_loss", "ctc_loss", "ctc_loss.lengths"],
        ..Exceptions::default()
    };
    rows::walk("flambeau-nn-functional", &dir, &exceptions, part);
}
