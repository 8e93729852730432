//! `torch.cuda.jiterator`: kernels made of C++ text at run time.

use flambeau_core::{Error, Result, Tensor};

/// A kernel of C++ text, `template <typename T> T NAME(T x) { .. }`.
#[derive(Clone, Debug)]
pub struct JittedFunction {
    name: String,
}
/// The function that a text defines.
///
/// # Errors
/// A text without a template function.
pub fn try_create_jit_fn(code: &str) -> Result<JittedFunction> {
    let unclear = || Error::runtime(format!("Couldn't parse code, please check correctness:\n {code}"));
    let body = code.trim_start().strip_prefix("template").ok_or_else(unclear)?;
    let (_, rest) = body.split_once('>').ok_or_else(unclear)?;
    let (head, _) = rest.split_once('(').ok_or_else(unclear)?;
    let name = head.split_whitespace().nth(1).ok_or_else(unclear)?;
    Ok(JittedFunction { name: name.into() })
}
impl JittedFunction {
    /// The function's name in the text.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Runs it.
    ///
    /// # Errors
    /// Always: there is no device that compiles it.
    pub fn try_call(&self, _tensors: &[&Tensor]) -> Result<Tensor> {
        Err(Error::assertion("Jiterator is only supported on CUDA and ROCm GPUs, none are available."))
    }
}

#[cfg(feature = "by-name")]
pub(crate) mod by_name {
    use super::{JittedFunction, try_create_jit_fn};
    use crate::by_name::Bound;
    use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
    use flambeau_core::{Result, Value};

    impl Object for JittedFunction {
        fn type_name(&self) -> &'static str {
            "_JittedFunction"
        }
        fn call(&self, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
            Ok(vec![Value::Tensor(self.try_call(&[])?)])
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    pub(crate) fn create(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        // keywords beside the text are the kernel's own
        let code: String = Bound::new("_create_jit_fn", &["code_string"], a, &k[..0])?.required()?;
        Ok(vec![Value::Object(ObjectRef::new(try_create_jit_fn(&code)?))])
    }
    pub(crate) fn create_multiple(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let mut b = Bound::new("_create_multi_output_jit_fn", &["code_string", "num_outputs"], a, &k[..0])?;
        let code: String = b.required()?;
        b.required::<i64>()?;
        Ok(vec![Value::Object(ObjectRef::new(try_create_jit_fn(&code)?))])
    }
}
