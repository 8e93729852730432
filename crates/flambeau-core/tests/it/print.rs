//! Tensors print as PyTorch prints them: expected texts are PyTorch's own.

use flambeau_core::DType::{self, *};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::text::{PrintOptions, Profile, get_printoptions, printoptions, set_printoptions};
use flambeau_core::{B8, Device, Tensor, ops};
use flambeau_test_support::alone;
use num_complex::Complex;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn floats(v: &[f64], sizes: &[i64], d: DType) -> Tensor {
    Tensor::from_slice(v, sizes).to(d)
}
fn ints(v: &[i64], sizes: &[i64], d: DType) -> Tensor {
    Tensor::from_slice(v, sizes).to(d)
}
fn bools(v: &[bool], sizes: &[i64], d: DType) -> Tensor {
    let v: Vec<B8> = v.iter().map(|b| B8::from(*b)).collect();
    Tensor::from_vec(v, sizes).to(d)
}
fn complexes(v: &[Complex<f64>], sizes: &[i64], d: DType) -> Tensor {
    Tensor::from_slice(v, sizes).to(d)
}
fn c(re: f64, im: f64) -> Complex<f64> {
    Complex::new(re, im)
}
fn counting(sizes: &[i64]) -> Tensor {
    let n = sizes.iter().product();
    Tensor::from_vec((0..n).collect::<Vec<i64>>(), sizes)
}
#[track_caller]
fn check(t: Tensor, o: PrintOptions, want: &str) {
    let got = printoptions(o, || t.to_string());
    assert!(got == want, "got\n{got}\nwant\n{want}");
    assert_eq!(printoptions(o, || format!("{t:?}")), want);
}

#[test]
fn elements_of_all_types() {
    check(floats(&[0.0], &[], F32), PrintOptions::new(), "tensor(0.)");
    check(ints(&[3], &[], I64), PrintOptions::new(), "tensor(3)");
    check(bools(&[true], &[], Bool), PrintOptions::new(), "tensor(True)");
    check(floats(&[10000000000.0], &[], F32), PrintOptions::new(), "tensor(1.0000e+10)");
    check(floats(&[NAN], &[], F32), PrintOptions::new(), "tensor(nan)");
    check(complexes(&[c(1.0, 2.0)], &[], C64), PrintOptions::new(), "tensor(1.+2.j)");
    check(floats(&[0.1], &[], F64), PrintOptions::new(), "tensor(0.1000, dtype=torch.float64)");
    check(ints(&[], &[0], I64), PrintOptions::new(), "tensor([], dtype=torch.int64)");
    check(bools(&[], &[0], Bool), PrintOptions::new(), "tensor([], dtype=torch.bool)");
    check(complexes(&[], &[0], C64), PrintOptions::new(), "tensor([], dtype=torch.complex64)");
    check(bools(&[true, false], &[2], Bool), PrintOptions::new(), "tensor([ True, False])");
    check(
        floats(&[-0.13955402374267578, -0.04422574117779732, -0.23146174848079681], &[3], F64),
        PrintOptions::new(),
        "tensor([-0.1396, -0.0442, -0.2315], dtype=torch.float64)",
    );
    check(
        floats(&[0.2310791015625, -0.87060546875, 1.53125, -0.250244140625], &[2, 2], F16),
        PrintOptions::new(),
        "tensor([[ 0.2311, -0.8706],\n        [ 1.5312, -0.2502]], dtype=torch.float16)",
    );
    check(
        floats(&[1.171875, -1.96875, -0.2412109375, 1.7109375], &[2, 2], BF16),
        PrintOptions::new(),
        "tensor([[ 1.1719, -1.9688],\n        [-0.2412,  1.7109]], dtype=torch.bfloat16)",
    );
    check(floats(&[65504.0], &[1], F16), PrintOptions::new(), "tensor([65504.], dtype=torch.float16)");
    check(
        ints(&[53, 164, 32, 134, 65], &[5], U8),
        PrintOptions::new(),
        "tensor([ 53, 164,  32, 134,  65], dtype=torch.uint8)",
    );
    check(
        ints(&[-60, 12, 98, 40, 39, 77], &[2, 3], I8),
        PrintOptions::new(),
        "tensor([[-60,  12,  98],\n        [ 40,  39,  77]], dtype=torch.int8)",
    );
    check(
        ints(&[-814, -547, -245, -28], &[4], I16),
        PrintOptions::new(),
        "tensor([-814, -547, -245,  -28], dtype=torch.int16)",
    );
    check(
        ints(&[-888723, -389230, -34339, -343495], &[4], I32),
        PrintOptions::new(),
        "tensor([-888723, -389230,  -34339, -343495], dtype=torch.int32)",
    );
    check(ints(&[1, 2], &[2], U16), PrintOptions::new(), "tensor([1, 2], dtype=torch.uint16)");
    check(
        complexes(
            &[
                c(1.455693006515503, 0.6715559363365173),
                c(-0.9171684384346008, 0.8287416100502014),
                c(-0.7176714539527893, -1.6877846717834473),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new(),
        "tensor([ 1.4557+0.6716j, -0.9172+0.8287j, -0.7177-1.6878j])",
    );
    check(
        complexes(
            &[
                c(-0.3227018713951111, -1.1371134519577026),
                c(-0.42500871419906616, 0.24444235861301422),
                c(-0.7500954270362854, 0.13278476893901825),
                c(-0.1067732498049736, 0.5550864934921265),
            ],
            &[2, 2],
            C128,
        ),
        PrintOptions::new(),
        "tensor([[-0.3227-1.1371j, -0.4250+0.2444j],\n        [-0.7501+0.1328j, -0.1068+0.5551j]], dtype=torch.complex128)",
    );
}
#[test]
fn options() {
    check(
        floats(&[1.0, 2.5, 9.999999747378752e-05], &[3], F32),
        PrintOptions::new().precision(2),
        "tensor([1.00e+00, 2.50e+00, 1.00e-04])",
    );
    check(
        complexes(
            &[
                c(0.10435913503170013, 0.45195233821868896),
                c(-1.23379385471344, -2.1764230728149414),
                c(-2.5864040851593018, 0.11485417932271957),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new().precision(2),
        "tensor([ 0.10+0.45j, -1.23-2.18j, -2.59+0.11j])",
    );
    check(floats(&[NAN, 1.25], &[2], F32), PrintOptions::new().precision(2), "tensor([ nan, 1.25])");
    check(
        complexes(
            &[
                c(0.10435913503170013, 0.45195233821868896),
                c(-1.23379385471344, -2.1764230728149414),
                c(-2.5864040851593018, 0.11485417932271957),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new().precision(0),
        "tensor([ 0+0j, -1-2j, -3+0j])",
    );
    check(
        floats(&[1.0, 2.5, 9.999999747378752e-05], &[3], F32),
        PrintOptions::new().sci_mode(true),
        "tensor([1.0000e+00, 2.5000e+00, 1.0000e-04])",
    );
    check(
        complexes(
            &[
                c(0.10435913503170013, 0.45195233821868896),
                c(-1.23379385471344, -2.1764230728149414),
                c(-2.5864040851593018, 0.11485417932271957),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new().sci_mode(true),
        "tensor([ 1.0436e-01+4.5195e-01j, -1.2338e+00-2.1764e+00j,\n        -2.5864e+00+1.1485e-01j])",
    );
    check(
        floats(&[NAN, 1.25], &[2], F32),
        PrintOptions::new().sci_mode(true),
        "tensor([       nan, 1.2500e+00])",
    );
    check(
        complexes(
            &[
                c(0.10435913503170013, 0.45195233821868896),
                c(-1.23379385471344, -2.1764230728149414),
                c(-2.5864040851593018, 0.11485417932271957),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new().linewidth(200),
        "tensor([ 0.1044+0.4520j, -1.2338-2.1764j, -2.5864+0.1149j])",
    );
    check(
        floats(&[1.0, 2.5, 9.999999747378752e-05], &[3], F32),
        PrintOptions::new().profile(Profile::Short),
        "tensor([1.00e+00, 2.50e+00, 1.00e-04])",
    );
    check(
        complexes(
            &[
                c(0.10435913503170013, 0.45195233821868896),
                c(-1.23379385471344, -2.1764230728149414),
                c(-2.5864040851593018, 0.11485417932271957),
            ],
            &[3],
            C64,
        ),
        PrintOptions::new().profile(Profile::Short),
        "tensor([ 0.10+0.45j, -1.23-2.18j, -2.59+0.11j])",
    );
    check(
        floats(&[NAN, 1.25], &[2], F32),
        PrintOptions::new().profile(Profile::Short),
        "tensor([ nan, 1.25])",
    );
    check(
        floats(&[1.0, 2.5, 9.999999747378752e-05], &[3], F32),
        PrintOptions::new().sci_mode(true).precision(2),
        "tensor([1.00e+00, 2.50e+00, 1.00e-04])",
    );
}
#[test]
fn shapes_and_summaries() {
    check(counting(&[1001]), PrintOptions::new(), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    check(
        counting(&[40, 30]),
        PrintOptions::new(),
        "tensor([[   0,    1,    2,  ...,   27,   28,   29],\n        [  30,   31,   32,  ...,   57,   58,   59],\n        [  60,   61,   62,  ...,   87,   88,   89],\n        ...,\n        [1110, 1111, 1112,  ..., 1137, 1138, 1139],\n        [1140, 1141, 1142,  ..., 1167, 1168, 1169],\n        [1170, 1171, 1172,  ..., 1197, 1198, 1199]])",
    );
    check(
        counting(&[8, 9, 20]),
        PrintOptions::new(),
        "tensor([[[   0,    1,    2,  ...,   17,   18,   19],\n         [  20,   21,   22,  ...,   37,   38,   39],\n         [  40,   41,   42,  ...,   57,   58,   59],\n         ...,\n         [ 120,  121,  122,  ...,  137,  138,  139],\n         [ 140,  141,  142,  ...,  157,  158,  159],\n         [ 160,  161,  162,  ...,  177,  178,  179]],\n\n        [[ 180,  181,  182,  ...,  197,  198,  199],\n         [ 200,  201,  202,  ...,  217,  218,  219],\n         [ 220,  221,  222,  ...,  237,  238,  239],\n         ...,\n         [ 300,  301,  302,  ...,  317,  318,  319],\n         [ 320,  321,  322,  ...,  337,  338,  339],\n         [ 340,  341,  342,  ...,  357,  358,  359]],\n\n        [[ 360,  361,  362,  ...,  377,  378,  379],\n         [ 380,  381,  382,  ...,  397,  398,  399],\n         [ 400,  401,  402,  ...,  417,  418,  419],\n         ...,\n         [ 480,  481,  482,  ...,  497,  498,  499],\n         [ 500,  501,  502,  ...,  517,  518,  519],\n         [ 520,  521,  522,  ...,  537,  538,  539]],\n\n        ...,\n\n        [[ 900,  901,  902,  ...,  917,  918,  919],\n         [ 920,  921,  922,  ...,  937,  938,  939],\n         [ 940,  941,  942,  ...,  957,  958,  959],\n         ...,\n         [1020, 1021, 1022,  ..., 1037, 1038, 1039],\n         [1040, 1041, 1042,  ..., 1057, 1058, 1059],\n         [1060, 1061, 1062,  ..., 1077, 1078, 1079]],\n\n        [[1080, 1081, 1082,  ..., 1097, 1098, 1099],\n         [1100, 1101, 1102,  ..., 1117, 1118, 1119],\n         [1120, 1121, 1122,  ..., 1137, 1138, 1139],\n         ...,\n         [1200, 1201, 1202,  ..., 1217, 1218, 1219],\n         [1220, 1221, 1222,  ..., 1237, 1238, 1239],\n         [1240, 1241, 1242,  ..., 1257, 1258, 1259]],\n\n        [[1260, 1261, 1262,  ..., 1277, 1278, 1279],\n         [1280, 1281, 1282,  ..., 1297, 1298, 1299],\n         [1300, 1301, 1302,  ..., 1317, 1318, 1319],\n         ...,\n         [1380, 1381, 1382,  ..., 1397, 1398, 1399],\n         [1400, 1401, 1402,  ..., 1417, 1418, 1419],\n         [1420, 1421, 1422,  ..., 1437, 1438, 1439]]])",
    );
    check(counting(&[1001]), PrintOptions::new().edgeitems(0), "tensor([...], size=(1001,))");
    check(counting(&[2, 600]), PrintOptions::new().edgeitems(0), "tensor([...], size=(2, 600))");
    check(
        counting(&[20]),
        PrintOptions::new().linewidth(30),
        "tensor([ 0,  1,  2,  3,  4,\n         5,  6,  7,  8,  9,\n        10, 11, 12, 13, 14,\n        15, 16, 17, 18, 19])",
    );
    check(
        counting(&[2, 1, 2, 2]),
        PrintOptions::new(),
        "tensor([[[[0, 1],\n          [2, 3]]],\n\n\n        [[[4, 5],\n          [6, 7]]]])",
    );
    check(
        counting(&[12]).to(F64),
        PrintOptions::new().threshold(10).edgeitems(1),
        "tensor([ 0.,  ..., 11.], dtype=torch.float64)",
    );
    check(
        counting(&[12]).to((F64, Device::Meta)),
        PrintOptions::new(),
        "tensor(..., device='meta', size=(12,), dtype=torch.float64)",
    );
    check(
        counting(&[2, 3]).to((F32, Device::Meta)),
        PrintOptions::new(),
        "tensor(..., device='meta', size=(2, 3))",
    );
    check(floats(&[], &[2, 0], F64), PrintOptions::new(), "tensor([], size=(2, 0), dtype=torch.float64)");
    check(floats(&[INF, -INF, NAN, 0.0], &[4], F32), PrintOptions::new(), "tensor([inf, -inf, nan, 0.])");
    check(floats(&[1.0, NAN], &[2], F32), PrintOptions::new(), "tensor([1., nan])");
    check(
        floats(&[1.0, 448.0, 0.0625], &[3], F8E4M3),
        PrintOptions::new(),
        "tensor([1.0000e+00, 4.4800e+02, 6.2500e-02], dtype=torch.float8_e4m3fn)",
    );
}
#[test]
fn lazy_bits_and_strides() {
    let z = complexes(&[c(1.0, 2.0), c(-0.0, -0.5)], &[2], C64);
    check(ops::conj(&z).unwrap(), PrintOptions::new(), "tensor([1.-2.0000j, -0.+0.5000j])");
    let t = ops::t(&counting(&[2, 3])).unwrap();
    check(t, PrintOptions::new(), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
}
#[test]
fn default_dtypes() {
    alone!();
    promotion::set_default_dtype(F64).unwrap();
    check(floats(&[1.5], &[1], F32), PrintOptions::new(), "tensor([1.5000], dtype=torch.float32)");
    check(
        floats(&[-0.35607796907424927, 0.7879047989845276], &[2], F64),
        PrintOptions::new(),
        "tensor([-0.3561,  0.7879])",
    );
    check(
        floats(&[-0.06781005859375, 1.150390625], &[2], F16),
        PrintOptions::new(),
        "tensor([-0.0678,  1.1504], dtype=torch.float16)",
    );
    check(complexes(&[c(0.0, 1.0)], &[1], C128), PrintOptions::new(), "tensor([0.+1.j])");
    check(ints(&[1], &[1], I64), PrintOptions::new(), "tensor([1])");
    promotion::set_default_dtype(F16).unwrap();
    check(floats(&[1.5], &[1], F32), PrintOptions::new(), "tensor([1.5000], dtype=torch.float32)");
    check(
        floats(&[-0.6089312434196472, -0.9288526177406311], &[2], F64),
        PrintOptions::new(),
        "tensor([-0.6089, -0.9289], dtype=torch.float64)",
    );
    check(
        floats(&[0.59033203125, -0.97607421875], &[2], F16),
        PrintOptions::new(),
        "tensor([ 0.5903, -0.9761])",
    );
    check(
        complexes(&[c(0.0, 1.0)], &[1], C128),
        PrintOptions::new(),
        "tensor([0.+1.j], dtype=torch.complex128)",
    );
    check(ints(&[1], &[1], I64), PrintOptions::new(), "tensor([1])");
    promotion::set_default_dtype(F32).unwrap();
}

#[test]
fn options_are_kept_and_given_back() {
    alone!();
    let before = get_printoptions();
    set_printoptions(PrintOptions::new().precision(2).sci_mode(true));
    set_printoptions(PrintOptions::new().edgeitems(7));
    let now = get_printoptions();
    // a call that does not name sci_mode makes it automatic again
    assert_eq!((now.precision, now.edgeitems, now.sci_mode), (2, 7, None));
    assert_eq!(floats(&[1.5], &[1], F32).to_string(), "tensor([1.50])");
    printoptions(PrintOptions::new().precision(1), || {
        assert_eq!(floats(&[1.5], &[1], F32).to_string(), "tensor([1.5])");
        // another thread does not see it
        let other = std::thread::spawn(|| floats(&[1.5], &[1], F32).to_string()).join().unwrap();
        assert_eq!(other, "tensor([1.50])");
    });
    set_printoptions(before);
    assert_eq!(get_printoptions(), before);
}

/// The end of a line decides where `grad_fn` goes; the name comes from the gradient graph.
#[test]
fn history() {
    use flambeau_core::tensor::graph::{Edge, Node, NodeHeader};
    struct Add(NodeHeader);
    impl Node for Add {
        fn header(&self) -> &NodeHeader {
            &self.0
        }
        fn name(&self) -> std::borrow::Cow<'static, str> {
            "AddBackward0".into()
        }
        fn apply(
            &self,
            _: &std::sync::Arc<dyn Node>,
            _: &mut [Option<Tensor>],
        ) -> flambeau_core::Result<smallvec::SmallVec<[Option<Tensor>; 2]>> {
            Ok(Default::default())
        }
    }
    let t = floats(&[1.0, 2.5], &[2], F64);
    t.set_first_edge(Edge::new(
        std::sync::Arc::new(Add(NodeHeader::new(Default::default(), Default::default()))),
        0,
    ));
    check(
        t.clone(),
        PrintOptions::new(),
        "tensor([1.0000, 2.5000], dtype=torch.float64, grad_fn=<AddBackward0>)",
    );
    check(
        t,
        PrintOptions::new().linewidth(50),
        "tensor([1.0000, 2.5000], dtype=torch.float64,\n       grad_fn=<AddBackward0>)",
    );
}

#[test]
fn a_borrowed_tensor_says_so() {
    let t = floats(&[1.0], &[1], F32);
    let guard = t.data_mut::<f32>();
    let text = t.to_string();
    assert!(text.starts_with("tensor(<") && text.ends_with(">, size=(1,), dtype=torch.float32)"), "{text}");
    drop(guard);
    assert_eq!(t.to_string(), "tensor([1.])");
}

/// PyTorch's C++ text, which stands in a few errors.
#[test]
fn the_text_of_cpp() {
    use flambeau_core::text::cpp_text;
    let cases = [
        (floats(&[0.0, 1.0, 2.0, 3.0], &[2, 2], F32), " 0  1\n 2  3\n[ torch.FloatTensor{2,2} ]"),
        (
            floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[2, 2, 2], F64),
            "(1,.,.) = \n 0  1\n  2  3\n\n(2,.,.) = \n 4  5\n  6  7\n[ torch.DoubleTensor{2,2,2} ]",
        ),
        (floats(&[1e10, 2.5], &[1, 2], F32), " 1.0000e+10  2.5000e+00\n[ torch.FloatTensor{1,2} ]"),
        (floats(&[100000.5, 20.0], &[1, 2], F32), "100000 *\n 1.0000  0.0002\n[ torch.FloatTensor{1,2} ]"),
    ];
    for (t, want) in cases {
        assert_eq!(cpp_text(&t).unwrap(), want);
    }
}

/// The digits of Python's `format`.
#[test]
fn digits_are_pythons() {
    use flambeau_core::internal::digits::{fixed, sci};
    // halves round to even, on the exact binary value
    let cases = [
        (0.5, 0, "0"),
        (1.5, 0, "2"),
        (2.5, 0, "2"),
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        (2.675, 2, "2.67"),
        (-0.0, 4, "-0.0000"),
        (1e22, 0, "10000000000000000000000"),
        (123456.789, 4, "123456.7890"),
        (f64::INFINITY, 4, "inf"),
        (f64::NEG_INFINITY, 4, "-inf"),
        (f64::NAN, 4, "nan"),
    ];
    for (v, d, want) in cases {
        assert_eq!(fixed(v, d), want, "{v} with {d} digits");
    }
    let cases = [
        (1e10, 4, "1.0000e+10"),
        (1.5e-7, 2, "1.50e-07"),
        (0.0, 4, "0.0000e+00"),
        (-1e300, 0, "-1e+300"),
        (5e-324, 4, "4.9407e-324"),
        (9.99999, 2, "1.00e+01"),
        (f64::NAN, 4, "nan"),
    ];
    for (v, d, want) in cases {
        assert_eq!(sci(v, d), want, "{v} with {d} digits");
    }
}

#[test]
fn floats_as_python_writes_them() {
    use flambeau_core::text::PyText;
    let cases = [
        (0.1, "0.1"),
        (1.0, "1.0"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (1e16, "1e+16"),
        (123456789.0, "123456789.0"),
        (1.5e-7, "1.5e-07"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        // two texts of as many digits are equally near: the even one
        (2.713_661_193_847_656_25, "2.7136611938476562"),
        (9_007_199_254_740_993.0, "9007199254740992.0"),
        (5e-324, "5e-324"),
    ];
    for (v, want) in cases {
        assert_eq!(v.py_text(), want);
    }
}
