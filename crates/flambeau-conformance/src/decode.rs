//! JSON values to arguments.

use crate::elements;
use crate::store::{Store, tensor_of_bytes};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::SizeVec;
use flambeau_core::tensor::handle::LazyBits;
use flambeau_core::{DType, Device, Layout, MemoryFormat, Tensor, Value};
use flambeau_library as library;
use flambeau_library::NamedFunction;
use flambeau_library::object;
use num_complex::Complex;
use serde_json::Value as J;

/// Why a case ends early.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// Nothing of this name exists.
    Missing(String),
    /// It does not do what was recorded.
    Failed(String),
}
impl From<String> for Stop {
    fn from(s: String) -> Stop {
        Stop::Failed(s)
    }
}
impl From<flambeau_core::Error> for Stop {
    fn from(e: flambeau_core::Error) -> Stop {
        Stop::Failed(format!("{e:?}"))
    }
}

/// A case's decoder: remembers the leaves that take gradients.
pub struct Decoder<'a> {
    /// The file's tensors.
    pub store: &'a Store,
    /// Path and tensor of every argument with `requires_grad`.
    pub leaves: Vec<(String, Tensor)>,
    /// Whether all floating tensors take gradients, marked or not.
    pub all_leaves: bool,
    /// Paths of tensors that PyTorch wants on the CPU whatever the device of the others.
    on_host: Vec<String>,
}

/// A list of integers.
pub fn ints(j: &J) -> Vec<i64> {
    j.as_array().map(|l| l.iter().filter_map(J::as_i64).collect()).unwrap_or_default()
}

/// The fields of a tensor tag: the tensor before leaf flags.
///
/// # Errors
/// When the file lacks the tensor.
pub fn tensor(store: &Store, j: &J) -> Result<Tensor, String> {
    let key = j["t"].as_str().ok_or("a tensor tag without key")?;
    let (e, data) = store.get(key)?;
    let (mut dtype, mut shape) = (e.dtype, e.shape.clone());
    if j["complex"] == J::Bool(true) {
        dtype = DType::from_name(j["dtype"].as_str().unwrap_or("")).ok_or("unknown complex dtype")?;
        shape.pop();
    }
    let (conj, neg) = (j["conj"] == J::Bool(true), j["neg"] == J::Bool(true));
    let mut t = if conj || neg {
        let mut b = data.to_vec();
        elements::flip(&mut b, dtype, conj, neg);
        tensor_of_bytes(dtype, &shape, &b)?
    } else {
        tensor_of_bytes(dtype, &shape, data)?
    };
    if j.get("size").is_some() {
        let offset = j["storage_offset"].as_i64().unwrap_or(0);
        t = Tensor::from_storage(t.storage(), &ints(&j["size"]), &ints(&j["stride"]), offset, dtype)
            .map_err(|e| e.to_string())?;
    }
    if conj || neg {
        let (size, stride) = (SizeVec::from_slice(t.sizes()), SizeVec::from_slice(t.strides()));
        t = t
            .view_typed(size, stride, t.storage_offset(), dtype, LazyBits { conj, neg })
            .map_err(|e| e.to_string())?;
    }
    Ok(t)
}

fn set_requires_grad(t: &Tensor) -> Result<(), Stop> {
    (flambeau_core::tensor::graph::engine()?.set_requires_grad)(t, true)?;
    Ok(())
}

impl<'a> Decoder<'a> {
    /// For one file's cases.
    pub fn new(store: &'a Store) -> Self {
        Decoder { store, leaves: Vec::new(), all_leaves: false, on_host: Vec::new() }
    }
    /// A positional argument list.
    ///
    /// # Errors
    /// See [`Decoder::value`].
    pub fn args(&mut self, j: &J, path: &str) -> Result<Vec<Value>, Stop> {
        let list = j.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(|(i, v)| self.value(v, &format!("{path}.{i}"))).collect()
    }
    /// Keyword arguments.
    ///
    /// # Errors
    /// See [`Decoder::value`].
    pub fn kwargs(&mut self, j: &J, path: &str) -> Result<Vec<(String, Value)>, Stop> {
        let Some(m) = j.as_object() else { return Ok(Vec::new()) };
        m.iter().map(|(k, v)| Ok((k.clone(), self.value(v, &format!("{path}.{k}"))?))).collect()
    }
    /// A value; `path` names it among the case's leaves.
    ///
    /// # Errors
    /// `Missing` for the name of a class or function that does not exist.
    pub fn value(&mut self, j: &J, path: &str) -> Result<Value, Stop> {
        let m = match j {
            J::Null => return Ok(Value::None),
            J::Bool(b) => return Ok(Value::Bool(*b)),
            J::Number(n) => {
                return Ok(match n.as_i64() {
                    Some(i) => Value::Int(i),
                    None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
                });
            }
            J::String(s) => return Ok(Value::Str(s.clone())),
            J::Array(_) => return Ok(Value::List(self.args(j, path)?)),
            J::Object(m) => m,
        };
        if m.contains_key("t") {
            let t = tensor(self.store, j)?;
            let mut t = if self.on_host.iter().any(|p| p == path) { t } else { crate::device::there(t)? };
            if j["parameter"] == J::Bool(true) {
                let wants = Value::Bool(j["requires_grad"] == J::Bool(true));
                let p = build("torch.nn.Parameter", &[Value::Tensor(t)], &[("requires_grad".into(), wants)])?;
                match p.into_tensor() {
                    Ok(p) => t = p,
                    Err(other) => {
                        return Err(Stop::Failed(format!("a parameter that is {}", other.type_name())));
                    }
                }
                self.leaves.push((path.to_string(), t.clone()));
            } else if j["requires_grad"] == J::Bool(true) || (self.all_leaves && t.dtype().is_floating()) {
                set_requires_grad(&t)?;
                self.leaves.push((path.to_string(), t.clone()));
            }
            return Ok(Value::Tensor(t));
        }
        let Some((tag, v)) = m.iter().next() else { return Err(Stop::Failed("an empty tag".into())) };
        let word = v.as_str().unwrap_or("");
        let unknown = |what: &str| Stop::Failed(format!("unknown {what} {v}"));
        Ok(match tag.as_str() {
            "list" => Value::List(self.args(v, path)?),
            "tuple" => Value::Tuple(self.args(v, path)?),
            "dict" => Value::Dict(self.kwargs(v, path)?),
            "dtype" => Value::DType(DType::from_name(word).ok_or_else(|| unknown("dtype"))?),
            "layout" => Value::Layout(Layout::from_name(word).ok_or_else(|| unknown("layout"))?),
            "memory_format" => {
                Value::MemoryFormat(MemoryFormat::from_name(word).ok_or_else(|| unknown("memory format"))?)
            }
            "device" => Value::Device(Device::parse(word)?),
            "slice" => {
                let mut parts = [None; 3];
                for (p, x) in parts.iter_mut().zip(v.as_array().into_iter().flatten()) {
                    *p = x.as_i64();
                }
                Value::Slice(parts)
            }
            "ellipsis" => Value::Ellipsis,
            "complex" => Value::Complex(Complex::new(number(&v[0]), number(&v[1]))),
            "float" => Value::Float(number(j)),
            "callable" => {
                if !library::exists(word) {
                    return Err(Stop::Missing(word.into()));
                }
                Value::Object(object::ObjectRef::new(NamedFunction(word.to_string())))
            }
            "pytype" => match word {
                "float" => Value::DType(DType::F64),
                "int" => Value::DType(DType::I64),
                "bool" => Value::DType(DType::Bool),
                "complex" => Value::DType(DType::C128),
                _ => return Err(unknown("type")),
            },
            "new" => self.construct(v, path)?,
            t if t.starts_with("sparse_") => {
                let s = self.sparse(t, j, v, path)?;
                if let (Value::Tensor(leaf), J::Bool(true)) = (&s, &j["requires_grad"]) {
                    set_requires_grad(leaf)?;
                    self.leaves.push((path.to_string(), leaf.clone()));
                }
                s
            }
            _ => return Err(unknown("tag")),
        })
    }
    /// The object that calling a class or function gives.
    ///
    /// # Errors
    /// `Missing` when there is none of that name.
    pub fn construct(&mut self, v: &J, path: &str) -> Result<Value, Stop> {
        let call = v["call"].as_str().unwrap_or("");
        self.hosted(call, [&format!("{path}.args"), &format!("{path}.kwargs")]);
        let args = self.args(&v["args"], &format!("{path}.args"))?;
        let kwargs = self.kwargs(&v["kwargs"], &format!("{path}.kwargs"))?;
        build(call, &args, &kwargs)
    }
    /// Notes the arguments of a call that stay on the CPU, by the paths of its positional and its named arguments.
    pub fn hosted(&mut self, call: &str, [args, kwargs]: [&str; 2]) {
        if call == "torch.nn.utils.rnn.pack_padded_sequence" {
            self.on_host.extend([format!("{args}.1"), format!("{kwargs}.lengths")]);
        }
    }
    fn sparse(&mut self, tag: &str, j: &J, v: &J, path: &str) -> Result<Value, Stop> {
        let call = format!("torch.{tag}_tensor");
        if !library::exists(&call) {
            return Err(Stop::Missing(call));
        }
        let fields: &[&str] = match tag {
            "sparse_coo" => &["indices", "values"],
            "sparse_csr" | "sparse_bsr" => &["crow_indices", "col_indices", "values"],
            _ => &["ccol_indices", "row_indices", "values"],
        };
        let mut args = Vec::new();
        for f in fields {
            args.push(self.value(&v[*f], &format!("{path}.{f}"))?);
        }
        args.push(Value::Tuple(ints(&j["size"]).into_iter().map(Value::Int).collect()));
        let mut kwargs = Vec::new();
        if j["coalesced"] == J::Bool(true) {
            kwargs.push(("is_coalesced".to_string(), Value::Bool(true)));
        }
        let r = library::call(&call, &args, &kwargs)?;
        r.into_iter().next().ok_or_else(|| Stop::Failed(format!("{call} returned nothing")))
    }
}

/// Constructs a class, or calls a function.
///
/// # Errors
/// `Missing` when there is none of that name.
pub fn build(call: &str, args: &[Value], kwargs: &[(String, Value)]) -> Result<Value, Stop> {
    if let Some(make) = object::class(call) {
        return Ok(Value::Object(make(args, kwargs)?));
    }
    if !library::exists(call) {
        return Err(Stop::Missing(call.to_string()));
    }
    Ok(library::call_value(call, args, kwargs)?)
}

/// A JSON number, or a tagged one that JSON cannot hold.
pub fn number(j: &J) -> f64 {
    match j {
        J::Number(n) => n.as_f64().unwrap_or(f64::NAN),
        J::String(s) => s.parse().unwrap_or(f64::NAN),
        J::Object(m) => m.get("float").map_or(f64::NAN, number),
        _ => f64::NAN,
    }
}
