//! Gathers requests into batches: one thread calls the model, a bounded queue stands before it.

use crate::metrics::Metrics;
use crate::model::{CLASSES, Net, PIXELS};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use torch::prelude::*;

/// How requests become batches.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Rows of a call at most.
    pub batch: usize,
    /// How long the first row of a batch waits for others.
    pub wait: Duration,
    /// Requests that may wait; more are refused.
    pub queue: usize,
    /// How long a client waits for its answer.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { batch: 32, wait: Duration::from_millis(2), queue: 256, timeout: Duration::from_secs(2) }
    }
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// The queue is full: come again later.
    Full,
    /// It took too long.
    Late,
    /// The service ends.
    Ending,
    /// The model's own error.
    Failed(String),
}

struct Job {
    pixels: Vec<f32>,
    reply: oneshot::Sender<Result<Vec<f32>, String>>,
}

/// The way to the model, shared by all requests.
#[derive(Clone)]
pub struct Batcher {
    jobs: mpsc::Sender<Job>,
    limits: Limits,
    pub metrics: Arc<Metrics>,
}

/// The requests that wait for the model.
pub struct Queue {
    waiting: mpsc::Receiver<Job>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Batcher {
    /// The two ends of the queue; nobody answers before [`Queue::answer`] runs.
    pub fn new(limits: Limits) -> (Batcher, Queue) {
        let (jobs, waiting) = mpsc::channel(limits.queue);
        let metrics = Arc::new(Metrics::default());
        let queue = Queue { waiting, limits: limits.clone(), metrics: metrics.clone() };
        (Batcher { jobs, limits, metrics }, queue)
    }

    /// Starts the model's thread, which ends when the last `Batcher` is dropped and the queue is empty.
    pub fn start(net: Net, limits: Limits) -> (Batcher, JoinHandle<()>) {
        let (batcher, queue) = Batcher::new(limits);
        (batcher, std::thread::spawn(move || queue.answer(&net)))
    }

    /// The probabilities of one picture's classes.
    pub async fn predict(&self, pixels: Vec<f32>) -> Result<Vec<f32>, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { pixels, reply }).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Refusal::Full,
            mpsc::error::TrySendError::Closed(_) => Refusal::Ending,
        })?;
        match tokio::time::timeout(self.limits.timeout, answer).await {
            Err(_) => Err(Refusal::Late),
            Ok(Err(_)) => Err(Refusal::Ending),
            Ok(Ok(result)) => result.map_err(Refusal::Failed),
        }
    }
}

impl Queue {
    /// Answers until the last [`Batcher`] is dropped and nothing waits.
    pub fn answer(self, net: &Net) {
        let Queue { mut waiting, limits, metrics } = self;
        let _guard = torch::no_grad_guard();
        while let Some(first) = waiting.blocking_recv() {
            let mut batch = vec![first];
            let end = Instant::now() + limits.wait;
            while batch.len() < limits.batch {
                match waiting.try_recv() {
                    Ok(job) => batch.push(job),
                    Err(mpsc::error::TryRecvError::Empty) if Instant::now() < end => {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    Err(_) => break,
                }
            }
            // whoever has gone needs no answer
            batch.retain(|job| !job.reply.is_closed());
            if batch.is_empty() {
                continue;
            }
            let _span = tracing::info_span!("batch", rows = batch.len()).entered();
            metrics.rows.observe(batch.len() as f64);
            let start = Instant::now();
            let answers = call(net, &batch);
            metrics.seconds.observe(start.elapsed().as_secs_f64());
            match answers {
                Ok(rows) => {
                    for (job, row) in batch.into_iter().zip(rows) {
                        let _ = job.reply.send(Ok(row));
                    }
                }
                Err(e) => {
                    tracing::error!("the model failed: {e}");
                    for job in batch {
                        let _ = job.reply.send(Err(e.to_string()));
                    }
                }
            }
        }
    }
}

fn call(net: &Net, batch: &[Job]) -> torch::Result<Vec<Vec<f32>>> {
    let pixels: Vec<f32> = batch.iter().flat_map(|job| &job.pixels).copied().collect();
    debug_assert_eq!(pixels.len(), batch.len() * PIXELS);
    let x = Tensor::from_vec(pixels, [batch.len() as i64, 1, 8, 8]);
    let out = net.try_call(&x)?.to_vec::<f32>();
    Ok(out.chunks(CLASSES).map(<[f32]>::to_vec).collect())
}
