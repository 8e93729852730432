//! Rules as back ends get them: by name and numbers.

use flambeau_cpu::optim::erased::Step;
use flambeau_cpu::optim::{ASGD, Adadelta, Adagrad, Adam, Adamax, NAdam, RAdam, RMSprop, Rprop, SGD};

/// A rule whose numbers can be told.
pub(super) trait Told: Step {
    const NAME: &'static str;
    /// Its fields, in order; truth values as 0 and 1.
    fn numbers(&self) -> Vec<f64>;
}
fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}
macro_rules! told {
    ($($rule:ident($r:ident) [$($number:expr),* $(,)?];)*) => {$(
        impl Told for $rule {
            const NAME: &'static str = stringify!($rule);
            fn numbers(&self) -> Vec<f64> {
                let $r = self;
                vec![$($number),*]
            }
        }
    )*};
}
told! {
    SGD(r) [r.lr, r.momentum, r.dampening, r.weight_decay, truth(r.nesterov), truth(r.maximize), truth(r.first)];
    Adam(r) [
        r.lr, r.betas.0, r.betas.1, r.eps, r.weight_decay, truth(r.decoupled), truth(r.amsgrad), truth(r.maximize),
        r.correction1, r.root2,
    ];
    Adamax(r) [r.betas.0, r.betas.1, r.eps, r.weight_decay, truth(r.maximize), r.step_size];
    NAdam(r) [
        r.betas.0, r.betas.1, r.eps, r.weight_decay, r.shrink, truth(r.maximize), r.correction2, r.by_grad, r.by_moment,
    ];
    RAdam(r) [
        r.lr, r.betas.0, r.betas.1, r.eps, r.weight_decay, r.shrink, truth(r.maximize), r.correction1,
        truth(r.adaptive.is_some()), r.adaptive.map_or(0.0, |a| a.0), r.adaptive.map_or(0.0, |a| a.1),
    ];
    Adagrad(r) [r.eps, r.weight_decay, truth(r.maximize), r.step_size];
    Adadelta(r) [r.lr, r.rho, r.eps, r.weight_decay, truth(r.maximize)];
    ASGD(r) [r.lambd, r.weight_decay, truth(r.maximize), r.eta, r.mu];
    RMSprop(r) [r.lr, r.alpha, r.eps, r.weight_decay, r.momentum, truth(r.centered), truth(r.maximize)];
    Rprop(r) [r.etas.0, r.etas.1, r.step_sizes.0, r.step_sizes.1, truth(r.maximize)];
}
