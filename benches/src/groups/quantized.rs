//! Linear maps of one input, of numbers and of integers: what a model serves one request with.

use crate::input::fill;
use crate::row::Rows;
use torch::ao::quantization::{
    Mapping, convert_, get_default_qconfig, prepare_, quantize_dynamic_, set_qconfig,
};
use torch::nn;
use torch::prelude::*;

const INPUTS: i64 = 1024;
const OUTPUTS: i64 = 4096;

/// A layer with numbers that are the same in every implementation.
fn layer() -> nn::Sequential {
    let l = nn::Linear::new(INPUTS, OUTPUTS);
    torch::no_grad(|| {
        l.weight.copy_(&(fill([OUTPUTS, INPUTS], 2) / 32.0));
        if let Some(b) = &l.bias {
            b.copy_(&fill([OUTPUTS], 3));
        }
    });
    let m = nn::Sequential::new((l,));
    m.eval();
    m
}
fn served(m: nn::Sequential, x: Tensor) -> impl FnMut() -> Tensor {
    move || m.call(&x)
}
fn dynamic() -> nn::Sequential {
    let mut m = layer();
    quantize_dynamic_(&mut m, None, torch::DType::QI8);
    m
}

pub fn rows(r: &mut Rows) {
    for batch in [1, 16] {
        let x = move || fill([batch, INPUTS], 1);
        r.add(format!("quantized/linear_f32_b{batch}"), move || served(layer(), x())).no_grad();
        r.add(format!("quantized/linear_dynamic_b{batch}"), move || served(dynamic(), x())).no_grad();
        r.add(format!("quantized/linear_static_b{batch}"), move || {
            let mut m = layer();
            set_qconfig(&m, Some(get_default_qconfig("x86")));
            prepare_(&mut m);
            torch::no_grad(|| m.call(&x()));
            convert_(&mut m, Mapping::Static);
            served(m, torch::quantize_per_tensor(&x(), 1.0 / 64.0, 64, torch::DType::QU8))
        })
        .no_grad()
        .no_check();
    }
}
