//! The book: how things are done, from the first hour to a service.
//!
//! | chapter | what it answers |
//! |---|---|
//! | [The first hour](first_hour) | a project, a model that learns, a file that PyTorch opens |
//! | [Tensors and memory](tensors) | views and copies, elements, dtypes, who may write when |
//! | [Gradients](autograd) | freezing, gradients of gradients, functions with gradients of their own |
//! | [Training](training) | models, datasets, the loop |
//! | [Recipes](recipes) | fine-tuning, sequences of different lengths, early stopping, ensembles, smaller models: short answers |
//! | [Checkpoints](checkpoints) | `.pt`, safetensors, folders from model hubs, stop and resume |
//! | [Many ranks](many_ranks) | jobs of many processes, simulated and planned |
//! | [Serving](serving) | errors instead of panics, threads, batches |
//! | [Extending](extending) | layers, optimizers, operators, modes |
//! | [Performance](performance) | what costs, and how to measure it |
//! | [What is promised](soundness) | soundness, panics, the doors marked `unsafe` |
//! | [From PyTorch](from_pytorch) | Python and Rust side by side |
//! | [From candle, burn and tch](from_other_crates) | what is the same and what is not |
//! | [Errors](errors) | kinds, texts, and what to do |
//!
//! Every program in it runs with the tests.

#[doc = include_str!("../book/first_hour/index.md")]
pub mod first_hour {}
#[doc = include_str!("../book/tensors/index.md")]
pub mod tensors {}
#[doc = include_str!("../book/autograd/index.md")]
pub mod autograd {}
#[doc = include_str!("../book/training/index.md")]
pub mod training {}
#[cfg(feature = "func")]
#[doc = include_str!("../book/recipes/index.md")]
pub mod recipes {}
#[doc = include_str!("../book/checkpoints/index.md")]
pub mod checkpoints {}
#[cfg(feature = "distributed")]
#[doc = include_str!("../book/many_ranks/index.md")]
pub mod many_ranks {}
#[doc = include_str!("../book/serving/index.md")]
pub mod serving {}
#[doc = include_str!("../book/extending/index.md")]
pub mod extending {}
#[doc = include_str!("../book/performance/index.md")]
pub mod performance {}
#[doc = include_str!("../book/soundness/index.md")]
pub mod soundness {}
#[doc = include_str!("../book/from_pytorch/index.md")]
pub mod from_pytorch {}
#[doc = include_str!("../book/from_other_crates/index.md")]
pub mod from_other_crates {}
#[doc = include_str!("../book/errors/index.md")]
pub mod errors {}
