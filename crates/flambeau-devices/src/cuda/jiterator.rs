//! `torch.cuda.jiterator`: kernels made of C++ text at run time.

use super::runtime::answer;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure};

/// What a kernel is made of.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The text: functions, of which the last one is called for each element.
    pub code: String,
    /// The name of that function.
    pub name: String,
    /// How many results it has.
    pub outputs: usize,
    /// Whether it writes them to references, its last arguments.
    pub by_reference: bool,
}
/// A kernel of C++ text, `template <typename T> T NAME(T x, T y, T alpha) { .. }`: arguments are elements of tensors, which
/// broadcast and have their dtypes promoted, and then numbers. Halves are computed in `float`.
///
/// ```no_run
/// use torch::cuda::jiterator::try_create_jit_fn;
/// let text = "template <typename T> T scaled(T x, T y, T alpha) { return -x + alpha * y; }";
/// let f = try_create_jit_fn(text, &[("alpha", 1.0.into())])?;
/// let x = torch::ones([3]).to(torch::Device::cuda(0));
/// assert_eq!(f.try_call(&[&x, &x], &[("alpha", 3.0.into())])?[0].to_vec::<f32>(), [2.0; 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JittedFunction {
    formula: Formula,
    numbers: Vec<(String, Scalar)>,
}
/// The name of the last function of a text.
fn entry(code: &str) -> Result<String> {
    let unclear = || Error::runtime(format!("Couldn't parse code, please check correctness:\n {code}"));
    let mut name = None;
    for part in code.split("template").skip(1) {
        let (_, rest) = part.split_once('>').ok_or_else(unclear)?;
        let (head, body) = rest.split_once('(').ok_or_else(unclear)?;
        if !body.contains('{') {
            return Err(unclear());
        }
        name = head.split_whitespace().last();
    }
    let valid = |n: &&str| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    name.filter(valid).map(str::to_string).ok_or_else(unclear)
}
fn made(
    code: &str,
    outputs: usize,
    by_reference: bool,
    numbers: &[(&str, Scalar)],
) -> Result<JittedFunction> {
    let formula = Formula { code: code.into(), name: entry(code)?, outputs, by_reference };
    let numbers = numbers.iter().map(|(k, v)| ((*k).to_string(), *v)).collect();
    Ok(JittedFunction { formula, numbers })
}
/// The function that a text defines, with the numbers that it takes behind its tensors, and their defaults.
///
/// # Errors
/// A text without a template function.
#[doc(alias = "torch.cuda.jiterator._create_jit_fn")]
pub fn try_create_jit_fn(code: &str, numbers: &[(&str, Scalar)]) -> Result<JittedFunction> {
    made(code, 1, false, numbers)
}
/// The function that a text defines, which writes several results to references: its last arguments.
///
/// # Errors
/// A text without a template function; more than 8 results.
#[doc(alias = "torch.cuda.jiterator._create_multi_output_jit_fn")]
pub fn try_create_multi_output_jit_fn(
    code: &str,
    num_outputs: usize,
    numbers: &[(&str, Scalar)],
) -> Result<JittedFunction> {
    ensure!(
        (1..=8).contains(&num_outputs),
        Runtime,
        "jiterator only supports 1 to 8 outputs, got {num_outputs}"
    );
    made(code, num_outputs, true, numbers)
}
impl JittedFunction {
    /// The function's name in the text.
    pub fn name(&self) -> &str {
        &self.formula.name
    }
    /// Computes it for each element. Numbers that are not given have their defaults.
    ///
    /// # Errors
    /// There is no device; more than 8 tensors; a number that the function does not take; the compiler refuses the text.
    pub fn try_call(&self, tensors: &[&Tensor], numbers: &[(&str, Scalar)]) -> Result<Vec<Tensor>> {
        let n = tensors.len();
        if answer(|_| ()).is_none() {
            return Err(Error::assertion(
                "Jiterator is only supported on CUDA and ROCm GPUs, none are available.",
            ));
        }
        ensure!(n <= 8, Assertion, "jiterator only supports up to 8 tensor inputs, got {n}");
        ensure!(n > 0, Runtime, "jiterator needs at least one tensor");
        let mut all = self.numbers.clone();
        for (k, v) in numbers {
            let own = all.iter_mut().find(|(name, _)| name == k);
            let own =
                own.ok_or_else(|| Error::index(format!("{k} is not declared in function definition")))?;
            own.1 = *v;
        }
        let values: Vec<Scalar> = all.iter().map(|(_, v)| *v).collect();
        let tensors: Vec<Tensor> = tensors.iter().map(|t| (*t).clone()).collect();
        let done = answer(|r| r.jit(&self.formula, &tensors, &values));
        done.unwrap_or_else(|| Err(Error::runtime("No CUDA GPUs are available")))
    }
}

#[cfg(feature = "by-name")]
pub(crate) mod by_name {
    use super::{JittedFunction, try_create_jit_fn, try_create_multi_output_jit_fn};
    use crate::by_name::Bound;
    use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
    use flambeau_core::dispatch::value::FromValue;
    use flambeau_core::{Result, Scalar, Tensor, Value};

    /// Keywords that are numbers.
    fn numbers(k: &Kwargs) -> Result<Vec<(&str, Scalar)>> {
        k.iter().map(|(name, v)| Ok((name.as_str(), Scalar::from_value(v)?))).collect()
    }
    impl Object for JittedFunction {
        fn type_name(&self) -> &'static str {
            "_JittedFunction"
        }
        fn call(&self, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
            let tensors = a.iter().map(Tensor::from_value).collect::<Result<Vec<_>>>()?;
            let mut out = self.try_call(&tensors.iter().collect::<Vec<_>>(), &numbers(k)?)?;
            Ok(vec![match out.len() {
                1 => Value::Tensor(out.remove(0)),
                _ => Value::Tuple(out.into_iter().map(Value::Tensor).collect()),
            }])
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    pub(crate) fn create(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        // keywords beside the text are the kernel's own
        let code: String = Bound::new("_create_jit_fn", &["code_string"], a, &k[..0])?.required()?;
        Ok(vec![Value::Object(ObjectRef::new(try_create_jit_fn(&code, &numbers(k)?)?))])
    }
    pub(crate) fn create_multiple(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let (own, others): (Vec<_>, Vec<_>) = k.iter().cloned().partition(|(name, _)| name == "num_outputs");
        let mut b = Bound::new("_create_multi_output_jit_fn", &["code_string", "num_outputs"], a, &own)?;
        let code: String = b.required()?;
        let n: i64 = b.required()?;
        let made = try_create_multi_output_jit_fn(&code, n.max(0) as usize, &numbers(&others)?)?;
        Ok(vec![Value::Object(ObjectRef::new(made))])
    }
}
