//! Names of dimensions: propagation by the rows' rules, checks and their texts, in place and `out=`, gradients, printing.

use torch::library::{Value, call};
use torch::{Result, Tensor, ops};

fn text<T>(r: Result<T>) -> String {
    r.err().expect("an error").message().to_owned()
}
fn matrix() -> Tensor {
    torch::arange_start(-3.0, 3.0).reshape([2, 3]).refine_names(["N", "C"])
}
fn cube() -> Tensor {
    torch::ones([2, 3, 4]).refine_names(["A", "B", "C"])
}
fn by_name(name: &str, args: &[Value]) -> Result<Tensor> {
    let r = call(name, args, &[])?;
    match &r[0] {
        Value::Tensor(t) => Ok(t.clone()),
        v => panic!("{v:?}"),
    }
}

#[test]
fn names_go_through_operators() {
    let x = matrix();
    assert_eq!(x.abs().names(), ["N", "C"]);
    assert_eq!((&x + &x).names(), ["N", "C"]);
    assert_eq!((&x + 1.0).names(), ["N", "C"]);
    assert_eq!(x.t().names(), ["C", "N"]);
    assert_eq!(x.transpose(0, 1).names(), ["C", "N"]);
    assert_eq!(x.sum_dim(-1, false).names(), ["N"]);
    assert_eq!(x.sum_dim(0, true).names(), ["N", "C"]);
    assert!(!x.sum().has_names());
    assert_eq!(x.softmax(x.dim_of("C")).names(), ["N", "C"]);
    assert_eq!(x.select(0, 1).names(), ["C"]);
    assert_eq!(cube().sum_dim(cube().dims_of(["A", "C"]), false).names(), ["B"]);
    assert_eq!(x.mm(&torch::ones([3, 5]).refine_names(["in", "out"])).names(), ["N", "out"]);
    assert_eq!(torch::cat(&[x.clone(), x.clone()], 0).names(), ["N", "C"]);
    assert_eq!(torch::ones([1, 3]).rename(["N", "C"]).expand([4, 3]).names(), ["N", "C"]);
    assert_eq!(torch::empty_like(&x).names(), ["N", "C"]);
    assert_eq!(x.detach().names(), ["N", "C"]);
    // a copy of the same dtype is the tensor itself
    assert_eq!(x.to(torch::float32).names(), ["N", "C"]);
}
#[test]
fn several_results_have_names() {
    let x = cube();
    let r = x.max_dim(0, false);
    assert_eq!((r.values.names(), r.indices.names()), (x.select(0, 0).names(), x.select(0, 0).names()));
    assert!(x.unbind(0).iter().all(|t| t.names() == ["B", "C"]));
    assert!(x.split(2, 2).iter().all(|t| t.names() == ["A", "B", "C"]));
    assert_eq!(x.squeeze().names(), ["A", "B", "C"]);
    assert_eq!(torch::ones([1, 3, 1]).rename(["A", "B", "C"]).squeeze().names(), ["B"]);
}

#[test]
fn what_does_not_match_is_refused() {
    let x = torch::ones([3, 3]).refine_names(["N", "C"]);
    let y = torch::ones([3]).refine_names(["N"]);
    assert_eq!(
        text(ops::add(&x, &y, 1.into())),
        "Error when attempting to broadcast dims ['N', 'C'] and dims ['N']: dim 'C' and dim 'N' are at the same position \
         from the right but do not match."
    );
    let z = torch::ones([3, 3]).refine_names([Some("N"), None]);
    assert_eq!(
        text(ops::add(&z, &y, 1.into())),
        "Misaligned dims when attempting to broadcast dims ['N'] and dims ['N', None]: dim 'N' appears in a different \
         position from the right across both lists."
    );
    assert_eq!(
        text(ops::permute(&x, &[1, 0])),
        "aten::permute is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call \
         the op with an unnamed tensor, and set names on the result of the operation."
    );
    assert_eq!(
        text(ops::mm(&x, &torch::ones([3, 3]).refine_names(["D", "N"]))),
        "Matrix multiplying Tensor['N', 'C'] with Tensor['D', 'N'] would produce output tensor with duplicate names \
         ['N', 'N']. Please rename the input tensors with `Tensor.rename` to prevent this."
    );
    assert_eq!(text(x.try_rename(["N"])), {
        "Number of names (1) and number of dimensions in tensor (2) do not match. Attempted to create a tensor with names \
         ['N']"
    });
    assert_eq!(
        text(x.try_rename(["N", "N"])),
        "Cannot construct a tensor with duplicate names. Got names: ['N', 'N']."
    );
    for wrong in ["", "_N", "1a", "a b", "ä"] {
        assert!(
            text(y.try_rename([wrong])).starts_with("Invalid name: a valid identifier contains"),
            "{wrong}"
        );
    }
    assert!(text(x.try_refine_names(["N", "D"])).contains("'C' is different from 'D' at index 1"));
    assert!(text(x.try_refine_names(["...", "..."])).starts_with("refine_names: More than one Ellipsis"));
    assert!(text(x.try_align_to(["C"])).contains("Cannot find dim 'N'"));
    assert!(text(z.try_align_to(["N", "C"])).contains("Found unnamed dim at index 1"));
    assert!(text(cube().try_flatten_names(["A", "C"], "X")).contains("must be consecutive"));
}

#[test]
fn written_tensors_get_names() {
    let (x, y) = (torch::zeros([2, 3]), matrix());
    x.add_(&y);
    assert_eq!(x.names(), ["N", "C"]);
    let mut out = torch::zeros([2, 3]);
    ops::abs_out(&y, &mut out).unwrap();
    assert_eq!(out.names(), ["N", "C"]);
    let mut out = torch::zeros([2, 3]).rename(["N", "D"]);
    assert_eq!(
        text(ops::abs_out(&y, &mut out)),
        "Name mismatch: specified out tensor with names ['N', 'D'] are not the same as the computed output names \
         ['N', 'C']. Please rename the out tensor's dims with `Tensor.rename`."
    );
    assert_eq!(out.rename(None).sum().item::<f64>(), 0.0);
    let mut y = y.clone();
    assert!(
        text(y.try_resize_(&[3, 2], None))
            .starts_with("Cannot resize named tensor with resize_ or resize_as_")
    );
    y.try_resize_(&[2, 3], None).unwrap();
    y.t_();
    assert_eq!(y.names(), ["C", "N"]);
    y.zero_();
    assert_eq!(y.names(), ["C", "N"]);
    y.rename_(None);
    assert!(!y.has_names());
}

#[test]
fn views_share_elements_and_have_their_own_names() {
    let x = torch::ones([2, 3]);
    let y = x.rename(["N", "C"]);
    y.zero_();
    assert_eq!(x.sum().item::<f64>(), 0.0);
    assert!(!x.has_names());
    let z = y.align_to(["C", "H", "..."]);
    assert_eq!((z.sizes(), z.names()), (&[3, 1, 2][..], z.rename(["C", "H", "N"]).names()));
    assert_eq!(y.rename_map(&[("N", "batch")]).names(), ["batch", "C"]);
    let flat = cube().flatten_names(["B", "C"], "X");
    assert_eq!((flat.sizes(), flat.names()), (&[2, 12][..], y.rename(["A", "X"]).names()));
    assert_eq!(flat.unflatten_names("X", &[("B", 3), ("C", 4)]).names(), ["A", "B", "C"]);
    // one dimension alone is no reason to rename the tensor itself
    let same = y.flatten_names(["C"], "D");
    assert_eq!((same.names(), y.names()), (y.rename(["N", "D"]).names(), y.rename(["N", "C"]).names()));
}

#[test]
fn gradients_have_no_names() {
    let w = torch::tensor([1.0, 2.0, 3.0]).refine_names(["D"]).detach();
    w.requires_grad_(true);
    let x = torch::zeros([3]).rename(["D"]);
    let loss = (&x - &w).mul(&(&x - &w));
    assert_eq!(loss.names(), ["D"]);
    loss.backward_with(torch::options::BackwardOptions::new().gradient(&torch::ones([3]).rename(["C"])));
    let g = w.grad().unwrap();
    assert_eq!((g.to_vec::<f32>(), g.has_names()), (vec![2.0, 4.0, 6.0], false));
    // and through views, products and reductions
    let a = torch::ones([2, 3]).requires_grad_(true).clone();
    let n = a.refine_names(["N", "C"]);
    let s = n.mm(&torch::ones([3, 2]).rename(["I", "O"])).softmax(1).sum();
    s.backward();
    assert!(a.grad().is_some_and(|g| !g.has_names()));
}

#[test]
fn dimensions_by_name_in_calls_by_name() {
    let x = Value::Tensor(cube());
    let s = |t: &str| Value::Str(t.into());
    let sum = by_name("torch.Tensor.sum", &[x.clone(), Value::List(vec![s("A"), s("C")])]).unwrap();
    assert_eq!(sum.names(), ["B"]);
    assert_eq!(
        by_name("torch.Tensor.select", &[x.clone(), s("B"), Value::Int(0)]).unwrap().names(),
        ["A", "C"]
    );
    let e = by_name("torch.Tensor.sum", &[x.clone(), s("Q")]);
    assert_eq!(text(e), "Name 'Q' not found in Tensor['A', 'B', 'C'].");
    let plain = Value::Tensor(torch::ones([2, 2]));
    assert!(text(by_name("torch.Tensor.softmax", &[plain, s("Q")])).contains("must be int, not str"));
    let made = call(
        "torch.zeros",
        &[Value::Int(2), Value::Int(3)],
        &[("names".into(), Value::Tuple(vec![s("N"), s("C")]))],
    );
    let Value::Tensor(t) = &made.unwrap()[0] else { panic!() };
    assert_eq!(t.to_string(), "tensor([[0., 0., 0.],\n        [0., 0., 0.]], names=('N', 'C'))");
}

#[test]
fn names_cross_threads() {
    let x = matrix();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let x = x.clone();
            std::thread::spawn(move || {
                for _ in 0..200 {
                    if i % 2 == 0 {
                        x.rename_(["N", "C"])
                    } else {
                        x.rename_(["A", "B"])
                    }
                    let n = x.abs().names();
                    assert!(n == ["N", "C"] || n == ["A", "B"], "{n}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn operators_without_rule_and_files_refuse_names() {
    let x = matrix();
    assert!(text(ops::view(&x, &[6])).starts_with("aten::view is not yet supported with named tensors."));
    let mut bytes = Vec::new();
    let e = torch::serialization::save_to(&x, &mut bytes);
    assert_eq!(
        text(e),
        "NYI: Named tensors don't support serialization. Please drop names via `tensor = tensor.rename(None)` before \
         serialization."
    );
}
