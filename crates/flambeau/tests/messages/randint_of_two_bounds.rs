//~ errors: 1
//~ this function takes 2 arguments but 3 arguments were supplied
//~ /* for a lower bound: torch::randint(low..high, size) */
pub fn f() -> torch::Tensor {
    torch::randint(0, 10, [3])
}
