//! Every row of core's operator table has a checked gradient, or is listed as not differentiable.

mod rows;

use rows::Exceptions;
use std::path::Path;

#[test]
fn every_row_has_its_gradient() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flambeau-core/ops");
    let exceptions = Exceptions {
        constant: &[
            "detach",
            "detach_copy",
            "view.dtype",
            "view_copy.dtype",
            "linspace.Tensor_Tensor",
            "linspace.Scalar_Tensor",
            "linspace.Tensor_Scalar",
            "logspace.Tensor_Tensor",
            "logspace.Scalar_Tensor",
            "logspace.Tensor_Scalar",
            "empty_like",
            "zeros_like",
            "ones_like",
            "full_like",
            "rand_like",
            "randn_like",
            "randint_like",
            "randint_like.low_dtype",
            "new_empty",
            "new_empty_strided",
            "new_zeros",
            "new_ones",
            "new_full",
            "histc",
            "special_scaled_modified_bessel_k0",
            "special_scaled_modified_bessel_k1",
            "special_spherical_bessel_j0",
            "special_airy_ai",
            "special_chebyshev_polynomial_t",
            "special_chebyshev_polynomial_u",
            "special_chebyshev_polynomial_v",
            "special_chebyshev_polynomial_w",
            "special_shifted_chebyshev_polynomial_t",
            "special_shifted_chebyshev_polynomial_u",
            "special_shifted_chebyshev_polynomial_v",
            "special_shifted_chebyshev_polynomial_w",
            "special_hermite_polynomial_h",
            "special_hermite_polynomial_he",
            "special_laguerre_polynomial_l",
            "special_legendre_polynomial_p",
        ],
        refused: &[
            "floor_divide",
            "floor_divide_",
            "heaviside",
            "heaviside_",
            "scatter.reduce",
            "scatter_.reduce",
            "scatter.value_reduce",
            "scatter_.value_reduce",
            "bernoulli.p",
            "binomial",
            "bincount",
            "_unique2",
            "unique_dim",
            "unique_consecutive",
            "_standard_gamma_grad",
            "_sample_dirichlet",
            "_dirichlet_grad",
            "histogram.bins_tensor",
            "histogram.bin_ct",
            "histogramdd",
            "histogramdd.TensorList_bins",
            "histogramdd.int_bins",
        ],
        zero: &["normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"],
        defined: &[
            "as_strided_scatter",
            "_standard_gamma",
            "fake_quantize_per_tensor_affine_cachemask",
            "fake_quantize_per_tensor_affine",
            "fake_quantize_per_tensor_affine.tensor_qparams",
            "fake_quantize_per_channel_affine_cachemask",
            "fake_quantize_per_channel_affine",
        ],
        memory: &[
            "as_strided",
            "as_strided_copy",
            "as_strided_scatter",
            "view_as_complex_copy",
            "view",
            "view_as_complex",
        ],
        ..Exceptions::default()
    };
    rows::walk("flambeau-core", &dir, &exceptions);
}
