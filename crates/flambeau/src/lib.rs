#![doc = include_str!("front_page.md")]
#![forbid(unsafe_code)]

extern crate self as torch;
// a back end is linked, not named: `torch::cuda` answers for it
#[cfg(feature = "cuda")]
extern crate flambeau_cuda as _;

// a dependency that no line names is not linked, and its operators would be missing
use flambeau_amp as _;
use flambeau_autograd as _;
use flambeau_core as _;
use flambeau_data as _;
use flambeau_devices as _;
#[cfg(feature = "distributed")]
use flambeau_distributed as _;
#[cfg(feature = "distributions")]
use flambeau_distributions as _;
#[cfg(feature = "fft")]
use flambeau_fft as _;
#[cfg(feature = "func")]
use flambeau_func as _;
#[cfg(feature = "by-name")]
use flambeau_library as _;
#[cfg(feature = "linalg")]
use flambeau_linalg as _;
#[cfg(feature = "masked")]
use flambeau_masked as _;
#[cfg(feature = "nested")]
use flambeau_nested as _;
use flambeau_nn as _;
use flambeau_nn_functional as _;
use flambeau_optim as _;
#[cfg(feature = "quantization")]
use flambeau_quantization as _;
use flambeau_serialization as _;
use flambeau_sparse as _;
use flambeau_utils as _;

pub use flambeau_amp::{
    GradScaler, autocast, autocast_decrement_nesting, autocast_guard, autocast_increment_nesting,
    clear_autocast_cache, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled,
    set_autocast_cache_enabled, set_autocast_dtype, set_autocast_enabled, try_autocast, try_autocast_guard,
    try_get_autocast_dtype, try_is_autocast_enabled, try_set_autocast_dtype, try_set_autocast_enabled,
};
pub use flambeau_autograd::control_flow::{cond, try_cond, try_while_loop, while_loop};
pub use flambeau_autograd::{
    enable_grad, enable_grad_guard, inference_mode, inference_mode_guard, is_grad_enabled,
    is_inference_mode_enabled, no_grad, no_grad_guard, set_grad_enabled, set_grad_enabled_guard,
};
pub use flambeau_core::api::literal::{
    as_tensor, scalar_tensor, tensor, tensor_with, try_as_tensor, try_scalar_tensor, try_tensor,
};
pub use flambeau_core::api::normal::{NormalArgument, normal, normal_sized, try_normal};
pub use flambeau_core::api::repeat::{
    repeat_interleave, repeat_interleave_with, unique_dim, unique_dim_with,
};
pub use flambeau_core::api::short::{
    broadcast_shapes, finfo, get_rng_state, iinfo, promote_types, set_default_dtype, set_rng_state,
};
pub use flambeau_core::api::split::split;
pub use flambeau_core::functions::*;
pub use flambeau_core::generated::ops::normal_float_float as try_normal_sized;
pub use flambeau_core::generated::special;
pub use flambeau_core::iter::promotion::can_cast;
pub use flambeau_core::iter::promotion::{
    default_dtype as get_default_dtype, promote_types as try_promote_types,
    set_default_dtype as try_set_default_dtype,
};
pub use flambeau_core::settings::determinism::{
    DeterministicMode, are_deterministic_algorithms_enabled, get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled, is_warn_always_enabled, set_deterministic_debug_mode,
    set_warn_always, use_deterministic_algorithms,
};
pub use flambeau_core::settings::threads::{get_num_threads, set_num_threads};
pub use flambeau_core::settings::{
    MatmulPrecision, config as __config__, get_default_device, get_float32_matmul_precision,
    set_default_device, set_float32_matmul_precision, set_flush_denormal,
};
pub use flambeau_core::tensor::generator::{
    default_generator, get_rng_state as try_get_rng_state, initial_seed, manual_seed, seed,
    set_rng_state as try_set_rng_state,
};
pub use flambeau_core::tensor::geometry::broadcast_all as try_broadcast_shapes;
pub use flambeau_core::text::{Profile, get_printoptions, printoptions, set_printoptions};
pub use flambeau_core::types::device::{device, try_device};
pub use flambeau_core::types::names::{DimName, IntoNames, Names};
pub use flambeau_core::{
    DType, Device, Element, Error, ErrorKind, FInfo, Generator, IInfo, Layout, MemoryFormat, Result, Scalar,
    Slice, Tensor, TypedStorage, finfo as try_finfo, iinfo as try_iinfo,
};
pub use flambeau_devices::stream::{Event, Stream};
// functions of a feature are written out, so that the compiler names it where they are left out
#[cfg(feature = "fft")]
#[allow(deprecated)]
pub use flambeau_fft::generated::functions::{
    fft, fft_with, ifft, ifft_with, irfft, irfft_with, istft, istft_with, rfft, rfft_with, stft, stft_with,
};
#[cfg(feature = "linalg")]
pub use flambeau_linalg::functions::{
    cholesky, cholesky_inverse, cholesky_inverse_out, cholesky_inverse_out_with, cholesky_inverse_with,
    cholesky_out, cholesky_out_with, cholesky_solve, cholesky_solve_out, cholesky_solve_out_with,
    cholesky_solve_with, cholesky_with, det, geqrf, geqrf_out, lobpcg, lobpcg_with, lu, lu_solve,
    lu_solve_out, lu_unpack, lu_unpack_out, lu_unpack_out_with, lu_unpack_with, lu_with, orgqr, orgqr_out,
    ormqr, ormqr_out, ormqr_out_with, ormqr_with, pca_lowrank, pca_lowrank_with, pinverse, pinverse_with, qr,
    qr_out, qr_out_with, qr_with, svd, svd_lowrank, svd_lowrank_with, svd_out, svd_out_with, svd_with,
    triangular_solve, triangular_solve_out, triangular_solve_out_with, triangular_solve_with, try_lobpcg,
    try_lu, try_pca_lowrank, try_svd_lowrank,
};
#[cfg(feature = "linalg")]
pub use flambeau_linalg::{legacy, linalg};
pub use flambeau_nn_functional::generated::functions::*;
#[cfg(feature = "quantization")]
pub use flambeau_quantization::generated::functions::{
    _fake_quantize_learnable_per_channel_affine, _fake_quantize_learnable_per_channel_affine_with,
    _fake_quantize_learnable_per_tensor_affine, _fake_quantize_learnable_per_tensor_affine_with, dequantize,
    dequantize_all, int_repr, make_per_channel_quantized_tensor, make_per_tensor_quantized_tensor,
    q_per_channel_axis, q_per_channel_scales, q_per_channel_zero_points, q_scale, q_zero_point,
    quantize_all_per_tensor, quantize_per_channel, quantize_per_tensor, quantize_per_tensor_by,
    quantize_per_tensor_dynamic, quantized_batch_norm, quantized_max_pool1d, quantized_max_pool1d_with,
    quantized_max_pool2d, quantized_max_pool2d_with,
};
pub use flambeau_serialization::tensors::{load, load_with, save, save_with};
pub use flambeau_sparse::functions::*;
pub use flambeau_sparse::generated::functions::*;

#[doc(hidden)]
pub use flambeau_core as __core;

mod without;

/// The README's programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod book;

/// Keyword arguments of the functions in this crate's root and of `Tensor`'s methods. Those of other functions, of modules and of
/// optimizers stand beside them: [`nn::functional::SoftplusOptions`], [`nn::LinearOptions`].
pub mod options {
    pub use flambeau_amp::AutocastOptions;
    pub use flambeau_core::api::repeat::{RepeatInterleaveOptions, UniqueDimOptions};
    pub use flambeau_core::generated::keywords::*;
    pub use flambeau_core::text::PrintOptions;
    pub use flambeau_core::{BackwardOptions, IntoTensorOptions, TensorOptions};
    #[cfg(feature = "fft")]
    pub use flambeau_fft::generated::keywords::*;
    #[cfg(feature = "linalg")]
    pub use flambeau_linalg::generated::keywords::*;
    #[cfg(feature = "linalg")]
    pub use flambeau_linalg::{LobpcgOptions, LuOptions, PcaLowrankOptions, SvdLowrankOptions};
    pub use flambeau_nn_functional::generated::keywords::*;
    #[cfg(feature = "quantization")]
    pub use flambeau_quantization::generated::keywords::*;
    pub use flambeau_serialization::tensors::{LoadOptions, SaveOptions};
    pub use flambeau_sparse::SparseOptions;
    pub use flambeau_sparse::generated::keywords::*;
}

/// Every operator as a fallible function: all arguments, nothing defaulted.
pub mod ops {
    pub use flambeau_core::generated::ops::*;
    // Names that nn.functional has too, with other arguments: torch's come first.
    pub use flambeau_amp::generated::ops::*;
    pub use flambeau_core::generated::ops::{log_softmax, relu, relu_, sigmoid, softmax, tanh, unfold};
    #[cfg(feature = "fft")]
    pub use flambeau_fft::generated::ops::*;
    #[cfg(feature = "linalg")]
    pub use flambeau_linalg::generated::ops::*;
    #[cfg(feature = "masked")]
    pub use flambeau_masked::generated::ops::*;
    pub use flambeau_nn_functional::generated::ops::*;
    pub use flambeau_optim::generated::ops::*;
    #[cfg(feature = "quantization")]
    pub use flambeau_quantization::generated::ops::*;
    pub use flambeau_sparse::generated::ops::*;
}

#[cfg(feature = "distributed")]
#[doc(alias = "torch.distributed")]
pub mod distributed;
/// Memory that belongs to groups of processors (`torch.numa`).
#[cfg(feature = "distributed")]
pub mod numa {
    /// Workers that run on the processors near their devices.
    pub mod binding {
        pub use flambeau_distributed::numa::{AffinityMode, NumaOptions};
    }
}

/// Probability distributions, their constraints, transforms and divergences (`torch.distributions`).
#[cfg(feature = "distributions")]
#[doc(alias = "torch.distributions")]
pub mod distributions {
    pub use flambeau_distributions::{
        Argument, Bernoulli, BernoulliOptions, Beta, BetaOptions, Binomial, BinomialOptions, Categorical,
        CategoricalOptions, Cauchy, CauchyOptions, Chi2, Chi2Options, Constraint, ConstraintRegistry,
        ContinuousBernoulli, ContinuousBernoulliOptions, Count, CustomConstraint, Dirichlet,
        DirichletOptions, Distribution, DistributionExt, ExpRelaxedCategorical, ExpRelaxedCategoricalOptions,
        Exponential, ExponentialFamily, ExponentialOptions, Factory, FisherSnedecor, FisherSnedecorOptions,
        Gamma, GammaOptions, GeneralizedPareto, GeneralizedParetoOptions, Geometric, GeometricOptions,
        Gumbel, GumbelOptions, HalfCauchy, HalfCauchyOptions, HalfNormal, HalfNormalOptions, Held,
        Independent, InverseGamma, InverseGammaOptions, Kumaraswamy, KumaraswamyOptions, LKJCholesky,
        LKJCholeskyOptions, Laplace, LaplaceOptions, LogNormal, LogNormalOptions, LogisticNormal,
        LogisticNormalOptions, LogitRelaxedBernoulli, LogitRelaxedBernoulliOptions,
        LowRankMultivariateNormal, LowRankMultivariateNormalOptions, MixtureSameFamily, Multinomial,
        MultinomialOptions, MultivariateNormal, MultivariateNormalOptions, NegativeBinomial,
        NegativeBinomialOptions, Normal, NormalOptions, OneHotCategorical, OneHotCategoricalOptions,
        OneHotCategoricalStraightThrough, OneHotCategoricalStraightThroughOptions, Param, Pareto,
        ParetoOptions, Poisson, PoissonOptions, RelaxedBernoulli, RelaxedBernoulliOptions,
        RelaxedOneHotCategorical, RelaxedOneHotCategoricalOptions, Shapes, StudentT, StudentTOptions,
        TransformedDistribution, Uniform, UniformOptions, VonMises, VonMisesOptions, Weibull, WeibullOptions,
        Wishart, WishartOptions, biject_to, bijections, constraints, kl, kl_divergence, optimizations,
        register_kl, set_default_validate_args, transform_to, transforms, try_biject_to, try_kl_divergence,
        try_transform_to,
    };
}

/// Modules, functions and initialisation of neural networks (`torch.nn`).
#[doc(alias = "torch.nn")]
pub mod nn {
    // every documented layer with its options
    #[doc(hidden)]
    pub use flambeau_nn::__private;
    pub use flambeau_nn::modules::all::*;
    pub use flambeau_nn::{
        AsStateDict, BackwardHook, BackwardPreHook, Base, Buffer, Call, Field, Forward, ForwardHook,
        ForwardHookWithKwargs, ForwardPreHook, ForwardPreHookWithKwargs, HookHandle, HookOptions,
        IncompatibleKeys, Inputs, Keyword, Keywords, Layer, LoadReport, LoadStateDictHook,
        LoadStateDictOptions, LoadStateDictPreHook, Module, ModuleExt, NamedOptions, NewInputs, Parameter,
        Plain, StateDict, StateDictHook, StateDictOptions, StateDictPreHook, Tensors, Visitor, VisitorMut,
        ZeroGradOptions, forward,
    };
    pub use flambeau_nn::{attention, init, modules, utils};

    /// A copy of a model on each rank (`torch.nn.parallel`).
    #[cfg(feature = "distributed")]
    #[doc(alias = "torch.nn.parallel")]
    pub mod parallel {
        pub use flambeau_distributed::ddp::{
            AllreduceHook, BucketCaps, BuiltinCommHookType, CommHook, CompressHook, CompressWrapper,
            DdpLoggingData, DistributedDataParallel, DistributedDataParallelOptions, GradBucket,
            NamedParameters, NoopHook, PostLocalSgdHook, PostLocalSgdOptions, PowerSgdHook, PowerSgdOptions,
            QuantizationHook,
        };
    }

    /// `torch.nn.functional`.
    #[doc(alias = "torch.nn.functional")]
    pub mod functional {
        pub use flambeau_core::generated::functional::*;
        pub use flambeau_nn_functional::functional::*;
    }
}

/// Switches of implementations (`torch.backends`).
#[doc(alias = "torch.backends")]
#[doc(alias = "torch.backends.cpu")]
#[doc(alias = "torch.backends.cuda")]
#[doc(alias = "torch.backends.cudnn")]
#[doc(alias = "torch.backends.cusparselt")]
#[doc(alias = "torch.backends.mha")]
#[doc(alias = "torch.backends.mkl")]
#[doc(alias = "torch.backends.mkldnn")]
#[doc(alias = "torch.backends.mps")]
#[doc(alias = "torch.backends.nnpack")]
#[doc(alias = "torch.backends.openmp")]
#[doc(alias = "torch.backends.opt_einsum")]
pub mod backends {
    pub use flambeau_devices::backends::{
        cpu, cuda, cudnn, cusparselt, kleidiai, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum,
    };
}
/// Whatever accelerator there is (`torch.accelerator`).
#[doc(alias = "torch.accelerator")]
pub mod accelerator {
    pub use flambeau_devices::accelerator::*;
}
/// The CPU as a device (`torch.cpu`).
#[doc(alias = "torch.cpu")]
pub mod cpu {
    pub use flambeau_devices::cpu::*;
}
/// NVIDIA's devices (`torch.cuda`).
#[doc(alias = "torch.cuda")]
#[doc(alias = "torch.cuda.gds")]
#[doc(alias = "torch.cuda.memory")]
#[doc(alias = "torch.cuda.tunable")]
pub mod cuda {
    pub use flambeau_devices::cuda::*;
}
/// Intel's devices (`torch.xpu`).
#[doc(alias = "torch.xpu")]
pub mod xpu {
    pub use flambeau_devices::xpu::*;
}
/// Apple's devices (`torch.mps`).
#[doc(alias = "torch.mps")]
pub mod mps {
    pub use flambeau_devices::mps::*;
}
/// Meta's devices (`torch.mtia`).
#[doc(alias = "torch.mtia")]
#[doc(alias = "torch.mtia.memory")]
pub mod mtia {
    pub use flambeau_devices::mtia::*;
}
#[cfg(feature = "func")]
pub use flambeau_func::vmap;
/// Functions of functions (`torch.func`): one call for all slices of tensors, derivatives, modules with other parameters.
#[doc(alias = "torch.func")]
pub mod func {
    #[cfg(feature = "func")]
    pub use flambeau_func::{
        Dim, Dims, FunctionalizeOptions, Randomness, Remove, Tree, VmapOptions, functionalize,
        functionalize_with, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, rearrange,
        replace_all_batch_norm_modules_, stack_module_state, try_functionalize, try_grad_and_value,
        try_jacfwd, try_jacrev, try_jvp, try_linearize, try_rearrange, try_replace_all_batch_norm_modules_,
        try_stack_module_state, try_vjp, try_vmap, vjp, vmap, vmap_with,
    };
    pub use flambeau_nn::utils::stateless::{
        FunctionalCallOptions, functional_call, functional_call_around, functional_call_with,
        try_functional_call,
    };
}
mod graphs;
#[cfg(feature = "onnx")]
pub use graphs::onnx;
pub use graphs::{export, fx};
/// Optimizers, schedules and averages of models (`torch.optim`).
#[doc(alias = "torch.optim")]
pub mod optim {
    // every documented optimizer with its options
    pub use flambeau_nn::ZeroGradOptions;
    pub use flambeau_optim::algorithms::*;
    pub use flambeau_optim::{
        Algorithm, Closure, Entry, Hooks, IntoParameters, Kept, LoadHook, Number, Optim, Optimizer, Pair,
        ParamGroup, PerGroup, State, StateDictHook, StateDictPreHook, StepArgs, StepHook,
        register_optimizer_step_post_hook, register_optimizer_step_post_hook_with_args,
        register_optimizer_step_pre_hook, register_optimizer_step_pre_hook_with_args,
    };
    pub use flambeau_optim::{lr_scheduler, swa_utils};
}

/// Mixed precision (`torch.amp`): regions in which operators pick their dtypes, and scaling of gradients.
#[doc(alias = "torch.amp")]
pub mod amp {
    pub use flambeau_amp::grad_scaler::{IntoScalerState, ScalerState};
    pub use flambeau_amp::{
        AutocastOptions, GradScaler, GradScalerOptions, Region, autocast, autocast_guard, custom_bwd,
        custom_fwd, custom_fwd_cast, is_autocast_available, try_autocast, try_autocast_guard,
        try_is_autocast_available,
    };
}

/// Branches and loops as functions: `torch.cond`, `torch.while_loop`, and those of `torch._higher_order_ops`.
pub use flambeau_autograd::control_flow;

/// Gradients (`torch.autograd`).
#[doc(alias = "torch.autograd")]
pub mod autograd {
    pub use flambeau_autograd::function::{BackwardContext, Context};
    pub use flambeau_autograd::grad_fn::{
        BackwardOptions, backward, backward_with, grad, grad_with, try_backward, try_grad,
    };
    pub use flambeau_autograd::{
        Function, GradFn, GradOptions, MultiGrad, RemovableHandle, detect_anomaly, functional,
        get_gradient_edge, gradcheck, register_multi_grad_hook, set_detect_anomaly_guard,
    };
    pub use flambeau_autograd::{function, graph};

    /// Whether operations are recorded (`torch.autograd.grad_mode`), as closures and as guards.
    #[doc(alias = "torch.autograd.grad_mode")]
    pub mod grad_mode {
        pub use flambeau_autograd::grad_mode::{
            GradModeGuard, enable_grad, enable_grad_guard, inference_mode, inference_mode_guard,
            is_grad_enabled, is_inference_mode_enabled, is_recording, no_grad, no_grad_guard,
            set_grad_enabled, set_grad_enabled_guard, with_grad_enabled,
        };
    }
    /// Tangents that go forwards with the values (`torch.autograd.forward_ad`).
    #[doc(alias = "torch.autograd.forward_ad")]
    pub mod forward_ad {
        pub use flambeau_autograd::forward_ad::{
            DualLevel, UnpackedDualTensor, dual_level, enter, exit, is_level_open, make_dual, tangent,
            unpack_dual,
        };
    }
}

/// Fourier transforms (`torch.fft`).
#[cfg(feature = "fft")]
#[doc(alias = "torch.fft")]
pub mod fft {
    pub use flambeau_fft::generated::fft::*;
}

/// Signals (`torch.signal`).
#[doc(alias = "torch.signal")]
pub mod signal {
    /// Windows (`torch.signal.windows`).
    #[doc(alias = "torch.signal.windows")]
    pub mod windows {
        pub use flambeau_core::generated::signal_windows::*;
    }
}

#[cfg(feature = "quantization")]
pub mod ao;
/// The older name of [`ao::quantization`] (`torch.quantization`).
#[cfg(feature = "quantization")]
pub mod quantization {
    pub use crate::ao::quantization::{
        FakeQuantize, FakeQuantizeClass, FakeQuantizeSpec, Fused, Made, Make, Mapping, Observer,
        ObserverClass, ObserverSpec, QConfig, QScheme, QuantWrapper, QuantizeDynamicOptions, Spec, Stub,
        convert, convert_, default_of, dynamic_default, fuse_conv_bn_weights, fuse_modules_,
        fused_moving_avg_obs_fake_quant, get_default_qat_qconfig, get_default_qconfig, prepare, prepare_,
        prepare_qat, prepare_qat_, propagate_qconfig_, qconfig, qconfig_of, quantize_dynamic,
        quantize_dynamic_, quantize_dynamic_with, set_qconfig, try_convert, try_convert_,
        try_dynamic_default, try_fuse_conv_bn_weights, try_fuse_modules_,
        try_fused_moving_avg_obs_fake_quant, try_get_default_qat_qconfig, try_get_default_qconfig,
        try_prepare, try_prepare_, try_prepare_qat, try_prepare_qat_, try_quantize_dynamic,
        try_quantize_dynamic_,
    };
}

/// Tensors with masks, reductions and normalisations of what a mask leaves (`torch.masked`).
#[cfg(feature = "masked")]
#[doc(alias = "torch.masked")]
pub mod masked {
    pub use flambeau_masked::generated::masked::*;
    pub use flambeau_masked::{
        MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor, try_as_masked_tensor,
        try_masked_tensor,
    };
}

/// Batches of tensors of different sizes (`torch.nested`).
#[cfg(feature = "nested")]
#[doc(alias = "torch.nested")]
pub mod nested {
    pub use flambeau_nested::functions::{
        JaggedOptions, NestedOptions, TensorNestedExt, as_nested_tensor, as_nested_tensor_with,
        masked_select, narrow, nested_tensor, nested_tensor_from_jagged, nested_tensor_from_jagged_with,
        nested_tensor_with, to_padded_tensor, try_as_nested_tensor, try_masked_select, try_narrow,
        try_nested_rows, try_nested_tensor, try_nested_tensor_from_jagged, try_to_padded_tensor,
    };
    pub use flambeau_nested::is_nested;
}

/// Sparse tensors (`torch.sparse`).
#[doc(alias = "torch.sparse")]
pub mod sparse {
    pub use flambeau_sparse::SparseOptions;
    pub use flambeau_sparse::sparse::*;
}

/// Random generators (`torch.random`).
#[doc(alias = "torch.random")]
pub mod random {
    pub use flambeau_core::api::short::{get_rng_state, set_rng_state};
    pub use flambeau_core::tensor::generator::{
        fork_rng, get_rng_state as try_get_rng_state, initial_seed, manual_seed, seed,
        set_rng_state as try_set_rng_state,
    };
}

/// Points that fill space evenly (`torch.quasirandom`).
pub mod quasirandom {
    pub use flambeau_core::api::quasirandom::SobolEngine;
}

/// Operators of a program's own, and all operators and classes by name (`torch.library`).
#[doc(alias = "torch.library")]
pub mod library {
    pub use flambeau_autograd::library::{register_autograd, register_autograd_in};
    #[cfg(feature = "by-name")]
    pub use flambeau_autograd::opcheck::{OpcheckOptions, opcheck};
    pub use flambeau_core::Value;
    pub use flambeau_core::dispatch::custom::{
        CustomOpDef, FakeContext, Kernel, Library, LibraryKind, SchemaFunction, SchemaType, UserOp, VmapRule,
        arg, call_below, custom_op, custom_op_on, fallthrough_kernel, find, get_ctx, infer_schema, one,
    };
    #[cfg(not(feature = "by-name"))]
    pub use flambeau_core::dispatch::object;
    #[cfg(feature = "by-name")]
    pub use flambeau_library::tags::{Tag, tags};
    #[cfg(feature = "by-name")]
    pub use flambeau_library::{
        Function, NamedFunction, NativeFn, attribute, call, call_value, class, constant, constant_names,
        exists, is_missing, lookup, method, names, object, register_function, repr,
    };
}

/// Modes that see every operator call (`torch.overrides`, `torch.utils._python_dispatch`).
#[doc(alias = "torch.overrides")]
pub mod overrides {
    pub use flambeau_core::dispatch::overrides::{
        ModeGuard, OperatorCall, OperatorMode, push_dispatch_mode, push_function_mode, without_modes,
    };
    #[cfg(feature = "by-name")]
    pub use flambeau_library::overrides::{overridable_functions, resolve_name};
}

/// Checkpoints, safetensors and arrays in files (`torch.serialization`).
#[doc(alias = "torch.serialization")]
pub mod serialization {
    pub use flambeau_core::tensor::storage::{MapMode, MappedFile};
    pub use flambeau_nn::files::{load_model, save_model};
    pub use flambeau_serialization::config::{
        LoadEndianness, SkipData, get_crc32_options, get_default_load_endianness, set_crc32_options,
        set_default_load_endianness, skip_data,
    };
    pub use flambeau_serialization::map_location::{MapLocation, default_restore_location, register_package};
    pub use flambeau_serialization::safe_globals::{
        SafeGlobal, SafeGlobals, add_safe_globals, clear_safe_globals, get_safe_globals,
        get_unsafe_globals_in_checkpoint, safe_globals,
    };
    pub use flambeau_serialization::serde_tree::{from_tree, tensor, to_tree};
    pub use flambeau_serialization::tensors::{
        ExportedWeights, LoadOptions, NamedTensors, SafeFile, SafeSlice, SaveOptions, ScriptArchive, ToTree,
        dict, generator_of, load, load_exported, load_exported_mapped, load_from, load_mapped, load_npy,
        load_npz, load_pretrained, load_safetensors, load_safetensors_mapped, load_safetensors_metadata,
        load_safetensors_with, load_sharded, load_torchscript, load_with, read_npy, save, save_npy, save_npz,
        save_safetensors, save_sharded, save_to, save_to_with, save_with, write_npy,
    };
    pub use flambeau_serialization::{Object, Tree, config};
}

/// Files of weights from the net, and what repositories of models offer (`torch.hub`), with the feature `hub`.
#[cfg(feature = "hub")]
#[doc(alias = "torch.hub")]
pub mod hub {
    pub use flambeau_utils::hub::{
        DownloadOptions, RepositoryOptions, StateDictOptions, download_url_to_file, get_dir, help, list,
        load_state_dict_from_url, set_dir,
    };
}
/// What operators cost (`torch.profiler`).
#[doc(alias = "torch.profiler")]
#[doc(alias = "torch.autograd.profiler")]
pub mod profiler {
    pub use flambeau_utils::profiler::{
        Averages, Event, ExecutionTraceObserver, FunctionEventAvg, Interval, Kernel, Profile, ProfileOptions,
        ProfilerAction, ProfilerActivity, RecordFunction, ScheduleOptions, TableOptions, emit_itt, emit_nvtx,
        itt, profile, schedule, spans, supported_activities, tensorboard_trace_handler,
    };
}
/// Comparison of results, and random tensors for tests (`torch.testing`).
#[doc(alias = "torch.testing")]
pub mod testing {
    pub use flambeau_utils::testing::{
        AssertCloseOptions, MakeTensorOptions, assert_allclose, assert_close, assert_close_with, make_tensor,
        try_assert_allclose, try_assert_close,
    };
}

/// Results that come later (`torch.futures`).
#[doc(alias = "torch.futures")]
pub mod futures {
    pub use flambeau_futures::{Future, collect_all, wait_all};
}

/// Copies of the program that work together (`torch.multiprocessing`), on Linux.
#[cfg(all(feature = "multiprocessing", target_os = "linux"))]
#[doc(alias = "torch.multiprocessing")]
pub mod multiprocessing {
    pub use flambeau_multiprocessing::{
        Function, JoinOptions, Message, ProcessContext, ProcessExitedException, ProcessRaisedException,
        SimpleQueue, SpawnContext, SpawnOptions, freeze_support, get_all_sharing_strategies,
        get_sharing_strategy, is_shared, set_sharing_strategy, share_memory_, spawn, spawn_with,
        start_processes,
    };
}

/// Events that handlers see, and statistics that become events (`torch.monitor`).
#[doc(alias = "torch.monitor")]
pub mod monitor {
    pub use flambeau_utils::monitor::{
        Aggregation, Data, Event, EventHandlerHandle, Stat, log_event, register_event_handler,
        unregister_event_handler,
    };
}

/// What the library says of its work (`torch._logging`).
#[doc(alias = "torch._logging")]
pub mod _logging {
    pub use flambeau_utils::logging::{LogLevel, init, set_logs, try_set_logs};
}

/// What stands around training (`torch.utils`).
#[doc(alias = "torch.utils")]
pub mod utils {
    /// How long statements take (`torch.utils.benchmark`).
    #[doc(alias = "torch.utils.benchmark")]
    pub mod benchmark {
        pub use flambeau_utils::benchmark::{
            CallgrindStats, Choice, Colorize, Compare, Distribution, Draw, Drawn, FunctionCount,
            FunctionCounts, FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, Length, Measurement,
            ParameterAlias, Params, SparseProperties, TaskSpec, TensorProperties, Timer, select_unit,
            set_torch_threads, trim_sigfig, unit_to_english,
        };
    }
    /// Tensors of other libraries without a copy (`torch.utils.dlpack`).
    #[doc(alias = "torch.utils.dlpack")]
    pub mod dlpack {
        pub use flambeau_dlpack::{
            DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
            DLTensor, Exported, FLAG_IS_COPIED, FLAG_READ_ONLY, VERSION, from_dlpack, from_dlpack_legacy,
            to_dlpack,
        };
    }
    /// Operations of products, by module and operator (`torch.utils.flop_counter`).
    #[doc(alias = "torch.utils.flop_counter")]
    pub mod flop_counter {
        pub use flambeau_utils::flop_counter::{
            FlopCounterMode, FlopCounterOptions, operations, register_flop_formula,
        };
    }
    /// Trees of values and their structures (`torch.utils._pytree`).
    #[cfg(all(feature = "func", feature = "by-name"))]
    pub mod pytree {
        pub use flambeau_func::pytree::{
            TreeSpec, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten, try_tree_flatten,
            try_tree_leaves, try_tree_map, try_tree_structure,
        };
    }
    /// Which modules run (`torch.utils.module_tracker`).
    #[doc(alias = "torch.utils.module_tracker")]
    pub mod module_tracker {
        pub use flambeau_utils::module_tracker::ModuleTracker;
    }
    /// Datasets, samplers and the loader (`torch.utils.data`).
    #[doc(alias = "torch.utils.data")]
    pub mod data {
        #[doc(hidden)]
        pub use flambeau_data::__core;
        pub use flambeau_data::distributed;
        pub use flambeau_data::{
            BatchSampler, Batching, ChainDataset, Collate, CollateFn, ConcatDataset, ConvertFn, DataLoader,
            DataLoaderOptions, Dataset, DefaultCollate, DistributedSampler, DistributedSamplerOptions,
            IndexList, Indices, IntoTensors, Iter, IterableDataset, Length, RandomSampler,
            RandomSamplerOptions, RandomSplitOptions, Sampler, SamplerIter, Samples, SequentialSampler,
            Stack, StackDataset, Subset, SubsetRandomSampler, TensorDataset, Tensors, TryIter, Unbatched,
            Weight, WeightedRandomSampler, WeightedRandomSamplerOptions, WorkerInfo, default_collate,
            default_convert, get_worker_info, random_split, random_split_with, try_random_split,
        };
    }
    /// A first look at where a program's time goes (`torch.utils.bottleneck`).
    #[doc(alias = "torch.utils.bottleneck")]
    pub mod bottleneck {
        pub use flambeau_utils::bottleneck::{Report, run};
    }
    /// Recomputation instead of storage (`torch.utils.checkpoint`).
    #[doc(alias = "torch.utils.checkpoint")]
    pub mod checkpoint {
        pub use flambeau_autograd::checkpoint::{
            CheckpointOptions, Step, checkpoint, checkpoint_sequential, checkpoint_sequential_with,
            checkpoint_with,
        };
    }
    /// The older place of [`hub`](crate::hub) (`torch.utils.model_zoo`), with the feature `hub`.
    #[cfg(feature = "hub")]
    #[doc(alias = "torch.utils.model_zoo")]
    pub mod model_zoo {
        pub use flambeau_utils::hub::{StateDictOptions, load_state_dict_from_url as load_url};
    }
    /// What deterministic mode does besides refusing (`torch.utils.deterministic`).
    #[doc(alias = "torch.utils.deterministic")]
    pub mod deterministic {
        pub use flambeau_devices::backends::deterministic::*;
    }
    /// Settings of saving and loading (`torch.utils.serialization`).
    pub mod serialization {
        pub use flambeau_serialization::config;
    }
    /// Logs that TensorBoard shows (`torch.utils.tensorboard`), with the feature `tensorboard`.
    #[cfg(feature = "tensorboard")]
    #[doc(alias = "torch.utils.tensorboard")]
    pub mod tensorboard {
        pub use flambeau_tensorboard::*;
    }
}

/// Tensors as what other crates work with, and back: arrays of `ndarray` and images of `image`, with the features of these names.
#[cfg(any(feature = "image", feature = "ndarray"))]
pub mod interop {
    pub use flambeau_interop::ToTensor;
    #[cfg(feature = "image")]
    pub use flambeau_interop::image::ToImage;
    #[cfg(feature = "ndarray")]
    pub use flambeau_interop::ndarray::ToNdarray;
    /// Images of the crate `image`, in torchvision's form: channels first.
    #[cfg(feature = "image")]
    pub mod image {
        pub use flambeau_interop::image::{pil_to_tensor, try_pil_to_tensor};
    }
}

/// Dtypes under Rust's names, for a glob import; the documentation's names are in the crate's root.
#[allow(non_upper_case_globals)]
pub mod dtypes {
    use flambeau_core::DType;
    macro_rules! names {
        ($($name:ident = $d:ident),* $(,)?) => {$(
            #[doc = concat!("`DType::", stringify!($d), "`")]
            pub const $name: DType = DType::$d;
        )*};
    }
    names! {
        f16 = F16, bf16 = BF16, f32 = F32, f64 = F64, u8 = U8, u16 = U16, u32 = U32, u64 = U64, i8 = I8, i16 = I16,
        i32 = I32, i64 = I64, bool = Bool, c64 = C64, c128 = C128,
    }
}
#[allow(non_upper_case_globals)]
mod documented {
    use flambeau_core::DType;
    /// `torch.e`
    pub const e: f64 = std::f64::consts::E;
    /// `torch.inf`
    pub const inf: f64 = f64::INFINITY;
    /// `torch.nan`
    pub const nan: f64 = f64::NAN;
    /// `torch.pi`
    pub const pi: f64 = std::f64::consts::PI;
    macro_rules! names {
        ($($name:ident = $d:ident),* $(,)?) => {$(
            #[doc = concat!("`torch.", stringify!($name), "`")]
            pub const $name: DType = DType::$d;
        )*};
    }
    names! {
        float16 = F16, half = F16, bfloat16 = BF16, float32 = F32, float = F32, float64 = F64, double = F64,
        uint8 = U8, uint16 = U16, uint32 = U32, uint64 = U64, int8 = I8, int16 = I16, short = I16, int32 = I32,
        int = I32, int64 = I64, long = I64, bool = Bool, complex32 = C32, complex64 = C64, cfloat = C64,
        complex128 = C128, cdouble = C128, float8_e4m3fn = F8E4M3, float8_e5m2 = F8E5M2,
    }
}
pub use documented::*;

/// What programs import: `use torch::prelude::*;`
pub mod prelude {
    pub use crate::dtypes::*;
    #[allow(unused_imports)]
    pub use crate::without::*;
    pub use flambeau_autograd::TensorAutogradExt;
    pub use flambeau_core::api::indexing::{Ellipsis, Index, IntoIndex, NewAxis, Slice};
    pub use flambeau_core::{DType, Device, Tensor};
    #[cfg(feature = "distributions")]
    pub use flambeau_distributions::{Distribution, DistributionExt};
    #[cfg(feature = "fft")]
    pub use flambeau_fft::TensorFftExt;
    #[cfg(feature = "linalg")]
    pub use flambeau_linalg::TensorLinalgExt;
    pub use flambeau_nn::{Call, Forward, Module, ModuleExt, Parameter};
    pub use flambeau_nn_functional::generated::methods::TensorNnFunctionalExt;
    pub use flambeau_optim::Optimizer;
    pub use flambeau_optim::lr_scheduler::LRScheduler;
    #[cfg(feature = "quantization")]
    pub use flambeau_quantization::TensorQuantizationExt;
    pub use flambeau_sparse::{TensorSparseExt, TensorSparseResizeExt};
}
