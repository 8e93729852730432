//~ errors: 1
//~ `torch::nn::Linear` cannot be saved
//~ tensors, state dicts, optimizers, numbers, strings, and options, lists, tuples and maps of them can
//~ of a module save `&model.state_dict()`
use torch::nn;
pub fn f(m: nn::Linear) -> torch::Result<()> {
    torch::save(&m, "m.pt")
}
