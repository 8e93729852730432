//! The fused steps as operators: values of PyTorch's, lists that lie in all ways, gradient scalers, derived forms, errors.

use crate::{floats, near, numbers};
use flambeau_core::{DType, Device, ErrorKind, Result, Tensor, Value, ops};
use flambeau_library::call;
use flambeau_optim::ops as steps;

fn vector(n: usize, seed: f64) -> Tensor {
    Tensor::from_slice(&numbers(n, seed), n as i64)
}
fn params() -> Vec<Tensor> {
    vec![vector(3, 0.7), vector(2, 0.4)]
}
fn grads(by: f64) -> Vec<Tensor> {
    vec![vector(3, 1.1) * by, vector(2, 0.9) * by]
}
fn zeros() -> Vec<Tensor> {
    vec![Tensor::from_slice(&[0f64; 3], 3), Tensor::from_slice(&[0f64; 2], 2)]
}
fn count(step: usize) -> Vec<Tensor> {
    vec![Tensor::from_slice(&[step as f32], ()); 2]
}

/// Lists of a step of Adam.
struct Lists {
    p: Vec<Tensor>,
    g: Vec<Tensor>,
    m: Vec<Tensor>,
    v: Vec<Tensor>,
    top: Vec<Tensor>,
}
impl Lists {
    fn new(amsgrad: bool) -> Self {
        let top = if amsgrad { zeros() } else { vec![] };
        Lists { p: params(), g: grads(1.0), m: zeros(), v: zeros(), top }
    }
    fn to(mut self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        for l in [&mut self.p, &mut self.g, &mut self.m, &mut self.v, &mut self.top] {
            *l = l.iter().map(&f).collect();
        }
        self
    }
    fn adam(&self, step: usize, scale: Option<&Tensor>, inf: Option<&Tensor>) -> Result<()> {
        let Lists { p, g, m, v, top } = self;
        let (lr, amsgrad) = (0.1, !top.is_empty());
        let steps = count(step);
        steps::fused_adam_(p, g, m, v, top, &steps, lr, 0.8, 0.95, 0.02, 1e-6, amsgrad, false, scale, inf)
    }
    fn values(&self) -> Vec<f64> {
        self.p.iter().flat_map(|t| floats(&t.to(DType::F64))).collect()
    }
}
/// Three steps with falling gradients.
fn three(f: impl Fn(&[Tensor], &[Tensor], [&[Tensor]; 3], usize) -> Result<()>) -> Vec<f64> {
    let (p, kept) = (params(), [zeros(), zeros(), zeros()]);
    for (i, by) in [1.0, 0.3, 0.1].into_iter().enumerate() {
        f(&p, &grads(by), [&kept[0], &kept[1], &kept[2]], i + 1).unwrap();
    }
    p.iter().flat_map(floats).collect()
}

#[test]
fn values_are_pytorchs() {
    let adam = |decoupled: bool, amsgrad: bool, maximize: bool| {
        let call = if decoupled { steps::fused_adamw_ } else { steps::fused_adam_ };
        three(|p, g, [m, v, top], i| {
            let top = if amsgrad { top } else { &[] };
            call(p, g, m, v, top, &count(i), 0.1, 0.8, 0.95, 0.02, 1e-6, amsgrad, maximize, None, None)
        })
    };
    let sgd = |momentum: f64, dampening: f64, nesterov: bool, maximize: bool| {
        three(|p, g, [b, ..], i| {
            let b = if momentum == 0.0 { &[] } else { b };
            steps::fused_sgd_(p, g, b, 0.02, momentum, 0.1, dampening, nesterov, maximize, i == 1, None, None)
        })
    };
    let adagrad = three(|p, g, [s, ..], i| {
        steps::fused_adagrad_(p, g, s, &count(i), 0.1, 0.2, 0.02, 1e-6, false, None, None)
    });
    let want = [
        (
            adam(false, false, false),
            [
                0.5864490160887462,
                0.794515282650356,
                1.0347791880669086,
                0.29440452700052944,
                0.5923594240117696,
            ],
        ),
        (
            adam(false, true, true),
            [
                1.0872641256107207,
                1.2943948745239517,
                0.535408957558461,
                0.7952337418575124,
                1.0930423353864966,
            ],
        ),
        (
            adam(true, true, false),
            [
                0.5848472586042187,
                0.7933195086780384,
                1.0339097725994562,
                0.29397591148994534,
                0.5909086624519897,
            ],
        ),
        (
            sgd(0.9, 0.3, false, false),
            [
                0.5014902898024457,
                0.8412240966771081,
                0.9145702295587052,
                0.23364577678107923,
                0.5431169694606798,
            ],
        ),
        (
            sgd(0.9, 0.0, true, true),
            [
                1.2856858790276255,
                1.3082376569850456,
                0.5910832578860248,
                0.9671073117673145,
                1.24212807221269,
            ],
        ),
        (
            sgd(0.0, 0.0, false, false),
            [
                0.6893401781893831,
                0.9558515957503658,
                0.8427788403918544,
                0.40814648849494795,
                0.7110496742342587,
            ],
        ),
        (
            adagrad,
            [
                0.7072895632489369,
                0.9153869897268968,
                0.9146004474748494,
                0.4152096184717515,
                0.7132013810618938,
            ],
        ),
    ];
    for (i, (got, want)) in want.iter().enumerate() {
        near(&format!("case {i}"), got, want, 1e-14);
    }
}

#[test]
fn lists_may_lie_in_all_ways_and_dtypes() {
    let plain = Lists::new(true);
    plain.adam(1, None, None).unwrap();
    let check = |name: &str, l: Lists, tol: f64| {
        l.adam(1, None, None).unwrap();
        near(name, &l.values(), &plain.values(), tol);
        near(name, &floats(&l.m[0].to(DType::F64)), &floats(&plain.m[0]), tol);
    };
    // every second element of another tensor; the gradient backwards in a negated view would be refused by nobody
    let gaps = |t: &Tensor| {
        let wide = ops::stack(&[t.clone(), t.clone()], 1).unwrap();
        wide.select(1, 0)
    };
    check("gaps", Lists::new(true).to(gaps), 1e-15);
    check(
        "broadcast gradients",
        {
            let mut l = Lists::new(true);
            l.g[0] = l.g[0].unsqueeze(0).expand([1, 3]).select(0, 0);
            l
        },
        1e-15,
    );
    for (dtype, tol) in [(DType::F32, 1e-6), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        check(&dtype.to_string(), Lists::new(true).to(|t| t.to(dtype)), tol);
    }
    // parameters of several dtypes in one call, and forty of them
    let mut l = Lists::new(true);
    let narrow = Lists::new(true).to(|t| t.to(DType::F32));
    (l.p[1], l.g[1]) = (narrow.p[1].clone(), narrow.g[1].clone());
    (l.m[1], l.v[1], l.top[1]) = (narrow.m[1].clone(), narrow.v[1].clone(), narrow.top[1].clone());
    check("several dtypes", l, 1e-6);
    let many = |v: &[Tensor]| (0..40).map(|_| v[0].copy()).collect::<Vec<_>>();
    let (l, steps) = (Lists::new(false), vec![Tensor::from_slice(&[1f32], ()); 40]);
    let (p, g) = (many(&l.p), many(&l.g));
    let (m, v) = (many(&l.m), many(&l.v));
    steps::fused_adam_(&p, &g, &m, &v, &[], &steps, 0.1, 0.8, 0.95, 0.02, 1e-6, false, false, None, None)
        .unwrap();
    p.iter().for_each(|p| near("many", &floats(p), &plain.values()[..3], 1e-15));
}

#[test]
fn shared_memory_is_updated_in_order() {
    // the same parameter twice takes two steps
    let p = Tensor::from_slice(&[1f64, 2.0], 2);
    let g = Tensor::from_slice(&[1f64, 1.0], 2);
    let twice = |t: &Tensor| vec![t.clone(), t.clone()];
    steps::fused_sgd_(&twice(&p), &twice(&g), &[], 0.0, 0.0, 0.5, 0.0, false, false, true, None, None)
        .unwrap();
    assert_eq!(floats(&p), [0.0, 1.0]);
    // parameter, gradient and buffer in one storage
    let whole = Tensor::from_slice(&[2.5f64, 5.0, 10.0, 20.0, 0.0, 0.0], 6);
    let part = |i: i64| vec![whole.narrow(0, 2 * i, 2)];
    steps::fused_sgd_(&part(0), &part(1), &part(2), 0.0, 0.5, 0.25, 0.0, false, false, true, None, None)
        .unwrap();
    assert_eq!(floats(&whole), [0.0, 0.0, 10.0, 20.0, 10.0, 20.0]);
}

#[test]
fn gradient_scalers() {
    let (no, yes) = (Tensor::from_slice(&[0f32], ()), Tensor::from_slice(&[1f32], ()));
    let two = Tensor::from_slice(&[2f32], ());
    let skipped = Lists::new(false);
    skipped.adam(1, Some(&two), Some(&yes)).unwrap();
    assert_eq!(skipped.values(), Lists::new(false).values());
    assert_eq!(floats(&skipped.g[0]), floats(&grads(1.0)[0]));
    let (scaled, plain) = (Lists::new(false).to(|t| t * 1.0), Lists::new(false));
    scaled.g.iter().for_each(|g| ops::mul_(g, &two).unwrap());
    scaled.adam(1, Some(&two), Some(&no)).unwrap();
    plain.adam(1, None, None).unwrap();
    assert_eq!(scaled.values(), plain.values());
    assert_eq!(floats(&scaled.g[0]), floats(&plain.g[0]), "gradients are divided in place");
    let double = Tensor::from_slice(&[2f64], ());
    let e = plain.adam(1, Some(&double), None).unwrap_err();
    assert_eq!(e.message(), "expected scalar type Float but found Double");
}

#[test]
fn forms_that_follow() {
    let want = Lists::new(false);
    want.adam(1, None, None).unwrap();
    let l = Lists::new(false);
    let (c, lr) = (count(1), Tensor::from_slice(&[0.1f64], ()));
    let (p, g, m, v, _) = steps::fused_adam(
        &l.p,
        &l.g,
        &l.m,
        &l.v,
        &[],
        &c,
        0.1,
        0.8,
        0.95,
        0.02,
        1e-6,
        false,
        false,
        None,
        None,
    )
    .unwrap();
    assert_eq!(l.values(), Lists::new(false).values(), "the functional form writes to nothing");
    assert_eq!((floats(&p[0]), floats(&m[0])), (floats(&want.p[0]), floats(&want.m[0])));
    assert_eq!((floats(&v[1]), floats(&g[1])), (floats(&want.v[1]), floats(&l.g[1])));
    let out = zeros();
    steps::fused_adam_tensor_lr_out(
        &l.p,
        &l.g,
        &l.m,
        &l.v,
        &[],
        &c,
        &lr,
        0.8,
        0.95,
        0.02,
        1e-6,
        false,
        false,
        None,
        None,
        &out,
    )
    .unwrap();
    assert_eq!(floats(&out[1]), floats(&want.p[1]));
    assert_eq!(floats(&l.m[0]), [0.0; 3]);
    let refused = |out: &[Tensor]| {
        let e = steps::fused_adam_out(
            &l.p,
            &l.g,
            &l.m,
            &l.v,
            &[],
            &c,
            0.1,
            0.8,
            0.95,
            0.02,
            1e-6,
            false,
            false,
            None,
            None,
            out,
        );
        let e = e.unwrap_err();
        (e.kind(), e.message().to_owned())
    };
    let single: Vec<Tensor> = out.iter().map(|t| t.to(DType::F32)).collect();
    assert_eq!(refused(&single).1, "Expected out tensor to have dtype double, but got float instead");
    assert_eq!(refused(&[out[1].clone(), out[0].clone()]).0, ErrorKind::Missing);
    assert!(refused(&out[..1]).1.contains("dst.size() == src.size()"));
    // gradients end here
    l.p[0].requires_grad_(true);
    let again = steps::fused_adam(
        &l.p,
        &l.g,
        &l.m,
        &l.v,
        &[],
        &c,
        0.1,
        0.8,
        0.95,
        0.02,
        1e-6,
        false,
        false,
        None,
        None,
    )
    .unwrap();
    assert!(!again.0[0].requires_grad());
}

#[test]
fn names_are_pytorchs() {
    let list = |l: Vec<Tensor>| Value::List(l.into_iter().map(Value::Tensor).collect());
    let float = |n: &str, v: f64| (n.to_string(), Value::Float(v));
    let yes = |n: &str, v: bool| (n.to_string(), Value::Bool(v));
    for name in ["torch._fused_sgd_", "aten::_fused_sgd_", "torch.ops.aten._fused_sgd_.tensor_lr"] {
        let p = params();
        let lr = match name.ends_with("tensor_lr") {
            true => ("lr".to_string(), Value::Tensor(Tensor::from_slice(&[0.5f64], ()))),
            false => float("lr", 0.5),
        };
        let kwargs = [
            float("weight_decay", 0.0),
            float("momentum", 0.0),
            lr,
            float("dampening", 0.0),
            yes("nesterov", false),
            yes("maximize", false),
            yes("is_first_step", true),
        ];
        call(name, &[list(p.clone()), list(grads(2.0)), list(vec![])], &kwargs).unwrap();
        assert_eq!(floats(&p[1]), floats(&(&params()[1] - &grads(1.0)[1])), "{name}");
    }
    // steps that PyTorch has no operator for stand under the library's own name
    let p = params();
    let kwargs = [
        float("lr", 1.0),
        float("rho", 0.9),
        float("eps", 1e-6),
        float("weight_decay", 0.0),
        yes("maximize", false),
    ];
    let lists = [list(p.clone()), list(grads(1.0)), list(zeros()), list(zeros())];
    call("flambeau::_fused_adadelta_", &lists, &kwargs).unwrap();
    assert!(floats(&p[0]) != floats(&params()[0]));
    assert!(call("aten::_fused_adadelta_", &lists, &kwargs).is_err());
}

#[test]
fn refusals() {
    let text = |l: Lists| l.adam(1, None, None).unwrap_err().message().to_owned();
    let with = |f: &dyn Fn(&mut Lists)| {
        let mut l = Lists::new(false);
        f(&mut l);
        text(l)
    };
    let sizes = |name: &str| format!("Expected {name}.size() == n_tensors to be true, but got false.");
    for (f, name) in [
        (&(|l: &mut Lists| drop(l.g.pop())) as &dyn Fn(&mut Lists), "grads"),
        (&|l| drop(l.m.pop()), "exp_avgs"),
        (&|l| l.v.clear(), "exp_avg_sqs"),
        (&|l| l.top = zeros()[..1].to_vec(), "max_exp_avg_sqs"),
        (
            &|l| {
                l.p.pop();
                l.g.pop();
                l.m.pop();
                l.v.pop();
            },
            "state_steps",
        ),
    ] {
        assert!(with(f).starts_with(&sizes(name)), "{name}: {}", with(f));
    }
    assert!(with(&|l| l.g[0] = vector(4, 1.0)).contains("does not fit"));
    assert_eq!(with(&|l| l.g[0] = l.g[0].to(DType::F32)), "expected scalar type Double but found Float");
    assert_eq!(with(&|l| l.m[1] = l.m[1].to(DType::F32)), "expected scalar type Double but found Float");
    let whole = Lists::new(false).to(|t| t.to(DType::I64));
    assert_eq!(text(whole), "\"fused_adam_kernel\" not implemented for 'Long'");
    // a count of steps of two elements
    let l = Lists::new(false);
    let c = vec![vector(2, 1.0); 2];
    let r = steps::fused_adam_(
        &l.p,
        &l.g,
        &l.m,
        &l.v,
        &[],
        &c,
        0.1,
        0.8,
        0.95,
        0.0,
        1e-6,
        false,
        false,
        None,
        None,
    );
    assert_eq!(r.unwrap_err().message(), "a Tensor with 2 elements cannot be converted to Scalar");
    // empty lists and the meta device have nothing to do
    steps::fused_sgd_(&[], &[], &[], 0.0, 0.0, 0.1, 0.0, false, false, true, None, None).unwrap();
    Lists::new(true).to(|t| t.to(Device::Meta)).adam(1, None, None).unwrap();
    // a borrowed parameter
    let l = Lists::new(false);
    let guard = l.p[1].elements::<f64>();
    assert!(l.adam(1, None, None).is_err());
    drop(guard);
}

/// What was saved for a backward pass is not what a step has written since.
#[test]
fn steps_count_as_writes() {
    let p = vector(3, 0.7);
    p.requires_grad_(true);
    let loss = (&p * &p).sum();
    let (g, list) = (vec![vector(3, 1.1)], vec![p.clone()]);
    steps::fused_sgd_(&list, &g, &[], 0.0, 0.0, 0.1, 0.0, false, false, true, None, None).unwrap();
    let e = loss.try_backward(Default::default()).unwrap_err();
    assert!(e.message().contains("modified by an inplace operation"), "{e}");
}
