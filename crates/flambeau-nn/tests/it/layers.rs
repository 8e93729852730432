//! Layers beyond the common ones: transposed convolutions, unpooling, CTC, adaptive softmax, printing, errors,
//! initialisation by name.

use crate::{close, full, ints, randn};
use flambeau_core::{DType, Tensor, Value, ops};
use flambeau_library as library;
use flambeau_library::object;
use flambeau_nn as nn;
use nn::prelude::*;

#[test]
fn transposed_convolutions_and_unpooling_give_the_wanted_size() {
    let x = randn(&[1, 2, 6]);
    let up = nn::ConvTranspose1dOptions::new(2, 2, 3).stride(2).padding(1).build();
    for n in [11, 12] {
        assert_eq!(up.try_forward_to(&x, Some(&[n])).unwrap().sizes(), [1, 2, n]);
        assert_eq!(up.try_forward_to(&x, Some(&[1, 2, n])).unwrap().sizes(), [1, 2, n]);
    }
    let e = up.try_forward_to(&x, Some(&[13])).unwrap_err();
    assert_eq!(
        e.to_string(),
        "requested an output size of [13], but valid sizes range from [11] to [12] (for an input of torch.Size([6]))"
    );
    let e = nn::ConvTranspose2dOptions::new(1, 1, 3).padding_mode("reflect").try_build().unwrap_err();
    assert_eq!(e.to_string(), "Only \"zeros\" padding mode is supported for ConvTranspose2d");

    let x = randn(&[1, 2, 5, 5]);
    let (values, at) = nn::MaxPool2d::new(2).try_forward_with_indices(&x).unwrap();
    let back = nn::MaxUnpool2d::new(2).try_forward_to(&values, &at, Some(&[5, 5])).unwrap();
    assert_eq!(back.sizes(), x.sizes());
    close(&nn::MaxPool2d::new(2).forward(&back.clamp_min(0.0)), &values.clamp_min(0.0));
    // windows at random places: the maxima are where the indices say
    let pool = nn::FractionalMaxPool2dOptions::new(2).output_ratio([0.5, 0.7]).build();
    let (values, at) = pool.try_forward_with_indices(&x).unwrap();
    assert_eq!(values.sizes(), [1, 2, 2, 3]);
    let flat = |t: &Tensor| ops::flatten(t, 2, 3).unwrap();
    close(&ops::gather(&flat(&x), 2, &flat(&at), false).unwrap(), &flat(&values));
}

#[test]
fn ctc_counts_the_ways_to_a_target() {
    // three steps, classes blank, a: all alignments of "a" have probability 1/8; there are 6 of them
    let p = full(&[3, 1, 2], 0.5).log();
    let none = nn::CTCLossOptions::new().reduction("none").build();
    let loss = none.forward(&p, &ints(&[1], &[1, 1]), &[3], &[1]);
    close(&loss, &Tensor::from_slice(&[-(6.0f32 / 8.0).ln()], [1]));
    // a target that does not fit
    let far = none.forward(&p, &ints(&[1, 1, 1], &[3]), &[3], &[3]);
    assert_eq!(far.to_vec::<f32>(), [f32::INFINITY]);
    let zero = nn::CTCLossOptions::new().zero_infinity(true).build();
    let q = p.clone().requires_grad_(true);
    let loss = zero.forward(&q, &ints(&[1, 1, 1], &[1, 3]), &[3], &[3]);
    loss.backward();
    assert_eq!(loss.item::<f32>(), 0.0);
    assert_eq!(q.grad().unwrap().to_vec::<f32>(), [0.0; 6]);
    // through a softmax, the gradient is the slope
    let x = randn(&[5, 2, 4]).to(DType::F64).requires_grad_(true);
    let f = |x: &Tensor| {
        let p = ops::log_softmax(x, 2, None).unwrap();
        nn::CTCLoss::new().forward(&p, &ints(&[1, 2, 3, 3], &[2, 2]), &[5, 4], &[2, 2])
    };
    f(&x).backward();
    let (grad, values): (Vec<f64>, Vec<f64>) = (x.grad().unwrap().to_vec(), x.detach().to_vec());
    for i in [0, 7, 13, 30, 39] {
        let at = |d: f64| {
            let mut v = values.clone();
            v[i] += d;
            f(&Tensor::from_slice(&v, [5, 2, 4])).item::<f64>()
        };
        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((slope - grad[i]).abs() < 1e-7, "{slope} and {}", grad[i]);
    }
    for (target, input, wanted, text) in [
        (ints(&[1, 2], &[2]), &[3i64][..], &[2i64, 1][..], "target_lengths must be of size batch_size"),
        (
            ints(&[1], &[1, 1]),
            &[4][..],
            &[1][..],
            "Expected input_lengths to have value at most 3, but got value 4",
        ),
        (ints(&[1], &[1, 1]), &[3][..], &[2][..], "Expected tensor to have size at least 2 at dimension 1"),
        (ints(&[7], &[1, 1]), &[3][..], &[1][..], "target 7 is out of bounds for 2 classes"),
    ] {
        let e = none.try_forward(&p, &target, input, wanted).unwrap_err();
        assert!(e.to_string().contains(text), "{e}");
    }
}

#[test]
fn adaptive_softmax_is_a_distribution() {
    let m = nn::AdaptiveLogSoftmaxWithLossOptions::new(8, 20, [4, 10, 15]).div_value(2.0).build();
    let x = randn(&[6, 8]);
    let all = m.log_prob(&x);
    assert_eq!(all.sizes(), [6, 20]);
    close(&ops::sum(&all.exp(), Some(&[1]), false, None).unwrap(), &full(&[6], 1.0));
    let target = ints(&[0, 3, 4, 12, 19, 15], &[6]);
    let (output, loss) = m.forward(&x, &target);
    let wanted = ops::gather(&all, 1, &ops::unsqueeze(&target, 1).unwrap(), false).unwrap();
    close(&output, &ops::squeeze_dim(&wanted, 1).unwrap());
    close(&loss, &ops::neg(&ops::mean(&output, None, false, None).unwrap()).unwrap());
    let best = m.predict(&x);
    assert_eq!(best.to_vec::<i64>(), ops::argmax(&all, Some(1), false).unwrap().to_vec::<i64>());
    let e = m.try_forward(&x, &ints(&[0, 3, 4, 12, 20, 15], &[6])).unwrap_err();
    assert_eq!(e.to_string(), "Target values should be in [0, 19], but values in range [0, 20] were found. ");
}

#[test]
fn bags_are_sums_of_rows() {
    let bag = nn::EmbeddingBagOptions::new(5, 2).mode("sum").padding_idx(0).build();
    assert_eq!(bag.weight.to_vec::<f32>()[..2], [0.0, 0.0]);
    let flat = bag.try_forward(&ints(&[1, 2, 0, 4], &[4]), Some(&ints(&[0, 1, 4], &[3])), None).unwrap();
    let row = |i: i64| ops::select(&bag.weight, 0, i).unwrap();
    let rows = [row(1), &row(2) + &row(4), full(&[2], 0.0)];
    close(&flat, &ops::stack(&rows, 0).unwrap());
    assert_eq!(bag.to_string(), "EmbeddingBag(5, 2, mode='sum', padding_idx=0)");
    let fixed = nn::EmbeddingBag::from_pretrained(&full(&[3, 2], 1.0), true);
    assert!(!fixed.unwrap().weight.requires_grad());
    assert_eq!(
        nn::EmbeddingBagOptions::new(3, 2).padding_idx(5).try_build().unwrap_err().to_string(),
        "padding_idx must be within num_embeddings"
    );
}

#[test]
fn they_print_as_in_pytorch() {
    let cases: Vec<(Box<dyn Module>, &str)> = vec![
        (
            Box::new(nn::LPPool2d::new(2, (3, 2))),
            "LPPool2d(norm_type=2, kernel_size=(3, 2), stride=None, ceil_mode=False)",
        ),
        (
            Box::new(nn::UpsampleOptions::new().scale_factor((2.0, 1.5)).build()),
            "Upsample(scale_factor=(2.0, 1.5), mode='nearest')",
        ),
        (Box::new(nn::UpsampleOptions::new().size((2, 3)).build()), "Upsample(size=(2, 3), mode='nearest')"),
        (
            Box::new(nn::UpsamplingBilinear2dOptions::new().scale_factor(2).build()),
            "UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')",
        ),
        (
            Box::new(
                nn::ConvTranspose1dOptions::new(2, 4, 3)
                    .stride(2)
                    .padding(1)
                    .output_padding(1)
                    .dilation(2)
                    .build(),
            ),
            "ConvTranspose1d(2, 4, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), output_padding=(1,))",
        ),
        (Box::new(nn::ConstantPad2d::new(1, 3.5)), "ConstantPad2d(padding=(1, 1, 1, 1), value=3.5)"),
        (Box::new(nn::ZeroPad1d::new((1, 2))), "ZeroPad1d((1, 2))"),
        (Box::new(nn::MaxUnpool1d::new(3)), "MaxUnpool1d(kernel_size=(3,), stride=(3,), padding=(0,))"),
        (Box::new(nn::LocalResponseNorm::new(2)), "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"),
        (Box::new(nn::CrossMapLRN2d::new(3)), "CrossMapLRN2d(3, alpha=0.0001, beta=0.75, k=1)"),
        (
            Box::new(nn::HardtanhOptions::new().min_val(-2).max_val(2.0).build()),
            "Hardtanh(min_val=-2, max_val=2.0)",
        ),
        (
            Box::new(nn::EmbeddingOptions::new(3, 4).max_norm(1).norm_type(1).build()),
            "Embedding(3, 4, max_norm=1, norm_type=1)",
        ),
        (Box::new(nn::Softmax::new(1)), "Softmax(dim=1)"),
        (Box::new(nn::SoftmaxOptions::new().build()), "Softmax(dim=None)"),
        (Box::new(nn::RReLU::new()), "RReLU(lower=0.125, upper=0.3333333333333333)"),
        (
            Box::new(nn::LazyBatchNorm1dOptions::new().affine(false).build()),
            "LazyBatchNorm1d(0, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)",
        ),
        (
            Box::new(nn::SyncBatchNorm::new(4)),
            "SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        ),
        (
            Box::new(nn::TripletMarginWithDistanceLoss::new()),
            "TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)",
        ),
        (
            Box::new(nn::AdaptiveLogSoftmaxWithLoss::new(6, 10, [3])),
            "AdaptiveLogSoftmaxWithLoss(\n  (head): Linear(in_features=6, out_features=4, bias=False)\n  (tail): ModuleList(\n    \
             (0): Sequential(\n      (0): Linear(in_features=6, out_features=1, bias=False)\n      (1): \
             Linear(in_features=1, out_features=7, bias=False)\n    )\n  )\n)",
        ),
    ];
    for (m, text) in cases {
        assert_eq!(m.repr(), text);
    }
}

fn by_name(path: &str, args: &[Value]) -> String {
    object::construct(path, args, &[]).map(|o| o.repr()).unwrap_or_else(|e| e.to_string())
}

#[test]
fn constructors_say_what_is_wrong() {
    assert_eq!(
        by_name("torch.nn.Softmax", &[Value::Bool(true)]),
        "dim must be an int or None, got <class 'bool'>"
    );
    assert_eq!(
        by_name("torch.nn.LPPool1d", &[Value::Int(0), Value::Int(2)]),
        "norm_type must be a non-zero value, but got 0"
    );
    let size = Value::Int(2);
    assert_eq!(
        by_name("torch.nn.FractionalMaxPool2d", std::slice::from_ref(&size)),
        "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio"
    );
    let e = nn::FractionalMaxPool3dOptions::new((0, 1, 2)).output_size(2).try_build().unwrap_err();
    assert_eq!(e.to_string(), "kernel_size must be greater than 0, but got (0, 1, 2)");
    let e = nn::TripletMarginWithDistanceLossOptions::new().margin(0).try_build().unwrap_err();
    assert_eq!(
        e.to_string(),
        "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got 0 instead"
    );
    let x = Value::Tensor(randn(&[2, 2]));
    let pad = object::construct("torch.nn.MaxUnpool1d", &[size], &[]).unwrap();
    assert_eq!(
        pad.call(std::slice::from_ref(&x), &[]).unwrap_err().to_string(),
        "MaxUnpool1d.forward() missing 1 required positional argument: 'indices'"
    );
    let unknown = [("hat".to_owned(), x.clone())];
    assert_eq!(
        pad.call(&[x.clone(), x], &unknown).unwrap_err().to_string(),
        "MaxUnpool1d.forward() got an unexpected keyword argument 'hat'"
    );
}

#[test]
fn instance_norm_normalises_each_row() {
    let x = randn(&[2, 3, 40]);
    let m = nn::InstanceNorm1dOptions::new(3).affine(true).track_running_stats(true).build();
    let y = m.forward(&x);
    close(&ops::mean(&y, Some(&[2]), false, None).unwrap(), &full(&[2, 3], 0.0));
    assert!(m.running_mean.as_ref().unwrap().to_vec::<f32>().iter().any(|v| *v != 0.0));
    close(&m.forward(&ops::select(&x, 0, 0).unwrap()), &ops::select(&y, 0, 0).unwrap());
    let e = m.try_forward(&randn(&[2, 4, 5])).unwrap_err();
    assert_eq!(e.to_string(), "expected input's size at dim=1 to match num_features (3), but got: 4.");
}

#[test]
fn initialisation_by_name() {
    let t = Value::Tensor(full(&[6, 4], 1.0));
    let call = |name: &str, args: &[Value]| library::call(&format!("torch.nn.init.{name}"), args, &[]);
    call("orthogonal_", &[t.clone(), Value::Float(2.0)]).unwrap();
    let Value::Tensor(q) = &t else { unreachable!() };
    let gram = ops::matmul(&ops::t(q).unwrap(), q).unwrap();
    let mut wanted = vec![0.0f32; 16];
    (0..4).for_each(|i| wanted[5 * i] = 4.0);
    close(&gram, &Tensor::from_slice(&wanted, [4, 4]));
    call("sparse_", &[t.clone(), Value::Float(0.5)]).unwrap();
    let zeros = q.to_vec::<f32>().iter().filter(|v| **v == 0.0).count();
    assert_eq!(zeros, 12);
    assert_eq!(
        call("sparse_", std::slice::from_ref(&t)).unwrap_err().to_string(),
        "sparse_() missing 1 required positional argument: 'sparsity'"
    );
    let gain = call("calculate_gain", &[Value::Str("tanh".into())]).unwrap();
    assert!(matches!(gain[0], Value::Float(g) if g == 5.0 / 3.0));
    let e = call("calculate_gain", &[Value::Str("leaky_relu".into()), Value::Bool(true)]).unwrap_err();
    assert_eq!(e.to_string(), "negative_slope True not a valid number");
}

#[test]
fn a_distance_of_ones_own() {
    let e = nn::TripletMarginWithDistanceLossOptions::new()
        .distance_function(nn::Distance::new(|a, b| (a - b).abs().sum()))
        .margin(3.0)
        .swap(true)
        .build();
    let t = |v: f32| Tensor::from_slice(&[v], [1]);
    // the positive is nearer to the negative than the anchor is
    assert_eq!(e.forward(&t(0.0), &t(1.0), &t(2.0)).item::<f32>(), 3.0);
    let by_module = nn::TripletMarginWithDistanceLoss::new();
    assert_eq!(by_module.children().len(), 1);
}
