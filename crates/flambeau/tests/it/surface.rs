//! What a program sees that names `torch` alone: read from the sources, re-exports followed.

mod forms;
mod names;

use names::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Methods without a documented name: PyTorch's that it does not document, and Rust's own (conversions from and to Rust's
/// values, identity of handles, indexing).
const UNDOCUMENTED: [&str; 30] = [
    "_indices",
    "_nnz",
    "_values",
    "ccol_indices",
    "dim_of",
    "dims",
    "dims_of",
    "elements_mut",
    "from_slice",
    "grad_fn",
    "has_names",
    "id",
    "is_contiguous_format",
    "is_same",
    "is_sparse_csr",
    "iter",
    "map2_",
    "output_nr",
    "register_fallible_post_accumulate_grad_hook",
    "row_indices",
    "set_grad",
    "tangent",
    "to_nested",
    "to_vec2",
    "to_vec3",
    "try_set_storage_",
    "typename",
    "update_i",
    "view_as_complex",
    "view_as_real",
];

/// Modules that PyTorch's documentation does not name: Rust's own, and PyTorch's whose members are documented elsewhere.
const OWN_MODULES: [&str; 58] = [
    "torch::ao::ns::numeric_suite",
    "torch::ao::nn",
    "torch::ao::nn::quantized",
    "torch::ao::nn::quantized::functional",
    "torch::ao::quantization",
    "torch::book",
    "torch::book::autograd",
    "torch::book::checkpoints",
    "torch::book::errors",
    "torch::book::extending",
    "torch::book::first_hour",
    "torch::book::from_other_crates",
    "torch::book::from_pytorch",
    "torch::book::many_ranks",
    "torch::book::performance",
    "torch::book::recipes",
    "torch::book::serving",
    "torch::book::soundness",
    "torch::book::tensors",
    "torch::book::training",
    "torch::control_flow",
    "torch::cuda::sanitizer",
    "torch::distributed::elastic::failures",
    "torch::distributed::elastic::processes",
    "torch::distributed::functional",
    "torch::distributed::simulation",
    "torch::dtypes",
    "torch::fx::experimental::symbolic_shapes",
    "torch::fx::passes",
    "torch::fx::python",
    "torch::fx::pytree",
    "torch::fx::symbolic",
    "torch::legacy",
    "torch::library::class",
    "torch::library::object",
    "torch::nn::attention::flex_attention",
    "torch::nn::utils::fusion",
    "torch::onnx::diagnostics",
    "torch::onnx::diagnostics::rules",
    "torch::onnx::proto",
    "torch::onnx::proto::attribute_type",
    "torch::ops",
    "torch::options",
    "torch::prelude",
    "torch::serialization",
    "torch::serialization::config",
    "torch::serialization::tensor",
    "torch::serialization::tensor::list",
    "torch::serialization::tensor::map",
    "torch::serialization::tensor::optional",
    "torch::utils::pytree",
    "torch::utils::serialization",
    "torch::utils::serialization::config",
    "torch::utils::tensorboard",
    "torch::numa",
    "torch::numa::binding",
    "torch::interop",
    "torch::interop::image",
];

/// Names of core's machine room: what a kernel or the gradient engine needs and a program does not.
const MACHINERY: [&str; 10] = [
    "Access",
    "AnyOp",
    "CrateReg",
    "ExcludeGuard",
    "IncludeGuard",
    "KeySet",
    "LazyBits",
    "OpInfo",
    "PointwiseSpec",
    "RawTensor",
];

/// PyTorch's documented names.
fn inventory() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec/api.tsv");
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().skip(1).filter_map(|l| Some(l.split('\t').next()?.to_owned())).collect()
}

#[test]
fn tensor_has_the_documented_methods() {
    let documented = inventory();
    let methods = names::tensor_methods();
    assert!(methods.len() > 700, "{}", methods.len());
    let aliased =
        |m: &str| methods.get(m).is_some_and(|aliases| aliases.iter().any(|a| documented.contains(a)));
    let known = |m: &str| {
        aliased(m) || documented.contains(&format!("torch.Tensor.{m}")) || UNDOCUMENTED.contains(&m)
    };
    let foreign: Vec<&String> = methods
        .keys()
        .filter(|m| {
            let plain = m.strip_prefix("try_").unwrap_or(m);
            // `sum_with`, `add_with_`
            let end = if plain.ends_with('_') { "_" } else { "" };
            let stem = plain.strip_suffix(&format!("_with{end}")).map(|s| format!("{s}{end}"));
            ![m.as_str(), plain].into_iter().chain(stem.as_deref()).any(known)
        })
        .collect();
    assert!(foreign.is_empty(), "neither documented nor listed: {foreign:?}");
    let unused: Vec<_> = UNDOCUMENTED.iter().filter(|m| !methods.contains_key(**m) || aliased(m)).collect();
    assert!(unused.is_empty(), "listed and not needed: {unused:?}");
}

#[test]
fn the_prelude_brings_all_methods() {
    let names = Names::read();
    let prelude = names.of("torch::prelude");
    let traits = names::tensor_traits();
    assert!(traits.len() >= 4, "{traits:?}");
    let lost: Vec<_> = traits.iter().filter(|t| !prelude.contains_key(*t)).collect();
    assert!(lost.is_empty(), "methods of Tensor that the prelude does not bring: {lost:?}");
}

/// The documents for users: the README and the chapters of the book.
fn documents() -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![package.join("../../README.md")];
    let chapters = std::fs::read_dir(package.join("book")).unwrap().flatten();
    files.extend(chapters.map(|c| c.path().join("index.md")).filter(|p| p.is_file()));
    files
}

/// A chapter is listed in the book's summary and is a module; its links lead to chapters.
#[test]
fn chapters_are_linked() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(package.join(file)).unwrap();
    let (summary, module) = (read("book/SUMMARY.md"), read("src/book.rs"));
    let mut links = 0;
    for file in &documents()[1..] {
        let name = file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert!(summary.contains(&format!("({name}/index.md)")), "{name} is not in the summary");
        assert!(
            module.contains(&format!("book/{name}/index.md\")]\npub mod {name} {{")),
            "{name} is no module of the documentation"
        );
        let text = std::fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices("](../") {
            let to = text[at + 5..].split(['/', ')']).next().unwrap();
            assert!(package.join("book").join(to).join("index.md").is_file(), "{name} links to {to}");
            links += 1;
        }
    }
    assert!(links > 10, "{links}");
}

/// Paths from `torch::` on in the documents for users.
#[test]
fn documents_name_what_exists() {
    let names = Names::read();
    let (mut paths, mut lost) = (0, Vec::new());
    for file in documents() {
        let text = std::fs::read_to_string(&file).unwrap();
        for start in text.match_indices("torch::").map(|(i, _)| i) {
            let more = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
            let path = text[start..].split(more).next().unwrap_or_default();
            let parts: Vec<&str> = path.split("::").filter(|p| !p.is_empty()).collect();
            // macros make layers and optimizers, which the sources do not show; `ops::NAME` stands for any
            if parts.len() < 2
                || parts == ["torch", "ops", "NAME"]
                || (parts.len() == 3 && ["nn", "optim"].contains(&parts[1]))
            {
                continue;
            }
            paths += 1;
            // `a::b`, or a method of the type `a::b`
            let exists = |p: &[&str]| {
                let (last, module) = p.split_last().unwrap();
                !module.is_empty() && names.find(&module.join("::")).is_some_and(|m| m.contains_key(*last))
            };
            if !exists(&parts) && !exists(&parts[..parts.len() - 1]) {
                lost.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(paths > 50, "{paths}");
    assert!(lost.is_empty(), "{lost:#?}");
}

/// The compiler names the feature of a name that `cfg` took away only if it is written out; methods are errors by `without.rs`.
#[test]
fn names_of_features_are_written_out() {
    let names = Names::read();
    let root = names.of("torch");
    let without =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/without.rs")).unwrap();
    let mut lost = Vec::new();
    for (feature, module) in [
        ("fft", "flambeau_fft::generated::functions"),
        ("linalg", "flambeau_linalg::functions"),
        ("quantization", "flambeau_quantization::generated::functions"),
    ] {
        let inside = names.of(module);
        assert!(!inside.is_empty(), "{module}");
        lost.extend(
            inside
                .keys()
                .filter(|n| !root.get(*n).is_some_and(|e| e.is_written_out()))
                .map(|n| format!("torch::{n}")),
        );
        let (_, list) = without.split_once(&format!("left_out!(\"{feature}\"")).unwrap();
        let list: BTreeSet<&str> = list.split(");").next().unwrap().split_whitespace().collect();
        let methods = names::methods_of(&format!("flambeau-{feature}"));
        assert!(!methods.is_empty(), "{feature}");
        lost.extend(methods.iter().filter(|m| !list.contains(m.as_str())).map(|m| format!("Tensor::{m}")));
    }
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn options_stand_beside_their_functions() {
    let names = Names::read();
    let root = names.of("torch");
    let lost: Vec<&String> = root.keys().filter(|n| n.ends_with("Options")).collect();
    assert!(lost.is_empty(), "options in the root: {lost:?}");
    let common = names.of("torch::options");
    assert!(
        common.len() > 100 && common.contains_key("SumOptions") && !common.contains_key("SoftplusOptions")
    );
    let mut missing = BTreeMap::new();
    for (module, inside) in names.modules() {
        for (name, item) in &inside {
            for options in &item.takes {
                let at_hand = inside.contains_key(options) || common.contains_key(options);
                if !at_hand || module == "torch" && !common.contains_key(options) {
                    missing.insert(format!("{module}::{name}"), options.clone());
                }
            }
        }
    }
    assert!(missing.is_empty(), "options that a program cannot name beside their functions: {missing:#?}");
}

#[test]
fn no_name_has_two_meanings() {
    let names = Names::read();
    let mut twice = Vec::new();
    for (module, inside) in names.modules() {
        twice.extend(
            inside
                .iter()
                .filter(|(_, i)| i.origins.len() > 1)
                .map(|(n, i)| (format!("{module}::{n}"), i.origins.clone())),
        );
    }
    assert!(twice.is_empty(), "{twice:#?}");
}

#[test]
fn the_machine_room_is_closed() {
    let names = Names::read();
    let modules = names.modules();
    let open: Vec<String> = modules
        .iter()
        .flat_map(|(m, inside)| inside.iter().map(move |(n, i)| (m, n, i)))
        .filter(|(_, n, i)| {
            MACHINERY.contains(&n.as_str()) || i.origins.iter().any(|o| o.contains("::internal"))
        })
        .map(|(m, n, i)| format!("{m}::{n} is {:?}", i.origins))
        .collect();
    assert!(open.is_empty(), "{open:#?}");
    let documented = inventory();
    let foreign: Vec<&String> = modules
        .keys()
        .filter(|m| {
            let path = format!("{}.", m.replace("::", "."));
            !documented.iter().any(|d| d.starts_with(&path) || **d == path[..path.len() - 1])
                && !OWN_MODULES.contains(&m.as_str())
        })
        .collect();
    assert!(foreign.is_empty(), "modules that PyTorch has not: {foreign:#?}");
    let unused: Vec<_> = OWN_MODULES.iter().filter(|m| !modules.contains_key(**m)).collect();
    assert!(unused.is_empty(), "listed and not there: {unused:?}");
}
