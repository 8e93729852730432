//! Steps of optimizers and scales of gradients: by one kernel, with the CPU's results.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Result, Tensor};
use flambeau_optim::ops as optim;

/// Lists of parameters, gradients and three kept ones. Sizes fit packs and do not, and fill several blocks.
fn lists(d: DType) -> Vec<Vec<Tensor>> {
    let sizes: [&[i64]; 5] = [&[3, 5], &[64], &[9001], &[0, 2], &[7, 1, 2]];
    (0..5)
        .map(|k| {
            let of = |s: &&[i64]| {
                let t = flambeau_core::ops::add(&numbers(s), &Tensor::from_slice(&[k as f32], ()), 1.into());
                cast(&t.unwrap(), d)
            };
            sizes.iter().map(of).collect()
        })
        .collect()
}
type Step = fn(&[Vec<Tensor>], Option<&Tensor>, Option<&Tensor>) -> Result<()>;
fn counts(l: &[Vec<Tensor>]) -> Vec<Tensor> {
    vec![Tensor::from_slice(&[3f32], ()); l[0].len()]
}
const STEPS: [(&str, Step); 16] = [
    ("adam", |l, s, f| {
        optim::fused_adam_(
            &l[0],
            &l[1],
            &l[2],
            &l[3],
            &[],
            &counts(l),
            0.1,
            0.9,
            0.99,
            0.01,
            1e-8,
            false,
            false,
            s,
            f,
        )
    }),
    ("amsgrad", |l, s, f| {
        let c = counts(l);
        optim::fused_adam_(&l[0], &l[1], &l[2], &l[3], &l[4], &c, 0.1, 0.9, 0.99, 0.0, 1e-8, true, true, s, f)
    }),
    ("adamw", |l, s, f| {
        optim::fused_adamw_(
            &l[0],
            &l[1],
            &l[2],
            &l[3],
            &[],
            &counts(l),
            0.1,
            0.3,
            0.99,
            0.1,
            1e-8,
            false,
            false,
            s,
            f,
        )
    }),
    ("sgd", |l, s, f| optim::fused_sgd_(&l[0], &l[1], &[], 0.1, 0.0, 0.2, 0.0, false, false, true, s, f)),
    ("momentum", |l, s, f| {
        optim::fused_sgd_(&l[0], &l[1], &l[2], 0.0, 0.9, 0.2, 0.1, false, true, false, s, f)
    }),
    ("nesterov", |l, s, f| {
        optim::fused_sgd_(&l[0], &l[1], &l[2], 0.1, 0.9, 0.2, 0.0, true, false, true, s, f)
    }),
    ("adagrad", |l, s, f| {
        optim::fused_adagrad_(&l[0], &l[1], &l[3], &counts(l), 0.1, 0.01, 0.1, 1e-10, false, s, f)
    }),
    ("adadelta", |l, _, _| optim::fused_adadelta_(&l[0], &l[1], &l[3], &l[4], 1.0, 0.9, 1e-6, 0.1, false)),
    ("adamax", |l, _, _| optim::fused_adamax_(&l[0], &l[1], &l[2], &l[3], 0.1, 0.9, 0.99, 1e-8, 0.1, true)),
    ("asgd", |l, _, _| optim::fused_asgd_(&l[0], &l[1], &l[2], 0.1, 0.5, 1e-4, 0.1, false)),
    ("asgd first", |l, _, _| optim::fused_asgd_(&l[0], &l[1], &l[2], 0.1, 1.0, 1e-4, 0.0, false)),
    ("nadam", |l, _, _| {
        optim::fused_nadam_(&l[0], &l[1], &l[2], &l[3], -0.1, -0.2, 0.3, 0.99, 0.9, 0.99, 1e-8, 0.1, false)
    }),
    ("radam", |l, _, _| {
        optim::fused_radam_(
            &l[0],
            &l[1],
            &l[2],
            &l[3],
            0.1,
            0.3,
            Some(0.2),
            0.7,
            1.0,
            0.9,
            0.99,
            1e-8,
            0.1,
            false,
        )
    }),
    ("radam first", |l, _, _| {
        optim::fused_radam_(&l[0], &l[1], &l[2], &l[3], 0.1, 0.3, None, 0.0, 0.9, 0.9, 0.99, 1e-8, 0.0, true)
    }),
    ("rmsprop", |l, _, _| {
        let none: &[Tensor] = &[];
        optim::fused_rmsprop_(&l[0], &l[1], &l[3], none, &l[2], 0.1, 0.9, 1e-8, 0.1, 0.5, false, false)?;
        optim::fused_rmsprop_(&l[0], &l[1], &l[4], &l[2], none, 0.1, 0.9, 10.0, 0.0, 0.0, true, true)
    }),
    ("rprop", |l, _, _| optim::fused_rprop_(&l[0], &l[1], &l[2], &l[3], 0.5, 1.2, 1e-6, 50.0, false)),
];

pub fn all() {
    for d in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let near = match d {
            DType::F64 => 1e-12,
            DType::F32 => 2e-6,
            DType::F16 => 2e-3,
            _ => 2e-2,
        };
        let scale = Tensor::from_slice(&[4f32], ());
        for (name, step) in STEPS {
            for found in [None, Some(0f32), Some(1.0)] {
                let found = found.map(|v| Tensor::from_slice(&[v], ()));
                let by = found.as_ref().map(|_| &scale);
                let here = lists(d);
                let away: Vec<Vec<Tensor>> = here.iter().map(|l| l.iter().map(there).collect()).collect();
                step(&here, by, found.as_ref()).unwrap();
                let before = flambeau_cuda::fallbacks();
                step(&away, by.map(there).as_ref(), found.as_ref().map(there).as_ref()).unwrap();
                assert_eq!(before, flambeau_cuda::fallbacks(), "{name}");
                for (k, (a, b)) in away.iter().flatten().zip(here.iter().flatten()).enumerate() {
                    agree(&format!("{name} {d} {k}"), a, b, near);
                }
            }
        }
    }
    // parameters that lie by columns, and more of them than one launch takes
    let many = |f: &dyn Fn(&Tensor) -> Tensor| {
        let all: Vec<Tensor> = (1..120).map(|i| f(&numbers(&[i % 7 + 1, 3]))).collect();
        let turned: Vec<Tensor> = all.iter().map(|t| flambeau_core::ops::t(t).unwrap()).collect();
        optim::fused_sgd_(
            &turned,
            &turned.iter().map(|t| flambeau_core::ops::neg(t).unwrap()).collect::<Vec<_>>(),
            &[],
            0.0,
            0.0,
            0.5,
            0.0,
            false,
            false,
            true,
            None,
            None,
        )
        .unwrap();
        all
    };
    for (a, b) in many(&there).iter().zip(many(&|t: &Tensor| t.clone())) {
        agree("many", a, &b, 1e-6);
    }
    scales();
}
fn scales() {
    use flambeau_amp::ops as amp;
    let before = flambeau_cuda::fallbacks();
    for wrong in [None, Some(f32::INFINITY), Some(f32::NAN)] {
        let run = |f: &dyn Fn(&Tensor) -> Tensor| {
            let mut grads: Vec<Tensor> =
                [DType::F32, DType::F16, DType::F64].map(|d| f(&cast(&numbers(&[70, 90]), d))).into();
            if let Some(v) = wrong {
                grads.push(f(&Tensor::from_slice(&[1f32, v, 2.0], 3)));
            }
            let (found, inverse) =
                (f(&Tensor::from_slice(&[0f32], 1)), f(&Tensor::from_slice(&[0.25f32], 1)));
            amp::amp_foreach_non_finite_check_and_unscale_(&grads, &found, &inverse).unwrap();
            let (scale, tracker) = (f(&Tensor::from_slice(&[8f32], ())), f(&Tensor::from_slice(&[1i32], ())));
            amp::amp_update_scale_(&scale, &tracker, &found, 2.0, 0.5, 2).unwrap();
            grads.extend([found, scale, tracker]);
            grads
        };
        for (a, b) in run(&there).iter().zip(run(&|t: &Tensor| t.clone())) {
            agree("scales", a, &b, 1e-6);
        }
    }
    assert_eq!(before, flambeau_cuda::fallbacks());
}
