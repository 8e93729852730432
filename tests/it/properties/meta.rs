//! The meta device foretells sizes, dtypes and strides.

use super::calls::*;
use super::layouts;
use flambeau_test_rows::sample::Run;
use flambeau_test_rows::table::Form;
use flambeau_test_support::alone;
use torch::__core::Value;
use torch::__core::internal::RawTensor as _;
use torch::{DType, Device, Tensor, ops};

fn geometry(v: &[Value], into: &mut Vec<String>) {
    for v in v {
        match v {
            // strides of no element are what they happen to be, in PyTorch too
            Value::Tensor(t) if t.numel() == 0 => into.push(format!("{:?} {}", t.sizes(), t.dtype())),
            Value::Tensor(t) => into.push(format!("{:?} {:?} {}", t.sizes(), t.strides(), t.dtype())),
            Value::List(l) | Value::Tuple(l) => geometry(l, into),
            // a number, known without data too
            other => into.push(other.type_name().to_string()),
        }
    }
}
fn on_meta(t: &Tensor) -> Tensor {
    let m = Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta).unwrap();
    if t.is_wrapped_number() { m.into_wrapped_number() } else { m }
}
/// Dimensions in reverse order in memory: what preserves strides shows it.
fn permuted(t: &Tensor) -> Tensor {
    let dims: Vec<i64> = (0..t.dim() as i64).rev().collect();
    ops::permute(&fresh(&ops::permute(t, &dims).unwrap()), &dims).unwrap()
}

const EXCEPTIONS: Exceptions = &[
    ("_unique2", "the sizes of the result depend on values"),
    ("argwhere", "the sizes of the result depend on values"),
    ("bincount", "the sizes of the result depend on values"),
    ("index.Tensor", "the sizes of the result depend on values"),
    ("index_put", "the sizes of the result depend on values"),
    ("index_put_", "the sizes of the result depend on values"),
    ("masked_select", "the sizes of the result depend on values"),
    ("nonzero", "the sizes of the result depend on values"),
    ("nonzero_numpy", "the sizes of the result depend on values"),
    ("repeat_interleave.Tensor", "the sizes of the result depend on values"),
    ("repeat_interleave.self_Tensor", "the sizes of the result depend on values"),
    ("tensor_split.tensor_indices_or_sections", "the sizes of the result depend on values"),
    ("unique_consecutive", "the sizes of the result depend on values"),
    ("unique_dim", "the sizes of the result depend on values"),
    ("where", "the sizes of the result depend on values"),
    ("one_hot", "the sizes of the result depend on values"),
    ("_foreach_addcdiv.Tensor", "the numbers are a tensor's values"),
    ("_foreach_addcdiv_.Tensor", "the numbers are a tensor's values"),
    ("_foreach_addcmul.Tensor", "the numbers are a tensor's values"),
    ("_foreach_addcmul_.Tensor", "the numbers are a tensor's values"),
    ("fake_quantize_per_channel_affine", "no rule yet"),
    ("fake_quantize_per_channel_affine_cachemask", "no rule yet"),
    ("fake_quantize_per_tensor_affine.tensor_qparams", "the numbers are a tensor's values"),
    ("histogram.bin_ct", "the bins depend on values"),
    ("histogram.bins_tensor", "no rule yet"),
    ("histogramdd", "the bins depend on values"),
    ("histogramdd.TensorList_bins", "no rule yet"),
    ("histogramdd.int_bins", "the bins depend on values"),
    ("ctc_loss", "the lengths are a tensor's values"),
    ("_pack_padded_sequence", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("_pad_packed_sequence", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("lstm.data", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("gru.data", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("rnn_tanh.data", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("rnn_relu.data", "the lengths are values on the CPU; an error in PyTorch as well"),
    ("as_strided_scatter", "reads the memory behind its view, which the copy on meta has not"),
    ("matrix_exp", "how far the matrix is scaled, and with it who writes the result, depends on values"),
    (
        "linalg_matrix_exp",
        "how far the matrix is scaled, and with it who writes the result, depends on values",
    ),
    ("linalg_lstsq", "which results there are depends on values"),
    ("segment_reduce", "the sizes of the result depend on values"),
    ("allclose", "gives a number, which needs values"),
    ("equal", "gives a number, which needs values"),
    ("linspace.Scalar_Tensor", "the ends are numbers, which needs values; an error in PyTorch as well"),
    ("linspace.Tensor_Scalar", "the ends are numbers, which needs values; an error in PyTorch as well"),
    ("linspace.Tensor_Tensor", "the ends are numbers, which needs values; an error in PyTorch as well"),
    ("logspace.Scalar_Tensor", "the ends are numbers, which needs values; an error in PyTorch as well"),
    ("logspace.Tensor_Scalar", "the ends are numbers, which needs values; an error in PyTorch as well"),
    ("logspace.Tensor_Tensor", "the ends are numbers, which needs values; an error in PyTorch as well"),
];

#[test]
fn meta_foretells_results() {
    alone!();
    let mut l = Ledger::new("meta", EXCEPTIONS);
    for s in subjects().iter().filter(|s| s.form != Form::Out) {
        let device = s.op.info().schema.args.iter().position(|a| a.name == "device");
        let dtypes = [DType::F32, DType::C64, DType::I64, DType::Bool];
        for c in cases(s, &dtypes, &[Run::Positive, Run::ZeroDim, Run::Empty]) {
            for (how, f) in [
                ("dense", fresh as fn(&Tensor) -> Tensor),
                ("permuted", permuted),
                ("strided", layouts::strided),
            ] {
                let real = map_tensors(&c.args, &mut |t| f(t));
                let mut meta = map_tensors(&real, &mut on_meta);
                if tensors(&real).is_empty() {
                    let Some(i) = device else { continue };
                    meta[i] = Value::Device(Device::Meta);
                }
                let Outcome::Ok(want) = call(s, &real) else { continue };
                let verdict = match call(s, &meta) {
                    Outcome::Ok(got) => {
                        let (mut a, mut b) = (Vec::new(), Vec::new());
                        geometry(&want, &mut a);
                        geometry(&got, &mut b);
                        (a != b).then(|| format!("{a:?} against {b:?} on meta"))
                    }
                    other => Some(format!("no error against {} on meta", other.kind())),
                };
                l.note(s.name(), &format!("{}, {how}", c.what), verdict);
            }
        }
    }
    l.finish(700);
}
