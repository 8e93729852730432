//! One step of SGD, Adam and AdamW over slices, in one pass. Each element sees the same operations in the same order
//! and precision as a chain of tensor operations would give it; bias corrections are f64.

pub mod erased;

use crate::isa::{Isa, Job, Level, best_for, run};
use crate::parallel::parallel_for;
use crate::scratch::SharedMut;

/// A type of parameters: f32 or f64.
pub trait OptimScalar:
    crate::Element
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
{
    /// The nearest value.
    fn of(v: f64) -> Self;
    /// Square root.
    fn root(self) -> Self;
    /// `self * b + c`, rounded once where the machine can.
    fn fused<I: Isa>(self, b: Self, c: Self) -> Self;
}
macro_rules! scalar {
    ($t:ty, $fma:ident) => {
        impl OptimScalar for $t {
            #[inline(always)]
            fn of(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn fused<I: Isa>(self, b: Self, c: Self) -> Self {
                I::$fma(self, b, c)
            }
        }
    };
}
scalar!(f32, fma32);
scalar!(f64, fma64);

const GRAIN: usize = 32_768;

/// Options of [`sgd`].
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
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

struct SgdJob<'a, T> {
    o: Sgd,
    p: &'a mut [T],
    g: &'a [T],
    buf: Option<&'a mut [T]>,
}
impl<T: OptimScalar> Job for SgdJob<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let o = self.o;
        let (decay, momentum, keep, step) =
            (T::of(o.weight_decay), T::of(o.momentum), T::of(1.0 - o.dampening), T::of(-o.lr));
        let grad = |g: T, p: T| {
            let g = if o.maximize { -g } else { g };
            if o.weight_decay != 0.0 { decay.fused::<I>(p, g) } else { g }
        };
        let Some(buf) = self.buf else {
            for (p, g) in self.p.iter_mut().zip(self.g) {
                *p = step.fused::<I>(grad(*g, *p), *p);
            }
            return;
        };
        for ((p, g), b) in self.p.iter_mut().zip(self.g).zip(buf) {
            let g = grad(*g, *p);
            *b = if o.first { g } else { keep.fused::<I>(g, *b * momentum) };
            let d = if o.nesterov { momentum.fused::<I>(*b, g) } else { *b };
            *p = step.fused::<I>(d, *p);
        }
    }
}

/// One step of stochastic gradient descent. `buf` is the momentum buffer, wanted if and only if momentum is not 0.
///
/// # Errors
/// A text if lengths differ, or momentum comes without its buffer.
pub fn sgd<T: OptimScalar>(o: Sgd, p: &mut [T], g: &[T], buf: Option<&mut [T]>) -> Result<(), String> {
    let n = p.len();
    if g.len() != n || buf.as_ref().is_some_and(|b| b.len() != n) {
        return Err("sgd: lengths differ".into());
    }
    if (o.momentum != 0.0) != buf.is_some() {
        return Err("sgd: a momentum buffer must come with momentum, and only then".into());
    }
    let (p, buf) = (SharedMut::new(p), buf.map(SharedMut::new));
    parallel_for(n, GRAIN, |r| {
        // SAFETY: ranges of one parallel_for are disjoint.
        let (p, buf) =
            unsafe { (p.slice(r.start, r.len()), buf.as_ref().map(|b| b.slice(r.start, r.len()))) };
        run(SgdJob { o, p, g: &g[r], buf });
    });
    Ok(())
}

/// Options of [`adam`].
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
    /// Ascend instead of descend.
    pub maximize: bool,
    /// The number of this step, from 1.
    pub step: f64,
}

struct AdamJob<'a, T> {
    o: Adam,
    p: &'a mut [T],
    g: &'a [T],
    m: &'a mut [T],
    v: &'a mut [T],
    top: Option<&'a mut [T]>,
}
impl<T: OptimScalar> AdamJob<'_, T> {
    /// The loop with its choices as constants, so that it has no branches.
    #[inline(always)]
    fn pass<I: Isa, const AMSGRAD: bool>(self, top: &mut [T]) {
        let o = self.o;
        let (b1, b2) = o.betas;
        let correction1 = 1.0 - b1.powf(o.step);
        let root2 = T::of((1.0 - b2.powf(o.step)).sqrt());
        let step = T::of(-(o.lr / correction1));
        let (decay, shrink) = (T::of(o.weight_decay), T::of(1.0 - o.lr * o.weight_decay));
        let (w1, b2t, w2, eps) = (T::of(1.0 - b1), T::of(b2), T::of(1.0 - b2), T::of(o.eps));
        let (near_start, back) = (w1 < T::of(0.5), T::of(1.0) - w1);
        for (i, (((p, g), m), v)) in self.p.iter_mut().zip(self.g).zip(self.m).zip(self.v).enumerate() {
            let mut g = if o.maximize { -*g } else { *g };
            if o.weight_decay != 0.0 {
                if o.decoupled {
                    *p = *p * shrink;
                } else {
                    g = decay.fused::<I>(*p, g);
                }
            }
            // Linear interpolation from the end that is nearer.
            *m = if near_start { w1.fused::<I>(g - *m, *m) } else { (*m - g).fused::<I>(back, g) };
            *v = (w2 * g).fused::<I>(g, *v * b2t);
            let mut second = *v;
            if AMSGRAD {
                // A NaN of either side stays.
                let old = top[i];
                second = if second > old || second.partial_cmp(&second).is_none() { second } else { old };
                top[i] = second;
            }
            let denominator = second.root() / root2 + eps;
            *p = *p + step * *m / denominator;
        }
    }
}
impl<T: OptimScalar> Job for AdamJob<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(mut self) {
        match self.top.take() {
            Some(top) => self.pass::<I, true>(top),
            None => self.pass::<I, false>(&mut []),
        }
    }
}

/// One step of Adam or AdamW. `m` and `v` are the moments; `top`, if given, the running maximum of `v` (AMSGrad).
///
/// # Errors
/// A text if lengths differ.
pub fn adam<T: OptimScalar>(
    o: Adam,
    p: &mut [T],
    g: &[T],
    m: &mut [T],
    v: &mut [T],
    top: Option<&mut [T]>,
) -> Result<(), String> {
    let n = p.len();
    if g.len() != n || m.len() != n || v.len() != n || top.as_ref().is_some_and(|t| t.len() != n) {
        return Err("adam: lengths differ".into());
    }
    let (p, m, v) = (SharedMut::new(p), SharedMut::new(m), SharedMut::new(v));
    let top = top.map(SharedMut::new);
    parallel_for(n, GRAIN, |r| {
        let (a, len) = (r.start, r.len());
        // SAFETY: ranges of one parallel_for are disjoint.
        let (p, m, v) = unsafe { (p.slice(a, len), m.slice(a, len), v.slice(a, len)) };
        // SAFETY: as above.
        let top = top.as_ref().map(|t| unsafe { t.slice(a, len) });
        run(AdamJob { o, p, g: &g[r], m, v, top });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sgd_by_hand() {
        let o = Sgd {
            lr: 0.1,
            momentum: 0.9,
            dampening: 0.5,
            weight_decay: 0.01,
            nesterov: false,
            maximize: false,
            first: true,
        };
        let (mut p, mut b) = ([1.0f64, -2.0], [0.0; 2]);
        sgd(o, &mut p, &[0.5, 0.25], Some(&mut b)).unwrap();
        let want = [1.0 - 0.1 * 0.51, -2.0 - 0.1 * 0.23];
        (0..2).for_each(|i| assert!((p[i] - want[i]).abs() < 1e-15));
        let before = p;
        sgd(Sgd { first: false, ..o }, &mut p, &[1.0, 1.0], Some(&mut b)).unwrap();
        for i in 0..2 {
            let buf = [0.51, 0.23][i] * 0.9 + 0.5 * (1.0 + 0.01 * before[i]);
            assert!((p[i] - (before[i] - 0.1 * buf)).abs() < 1e-15 && (b[i] - buf).abs() < 1e-15);
        }
        assert!(sgd(o, &mut p, &[1.0, 1.0], None).is_err());
        let plain = Sgd { momentum: 0.0, weight_decay: 0.0, maximize: true, ..o };
        let mut q = [1.0f32];
        sgd(plain, &mut q, &[2.0], None).unwrap();
        assert!((q[0] - 1.2).abs() < 1e-6);
    }

    #[test]
    fn adam_by_hand() {
        for (decoupled, amsgrad) in [(false, false), (true, false), (true, true), (false, true)] {
            let n = 40_000;
            let mut p: Vec<f64> = (0..n).map(|i| (i % 17) as f64 - 8.0).collect();
            let (mut m, mut v, mut t) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            let (mut rp, mut rm, mut rv, mut rt) = (p.clone(), m.clone(), v.clone(), t.clone());
            for step in 1..=3 {
                let g: Vec<f64> = (0..n).map(|i| ((i * step) % 5) as f64 - 2.0).collect();
                let o = Adam {
                    lr: 0.01,
                    betas: (0.9, 0.99),
                    eps: 1e-8,
                    weight_decay: 0.1,
                    decoupled,
                    maximize: false,
                    step: step as f64,
                };
                adam(o, &mut p, &g, &mut m, &mut v, amsgrad.then_some(&mut t[..])).unwrap();
                for i in 0..n {
                    let g = if decoupled {
                        rp[i] *= 1.0 - 0.001;
                        g[i]
                    } else {
                        g[i] + 0.1 * rp[i]
                    };
                    rm[i] = 0.9 * rm[i] + 0.1 * g;
                    rv[i] = 0.99 * rv[i] + 0.01 * g * g;
                    rt[i] = f64::max(rt[i], rv[i]);
                    let (c1, c2) = (1.0 - 0.9f64.powi(step as i32), 1.0 - 0.99f64.powi(step as i32));
                    let second: f64 = if amsgrad { rt[i] } else { rv[i] };
                    rp[i] -= 0.01 / c1 * rm[i] / (second.sqrt() / c2.sqrt() + 1e-8);
                }
            }
            (0..n).for_each(|i| assert!((p[i] - rp[i]).abs() < 1e-12, "{i}: {} {}", p[i], rp[i]));
        }
        let o = Adam {
            lr: 0.1,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            maximize: false,
            step: 1.0,
        };
        assert!(adam(o, &mut [1f32], &[], &mut [0.0], &mut [0.0], None).is_err());
    }
}
