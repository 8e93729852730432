//! The update rules. Fields that are not documented options are numbers which follow from the step's number.

use super::{BLOCK, Block, KEPT, Rule};
use crate::engine::isa::Isa;
use crate::num::Compute;

/// The gradient with its sign and the L2 penalty.
#[inline(always)]
fn prepare<T: Compute, I: Isa>(g: &mut Block<T>, p: &Block<T>, maximize: bool, weight_decay: f64) {
    if maximize {
        for g in g.iter_mut() {
            *g = -*g;
        }
    }
    if weight_decay != 0.0 {
        let decay = T::of(weight_decay);
        for i in 0..BLOCK {
            g[i] = decay.fma::<I>(p[i], g[i]);
        }
    }
}
/// `p *= factor`
#[inline(always)]
fn scale<T: Compute>(p: &mut Block<T>, factor: f64) {
    let factor = T::of(factor);
    for p in p.iter_mut() {
        *p = *p * factor;
    }
}
/// `m` moves towards `g` by the part `weight`, computed from the end that is nearer.
#[inline(always)]
fn lerp<T: Compute, I: Isa>(m: &mut Block<T>, g: &Block<T>, weight: f64) {
    let w = T::of(weight);
    if w < T::of(0.5) {
        for i in 0..BLOCK {
            m[i] = w.fma::<I>(g[i] - m[i], m[i]);
        }
    } else {
        let back = T::of(1.0) - w;
        for i in 0..BLOCK {
            m[i] = (m[i] - g[i]).fma::<I>(back, g[i]);
        }
    }
}
/// `v = keep * v + (1 - keep) * g * g`
#[inline(always)]
fn squares<T: Compute, I: Isa>(v: &mut Block<T>, g: &Block<T>, keep: f64) {
    let (keep, new) = (T::of(keep), T::of(1.0 - keep));
    for i in 0..BLOCK {
        v[i] = (new * g[i]).fma::<I>(g[i], v[i] * keep);
    }
}
/// The larger; a NaN of either side stays.
#[inline(always)]
fn larger<T: Compute>(a: T, b: T) -> T {
    if a > b || a.partial_cmp(&a).is_none() { a } else { b }
}

/// Stochastic gradient descent. Keeps a momentum buffer if momentum is not 0.
#[derive(Clone, Copy, Debug)]
pub struct SGD {
    /// Learning rate.
    pub lr: f64,
    /// Momentum; 0 for none.
    pub momentum: f64,
    /// Damping of the gradient's part in the momentum, from the second step on.
    pub dampening: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Nesterov momentum.
    pub nesterov: bool,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// The momentum buffer holds nothing yet: it becomes the gradient.
    pub first: bool,
}
impl Rule for SGD {
    fn kept(&self) -> usize {
        (self.momentum != 0.0) as usize
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        let step = T::of(-self.lr);
        if self.momentum != 0.0 {
            let (momentum, part) = (T::of(self.momentum), T::of(1.0 - self.dampening));
            let [b, ..] = kept;
            if self.first {
                *b = *g;
            } else {
                for i in 0..BLOCK {
                    b[i] = part.fma::<I>(g[i], b[i] * momentum);
                }
            }
            if self.nesterov {
                for i in 0..BLOCK {
                    g[i] = momentum.fma::<I>(b[i], g[i]);
                }
            } else {
                *g = *b;
            }
        }
        for i in 0..BLOCK {
            p[i] = step.fma::<I>(g[i], p[i]);
        }
    }
}

/// Adam and AdamW. Keeps both moments, and with AMSGrad the largest second moment.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// L2 penalty, or with `decoupled` the direct shrinking of AdamW.
    pub weight_decay: f64,
    /// AdamW.
    pub decoupled: bool,
    /// AMSGrad.
    pub amsgrad: bool,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// `1 - beta1^step`
    pub correction1: f64,
    /// `sqrt(1 - beta2^step)`
    pub root2: f64,
}
impl Adam {
    /// With the numbers of a step; the first is 1.
    pub fn at(self, step: f64) -> Adam {
        let (b1, b2) = self.betas;
        Adam { correction1: 1.0 - b1.powf(step), root2: (1.0 - b2.powf(step)).sqrt(), ..self }
    }
}
impl Rule for Adam {
    fn kept(&self) -> usize {
        2 + self.amsgrad as usize
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        let decay = if self.decoupled { 0.0 } else { self.weight_decay };
        prepare::<T, I>(g, p, self.maximize, decay);
        if self.decoupled && self.weight_decay != 0.0 {
            scale(p, 1.0 - self.lr * self.weight_decay);
        }
        let [m, v, top] = kept;
        lerp::<T, I>(m, g, 1.0 - self.betas.0);
        squares::<T, I>(v, g, self.betas.1);
        let (root2, eps, step) = (T::of(self.root2), T::of(self.eps), T::of(-(self.lr / self.correction1)));
        if self.amsgrad {
            for i in 0..BLOCK {
                top[i] = larger(v[i], top[i]);
                p[i] = p[i] + step * m[i] / (top[i].sqrt() / root2 + eps);
            }
        } else {
            for i in 0..BLOCK {
                p[i] = p[i] + step * m[i] / (v[i].sqrt() / root2 + eps);
            }
        }
    }
}

/// Adamax. Keeps the first moment and the infinity norm.
#[derive(Clone, Copy, Debug)]
pub struct Adamax {
    /// Decay rates.
    pub betas: (f64, f64),
    /// Added to the gradient's size.
    pub eps: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// `lr / (1 - beta1^step)`
    pub step_size: f64,
}
impl Rule for Adamax {
    fn kept(&self) -> usize {
        2
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        let [m, norm, _] = kept;
        lerp::<T, I>(m, g, 1.0 - self.betas.0);
        let (b2, eps, step) = (T::of(self.betas.1), T::of(self.eps), T::of(-self.step_size));
        for i in 0..BLOCK {
            norm[i] = larger(norm[i] * b2, g[i].abs() + eps);
            p[i] = p[i] + step * m[i] / norm[i];
        }
    }
}

/// NAdam. Keeps both moments.
#[derive(Clone, Copy, Debug)]
pub struct NAdam {
    /// Decay rates.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// L2 penalty; 0 with decoupled decay.
    pub weight_decay: f64,
    /// Factor of the parameter before the step, for decoupled decay; 1 without it.
    pub shrink: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// `1 - beta2^step`
    pub correction2: f64,
    /// Factor of the gradient's part.
    pub by_grad: f64,
    /// Factor of the first moment's part.
    pub by_moment: f64,
}
impl Rule for NAdam {
    fn kept(&self) -> usize {
        2
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        if self.shrink != 1.0 {
            scale(p, self.shrink);
        }
        let [m, v, _] = kept;
        lerp::<T, I>(m, g, 1.0 - self.betas.0);
        squares::<T, I>(v, g, self.betas.1);
        let (correction, eps) = (T::of(self.correction2), T::of(self.eps));
        let (by_grad, by_moment) = (T::of(self.by_grad), T::of(self.by_moment));
        for i in 0..BLOCK {
            let denominator = (v[i] / correction).sqrt() + eps;
            p[i] = p[i] + by_grad * g[i] / denominator;
            p[i] = p[i] + by_moment * m[i] / denominator;
        }
    }
}

/// RAdam. Keeps both moments.
#[derive(Clone, Copy, Debug)]
pub struct RAdam {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// L2 penalty; 0 with decoupled decay.
    pub weight_decay: f64,
    /// Factor of the parameter before the step, for decoupled decay; 1 without it.
    pub shrink: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// `1 - beta1^step`
    pub correction1: f64,
    /// `sqrt(1 - beta2^step)` and the rectification, once the variance can be told.
    pub adaptive: Option<(f64, f64)>,
}
impl Rule for RAdam {
    fn kept(&self) -> usize {
        2
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        if self.shrink != 1.0 {
            scale(p, self.shrink);
        }
        let [m, v, _] = kept;
        lerp::<T, I>(m, g, 1.0 - self.betas.0);
        squares::<T, I>(v, g, self.betas.1);
        let (correction, lr, eps) = (T::of(self.correction1), T::of(self.lr), T::of(self.eps));
        match self.adaptive {
            Some((root2, rectification)) => {
                let (root2, rectification) = (T::of(root2), T::of(rectification));
                for i in 0..BLOCK {
                    let adaptive = root2 / (v[i].sqrt() + eps);
                    p[i] = p[i] - m[i] / correction * lr * adaptive * rectification;
                }
            }
            None => {
                for i in 0..BLOCK {
                    p[i] = p[i] - m[i] / correction * lr;
                }
            }
        }
    }
}

/// Adagrad. Keeps the sum of squares.
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    /// Added to the denominator.
    pub eps: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// `lr / (1 + (step - 1) * lr_decay)`
    pub step_size: f64,
}
impl Rule for Adagrad {
    fn kept(&self) -> usize {
        1
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        let [sum, ..] = kept;
        let (eps, step) = (T::of(self.eps), T::of(-self.step_size));
        for i in 0..BLOCK {
            sum[i] = g[i].fma::<I>(g[i], sum[i]);
            p[i] = p[i] + step * g[i] / (sum[i].sqrt() + eps);
        }
    }
}

/// Adadelta. Keeps running means of the squares of gradients and of steps.
#[derive(Clone, Copy, Debug)]
pub struct Adadelta {
    /// Learning rate.
    pub lr: f64,
    /// Decay rate of the means.
    pub rho: f64,
    /// Added under the roots.
    pub eps: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
}
impl Rule for Adadelta {
    fn kept(&self) -> usize {
        2
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        let [square, steps, _] = kept;
        squares::<T, I>(square, g, self.rho);
        let (eps, step) = (T::of(self.eps), T::of(-self.lr));
        for i in 0..BLOCK {
            g[i] = (steps[i] + eps).sqrt() / (square[i] + eps).sqrt() * g[i];
        }
        squares::<T, I>(steps, g, self.rho);
        for i in 0..BLOCK {
            p[i] = step.fma::<I>(g[i], p[i]);
        }
    }
}

/// Averaged SGD. Keeps the average.
#[derive(Clone, Copy, Debug)]
pub struct ASGD {
    /// Decay term.
    pub lambd: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Ascend instead of descend.
    pub maximize: bool,
    /// Size of this step.
    pub eta: f64,
    /// Part of the new value in the average; 1 takes it over.
    pub mu: f64,
}
impl Rule for ASGD {
    fn kept(&self) -> usize {
        1
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        scale(p, 1.0 - self.lambd * self.eta);
        let (step, mu) = (T::of(-self.eta), T::of(self.mu));
        for i in 0..BLOCK {
            p[i] = step.fma::<I>(g[i], p[i]);
        }
        let [average, ..] = kept;
        if self.mu == 1.0 {
            *average = *p;
        } else {
            for i in 0..BLOCK {
                average[i] = average[i] + (p[i] - average[i]) * mu;
            }
        }
    }
}

/// RMSprop. Keeps the mean square, then the mean gradient if centered, then a momentum buffer if there is momentum.
#[derive(Clone, Copy, Debug)]
pub struct RMSprop {
    /// Learning rate.
    pub lr: f64,
    /// Smoothing constant.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// Momentum; 0 for none.
    pub momentum: f64,
    /// Divides by the standard deviation instead of the root of the mean square.
    pub centered: bool,
    /// Ascend instead of descend.
    pub maximize: bool,
}
impl Rule for RMSprop {
    fn kept(&self) -> usize {
        1 + self.centered as usize + (self.momentum > 0.0) as usize
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, self.weight_decay);
        let [square, second, third] = kept;
        squares::<T, I>(square, g, self.alpha);
        let (eps, step) = (T::of(self.eps), T::of(-self.lr));
        let mut denominator = *square;
        let buffer = if self.centered {
            lerp::<T, I>(second, g, 1.0 - self.alpha);
            for i in 0..BLOCK {
                denominator[i] = (-second[i]).fma::<I>(second[i], square[i]);
            }
            third
        } else {
            second
        };
        for d in denominator.iter_mut() {
            *d = d.sqrt() + eps;
        }
        if self.momentum > 0.0 {
            let momentum = T::of(self.momentum);
            for i in 0..BLOCK {
                buffer[i] = buffer[i] * momentum + g[i] / denominator[i];
                p[i] = step.fma::<I>(buffer[i], p[i]);
            }
        } else {
            for i in 0..BLOCK {
                p[i] = p[i] + step * g[i] / denominator[i];
            }
        }
    }
}

/// Resilient backpropagation. Keeps the previous gradient and the step sizes.
#[derive(Clone, Copy, Debug)]
pub struct Rprop {
    /// Factors of the step size after a change of sign, and without one.
    pub etas: (f64, f64),
    /// Least and largest step size.
    pub step_sizes: (f64, f64),
    /// Ascend instead of descend.
    pub maximize: bool,
}
impl Rule for Rprop {
    fn kept(&self) -> usize {
        2
    }
    #[inline(always)]
    fn block<T: Compute, I: Isa>(&self, p: &mut Block<T>, g: &mut Block<T>, kept: &mut [Block<T>; KEPT]) {
        prepare::<T, I>(g, p, self.maximize, 0.0);
        let [previous, sizes, _] = kept;
        let (zero, one) = (T::of(0.0), T::of(1.0));
        let (minus, plus) = (T::of(self.etas.0), T::of(self.etas.1));
        let (least, most) = (T::of(self.step_sizes.0), T::of(self.step_sizes.1));
        for i in 0..BLOCK {
            let agreement = g[i] * previous[i];
            // the sign of a NaN is a NaN, which is neither of the three
            let nan = agreement.partial_cmp(&agreement).is_none();
            let factor = if agreement > zero {
                plus
            } else if agreement < zero {
                minus
            } else if nan {
                agreement
            } else {
                one
            };
            let size = sizes[i] * factor;
            let size = if size < least { least } else { size };
            let size = if size > most { most } else { size };
            let grad = if agreement < zero { zero } else { g[i] };
            let step = if grad > zero {
                size
            } else if grad < zero {
                -size
            } else {
                grad * size
            };
            sizes[i] = size;
            previous[i] = grad;
            p[i] = p[i] - step;
        }
    }
}
