//! Schedules by functions of the step.

use super::{At, Schedule, Scheduler};
use crate::options::Resumed;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_macros::class;
use std::fmt;
use std::sync::Arc;

type Factor = Arc<dyn Fn(i64) -> f64 + Send + Sync>;

/// Factors by step: one function for all groups, or one for each.
///
/// ```
/// use torch::optim::lr_scheduler::{LambdaLR, LambdaLROptions, Lambdas, Scheduler};
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let halves = LambdaLROptions::new(Lambdas::all(|step| 0.5f64.powi(step as i32)));
/// let mut schedule: LambdaLR = Scheduler::of(&mut optimizer, halves)?;
/// schedule.step(&mut optimizer);
/// assert_eq!(optimizer.lr(0), 0.4);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
pub struct Lambdas {
    functions: Vec<Factor>,
    each: bool,
}
impl Lambdas {
    /// One function for all groups.
    pub fn all(f: impl Fn(i64) -> f64 + Send + Sync + 'static) -> Self {
        Lambdas { functions: vec![Arc::new(f)], each: false }
    }
    /// One function for each group.
    pub fn each(f: Vec<Box<dyn Fn(i64) -> f64 + Send + Sync>>) -> Self {
        Lambdas { functions: f.into_iter().map(Factor::from).collect(), each: true }
    }
    /// As many as there are groups.
    fn spread(&mut self, groups: usize) -> Result<()> {
        if !self.each {
            self.functions = vec![self.functions[0].clone(); groups];
        }
        let n = self.functions.len();
        ensure!(n == groups, Value, "Expected {groups} lr_lambdas, but got {n}");
        Ok(())
    }
    fn at(&self, epoch: i64) -> impl Iterator<Item = f64> {
        self.functions.iter().map(move |f| f(epoch))
    }
}
impl fmt::Debug for Lambdas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} functions", self.functions.len())
    }
}
impl flambeau_core::text::PyText for Lambdas {
    fn py_text(&self) -> String {
        "<function <lambda>>".into()
    }
}
impl IntoArg<Lambdas> for Lambdas {
    fn into_arg(self) -> Lambdas {
        self
    }
}
impl FromValue for Lambdas {
    fn from_value(v: &Value) -> Result<Self> {
        let one = |v: &Value| -> Result<Factor> {
            let Value::Object(f) = v else {
                return Err(Error::type_(format!(
                    "lr_lambda should be a function, but got {}",
                    v.type_name()
                )));
            };
            let f = f.clone();
            // a function that fails or gives no number gives NaN, which shows in the learning rates
            Ok(Arc::new(move |epoch| {
                let got = f.call(&[Value::Int(epoch)], &[]).ok();
                got.and_then(|l| l.first().and_then(Value::as_scalar)).map_or(f64::NAN, |s| s.to_f64())
            }))
        };
        Ok(match v.items() {
            Some(l) => Lambdas { functions: l.iter().map(one).collect::<Result<_>>()?, each: true },
            None => Lambdas { functions: vec![one(v)?], each: false },
        })
    }
}
impl IntoValue for Lambdas {
    /// Functions do not go to files: one `None` each.
    fn into_value(self) -> Value {
        Value::List(vec![Value::None; self.functions.len()])
    }
}

macro_rules! by_function {
    ($(#[$doc:meta])* $name:ident, $options:ident, $path:literal, |$o:ident, $at:ident| $e:expr) => {
        #[class($path, make = crate::by_name::scheduler::<$options>, include(Resumed))]
        pub struct $options {
            /// Functions of the step.
            pub lr_lambda: Lambdas,
        }
        $(#[$doc])*
        pub type $name = Scheduler<$options>;
        impl $name {
            /// One function of the step for all groups. Panics with the error's text.
            #[track_caller]
            pub fn new(
                optimizer: &mut dyn crate::Optimizer,
                lr_lambda: impl Fn(i64) -> f64 + Send + Sync + 'static,
            ) -> Self {
                flambeau_core::api::ergonomic::expect(Scheduler::of(optimizer, $options::new(Lambdas::all(lr_lambda))))
            }
            /// One function for each group.
            ///
            /// # Errors
            /// Another number of functions than of groups.
            pub fn with_each(
                optimizer: &mut dyn crate::Optimizer,
                lr_lambdas: Vec<Box<dyn Fn(i64) -> f64 + Send + Sync>>,
            ) -> Result<Self> {
                Scheduler::of(optimizer, $options::new(Lambdas::each(lr_lambdas)))
            }
        }
        impl Schedule for $options {
            fn start(&mut self, optimizer: &mut dyn crate::Optimizer) -> Result<()> {
                self.lr_lambda.spread(optimizer.group_count())
            }
            fn resume_from(&self) -> i64 {
                self.last_epoch
            }
            fn lrs(&mut self, $at: At<'_>) -> Result<Vec<f64>> {
                let $o = &*self;
                $e
            }
            fn last_entries(&self) -> Vec<(&'static str, Value)> {
                vec![("lr_lambdas", self.lr_lambda.clone().into_value())]
            }
        }
    };
}
by_function!(
    /// The starting learning rates times a function of the step.
    ///
    /// ```
    /// use torch::optim::lr_scheduler::LambdaLR;
    /// use torch::{nn, optim, prelude::*};
    ///
    /// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
    /// let mut schedule = LambdaLR::new(&mut optimizer, |step| 1.0 / (1 + step) as f64);
    /// let mut rates = vec![optimizer.lr(0)];
    /// for _ in 0..3 {
    ///     optimizer.step();
    ///     schedule.step(&mut optimizer);
    ///     rates.push(optimizer.lr(0));
    /// }
    /// assert_eq!(rates, [0.8, 0.8 / 2.0, 0.8 / 3.0, 0.8 / 4.0]);
    /// ```
    LambdaLR, LambdaLROptions, "torch.optim.lr_scheduler.LambdaLR", |o, at| {
        Ok(at.base.iter().zip(o.lr_lambda.at(at.epoch)).map(|(lr, k)| lr * k).collect())
    }
);
by_function!(
    /// The present learning rates times a function of the step.
    ///
    /// ```
    /// use torch::optim::lr_scheduler::MultiplicativeLR;
    /// use torch::{nn, optim, prelude::*};
    ///
    /// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
    /// let mut schedule = MultiplicativeLR::new(&mut optimizer, |step| if step < 3 { 0.5 } else { 1.0 });
    /// let mut rates = vec![optimizer.lr(0)];
    /// for _ in 0..3 {
    ///     optimizer.step();
    ///     schedule.step(&mut optimizer);
    ///     rates.push(optimizer.lr(0));
    /// }
    /// assert_eq!(rates, [0.8, 0.4, 0.2, 0.2]);
    /// ```
    MultiplicativeLR, MultiplicativeLROptions, "torch.optim.lr_scheduler.MultiplicativeLR", |o, at| {
        if at.initial {
            return Ok(at.current.to_vec());
        }
        Ok(at.current.iter().zip(o.lr_lambda.at(at.epoch)).map(|(lr, k)| lr * k).collect())
    }
);
