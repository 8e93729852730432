//! `cargo xtask kernels`: the formulas of flambeau-cpu as device functions, so that no formula is written twice. What formulas use of
//! Rust is translated to C++ (`expression.rs`); anything else is an error with file and line.

mod archive;
mod expression;
mod report;
mod source;

use expression::{Body, World, type_name};
use source::File;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

const FILES: &[&str] = &[
    "activation.rs",
    "arithmetic.rs",
    "comparison.rs",
    "complex_math.rs",
    "unary/mod.rs",
    "unary/trig.rs",
    "special/mod.rs",
    "special/bessel.rs",
    "special/gamma.rs",
    "special/normal.rs",
    "special/orthogonal.rs",
];
/// Rows that are not translated, with the reason: the CPU computes them.
const LEFT: &[(&str, &str)] =
    &[("IGAMMA", "its expansion for large shapes has rows of different lengths"), ("IGAMMAC", "as IGAMMA")];
/// Formulas that the CPU has for some dtypes of a row alone, and that serve all of them here: the row's.
const WHOLE: &[(&str, &str)] = &[("SIN_WIDE", "SIN"), ("COS_WIDE", "COS")];
/// The functions that only they call, and loops of the CPU.
const LEFT_FUNCTIONS: &[&str] = &[
    "sin_cos",
    "one_by_one",
    "kernel",
    "lookup",
    "density",
    "minus_log1p",
    "large_shape",
    "lower_series",
    "upper_fraction",
    "igamma",
    "igammac",
];

struct Done {
    cuda: String,
    rust: String,
}

fn function(
    world: &World,
    file: &File,
    f: &syn::ItemFn,
    consts: &HashMap<String, String>,
) -> Result<(String, String), String> {
    let line = source::line(&file.text, &format!("fn {}", f.sig.ident));
    let at = |what: &str| format!("{}:{}: {what} is not understood", file.path, line);
    let mut body = Body::new(world, &file.path, &file.space, line, consts.clone());
    let mut templates = Vec::new();
    if f.sig.generics.type_params().next().is_some() {
        templates.push("class V".to_string());
    }
    let mut params = Vec::new();
    for input in &f.sig.inputs {
        let syn::FnArg::Typed(t) = input else { return Err(at("self")) };
        let syn::Pat::Ident(i) = &*t.pat else { return Err(at("this argument")) };
        let name = body.bind(&i.ident.to_string());
        match (&*t.ty, type_name(&t.ty)) {
            (_, Some(ty)) => params.push(format!("{ty} {name}")),
            (syn::Type::ImplTrait(_) | syn::Type::BareFn(_), None) => {
                templates.push(format!("class F{}", params.len()));
                params.push(format!("F{} {name}", params.len()));
            }
            _ => return Err(at("this argument's type")),
        }
    }
    let syn::ReturnType::Type(_, result) = &f.sig.output else {
        return Err(at("a function without a result"));
    };
    let result = type_name(result).ok_or_else(|| at("the result's type"))?;
    let mut head = String::new();
    if !templates.is_empty() {
        let _ = writeln!(head, "template <{}>", templates.join(", "));
    }
    let _ = write!(head, "DEVICE {result} f_{}({})", f.sig.ident, params.join(", "));
    let text = body.tail(&f.block)?;
    Ok((format!("{head};\n"), format!("{head} {{ {text} }}\n")))
}

fn made(root: &Path) -> Result<Done, String> {
    let files = FILES.iter().map(|f| source::read(root, f)).collect::<Result<Vec<_>, _>>()?;
    let mut world = World { functions: HashMap::new() };
    for f in &files {
        for item in &f.functions {
            let name = item.sig.ident.to_string();
            let own = format!("{}::f_{name}", f.space);
            world.functions.entry(name).or_default().push((f.space.clone(), own));
        }
    }
    let mut errors = Vec::new();
    let (mut declared, mut defined, mut rows) = (String::new(), String::new(), String::new());
    let mut table = String::new();
    for f in &files {
        let mut consts: HashMap<String, String> = HashMap::new();
        let _ = writeln!(declared, "namespace {} {{", f.space);
        let _ = writeln!(defined, "namespace {} {{", f.space);
        for c in &f.consts {
            let name = c.ident.to_string();
            match Body::new(
                &world,
                &f.path,
                &f.space,
                source::line(&f.text, &format!("const {name}")),
                consts.clone(),
            )
            .constant(c)
            {
                Ok((declarator, value)) => {
                    let _ = writeln!(declared, "constexpr {declarator} = {value};");
                    consts.insert(name.clone(), format!("{}::{name}_", f.space));
                }
                Err(e) => errors.push(e),
            }
        }
        for item in f.functions.iter().filter(|i| !LEFT_FUNCTIONS.iter().any(|l| i.sig.ident == l)) {
            match function(&world, f, item, &consts) {
                Ok((head, text)) => {
                    declared += &head;
                    defined += &text;
                }
                Err(e) => errors.push(e),
            }
        }
        declared += "}\n";
        defined += "}\n";
        for r in f.rows.iter().filter(|r| LEFT.iter().all(|(name, _)| *name != r.name)) {
            let mut classes = Vec::new();
            let mut text = format!("struct {} {{ // {}:{}\n", r.name, f.path, r.line);
            for formula in &r.formulas {
                let mut body = Body::new(&world, &f.path, &f.space, r.line, consts.clone());
                let names = |kind: char, given: &[String]| -> Vec<String> {
                    (0..3).map(|k| given.get(k).map_or(format!("{kind}{k}"), |n| format!("{n}_"))).collect()
                };
                let (xs, ps) = (names('x', &r.inputs), names('p', &r.params));
                for n in r.inputs.iter().chain(&r.params) {
                    body.given(n, &format!("{n}_"));
                }
                let arguments: Vec<String> = xs.iter().chain(&ps).map(|n| format!("C {n}")).collect();
                match body.tail_expr(&formula.body) {
                    Ok(b) => {
                        let _ = writeln!(
                            text,
                            "    struct of_{} {{\n        static constexpr int N = {};\n        template <class V, class C> static DEVICE auto f({}) {{ {b} }}\n    }};",
                            formula.class,
                            r.inputs.len(),
                            arguments.join(", ")
                        );
                        classes.push(format!("{:?}", formula.class));
                    }
                    Err(e) => errors.push(e),
                }
            }
            rows += &text;
            rows += "};\n";
            let row = WHOLE.iter().find(|(name, _)| *name == r.name).map_or(r.name.as_str(), |w| w.1);
            let _ = writeln!(table, "    (&cpu::{row}, {:?}, &[{}]),", r.name, classes.join(", "));
        }
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    let cuda = format!(
        "// Generated by `cargo xtask kernels` from crates/flambeau-cpu/src/pointwise. Do not edit.\n#pragma once\n#include \
         \"../device/number.cuh\"\ntemplate <class A, class B> struct Two {{ A v0; B v1; }};\ntemplate <class A, class B, class D> struct \
         Three {{ A v0; B v1; D v2; }};\ntemplate <class A, class B> DEVICE Two<A, B> several(A a, B b) {{ return {{a, b}}; }}\ntemplate \
         <class A, class B, class D> DEVICE Three<A, B, D> several(A a, B b, D d) {{ return {{a, b, d}}; }}\n// (from..to).rev().fold(start, f)\ntemplate <class A, class F> DEVICE A fold_down(i64 from, i64 to, A start, F f) {{ for (i64 k = to - 1; k >= from; k--) start = f(start, k); return start; }}\n{declared}{defined}namespace \
         formula {{\n{rows}}}\n"
    );
    let pairs: String = files
        .iter()
        .flat_map(|f| &f.pairs)
        .map(|[name, single, double]| format!("    (&cpu::{name}, [&cpu::{single}, &cpu::{double}]),\n"))
        .collect();
    let rust = format!(
        "//! Generated by `cargo xtask kernels`; do not edit.\n\nuse flambeau_core::generated as core;\nuse \
         flambeau_core::iter::spec::PointwiseSpec;\nuse flambeau_core::iter::spec::PointwiseKernel;\nuse \
         flambeau_core::dispatch::op::Kernels;\nuse flambeau_cpu::pointwise as cpu;\nuse flambeau_nn_functional::generated as \
         functional;\n\n/// The formulas that are translated: the CPU's, its name, its classes of dtypes.\npub(crate) static FORMULAS: \
         &[(&cpu::Pointwise, &str, &[&str])] = &[\n{table}];\n\n/// Formulas of their own for float32: \
         the whole, float32's, the others'.\npub(crate) static PAIRS: &[(&cpu::Pointwise, [&cpu::Pointwise; 2])] = &[\n{pairs}];\n{}",
        specs(root)?
    );
    Ok(Done { cuda, rust })
}

/// The pointwise rows of the tables, and the rows whose plan picks a formula.
fn specs(root: &Path) -> Result<String, String> {
    let mut all =
        String::from("\n/// The pointwise rows.\npub(crate) static SPECS: &[&PointwiseSpec] = &[\n");
    let mut planned = String::from(
        "\n/// Rows whose plan picks the formula.\npub(crate) static PLANNED: &[&Kernels<PointwiseKernel>] = &[\n",
    );
    for (krate, path) in [("core", "flambeau-core"), ("functional", "flambeau-nn-functional")] {
        let folder = root.join("crates").join(path).join("src/generated");
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .map_err(|e| e.to_string())?
            .filter_map(|f| Some(f.ok()?.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "rs"))
            .collect();
        files.sort();
        for f in files {
            let text = std::fs::read_to_string(&f).map_err(|e| e.to_string())?;
            let module = f.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_string();
            for line in text.lines() {
                let Some(rest) = line.strip_prefix("pub static ") else { continue };
                let Some((name, ty)) = rest.split_once(": ") else { continue };
                if ty.starts_with("PointwiseSpec") {
                    let _ = writeln!(all, "    &{krate}::{module}::{name},");
                } else if ty.starts_with("Kernels<PointwiseKernel>") {
                    let _ = writeln!(planned, "    &{krate}::{module}::{name},");
                }
            }
        }
    }
    Ok(format!("{all}];\n{planned}];\n"))
}

/// The command.
///
/// # Errors
/// What is not understood; stale files under `--check`.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let check = match args {
        [] => false,
        [a] if a == "--check" => true,
        [a] if a == "--report" => return report::run(root),
        [a, rest @ ..] if a == "--archive" => return archive::archive(root, rest),
        [a, rest @ ..] if a == "--fallbacks" => return archive::fallbacks(root, rest),
        [a, rest @ ..] if a == "--instances" => return archive::instances(root, rest),
        _ => return Err("only --check, --report, --archive, --instances and --fallbacks are known".into()),
    };
    let done = made(root)?;
    let rust = crate::codegen::rustfmt(root, "pointwise.rs", &done.rust)?;
    let mut fresh = true;
    for (path, text) in [
        ("kernels/generated/pointwise.cuh", &done.cuda),
        ("crates/flambeau-cuda/src/generated/pointwise.rs", &rust),
    ] {
        let path = root.join(path);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        if old == *text {
            continue;
        }
        fresh = false;
        if check {
            println!("stale: {}", path.display());
        } else {
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("wrote {}", path.display());
        }
    }
    Ok(fresh || !check)
}
