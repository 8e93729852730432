//! What inputs and outputs of a program's graph are (`torch.export.graph_signature`).

use flambeau_core::Value;
use std::fmt;

/// What an input or output is called, and what kind of value it is.
#[derive(Clone, Debug)]
pub enum ArgumentSpec {
    /// A tensor.
    #[doc(alias = "torch.export.graph_signature.TensorArgument")]
    Tensor(String),
    /// An integer that the program finds out.
    #[doc(alias = "torch.export.graph_signature.SymIntArgument")]
    SymInt(String),
    /// A floating number that the program finds out.
    #[doc(alias = "torch.export.graph_signature.SymFloatArgument")]
    SymFloat(String),
    /// A truth that the program finds out.
    #[doc(alias = "torch.export.graph_signature.SymBoolArgument")]
    SymBool(String),
    /// A constant.
    #[doc(alias = "torch.export.graph_signature.ConstantArgument")]
    Constant(String, Value),
    /// An object of a class that the program brings.
    #[doc(alias = "torch.export.graph_signature.CustomObjArgument")]
    CustomObj(String, String),
    /// What keeps calls with effects in order.
    #[doc(alias = "torch.export.graph_signature.TokenArgument")]
    Token(String),
}
impl ArgumentSpec {
    /// The name of the node.
    pub fn name(&self) -> &str {
        match self {
            ArgumentSpec::Tensor(n)
            | ArgumentSpec::SymInt(n)
            | ArgumentSpec::SymFloat(n)
            | ArgumentSpec::SymBool(n)
            | ArgumentSpec::Constant(n, _)
            | ArgumentSpec::CustomObj(n, _)
            | ArgumentSpec::Token(n) => n,
        }
    }
    /// PyTorch's name of the kind.
    pub fn class_name(&self) -> &'static str {
        match self {
            ArgumentSpec::Tensor(_) => "TensorArgument",
            ArgumentSpec::SymInt(_) => "SymIntArgument",
            ArgumentSpec::SymFloat(_) => "SymFloatArgument",
            ArgumentSpec::SymBool(_) => "SymBoolArgument",
            ArgumentSpec::Constant(..) => "ConstantArgument",
            ArgumentSpec::CustomObj(..) => "CustomObjArgument",
            ArgumentSpec::Token(_) => "TokenArgument",
        }
    }
}
macro_rules! kinds {
    ($(#[$meta:meta])* $name:ident { $($(#[$m:meta])* $kind:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$m])* $kind,)*
        }
        impl $name {
            /// PyTorch's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$kind => $text,)*
                }
            }
        }
    };
}
kinds! {
    /// What an input of the graph is.
    #[doc(alias = "torch.export.graph_signature.InputKind")]
    InputKind {
        /// What the caller gives.
        #[doc(alias = "torch.export.graph_signature.InputKind.USER_INPUT")]
        UserInput = "USER_INPUT",
        /// A parameter.
        Parameter = "PARAMETER",
        /// A buffer.
        Buffer = "BUFFER",
        /// A tensor of the program that is neither.
        ConstantTensor = "CONSTANT_TENSOR",
        /// An object of a class that the program brings.
        CustomObj = "CUSTOM_OBJ",
        /// What keeps calls with effects in order.
        Token = "TOKEN",
    }
}
kinds! {
    /// What an output of the graph is.
    #[doc(alias = "torch.export.graph_signature.OutputKind")]
    OutputKind {
        /// What the caller gets.
        #[doc(alias = "torch.export.graph_signature.OutputKind.USER_OUTPUT")]
        UserOutput = "USER_OUTPUT",
        /// The loss of a training step.
        LossOutput = "LOSS_OUTPUT",
        /// The new value of a buffer.
        #[doc(alias = "torch.export.graph_signature.OutputKind.BUFFER_MUTATION")]
        BufferMutation = "BUFFER_MUTATION",
        /// The new value of a parameter.
        ParameterMutation = "PARAMETER_MUTATION",
        /// A parameter's gradient.
        GradientToParameter = "GRADIENT_TO_PARAMETER",
        /// An input's gradient.
        GradientToUserInput = "GRADIENT_TO_USER_INPUT",
        /// The new value of an input.
        UserInputMutation = "USER_INPUT_MUTATION",
        /// What keeps calls with effects in order.
        Token = "TOKEN",
    }
}
/// An input of the graph.
#[doc(alias = "torch.export.graph_signature.InputSpec")]
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// What it is.
    pub kind: InputKind,
    /// Its node.
    pub arg: ArgumentSpec,
    /// The parameter, buffer or constant that it is.
    pub target: Option<String>,
    /// Of a buffer: whether checkpoints hold it.
    pub persistent: Option<bool>,
}
impl fmt::Display for InputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.arg.name(), self.kind.name())?;
        if let Some(t) = &self.target {
            write!(f, " target='{t}'")?;
        }
        match self.persistent {
            Some(p) => write!(f, " persistent={}", if p { "True" } else { "False" }),
            None => Ok(()),
        }
    }
}
/// An output of the graph.
#[doc(alias = "torch.export.graph_signature.OutputSpec")]
#[derive(Clone, Debug)]
pub struct OutputSpec {
    /// What it is.
    pub kind: OutputKind,
    /// Its node.
    pub arg: ArgumentSpec,
    /// The buffer or input that it changes.
    pub target: Option<String>,
}
impl fmt::Display for OutputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.arg.name(), self.kind.name())?;
        match &self.target {
            Some(t) => write!(f, " target='{t}'"),
            None => Ok(()),
        }
    }
}
/// What inputs and outputs of a graph are, in order.
///
/// ```
/// use torch::export::graph_signature::{ArgumentSpec, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec};
/// use torch::{Tensor, export, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// let signature: &ExportGraphSignature = &p.graph_signature;
/// assert_eq!(signature.parameters(), ["weight", "bias"]);
/// let InputSpec { kind, arg, target, .. } = &signature.input_specs[0];
/// assert_eq!((*kind, target.as_deref()), (InputKind::Parameter, Some("weight")));
/// assert!(matches!(arg, ArgumentSpec::Tensor(_)) && arg.name() == "p_weight");
/// let out: &OutputSpec = &signature.output_specs[0];
/// assert_eq!(out.kind, OutputKind::UserOutput);
/// assert!(signature.backward_signature().is_none());
/// ```
#[doc(alias = "torch.export.ExportGraphSignature")]
#[doc(alias = "torch.export.graph_signature")]
#[doc(alias = "torch.export.graph_signature.ExportGraphSignature")]
#[derive(Clone, Debug, Default)]
pub struct ExportGraphSignature {
    /// Inputs.
    pub input_specs: Vec<InputSpec>,
    /// Outputs.
    pub output_specs: Vec<OutputSpec>,
}
impl ExportGraphSignature {
    fn targets(&self, kind: InputKind) -> Vec<&str> {
        self.input_specs.iter().filter(|s| s.kind == kind).filter_map(|s| s.target.as_deref()).collect()
    }
    /// Names of parameters.
    pub fn parameters(&self) -> Vec<&str> {
        self.targets(InputKind::Parameter)
    }
    /// Names of buffers.
    pub fn buffers(&self) -> Vec<&str> {
        self.targets(InputKind::Buffer)
    }
    /// Names of buffers that checkpoints do not hold.
    pub fn non_persistent_buffers(&self) -> Vec<&str> {
        let specs = self.input_specs.iter().filter(|s| s.persistent == Some(false));
        specs.filter_map(|s| s.target.as_deref()).collect()
    }
    /// The nodes that the caller fills.
    pub fn user_inputs(&self) -> Vec<&str> {
        self.input_specs.iter().filter(|s| s.kind == InputKind::UserInput).map(|s| s.arg.name()).collect()
    }
    /// The nodes that the caller gets.
    pub fn user_outputs(&self) -> Vec<&str> {
        self.output_specs.iter().filter(|s| s.kind == OutputKind::UserOutput).map(|s| s.arg.name()).collect()
    }
    /// Gives a node of inputs or outputs another name.
    #[doc(alias = "torch.export.graph_signature.ExportGraphSignature.replace_all_uses")]
    pub fn replace_all_uses(&mut self, old: &str, new: &str) {
        let change = |a: &mut ArgumentSpec| {
            if a.name() != old {
                return;
            }
            match a {
                ArgumentSpec::Tensor(n)
                | ArgumentSpec::SymInt(n)
                | ArgumentSpec::SymFloat(n)
                | ArgumentSpec::SymBool(n)
                | ArgumentSpec::Constant(n, _)
                | ArgumentSpec::CustomObj(n, _)
                | ArgumentSpec::Token(n) => *n = new.to_string(),
            }
        };
        self.output_specs.iter_mut().for_each(|s| change(&mut s.arg));
        self.input_specs.iter_mut().for_each(|s| change(&mut s.arg));
    }
}
impl ExportGraphSignature {
    /// What to call when a node gets another name, so that the signature keeps to the graph: of outputs, and of inputs too if wanted.
    #[doc(alias = "torch.export.graph_signature.ExportGraphSignature.get_replace_hook")]
    pub fn get_replace_hook(&mut self, replace_inputs: bool) -> impl FnMut(&str, &str) + '_ {
        move |old, new| {
            let inputs = (!replace_inputs).then(|| self.input_specs.clone());
            self.replace_all_uses(old, new);
            if let Some(kept) = inputs {
                self.input_specs = kept;
            }
        }
    }
    /// Which outputs are gradients, of a program whose loss is an output.
    #[doc(alias = "torch.export.ExportGraphSignature.backward_signature")]
    pub fn backward_signature(&self) -> Option<ExportBackwardSignature> {
        let of = |kind: OutputKind| {
            let specs = self.output_specs.iter().filter(move |s| s.kind == kind);
            specs.map(|s| (s.arg.name().to_string(), s.target.clone().unwrap_or_default())).collect()
        };
        let loss = self.output_specs.iter().find(|s| s.kind == OutputKind::LossOutput)?;
        Some(ExportBackwardSignature {
            gradients_to_parameters: of(OutputKind::GradientToParameter),
            gradients_to_user_inputs: of(OutputKind::GradientToUserInput),
            loss_output: loss.arg.name().to_string(),
        })
    }
}
/// The outputs of a training step that are gradients, by node: of which parameter, of which input.
///
/// ```
/// use torch::export::graph_signature::ExportBackwardSignature;
/// use torch::{Tensor, export, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// // no training step: no gradients among its outputs
/// let none: Option<ExportBackwardSignature> = p.graph_signature.backward_signature();
/// assert!(none.is_none());
/// ```
#[doc(alias = "torch.export.graph_signature.ExportBackwardSignature")]
#[derive(Clone, Debug, PartialEq)]
pub struct ExportBackwardSignature {
    /// Node and parameter.
    pub gradients_to_parameters: Vec<(String, String)>,
    /// Node and input.
    pub gradients_to_user_inputs: Vec<(String, String)>,
    /// The node of the loss.
    pub loss_output: String,
}
impl fmt::Display for ExportGraphSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\n# inputs")?;
        for s in &self.input_specs {
            write!(f, "\n{s}")?;
        }
        f.write_str("\n\n# outputs")?;
        for s in &self.output_specs {
            write!(f, "\n{s}")?;
        }
        f.write_str("\n")
    }
}
