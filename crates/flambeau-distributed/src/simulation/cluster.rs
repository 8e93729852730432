//! The machines of a job: how long messages take between any two ranks, and what a training step takes on them.

use crate::gloo::algorithms;
use flambeau_core::types::time::CENTURY;
use flambeau_core::{Result, ensure};
use std::time::Duration;

/// A connection: how long the first byte takes, and how many bytes follow in a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    latency: Duration,
    bandwidth: f64,
}
impl Link {
    /// With a bandwidth in bytes per second, which is not below 1.
    pub fn new(latency: Duration, bandwidth: f64) -> Link {
        // not `max` alone: it would take a bandwidth that is no number
        Link { latency: latency.min(CENTURY), bandwidth: if bandwidth >= 1.0 { bandwidth } else { 1.0 } }
    }
    /// A link that is named by microseconds and by billions of bits per second, as networks are sold: 25 Gbit/s Ethernet is
    /// `Link::network(20.0, 25.0)`.
    pub fn network(microseconds: f64, gigabits_per_second: f64) -> Link {
        let latency = Duration::try_from_secs_f64(microseconds * 1e-6).unwrap_or(Duration::ZERO);
        Link::new(latency, gigabits_per_second * 1e9 / 8.0)
    }
    /// How long the first byte takes.
    pub fn latency(&self) -> Duration {
        self.latency
    }
    /// Bytes per second.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }
    /// How long a sender is busy with so many bytes.
    pub(super) fn busy(&self, bytes: usize) -> Duration {
        seconds(bytes as f64 / self.bandwidth)
    }
}
/// More ranks than any cluster has.
const MOST_RANKS: usize = 1 << 24;

pub(super) fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(CENTURY).min(CENTURY)
}

/// Ranks that are close to each other: by as many of them one unit (a machine, a rack) is full.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Level {
    unit: usize,
    link: Link,
}

/// The machines of a job: ranks in machines, machines in racks, and the links within and between them.
///
/// Ranks are numbered machine by machine, as launchers number them. All ranks of a unit share its link to others of its kind.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{Cluster, Link, Step};
///
/// // 8 ranks in each machine, 25 Gbit/s between machines
/// let cluster = Cluster::new(Link::network(2.0, 400.0)).units_of(8, Link::network(20.0, 25.0));
/// let step = Step::new(Duration::from_millis(30), Duration::from_millis(60)).buckets([25 << 20; 4]);
/// let few = cluster.predict(&step, 16)?;
/// let many = cluster.predict(&step, 10_000)?;
/// assert!(many.step() > few.step());
/// assert_eq!(many.dominant().to_string(), "latency between units of 8");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    levels: Vec<Level>,
    /// bytes that a rank adds up in a second
    sums: f64,
}
impl Cluster {
    /// Ranks that are all connected by such links.
    pub fn new(link: Link) -> Cluster {
        Cluster { levels: vec![Level { unit: usize::MAX, link }], sums: f64::INFINITY }
    }
    /// Only so many ranks are connected by what was said so far, and by another link with those of other such units. Said again, it is
    /// about units of units: `units` is always a number of ranks, and a multiple of the one before.
    #[must_use]
    pub fn units_of(mut self, units: usize, link: Link) -> Cluster {
        if let Some(last) = self.levels.last_mut() {
            last.unit = units.max(1);
        }
        self.levels.push(Level { unit: usize::MAX, link });
        self
    }
    /// How many bytes a rank adds up in a second. Default: sums take no time.
    #[must_use]
    pub fn sums(mut self, bytes_per_second: f64) -> Cluster {
        self.sums = bytes_per_second;
        self
    }
    pub(super) fn check(&self) -> Result<()> {
        for pair in self.levels.windows(2) {
            ensure!(
                pair[1].unit == usize::MAX || pair[1].unit > pair[0].unit && pair[1].unit % pair[0].unit == 0,
                Value,
                "units of {} ranks do not consist of units of {}",
                pair[1].unit,
                pair[0].unit
            );
        }
        Ok(())
    }
    /// Which link two ranks use, from the innermost.
    pub(super) fn level(&self, a: usize, b: usize) -> usize {
        let last = self.levels.len() - 1;
        (0..last).find(|l| a / self.levels[*l].unit == b / self.levels[*l].unit).unwrap_or(last)
    }
    pub(super) fn link(&self, level: usize) -> Link {
        self.levels[level].link
    }
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }
    /// Who shares a rank's way to a level's link: the rank alone, its machine, its rack.
    pub(super) fn port(&self, rank: usize, level: usize) -> usize {
        if level == 0 { rank } else { rank / self.levels[level - 1].unit }
    }
    /// How long a rank takes to add up so many bytes.
    pub(super) fn adds(&self, bytes: usize) -> Duration {
        if self.sums.is_finite() && self.sums > 0.0 {
            seconds(bytes as f64 / self.sums)
        } else {
            Duration::ZERO
        }
    }
    fn name(&self, level: usize) -> String {
        match level {
            0 if self.levels.len() == 1 => "of the link".into(),
            0 => format!("within units of {}", self.levels[0].unit),
            l => format!("between units of {}", self.levels[l - 1].unit),
        }
    }

    /// How long a sum of so many bytes over ranks `0..ranks` takes, which nothing else disturbs.
    ///
    /// It is gloo's ring: each rank sends to the one before it and receives from the next, in pieces of at most 1 MiB of which some
    /// are on their way at a time, `2 * (ranks - 1)` times round. A simulated world's sums take as long within a few percent.
    pub fn all_reduce(&self, bytes: usize, ranks: usize) -> Cost {
        let mut cost = Cost::default();
        // what lies beyond is as good as without end
        let (ranks, bytes) = (ranks.min(MOST_RANKS), bytes.min(1 << 56));
        if ranks < 2 || bytes == 0 {
            return cost;
        }
        // as `algorithms` cuts them; the element is that of float32
        let segments = bytes.div_ceil(1 << 20).max(2 * ranks).next_multiple_of(ranks);
        let segment = bytes.div_ceil(segments).next_multiple_of(4);
        let full = bytes.div_ceil(segment).min(segments);
        let hops = (ranks - 1) as f64;
        let deep = (segments / ranks).min(algorithms::DEEP) as f64;
        // pieces that each rank sends in one half of the ring
        let pieces = (full * (ranks - 1)).div_ceil(ranks).max(1) as f64;
        // the slowest of the links that the ring uses: it keeps the others waiting
        let mut slowest = (0.0, 0, 0.0);
        for level in 0..self.levels() {
            if level > 0 && ranks <= self.levels[level - 1].unit {
                break;
            }
            if level == 0 && self.levels[0].unit == 1 {
                continue;
            }
            let link = self.link(level);
            let (wire, wait) = (segment as f64 / link.bandwidth, link.latency.as_secs_f64());
            // a piece is asked for and comes, and several of them are on their way at a time; or the wire is always busy; or a piece has to
            // go round before the next can. What is short has been asked for before the second half begins.
            let half = |asked: bool| {
                let ask = if asked { 0.0 } else { wait };
                let there_and_back = ask + wait + wire;
                let rounds = ((pieces - 1.0) / deep).floor() * (2.0 * wait + wire)
                    + (pieces - 1.0) % deep * wire
                    + there_and_back;
                rounds.max(ask + wait + pieces * wire).max(ask + hops * (wait + wire))
            };
            let both = half(false) + half(bytes <= algorithms::EARLY);
            if both > slowest.0 {
                slowest = (both, level, pieces * wire);
            }
        }
        let (both, level, wire) = slowest;
        cost.level = level;
        cost.bandwidth = seconds(2.0 * wire);
        cost.latency = seconds(both - 2.0 * wire);
        cost.sums = seconds(self.adds(segment).as_secs_f64() * pieces);
        cost
    }

    /// How long a training step takes on ranks `0..ranks` of this cluster, and what takes most of it.
    ///
    /// # Errors
    /// No ranks, or more than 2^24; units that do not consist of the units within them.
    pub fn predict(&self, step: &Step, ranks: usize) -> Result<Prediction> {
        self.check()?;
        ensure!(ranks > 0, Value, "a cluster of no ranks");
        ensure!(ranks <= MOST_RANKS, Value, "a cluster of {ranks} ranks is larger than {MOST_RANKS}");
        let total = step.buckets.iter().fold(0usize, |n, b| n.saturating_add(*b));
        let compute = step.forward + step.backward;
        let (mut done, mut ready) = (step.forward, 0usize);
        let (mut latency, mut bandwidth, mut sums, mut level) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
        for b in &step.buckets {
            ready = ready.saturating_add(*b);
            // a bucket goes when the part of backward that fills it is over
            let part = if total == 0 { 1.0 } else { ready as f64 / total as f64 };
            let at = step.forward + step.backward.mul_f64(part);
            let cost = self.all_reduce(*b, ranks);
            done = done.max(at) + cost.total();
            latency += cost.latency;
            bandwidth += cost.bandwidth;
            sums += cost.sums;
            level = level.max(cost.level);
        }
        let exposed = done.saturating_sub(compute);
        let communication = latency + bandwidth + sums;
        let share = |d: Duration| {
            if communication.is_zero() {
                Duration::ZERO
            } else {
                exposed.mul_f64(d.as_secs_f64() / communication.as_secs_f64())
            }
        };
        let computing = compute + step.optimizer;
        let terms = [
            (Term::Computing, computing),
            (Term::Latency(self.name(level)), share(latency)),
            (Term::Bandwidth(self.name(level)), share(bandwidth)),
            (Term::Sums, share(sums)),
        ];
        Ok(Prediction { terms: terms.into(), communication })
    }
}

/// What a sum over ranks takes.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{Cluster, Cost, Link};
/// let cost: Cost = Cluster::new(Link::network(10.0, 100.0)).all_reduce(1 << 20, 8);
/// assert!(cost.total() >= cost.latency() + cost.bandwidth() && cost.sums() < Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    latency: Duration,
    bandwidth: Duration,
    sums: Duration,
    level: usize,
}
impl Cost {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.latency + self.bandwidth + self.sums
    }
    /// Waiting for first bytes.
    pub fn latency(&self) -> Duration {
        self.latency
    }
    /// Bytes on the slowest link.
    pub fn bandwidth(&self) -> Duration {
        self.bandwidth
    }
    /// Adding up.
    pub fn sums(&self) -> Duration {
        self.sums
    }
}

/// A training step of one rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    forward: Duration,
    backward: Duration,
    optimizer: Duration,
    buckets: Vec<usize>,
}
impl Step {
    /// How long forward and backward take where there is one rank alone.
    pub fn new(forward: Duration, backward: Duration) -> Step {
        let [forward, backward] = [forward, backward].map(|d| d.min(CENTURY));
        Step { forward, backward, optimizer: Duration::ZERO, buckets: Vec::new() }
    }
    /// How long the optimizer takes. Default: no time.
    #[must_use]
    pub fn optimizer(mut self, d: Duration) -> Step {
        self.optimizer = d.min(CENTURY);
        self
    }
    /// Bytes of the buckets in which gradients travel, in the order in which backward fills them.
    #[must_use]
    pub fn buckets(mut self, bytes: impl IntoIterator<Item = usize>) -> Step {
        self.buckets = bytes.into_iter().collect();
        self
    }
}

/// A part of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Term {
    /// Forward, backward and the optimizer.
    Computing,
    /// Waiting for first bytes, on these links.
    Latency(String),
    /// Bytes on these links.
    Bandwidth(String),
    /// Adding up.
    Sums,
}
impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Term::Computing => f.write_str("computing"),
            Term::Latency(of) => write!(f, "latency {of}"),
            Term::Bandwidth(of) => write!(f, "bandwidth {of}"),
            Term::Sums => f.write_str("sums"),
        }
    }
}

/// What a training step takes, in parts: of communication those that backward does not hide.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{Cluster, Link, Prediction, Step, Term};
///
/// let ms = Duration::from_millis;
/// let step = Step::new(ms(10), ms(20)).optimizer(ms(1)).buckets([25 << 20; 4]);
/// let cluster = Cluster::new(Link::network(10.0, 100.0));
/// let alone: Prediction = cluster.predict(&step, 1)?;
/// assert_eq!((alone.step(), alone.dominant(), alone.efficiency()), (ms(31), &Term::Computing, 1.0));
/// // backward does not hide all of 100 MiB of gradients
/// let many = cluster.predict(&step, 8)?;
/// assert!(many.step() > alone.step() && many.efficiency() < 1.0);
/// assert!(many.terms().iter().any(|(t, _)| matches!(t, Term::Bandwidth(_))));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    terms: Vec<(Term, Duration)>,
    communication: Duration,
}
impl Prediction {
    /// The whole step.
    pub fn step(&self) -> Duration {
        self.terms.iter().map(|t| t.1).sum()
    }
    /// All communication, with what is hidden.
    pub fn communication(&self) -> Duration {
        self.communication
    }
    /// The parts.
    pub fn terms(&self) -> &[(Term, Duration)] {
        &self.terms
    }
    /// What takes most of the step.
    pub fn dominant(&self) -> &Term {
        // there is a term for computing at least
        self.terms.iter().max_by_key(|t| t.1).map_or(&Term::Computing, |t| &t.0)
    }
    /// Which part of the step computes: 1 where ranks lose no time by being many.
    pub fn efficiency(&self) -> f64 {
        let all = self.step().as_secs_f64();
        let computing = self.terms.iter().filter(|t| t.0 == Term::Computing).map(|t| t.1.as_secs_f64());
        if all == 0.0 { 1.0 } else { computing.sum::<f64>() / all }
    }
}
