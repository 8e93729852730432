//! What is known of a node's result.

use crate::node::Node;
use crate::symbolic::Expr;
use flambeau_core::tensor::geometry::is_contiguous_format;
use flambeau_core::{DType, Device, Layout, MemoryFormat, Tensor, Value};
use std::fmt::Write as _;

/// What is known of a node beside the program.
///
/// ```
/// use torch::Tensor;
/// use torch::fx::{self, Meta, TensorMeta, Val};
/// let m = fx::make_fx(|x: &[Tensor]| x[0].exp())(&[&torch::zeros([2, 3])]);
/// let exp = m.graph.nodes().find(|n| m.graph.node(*n).name == "exp").unwrap();
/// let meta: &Meta = &m.graph.node(exp).meta;
/// let Some(Val::Tensor(TensorMeta { dtype, shape, .. })) = &meta.val else { panic!("a tensor") };
/// assert_eq!((*dtype, shape.len()), (torch::float32, 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// What its result is like.
    pub val: Option<Val>,
    /// What [`shape_prop`](crate::shape_prop()) saw.
    pub tensor_meta: Option<Val>,
    /// Where Python's program made it.
    pub stack_trace: Option<String>,
    /// The modules around it, from the outermost: key, path, class.
    pub nn_module_stack: Vec<(String, String, String)>,
    /// Of a step of a backward pass: the modules around the call whose gradient it computes, as above.
    pub fwd_nn_module_stack: Option<Vec<(String, String, String)>>,
    /// Operations of the call's products, as [`FlopCounterMode`](flambeau_utils::flop_counter::FlopCounterMode) counts them, where a
    /// capture below the gradients saw it.
    pub flops: i64,
    /// The steps whose results the call writes to.
    pub writes: Vec<Node>,
    /// The call is one of a function that the program declared with `wrap`.
    pub is_wrapped: bool,
    /// The memory of its result where a capture saw it: a number for the block, and its bytes. Results that share memory have the
    /// same.
    pub storage: Option<(usize, usize)>,
    /// The most bytes at once of the tensors that the call made, its results included, where a capture on memory saw it.
    pub made: usize,
    /// The last call during which the captured program had a handle on its result, beyond those of the calls that use it: what is
    /// saved for a backward pass, what a variable keeps.
    pub held_until: Option<Node>,
    /// Results that the program does not use: their bytes, and the last call during which it had a handle on them.
    pub unused: Vec<(usize, Option<Node>)>,
    /// What the program's author annotated it with: `torch.fx.traceback.annotate`.
    pub custom: Vec<(String, Value)>,
    /// Further notes, by name.
    pub notes: Vec<(String, String)>,
}

/// What a result is like: tensors with sizes that may be symbols.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(TensorMeta),
    /// A number or bool that the program finds out: the expression for it, as text.
    Sym(String),
    /// Several.
    List(Vec<Val>),
}

/// Element type, sizes and strides of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorMeta {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<Expr>,
    /// Strides.
    pub stride: Vec<Expr>,
    /// Distance of the first element from the storage's.
    pub storage_offset: Expr,
    /// Whether it wants a gradient.
    pub requires_grad: bool,
    /// Where it is.
    pub device: Device,
    /// How it lies in memory.
    pub layout: Layout,
    /// The first of PyTorch's formats in which it is contiguous.
    pub memory_format: Option<MemoryFormat>,
}
impl TensorMeta {
    /// Of a tensor.
    pub fn of(t: &Tensor) -> TensorMeta {
        let all = |l: &[i64]| l.iter().map(|n| Expr::Int(*n)).collect();
        let strided = t.layout() == Layout::Strided;
        let format = [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d]
            .into_iter()
            .find(|f| {
                let fits = match f {
                    MemoryFormat::ChannelsLast => t.dim() == 4,
                    MemoryFormat::ChannelsLast3d => t.dim() == 5,
                    _ => true,
                };
                strided && fits && is_contiguous_format(t.sizes(), t.strides(), *f)
            });
        TensorMeta {
            dtype: t.dtype(),
            shape: all(t.sizes()),
            stride: if strided { all(t.strides()) } else { Vec::new() },
            storage_offset: Expr::Int(if strided { t.storage_offset() } else { 0 }),
            requires_grad: t.requires_grad(),
            device: t.device(),
            layout: t.layout(),
            memory_format: format,
        }
    }
    /// `f32[2, s0]`: what verbose programs print.
    pub fn annotation(&self) -> String {
        let mut out = String::from(abbreviation(self.dtype));
        out.push('[');
        for (i, s) in self.shape.iter().enumerate() {
            let _ = write!(out, "{}{s}", if i == 0 { "" } else { ", " });
        }
        out.push(']');
        out
    }
}

/// The short name of an element type.
pub fn abbreviation(d: DType) -> &'static str {
    match d.name() {
        "bfloat16" => "bf16",
        "float64" => "f64",
        "float32" => "f32",
        "float16" => "f16",
        "float8_e4m3fn" => "f8e4m3fn",
        "float8_e5m2" => "f8e5m2",
        "float8_e4m3fnuz" => "f8e4m3fnuz",
        "float8_e5m2fnuz" => "f8e5m2fnuz",
        "float8_e8m0fnu" => "f8e8m0fnu",
        "complex32" => "c32",
        "complex64" => "c64",
        "complex128" => "c128",
        "int8" => "i8",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "bool" => "b8",
        "uint8" => "u8",
        "uint16" => "u16",
        "uint32" => "u32",
        "uint64" => "u64",
        other => other,
    }
}
