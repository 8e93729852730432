//~ errors: 1
//~ this function takes 2 arguments but 3 arguments were supplied
//~ /* for low: randint(5..9, 3) */
pub fn f() -> torch::Tensor {
    torch::randint(0, 10, [3])
}
