//! Values that stand in each other a million levels deep: what cannot fail works in a loop, the rest refuses. (What drops a
//! deep tree or value here is [`drop_parts`]; their own drop recurses.)

use torch::__core::types::deep::drop_parts;
use torch::library::{Value, repr};
use torch::nn;
use torch::serialization::{Tree, save_to};
use torch::{Tensor, ops};

const DEEP: usize = 1_000_000;

/// On a stack of the usual size, whatever the harness has.
fn usual<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).expect("a thread").join().expect("no panic")
}
fn tree(levels: usize) -> Tree<Tensor> {
    (0..levels).fold(Tree::Tensor(torch::ones([1])), |t, i| match i % 4 {
        0 => Tree::List(vec![t]),
        1 => Tree::Dict(vec![(Tree::Int(1), t)]),
        2 => Tree::OrderedDict(vec![(Tree::Str("a".into()), Tree::None)], Box::new(t)),
        _ => Tree::Slice(Box::new([Tree::None, t, Tree::None])),
    })
}

#[test]
fn trees() {
    usual(|| {
        let t = tree(DEEP);
        let mut copy = t.clone();
        assert!(save_to(&t, Vec::new()).is_err());
        assert!(format!("{t:?}").contains("..."));
        let p = nn::Parameter::new(torch::ones([1]));
        let mut o = torch::optim::SGDOptions::new().lr(0.1).build([&p]);
        assert!(torch::optim::Optimizer::load_state_dict(&mut o, &t).is_err());
        let mut leaves = 0;
        let mut mapped = t
            .map(&mut |x: Tensor| {
                leaves += 1;
                Ok::<_, torch::Error>(x.numel())
            })
            .unwrap();
        assert_eq!(leaves, 1);
        let mut other = mapped.clone();
        assert!(mapped == other);
        other = Tree::List(vec![other]);
        assert!(mapped != other);
        let mut n = 0;
        let same = std::mem::replace(&mut copy, Tree::None).rewrite(&mut |t| {
            n += 1;
            Ok::<_, torch::Error>(t)
        });
        // each level, the keys and fillers beside them, and the leaf
        assert_eq!(n, DEEP + 1 + DEEP / 4 * (1 + 2 + 2));
        drop_parts(&mut same.unwrap());
        drop_parts(&mut mapped);
        drop_parts(&mut other);
    });
}

#[test]
fn values() {
    usual(|| {
        let mut v = (0..DEEP).fold(Value::Tensor(torch::ones([1])), |v, i| match i % 3 {
            0 => Value::List(vec![v]),
            1 => Value::Dict(vec![("a".into(), v)]),
            _ => Value::Tuple(vec![Value::Int(1), v]),
        });
        let mut copy = v.clone();
        assert!(repr(&v).is_err());
        assert!(format!("{v:?}").contains("..."));
        drop_parts(&mut v);
        drop_parts(&mut copy);
    });
}

#[test]
fn modules_are_shown_to_a_depth() {
    usual(|| {
        let net = (0..DEEP).fold(nn::Sequential::new((nn::ReLU::new(),)), |n, _| nn::Sequential::new((n,)));
        assert!(format!("{net:?}").contains("..."));
        assert!(net.try_call(&torch::ones([1])).is_err());
    });
}

#[test]
fn graphs() {
    usual(|| {
        let x = torch::ones([1]).requires_grad_(true);
        let y = (0..DEEP).fold(x.clone(), |y, _| ops::neg(&y).unwrap());
        let _ = format!("{y:?} {y}");
        y.sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f32>(), [1.0]);
    });
}

/// Transforms in transforms, and distributions in distributions, as far as they go.
#[test]
fn distributions_and_transforms() {
    use torch::distributions::transforms::{AffineTransform, AnyTransform, ComposeTransform};
    use torch::distributions::{Distribution, Independent, Normal};
    usual(|| {
        let mut t: AnyTransform = AffineTransform::new(0.0, 1.0).into();
        let mut levels = 0;
        while let Ok(next) = ComposeTransform::try_new([t.clone()]) {
            t = next.into();
            levels += 1;
            assert!(levels < 1000);
        }
        assert!(levels > 100);
        assert_eq!(t.try_call(&torch::ones([1])).unwrap().to_vec::<f32>(), [1.0]);
        assert!(t.to_text().len() > levels);
        let mut d: std::sync::Arc<dyn Distribution> = std::sync::Arc::new(Normal::new(0.0, 1.0));
        let mut levels = 0;
        while let Ok(next) = Independent::try_new(d.clone(), 0, None) {
            d = std::sync::Arc::new(next);
            levels += 1;
            assert!(levels < 1000);
        }
        assert!(levels > 100);
        assert!(d.try_log_prob(&torch::ones([1])).is_ok());
    });
}
