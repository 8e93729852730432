//~ errors: 2
//~ `str` is no state dict
//~ `&torch::load(path)?`, a part of it
use torch::nn;
use torch::prelude::*;
pub fn f(m: &nn::Linear) -> torch::Result<()> {
    m.load_state_dict("model.pt")?;
    Ok(())
}
