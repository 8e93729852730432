//! Bad input to the fallible functions: an error of the right kind in PyTorch's words; no panic, no hang, no absurd
//! allocation. The texts are PyTorch's own, but for the tails that name its source lines or what only it has.

#[path = "common/hostile.rs"]
mod hostile;

use flambeau_core::ErrorKind::{self, *};
use flambeau_core::{DType, Device, MemoryFormat, Result, Scalar, Tensor, ops};
use hostile::Calls;

const HUGE: i64 = 1 << 62;

fn f32s(sizes: &[i64]) -> Tensor {
    ops::zeros(sizes, None, None, None, None).expect("a small tensor")
}
fn ints(v: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64]).expect("a small tensor")
}
fn of(d: DType) -> Tensor {
    ops::zeros(&[2, 3], Some(d), None, None, None).expect("a small tensor")
}
fn complex(re: f64, im: f64) -> Scalar {
    let mut c = Scalar::Int(0).to_complex();
    (c.re, c.im) = (re, im);
    Scalar::Complex(c)
}

/// Operands of the cases.
struct Set {
    /// Zeros `[2, 3]`.
    x: Tensor,
    /// Zeros `[1]`.
    one: Tensor,
    /// The same element as a vector of a length that no memory has.
    wide: Tensor,
    ones: Tensor,
    /// 1 and 2.
    n: Tensor,
    /// 0 and 7: out of range for most.
    i: Tensor,
    /// The same as a row.
    ii: Tensor,
    /// Zeros `[0, 3]`.
    e: Tensor,
    /// No dimensions.
    s: Tensor,
    b: Tensor,
    d: Tensor,
    c: Tensor,
    /// On the meta device.
    m: Tensor,
}
impl Set {
    fn new() -> Result<Set> {
        Ok(Set {
            x: f32s(&[2, 3]),
            one: f32s(&[1]),
            wide: ops::expand(&f32s(&[1]), &[1 << 40], false)?,
            ones: ops::ones(&[3], None, None, None, None)?,
            n: ints(&[1, 2]),
            i: ints(&[0, 7]),
            ii: ops::unsqueeze(&ints(&[0, 7]), 0)?,
            e: f32s(&[0, 3]),
            s: f32s(&[]),
            b: ops::ones(&[2, 3], Some(DType::Bool), None, None, None)?,
            d: of(DType::F64),
            c: ops::zeros(&[2], Some(DType::C64), None, None, None)?,
            m: Tensor::empty_raw(&[2, 3], DType::F32, Device::Meta)?,
        })
    }
}

struct Case {
    name: &'static str,
    kind: ErrorKind,
    text: &'static str,
    call: fn(&Set) -> Result<()>,
}
macro_rules! case {
    ($name:literal, $kind:ident, $text:literal, $t:ident => $call:expr) => {
        Case { name: $name, kind: $kind, text: $text, call: |$t| $call.map(drop) }
    };
}

impl Case {
    /// What is wrong with the outcome.
    fn wrong(&self) -> Option<String> {
        let set = match Set::new() {
            Ok(s) => s,
            Err(e) => return Some(format!("no operands: {e}")),
        };
        match (self.call)(&set) {
            Ok(()) => Some("accepted".into()),
            Err(e) if e.kind() == self.kind && e.message().contains(self.text) => None,
            Err(e) => Some(format!("{e:?}\n  instead of {:?}: {}", self.kind, self.text)),
        }
    }
}
fn judge(test: &'static str, cases: &[Case]) {
    Calls {
        test,
        count: cases.len(),
        name: &|i| format!("{test}/{}", cases[i].name),
        run: &|i| cases[i].wrong(),
    }
    .judge();
}

#[test]
fn huge_sizes() {
    judge("huge_sizes", &[
        case!("empty, product", Runtime, "huge_sizes/empty, product", t => ops::empty(&[HUGE, 4], None, None, None, None, None)),
        case!("empty, bytes", Runtime, "huge_sizes/empty, bytes", t => ops::empty(&[HUGE], None, None, None, None, None)),
        case!("empty, no such memory", Runtime, "huge_sizes/empty, no such memory", t => ops::empty(&[1 << 50], None, None, None, None, None)),
        case!("empty, one size is 0", Runtime, "huge_sizes/empty, one size is 0", t => ops::empty(&[1, HUGE, 1, HUGE, 0], None, None, None, None, None)),
        case!("empty on meta", Runtime, "huge_sizes/empty on meta", t => ops::empty(&[HUGE, 4], None, None, Some(Device::Meta), None, None)),
        case!("empty_strided", Runtime, "huge_sizes/empty_strided", t => ops::empty_strided(&[2], &[HUGE], None, None, None, None)),
        case!("zeros", Runtime, "huge_sizes/zeros", t => ops::zeros(&[HUGE, HUGE], None, None, None, None)),
        case!("zeros, no such memory", Runtime, "huge_sizes/zeros, no such memory", t => ops::zeros(&[1 << 50], None, None, None, None)),
        case!("ones", Runtime, "huge_sizes/ones", t => ops::ones(&[1 << 31, 1 << 31, 4], None, None, None, None)),
        case!("full", Runtime, "huge_sizes/full", t => ops::full(&[1 << 55], 1.0.into(), None, None, None, None)),
        case!("eye", Runtime, "huge_sizes/eye", t => ops::eye(1 << 40, None, None, None, None)),
        case!("arange", Runtime, "huge_sizes/arange", t => ops::arange(HUGE.into(), None, None, None, None)),
        case!("arange, no such memory", Runtime, "huge_sizes/arange, no such memory", t => ops::arange((1i64 << 45).into(), None, None, None, None)),
        case!("arange, tiny step", Runtime, "huge_sizes/arange, tiny step", t => ops::arange_step(0.0.into(), 1.0.into(), 1e-300.into(), None, None, None, None)),
        case!("arange to infinity", Runtime, "huge_sizes/arange to infinity", t => ops::arange(f64::INFINITY.into(), None, None, None, None)),
        case!("arange of nan", Runtime, "huge_sizes/arange of nan", t => ops::arange(f64::NAN.into(), None, None, None, None)),
        case!("arange over all", Runtime, "huge_sizes/arange over all", t => ops::arange_start(i64::MIN.into(), i64::MAX.into(), None, None, None, None)),
        case!("linspace", Runtime, "huge_sizes/linspace", t => ops::linspace(0.into(), 1.into(), HUGE, None, None, None, None)),
        case!("logspace", Runtime, "huge_sizes/logspace", t => ops::logspace(0.into(), 1.into(), 1 << 45, 10.0, None, None, None, None)),
        case!("randperm", Runtime, "huge_sizes/randperm", t => ops::randperm(HUGE, None, None, None, None, None)),
        case!("randperm, no such memory", Runtime, "huge_sizes/randperm, no such memory", t => ops::randperm(1 << 40, None, None, None, None, None)),
        case!("randint", Runtime, "huge_sizes/randint", t => ops::randint(5, &[HUGE, 2], None, None, None, None, None)),
        case!("rand", Runtime, "huge_sizes/rand", t => ops::rand(&[HUGE, 2], None, None, None, None, None)),
        case!("tril_indices", Runtime, "huge_sizes/tril_indices", t => ops::tril_indices(1 << 40, 1 << 40, 0, None, None, None, None)),
        case!("triu_indices, product", Runtime, "huge_sizes/triu_indices, product", t => ops::triu_indices(1 << 33, 1 << 31, 0, None, None, None, None)),
        case!("new_empty", Runtime, "huge_sizes/new_empty", t => ops::new_empty(&t.x, &[HUGE, 9], None, None, None, None)),
        case!("repeat", Runtime, "huge_sizes/repeat", t => ops::repeat(&t.x, &[1 << 40, 1 << 40])),
        case!("repeat, no such memory", Runtime, "huge_sizes/repeat, no such memory", t => ops::repeat(&t.x, &[1 << 45, 1])),
        case!("tile", Runtime, "huge_sizes/tile", t => ops::tile(&t.x, &[1 << 40, 1 << 40])),
        case!("repeat_interleave", Runtime, "huge_sizes/repeat_interleave", t => ops::repeat_interleave_int(&t.x, 1 << 50, Some(0), None)),
        case!("repeat_interleave, product", Runtime, "huge_sizes/repeat_interleave, product", t => ops::repeat_interleave_int(&t.x, HUGE, Some(0), None)),
        case!("expand", Runtime, "huge_sizes/expand", t => ops::expand(&t.one, &[HUGE, 4], false)),
        case!("expand, then copied", Runtime, "huge_sizes/expand, then copied", t => ops::clone(&ops::expand(&t.one, &[HUGE], false)?, None)),
        case!("expand, no such memory", Runtime, "huge_sizes/expand, no such memory", t => ops::clone(&ops::expand(&t.one, &[1 << 45], false)?, None)),
        case!("add on a wide view", Runtime, "huge_sizes/add on a wide view", t => ops::add(&ops::expand(&t.one, &[1 << 45], false)?, &t.one, 1.into())),
        case!("outer of wide views", Runtime, "huge_sizes/outer of wide views", t => ops::outer(&t.wide, &t.wide)),
        case!("kron of wide views", Runtime, "huge_sizes/kron of wide views", t => ops::kron(&t.wide, &t.wide)),
        case!("cat of wide views", Runtime, "huge_sizes/cat of wide views", t => ops::cat(&[t.wide.clone(), t.wide.clone()], 0)),
        case!("stack of wide views", Runtime, "huge_sizes/stack of wide views", t => ops::stack(&[t.wide.clone(), t.wide.clone()], 0)),
        case!("cartesian_prod of wide views", Runtime, "huge_sizes/cartesian_prod of wide views", t => ops::cartesian_prod(&[t.wide.clone(), t.wide.clone()])),
        case!("meshgrid of wide views", Runtime, "huge_sizes/meshgrid of wide views", t => ops::meshgrid(&[t.wide.clone(), t.wide.clone()], "ij")),
        case!("block_diag of wide views", Runtime, "huge_sizes/block_diag of wide views", t => ops::block_diag(&[ops::view(&t.wide, &[1, -1])?, ops::view(&t.wide, &[-1, 1])?])),
        case!("broadcast_to", Runtime, "huge_sizes/broadcast_to", t => ops::broadcast_to(&t.one, &[HUGE, HUGE])),
        case!("as_strided beyond the storage", Runtime, "huge_sizes/as_strided beyond the storage", t => ops::as_strided(&t.x, &[7], &[1], None)),
        case!("as_strided, far beyond", Runtime, "huge_sizes/as_strided, far beyond", t => ops::as_strided(&t.x, &[HUGE], &[1], None)),
        case!("as_strided, everything", Runtime, "huge_sizes/as_strided, everything", t => ops::as_strided(&t.x, &[HUGE, HUGE], &[HUGE, HUGE], None)),
        case!("as_strided, offset", Runtime, "huge_sizes/as_strided, offset", t => ops::as_strided(&t.x, &[1], &[1], Some(i64::MAX))),
        case!("view", Runtime, "huge_sizes/view", t => ops::view(&t.x, &[HUGE, 4])),
        case!("reshape", Runtime, "huge_sizes/reshape", t => ops::reshape(&t.x, &[HUGE, -1])),
        case!("unflatten", Runtime, "huge_sizes/unflatten", t => ops::unflatten(&t.x, 0, &[HUGE, 4])),
        case!("diag_embed", Runtime, "huge_sizes/diag_embed", t => ops::diag_embed(&t.x, 1 << 40, -2, -1)),
        case!("diag", Runtime, "huge_sizes/diag", t => ops::diag(&t.one, 1 << 40)),
        case!("bincount", Runtime, "huge_sizes/bincount", t => ops::bincount(&ints(&[1 << 55]), None, 0)),
        case!("bincount, largest value", Runtime, "huge_sizes/bincount, largest value", t => ops::bincount(&ints(&[i64::MAX]), None, 0)),
        case!("bincount, minlength", Runtime, "huge_sizes/bincount, minlength", t => ops::bincount(&t.n, None, HUGE)),
        case!("histc", Runtime, "huge_sizes/histc", t => ops::histc(&t.one, 1 << 40, 0.into(), 0.into())),
        case!("unfold", Runtime, "huge_sizes/unfold", t => ops::unfold(&t.x, 0, HUGE, 1)),
        case!("nonzero_static", Runtime, "huge_sizes/nonzero_static", t => ops::nonzero_static(&t.x, 1 << 50, -1)),
        case!("narrow", Runtime, "huge_sizes/narrow", t => ops::narrow(&t.x, 0, 1, i64::MAX)),
        case!("mvlgamma", Runtime, "huge_sizes/mvlgamma", t => ops::mvlgamma(&t.x, 1 << 45)),
        case!("multinomial", Runtime, "huge_sizes/multinomial", t => ops::multinomial(&t.ones, 1 << 45, true, None)),
        case!("normal", Runtime, "huge_sizes/normal", t => ops::normal_float_float(0.0, 1.0, &[HUGE, 2], None, None, None, None, None)),
    ]);
}

#[test]
fn sizes_steps_and_numbers() {
    judge("sizes_steps_and_numbers", &[
        case!("empty", Runtime, "sizes_steps_and_numbers/empty", t => ops::empty(&[-1], None, None, None, None, None)),
        case!("zeros", Runtime, "sizes_steps_and_numbers/zeros", t => ops::zeros(&[2, -3], None, None, None, None)),
        case!("full", Runtime, "sizes_steps_and_numbers/full", t => ops::full(&[i64::MIN], 0.0.into(), None, None, None, None)),
        case!("empty_strided, stride", Runtime, "sizes_steps_and_numbers/empty_strided, stride", t => ops::empty_strided(&[2], &[-1], None, None, None, None)),
        case!("empty_strided, lengths", Runtime, "sizes_steps_and_numbers/empty_strided, lengths", t => ops::empty_strided(&[2], &[1, 1], None, None, None, None)),
        case!("eye", Runtime, "sizes_steps_and_numbers/eye", t => ops::eye(-1, None, None, None, None)),
        case!("arange", Runtime, "sizes_steps_and_numbers/arange", t => ops::arange((-1).into(), None, None, None, None)),
        case!("arange, step 0", Runtime, "sizes_steps_and_numbers/arange, step 0", t => ops::arange_step(0.into(), 1.into(), 0.into(), None, None, None, None)),
        case!("linspace", Runtime, "sizes_steps_and_numbers/linspace", t => ops::linspace(0.into(), 1.into(), -1, None, None, None, None)),
        case!("logspace", Runtime, "sizes_steps_and_numbers/logspace", t => ops::logspace(0.into(), 1.into(), -1, 10.0, None, None, None, None)),
        case!("randperm", Runtime, "sizes_steps_and_numbers/randperm", t => ops::randperm(-1, None, None, None, None, None)),
        case!("tril_indices", Runtime, "sizes_steps_and_numbers/tril_indices", t => ops::tril_indices(-1, 2, 0, None, None, None, None)),
        case!("randint, empty range", Runtime, "sizes_steps_and_numbers/randint, empty range", t => ops::randint(0, &[2], None, None, None, None, None)),
        case!("random_, empty range", Runtime, "sizes_steps_and_numbers/random_, empty range", t => ops::random_from_(&t.x, 3, Some(3), None)),
        case!("view", Runtime, "sizes_steps_and_numbers/view", t => ops::view(&t.x, &[-2, 3])),
        case!("view, two unknown", Runtime, "sizes_steps_and_numbers/view, two unknown", t => ops::view(&t.x, &[-1, -1])),
        case!("view, other number", Runtime, "sizes_steps_and_numbers/view, other number", t => ops::view(&t.x, &[4])),
        case!("view of a transposed", Runtime, "sizes_steps_and_numbers/view of a transposed", t => ops::view(&ops::t(&t.x)?, &[6])),
        case!("reshape", Runtime, "sizes_steps_and_numbers/reshape", t => ops::reshape(&t.x, &[-6])),
        case!("reshape of nothing", Runtime, "sizes_steps_and_numbers/reshape of nothing", t => ops::reshape(&t.e, &[0, -1])),
        case!("expand", Runtime, "sizes_steps_and_numbers/expand", t => ops::expand(&t.x, &[-1, 2, 3], false)),
        case!("expand, other size", Runtime, "sizes_steps_and_numbers/expand, other size", t => ops::expand(&t.x, &[2, 4], false)),
        case!("expand, negative size", Runtime, "sizes_steps_and_numbers/expand, negative size", t => ops::expand(&t.x, &[-2, 2, 3], false)),
        case!("repeat", Runtime, "sizes_steps_and_numbers/repeat", t => ops::repeat(&t.x, &[-1, 2])),
        case!("repeat, too few", Runtime, "sizes_steps_and_numbers/repeat, too few", t => ops::repeat(&t.x, &[2])),
        case!("repeat_interleave", Runtime, "sizes_steps_and_numbers/repeat_interleave", t => ops::repeat_interleave_int(&t.x, -1, Some(0), None)),
        case!("repeat_interleave by a tensor", Runtime, "sizes_steps_and_numbers/repeat_interleave by a tensor", t => ops::repeat_interleave(&ints(&[1, -2]), None)),
        case!("repeat_interleave, other length", Runtime, "sizes_steps_and_numbers/repeat_interleave, other length", t => ops::repeat_interleave_tensor(&t.x, &ints(&[1, 2, 3]), Some(0), None)),
        case!("narrow, length", Runtime, "sizes_steps_and_numbers/narrow, length", t => ops::narrow(&t.x, 0, 0, -1)),
        case!("narrow, beyond", Runtime, "sizes_steps_and_numbers/narrow, beyond", t => ops::narrow(&t.x, 0, 1, 2)),
        case!("narrow, start", Runtime, "sizes_steps_and_numbers/narrow, start", t => ops::narrow(&t.x, 0, 5, 0)),
        case!("slice, step 0", Runtime, "sizes_steps_and_numbers/slice, step 0", t => ops::slice(&t.x, 0, None, None, 0)),
        case!("slice, step -1", Runtime, "sizes_steps_and_numbers/slice, step -1", t => ops::slice(&t.x, 0, None, None, -1)),
        case!("split", Runtime, "sizes_steps_and_numbers/split", t => ops::split(&t.x, -1, 0)),
        case!("split into 0", Runtime, "sizes_steps_and_numbers/split into 0", t => ops::split(&t.x, 0, 0)),
        case!("split_with_sizes", Runtime, "sizes_steps_and_numbers/split_with_sizes", t => ops::split_with_sizes(&t.x, &[1, 2], 0)),
        case!("split_with_sizes, negative", Runtime, "sizes_steps_and_numbers/split_with_sizes, negative", t => ops::split_with_sizes(&t.x, &[3, -1], 0)),
        case!("chunk 0", Runtime, "sizes_steps_and_numbers/chunk 0", t => ops::chunk(&t.x, 0, 0)),
        case!("tensor_split 0", Runtime, "sizes_steps_and_numbers/tensor_split 0", t => ops::tensor_split_sections(&t.x, 0, 0)),
        case!("unfold, size", Runtime, "sizes_steps_and_numbers/unfold, size", t => ops::unfold(&t.x, 0, -1, 1)),
        case!("unfold, step", Runtime, "sizes_steps_and_numbers/unfold, step", t => ops::unfold(&t.x, 0, 1, 0)),
        case!("as_strided, size", Runtime, "sizes_steps_and_numbers/as_strided, size", t => ops::as_strided(&t.x, &[-1], &[1], None)),
        case!("as_strided, stride", Runtime, "sizes_steps_and_numbers/as_strided, stride", t => ops::as_strided(&t.x, &[2], &[-1], None)),
        case!("as_strided, offset", Runtime, "sizes_steps_and_numbers/as_strided, offset", t => ops::as_strided(&t.x, &[1], &[1], Some(-1))),
        case!("as_strided, lengths", Runtime, "sizes_steps_and_numbers/as_strided, lengths", t => ops::as_strided(&t.x, &[1, 1], &[1], None)),
        case!("topk", Runtime, "sizes_steps_and_numbers/topk", t => ops::topk(&t.x, -1, -1, true, true)),
        case!("topk, too many", Runtime, "sizes_steps_and_numbers/topk, too many", t => ops::topk(&t.x, 4, -1, true, true)),
        case!("kthvalue 0", Runtime, "sizes_steps_and_numbers/kthvalue 0", t => ops::kthvalue(&t.x, 0, -1, false)),
        case!("kthvalue, too many", Runtime, "sizes_steps_and_numbers/kthvalue, too many", t => ops::kthvalue(&t.x, HUGE, -1, false)),
        case!("bincount", Runtime, "sizes_steps_and_numbers/bincount", t => ops::bincount(&ints(&[-1]), None, 0)),
        case!("bincount, minlength", Runtime, "sizes_steps_and_numbers/bincount, minlength", t => ops::bincount(&t.n, None, -1)),
        case!("bincount, weights", Runtime, "sizes_steps_and_numbers/bincount, weights", t => ops::bincount(&t.n, Some(&t.one), 0)),
        case!("histc, no bins", Runtime, "sizes_steps_and_numbers/histc, no bins", t => ops::histc(&t.x, 0, 0.into(), 0.into())),
        case!("histc, range", Runtime, "sizes_steps_and_numbers/histc, range", t => ops::histc(&t.x, 5, 2.into(), 1.into())),
        case!("multinomial, too many", Runtime, "sizes_steps_and_numbers/multinomial, too many", t => ops::multinomial(&t.ones, 4, false, None)),
        case!("multinomial, none", Runtime, "sizes_steps_and_numbers/multinomial, none", t => ops::multinomial(&t.ones, 0, false, None)),
        case!("multinomial, negative weights", Runtime, "sizes_steps_and_numbers/multinomial, negative weights", t => ops::multinomial(&ops::neg(&t.ones)?, 1, false, None)),
        case!("bernoulli_", Runtime, "sizes_steps_and_numbers/bernoulli_", t => ops::bernoulli_float_(&t.x, 2.0, None)),
        case!("normal_", Runtime, "sizes_steps_and_numbers/normal_", t => ops::normal_(&t.x, 0.0, -1.0, None)),
        case!("uniform_", Runtime, "sizes_steps_and_numbers/uniform_", t => ops::uniform_(&t.x, 1.0, 0.0, None)),
        case!("exponential_", Runtime, "sizes_steps_and_numbers/exponential_", t => ops::exponential_(&t.x, -1.0, None)),
        case!("geometric_", Runtime, "sizes_steps_and_numbers/geometric_", t => ops::geometric_(&t.x, 2.0, None)),
        case!("quantile", Runtime, "sizes_steps_and_numbers/quantile", t => ops::quantile_scalar(&t.x, 1.5, None, false, "linear")),
        case!("quantile, interpolation", Runtime, "sizes_steps_and_numbers/quantile, interpolation", t => ops::quantile_scalar(&t.x, 0.5, None, false, "x")),
        case!("mvlgamma", Runtime, "sizes_steps_and_numbers/mvlgamma", t => ops::mvlgamma(&t.x, 0)),
        case!("polygamma", Runtime, "sizes_steps_and_numbers/polygamma", t => ops::polygamma(-1, &t.x)),
        case!("matrix_power", Runtime, "sizes_steps_and_numbers/matrix_power", t => ops::matrix_power(&t.x, 2)),
        case!("rot90", Runtime, "sizes_steps_and_numbers/rot90", t => ops::rot90(&t.x, 1, &[0])),
        case!("div, rounding mode", Runtime, "sizes_steps_and_numbers/div, rounding mode", t => ops::div_mode(&t.x, &t.x, Some("up"))),
        case!("clamp without bounds", Runtime, "sizes_steps_and_numbers/clamp without bounds", t => ops::clamp(&t.x, None, None)),
        case!("movedim, lengths", Runtime, "sizes_steps_and_numbers/movedim, lengths", t => ops::movedim(&t.x, &[0, 1], &[0])),
        case!("roll, lengths", Runtime, "sizes_steps_and_numbers/roll, lengths", t => ops::roll(&t.x, &[1, 1], &[0])),
        case!("nonzero_static", Runtime, "sizes_steps_and_numbers/nonzero_static", t => ops::nonzero_static(&t.x, -1, -1)),
    ]);
}

#[test]
fn dims_and_indices() {
    judge("dims_and_indices", &[
        case!("transpose", Runtime, "dims_and_indices/transpose", t => ops::transpose(&t.x, 0, 2)),
        case!("transpose, smallest", Runtime, "dims_and_indices/transpose, smallest", t => ops::transpose(&t.x, i64::MIN, 0)),
        case!("permute", Runtime, "dims_and_indices/permute", t => ops::permute(&t.x, &[0, 2])),
        case!("permute, twice", Runtime, "dims_and_indices/permute, twice", t => ops::permute(&t.x, &[0, 0])),
        case!("permute, too few", Runtime, "dims_and_indices/permute, too few", t => ops::permute(&t.x, &[0])),
        case!("movedim", Runtime, "dims_and_indices/movedim", t => ops::movedim(&t.x, &[0], &[5])),
        case!("unsqueeze", Runtime, "dims_and_indices/unsqueeze", t => ops::unsqueeze(&t.x, 4)),
        case!("squeeze", Runtime, "dims_and_indices/squeeze", t => ops::squeeze_dim(&t.x, -3)),
        case!("select, dim", Runtime, "dims_and_indices/select, dim", t => ops::select(&t.x, 2, 0)),
        case!("select", Runtime, "dims_and_indices/select", t => ops::select(&t.x, 0, 2)),
        case!("select, smallest", Runtime, "dims_and_indices/select, smallest", t => ops::select(&t.x, 0, i64::MIN)),
        case!("select of no dims", Runtime, "dims_and_indices/select of no dims", t => ops::select(&t.s, 0, 0)),
        case!("flatten", Runtime, "dims_and_indices/flatten", t => ops::flatten(&t.x, 0, 2)),
        case!("flatten, swapped", Runtime, "dims_and_indices/flatten, swapped", t => ops::flatten(&t.x, 1, 0)),
        case!("unbind", Runtime, "dims_and_indices/unbind", t => ops::unbind(&t.x, 2)),
        case!("diagonal", Runtime, "dims_and_indices/diagonal", t => ops::diagonal(&t.x, 0, 0, 2)),
        case!("diagonal, same dim", Runtime, "dims_and_indices/diagonal, same dim", t => ops::diagonal(&t.x, 0, 0, 0)),
        case!("t of three dims", Runtime, "dims_and_indices/t of three dims", t => ops::t(&ops::unsqueeze(&t.x, 0)?)),
        case!("mT of one dim", Runtime, "dims_and_indices/mT of one dim", t => ops::mt(&t.n)),
        case!("sum", Runtime, "dims_and_indices/sum", t => ops::sum(&t.x, Some(&[2]), false, None)),
        case!("sum, twice", Runtime, "dims_and_indices/sum, twice", t => ops::sum(&t.x, Some(&[0, -2]), false, None)),
        case!("sum, many dims", Runtime, "dims_and_indices/sum, many dims", t => ops::sum(&f32s(&[1; 70]), Some(&[0]), false, None)),
        case!("prod", Runtime, "dims_and_indices/prod", t => ops::prod_dim(&t.x, 2, false, None)),
        case!("mean", Runtime, "dims_and_indices/mean", t => ops::mean(&t.x, Some(&[-3]), false, None)),
        case!("var", Runtime, "dims_and_indices/var", t => ops::var(&t.x, Some(&[2]), None, false)),
        case!("max", Runtime, "dims_and_indices/max", t => ops::max_dim(&t.x, 2, false)),
        case!("max of nothing", Runtime, "dims_and_indices/max of nothing", t => ops::max(&t.e)),
        case!("max of nothing by dim", Runtime, "dims_and_indices/max of nothing by dim", t => ops::max_dim(&t.e, 0, false)),
        case!("argmax of nothing", Runtime, "dims_and_indices/argmax of nothing", t => ops::argmax(&t.e, None, false)),
        case!("argmax of nothing by dim", Runtime, "dims_and_indices/argmax of nothing by dim", t => ops::argmax(&t.e, Some(0), false)),
        case!("amax of nothing", Runtime, "dims_and_indices/amax of nothing", t => ops::amax(&t.e, &[], false)),
        case!("aminmax of nothing", Runtime, "dims_and_indices/aminmax of nothing", t => ops::aminmax(&t.e, None, false)),
        case!("median of nothing", Runtime, "dims_and_indices/median of nothing", t => ops::median_dim(&t.e, 0, false)),
        case!("mode of nothing", Runtime, "dims_and_indices/mode of nothing", t => ops::mode(&t.e, 0, false)),
        case!("quantile of nothing", Runtime, "dims_and_indices/quantile of nothing", t => ops::quantile_scalar(&t.e, 0.5, None, false, "linear")),
        case!("softmax", Runtime, "dims_and_indices/softmax", t => ops::softmax(&t.x, 2, None)),
        case!("cumsum", Runtime, "dims_and_indices/cumsum", t => ops::cumsum(&t.x, 2, None)),
        case!("cummax", Runtime, "dims_and_indices/cummax", t => ops::cummax(&t.x, 2)),
        case!("logsumexp", Runtime, "dims_and_indices/logsumexp", t => ops::logsumexp(&t.x, &[2], false)),
        case!("sort", Runtime, "dims_and_indices/sort", t => ops::sort(&t.x, 2, false)),
        case!("topk", Runtime, "dims_and_indices/topk", t => ops::topk(&t.x, 1, 2, true, true)),
        case!("kthvalue", Runtime, "dims_and_indices/kthvalue", t => ops::kthvalue(&t.x, 1, 2, false)),
        case!("cat, dim", Runtime, "dims_and_indices/cat, dim", t => ops::cat(&[t.x.clone(), t.x.clone()], 2)),
        case!("cat of nothing", Runtime, "dims_and_indices/cat of nothing", t => ops::cat(&[], 0)),
        case!("cat, sizes", Runtime, "dims_and_indices/cat, sizes", t => ops::cat(&[t.x.clone(), f32s(&[2, 2])], 0)),
        case!("cat, numbers of dims", Runtime, "dims_and_indices/cat, numbers of dims", t => ops::cat(&[t.x.clone(), f32s(&[2])], 0)),
        case!("cat of no dims", Runtime, "dims_and_indices/cat of no dims", t => ops::cat(&[t.s.clone(), t.s.clone()], 0)),
        case!("stack", Runtime, "dims_and_indices/stack", t => ops::stack(&[t.x.clone(), t.x.clone()], 3)),
        case!("stack, sizes", Runtime, "dims_and_indices/stack, sizes", t => ops::stack(&[t.x.clone(), f32s(&[2, 2])], 0)),
        case!("flip", Runtime, "dims_and_indices/flip", t => ops::flip(&t.x, &[2])),
        case!("flip, twice", Runtime, "dims_and_indices/flip, twice", t => ops::flip(&t.x, &[0, 0])),
        case!("roll", Runtime, "dims_and_indices/roll", t => ops::roll(&t.x, &[1], &[2])),
        case!("tril of one dim", Runtime, "dims_and_indices/tril of one dim", t => ops::tril(&t.n, 0)),
        case!("index_select", Runtime, "dims_and_indices/index_select", t => ops::index_select(&t.x, 0, &t.i)),
        case!("index_select, dim", Runtime, "dims_and_indices/index_select, dim", t => ops::index_select(&t.x, 2, &t.i)),
        case!("index_select, matrix", Runtime, "dims_and_indices/index_select, matrix", t => ops::index_select(&t.x, 0, &t.ii)),
        case!("index_add", Runtime, "dims_and_indices/index_add", t => ops::index_add(&t.x, 0, &t.i, &t.x, 1.into())),
        case!("index_copy", Runtime, "dims_and_indices/index_copy", t => ops::index_copy(&t.x, 0, &t.i, &t.x)),
        case!("index_fill", Runtime, "dims_and_indices/index_fill", t => ops::index_fill(&t.x, 0, &t.i, 1.0.into())),
        case!("gather", Runtime, "dims_and_indices/gather", t => ops::gather(&t.x, 0, &t.ii, false)),
        case!("gather, larger", Runtime, "dims_and_indices/gather, larger", t => ops::gather(&t.x, 0, &ops::zeros(&[2, 5], Some(DType::I64), None, None, None)?, false)),
        case!("take", Runtime, "dims_and_indices/take", t => ops::take(&t.x, &t.i)),
        case!("put", Runtime, "dims_and_indices/put", t => ops::put(&t.x, &t.i, &f32s(&[2]), false)),
        case!("scatter", Runtime, "dims_and_indices/scatter", t => ops::scatter(&t.x, 0, &t.ii, &f32s(&[1, 2]))),
        case!("scatter_add", Runtime, "dims_and_indices/scatter_add", t => ops::scatter_add(&t.x, 0, &t.ii, &f32s(&[1, 2]))),
        case!("scatter, source", Runtime, "dims_and_indices/scatter, source", t => ops::scatter(&t.x, 0, &ops::zeros(&[2, 2], Some(DType::I64), None, None, None)?, &f32s(&[1, 1]))),
        case!("scatter_reduce", Runtime, "dims_and_indices/scatter_reduce", t => ops::scatter_reduce(&t.x, 0, &ops::zeros(&[1, 2], Some(DType::I64), None, None, None)?, &f32s(&[1, 2]), "x", true)),
        case!("index", Runtime, "dims_and_indices/index", t => ops::index(&t.x, &[Some(t.i.clone())])),
        case!("index, too many", Runtime, "dims_and_indices/index, too many", t => ops::index(&t.x, &[Some(ints(&[0])), Some(ints(&[0])), Some(ints(&[0]))])),
        case!("index, mask", Runtime, "dims_and_indices/index, mask", t => ops::index(&t.x, &[Some(ops::ones(&[3], Some(DType::Bool), None, None, None)?)])),
        case!("index_put", Runtime, "dims_and_indices/index_put", t => ops::index_put(&t.x, &[Some(t.i.clone())], &t.s, false)),
        case!("split, dim", Runtime, "dims_and_indices/split, dim", t => ops::split(&t.x, 1, 2)),
        case!("narrow, dim", Runtime, "dims_and_indices/narrow, dim", t => ops::narrow(&t.x, 2, 0, 1)),
        case!("select_scatter", Runtime, "dims_and_indices/select_scatter", t => ops::select_scatter(&t.x, &f32s(&[3]), 0, 7)),
        case!("diagonal_scatter", Runtime, "dims_and_indices/diagonal_scatter", t => ops::diagonal_scatter(&t.x, &f32s(&[5]), 0, 0, 1)),
        case!("slice_scatter", Runtime, "dims_and_indices/slice_scatter", t => ops::slice_scatter(&t.x, &f32s(&[5, 3]), 0, None, None, 1)),
        case!("hsplit of no dims", Runtime, "dims_and_indices/hsplit of no dims", t => ops::hsplit(&t.s, 1)),
        case!("trapezoid of no dims", Runtime, "dims_and_indices/trapezoid of no dims", t => ops::trapezoid_x(&t.s, &t.s, -1)),
    ]);
}

#[test]
fn dtypes_shapes_and_devices() {
    judge("dtypes_shapes_and_devices", &[
        case!("add, sizes", Runtime, "dtypes_shapes_and_devices/add, sizes", t => ops::add(&t.x, &f32s(&[2, 4]), 1.into())),
        case!("add_, larger", Runtime, "dtypes_shapes_and_devices/add_, larger", t => ops::add_(&t.x, &f32s(&[4, 2, 3]), 1.into())),
        case!("add_, dtype", Runtime, "dtypes_shapes_and_devices/add_, dtype", t => ops::add_(&t.n, &f32s(&[2]), 1.into())),
        case!("add_, overlapping", Runtime, "dtypes_shapes_and_devices/add_, overlapping", t => ops::add_(&ops::expand(&t.one, &[4], false)?, &f32s(&[4]), 1.into())),
        case!("add, alpha", Runtime, "dtypes_shapes_and_devices/add, alpha", t => ops::add(&t.n, &t.n, 1.5.into())),
        case!("bitwise_and of floats", Runtime, "dtypes_shapes_and_devices/bitwise_and of floats", t => ops::bitwise_and(&t.x, &t.x)),
        case!("bitwise_not of floats", Runtime, "dtypes_shapes_and_devices/bitwise_not of floats", t => ops::bitwise_not(&t.x)),
        case!("sub of bools", Runtime, "dtypes_shapes_and_devices/sub of bools", t => ops::sub(&t.b, &t.b, 1.into())),
        case!("neg of bools", Runtime, "dtypes_shapes_and_devices/neg of bools", t => ops::neg(&t.b)),
        case!("lt of complex", Runtime, "dtypes_shapes_and_devices/lt of complex", t => ops::lt(&t.c, &t.c)),
        case!("maximum of complex", Runtime, "dtypes_shapes_and_devices/maximum of complex", t => ops::maximum(&t.c, &t.c)),
        case!("floor of complex", Runtime, "dtypes_shapes_and_devices/floor of complex", t => ops::floor(&t.c)),
        case!("gcd of floats", Runtime, "dtypes_shapes_and_devices/gcd of floats", t => ops::gcd(&t.x, &t.x)),
        case!("div_ of ints", Runtime, "dtypes_shapes_and_devices/div_ of ints", t => ops::div_(&t.n, &t.n)),
        case!("exp_ of ints", Runtime, "dtypes_shapes_and_devices/exp_ of ints", t => ops::exp_(&t.n)),
        case!("mean of ints", Runtime, "dtypes_shapes_and_devices/mean of ints", t => ops::mean(&t.n, None, false, None)),
        case!("var of ints", Runtime, "dtypes_shapes_and_devices/var of ints", t => ops::var(&t.n, None, None, false)),
        case!("softmax of ints", Runtime, "dtypes_shapes_and_devices/softmax of ints", t => ops::softmax(&t.n, 0, None)),
        case!("max of complex", Runtime, "dtypes_shapes_and_devices/max of complex", t => ops::max(&t.c)),
        case!("sort of complex", Runtime, "dtypes_shapes_and_devices/sort of complex", t => ops::sort(&t.c, -1, false)),
        case!("cumsum_ of a dtype", Runtime, "dtypes_shapes_and_devices/cumsum_ of a dtype", t => ops::cumsum_(&t.n, 0, Some(DType::F32))),
        case!("median of bools", Runtime, "dtypes_shapes_and_devices/median of bools", t => ops::median(&t.b)),
        case!("quantile of ints", Runtime, "dtypes_shapes_and_devices/quantile of ints", t => ops::quantile_scalar(&t.n, 0.5, None, false, "linear")),
        case!("mm, sizes", Runtime, "dtypes_shapes_and_devices/mm, sizes", t => ops::mm(&t.x, &t.x)),
        case!("mm, dims", Runtime, "dtypes_shapes_and_devices/mm, dims", t => ops::mm(&t.x, &f32s(&[2]))),
        case!("mm, dtypes", Runtime, "dtypes_shapes_and_devices/mm, dtypes", t => ops::mm(&t.x, &ops::t(&t.d)?)),
        case!("matmul of no dims", Runtime, "dtypes_shapes_and_devices/matmul of no dims", t => ops::matmul(&t.s, &t.x)),
        case!("matmul, sizes", Runtime, "dtypes_shapes_and_devices/matmul, sizes", t => ops::matmul(&t.x, &t.x)),
        case!("bmm, dims", Runtime, "dtypes_shapes_and_devices/bmm, dims", t => ops::bmm(&t.x, &t.x)),
        case!("bmm, sizes", Runtime, "dtypes_shapes_and_devices/bmm, sizes", t => ops::bmm(&f32s(&[2, 2, 3]), &f32s(&[3, 3, 2]))),
        case!("dot, sizes", Runtime, "dtypes_shapes_and_devices/dot, sizes", t => ops::dot(&f32s(&[2]), &f32s(&[3]))),
        case!("dot, dims", Runtime, "dtypes_shapes_and_devices/dot, dims", t => ops::dot(&t.x, &t.x)),
        case!("dot, dtypes", Runtime, "dtypes_shapes_and_devices/dot, dtypes", t => ops::dot(&f32s(&[2]), &t.n)),
        case!("mv", Runtime, "dtypes_shapes_and_devices/mv", t => ops::mv(&t.x, &f32s(&[2]))),
        case!("addmm", Runtime, "dtypes_shapes_and_devices/addmm", t => ops::addmm(&f32s(&[5]), &t.x, &ops::t(&t.x)?, 1.into(), 1.into())),
        case!("outer, dims", Runtime, "dtypes_shapes_and_devices/outer, dims", t => ops::outer(&t.x, &t.x)),
        case!("tensordot", Runtime, "dtypes_shapes_and_devices/tensordot", t => ops::tensordot(&t.x, &t.x, &[0], &[1])),
        case!("einsum, operands", Runtime, "dtypes_shapes_and_devices/einsum, operands", t => ops::einsum("ij,jk->ik", std::slice::from_ref(&t.x), None)),
        case!("einsum, letters", Runtime, "dtypes_shapes_and_devices/einsum, letters", t => ops::einsum("i?", std::slice::from_ref(&t.x), None)),
        case!("einsum, sizes", Runtime, "dtypes_shapes_and_devices/einsum, sizes", t => ops::einsum("ij,jk", &[t.x.clone(), t.x.clone()], None)),
        case!("einsum, output", Runtime, "dtypes_shapes_and_devices/einsum, output", t => ops::einsum("ij->z", std::slice::from_ref(&t.x), None)),
        case!("index_select by floats", Runtime, "dtypes_shapes_and_devices/index_select by floats", t => ops::index_select(&t.x, 0, &t.one)),
        case!("gather by floats", Runtime, "dtypes_shapes_and_devices/gather by floats", t => ops::gather(&t.x, 0, &t.x, false)),
        case!("take by floats", Runtime, "dtypes_shapes_and_devices/take by floats", t => ops::take(&t.x, &t.x)),
        case!("index by floats", Runtime, "dtypes_shapes_and_devices/index by floats", t => ops::index(&t.x, &[Some(t.one.clone())])),
        case!("index_add, dtypes", Runtime, "dtypes_shapes_and_devices/index_add, dtypes", t => ops::index_add(&t.x, 0, &ints(&[0, 1]), &t.d, 1.into())),
        case!("scatter, dtypes", Runtime, "dtypes_shapes_and_devices/scatter, dtypes", t => ops::scatter(&t.x, 0, &ops::zeros(&[1, 2], Some(DType::I64), None, None, None)?, &t.d)),
        case!("masked_fill by floats", Runtime, "dtypes_shapes_and_devices/masked_fill by floats", t => ops::masked_fill(&t.x, &t.x, 0.into())),
        case!("masked_select by floats", Runtime, "dtypes_shapes_and_devices/masked_select by floats", t => ops::masked_select(&t.x, &t.x)),
        case!("masked_scatter, too few", Runtime, "dtypes_shapes_and_devices/masked_scatter, too few", t => ops::masked_scatter(&t.x, &ops::ones(&[2, 3], Some(DType::Bool), None, None, None)?, &t.one)),
        case!("where by floats", Runtime, "dtypes_shapes_and_devices/where by floats", t => ops::where_(&t.x, &t.x, &t.x)),
        case!("bincount of floats", Runtime, "dtypes_shapes_and_devices/bincount of floats", t => ops::bincount(&f32s(&[2]), None, 0)),
        case!("searchsorted, side", Runtime, "dtypes_shapes_and_devices/searchsorted, side", t => ops::searchsorted(&f32s(&[2]), &f32s(&[2]), false, false, Some("up"), None)),
        case!("bucketize, matrix", Runtime, "dtypes_shapes_and_devices/bucketize, matrix", t => ops::bucketize(&t.x, &t.x, false, false)),
        case!("view of other bytes", Runtime, "dtypes_shapes_and_devices/view of other bytes", t => ops::view_dtype(&f32s(&[3, 3]), DType::F64)),
        case!("view_as_complex", Runtime, "dtypes_shapes_and_devices/view_as_complex", t => ops::view_as_complex(&t.x)),
        case!("view_as_real of reals", Runtime, "dtypes_shapes_and_devices/view_as_real of reals", t => ops::view_as_real(&t.x)),
        case!("imag of reals", Runtime, "dtypes_shapes_and_devices/imag of reals", t => ops::imag(&t.x)),
        case!("complex, dtypes", Runtime, "dtypes_shapes_and_devices/complex, dtypes", t => ops::complex(&t.x, &t.d)),
        case!("complex of ints", Runtime, "dtypes_shapes_and_devices/complex of ints", t => ops::complex(&t.n, &t.n)),
        case!("lerp, dtypes", Runtime, "dtypes_shapes_and_devices/lerp, dtypes", t => ops::lerp(&t.x, &t.d, 0.5.into())),
        case!("copysign_ of ints", Runtime, "dtypes_shapes_and_devices/copysign_ of ints", t => ops::copysign_(&t.n, &t.n)),
        case!("logit of ints in place", Runtime, "dtypes_shapes_and_devices/logit of ints in place", t => ops::logit_(&t.n, None)),
        case!("normal_ of ints", Runtime, "dtypes_shapes_and_devices/normal_ of ints", t => ops::normal_(&t.n, 0.0, 1.0, None)),
        case!("randn of ints", Runtime, "dtypes_shapes_and_devices/randn of ints", t => ops::randn(&[2], None, Some(DType::I64), None, None, None)),
        case!("bernoulli of ints", Runtime, "dtypes_shapes_and_devices/bernoulli of ints", t => ops::bernoulli(&t.n, None)),
        case!("multinomial of ints", Runtime, "dtypes_shapes_and_devices/multinomial of ints", t => ops::multinomial(&t.n, 1, false, None)),
        case!("poisson of ints", Runtime, "dtypes_shapes_and_devices/poisson of ints", t => ops::poisson(&t.n, None)),
        case!("arange of bools", Runtime, "dtypes_shapes_and_devices/arange of bools", t => ops::arange(2.into(), Some(DType::Bool), None, None, None)),
        case!("fill_ by a matrix", Runtime, "dtypes_shapes_and_devices/fill_ by a matrix", t => ops::fill_tensor_(&t.x, &t.x)),
        case!("fill_ by complex", Runtime, "dtypes_shapes_and_devices/fill_ by complex", t => ops::fill_(&t.x, complex(0.0, 1.0))),
        case!("copy_, sizes", Runtime, "dtypes_shapes_and_devices/copy_, sizes", t => ops::copy_(&t.x, &f32s(&[4]), false)),
        case!("linspace of complex into reals", Runtime, "dtypes_shapes_and_devices/linspace of complex into reals", t => ops::linspace(0.into(), complex(0.0, 1.0), 3, Some(DType::F32), None, None, None)),
        case!("channels_last of two dims", Runtime, "dtypes_shapes_and_devices/channels_last of two dims", t => ops::contiguous(&t.x, MemoryFormat::ChannelsLast)),
        case!("empty, preserve", Runtime, "dtypes_shapes_and_devices/empty, preserve", t => ops::empty(&[2], None, None, None, None, Some(MemoryFormat::Preserve))),
        case!("add, meta and cpu", Runtime, "dtypes_shapes_and_devices/add, meta and cpu", t => ops::add(&t.x, &t.m, 1.into())),
        case!("add_, meta into cpu", Runtime, "dtypes_shapes_and_devices/add_, meta into cpu", t => ops::add_(&t.x, &t.m, 1.into())),
        case!("mm, meta and cpu", Runtime, "dtypes_shapes_and_devices/mm, meta and cpu", t => ops::mm(&t.x, &ops::t(&t.m)?)),
        case!("cat, meta and cpu", Runtime, "dtypes_shapes_and_devices/cat, meta and cpu", t => ops::cat(&[t.x.clone(), t.m.clone()], 0)),
        case!("where, meta and cpu", Runtime, "dtypes_shapes_and_devices/where, meta and cpu", t => ops::where_(&t.b, &t.x, &t.m)),
        case!("index_select, index on meta", Runtime, "dtypes_shapes_and_devices/index_select, index on meta", t => ops::index_select(&t.x, 0, &Tensor::empty_raw(&[2], DType::I64, Device::Meta)?)),
        case!("index, index on meta", Runtime, "dtypes_shapes_and_devices/index, index on meta", t => ops::index(&t.x, &[Some(Tensor::empty_raw(&[2], DType::I64, Device::Meta)?)])),
        case!("masked_fill, mask on meta", Runtime, "dtypes_shapes_and_devices/masked_fill, mask on meta", t => ops::masked_fill(&t.x, &Tensor::empty_raw(&[2, 3], DType::Bool, Device::Meta)?, 0.into())),
        case!("copy_ from meta", Runtime, "dtypes_shapes_and_devices/copy_ from meta", t => ops::copy_(&t.x, &t.m, false)),
        case!("to cpu from meta", Runtime, "dtypes_shapes_and_devices/to cpu from meta", t => ops::to_copy(&t.m, None, None, Some(Device::Cpu), None, false, None)),
        case!("nonzero on meta", Runtime, "dtypes_shapes_and_devices/nonzero on meta", t => ops::nonzero(&t.m)),
        case!("equal, meta and cpu", Runtime, "dtypes_shapes_and_devices/equal, meta and cpu", t => ops::equal(&t.x, &t.m)),
        case!("item of meta", Runtime, "dtypes_shapes_and_devices/item of meta", t => ops::sum(&t.m, None, false, None)?.try_item::<f32>()),
        case!("item of many", Runtime, "dtypes_shapes_and_devices/item of many", t => t.x.try_item::<f32>()),
        case!("to a device without allocator", Runtime, "dtypes_shapes_and_devices/to a device without allocator", t => ops::to_copy(&t.x, None, None, Some(Device::Cuda(0)), None, false, None)),
    ]);
}
