//! What a program asks of the quantization of a graph beside configurations of its parts.

/// Which inputs and results of the graph are quantized already, and which modules stay whole.
#[derive(Clone, PartialEq, Debug, Default)]
#[doc(alias = "torch.ao.quantization.fx.custom_config.PrepareCustomConfig")]
pub struct PrepareCustomConfig {
    pub(super) non_traceable_module_names: Vec<String>,
    pub(super) non_traceable_module_classes: Vec<String>,
    pub(super) input_quantized_indexes: Vec<usize>,
    pub(super) output_quantized_indexes: Vec<usize>,
}
impl PrepareCustomConfig {
    /// Nothing.
    pub fn new() -> PrepareCustomConfig {
        PrepareCustomConfig::default()
    }
    /// Paths of modules that are called as they are, as one node each, and stay float.
    pub fn set_non_traceable_module_names(mut self, names: &[&str]) -> Self {
        self.non_traceable_module_names = names.iter().map(|s| s.to_string()).collect();
        self
    }
    /// The same by class, by the names that modules print.
    pub fn set_non_traceable_module_classes(mut self, classes: &[&str]) -> Self {
        self.non_traceable_module_classes = classes.iter().map(|s| s.to_string()).collect();
        self
    }
    /// Inputs that are given as quantized tensors, by their places.
    pub fn set_input_quantized_indexes(mut self, indexes: &[usize]) -> Self {
        self.input_quantized_indexes = indexes.to_vec();
        self
    }
    /// Results that are given as quantized tensors, by their places.
    pub fn set_output_quantized_indexes(mut self, indexes: &[usize]) -> Self {
        self.output_quantized_indexes = indexes.to_vec();
        self
    }
}
