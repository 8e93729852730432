//! The choice of the next token.

use torch::prelude::*;

/// How tokens are drawn.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// 0 takes the likeliest.
    pub temperature: f64,
    /// The k likeliest alone; 0 for all.
    pub top_k: i64,
    /// The likeliest that together have this probability.
    pub top_p: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0 }
    }
}

impl Sampling {
    /// Draws a token from logits `(vocabulary)`, with the default generator.
    pub fn draw(&self, logits: &Tensor) -> i64 {
        if self.temperature <= 0.0 {
            return logits.argmax().item::<i64>();
        }
        let mut logits = logits.to(f32) / self.temperature;
        if self.top_k > 0 {
            let least = logits.topk(self.top_k.min(logits.size(0)), -1).values.min();
            logits = logits.masked_fill(&logits.lt(&least), f64::NEG_INFINITY);
        }
        if self.top_p < 1.0 {
            let (sorted, order) = logits.sort(-1, true).into();
            let p = sorted.softmax(-1);
            // what comes before a token already has the probability: it goes, but never the first
            let beyond = (p.cumsum(-1) - p).gt(self.top_p);
            let beyond = torch::zeros_like(&beyond).scatter(0, &order, &beyond);
            logits = logits.masked_fill(&beyond, f64::NEG_INFINITY);
        }
        logits.softmax(-1).multinomial(1, false).item::<i64>()
    }
}
