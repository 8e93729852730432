//! What PyTorch keeps of architecture optimisation: quantization (`torch.ao`).

/// Quantized layers and functions (`torch.ao.nn`).
pub mod nn {
    /// Layers that were joined (`torch.ao.nn.intrinsic`).
    pub mod intrinsic {
        pub use flambeau_quantization::nn::conv_add::ConvAdd2d;
        pub use flambeau_quantization::stubs::Fused;
    }
    /// Layers of parts that are quantized one by one (`torch.ao.nn.quantizable`).
    pub mod quantizable {
        pub use flambeau_quantization::nn::quantizable::{
            AttentionArgs, LSTM, LSTMCell, LstmShape, MultiheadAttention,
        };
    }
    /// Layers of quantized tensors (`torch.ao.nn.quantized`).
    pub mod quantized {
        pub use flambeau_quantization::nn::conv::{Conv, ConvShape};
        pub use flambeau_quantization::nn::embedding::Embedding;
        pub use flambeau_quantization::nn::float_functional::Functional;
        pub use flambeau_quantization::nn::functional;
        pub use flambeau_quantization::nn::layer::{Layer, LayerKind};
        pub use flambeau_quantization::nn::linear::{Linear, LinearKind};
        pub use flambeau_quantization::nn::qat::Qat;
        pub use flambeau_quantization::nn::recurrent::{Recurrent, Step};
        #[cfg(feature = "graphs")]
        /// Layers that compute with numbers and round their weights (`torch.ao.nn.quantized.reference`).
        pub mod reference {
            pub use flambeau_quantization::nn::reference::Reference;
        }
    }
}
/// Comparisons of models (`torch.ao.ns`).
pub mod ns {
    /// Results and weights of a quantized model beside those of its float model (`torch.ao.ns._numeric_suite`).
    #[doc(alias = "torch.ao.ns._numeric_suite")]
    #[doc(alias = "torch.quantization._numeric_suite")]
    pub mod numeric_suite {
        pub use flambeau_quantization::numeric_suite::*;
    }
}
/// From float models to quantized ones (`torch.ao.quantization`).
#[doc(alias = "torch.ao.quantization")]
#[doc(alias = "torch.quantization")]
pub mod quantization {
    pub use flambeau_core::tensor::quantized::QScheme;
    pub use flambeau_quantization::fake_quantize::{
        FakeQuantize, FakeQuantizeClass, FakeQuantizeSpec, fused_moving_avg_obs_fake_quant,
        try_fused_moving_avg_obs_fake_quant,
    };
    pub use flambeau_quantization::flow::{
        Mapping, QuantizeDynamicOptions, Spec, convert, convert_, dynamic_default, fuse_conv_bn_weights,
        fuse_modules_, prepare, prepare_, prepare_qat, prepare_qat_, propagate_qconfig_, qconfig,
        quantize_dynamic, quantize_dynamic_, quantize_dynamic_with, set_qconfig, try_convert, try_convert_,
        try_dynamic_default, try_fuse_conv_bn_weights, try_fuse_modules_, try_prepare, try_prepare_,
        try_prepare_qat, try_prepare_qat_, try_quantize_dynamic, try_quantize_dynamic_,
    };
    pub use flambeau_quantization::fusers::{
        ClassPair, CustomConfig, Fuser, default_eval_fn, fuse_conv_bn, fuse_conv_bn_relu,
        fuse_convtranspose_bn, fuse_linear_bn, get_default_compare_output_module_list,
        get_default_custom_config_dict, get_default_dynamic_quant_module_mappings,
        get_default_dynamic_sparse_quant_module_mappings, get_default_float_to_quantized_operator_mappings,
        get_default_qat_module_mappings, get_default_qconfig_propagation_list,
        get_default_static_quant_module_mappings, get_default_static_quant_reference_module_mappings,
        get_default_static_sparse_quant_module_mappings, get_dynamic_quant_module_class,
        get_embedding_qat_module_mappings, get_embedding_static_quant_module_mappings, get_fuser_method,
        get_fuser_method_new, get_quantized_operator, get_static_quant_module_class, no_observer_set,
        try_default_eval_fn, try_fuse_conv_bn, try_fuse_conv_bn_relu, try_fuse_convtranspose_bn,
        try_fuse_linear_bn, try_get_dynamic_quant_module_class, try_get_fuser_method,
        try_get_fuser_method_new, try_get_quantized_operator, try_get_static_quant_module_class,
    };
    pub use flambeau_quantization::granularity::{
        AffineQuantizedObserverBase, Granularity, MappingType, PerAxis, PerBlock, PerGroup, PerRow,
        PerTensor, PerToken, QuantType, TorchAODType, ZeroPointDomain, get_block_size, quant_type_to_str,
        try_get_block_size,
    };
    pub use flambeau_quantization::observers::{Observer, ObserverClass, ObserverSpec};
    pub use flambeau_quantization::prepared::{
        add_quant_dequant_, get_observer_state_dict, load_observer_state_dict, try_add_quant_dequant_,
        try_load_observer_state_dict,
    };
    #[allow(deprecated)]
    pub use flambeau_quantization::qconfig::QConfigDynamic;
    pub use flambeau_quantization::qconfig::{
        Made, Make, QConfig, default_of, get_default_qat_qconfig, get_default_qconfig, qconfig_of,
        try_get_default_qat_qconfig, try_get_default_qconfig,
    };
    pub use flambeau_quantization::qconfig_mapping::{
        QConfigMapping, get_default_qat_qconfig_mapping, get_default_qconfig_mapping,
        try_get_default_qat_qconfig_mapping, try_get_default_qconfig_mapping,
    };
    pub use flambeau_quantization::stubs::{Fused, QuantWrapper, Stub};
    /// What engines compute on quantized tensors (`torch.ao.quantization.backend_config`).
    #[cfg(feature = "graphs")]
    #[doc(alias = "torch.ao.quantization.backend_config")]
    pub mod backend_config {
        pub use flambeau_quantization::fx::{
            BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType,
            get_native_backend_config,
        };
    }
    /// What [`quantize_fx`] is to heed (`torch.ao.quantization.fx`).
    #[cfg(feature = "graphs")]
    pub mod fx {
        /// Modules that stay calls, classes that are exchanged, what is kept (`torch.ao.quantization.fx.custom_config`).
        #[doc(alias = "torch.ao.quantization.fx.custom_config")]
        pub mod custom_config {
            pub use flambeau_quantization::fx::{
                ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig, StandaloneModuleConfigEntry,
            };
        }
    }
    /// Quantization of captured graphs (`torch.ao.quantization.quantize_fx`).
    #[cfg(feature = "graphs")]
    #[doc(alias = "torch.ao.quantization.quantize_fx")]
    pub mod quantize_fx {
        pub use flambeau_quantization::fx::{
            ConvertCustomConfig, ConvertFxOptions, FuseCustomConfig, FuseFxOptions, ObservedGraphModule,
            PrepareCustomConfig, PrepareFxOptions, StandaloneModuleConfigEntry, convert_fx, convert_fx_with,
            convert_to_reference_fx, convert_to_reference_fx_with, fuse_fx, fuse_fx_with, prepare_fx,
            prepare_fx_with, prepare_graph, prepare_qat_fx, prepare_qat_fx_with, try_convert_fx,
            try_convert_to_reference_fx, try_fuse_fx, try_prepare_fx, try_prepare_graph, try_prepare_qat_fx,
        };
    }
}
