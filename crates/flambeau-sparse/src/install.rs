//! What this crate brings to other crates' operators.

use crate::generated as g;
use crate::ops;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::types::keys::Key::SparseCpu;

static REG: CrateReg = CrateReg {
    name: "flambeau-sparse kernels",
    // gradients of core's operators make sparse tensors
    ops: flambeau_core::by_name!(else &[&g::parts::SPARSE_COO_TENSOR_UNSAFE]),
    fills: &[install],
};
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn install() {
    crate::kernels::fill();
    // rows of this crate whose functions take either kind of tensor
    g::parts::ELEMENTS_AT.register(SparseCpu, ops::parts::elements_at);
    g::parts::INDICES_UNCHECKED.register(SparseCpu, ops::parts::indices_unchecked);
    g::parts::VALUES_UNCHECKED.register(SparseCpu, ops::parts::values_unchecked);
    g::parts::INDICES.register(SparseCpu, ops::parts::indices);
    g::parts::VALUES.register(SparseCpu, ops::parts::values);
    g::parts::CROW_INDICES.register(SparseCpu, ops::parts::crow_indices);
    g::parts::COL_INDICES.register(SparseCpu, ops::parts::col_indices);
    g::parts::CCOL_INDICES.register(SparseCpu, ops::parts::ccol_indices);
    g::parts::ROW_INDICES.register(SparseCpu, ops::parts::row_indices);
    g::parts::NNZ.register(SparseCpu, ops::parts::nnz);
    g::parts::IS_COALESCED.register(SparseCpu, ops::parts::is_coalesced);
    g::parts::SPARSE_DIM.register(SparseCpu, ops::parts::sparse_dim);
    g::parts::DENSE_DIM.register(SparseCpu, ops::parts::dense_dim);
    g::parts::COALESCED_COPY.register(SparseCpu, ops::parts::coalesced_copy);
    g::convert::DENSE_COPY.register(SparseCpu, ops::convert::dense_copy);
    g::convert::SPARSE_COPY.register(SparseCpu, ops::convert::sparse_copy);
    g::convert::SPARSE_COPY_DIM.register(SparseCpu, ops::convert::sparse_copy_dim);
    g::convert::SPARSE_MASK.register(SparseCpu, ops::convert::sparse_mask);
}
