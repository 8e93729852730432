//~ errors: 1
//~ `forward` of `{integer}` does not take `&'a torch::Tensor`
//~ tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`
//~ consider using `--verbose` to print the full type name to the console
use torch::prelude::*;
use torch::nn;
pub fn f() -> nn::Sequential {
    nn::Sequential::new((nn::Linear::new(2, 3), 5))
}
