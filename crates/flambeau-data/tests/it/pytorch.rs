//! Against a live PyTorch: the same seeds, the same orders, and generators in the same state afterwards.

use super::{all, generator, manual_seed};
use flambeau_core::tensor::generator::default_generator;
use flambeau_core::{Generator, Result, functions as torch};
use flambeau_data::*;
use flambeau_test_support::python::{output, python};
use std::collections::BTreeMap;
use std::process::Command;

const SCRIPT: &str = r#"
import torch
from torch.utils.data import *
from torch.utils.data.distributed import DistributedSampler
def say(name, values):
    print(name + ":", *values)
def state(g=None):
    return [torch.randint(1 << 30, (), generator=g).item()]
def flat(batches):
    return [v for b in batches for v in b.tolist() + [-1]]
class Noise(Dataset):
    def __len__(self): return 7
    def __getitem__(self, i): return int(torch.randint(1 << 30, ()))
if __name__ == "__main__":
    for seed in (0, 7):
        for n in (1, 5, 40):
            torch.manual_seed(seed)
            key = f"{seed} {n}"
            say("random " + key, list(RandomSampler(range(n))) + state())
            say("replacement " + key, list(RandomSampler(range(n), True, 70)) + state())
            g = torch.Generator(); g.manual_seed(seed)
            say("passes " + key, list(RandomSampler(range(n), num_samples=2 * n + 1, generator=g)) + state(g))
            say("drawn " + key, list(RandomSampler(range(n), True, 33, generator=g)) + state(g))
            say("subset " + key, list(SubsetRandomSampler(range(100, 100 + n))) + state())
            weights = [float((i * 7) % 5 + 1) for i in range(n)]
            say("weighted " + key, list(WeightedRandomSampler(weights, 9)) + state())
            say("without " + key, list(WeightedRandomSampler(weights, min(n, 4), False, g)) + state(g))
            s = DistributedSampler(range(n), 3, 1, seed=seed)
            s.set_epoch(2)
            say("distributed " + key, list(s))
            parts = random_split(range(n), [0.6, 0.3, 0.1])
            say("split " + key, [i for p in parts for i in list(p.indices) + [-1]] + state())
            for drop in (False, True):
                loader = DataLoader(range(n), 4, shuffle=True, drop_last=drop)
                # two passes: each draws a base seed and the sampler's
                say(f"loader {drop} " + key, flat(loader) + flat(loader) + state())
                g.manual_seed(seed)
                loader = DataLoader(range(n), 4, shuffle=True, drop_last=drop, generator=g)
                say(f"own {drop} " + key, flat(loader) + flat(loader) + state(g) + state())
    for persistent in (False, True):
        torch.manual_seed(3)
        loader = DataLoader(Noise(), 2, shuffle=True, num_workers=2, persistent_workers=persistent)
        say(f"workers {persistent}", flat(loader) + flat(loader) + state())
"#;

struct Noise;
impl Dataset for Noise {
    type Item = i64;
    fn get(&self, _: usize) -> Result<i64> {
        Ok(torch::randint(1 << 30, ()).item::<i64>())
    }
    fn len(&self) -> usize {
        7
    }
}

fn state(g: &Generator) -> i64 {
    let drawn = flambeau_core::ops::randint(1 << 30, &[], Some(g), None, None, None, None).unwrap();
    drawn.item::<i64>()
}
fn ints(v: impl IntoIterator<Item = usize>) -> Vec<i64> {
    v.into_iter().map(|i| i as i64).collect()
}
fn flat(loader: &DataLoader<flambeau_core::Tensor>) -> Vec<i64> {
    loader.iter().flat_map(|b| b.to_vec::<i64>().into_iter().chain([-1])).collect()
}

fn ours() -> BTreeMap<String, Vec<i64>> {
    let mut said = BTreeMap::new();
    let default = default_generator();
    for seed in [0u64, 7] {
        for n in [1usize, 5, 40] {
            manual_seed(seed);
            let mut say = |name: &str, values: Vec<i64>| {
                said.insert(format!("{name} {seed} {n}"), values);
            };
            let with = |s: &dyn Fn() -> Vec<usize>, g: &Generator| {
                let mut v = ints(s());
                v.push(state(g));
                v
            };
            let data = 0..n as i64;
            say("random", with(&|| all(&RandomSampler::new(n)), default));
            let s = RandomSamplerOptions::new(&data).replacement(true).num_samples(70).build();
            say("replacement", with(&|| all(&s), default));
            let g = generator(seed);
            let s = RandomSamplerOptions::new(n).num_samples(2 * n + 1).generator(&g).build();
            say("passes", with(&|| all(&s), &g));
            let s = RandomSamplerOptions::new(n).replacement(true).num_samples(33).generator(&g).build();
            say("drawn", with(&|| all(&s), &g));
            let s = SubsetRandomSampler::new((100..100 + n).collect::<Vec<_>>());
            say("subset", with(&|| all(&s), default));
            let weights: Vec<f64> = (0..n).map(|i| ((i * 7) % 5 + 1) as f64).collect();
            let s = WeightedRandomSampler::new(weights.clone(), 9);
            say("weighted", with(&|| all(&s), default));
            let s = WeightedRandomSamplerOptions::new(weights, n.min(4)).replacement(false).generator(&g);
            let s = s.build();
            say("without", with(&|| all(&s), &g));
            let s = DistributedSamplerOptions::new(n, 3, 1).seed(seed).build();
            s.set_epoch(2);
            say("distributed", ints(all(&s)));
            let parts = random_split(data.clone(), [0.6, 0.3, 0.1]);
            let mut v: Vec<i64> =
                parts.iter().flat_map(|p| ints(p.indices().to_vec()).into_iter().chain([-1])).collect();
            v.push(state(default));
            say("split", v);
            for (drop, name) in [(false, "False"), (true, "True")] {
                let options =
                    || DataLoaderOptions::new(data.clone()).batch_size(4).shuffle(true).drop_last(drop);
                let loader = options().build();
                let two = [flat(&loader), flat(&loader), vec![state(default)]].concat();
                say(&format!("loader {name}"), two);
                g.manual_seed(seed);
                let loader = options().generator(&g).build();
                let two = [flat(&loader), flat(&loader), vec![state(&g), state(default)]].concat();
                say(&format!("own {name}"), two);
            }
        }
    }
    for (persistent, name) in [(false, "False"), (true, "True")] {
        manual_seed(3);
        let options = DataLoaderOptions::new(Noise).batch_size(2).shuffle(true).num_workers(2);
        let loader = options.persistent_workers(persistent).build();
        let two = [flat(&loader), flat(&loader), vec![state(default)]].concat();
        said.insert(format!("workers {name}"), two);
    }
    said
}

#[test]
fn orders_are_those_of_a_live_pytorch() {
    flambeau_test_support::alone!();
    let Some(python) = python() else { return };
    let text = output(Command::new(&python).args(["-W", "ignore", "-c", SCRIPT]), "");
    let theirs: BTreeMap<String, Vec<i64>> = text
        .lines()
        .filter_map(|l| l.split_once(':'))
        .map(|(k, v)| (k.to_string(), v.split_whitespace().map(|n| n.parse().unwrap()).collect()))
        .collect();
    let ours = ours();
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, want) in &theirs {
        assert_eq!(&ours[name], want, "{name}");
    }
}
