//! Random programs of many steps: see `steps.rs`.

use super::steps;
use crate::bad_input::Dice;
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;

/// The bytes of a program.
fn program(seed: usize) -> Vec<u8> {
    let mut dice = Dice((seed as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95) | 1);
    for _ in 0..8 {
        dice.below(2);
    }
    let n = 100 + dice.below(900);
    (0..n).map(|_| dice.below(256) as u8).collect()
}

/// `FLAMBEAU_ATTACK_ROUNDS` programs from `FLAMBEAU_ATTACK_AT` on; `FLAMBEAU_ATTACK_SHOW` writes their steps.
#[test]
fn programs_of_random_calls() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let (first, rounds) =
        (number("FLAMBEAU_ATTACK_AT").unwrap_or(0), number("FLAMBEAU_ATTACK_ROUNDS").unwrap_or(400));
    let shown = std::env::var_os("FLAMBEAU_ATTACK_SHOW").is_some();
    Calls {
        test: here!(),
        count: rounds,
        name: &|i| format!("program{}", first + i),
        run: &|i| {
            steps::run(&program(first + i), shown);
            None
        },
    }
    .judge();
}
