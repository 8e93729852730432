//! Layers of integers beside the same sums of numbers.

use flambeau_core::{DType, MemoryFormat, Tensor, ops};
use flambeau_nn::Forward as _;
use flambeau_nn_functional::ops as nn;
use flambeau_quantization::TensorQuantizationExt as _;
use flambeau_quantization::nn::conv::{Conv, ConvShape};
use flambeau_quantization::nn::float_functional::Functional;
use flambeau_quantization::nn::recurrent::{Recurrent, RecurrentShape, Step};
use flambeau_quantization::ops as q;

fn pattern(sizes: &[i64], step: i64) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| (i * step % 23) as f32 / 8.0 - 1.25).collect(), sizes)
}
/// The same numbers with the channels last in memory.
fn last(x: &Tensor) -> Tensor {
    let n = x.dim() as i64;
    let moved = ops::contiguous(&ops::movedim(x, &[1], &[n - 1]).unwrap(), MemoryFormat::Contiguous).unwrap();
    ops::movedim(&moved, &[n - 1], &[1]).unwrap()
}
/// A convolution of integers and the sums of the numbers that they stand for, by the same rule: scales are powers of two, so that
/// float32 sums are exact.
fn compared(input: &[i64], channels: i64, kernel: &[i64], o: [&[i64]; 3], groups: i64) {
    let shape = ConvShape {
        in_channels: input[1],
        out_channels: channels,
        kernel_size: kernel.to_vec(),
        stride: o[0].to_vec(),
        padding: o[1].to_vec(),
        dilation: o[2].to_vec(),
        groups,
        output_padding: vec![0; kernel.len()],
        transposed: false,
    };
    let conv = Conv::new(shape, true, false).unwrap();
    let mut sizes = vec![channels, input[1] / groups];
    sizes.extend(kernel);
    let w = q::quantize_per_tensor(&pattern(&sizes, 7), 0.125, 0, DType::QI8).unwrap();
    let b = pattern(&[channels], 5);
    conv.set_weight_bias(&w, Some(&b));
    conv.set_rule(0.25, 60);
    for x in [pattern(input, 3), last(&pattern(input, 11))] {
        let x = q::quantize_per_tensor(&x, 0.125, 9, DType::QU8).unwrap();
        let (xs, ws) = (q::dequantize(&x).unwrap(), q::dequantize(&w).unwrap());
        let none = vec![0; kernel.len()];
        let want = nn::convolution(&xs, &ws, Some(&b), o[0], o[1], o[2], false, &none, groups).unwrap();
        let want = q::quantize_per_tensor(&want, 0.25, 60, DType::QU8).unwrap();
        let got = conv.try_forward(&x).unwrap();
        assert!(ops::equal(&got, &want).unwrap(), "{input:?} {kernel:?} {o:?} {groups}");
    }
}
#[test]
fn convolutions_are_the_sums_of_what_integers_stand_for() {
    let one: &[i64] = &[1, 1];
    compared(&[2, 3, 6, 5], 4, &[3, 3], [one, &[1, 1], one], 1);
    compared(&[3, 4, 7, 6], 6, &[3, 2], [&[2, 1], &[2, 0], &[1, 2]], 2);
    // rows that lie there already
    compared(&[2, 8, 3, 4], 5, &[1, 1], [one, &[0, 0], one], 1);
    // each channel by itself, and borders wider than the image
    compared(&[1, 4, 2, 2], 4, &[3, 3], [one, &[3, 3], one], 4);
    compared(&[2, 2, 9], 3, &[4], [&[2], &[1], &[2]], 1);
    compared(&[1, 2, 3, 4, 5], 2, &[2, 3, 2], [&[1, 2, 1], &[1, 1, 0], &[1, 1, 1]], 1);
    // many images in one product
    compared(&[40, 3, 9, 9], 2, &[3, 3], [one, &[1, 1], one], 1);
}
#[test]
fn dynamic_convolutions_round_by_the_rule_of_their_input() {
    let shape = ConvShape {
        in_channels: 2,
        out_channels: 3,
        kernel_size: vec![3, 3],
        stride: vec![1, 1],
        padding: vec![0, 0],
        dilation: vec![1, 1],
        groups: 1,
        output_padding: vec![0, 0],
        transposed: false,
    };
    let w = q::quantize_per_tensor(&pattern(&[3, 2, 3, 3], 7), 0.125, 0, DType::QI8).unwrap();
    let x = pattern(&[1, 2, 5, 5], 3);
    let (fixed, conv) =
        (Conv::new(shape.clone(), true, false).unwrap(), Conv::new(shape, true, false).unwrap());
    let conv = conv.into_dynamic();
    assert_eq!(
        flambeau_nn::Module::repr(&conv),
        "DynamicQuantizedConv2d(2, 3, kernel_size=(3, 3), stride=(1, 1), scale=1.0, zero_point=0)"
    );
    for reduce_range in [true, false] {
        let xq = q::quantize_per_tensor_dynamic(&x, DType::QU8, reduce_range).unwrap();
        let rule = (q::q_scale(&xq).unwrap(), q::q_zero_point(&xq).unwrap());
        for c in [&fixed, &conv] {
            c.set_weight_bias(&w, None);
        }
        fixed.set_rule(rule.0, rule.1);
        let want = q::dequantize(&fixed.try_forward(&xq).unwrap()).unwrap();
        assert!(ops::equal(&conv.of_numbers(&x, reduce_range).unwrap(), &want).unwrap());
    }
}
#[test]
fn cells_of_their_own_draw_what_pytorch_draws() {
    flambeau_test_support::alone!();
    flambeau_core::tensor::generator::manual_seed(0);
    let shape = RecurrentShape {
        class: "RNNCell",
        step: Step::Relu,
        input: 3,
        hidden: 4,
        layers: 1,
        bias: true,
        batch_first: false,
        bidirectional: false,
        text: "3, 4, nonlinearity=relu".into(),
    };
    let cell = Recurrent::new(shape, DType::QI8).unwrap();
    let all = cell.weights();
    assert_eq!(all[0].0, "weight_ih");
    // PyTorch 2.15 after manual_seed(0)
    assert_eq!(all[0].1.int_repr().to_vec::<i8>(), [-1, 0, -1, 0, -1, 1, -1, 0, -1, 0, -1, -2]);
    assert_eq!(all[1].1.int_repr().to_vec::<i8>(), [0, -1, 1, 0, 0, -1, 1, 0, 1, 0, -1, 0, -1, 0, -2, 2]);
    let x = pattern(&[2, 3], 5);
    assert_eq!(cell.try_forward(&x, None, None).unwrap()[0].sizes(), [2, 4]);
}
#[test]
fn recurrent_layers_check_as_pytorch_does() {
    let made = |class, step| {
        let text = "4, 3".into();
        let (bias, batch_first, bidirectional) = (true, false, false);
        let shape = RecurrentShape {
            class,
            step,
            input: 4,
            hidden: 3,
            layers: 1,
            bias,
            batch_first,
            bidirectional,
            text,
        };
        Recurrent::new(shape, DType::QI8).unwrap()
    };
    let refused = |m: &Recurrent, x: &[i64], h: Option<&[i64]>| {
        let h = h.map(|h| pattern(h, 1));
        m.try_forward(&pattern(x, 5), h.as_ref(), None).unwrap_err().message().to_string()
    };
    let (lstm, gru) = (made("LSTM", Step::Lstm), made("GRU", Step::Gru));
    assert_eq!(
        refused(&lstm, &[5, 2, 6], None),
        "input.size(-1) must be equal to input_size. Expected 4, got 6"
    );
    assert_eq!(refused(&gru, &[0, 2, 4], None), "Expected sequence length to be larger than 0 in RNN");
    let h = Some(&[1, 3, 3][..]);
    assert_eq!(refused(&lstm, &[5, 2, 4], h), "Expected hidden[0] size (1, 2, 3), got [1, 3, 3]");
    assert_eq!(refused(&gru, &[5, 2, 4], h), "Expected hidden size (1, 2, 3), got [1, 3, 3]");
    let cell = made("GRUCell", Step::Gru);
    assert_eq!(refused(&cell, &[2, 6], None), "input has inconsistent input_size: got 6, expected 4");
    assert_eq!(
        refused(&cell, &[2, 4], Some(&[2, 5])),
        "hidden has inconsistent hidden_size: got 5, expected 3"
    );
    assert_eq!(
        refused(&cell, &[2, 4], Some(&[3, 3])),
        "Input batch size 2 doesn't match hidden batch size 3"
    );
}
#[test]
fn operators_as_modules_say_what_is_not_called() {
    use flambeau_nn::internal::Run as _;
    let m = Functional::of_graphs();
    assert_eq!(flambeau_nn::Module::type_name(&m), "FXFloatFunctional");
    let e = m.run(&[]).unwrap_err();
    assert_eq!(
        e.message(),
        "FloatFunctional is not intended to use the 'forward'. Please use the underlying operation"
    );
    let y = m.add(&pattern(&[2], 1), &pattern(&[2], 1)).unwrap();
    assert_eq!(y.to_vec::<f32>(), [-2.5, -2.25]);
}
#[test]
fn learned_scales_and_zero_points_have_gradients() {
    use flambeau_core::ops;
    use flambeau_quantization::ops as q;
    let leaf = |v: &[f32], sizes: &[i64]| {
        let t = Tensor::from_vec(v.to_vec(), sizes);
        t.requires_grad_(true);
        t
    };
    let close = |t: &Tensor, want: &[f32]| {
        let got = t.to_vec::<f32>();
        assert!(
            got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4),
            "{got:?} {want:?}"
        );
    };
    let g = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let x = || leaf(&[-1.3, 0.04, 0.26, 9.0, 0.6, -0.4], &[2, 3]);
    // what PyTorch gives for the same
    let (a, s, z) = (x(), leaf(&[0.5], &[1]), leaf(&[1.2], &[1]));
    let y = q::_fake_quantize_learnable_per_tensor_affine(&a, &s, &z, 0, 7, 0.5).unwrap();
    close(&y, &[-0.5, 0.0, 0.5, 3.0, 0.5, -0.5]);
    ops::sum(&ops::mul(&y, &g).unwrap(), None, false, None).unwrap().backward();
    close(&a.grad().unwrap(), &[0.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    close(&s.grad().unwrap(), &[11.04]);
    close(&z.grad().unwrap(), &[-1.25]);
    let (a, s, z) = (x(), leaf(&[0.5, 0.25], &[2]), leaf(&[1.2, 2.7], &[2]));
    let y = q::_fake_quantize_learnable_per_channel_affine(&a, &s, &z, 0, 0, 7, 0.5).unwrap();
    close(&y, &[-0.5, 0.0, 0.5, 1.0, 0.5, -0.5]);
    ops::sum(&ops::mul(&y, &g).unwrap(), None, false, None).unwrap().backward();
    close(&a.grad().unwrap(), &[0.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    close(&s.grad().unwrap(), &[0.14, 5.8]);
    close(&z.grad().unwrap(), &[-0.25, -0.5]);
    for (zero, least) in [(0.5, 0.0), (0.51, -0.5), (1.5, -1.0), (2.5, -1.0), (-3.0, 0.0)] {
        let z = Tensor::from_vec(vec![zero], [1]);
        let y = q::_fake_quantize_learnable_per_tensor_affine(
            &a,
            &Tensor::from_vec(vec![0.5f32], [1]),
            &z,
            0,
            7,
            1.0,
        );
        assert_eq!(y.unwrap().to_vec::<f32>()[0], least, "{zero}");
    }
}
#[test]
fn layers_of_parts_compute_what_the_float_ones_do_and_are_quantized() {
    flambeau_test_support::alone!();
    use flambeau_nn as nn;
    use flambeau_quantization::nn::quantizable::{AttentionArgs, LSTM, MultiheadAttention};
    use flambeau_quantization::{flow, qconfig};
    let close = |a: &Tensor, b: &Tensor, by: f32| {
        let (a, b) = (a.to_vec::<f32>(), b.to_vec::<f32>());
        assert!(a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < by), "{a:?} {b:?}");
    };
    let numbers = |sizes: &[i64]| {
        let n: i64 = sizes.iter().product();
        Tensor::from_vec((0..n).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect(), sizes)
    };
    flambeau_core::tensor::generator::manual_seed(0);
    let x = numbers(&[5, 2, 4]);
    for (layers, both) in [(1, false), (2, true)] {
        let float = nn::LSTMOptions::new(4, 3).num_layers(layers).bidirectional(both).build();
        nn::Module::eval(&float);
        let (y, (h, c)) = float.call(&x, None);
        let mut m = LSTM::try_from_float(&float).unwrap();
        let (y2, (h2, c2)) = m.forward(&x, None);
        for (a, b) in [(&y, &y2), (&h, &h2), (&c, &c2)] {
            close(a, b, 1e-5);
        }
        flow::set_qconfig(&m, Some(qconfig::get_default_qconfig("x86")));
        flow::prepare_(&mut m);
        m.forward(&x, None);
        flow::convert_(&mut m, flow::Mapping::Static);
        assert!(m.is_quantized());
        let q = flambeau_quantization::ops::quantize_per_tensor(&x, 0.02, 64, DType::QU8).unwrap();
        let (y3, _) = m.forward(&q, None);
        close(&flambeau_quantization::ops::dequantize(&y3).unwrap(), &y, 0.1);
    }
    let o = nn::MultiheadAttentionOptions::new(4, 2);
    let float = o.build();
    nn::Module::eval(&float);
    let (y, w) = float.call(&x, &x, &x);
    let m = MultiheadAttention::try_from_float(&float).unwrap();
    let (y2, w2) = m.try_forward(&x, &x, &x, &AttentionArgs::default()).unwrap();
    close(&y, &y2, 1e-5);
    close(&w.unwrap(), &w2.unwrap(), 1e-5);
}
