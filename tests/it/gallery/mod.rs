//! The programs of the gallery (crates/flambeau/examples) as their users run them, in a short form: each draws its picture and learns;
//! where there is a PyTorch, its Python twin computes the same losses.

mod twins;

use flambeau_test_support::programs::program;
use flambeau_test_support::python::output;
use std::path::Path;
use std::process::Command;

/// A program in float64, where rounding does not hide what differs.
struct Program {
    name: &'static str,
    /// Flags that both sides get.
    flags: &'static [&'static str],
    /// What the losses that it saves shall say of a training that has begun.
    learns: fn(&[f64]) -> bool,
}

/// By how much each of the losses may differ from the twin's, relative to it where it is larger than 1: what rounding makes of sums in another
/// order grows from step to step.
const TOLERANCE: f64 = 1e-10;

/// The mean of the last losses is below that of the first ones by a factor.
fn falls(losses: &[f64], factor: f64) -> bool {
    let n = losses.len().div_ceil(4);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    mean(&losses[losses.len() - n..]) < factor * mean(&losses[..n])
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "actor_critic",
        flags: &["--episodes", "4"],
        // four losses and four lengths
        learns: |all| all.len() == 8 && all[4..].iter().all(|steps| (5.0..=500.0).contains(steps)),
    },
    Program {
        name: "adversarial",
        flags: &["--steps", "40"],
        // forty losses; the more the digits are changed, the fewer are read right
        learns: |all| falls(&all[..40], 0.8) && all[40] > 0.5 && all[46] < 0.5 * all[40],
    },
    Program {
        name: "char_gpt",
        flags: &["--steps", "6"],
        learns: |all| all.len() == 7 && all[6] < all[0] - 0.3,
    },
    Program {
        name: "dcgan",
        flags: &["--steps", "12"],
        learns: |all| all.len() == 24 && falls(&all[..12], 0.9),
    },
    Program {
        name: "graph_convolution",
        flags: &["--steps", "100"],
        learns: |all| all[99] < 0.8 * all[0] && all[100] > 25.0,
    },
    Program {
        name: "language_model",
        flags: &["--epochs", "1"],
        learns: |all| all[all.len() - 2] < all[0] - 0.5,
    },
    Program {
        name: "language_model",
        flags: &["--epochs", "1", "--model", "transformer"],
        learns: |all| all[all.len() - 2] < all[0] - 0.5,
    },
    Program {
        name: "lora",
        flags: &["--steps", "6", "--adapted", "4"],
        // six and four losses; sonnets and songs before, adapted; the sonnets as before once the adapter is taken away
        learns: |all| all.len() == 15 && all[13] < all[11] && all[14] == all[10],
    },
    Program {
        name: "neural_ode",
        flags: &["--steps", "8"],
        learns: |all| all.len() == 9 && falls(&all[..8], 0.99),
    },
    Program {
        name: "reinforce",
        flags: &["--episodes", "4"],
        learns: |all| all.len() == 8 && all[4..].iter().all(|steps| (5.0..=500.0).contains(steps)),
    },
    Program {
        name: "siamese",
        flags: &["--steps", "30"],
        learns: |all| falls(&all[..30], 0.9) && all[30] > 0.3,
    },
    Program {
        name: "siamese",
        flags: &["--steps", "30", "--loss", "triplet"],
        learns: |all| falls(&all[..30], 0.9) && all[30] > 0.3,
    },
    Program {
        name: "super_resolution",
        flags: &["--steps", "30"],
        learns: |all| falls(&all[..30], 0.7) && all[31] > 10.0,
    },
    Program {
        name: "text_classification",
        flags: &["--epochs", "1"],
        learns: |all| falls(&all[..all.len() - 1], 0.5) && all[all.len() - 1] > 80.0,
    },
    Program {
        name: "time_series",
        flags: &["--steps", "1", "--points", "20"],
        learns: |all| all.len() == 2 && all[1] < all[0],
    },
    Program { name: "translation", flags: &["--steps", "12"], learns: |all| all[11] < 0.9 * all[0] },
    Program { name: "vae", flags: &["--epochs", "2"], learns: |all| all.len() == 2 && all[1] < all[0] },
];

fn values(path: &Path) -> Vec<f64> {
    torch::load(path).unwrap().into_tensor().expect("a tensor").to_vec::<f64>()
}

impl Program {
    /// Runs it in a folder of its own, and its twin.
    fn run(&self) {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        let flags = [&["--dtype", "float64"], self.flags].concat();
        let mut command = Command::new(program(self.name));
        command.args(&flags).arg("--losses").arg(at("ours.pt")).arg("--out").arg(at("picture.png"));
        let printed = output(command.current_dir(folder.path()), "");
        assert!(printed.contains("picture.png"), "{printed}");
        assert!(std::fs::read(at("picture.png")).unwrap().starts_with(b"\x89PNG"), "{}", self.name);
        let ours = values(&at("ours.pt"));
        assert!(!ours.is_empty() && ours.iter().all(|v| v.is_finite()), "{}: {ours:?}", self.name);
        assert!((self.learns)(&ours), "{} does not learn: {ours:?}\n{printed}", self.name);

        if !twins::run(self.name, &flags, &at("theirs.pt")) {
            return;
        }
        let theirs = values(&at("theirs.pt"));
        assert_eq!(ours.len(), theirs.len(), "{}", self.name);
        let apart = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(1.0);
        let apart = ours.iter().zip(&theirs).map(apart).fold(0.0, f64::max);
        println!("{} {:?}: {apart:.1e} from its twin", self.name, self.flags);
        assert!(apart <= TOLERANCE, "{}: {apart}\n{ours:?}\n{theirs:?}", self.name);
    }
}

/// The programs of two halves, so that both of two processors have work.
#[test]
fn programs_learn_what_their_twins_learn() {
    PROGRAMS.iter().step_by(2).for_each(Program::run);
}
#[test]
fn further_programs_learn_what_their_twins_learn() {
    PROGRAMS.iter().skip(1).step_by(2).for_each(Program::run);
}

/// Every program with a twin is run; every program has one, but for those that another test runs or that show what PyTorch's users know
/// by other names.
#[test]
fn every_program_has_a_twin() {
    const WITHOUT: [&str; 6] =
        ["ddp_digits", "dispatch_cost", "export", "mixed_rank", "mpi", "quantized_digits"];
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/flambeau/examples"));
    let readme = std::fs::read_to_string(folder.join("../../../README.md")).unwrap();
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
        if file.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if WITHOUT.contains(&name.as_str()) {
            continue;
        }
        count += 1;
        assert!(file.with_extension("py").is_file(), "{name} has no twin");
        assert!(readme.contains(&format!("`{name}`")), "the README does not name {name}");
        // the digits have a test of their own, which goes further
        let run = name == "digits" || PROGRAMS.iter().any(|p| p.name == name);
        assert!(run, "no test runs {name}");
    }
    assert!(count > 10, "{count}");
}
