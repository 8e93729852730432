//! Initial values and forward results against literal values of PyTorch.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{DType, Device, Tensor};
use flambeau_nn as nn;
use flambeau_nn::init;
use flambeau_nn::prelude::*;
use flambeau_test_support::alone;

fn same(t: &Tensor, want: &[f32]) {
    assert_eq!(t.to_vec::<f32>(), want);
}
fn close(t: &Tensor, want: &[f32]) {
    for (a, b) in t.to_vec::<f32>().iter().zip(want) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn layers_start_as_in_pytorch() {
    alone!();
    manual_seed(7);
    let m = nn::Sequential::new((nn::Conv2d::new(1, 2, 2), nn::BatchNorm2d::new(2), nn::Linear::new(3, 2)));
    let s = m.state_dict();
    let want: [(&str, &[f32]); 9] = [
        (
            "0.weight",
            &[
                0.0349225402,
                -0.301196814,
                0.159211695,
                0.156890273,
                -0.267238438,
                -0.0749385953,
                -0.292913973,
                0.129736364,
            ],
        ),
        ("0.bias", &[-0.134683847, 0.351268351]),
        ("1.weight", &[1.0, 1.0]),
        ("1.bias", &[0.0, 0.0]),
        ("1.running_mean", &[0.0, 0.0]),
        ("1.running_var", &[1.0, 1.0]),
        ("1.num_batches_tracked", &[0.0]),
        ("2.weight", &[0.409853041, 0.058814913, -0.246137112, -0.339113146, -0.0634044036, -0.162482589]),
        ("2.bias", &[0.254473388, -0.492997169]),
    ];
    assert_eq!(s.keys().collect::<Vec<_>>(), want.map(|(n, _)| n));
    for (name, values) in want {
        same(s.get(name).unwrap(), values);
    }
    assert_eq!((s.version(""), s.version("1"), s.version("2")), (Some(1), Some(2), Some(1)));
    manual_seed(3);
    let e = nn::EmbeddingOptions::new(3, 2).padding_idx(1).build();
    same(&e.weight, &[0.803276062, 0.174833387, 0.0, 0.0, 0.0461824499, -1.36825919]);
}

#[test]
fn fills_draw_pytorchs_streams() {
    alone!();
    let fresh = |f: &dyn Fn(&Tensor)| {
        manual_seed(11);
        let t = Tensor::empty_raw(&[3, 5], DType::F32, Device::Cpu).unwrap();
        f(&t);
        t
    };
    let t = fresh(&|t| {
        init::uniform_(t, -1, 2.0);
    });
    same(
        &t,
        &[
            -0.552874863,
            0.459659398,
            1.95698452,
            -0.49479574,
            0.75183028,
            1.08079743,
            0.749254644,
            -0.614686728,
            0.7163679,
            1.77451825,
            -0.19198668,
            1.34737062,
            -0.184337199,
            0.389695406,
            1.30139256,
        ],
    );
    let t = fresh(&|t| {
        init::normal_(t, 1, 0.5);
    });
    close(&t, &[1.36881471, 1.97296453, 0.650229216, 0.348851323, 0.743368924, 0.865190208]);
    let t = fresh(&|t| {
        init::xavier_uniform_with(t, init::XavierOptions::new().gain(2));
    });
    close(&t, &[-1.21575511, -0.046581313, 1.6823808, -1.14869118]);
    let t = fresh(&|t| {
        init::kaiming_uniform_with(t, init::KaimingOptions::new().nonlinearity("relu").mode("fan_out"));
    });
    close(&t, &[-0.992659926, -0.0380334854, 1.37365818, -0.937902391]);
    let t = fresh(&|t| {
        init::kaiming_normal_(t);
    });
    close(&t, &[0.466517836, 1.23071361, -0.442428946]);
    let t = fresh(&|t| {
        init::trunc_normal_with(t, init::TruncNormalOptions::new().a(-1).b(1));
    });
    close(
        &t,
        &[
            0.737629473,
            0.38340649,
            -0.699541628,
            0.892881513,
            -0.513262212,
            -0.269619554,
            0.246184662,
            0.483925283,
            0.450417787,
            -0.956833422,
            0.369866163,
            -0.313573658,
            -0.234284386,
            0.202949926,
            0.164798439,
        ],
    );
    let t = fresh(&|t| {
        init::trunc_normal_with(t, init::TruncNormalOptions::new().a(2.0).b(3.0));
    });
    close(
        &t,
        &[
            2.14904165, 2.48655319, 2.24380445, 2.45378709, 2.48407769, 2.07625246, 2.12839794, 2.19441891,
            2.42555141, 2.59385657, 2.26933765, 2.01593804, 2.27188754, 2.4632318, 2.22387099,
        ],
    );
    let t = fresh(&|t| {
        init::orthogonal_with(t, init::OrthogonalOptions::new().gain(1.5));
    });
    close(
        &t,
        &[
            0.424942553,
            1.12103462,
            -0.403000534,
            -0.750243366,
            -0.295686364,
            -0.311550945,
            0.357691228,
            0.576638699,
            0.518509269,
            -1.1931591,
            1.13468802,
            -0.67676878,
            0.361436307,
            -0.3712309,
            -0.485816449,
        ],
    );
    let t = fresh(&|t| {
        init::sparse_(t, 0.4);
    });
    close(
        &t,
        &[
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            -0.00269619562,
            0.0,
            0.0,
            0.0,
            -0.00956833456,
            0.0,
            -0.0031357368,
            -0.00234284392,
            -0.0107130921,
            0.0,
        ],
    );
    let w = Tensor::empty_raw(&[2, 3, 3], DType::F32, Device::Cpu).unwrap();
    init::dirac_(&w);
    let mut want = [0.0; 18];
    (want[1], want[13]) = (1.0, 1.0);
    same(&w, &want);
    assert!(init::try_eye_(&w).is_err());
}
