//! Modules as programs.

use crate::capture::{self, ExportOptions};
use crate::program::ExportedProgram;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::Module;

/// The program of a module: a graph of ATen's operators whose weights are inputs, for the sizes of the example.
///
/// The module runs once, on `inputs`; `forward` is what runs it. [`export_with`] names sizes that may differ from call to call.
/// Sizes that a Rust program reads are plain integers, so such a program is run at several sizes: each number that it was
/// recorded with becomes an expression of the dynamic sizes, proved at further ones, and what goes another way at other sizes is an
/// error. Buffers stay as they were.
///
/// Integers that the program reads from its tensors (`item`) are symbols too (`u0`): the program is run with other integers in
/// their place, and exported if it does the same calls with all of them; those that operators refuse are outside of the symbol's
/// range, which the program asserts. What is true or false, and fractions, cannot be read.
///
/// What a capture cannot see: other elements that the program reads (an error that names the line) or writes by hand, numbers
/// that follow from sizes by other ways than sums, products, divisions, remainders, largest and smallest ones, and integers at which
/// it goes another way that are far from those that were tried (0, 1, -1, and up to 64 from the example's).
///
/// ```
/// use torch::{Tensor, export, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let x = torch::zeros([4, 2]);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
/// assert_eq!(p.operators(), ["aten.linear.default"]);
/// assert_eq!(p.module().unwrap().try_forward(&[&x]).unwrap().sizes(), [4, 3]);
/// ```
///
/// # Panics
/// As [`try_export`] has errors.
#[doc(alias = "torch.export.export")]
#[doc(alias = "torch.export.export_for_training")]
pub fn export<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> R,
    inputs: &[&Tensor],
) -> ExportedProgram {
    export_with(module, forward, inputs, ExportOptions::new())
}
/// [`export`] with dynamic sizes and names of inputs. What `forward` gives may be a tensor, a tuple or a `Vec` of them, or any [`Value`].
///
/// ```
/// use torch::export::{self, Dim, ExportOptions};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let options = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch").max(64))]);
/// let p = export::export_with(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])], options);
/// let m = p.module().unwrap();
/// assert_eq!(m.try_forward(&[&torch::zeros([9, 2])]).unwrap().sizes(), [9, 3]);
/// let e = m.try_forward(&[&torch::zeros([65, 2])]).unwrap_err();
/// assert_eq!(e.message(), "Guard failed: x.size()[0] <= 64");
/// ```
///
/// # Panics
/// As [`try_export_with`] has errors.
pub fn export_with<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> R,
    inputs: &[&Tensor],
    options: ExportOptions,
) -> ExportedProgram {
    expect(try_export_with(module, |x| Ok(forward(x)), inputs, options))
}
/// [`export`] of a program that may fail.
///
/// # Errors
/// Those of the program, panics included; reads of the elements of a captured tensor.
pub fn try_export<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
) -> Result<ExportedProgram> {
    try_export_with(module, forward, inputs, ExportOptions::new())
}
/// [`export_with`] of a program that may fail.
///
/// # Errors
/// As [`try_export`]; sizes that the program does not hold for, in PyTorch's words and with its suggested fixes; numbers that
/// are no expression of the sizes.
pub fn try_export_with<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
    options: ExportOptions,
) -> Result<ExportedProgram> {
    let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
    let run = |args: &[Value], _: &Kwargs| -> Result<Value> {
        let tensors = args.iter().map(|v| match v {
            Value::Tensor(t) => Ok(t.clone()),
            v => Err(Error::type_(format!("a tensor was expected, not {}", v.type_name()))),
        });
        Ok(forward(&tensors.collect::<Result<Vec<_>>>()?)?.into())
    };
    capture::export(Some(module), &run, &args, &options)
}
/// [`try_export_with`] of a program whose arguments and results are any values: numbers, texts, containers.
///
/// ```
/// use torch::export::{ExportOptions, try_export_values};
/// use torch::library::{Value, arg};
/// use torch::Tensor;
///
/// let scaled = |args: &[Value], _: &_| Ok(Value::Tensor(arg::<Tensor>(args, 0)? * arg::<f64>(args, 1)?));
/// let inputs = [torch::ones([2]).into(), Value::Float(3.0)];
/// let p = try_export_values(None, scaled, &inputs, ExportOptions::new())?;
/// assert_eq!(p.operators(), ["aten.mul.Tensor"]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`try_export_with`].
pub fn try_export_values(
    module: Option<&dyn Module>,
    forward: impl Fn(&[Value], &Kwargs) -> Result<Value>,
    args: &[Value],
    options: ExportOptions,
) -> Result<ExportedProgram> {
    capture::export(module, &forward, args, &options)
}
