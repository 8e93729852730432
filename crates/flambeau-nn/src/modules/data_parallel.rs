//! `DataParallel`.

use crate::by_name::Run;
use crate::module::Module;
use crate::module::base::Base;
use crate::module::forward::{Call, Forward};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Device, Result, Tensor, ensure};
use flambeau_macros::Module;

/// Splits batches over the GPUs of one machine. Where there is none, as here, PyTorch's calls the module itself, and so
/// does this one: it is there for programs and checkpoints that have it (`module.` before every name).
///
/// ```
/// use torch::prelude::*;
/// use torch::nn::{DataParallel, Linear};
///
/// let model = DataParallel::new(Linear::new(2, 3));
/// assert_eq!(model.call(&torch::ones([4, 2])).sizes(), [4, 3]);
/// assert_eq!(model.state_dict().keys().next(), Some("module.weight"));
/// ```
#[derive(Debug, Module)]
#[doc(alias = "torch.nn.DataParallel")]
pub struct DataParallel<M: Module> {
    base: Base,
    /// The module.
    pub module: M,
}
impl<M: Module> DataParallel<M> {
    /// Around a module.
    pub fn new(module: M) -> Self {
        DataParallel { base: Base::new(), module }
    }
}
impl<I, M: Module + Call<I>> Forward<I> for DataParallel<M> {
    type Output = M::Output;
    #[track_caller]
    fn forward(&self, input: I) -> M::Output {
        self.module.call(input)
    }
    fn try_forward(&self, input: I) -> Result<M::Output> {
        self.module.try_call(input)
    }
}
impl Run for DataParallel<Box<dyn Run>> {
    fn class(&self) -> &'static str {
        "DataParallel"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.module.run(inputs)
    }
    fn run_by_name(
        &self,
        args: &[flambeau_core::Value],
        kwargs: &flambeau_core::dispatch::object::Kwargs,
    ) -> Result<Vec<flambeau_core::Value>> {
        self.module.run_by_name(args, kwargs)
    }
}

/// Calls a module with its input split over devices; without any, with the input as it is. Panics with the error's text.
#[track_caller]
#[doc(alias = "torch.nn.parallel.data_parallel")]
#[doc(alias = "torch.nn.functional.torch.nn.parallel.data_parallel")]
pub fn data_parallel<I, M: Module + Call<I>>(module: &M, input: I) -> M::Output {
    expect(try_data_parallel(module, input, &[]))
}
/// [`data_parallel`] over given devices.
///
/// # Errors
/// Devices: there is none that a batch could be split over. Those of the call.
pub fn try_data_parallel<I, M: Module + Call<I>>(
    module: &M,
    input: I,
    devices: &[Device],
) -> Result<M::Output> {
    ensure!(
        devices.is_empty(),
        Missing,
        "data_parallel over devices: there is no device of another kind here"
    );
    module.try_call(input)
}
