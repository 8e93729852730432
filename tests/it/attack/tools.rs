//! Hostile numbers, times and shapes for the parts whose functions are no operators: jobs of several processes, quantized layers,
//! profilers, samplers, logs.

use super::parts::{Call, ends, fails, is, judge};
use super::{list, ramp};
use flambeau_test_support::here;
use std::sync::Arc;
use std::time::Duration;
use torch::ao::nn::quantized::functional as quantized;
use torch::ao::quantization::{ObserverClass, ObserverSpec};
use torch::distributed::device_mesh::{DeviceMesh, try_init_device_mesh};
use torch::distributed::simulation::{Cluster, Link, SimulateOptions, Step, try_simulate};
use torch::distributed::{self as dist, HashStore, PrefixStore, Store, run_in_threads};
use torch::library::{self, Value};
use torch::multiprocessing::SimpleQueue;
use torch::prelude::*;
use torch::profiler::{ProfileOptions, ScheduleOptions, TableOptions, profile, schedule};
use torch::utils::data::{
    BatchSampler, DistributedSamplerOptions, RandomSamplerOptions, Sampler, SequentialSampler,
    WeightedRandomSamplerOptions, try_random_split,
};
use torch::utils::tensorboard::{
    Bins, BoxOptions, EmbeddingOptions, HistogramOptions, PrCurveOptions, RawHistogram, SummaryWriter,
};
use torch::{DType, Device, Tensor, ops};

const TIMES: [Duration; 4] =
    [Duration::MAX, Duration::from_secs(u64::MAX), Duration::ZERO, Duration::from_nanos(1)];
const NUMBERS: [i64; 9] = [0, 1, -1, 3, 1 << 20, 1 << 40, 1 << 62, i64::MAX, i64::MIN];

fn integers(sizes: &[i64], d: DType) -> torch::Result<Tensor> {
    ops::quantize_per_tensor(&ramp(sizes), 0.1, 0, d)
}
fn wide(sizes: &[i64]) -> torch::Result<Tensor> {
    ops::expand(&ramp(&vec![1; sizes.len()]), sizes, false)
}
fn writer() -> torch::Result<(SummaryWriter, std::path::PathBuf)> {
    let at = std::env::temp_dir().join(format!("flambeau-attack-{}", std::process::id()));
    Ok((SummaryWriter::new(&at)?, at))
}

const CALLS: &[Call] = &[
    // times
    ("multiprocessing: waits without end", || {
        let q = SimpleQueue::new().ok()?;
        let _ = q.put(1i64);
        TIMES.into_iter().find_map(|t| {
            let got = q.get_timeout(t);
            let _ = q.put(1i64);
            got.err().map(|e| e.to_string())
        })
    }),
    ("futures: waits without end", || {
        let f = torch::futures::Future::<i64>::new();
        let other = f.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.set_result(1)
        });
        is(matches!(f.wait_for(Duration::MAX), Ok(Some(1))), "no result")
    }),
    ("distributed: stores with times without end", || {
        let s = HashStore::new();
        for t in TIMES {
            s.set_timeout(t);
            let _ = s.set("a", b"1");
            let _ = (s.get("a"), s.wait_timeout(&["a"], t), s.barrier("b", 1, t), s.check(&[]));
            let _ = s.barrier("c", 0, Duration::ZERO);
            let _ = s.barrier("d", i64::MIN, Duration::ZERO);
        }
        None
    }),
    ("distributed: a store of prefixes without end", || {
        let root: Arc<dyn Store> = Arc::new(HashStore::new());
        let s = (0..100_000).fold(root, |s, _| Arc::new(PrefixStore::new("p", s)) as Arc<dyn Store>);
        let _ = (s.timeout(), s.has_extended_api(), s.num_keys(), s.try_clone().map(|_| ()));
        s.set_timeout(Duration::from_secs(1));
        fails(s.set("a", b"1")).or(fails(s.get("a"))).or(fails(s.list_keys())).or(fails(s.check(&["a"])))
    }),
    ("distributed: a cluster out of this world", || {
        for latency in TIMES {
            for bandwidth in [0.0, f64::NAN, f64::INFINITY, 1e-300, -1.0, 1e300] {
                let c =
                    Cluster::new(Link::new(latency, bandwidth)).units_of(2, Link::network(f64::NAN, 1e308));
                let step =
                    Step::new(latency, Duration::MAX).optimizer(Duration::MAX).buckets([usize::MAX; 3]);
                for ranks in [0, 1, 2, 3, 1 << 20, usize::MAX, usize::MAX - 1] {
                    let _ = (c.all_reduce(usize::MAX, ranks).total(), c.all_reduce(0, ranks));
                    if let Ok(p) = c.predict(&step, ranks) {
                        let _ = (p.step(), p.efficiency(), p.dominant().to_string(), format!("{p:?}"));
                    }
                }
            }
        }
        None
    }),
    ("distributed: worlds out of this world", || {
        let worlds = [0, usize::MAX, 1 << 40];
        let refused = worlds.into_iter().find_map(|n| fails(try_simulate(n, |r| r, SimulateOptions::new())));
        refused.or_else(|| {
            let o = SimulateOptions::new()
                .cluster(Cluster::new(Link::new(Duration::MAX, 1.0)))
                .delay(Duration::MAX)
                .timeout(Duration::MAX)
                .run_into_timeouts(true);
            let r = try_simulate(
                2,
                |_| {
                    dist::simulation::compute(Duration::MAX);
                    dist::simulation::compute(Duration::MAX);
                    dist::try_all_reduce(&torch::ones([2]), dist::ReduceOptions::new()).map(|_| ())
                },
                o,
            );
            ends(r.map(|r| r.try_results().map(|_| ())))
        })
    }),
    ("distributed: meshes that do not fit", || {
        let wrong = run_in_threads(1, |_| {
            let shapes: [&[i64]; 10] = [
                &[],
                &[0],
                &[-1],
                &[-1, -1],
                &[2],
                &[1 << 40],
                &[1 << 62, 1 << 62],
                &[i64::MIN],
                &[i64::MAX, 2],
                &[1, 0],
            ];
            for s in shapes {
                if try_init_device_mesh("cpu", s, Default::default()).is_ok() {
                    return Some(format!("a mesh of {s:?}"));
                }
                let _ = DeviceMesh::try_new("cpu", &[0], s, Some(&[]));
                let _ = DeviceMesh::try_new("cpu", &[], s, None);
                let _ = DeviceMesh::try_new("cpu", &[i64::MIN], s, Some(&["a", "a"]));
                let _ = DeviceMesh::from_groups(&[], "cpu", &[0], s, &[]);
            }
            let m = DeviceMesh::try_new("cpu", &[0], &[1, 1], Some(&["a", "b"])).ok()?;
            for n in NUMBERS {
                let _ = (m.try_get_group(Some(n.into())), m.get_local_rank(Some(n.into())));
            }
            let none = m.slice(&[]).ok()?;
            let _ = (
                none.try_get_group(None),
                none.get_all_groups(),
                none.get_local_rank(None),
                none.to_string(),
            );
            let _ = (m.slice(&["b", "a"]), m.slice(&["a", "a"]), m.flatten(Some("a")), m.flatten(None));
            let _ = none.flatten(Some("é"));
            None
        });
        wrong.into_iter().flatten().next()
    }),
    ("distributed: collectives of every kind of tensor", || {
        let wrong = run_in_threads(1, |_| {
            let kinds = [
                wide(&[1 << 40]),
                wide(&[1 << 36, 2]),
                Ok(torch::zeros([0, 3])),
                Ok(torch::eye(2).to_sparse()),
                integers(&[2, 2], DType::QU8),
                Ok(torch::zeros_with([4], Device::Meta)),
                Ok(torch::ones([2, 2]).requires_grad_(true)),
                Ok(torch::ones([4, 2]).t()),
                ops::to_copy(&ramp(&[2]), Some(DType::C64), None, None, None, false, None),
                ops::to_copy(&ramp(&[2]), Some(DType::Bool), None, None, None, false, None),
            ];
            let kinds: Vec<Tensor> = kinds.into_iter().flatten().collect();
            for a in &kinds {
                let _ = dist::try_all_reduce(a, dist::ReduceOptions::new());
                let _ = dist::try_broadcast(a, 0, dist::CollectiveOptions::new());
                let _ = dist::try_reduce(a, 0, dist::ReduceOptions::new());
                for b in &kinds {
                    let l = [b.clone()];
                    let _ = dist::try_all_gather(&l, a, dist::CollectiveOptions::new());
                    let _ = dist::try_all_gather_into_tensor(b, a, dist::CollectiveOptions::new());
                    let _ = dist::try_reduce_scatter(a, &l, dist::ReduceOptions::new());
                    let _ = dist::try_reduce_scatter_tensor(a, b, dist::ReduceOptions::new());
                    let _ = dist::try_all_to_all(&l, std::slice::from_ref(a), dist::CollectiveOptions::new());
                    for sizes in [vec![], vec![i64::MAX], vec![-1], vec![i64::MAX, i64::MAX, 4]] {
                        let o = dist::AllToAllOptions::new()
                            .input_split_sizes(sizes.clone())
                            .output_split_sizes(sizes);
                        let _ = dist::try_all_to_all_single(b, a, o);
                    }
                }
                for peer in NUMBERS {
                    let _ = dist::try_broadcast(a, peer, dist::CollectiveOptions::new());
                    if peer != 0 {
                        let _ = dist::try_isend(a, peer, dist::MessageOptions::new());
                    }
                }
            }
            for ranks in [&[i64::MAX][..], &[-1], &[0, 0], &[]] {
                let _ = dist::try_new_group(ranks, dist::NewGroupOptions::new());
            }
            None::<String>
        });
        wrong.into_iter().flatten().next()
    }),
    ("distributed: averages over groups of no period", || {
        let wrong = run_in_threads(1, |_| {
            use torch::distributed::optim::{
                HierarchicalModelAverager, ModelAverager, PeriodicModelAverager,
            };
            let p = torch::nn::Parameter::new(torch::ones([1]));
            for a in NUMBERS {
                for b in NUMBERS {
                    if let Ok(mut m) = PeriodicModelAverager::try_new(a, b, None) {
                        m.set_step(i64::MAX);
                        let _ =
                            (m.try_average_parameters(&[p.clone()]), m.try_average_parameters(&[p.clone()]));
                        m.set_step(i64::MIN);
                        let _ = m.try_average_parameters(&[p.clone()]);
                    }
                    if let Ok(mut m) = HierarchicalModelAverager::try_new(&[(a, 1), (b, 1)], 0, None) {
                        let _ = m.try_average_parameters(&[p.clone()]);
                        m.set_step(i64::MAX);
                        let _ = m.try_average_parameters(&[p.clone()]);
                    }
                }
            }
            None::<String>
        });
        wrong.into_iter().flatten().next()
    }),
    // integers
    ("quantization: convolutions that move strangely", || {
        let (x, w) = (integers(&[1, 2, 4, 4], DType::QU8).ok()?, integers(&[2, 2, 2, 2], DType::QI8).ok()?);
        let lists: Vec<Vec<i64>> =
            NUMBERS.iter().flat_map(|n| [vec![*n], vec![*n; 2], vec![*n; 4]]).chain([vec![]]).collect();
        for l in &lists {
            for at in 0..4 {
                let mut o = quantized::ConvOptions::new(2);
                match at {
                    0 => o.stride = l.clone(),
                    1 => o.padding = l.clone(),
                    2 => o.dilation = l.clone(),
                    _ => o.groups = l.first().copied().unwrap_or(0),
                }
                let _ = quantized::try_convolution(&x, &w, None, o);
            }
        }
        for sizes in
            [&[2, 2][..], &[2], &[], &[2, 2, 0, 2], &[0, 2, 2, 2], &[2, 2, 2, 2, 2, 2, 2], &[2, 3, 2, 2]]
        {
            let Ok(w) = integers(sizes, DType::QI8) else { continue };
            for dims in [0, 1, 2, 3, 5] {
                let _ = quantized::try_convolution(&x, &w, None, quantized::ConvOptions::new(dims));
                let _ = quantized::try_convolution(&w, &w, None, quantized::ConvOptions::new(dims));
            }
            let _ = quantized::try_linear(&x, &w, None, None, None);
        }
        None
    }),
    ("quantization: products larger than memory", || {
        let (x, w) = (integers(&[1 << 20, 1], DType::QU8).ok()?, integers(&[1 << 20, 1], DType::QI8).ok()?);
        fails(quantized::try_linear(&x, &w, None, None, None)).or_else(|| {
            let packed =
                library::call("torch.ops.quantized.linear_prepack", &[(&w).into(), Value::None], &[]);
            let packed = packed.ok()?.pop()?;
            let x = Value::Tensor(ramp(&[1 << 20, 1]));
            fails(library::call("torch.ops.quantized.linear_dynamic", &[x, packed], &[]))
        })
    }),
    ("quantization: layers of no groups", || {
        for class in ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"] {
            for n in NUMBERS {
                let two = || Value::Int(2);
                for kwargs in ["groups", "stride", "padding", "dilation"] {
                    let kw = [(kwargs.to_string(), Value::Int(n))];
                    let class = format!("torch.ao.nn.quantized.{class}");
                    if let Ok(m) = library::object::construct(&class, &[two(), two(), two()], &kw) {
                        for x in [&[1, 2, 4][..], &[1, 2, 4, 4], &[1, 2, 4, 4, 4]] {
                            let Ok(x) = integers(x, DType::QU8) else { continue };
                            let _ = m.call(&[Value::Tensor(x)], &[]);
                        }
                    }
                }
            }
        }
        None
    }),
    ("quantization: observers of everything", || {
        for class in [
            ObserverClass::MinMax,
            ObserverClass::MovingAverageMinMax,
            ObserverClass::PerChannelMinMax,
            ObserverClass::Histogram,
        ] {
            for n in NUMBERS {
                // the search for the best range goes through all bins at each of its steps
                let bins = if n == 1 << 20 { 64 } else { n };
                let specs = [
                    ObserverSpec::new(class).bins(bins),
                    ObserverSpec::new(class).quant_min(n).quant_max(n.wrapping_add(1)),
                    ObserverSpec::new(class).quant_min(i64::MIN).quant_max(n),
                    ObserverSpec::new(class).ch_axis(n),
                    ObserverSpec::new(class).eps(n as f64),
                ];
                for s in specs {
                    let Ok(o) = s.try_build() else { continue };
                    for x in [
                        Ok(ramp(&[2, 3])),
                        Ok(ramp(&[])),
                        ops::zeros(&[0], None, None, None, None),
                        ops::full(&[2, 2], f64::NAN.into(), None, None, None, None),
                        ops::full(&[2, 2], f64::INFINITY.into(), None, None, None, None),
                        ops::full(&[2], 3e38.into(), None, None, None, None),
                        ops::full(&[2], (-3e38).into(), None, None, None, None),
                        ops::full(&[2], 1e-45.into(), None, None, None, None),
                    ]
                    .into_iter()
                    .flatten()
                    {
                        let _ = (o.try_observe(&x), o.try_calculate_qparams());
                    }
                }
            }
        }
        None
    }),
    // tools
    ("profiler: schedules at the ends", || {
        for a in NUMBERS {
            for b in NUMBERS {
                for active in [1, 2, i64::MAX] {
                    let o = ScheduleOptions { wait: a, warmup: b, active, repeat: a, skip_first: b };
                    let Ok(s) = schedule(o) else { continue };
                    NUMBERS.into_iter().for_each(|n| {
                        let _ = s(n);
                    });
                    let o = ScheduleOptions { wait: a, warmup: b, active, repeat: 0, skip_first: 0 };
                    if let Ok(s) = schedule(o) {
                        NUMBERS.into_iter().for_each(|n| {
                            let _ = s(n);
                        });
                    }
                }
            }
        }
        None
    }),
    ("profiler: tables at the ends", || {
        let p = profile(ProfileOptions::new().record_shapes(true).with_flops(true).with_stack(true), |p| {
            for _ in 0..3 {
                let _label = torch::profiler::RecordFunction::new("é🔥".repeat(40));
                let _ = wide(&[1 << 40]).and_then(|t| ops::reshape(&t, &[1 << 20, 1 << 20]));
                let w = torch::zeros_with([1i64 << 30, 1 << 30], Device::Meta);
                let _ = ops::mm(&w, &w);
                p.step();
            }
        });
        for n in [0, 1, 2, 3, usize::MAX] {
            for row_limit in NUMBERS {
                let o = TableOptions {
                    sort_by: [None, Some("é".to_string()), Some("count".to_string())][n % 3].clone(),
                    row_limit,
                    header: Some("é".into()),
                    max_name_column_width: n,
                    max_src_column_width: n,
                    max_shapes_column_width: n,
                    top_level_events_only: n % 2 == 0,
                };
                let _ = (p.table(o.clone()), p.key_averages(true).table(o));
            }
        }
        let nowhere = std::path::Path::new("/nowhere/é");
        fails(p.export_chrome_trace(nowhere)).or(fails(p.export_stacks(nowhere)))
    }),
    ("flops: sizes in no memory", || {
        let mut c = torch::utils::flop_counter::FlopCounterMode::new();
        let w = torch::zeros_with([1i64 << 30, 1 << 30], Device::Meta);
        let _ = (
            ops::mm(&w, &w),
            ops::mm(&w, &w),
            ops::bmm(
                &torch::zeros_with([2i64, 1 << 40, 3], Device::Meta),
                &torch::zeros_with([2i64, 3, 1 << 40], Device::Meta),
            ),
        );
        c.stop();
        ends((c.get_total_flops(), c.get_table(None), c.get_table(Some(0))))
    }),
    ("benchmark: fuzzers of everything", || {
        use torch::utils::benchmark::{Choice, Distribution, FuzzedParameter, FuzzedTensor, Fuzzer};
        for a in NUMBERS {
            for b in NUMBERS {
                for d in [
                    Distribution::Uniform(a, b),
                    Distribution::LogUniform(a, b),
                    Distribution::UniformFloat(a as f64, f64::NAN),
                    Distribution::Choice(vec![]),
                    Distribution::Choice(vec![
                        (Choice::Value(a.into()), 0.0),
                        (Choice::Value(b.into()), 1.0),
                    ]),
                ] {
                    let p = FuzzedParameter::new("n", d);
                    let t = FuzzedTensor::new("x", ["n"])
                        .max_elements(1 << 10)
                        .max_allocation_bytes(1 << 16)
                        .steps([b]);
                    let t = t.probability_contiguous(f64::NAN);
                    let _ = Fuzzer::new([p.clone()], [t]).seed(1).take(1);
                    let t = FuzzedTensor::new("x", ["n", "n", "n"])
                        .dim_parameter("n")
                        .max_allocation_bytes(1 << 12);
                    let _ = Fuzzer::new([p], [t]).seed(1).take(1);
                }
            }
        }
        None
    }),
    ("data: samplers at the ends", || {
        const COUNTS: [usize; 6] = [0, 1, 3, 1 << 40, usize::MAX - 1, usize::MAX];
        let some = |s: &dyn Fn() -> torch::Result<Vec<usize>>| drop(s());
        for a in COUNTS {
            for b in COUNTS {
                some(&|| {
                    RandomSamplerOptions::new(a)
                        .replacement(true)
                        .num_samples(b)
                        .try_build()?
                        .indices()
                        .take(3)
                        .collect()
                });
                if a < 100 {
                    some(&|| {
                        RandomSamplerOptions::new(a).num_samples(b).try_build()?.indices().take(3).collect()
                    });
                    for w in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e308] {
                        some(&|| {
                            let s = WeightedRandomSamplerOptions::new(vec![w; a], b).try_build()?;
                            s.indices().take(3).collect()
                        });
                    }
                    let _ = try_random_split(vec![1i64; a], [a, b], Default::default()).map(|_| ());
                }
                for c in COUNTS {
                    some(&|| {
                        let s =
                            DistributedSamplerOptions::new(a.min(100), b, c).seed(u64::MAX).try_build()?;
                        s.set_epoch(u64::MAX);
                        s.indices().take(3).collect()
                    });
                }
                let batches = BatchSampler::try_new(SequentialSampler::new(a), b, false);
                if a < 100 {
                    let _ = batches
                        .map(|s| s.indices().take(3).collect::<torch::Result<Vec<_>>>().map(|l| l.len()));
                }
            }
        }
        None
    }),
    ("tensorboard: histograms and curves of anything", || {
        let (w, at) = writer().ok()?;
        let values = [
            Ok(ramp(&[3])),
            Ok(ramp(&[])),
            ops::zeros(&[0], None, None, None, None),
            ops::full(&[3], f64::NAN.into(), None, None, None, None),
            ops::full(&[3], f64::INFINITY.into(), None, None, None, None),
            Ok(torch::tensor([1e308, -1e308])),
            Ok(torch::tensor([0.0, 5e-324, 1e300])),
            wide(&[1 << 40]),
            Ok(torch::zeros_with([3], Device::Meta)),
        ];
        let values: Vec<Tensor> = values.into_iter().flatten().collect();
        for v in &values {
            for bins in [
                Bins::TensorFlow,
                Bins::Count(0),
                Bins::Count(usize::MAX),
                Bins::Edges(vec![]),
                Bins::Edges(vec![f64::NAN, f64::NAN]),
                Bins::Edges(vec![1.0]),
                Bins::Auto,
                Bins::Fd,
                Bins::Scott,
                Bins::Rice,
                Bins::Sturges,
                Bins::Doane,
                Bins::Sqrt,
            ] {
                for most in [0, 1, usize::MAX] {
                    let _ = w.add_histogram_with(
                        "é",
                        v,
                        0,
                        HistogramOptions::new().bins(bins.clone()).max_bins(most),
                    );
                }
            }
            for o in &values {
                for n in [0, 1, 127, usize::MAX] {
                    let _ =
                        w.add_pr_curve_with("p", o, v, 0, PrCurveOptions::new().num_thresholds(n).weights(v));
                }
                let _ = w.add_mesh("m", v, i64::MIN);
                let _ = w.add_embedding_with(
                    v,
                    EmbeddingOptions::new().label_img(o).tag("../é\0").metadata(["a"]),
                );
            }
            let _ =
                (w.add_image("i", v, i64::MIN), w.add_images("i", v, 0), w.add_video("v", v, 0, f64::NAN));
            let _ = (w.add_audio("a", v, 0, 0), w.add_audio("a", v, 0, u32::MAX), w.add_tensor("t", v, 0));
        }
        let raw = RawHistogram { bucket_limits: vec![], bucket_counts: vec![f64::NAN], ..Default::default() };
        let _ = w.add_histogram_raw("r", &raw, 0);
        for (h, rest) in [(3, 1e300), (1, f64::NAN), (2, 1e-300), (2, -1.0), (2, 100.0)] {
            for boxes in [[f64::NAN; 4], [1e300, -1e300, 1e300, 0.0], [0.0; 4]] {
                let boxes = torch::tensor([boxes]);
                let _ = w.add_image_with_boxes_with(
                    "b",
                    &torch::ones([3, h, 2]),
                    &boxes,
                    0,
                    BoxOptions::new().rescale(rest),
                );
                let _ = w.add_image_with_boxes_with(
                    "b",
                    &torch::ones([2, h]),
                    &boxes,
                    0,
                    BoxOptions::new().dataformats("éé"),
                );
            }
        }
        for f in ["", "é", "CHWN", "HHWC", "NCHW", "CCC"] {
            let _ = w.add_image_as("f", &torch::ones([3, 2, 2]), 0, f);
        }
        drop(w);
        let _ = std::fs::remove_dir_all(at);
        None
    }),
    ("lists of numbers where one is expected", || {
        ends(library::call("torch.zeros", &[list(&[1 << 62, 4])], &[]))
    }),
];

#[test]
fn tools_survive_hostile_numbers() {
    judge(here!(), CALLS);
}
