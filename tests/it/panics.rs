//! A panic in code of the user's, wherever the library calls it, leaves nothing behind: no mode of the thread, no lock, no
//! tensor that nobody may use any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use torch::library::{Library, LibraryKind, Value, call};
use torch::nn;
use torch::optim::{Optimizer, SGDOptions};
use torch::overrides::{OperatorCall, push_dispatch_mode, push_function_mode};
use torch::prelude::*;
use torch::utils::checkpoint::checkpoint;
use torch::{Tensor, ops};

const WORDS: &str = "a panic of the test";
fn panics(what: &str, f: impl FnOnce()) {
    let e = catch_unwind(AssertUnwindSafe(f)).expect_err(what);
    let text = e.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| e.downcast_ref::<String>().cloned()).unwrap_or_default();
    assert!(text.contains(WORDS), "{what}: {text}");
}
/// All is as on a new thread: gradients are recorded, modes see nothing, and `x` can be read, written and differentiated.
fn usual(what: &str, x: &Tensor) {
    assert!(torch::is_grad_enabled() && !torch::is_inference_mode_enabled(), "{what}");
    x.set_grad(None);
    x.mul(3.0).sum().backward();
    assert_eq!(x.grad().map(|g| g.to_vec::<f32>()), Some(vec![3.0; 2]), "{what}");
    torch::no_grad(|| x.fill_(1.0));
    assert_eq!(x.to_vec::<f32>(), [1.0; 2], "{what}");
}

#[test]
fn panics_leave_no_state_behind() {
    let x = torch::ones([2]).requires_grad_(true);
    let mut net = nn::Linear::new(2, 2);
    let all: Vec<(&str, Box<dyn Fn(&Tensor)>)> = vec![
        ("no_grad", Box::new(|_| torch::no_grad(|| panic!("{WORDS}")))),
        ("inference_mode", Box::new(|_| torch::inference_mode(|| panic!("{WORDS}")))),
        (
            "a hook of a tensor",
            Box::new(|x| {
                let y = x.exp();
                y.register_hook(|_| panic!("{WORDS}"));
                y.sum().backward();
            }),
        ),
        (
            "a hook of a leaf",
            Box::new(|x| {
                let leaf = x.detach().requires_grad_(true);
                leaf.register_hook(|_| panic!("{WORDS}"));
                leaf.exp().sum().backward();
            }),
        ),
        (
            "a dispatch mode in backward",
            Box::new(|x| {
                let y = x.exp().sum();
                let _mode = push_dispatch_mode(|_: &OperatorCall<'_>| panic!("{WORDS}"));
                y.backward();
            }),
        ),
        (
            "a function mode",
            Box::new(|x| {
                let _mode = push_function_mode(|_: &OperatorCall<'_>| panic!("{WORDS}"));
                drop(x.exp());
            }),
        ),
        (
            "a checkpoint",
            Box::new(|x| {
                let calls = AtomicUsize::new(0);
                let body = move |x: &[Tensor]| {
                    assert!(calls.fetch_add(1, Ordering::Relaxed) == 0, "{WORDS}");
                    Ok(vec![x[0].exp()])
                };
                let y = checkpoint(body, std::slice::from_ref(x)).unwrap();
                y[0].sum().backward();
            }),
        ),
        (
            "elements",
            Box::new(|x| {
                let x = x.detach();
                let _elements = x.elements_mut::<f32>();
                panic!("{WORDS}");
            }),
        ),
        (
            "bytes of a storage",
            Box::new(|x| {
                use torch::__core::internal::RawTensor as _;
                let _ = x.storage().with_bytes_mut(|_| panic!("{WORDS}"));
            }),
        ),
        (
            "a draw",
            Box::new(|_| {
                let g = torch::Generator::new();
                let drawn = catch_unwind(AssertUnwindSafe(|| g.draw(|_| panic!("{WORDS}"))));
                assert!(ops::randperm(3, Some(&g), None, None, None, None).is_ok());
                if let Err(e) = drawn {
                    std::panic::resume_unwind(e);
                }
            }),
        ),
        (
            "a kernel of a program",
            Box::new(|x| {
                let mut lib = Library::new("panics", LibraryKind::Fragment).unwrap();
                let _ = lib.define("f(Tensor x) -> Tensor");
                let kernel = |_: &[Value]| -> torch::Result<Vec<Value>> { panic!("{WORDS}") };
                lib.impl_("panics::f", kernel, "CPU").unwrap();
                let _ = call("panics::f", &[x.into()], &[]);
            }),
        ),
        (
            "a closure of an optimizer",
            Box::new(|x| {
                let p = nn::Parameter::new(x.detach().clone());
                let mut o = SGDOptions::new().lr(0.1).build([&p]);
                let stepped = catch_unwind(AssertUnwindSafe(|| o.step_closure(&mut || panic!("{WORDS}"))));
                o.step();
                if let Err(e) = stepped {
                    std::panic::resume_unwind(e);
                }
            }),
        ),
        (
            "a hook of an optimizer",
            Box::new(|x| {
                let p = nn::Parameter::new(x.detach().clone());
                let mut o = SGDOptions::new().lr(0.1).build([&p]);
                let h = o.register_step_pre_hook(|_| panic!("{WORDS}"));
                let stepped = catch_unwind(AssertUnwindSafe(|| o.step()));
                h.remove();
                o.step();
                if let Err(e) = stepped {
                    std::panic::resume_unwind(e);
                }
            }),
        ),
        (
            "a schedule",
            Box::new(|x| {
                let p = nn::Parameter::new(x.detach().clone());
                let mut o = SGDOptions::new().lr(0.1).build([&p]);
                let _ = torch::optim::lr_scheduler::LambdaLR::new(&mut o, |_| panic!("{WORDS}"));
            }),
        ),
    ];
    for (what, f) in &all {
        panics(what, || f(&x));
        usual(what, &x);
    }
    // a module's own hooks, which it keeps
    let hook = net.register_forward_hook(|_, _, _| panic!("{WORDS}"));
    panics("a hook of a module", || drop(net.call(&x)));
    hook.remove();
    assert_eq!(net.call(&x).sizes(), [2]);
    net.try_to_memory_format(torch::MemoryFormat::Contiguous).unwrap();
    usual("a hook of a module", &x);
    // and all of them on a thread that lives on in others' hands
    std::thread::scope(|s| {
        s.spawn(|| panics("no_grad elsewhere", || torch::no_grad(|| panic!("{WORDS}"))));
    });
    usual("other threads", &x);
}
