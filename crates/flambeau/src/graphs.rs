//! Programs as graphs.

/// Programs as graphs (`torch.fx`): built, printed as PyTorch prints them, run node by node, changed.
#[doc(alias = "torch.fx")]
pub mod fx {
    #[cfg(feature = "graphs")]
    pub use flambeau_fx::{
        Argument, Calls, CodeGen, CodeOptions, Graph, GraphModule, Interpreter, Meta, Node, NodeData, Op,
        TensorMeta, Transformer, Val, passes, python, pytree, shape_prop, symbolic,
    };
}
/// Programs that PyTorch exported (`torch.export`): loaded, printed, run.
#[doc(alias = "torch.export")]
pub mod export {
    #[cfg(feature = "graphs")]
    pub use flambeau_export::{
        ExportedModule, ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range, graph_signature, load,
    };
}
/// Exported programs as ONNX files (`torch.onnx`), with the feature `onnx`.
#[cfg(feature = "onnx")]
pub mod onnx {
    pub use flambeau_onnx::*;
}
