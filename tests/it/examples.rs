//! Examples that nobody looks at learn too: short runs of those whose programs no other test has.

#[path = "../../crates/flambeau/examples/actor_critic.rs"]
mod actor_critic;
#[path = "../../crates/flambeau/examples/translation.rs"]
mod translation;

use flambeau_test_support::alone;

#[test]
fn the_pole_stands_longer() {
    alone!();
    let (early, late) = (actor_critic::train(5, false), actor_critic::train(150, false));
    assert!(late > 1.5 * early, "{early} {late}");
}
#[test]
fn translations_get_better() {
    alone!();
    let (first, last, _) = translation::train(30, false);
    assert!(last < 0.7 * first, "{first} {last}");
}
