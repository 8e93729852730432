//! What this crate brings to other crates' operators.

use crate::generated as g;
use crate::ops;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::types::keys::Key::QuantizedCpu;

static REG: CrateReg = CrateReg {
    name: "flambeau-quantization kernels",
    // comparisons of tensors call it
    ops: flambeau_core::by_name!(else &[&g::conversion::DEQUANTIZE]),
    fills: &[install],
};
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn install() {
    crate::kernels::fill();
    // rows of this crate whose functions take either kind of tensor
    g::conversion::DEQUANTIZE.register(QuantizedCpu, ops::conversion::dequantize);
    g::conversion::DEQUANTIZE_ALL.register(QuantizedCpu, ops::conversion::dequantize_all);
    g::conversion::INT_REPR.register(QuantizedCpu, ops::conversion::int_repr);
    g::parameters::Q_SCALE.register(QuantizedCpu, ops::parameters::q_scale);
    g::parameters::Q_ZERO_POINT.register(QuantizedCpu, ops::parameters::q_zero_point);
    g::parameters::Q_PER_CHANNEL_SCALES.register(QuantizedCpu, ops::parameters::q_per_channel_scales);
    g::parameters::Q_PER_CHANNEL_ZERO_POINTS
        .register(QuantizedCpu, ops::parameters::q_per_channel_zero_points);
    g::parameters::Q_PER_CHANNEL_AXIS.register(QuantizedCpu, ops::parameters::q_per_channel_axis);
    g::window::QUANTIZED_MAX_POOL1D.register(QuantizedCpu, ops::window::quantized_max_pool1d);
    g::window::QUANTIZED_MAX_POOL2D.register(QuantizedCpu, ops::window::quantized_max_pool2d);
    g::window::QUANTIZED_BATCH_NORM.register(QuantizedCpu, ops::window::quantized_batch_norm);
}
