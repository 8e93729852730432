//! Programs as graphs.

/// Programs as graphs (`torch.fx`): built, printed as PyTorch prints them, run node by node, changed.
#[doc(alias = "torch.fx")]
pub mod fx {
    #[cfg(feature = "graphs")]
    pub use flambeau_fx::{
        Argument, Calls, CheckpointBlock, CheckpointChoice, Checkpoints, CodeGen, CodeOptions, Graph,
        GraphModule, Interpreter, MakeFxOptions, MemoryReport, Meta, Node, NodeData, Op, PlanReport,
        PlannedInterpreter, SymBool, SymFloat, SymInt, SymbolicTraceOptions, TensorMeta, Transformer, Val,
        checkpoints, make_fx, make_fx_of, make_fx_with, memory, passes, python, pytree, shape_prop, symbolic,
        symbolic_trace, symbolic_trace_with, try_make_fx, try_make_fx_with, try_symbolic_trace_with,
    };

    /// What PyTorch keeps apart (`torch.fx.experimental`): captures below the gradients, sizes as expressions.
    #[cfg(feature = "graphs")]
    #[doc(alias = "torch.fx.experimental")]
    pub mod experimental {
        pub use flambeau_fx::symbolic as symbolic_shapes;
        /// Captures below the gradients.
        pub mod proxy_tensor {
            pub use flambeau_fx::{MakeFxOptions, make_fx, make_fx_with, try_make_fx, try_make_fx_with};
        }
    }
}
/// Programs (`torch.export`): captured from modules, saved for PyTorch, loaded from it, printed, run.
#[doc(alias = "torch.export")]
pub mod export {
    #[cfg(feature = "graphs")]
    pub use flambeau_export::{
        AdditionalInputs, CustomDecompTable, DataClass, Dim, DraftReport, DynamicShapes, ExportOptions,
        ExportedModule, ExportedProgram, FlatArgsAdapter, InterpreterModuleDispatcher, ModuleCallEntry,
        ModuleCallSignature, Named, Range, ShapesCollection, UnflattenedModule, default_decompositions,
        draft_export, export, export_with, graph_signature, load, load_mapped, passes,
        refine_dynamic_shapes_from_suggested_fixes, register_dataclass, save, try_export, try_export_values,
        try_export_with, unflatten,
    };
}
/// Exported programs as ONNX files (`torch.onnx`), with the feature `onnx`.
#[cfg(feature = "onnx")]
pub mod onnx {
    pub use flambeau_onnx::*;
}
