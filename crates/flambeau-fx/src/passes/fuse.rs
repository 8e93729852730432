//! Batch normalisation as part of the convolution before it.

use crate::argument::Argument;
use crate::module::GraphModule;
use crate::node::{Node, Op};
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::{Error, Result, Value};
use flambeau_nn::internal::ModuleObject;
use flambeau_nn::utils::fusion::{try_fuse_conv_bn_eval, try_fuse_linear_bn_eval};
use flambeau_nn::{BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear};

/// A graph in which convolutions and linear maps that nothing but a batch normalisation uses compute both: for evaluation.
///
/// ```
/// use torch::fx::{self, Op, passes};
/// use torch::{Tensor, nn, prelude::*};
/// let net = nn::Sequential::new((nn::Conv2d::new(1, 2, 3), nn::BatchNorm2d::new(2)));
/// net.eval();
/// let x = torch::randn([1, 1, 5, 5]);
/// let m = fx::symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
/// let fused = passes::fuse_conv_bn(&m)?;
/// assert_eq!(fused.graph.find_nodes(Op::CallModule, None).len(), 1);
/// assert!((fused.try_forward(&[&x])? - net.call(&x)).abs().max().item::<f32>() < 1e-5);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the modules.
pub fn fuse_conv_bn(m: &GraphModule) -> Result<GraphModule> {
    let mut m = m.clone();
    m.train(false)?;
    let pairs = [
        ("Conv1d", "BatchNorm1d"),
        ("Conv2d", "BatchNorm2d"),
        ("Conv3d", "BatchNorm3d"),
        ("Linear", "BatchNorm1d"),
    ];
    let all: Vec<Node> = m.graph.nodes().collect();
    for bn in all {
        let d = m.graph.node(bn);
        let (Op::CallModule, [Argument::Node(conv)]) = (d.op, d.args()) else { continue };
        let (conv, bn_path) = (*conv, d.target.clone());
        let c = m.graph.node(conv);
        if c.op != Op::CallModule || c.users().len() > 1 {
            continue;
        }
        let conv_path = c.target.clone();
        let (Ok(conv_module), Ok(bn_module)) = (m.submodule(&conv_path), m.submodule(&bn_path)) else {
            continue;
        };
        let classes = (conv_module.type_name(), bn_module.type_name());
        if !pairs.contains(&classes) || matches!(bn_module.attribute("running_mean")?, Value::None) {
            continue;
        }
        m.set_module(&conv_path, fused(&conv_module, &bn_module)?);
        m.graph.replace_all_uses_with(bn, conv);
        m.graph.erase_node(bn)?;
        m.delete_all_unused_submodules();
    }
    Ok(m)
}
/// A copy of the first module with the second one's scale and shift in its weights.
fn fused(conv: &ObjectRef, bn: &ObjectRef) -> Result<ObjectRef> {
    let (Some(c), Some(b)) = (conv.downcast::<ModuleObject>(), bn.downcast::<ModuleObject>()) else {
        return Err(Error::missing("fusion of modules of a class that is not the library's"));
    };
    macro_rules! pairs {
        ($($first:ty, $second:ty => |$x:ident, $y:ident| $fuse:expr;)*) => {
            c.with(|m| b.with(|n| {
                $(if let (Some($x), Some($y)) = (m.as_any().downcast_ref::<$first>(), n.as_any().downcast_ref::<$second>()) {
                    return Ok(ModuleObject::make($fuse?));
                })*
                Err(Error::missing(format!("fusion of {} and {}", m.class(), n.class())))
            }))
        };
    }
    pairs! {
        Conv1d, BatchNorm1d => |x, y| try_fuse_conv_bn_eval(x, y, false);
        Conv2d, BatchNorm2d => |x, y| try_fuse_conv_bn_eval(x, y, false);
        Conv3d, BatchNorm3d => |x, y| try_fuse_conv_bn_eval(x, y, false);
        Linear, BatchNorm1d => |x, y| try_fuse_linear_bn_eval(x, y);
    }
}
