//! The stream of the default generator: which numbers are drawn, and in which order elements take them. It is the whole
//! process's, so these tests have one each.

use super::{near, t};
use flambeau_core::tensor::generator;
use flambeau_core::{Tensor, ops};
use flambeau_test_support::alone;

#[test]
fn samples_in_the_order_of_indices() {
    alone!();
    let a = t(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2]);
    let turned = ops::transpose(
        &ops::contiguous(&ops::transpose(&a, 0, 1).unwrap(), flambeau_core::MemoryFormat::Contiguous)
            .unwrap(),
        0,
        1,
    )
    .unwrap();
    let draw = |x: &Tensor| {
        generator::manual_seed(0);
        ops::standard_gamma(x, None).unwrap().to_vec::<f64>()
    };
    assert_eq!(draw(&a), draw(&turned));
    let x = ops::sample_dirichlet(&a, None).unwrap();
    near(&ops::sum(&x, Some(&[1]), false, None).unwrap(), &[1.0; 3]);
}
