//! Calls that do something beside their result, in programs of the core set.

use torch::export::graph_signature::OutputKind;
use torch::export::{self, ExportOptions, default_decompositions};
use torch::library::Value;
use torch::{Tensor, linalg, nn};

/// Checks of linear algebra go through tokens, which come first among inputs and results; files keep them.
#[test]
fn checks_have_tokens() {
    let net = nn::Identity::new();
    let solved = |x: &[Tensor]| Value::Tuple(vec![linalg::cholesky(&x[0]).into(), linalg::inv(&x[0]).into()]);
    let eye = torch::eye(3) * 4.0;
    let p = export::export_with(&net, solved, &[&eye], ExportOptions::new().names(&["x"]));
    let core = p.run_decompositions(&default_decompositions()).unwrap();
    assert_eq!(
        core.operators(),
        ["aten.linalg_cholesky_ex.default", "aten.linalg_inv_ex.default", "operator.getitem", "with_effects"]
    );
    let s = &core.graph_signature;
    assert!(s.input_specs[0].to_string().starts_with("token: TOKEN"), "{core}");
    assert_eq!(s.output_specs[0].kind, OutputKind::Token);
    let path = std::env::temp_dir().join(format!("flambeau-tokens-{}.pt2", std::process::id()));
    export::save(&core, &path).unwrap();
    for p in [core, export::load(&path).unwrap()] {
        let m = p.module().unwrap();
        let got = m.run(&[(&eye).into()], &[]).unwrap();
        let Some(Value::Tensor(inverse)) = got.items().and_then(|l| l.get(1)) else { panic!("{got:?}") };
        assert!(inverse.allclose(&(torch::eye(3) / 4.0)));
        // what the check finds is an error
        let e = m.run(&[(&torch::zeros([3, 3])).into()], &[]).unwrap_err();
        assert!(e.message().contains("linalg.cholesky"), "{e}");
    }
    std::fs::remove_file(path).unwrap();
}
