//! Recurrent modules: what holds for all of them.

use flambeau_core::api::literal::tensor;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, ErrorKind, Tensor, functions as t, ops};
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::rnn::*;

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    for (a, b) in a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}
fn lstm() -> nn::LSTM {
    nn::LSTMOptions::new(3, 5).num_layers(2).bidirectional(true).proj_size(2).build()
}

#[test]
fn names_sizes_and_text() {
    let m = lstm();
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names[..5], ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]);
    assert_eq!(names[5], "weight_ih_l0_reverse");
    assert_eq!(names[19], "weight_hr_l1_reverse");
    assert_eq!(m.weights.get("weight_ih_l1").unwrap().sizes(), [20, 4]);
    assert_eq!(m.all_weights().iter().map(Vec::len).collect::<Vec<_>>(), [5; 4]);
    assert_eq!(m.to_string(), "LSTM(3, 5, proj_size=2, num_layers=2, bidirectional=True)");
    let r = nn::RNNOptions::new(3, 5).nonlinearity("relu").bias(false).build();
    assert_eq!(r.to_string(), "RNN(3, 5, bias=False)");
    assert_eq!(nn::GRU::new(3, 5).to_string(), "GRU(3, 5)");
    let c = nn::RNNCellOptions::new(3, 5).nonlinearity("relu").build();
    assert_eq!(c.to_string(), "RNNCell(3, 5, nonlinearity=relu)");
    let base = nn::RNNBase::new("GRU", 3, 5);
    assert_eq!((base.to_string(), base.all_weights().len()), ("RNNBase(3, 5)".to_owned(), 1));
    m.flatten_parameters();
}

/// A layer is its cell, step by step.
#[test]
fn layers_are_their_cells() {
    let x = t::randn([6, 2, 3]);
    let (m, cell) = (nn::LSTM::new(3, 4), nn::LSTMCell::new(3, 4));
    for (p, q) in m.parameters().iter().zip(cell.parameters()) {
        ops::copy_(&q.alias_detached(), p, false).unwrap();
    }
    let (mut h, mut c) = cell.forward(&x.select(0, 0), None);
    for step in 1..6 {
        (h, c) = cell.forward(&x.select(0, step), (&h, &c));
    }
    let (y, (hn, cn)) = m.forward(&x, None);
    close(&y.select(0, 5), &h);
    close(&hn.select(0, 0), &h);
    close(&cn.select(0, 0), &c);
    let (m, cell) = (nn::GRU::new(3, 4), nn::GRUCell::new(3, 4));
    for (p, q) in m.parameters().iter().zip(cell.parameters()) {
        ops::copy_(&q.alias_detached(), p, false).unwrap();
    }
    let h = (0..6).fold(t::zeros([2, 4]), |h, i| cell.forward(&x.select(0, i), &h));
    close(&m.forward(&x, None).1.select(0, 0), &h);
}

/// A packed batch gives each sequence what it gets alone, in the order that they came in.
#[test]
fn packed_sequences_are_as_if_alone() {
    let m = lstm();
    let all = [t::randn([2, 3]), t::randn([5, 3]), t::randn([4, 3])];
    let packed = pack_sequence_with(&all, PackSequenceOptions::new().enforce_sorted(false));
    let (y, (h, c)) = m.call(&packed, None);
    for (i, (x, y)) in all.iter().zip(unpack_sequence(&y)).enumerate() {
        let (alone, (h1, c1)) = m.forward(x, None);
        close(&y, &alone);
        close(&h.select(1, i as i64), &h1);
        close(&c.select(1, i as i64), &c1);
    }
    // with initial states, which come in the order of the sequences too
    let (h0, c0) = (t::randn([4, 3, 2]), t::randn([4, 3, 5]));
    let (y, _) = m.call(&packed, (&h0, &c0));
    let (alone, _) = m.forward(&all[0], (&h0.select(1, 0), &c0.select(1, 0)));
    close(&unpack_sequence(&y)[0], &alone);
    let g = nn::GRUOptions::new(3, 2).batch_first(true).build();
    let (y, _) = g.forward(&packed, None);
    close(&unpack_sequence(&y)[2], &g.forward(&all[2], None).0);
}

/// Neither the layout of the input nor recording changes the result.
#[test]
fn batch_first_strides_and_modes() {
    let m = nn::LSTMOptions::new(3, 5).batch_first(true).bidirectional(true).build();
    let x = t::randn([4, 2, 3]);
    let (y, _) = m.forward(&x.transpose(0, 1), None);
    let (z, _) = m.forward(&x.transpose(0, 1).contiguous(), None);
    close(&y, &z);
    let (quiet, _) = flambeau_autograd::no_grad(|| m.forward(&x.transpose(0, 1), None));
    close(&y, &quiet);
    assert!(y.requires_grad() && !quiet.requires_grad());
    let (empty, (h, _)) = m.forward(&t::zeros([0, 2, 3]), None);
    assert_eq!((empty.sizes(), h.sizes()), (&[0, 2, 10][..], &[2, 0, 5][..]));
}

#[test]
fn conversions_and_hooks() {
    let mut m = nn::GRU::new(3, 4);
    m.to(DType::F64);
    assert!(m.parameters().iter().all(|p| p.dtype() == DType::F64));
    let packed = pack_sequence(&[t::randn([3, 3]), t::randn([2, 3])]).double();
    assert_eq!(m.call(&packed, None).0.data.dtype(), DType::F64);
    m.to(DType::BF16);
    assert_eq!(m.forward(&t::randn([2, 1, 3]).to(DType::BF16), None).0.dtype(), DType::BF16);
    let m = nn::GRU::new(3, 4);
    let _hook = m.register_forward_hook(|_, inputs, outputs| {
        assert_eq!((inputs.len(), outputs.len()), (2, 3));
        let mut all = outputs.to_vec();
        all[0] = t::zeros_like(&all[0]);
        Some(all)
    });
    let packed = pack_sequence(&[t::randn([3, 3]), t::randn([2, 3])]);
    assert_eq!(m.call(&packed, None).0.data.abs().sum().item::<f32>(), 0.0);
}

#[test]
fn padding_and_packing() {
    let seq = tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]]);
    let packed = pack_padded_sequence_with(
        &seq,
        &[2, 1, 3],
        PackPaddedSequenceOptions::new().batch_first(true).enforce_sorted(false),
    );
    assert_eq!(
        packed.to_string(),
        "PackedSequence(data=tensor([4, 1, 3, 5, 2, 6]), batch_sizes=tensor([3, 2, 1]), sorted_indices=tensor([2, 0, 1]), unsorted_indices=tensor([1, 2, 0]))"
    );
    let (back, lengths) =
        pad_packed_sequence_with(&packed, PadPackedSequenceOptions::new().batch_first(true));
    assert_eq!(back.to_vec::<i64>(), seq.to_vec::<i64>());
    assert_eq!(lengths.to_vec::<i64>(), [2, 1, 3]);
    let (longer, _) =
        pad_packed_sequence_with(&packed, PadPackedSequenceOptions::new().padding_value(-1).total_length(4));
    assert_eq!(longer.to_vec::<i64>(), [1, 3, 4, 2, -1, 5, -1, -1, 6, -1, -1, -1]);
    let padded = pad_sequence_with(
        &[tensor([1, 2]), tensor([3])],
        PadSequenceOptions::new().batch_first(true).padding_value(7).padding_side("left"),
    );
    assert_eq!(padded.to_vec::<i64>(), [1, 2, 7, 3]);
    assert_eq!(
        unpad_sequence_with(&seq, &lengths, UnpadSequenceOptions::new().batch_first(true))[1].to_vec::<i64>(),
        [3]
    );
    let p = tensor([2, 0, 3, 1]);
    assert_eq!(invert_permutation(&p).to_vec::<i64>(), [1, 3, 0, 2]);
    let again = PackedSequence::new(&packed.data, &packed.batch_sizes, packed.sorted_indices.as_ref());
    assert_eq!(again.to_string(), packed.to_string());
}

#[test]
fn errors_are_pytorchs() {
    let text = |e: flambeau_core::Error| (e.kind(), e.message().to_owned());
    let m = nn::RNN::new(3, 4);
    let (kind, message) = text(m.try_forward(&t::zeros([2, 3, 5]), None).unwrap_err());
    assert_eq!(kind, ErrorKind::Runtime);
    assert_eq!(message, "input.size(-1) must be equal to input_size. Expected 3, got 5");
    let (_, message) = text(m.try_forward(&t::zeros([2, 3, 3]), Some(&t::zeros([1, 2, 4]))).unwrap_err());
    assert_eq!(message, "Expected hidden size (1, 3, 4), got [1, 2, 4]");
    let (kind, message) = text(nn::LSTMOptions::new(3, 4).proj_size(4).try_build().unwrap_err());
    assert_eq!((kind, &*message), (ErrorKind::Value, "proj_size has to be smaller than hidden_size"));
    let (_, message) = text(nn::RNNOptions::new(3, 4).nonlinearity("sin").try_build().unwrap_err());
    assert_eq!(message, "Unknown nonlinearity 'sin'. Select from 'tanh' or 'relu'.");
    let x = t::zeros([4, 2]);
    let (_, message) =
        text(try_pack_padded_sequence(&x, &[2, 3], PackPaddedSequenceOptions::new()).unwrap_err());
    assert!(message.starts_with("`lengths` array must be sorted in decreasing order"));
    let (_, message) =
        text(try_pack_padded_sequence(&x, &[2], PackPaddedSequenceOptions::new()).unwrap_err());
    assert_eq!(message, "Expected `len(lengths)` to be equal to batch_size, but got 1 (batch_size=2)");
    assert!(try_pack_padded_sequence(&x, &[2, 0], PackPaddedSequenceOptions::new()).is_err());
    assert!(try_pack_padded_sequence(&x, &[i64::MAX, 1], PackPaddedSequenceOptions::new()).is_err());
    let packed = pack_padded_sequence(&x, &[3, 1]);
    let (kind, _) =
        text(try_pad_packed_sequence(&packed, PadPackedSequenceOptions::new().total_length(2)).unwrap_err());
    assert_eq!(kind, ErrorKind::Value);
    assert_eq!(
        text(try_pad_sequence(&[] as &[Tensor], PadSequenceOptions::new()).unwrap_err()).1,
        "received an empty list of sequences"
    );
    assert!(try_pack_sequence(&[t::zeros(1), t::zeros(2)], PackSequenceOptions::new()).is_err());
    // batch sizes that lie are errors
    for sizes in [tensor([2, 3]), tensor([2, -1]), tensor([i64::MAX, i64::MAX])] {
        let lie = PackedSequence { batch_sizes: sizes, ..packed.clone() };
        assert!(try_pad_packed_sequence(&lie, PadPackedSequenceOptions::new()).is_err());
        let (h, c) = (t::zeros([1, 2, 4]), t::zeros([1, 2, 4]));
        let lie = PackedSequence { data: t::zeros([4, 3]), ..lie };
        assert!(nn::LSTM::new(3, 4).try_forward(&lie, (&h, &c)).is_err());
    }
}

#[test]
fn packed_sequences_are_one_argument_by_name() {
    use flambeau_core::Value;
    use flambeau_library::call_value;

    let path = |name: &str| format!("torch.nn.utils.rnn.{name}");
    let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2, 1]);
    let lengths = Value::List(vec![2i64.into(), 1i64.into()]);
    let packed = call_value(&path("pack_padded_sequence"), &[x.into(), lengths], &[]).unwrap();
    let parts = call_value(&path("pad_packed_sequence"), &[packed], &[]).unwrap().into_items().unwrap();
    let padded = parts[0].clone().into_tensor().unwrap();
    assert_eq!(padded.to_vec::<f32>(), [1.0, 2.0, 3.0, 0.0]);
}
