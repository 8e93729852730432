//! The three forms of hand-written functions: `NAME` takes what is always given, `NAME_with` the options besides, by value; both
//! panic at the caller's line. `try_NAME`, or the operator in `torch::ops`, takes all and gives a `Result`.

use super::names::{Kind, Names};

/// Crates whose functions do not keep the rules yet: contexts of devices, switches, tools, jobs of processes, graphs.
const LATER: [&str; 5] = [
    "flambeau_devices::",
    "flambeau_distributed::",
    "flambeau_export::",
    "flambeau_fx::",
    "flambeau_utils::",
];

/// Functions and modules whose only form gives a `Result`: what reads or writes files, what defines operators, what
/// runs a program's fallible functions, what checks and so has an error for its answer, and what is for authors of operators.
const FALLIBLE: [&str; 30] = [
    "torch::amp::custom_bwd",
    "torch::amp::custom_fwd",
    "torch::amp::custom_fwd_cast",
    "torch::autograd::forward_ad",
    "torch::autograd::function",
    "torch::autograd::get_gradient_edge",
    "torch::autograd::register_multi_grad_hook",
    "torch::func::functional_call_around",
    // errors of other threads and processes are answers
    "torch::futures",
    "torch::library",
    "torch::library::object",
    "torch::load",
    "torch::load_with",
    "torch::multiprocessing",
    "torch::nn::modules::module",
    "torch::nn::utils::stateless::functional_call_around",
    "torch::save",
    "torch::save_with",
    "torch::serialization",
    "torch::serialization::config",
    "torch::serialization::tensor",
    "torch::serialization::tensor::list",
    "torch::serialization::tensor::map",
    "torch::serialization::tensor::optional",
    "torch::utils::checkpoint",
    "torch::utils::data::default_collate",
    // of other libraries
    "torch::utils::dlpack",
    "torch::utils::pytree",
    "torch::utils::serialization",
    "torch::utils::serialization::config",
];

/// What panics and needs no fallible form: older names, and what fails by a mistake in the program alone.
const PANICS: [&str; 6] = [
    "torch::nn::attention::flex_attention::flex_attention_aux",
    "torch::nn::attention::flex_attention::noop_mask",
    "torch::nn::functional::triplet_margin_with_distance_loss",
    "torch::nn::utils::clip_grad_norm",
    "torch::nn::utils::skip_init",
    "torch::set_num_threads",
];

#[test]
fn the_three_forms_hold() {
    let names = Names::read();
    let ops = names.of("torch::ops");
    let mut broken = Vec::new();
    for (module, inside) in names.modules() {
        for (name, entry) in &inside {
            let later = |o: &String| LATER.iter().any(|l| o.starts_with(l));
            let by_hand = !entry.origins.iter().any(|o| o.contains("::generated::") || later(o));
            if entry.kind != Kind::Function || !by_hand {
                continue;
            }
            let path = format!("{module}::{name}");
            let listed = |list: &[&str]| list.contains(&path.as_str()) || list.contains(&module.as_str());
            let end = if name.ends_with('_') { "_" } else { "" };
            let stem = match name.trim_end_matches('_').strip_suffix("_with") {
                Some(s) => format!("{s}{end}"),
                None => name.clone(),
            };
            if let Some(o) = entry.form.borrows.first() {
                broken.push(format!("{path} takes &{o}: options go by value"));
            }
            if stem != *name {
                if entry.takes.is_empty() {
                    broken.push(format!("{path} takes no options"));
                }
                if !inside.contains_key(&stem) {
                    broken.push(format!("{path} has no short form {stem}"));
                }
            }
            if entry.form.panics
                && !inside.contains_key(&format!("try_{stem}"))
                && !ops.contains_key(&stem)
                && !listed(&PANICS)
            {
                broken.push(format!("{path} panics and has no fallible form"));
            }
            if entry.form.fallible && !name.starts_with("try_") && !listed(&FALLIBLE) {
                broken.push(format!("{path} has no short form that panics"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
