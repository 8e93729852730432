use super::*;
use crate::table::{Family, parse_family};

/// Rows of these tests say nothing of batches: those whose kind does not say it are looped over.
fn family(text: &str) -> Result<Family, String> {
    let by_kind = ["kind = \"pointwise\"", "kind = \"composite\""];
    let lines = text.lines().map(|l| match l.trim_start() {
        k if k.starts_with("kind = ") && !by_kind.iter().any(|b| k.starts_with(b)) => {
            // the text may end in this line
            format!("vmap = \"loop: a test\"\n{l}\n")
        }
        _ => format!("{l}\n"),
    });
    parse_family(Path::new("ops/x.toml"), &lines.collect::<String>())
}

fn files(package: &str, text: &str) -> Result<BTreeMap<String, String>, String> {
    let f = family(text)?;
    emit(&CrateTable { package: package.into(), dir: PathBuf::new(), families: vec![f] })
}

fn check(text: &str, file: &str, wanted: &[&str]) {
    let files = files("flambeau-core", text).unwrap();
    let got = &files[file];
    for w in wanted {
        assert!(got.contains(w), "no `{w}` in {file}:\n{got}");
    }
}

fn with(row: &str) -> String {
    format!("family = \"x\"\n[[op]]\ndoc = \"Does.\"\n{row}")
}

#[test]
fn pointwise() {
    let t = with(
        r#"schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
        python = ["torch.add", "Tensor.add"]
        kind = "pointwise"
        operand = ["other"]
        inplace = true
        out = true
        out_dtype = "exact"
        kernel = "ADD"
        params = ["alpha"]
        promote = "int_to_float"
        check = "guard"
        grad = { self = "Ok(grad.clone())", other = "mul_scalar(grad, alpha)" }"#,
    );
    check(
        &t,
        "x.rs",
        &[
            "kernel: &flambeau_cpu::pointwise::ADD, promote: Promote::IntToFloat",
            "f::guard(self_, other, alpha)?;\npointwise::pointwise_inplace(&ADD_SPEC, &[self_, other], &[alpha.param()])",
            "pointwise::pointwise_out(&ADD_SPEC, &OutDtype::EXACT, &[self_, other], &[alpha.param()], out)",
            "kernels: Kernels::new(&[ADD.any(), ADD_.any(), ADD_OUT.any()])",
            "pub static ADD_: Op<AddInplaceFn>",
            "mu(a(\"self\", Ty::Tensor, D::Required))",
            "kw(\"alpha\", Ty::Scalar, D::Int(1)), mu(kw(\"out\"",
        ],
    );
    check(
        &t,
        "ops.rs",
        &["match x::ADD.get(self_.key_set() | other.key_set()) {\nOk(f) => f(self_, other, alpha),"],
    );
    check(
        &t,
        "methods.rs",
        &[
            "pub fn add(&self, other: impl Operand) -> Tensor {\nlet other = expect(other.operand());\nexpect(ops::add(self, &other, Scalar::Int(1)))",
            "pub fn add_with_(&self, other: impl Operand, o: AddOptions) -> &Self",
            "#[doc(alias = \"torch.Tensor.add_\")]",
        ],
    );
    check(&t, "functions.rs", &["pub fn add_out(input: &Tensor, other: impl Operand, out: &mut Tensor) {"]);
    check(&t, "options.rs", &["pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Self"]);
}

#[test]
fn structured_with_named_results_and_short_forms() {
    let t = with(
        r#"schema = "max.dim(Tensor self, int[1]? dim=None, Tensor? w=None) -> (Tensor values, Tensor indices)"
        python = ["torch.max", "Tensor.max"]
        kind = "structured"
        out = true
        short = [{ name = "max" }, { name = "max_dim", args = ["dim"] }]
        grad = "none""#,
    );
    check(
        &t,
        "x.rs",
        &[
            "pub static MAX_KERNEL: Kernel<MaxKernel> = Kernel::new(f::max_cpu, &[MAX.any(), MAX_OUT.any()]);",
            "let given = args::Max { self_, dim, w };\nlet m = or_return!(f::max_shape(&given));",
            "or_return!(MAX_KERNEL.run(m[0].device, &mut |kernel: MaxKernel| -> Result<()> { kernel(&given, [&o[0], &o[1]]) }));",
            "(Key::Cpu, max_slot), (Key::Meta, max_slot)",
            "v.push(self_); v.extend(w);",
            "or_return!(arg::<Option<Vec<i64>>>(a, 1)).as_deref(), or_return!(arg::<Option<Tensor>>(a, 2)).as_ref()",
        ],
    );
    check(&t, "args.rs", &["pub struct Max<'a> {", "pub dim: Option<&'a [i64]>,"]);
    check(&t, "ops.rs", &["self_.key_set() | opt_keys(w)"]);
    check(
        &t,
        "methods.rs",
        &[
            "pub fn max_dim(&self, dim: impl IntoDims) -> MaxResult {\nexpect(ops::max(self, Some(&*dim.into_dims()), None)).into()",
            "expect(ops::max(self, o.dim.as_deref(), o.w.as_ref())).into()",
        ],
    );
    check(&t, "results.rs", &["pub struct MaxResult", "impl From<MaxResult> for (Tensor, Tensor)"]);
}

#[test]
fn structured_rows_that_update_and_rows_that_find() {
    let t = with(
        r#"schema = "put(Tensor self, Tensor index, Tensor? mask=None) -> Tensor"
        python = ["torch.put", "Tensor.put"]
        kind = "structured"
        updates = "self"
        inplace = true
        out = true
        grad = "none"
        [[op]]
        doc = "Does."
        schema = "draw_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)"
        kind = "structured"
        updates = "self"
        grad = "none"
        [[op]]
        doc = "Does."
        schema = "nonzero(Tensor self) -> Tensor"
        kind = "structured"
        found = true
        out = true
        out_dtype = "any"
        grad = "none""#,
    );
    check(
        &t,
        "x.rs",
        &[
            "pub type PutKernel = fn(&args::Put, &Tensor) -> Result<()>;",
            "let m = or_return!(f::put_shape(&given));\nlet o = or_return!(m.copy(self_));",
            "let o = or_return!(m.inplace(self_, &{ let mut v: Vec<&Tensor> = Vec::new(); v.push(index); v.extend(mask); v }));",
            "let o = or_return!(m.out(&OutDtype::Cast, out, self_, ",
            "pub static DRAW_KERNEL: Kernel<DrawKernel> = Kernel::new(f::draw_cpu, &[DRAW_.any()]);",
            "let m = or_return!(f::draw_shape(&given));\nlet o = or_return!(m.inplace(self_, &[]));",
            "(Key::Cpu, draw_inplace_slot), (Key::Meta, draw_inplace_slot)",
            "pub type NonzeroKernel = fn(&args::Nonzero, ) -> Result<Tensor>;",
            "soft(|| NONZERO_KERNEL.here(self_.device())?(&given))\n}",
            "let r = or_return!(soft(|| NONZERO_KERNEL.here(self_.device())?(&given)));\nout::copy_to_out(&OutDtype::Any, out, &r)",
            "&[(Key::Cpu, nonzero_slot)]",
        ],
    );
    let planned = with(
        r#"schema = "pow(Tensor self, Tensor other) -> Tensor"
        kind = "pointwise"
        plan = "pow_plan"
        inplace = true
        grad = "none""#,
    );
    check(
        &planned,
        "x.rs",
        &[
            "pub static POW_KERNELS: Kernels<PointwiseKernel> = Kernels::new(&[POW.any(), POW_.any()]);",
            "f::pow_plan(self_, other)?.on(&POW_KERNELS).run_inplace(self_)",
        ],
    );
}

#[test]
fn view_composite_direct() {
    let view = with(
        r#"schema = "split(Tensor(a -> *) self, int[] sizes, int dim=0) -> Tensor(a)[]"
        python = ["Tensor.split"]
        kind = "view"
        positional = ["dim"]
        grad = { self = "split_backward(grads, dim)" }"#,
    );
    check(
        &view,
        "x.rs",
        &["(Key::Private, f::split)", "Result<Vec<Tensor>>", "&or_return!(arg::<Vec<i64>>(a, 1))"],
    );
    check(
        &view,
        "methods.rs",
        &["pub fn split(&self, sizes: impl IntoDims, dim: i64 /* Python's default: 0 */) -> Vec<Tensor>"],
    );
    let composite = with(
        r#"schema = "cross_entropy(Tensor input, Tensor target, str reduction=\"mean\") -> Tensor"
        python = ["torch.nn.functional.cross_entropy"]
        kind = "composite""#,
    );
    check(
        &composite,
        "x.rs",
        &["Op::composite(&CROSS_ENTROPY_INFO, f::cross_entropy, cross_entropy_adaptor)"],
    );
    check(
        &composite,
        "functional.rs",
        &["pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Tensor", "target, &o.reduction)"],
    );
    let direct = with(
        r#"schema = "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
        python = ["Tensor.fill_"]
        kind = "direct"
        grad = "none""#,
    );
    check(
        &direct,
        "x.rs",
        &["(Key::Cpu, f::fill_), (Key::Meta, f::fill_)", "Ok(vec![a[0].clone()])", "-> Result<()>"],
    );
    check(&direct, "methods.rs", &["pub fn fill_(&self, value: impl Into<Scalar>) -> &Self"]);
}

#[test]
fn factories_and_domain_crates() {
    let t = with(
        r#"schema = "fft_freq(int n, *, float d=1.0, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
        python = ["torch.fft.freq"]
        kind = "composite"
        grad = "none"
        [[op]]
        doc = "Does."
        schema = "fft_fft(Tensor self) -> Tensor"
        python = ["torch.fft.fft", "Tensor.fft"]
        kind = "composite""#,
    );
    let f = files("flambeau-fft", &t).unwrap();
    assert!(f["fft.rs"].contains("pub fn freq_with(n: i64, options: impl Into<FftFreqOptions>) -> Tensor"));
    assert!(f["ops.rs"].contains("x::FFT_FREQ.get(device_keys(device)) {"));
    assert!(
        f["methods.rs"].contains("pub trait TensorFftExt {")
            && f["methods.rs"].contains("fn fft(&self) -> Tensor;")
    );
    assert!(f["mod.rs"].contains("flambeau_core::dispatch::registry::CRATES"));
}

#[test]
fn two_rows_for_one_method_name() {
    let t = with(
        r#"schema = "f(Tensor self) -> Tensor"
        python = ["Tensor.f"]
        kind = "composite"
        [[op]]
        doc = "Does."
        schema = "g(Tensor self) -> Tensor"
        python = ["Tensor.f"]
        kind = "composite""#,
    );
    assert!(files("flambeau-core", &t).unwrap_err().contains("Tensor::f comes from both"));
}

fn derivatives(text: &str) -> String {
    let f = family(text).unwrap();
    autograd::emit(&f, "").unwrap().unwrap_or_default()
}

#[test]
fn derivatives_save_only_what_a_wanted_formula_uses() {
    let text = derivatives(&with(
        r#"schema = "mul.Tensor(Tensor self, Tensor other, *, str mode=\"a\", int[] dim=[]) -> Tensor"
        kind = "composite"
        inplace = true
        out = true
        jvp = "auto_elementwise"
        grad = { self = "mul(grad, conj(other)?, dim)", other = "Ok(reshape(&mul(grad, self_)?, self_sizes)?)" }"#,
    ));
    for w in [
        "pub struct MulBackward {\ndim: Vec<i64>,\nother: Saved,\nself_: Saved,\nself_sizes: SizeVec,\n}",
        "if cx.need(0) { let other = &or_return!(self.other.unpack_last(cx, \"other\")); Some(or_return!(mul(grad, conj(other)?, dim))) }",
        "Some(reshape(&mul(grad, self_)?, self_sizes)?)",
        "other: Saved::input_if(edges.wants(0), other)",
        "pub(super) fn mul_inplace_autograd(",
        "let s_self_ = Saved::copy_of_if(edges.wants(1), self_)?;",
        "fn mul_tangent(self_: &Tensor, other: &Tensor, mode: &str, dim: &[i64], old: &Tensor) -> Result<Option<Tensor>> {",
        "let self_ = old;",
        "let t = mul_tangent(self_, other, mode, dim, self_);",
        "let t = mul_tangent(self_, other, mode, dim, old.as_ref().unwrap_or(self_));",
        "or_return!(rt::check_out(\"mul\", &[self_, other], &[&*out]));",
    ] {
        assert!(text.contains(w), "no `{w}` in\n{text}");
    }
    assert!(!text.contains("mode:  String") && !text.contains("mode: mode"));
}

#[test]
fn derivatives_of_lists_views_and_several_results() {
    let cat = derivatives(&with(
        r#"schema = "cat(Tensor[] tensors, Tensor? w, int dim=0) -> Tensor"
        kind = "direct"
        jvp = "auto_linear"
        grad = { tensors = "cat_backward(grad, tensors_sizes, dim, need)", w = "f(grad, result)" }"#,
    ));
    for w in [
        "tensors_sizes: Vec<SizeVec>",
        "tensors_len: usize",
        "if cx.need_any(0..self.tensors_len) { or_return!(cat_backward(grad, tensors_sizes, dim, need)) } else { vec![None; self.tensors_len] }",
        "if cx.need(self.tensors_len)",
        "out.extend(g0);\nout.push(g1);",
        "Edges::new().list(tensors).opt(w)",
        "rt::recording_opt(&[w]) || rt::recording_list(tensors)",
        "ops::cat(&tensors_t, w_t.as_ref(), dim).map(Some)",
    ] {
        assert!(cat.contains(w), "no `{w}` in\n{cat}");
    }
    let split = derivatives(&with(
        r#"schema = "split(Tensor(a -> *) self, int n) -> Tensor(a)[]"
        kind = "view"
        grad = { self = "split_backward(grads, self_sizes, n)" }"#,
    ));
    assert!(split.contains(
        "rt::record_views(self_, &out, edges, body);\n} else {\nrt::views_unrecorded(self_, &out);"
    ));
    assert!(
        !split.contains("no_grads")
            && split.contains("let g0 = Some(or_return!(split_backward(grads, self_sizes, n)));")
    );
    let svd = derivatives(&with(
        r#"schema = "qr(Tensor a, Tensor b) -> (Tensor Q, Tensor R, Tensor p)"
        kind = "direct"
        diff_outputs = ["Q", "R"]
        grad = { "a, b" = "qr_backward(grads, result0, result2)" }"#,
    ));
    for w in [
        "let [g0, g1] = if cx.need(0) || cx.need(1) {",
        "result0: Saved::output(&out0, 0), result2: Saved::input(&out2)",
        "rt::record_multi(&[&out0, &out1], edges, body);",
        "let duals: &[&Tensor] = &[a, b];\nrt::transposed(duals, &[a, b], &mut |mut given: rt::Inputs<'_>| -> Result<Vec<Tensor>> {\nlet a = given.one()?;\nlet b = given.one()?;\nlet r = ops::qr(a, b)?;\nOk(vec![r.0, r.1])",
    ] {
        assert!(svd.contains(w), "no `{w}` in\n{svd}");
    }
}

#[test]
fn rows_without_gradient() {
    let text = derivatives(&with(
        r#"schema = "eq(Tensor self, Tensor other) -> Tensor"
        kind = "pointwise"
        kernel = "EQ"
        inplace = true
        grad = "none""#,
    ));
    assert!(text.contains("rt::rebase_none(self_)?") && !text.contains("EqBackward"));
    assert!(!text.contains("o::EQ.register"));
    let view = with(
        r#"schema = "t(Tensor(a) self) -> Tensor(a)"
        python = ["Tensor.t"]
        kind = "view"
        inplace = true
        grad = { self = "t(grad)" }"#,
    );
    check(
        &view,
        "x.rs",
        &["*self_ = or_return!(ops::t(self_));", "Op::composite(&T__INFO, t_inplace_cpu, t_inplace_adaptor)"],
    );
    check(&view, "methods.rs", &["pub fn t_(&mut self) -> &mut Self"]);
    assert!(!derivatives(&view).contains("o::T_.register"));
}

#[test]
fn descriptions_are_documentation_and_new_rows_have_them() {
    let row = |more: &str| {
        with(&format!(
            "schema = \"f(Tensor self) -> Tensor\"\npython = [\"torch.f\"]\nkind = \"composite\"\n{more}"
        ))
    };
    let table = |text: &str| {
        let family = parse_family(Path::new("ops/x.toml"), text).unwrap();
        [CrateTable { package: "flambeau-x".into(), dir: PathBuf::new(), families: vec![family] }]
    };
    let said = row(
        "shapes = \"any\"\ndtypes = \"all\"\nerrors = \"none\"\nexample = \"\"\"\nlet x = 1;\nassert_eq!(x, 1);\n\"\"\"",
    );
    check(
        &said,
        "ops.rs",
        &[
            "/// - Shapes: any\n/// - Dtypes: all\n/// - Errors: none\n///\n/// ```text\n/// let x = 1;\n/// assert_eq!(x, 1);\n/// ```\n",
        ],
    );
    let examples = examples::emit(&table(&said));
    assert!(examples["x_x.rs"].contains("#[test]\nfn f() {\nlet x = 1;\nassert_eq!(x, 1);\n}"));
    assert!(examples["mod.rs"].contains("mod x_x;"));
    assert_eq!(described::shorter("f\ngone\n", &table(&said)).unwrap(), "");

    let half = row("shapes = \"any\"\nerrors = \" \"");
    assert_eq!(described::shorter("f\ngone\n", &table(&half)).unwrap(), "f\n");
    let e = described::shorter("gone\n", &table(&half)).unwrap_err();
    assert!(e.contains("ops/x.toml: f:") && e.contains("`dtypes`, `errors`, `example`"), "{e}");
}
