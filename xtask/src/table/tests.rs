use super::*;

fn parse(rows: &str) -> Result<Family, String> {
    parse_family(Path::new("ops/x.toml"), &format!("family = \"x\"\n{rows}"))
}

#[test]
fn unknown_keys_name_file_and_row() {
    let e = parse("[[op]]\nschema = \"f(Tensor self) -> Tensor\"\nkind = \"view\"\ndoc = \"\"\ngrad = \"none\"\nnope = 1")
        .unwrap_err();
    assert!(e.contains("ops/x.toml") && e.contains("f(Tensor self)") && e.contains("nope"), "{e}");
}

#[test]
fn a_gradient_verdict_is_needed_except_for_composites() {
    let row =
        |kind: &str| format!("[[op]]\nschema = \"f(Tensor self) -> Tensor\"\nkind = \"{kind}\"\ndoc = \"\"");
    assert!(parse(&row("view")).unwrap_err().contains("gradient verdict"));
    assert_eq!(parse(&row("composite")).unwrap().rows[0].grad, Grad::Composite);
}

#[test]
fn the_same_rust_name_twice_is_an_error() {
    let row = |o: &str| {
        format!("[[op]]\nschema = \"f.{o}(Tensor self) -> Tensor\"\nkind = \"composite\"\ndoc = \"\"\n")
    };
    let f = parse(&format!("{}{}", row("A"), row("B"))).unwrap();
    assert!(check_names(&[f]).unwrap_err().contains("`f`"));
}

#[test]
fn what_updates_and_what_finds() {
    let row = |schema: &str, keys: &str| {
        parse(&format!(
            "[[op]]\nschema = \"{schema}\"\ndoc = \"\"\ngrad = \"none\"\nvmap = \"loop: a test\"\n{keys}"
        ))
    };
    let plain = "f(Tensor self, Tensor index) -> Tensor";
    let written = "f_(Tensor(a!) self, Tensor index) -> Tensor(a!)";
    assert!(row(plain, "kind = \"structured\"\nupdates = \"self\"\ninplace = true").is_ok());
    assert!(row(written, "kind = \"structured\"\nupdates = \"self\"").is_ok());
    let refused = [
        (plain, "kind = \"direct\"\nupdates = \"self\"", "structured rows"),
        (plain, "kind = \"structured\"\nupdates = \"other\"", "`other` is no tensor argument"),
        (written, "kind = \"structured\"\nupdates = \"index\"", "writes to its arguments"),
        (written, "kind = \"structured\"", "writes to its arguments"),
        (plain, "kind = \"structured\"\nfound = true\ninplace = true", "fits no tensor in place"),
        (plain, "kind = \"structured\"\nfound = true\nupdates = \"self\"", "its one result"),
    ];
    for (schema, keys, text) in refused {
        let e = row(schema, keys).unwrap_err();
        assert!(e.contains(text), "{keys}: {e}");
    }
}

#[test]
fn rules_for_the_dtype_of_out() {
    let row = |rule: &str| {
        let head =
            "[[op]]\nschema = \"f(Tensor self) -> Tensor\"\nkind = \"composite\"\ndoc = \"\"\nout = true\n";
        parse(&format!("{head}out_dtype = {rule}"))
    };
    let rules = |rule: &str| row(rule).unwrap().rows[0].out_dtype.clone();
    assert_eq!(rules("\"any\""), [OutRule::Any]);
    assert_eq!(rules("\"follows\""), [OutRule::Follows]);
    assert_eq!(rules("\"exact\""), [OutRule::Exact(EXACT.into())]);
    assert_eq!(rules("[\"first {want}\", \"any\"]"), [OutRule::Exact("first {want}".into()), OutRule::Any]);
    assert_eq!(rules("{ text = \"bool only\", or = \"uint8\" }"), [OutRule::ExactOrByte("bool only".into())]);
    assert!(row("\"exactly\"").unwrap_err().contains("`exactly`"));
    assert!(row("{ text = \"t\", or = \"int8\" }").unwrap_err().contains("`int8`"));
}

#[test]
fn refusals_of_gradients_into_outputs() {
    let words = ["", "leaf", "leaf mm", "resize", "late mm", "aten::eye", "cat"];
    let read = words.map(|w| OutGrad::from(w.to_string()));
    let named = |f: fn(String) -> OutGrad, n: &str| f(n.into());
    assert_eq!(
        read,
        [
            OutGrad::Never,
            OutGrad::Leaf(None),
            OutGrad::Leaf(Some("mm".into())),
            OutGrad::Resize,
            named(OutGrad::Late, "mm"),
            named(OutGrad::Outputs, "aten::eye"),
            named(OutGrad::Named, "cat")
        ]
    );
    let composite = "[[op]]\nschema = \"f(int size) -> Tensor\"\nkind = \"composite\"\ndoc = \"\"\nout = true\nout_grad = \"resize\"";
    assert!(parse(composite).unwrap_err().contains("out_grad"));
}
