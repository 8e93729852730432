//! Event files: read back here, and by TensorBoard itself beside those of PyTorch's writer where FLAMBEAU_PYTHON has both.

use flambeau_core::{DType, ErrorKind, Result, Tensor, functions as torch};
use flambeau_nn as nn;
use flambeau_tensorboard::*;
use flambeau_test_support::python::python_with;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."));
    all.sort();
    all
}
/// The records of a file, by their lengths.
fn records(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    let mut rest = &bytes[..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let n = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        all.push(rest[12..12 + n].to_vec());
        rest = &rest[16 + n..];
    }
    all
}
fn refused(r: Result<()>, kind: ErrorKind) -> String {
    let e = r.unwrap_err();
    assert_eq!(e.kind(), kind, "{e}");
    e.message().to_string()
}

#[test]
fn events_come_into_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let w = SummaryWriterOptions::new()
        .log_dir(dir.path().join("run"))
        .filename_suffix(".end")
        .flush_secs(0.05)
        .purge_step(7)
        .build()
        .unwrap();
    let file = files(w.log_dir()).remove(0);
    assert!(file.to_str().unwrap().ends_with(".end"));
    w.flush().unwrap();
    assert_eq!(records(&file).len(), 3, "version, version at the step, session");
    w.add_scalar("a", 1.0, 0).unwrap();
    // flushed by itself
    let start = std::time::Instant::now();
    while records_of(&file) < 4 {
        assert!(start.elapsed().as_secs() < 20, "nothing was flushed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let w = w.clone();
            std::thread::spawn(move || {
                (0..50).for_each(|i| w.add_scalar(&format!("t{t}"), i, i).unwrap());
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    w.close().unwrap();
    assert_eq!(records(&file).len(), 204);
    w.add_text("again", "a new file", ()).unwrap();
    w.close().unwrap();
    assert_eq!(files(w.log_dir()).len(), 2);
    w.close().unwrap();
}
/// Whole records only: the file may be in the middle of one.
fn records_of(file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let (mut at, mut n) = (0, 0);
    while at + 12 <= bytes.len() {
        at += 16 + u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        n += usize::from(at <= bytes.len());
    }
    n
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let w = SummaryWriter::new(dir.path()).unwrap();
    let t = |sizes: &[i64]| torch::zeros(sizes);
    assert!(w.add_figure("f", vec![1u8, 2, 3], 0).is_err());
    assert!(w.add_figure("f", t(&[2, 2, 2, 2, 2]), 0).is_err());
    let e = refused(w.add_scalar("a", t(&[2, 3]), 0), ErrorKind::Assertion);
    assert!(e.starts_with("Tensor should contain one element (0 dimensions)."), "{e}");
    w.add_scalar("a", t(&[1, 1]), 0).unwrap();
    assert_eq!(refused(w.add_histogram("h", &t(&[0]), 0), ErrorKind::Value), "The input has no element.");
    let outside = HistogramOptions::new().bins(Bins::Edges(vec![5.0, 6.0]));
    assert!(w.add_histogram_with("h", &t(&[3]), 0, outside).is_err());
    let falling = HistogramOptions::new().bins(Bins::Edges(vec![6.0, 5.0]));
    assert!(w.add_histogram_with("h", &t(&[3]), 0, falling).is_err());
    let nan = torch::full([2], f64::NAN);
    assert!(w.add_histogram_with("h", &nan, 0, HistogramOptions::new().bins(Bins::Count(3))).is_err());
    assert!(w.add_histogram("h", &nan, 0).is_err());
    let raw = RawHistogram { bucket_limits: vec![1.0], ..RawHistogram::default() };
    let e = refused(w.add_histogram_raw("h", &raw, 0), ErrorKind::Value);
    assert_eq!(e, "len(bucket_limits) != len(bucket_counts), see the document.");
    refused(w.add_image("i", &t(&[2, 3]), 0), ErrorKind::Assertion);
    refused(w.add_image_as("i", &t(&[2, 3, 3]), 0, "CHH"), ErrorKind::Assertion);
    refused(w.add_image_as("i", &t(&[2, 3, 3]), 0, "ABC"), ErrorKind::Value);
    refused(w.add_image("i", &t(&[2, 3, 3]), 0), ErrorKind::Type);
    refused(w.add_images("i", &t(&[0, 3, 3, 3]), 0), ErrorKind::Value);
    let labels = BoxOptions::new().labels(["cat"]);
    refused(w.add_image_with_boxes_with("i", &t(&[3, 9, 9]), &t(&[1, 4]), 0, labels), ErrorKind::Missing);
    refused(w.add_image_with_boxes("i", &t(&[3, 9, 9]), &t(&[1, 3]), 0), ErrorKind::Value);
    let none = BoxOptions::new().rescale(0.0);
    refused(w.add_image_with_boxes_with("i", &t(&[3, 9, 9]), &t(&[1, 4]), 0, none), ErrorKind::Value);
    refused(w.add_video("v", &t(&[3, 9, 9]), 0, 4.0), ErrorKind::Value);
    refused(w.add_video("v", &t(&[1, 2, 3, 4, 4]), 0, 0.0), ErrorKind::Value);
    refused(w.add_audio("s", &t(&[2, 2]), 0, 8000), ErrorKind::Assertion);
    refused(w.add_mesh("m", &t(&[2, 3]), 0), ErrorKind::Value);
    refused(w.add_tensor("t", &t(&[2]).to(DType::U16), 0), ErrorKind::Value);
    let few = EmbeddingOptions::new().metadata(["a"]);
    assert_eq!(
        refused(w.add_embedding_with(&t(&[2, 3]), few), ErrorKind::Assertion),
        "#labels should equal with #data points"
    );
    let domain = HParamOptions::new().domain("lr", ["text"]);
    let e = refused(w.add_hparams_with([("lr", 0.1)], [("loss", 1.0)], domain), ErrorKind::Type);
    assert!(e.contains("hparam_domain_discrete[lr]"), "{e}");
    let e = refused(w.add_pr_curve("p", &t(&[2]), &t(&[3]), 0), ErrorKind::Value);
    assert!(!e.is_empty());
    // a file in the way of a folder
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(SummaryWriter::new(&file).unwrap_err().kind(), ErrorKind::Io);
}

#[derive(Debug, flambeau_nn::Module)]
struct Net {
    base: nn::Base,
    fc1: nn::Linear,
    fc2: nn::Linear,
}
impl nn::Forward<&Tensor> for Net {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc2.call(&self.fc1.call(x).relu())
    }
}
fn net() -> Net {
    Net { base: nn::Base::new(), fc1: nn::Linear::new(4, 3), fc2: nn::Linear::new(3, 2) }
}

/// Numbers that both sides make without a generator.
fn wave(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32) / 128.0).collect();
    Tensor::from_vec(v, sizes)
}

fn everything(w: &SummaryWriter) -> Result<()> {
    let bytes = |sizes: &[i64]| (wave(sizes) * 255).to(DType::U8);
    w.add_scalar("scalar", 0.25, 3)?;
    w.add_scalar("scalar", Tensor::from_slice(&[1.5f32], 1), 4)?;
    w.add_scalar_with("new", 0.1, 1, ScalarOptions::new().new_style(true))?;
    w.add_scalar_with("double", 0.1, 1, ScalarOptions::new().new_style(true).double_precision(true))?;
    w.add_scalars("group/two", [("sin", 0.5), ("cos", 0.75)], 2)?;
    for d in [DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool, DType::C64] {
        w.add_tensor(&format!("tensor {d}"), &wave(&[2, 3]).to(d), 0)?;
    }
    let values = wave(&[500]) - 0.3;
    w.add_histogram("histogram", &values, 1)?;
    let rules = [
        ("auto", Bins::Auto),
        ("fd", Bins::Fd),
        ("scott", Bins::Scott),
        ("rice", Bins::Rice),
        ("sturges", Bins::Sturges),
        ("doane", Bins::Doane),
        ("sqrt", Bins::Sqrt),
    ];
    for (name, bins) in rules {
        w.add_histogram_with(&format!("bins {name}"), &values, 1, HistogramOptions::new().bins(bins))?;
    }
    w.add_histogram_with("bins 10", &values, 1, HistogramOptions::new().bins(Bins::Count(10)))?;
    let edges = Bins::Edges(vec![-1.0, 0.0, 0.1, 0.5, 0.7]);
    w.add_histogram_with("edges", &values, 1, HistogramOptions::new().bins(edges))?;
    w.add_histogram_with("joined", &values, 1, HistogramOptions::new().max_bins(100))?;
    w.add_histogram("same", &torch::ones([7]), 1)?;
    let raw = RawHistogram {
        min: 0.0,
        max: 2.0,
        num: 3.0,
        sum: 4.0,
        sum_squares: 5.0,
        bucket_limits: vec![1.0, 2.0],
        bucket_counts: vec![1.0, 2.0],
    };
    w.add_histogram_raw("raw", &raw, 1)?;
    w.add_image("image", &wave(&[3, 5, 7]), 1)?;
    w.add_image("bytes", &bytes(&[1, 5, 7]), 1)?;
    w.add_image_as("hw", &(wave(&[5, 7]) * 2 - 0.5), 1, "HW")?;
    w.add_image_as("hwc", &wave(&[5, 7, 4]), 1, "HWC")?;
    w.add_images("images", &wave(&[11, 3, 4, 6]), 1)?;
    w.add_images("grey", &bytes(&[3, 1, 4, 6]), 1)?;
    let boxes = Tensor::from_vec(vec![3f32, 4.0, 20.0, 15.0, 10.0, 2.0, 40.0, 12.0], [2, 4]);
    w.add_image_with_boxes("boxes", &wave(&[3, 24, 32]), &boxes, 1)?;
    let half = BoxOptions::new().rescale(0.5);
    w.add_image_with_boxes_with("smaller", &wave(&[3, 24, 32]), &torch::zeros([0, 4]), 1, half)?;
    let twice = BoxOptions::new().rescale(2.0);
    w.add_image_with_boxes_with("larger", &wave(&[3, 24, 32]), &torch::zeros([0, 4]), 1, twice)?;
    w.add_video("video", &wave(&[3, 4, 3, 8, 8]), 1, 4.0)?;
    w.add_audio("audio", &(wave(&[1, 400]) - 0.4), 1, 8000)?;
    w.add_text("text", "some *text*, ünicode", 5)?;
    let labels = (wave(&[60]) * 10).to(DType::I64).remainder(2);
    w.add_pr_curve("pr", &labels, &wave(&[60]), 1)?;
    let few = PrCurveOptions::new().num_thresholds(5).weights(&wave(&[60]));
    w.add_pr_curve_with("pr weighted", &labels, &wave(&[60]), 1, few)?;
    let curve = RawPrCurve {
        true_positive_counts: vec![75.0, 64.0],
        false_positive_counts: vec![150.0, 105.0],
        true_negative_counts: vec![0.0, 45.0],
        false_negative_counts: vec![0.0, 11.0],
        precision: vec![0.33, 0.37],
        recall: vec![1.0, 0.85],
    };
    w.add_pr_curve_raw("pr raw", &curve, 1, 2)?;
    let margin = Chart::Margin { value: "a".into(), lower: "b".into(), upper: "c".into() };
    let lines = Chart::Multiline(vec!["x".into(), "y".into()]);
    w.add_custom_scalars(&[("Taiwan", vec![("twse", lines)]), ("USA", vec![("dow", margin)])])?;
    w.add_custom_scalars_multilinechart(&["m", "n"], "default", "untitled")?;
    let colors = bytes(&[1, 4, 3]).to(DType::I64);
    let faces = Tensor::from_vec(vec![0i64, 2, 3, 0, 3, 1], [1, 2, 3]);
    let mesh = MeshOptions::new().colors(&colors).faces(&faces);
    w.add_mesh_with("mesh", &wave(&[1, 4, 3]), 1, mesh.config("{\"lights\": []}"))?;
    let options = EmbeddingOptions::new().metadata(["a", "b", "c"]).label_img(&wave(&[3, 3, 4, 6]));
    w.add_embedding_with(&wave(&[3, 2]), options.global_step(2).tag("emb/one"))?;
    w.add_embedding_with(
        &wave(&[2, 2]),
        EmbeddingOptions::new()
            .metadata_columns(["n", "t"], [vec!["1".to_string(), "x".into()], vec!["2".into(), "y".into()]]),
    )?;
    let options = HParamOptions::new().domain("lr", [0.1, 0.01]).run_name("hp").global_step(9);
    w.add_hparams_with(
        [("lr", HParam::from(0.1)), ("bsize", 4.into()), ("opt", "sgd".into()), ("amsgrad", true.into())],
        [("hparam/accuracy", 0.9), ("hparam/loss", 0.2)],
        options,
    )?;
    let model = net();
    model.base.set_training(true);
    w.add_graph(&model, &wave(&[2, 4]))?;
    assert!(model.base.is_training());
    w.close()
}

const SCRIPT: &str = include_str!("tensorboard.py");

#[test]
fn tensorboard_reads_what_pytorch_writes() {
    let dir = tempfile::tempdir().unwrap();
    let ours = dir.path().join("ours");
    let w = SummaryWriter::new(&ours).unwrap();
    everything(&w).unwrap();
    let Some(python) = python_with("torch, tensorboard, PIL") else { return };
    let out = Command::new(&python).args(["-W", "ignore", "-c", SCRIPT]).arg(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.trim().ends_with("all equal"), "{said}");
}
