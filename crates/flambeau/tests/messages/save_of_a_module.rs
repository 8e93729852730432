use torch::nn;
pub fn f(m: nn::Linear) -> torch::Result<()> {
    torch::save(&m, "m.pt")
}
