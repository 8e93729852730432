//! Hooks of steps and state dicts.

use flambeau_core::Tensor;
use flambeau_nn::prelude::*;
use flambeau_optim::{Optimizer, SGD, register_optimizer_step_post_hook, register_optimizer_step_pre_hook};
use flambeau_serialization::Tree;
use std::sync::{Arc, Mutex};

type Seen = Arc<Mutex<Vec<&'static str>>>;

/// A hook that notes steps of the test's own optimizer: other tests run beside it, and global hooks see them too.
fn note(seen: &Seen, text: &'static str) -> impl Fn(&mut dyn Optimizer) + Send + Sync + 'static {
    let seen = seen.clone();
    move |o: &mut dyn Optimizer| {
        if o.group_params(0)[0].numel() == 13 {
            seen.lock().unwrap().push(text);
        }
    }
}

#[test]
fn hooks_run_in_order() {
    let w = Parameter::new(Tensor::from_slice(&[1f32; 13], 13));
    let mut o = SGD::new([&w], 0.5);
    let seen = Seen::default();
    let global = [
        register_optimizer_step_pre_hook(note(&seen, "all before")),
        register_optimizer_step_post_hook(note(&seen, "all after")),
    ];
    let before = o.register_step_pre_hook(note(&seen, "before"));
    o.register_step_post_hook(note(&seen, "after"));
    o.register_step_pre_hook(|o| o.set_lr(0, 1.0));
    w.set_grad(Some(Tensor::from_slice(&[1f32; 13], 13)));
    o.step();
    assert_eq!(w.to_vec::<f32>(), [0.0; 13]);
    before.remove();
    global.iter().for_each(|h| h.remove());
    o.step();
    assert_eq!(*seen.lock().unwrap(), ["all before", "before", "after", "all after", "after"]);
    // a state dict with a note, which loading takes out again
    o.register_state_dict_post_hook(
        |_, state| {
            let mut l = state.entries().unwrap().to_vec();
            l.push((Tree::Str("epoch".into()), Tree::Int(3)));
            Some(Tree::Dict(l))
        },
        false,
    );
    let state = o.state_dict();
    assert!(matches!(state.get("epoch"), Some(Tree::Int(3))));
    o.register_load_state_dict_pre_hook(
        |o, _| Some(Tree::Dict(vec![(Tree::Str(o.name().into()), Tree::None)])),
        true,
    );
    assert!(o.load_state_dict(&state).is_err());
}

#[test]
fn step_hooks_get_the_closure() {
    let p = Parameter::new(Tensor::from_slice(&[1f32], 1));
    let mut o = SGD::new([&p], 0.5);
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = calls.clone();
    let wrap = o.register_step_pre_hook_with_args(move |_, args| {
        if let Some(mut inner) = args.closure.take() {
            let count = count.clone();
            args.closure = Some(Box::new(move || {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                inner().map(|loss| &loss * 10.0)
            }));
        }
        Ok(())
    });
    let mut closure = || {
        o_grad(&p);
        p.tensor() * 2.0
    };
    assert_eq!(o.step_closure(&mut closure).to_vec::<f32>(), [20.0]);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    wrap.remove();
    o.register_step_pre_hook_with_args(|_, args| match args.closure {
        Some(_) => Ok(()),
        None => Err(flambeau_core::Error::value("this training needs a closure")),
    });
    assert_eq!(o.try_step().unwrap_err().message(), "this training needs a closure");
    assert!(o.try_set_lr(1, 0.1).is_err() && o.set_option(7, "lr", flambeau_core::Value::Int(1)).is_err());
    assert!(o.option(1, "lr").is_none() && o.lr(1).is_nan());
}

fn o_grad(p: &Parameter) {
    p.tensor().set_grad(Some(Tensor::from_slice(&[1f32], 1)));
}
