use flambeau_core::api::literal::tensor;
use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{Tensor, ops};
use flambeau_distributions::*;
use std::sync::Arc;

fn number(t: &Tensor) -> f64 {
    t.try_to(flambeau_core::DType::F64).unwrap().item()
}
/// Every family over numbers, with its name in failures.
fn continuous() -> Vec<Arc<dyn Distribution>> {
    vec![
        Arc::new(Beta::new(2.0, 3.5)),
        Arc::new(Chi2::new(5.0)),
        Arc::new(ContinuousBernoulli::by_probs(0.3)),
        Arc::new(Exponential::new(1.7)),
        Arc::new(FisherSnedecor::new(6.0, 12.0)),
        Arc::new(Gamma::new(2.5, 1.5)),
        Arc::new(GeneralizedPareto::new(0.5, 1.2, 0.1)),
        Arc::new(Gumbel::new(0.5, 1.3)),
        Arc::new(HalfNormal::new(1.4)),
        Arc::new(InverseGamma::new(5.0, 2.0)),
        Arc::new(Kumaraswamy::new(2.0, 3.0)),
        Arc::new(Laplace::new(0.5, 1.3)),
        Arc::new(LogNormal::new(0.1, 0.4)),
        Arc::new(Normal::new(0.5, 1.3)),
        Arc::new(Pareto::new(1.0, 5.0)),
        Arc::new(StudentTOptions::new(8.0).loc(0.3).scale(1.2).build()),
        Arc::new(Uniform::new(-1.0, 2.5)),
        Arc::new(Weibull::new(1.3, 1.8)),
    ]
}

#[test]
fn densities_have_the_moments_that_they_say() {
    // midpoints of 400,000 small intervals over all that matters
    let n = 400_000i64;
    for d in continuous() {
        let (low, high) = match d.name() {
            "Beta" | "ContinuousBernoulli" | "Kumaraswamy" => (0.0, 1.0),
            "Uniform" => (-1.0, 2.5),
            "Gumbel" | "Laplace" | "Normal" | "StudentT" => (-40.0, 40.0),
            "Pareto" => (1.0, 200.0),
            "GeneralizedPareto" => (0.5, 200.0),
            _ => (0.0, 200.0),
        };
        let step = (high - low) / n as f64;
        let x: Vec<f64> = (0..n).map(|i| low + (i as f64 + 0.5) * step).collect();
        let wide = Tensor::from_slice(&x, [n]);
        let p: Vec<f64> = d.log_prob(&wide).exp().try_to(flambeau_core::DType::F64).unwrap().to_vec();
        let sum = |f: &dyn Fn(f64) -> f64| -> f64 { x.iter().zip(&p).map(|(x, p)| f(*x) * p * step).sum() };
        let (total, mean) = (sum(&|_| 1.0), sum(&|x| x));
        let variance = sum(&|x| (x - mean).powi(2));
        assert!((total - 1.0).abs() < 2e-3, "{}: the density sums to {total}", d.name());
        let (m, v) = (number(&d.mean()), number(&d.variance()));
        assert!((mean - m).abs() < 4e-3 * (1.0 + m.abs()), "{}: mean {mean}, said {m}", d.name());
        assert!((variance - v).abs() < 2e-2 * (1.0 + v), "{}: variance {variance}, said {v}", d.name());
        if let Ok(h) = d.try_entropy() {
            let entropy: f64 = p.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln() * step).sum();
            assert!(
                (entropy - number(&h)).abs() < 1e-2,
                "{}: entropy {entropy}, said {}",
                d.name(),
                number(&h)
            );
        }
    }
}
#[test]
fn samples_have_the_moments_of_their_distribution() {
    flambeau_test_support::alone!();
    for d in continuous() {
        manual_seed(17);
        let n = 100_000;
        let x = d.sample_shape([n]).try_to(flambeau_core::DType::F64).unwrap();
        assert!(!x.requires_grad());
        let (m, s) = (number(&d.mean()), number(&d.stddev()));
        let mean = number(&x.mean());
        // six standard errors
        assert!((mean - m).abs() < 6.0 * s / (n as f64).sqrt() + 1e-6, "{}: {mean}, not {m}", d.name());
        let inside = d.support().check(&d.sample_shape([1000]));
        assert!(ops::all(&inside).unwrap().item::<bool>(), "{}: a sample outside the support", d.name());
    }
}
#[test]
fn quantiles_invert_probabilities() {
    let p = Tensor::from_slice(&[0.02f64, 0.3, 0.5, 0.77, 0.98], [5]);
    let mut found = 0;
    for d in continuous() {
        let Ok(x) = d.try_icdf(&p) else { continue };
        let Ok(back) = d.try_cdf(&x) else { continue };
        found += 1;
        for (a, b) in back.to_vec::<f64>().iter().zip(p.to_vec::<f64>()) {
            assert!((a - b).abs() < 1e-5, "{}: {a} for {b}", d.name());
        }
    }
    assert!(found >= 10, "only {found} have both");
}
#[test]
fn probabilities_of_counts_sum_to_one() {
    let x = Tensor::from_slice(&(0..200).map(f64::from).collect::<Vec<_>>(), [200]);
    let all: Vec<Arc<dyn Distribution>> = vec![
        Arc::new(Poisson::new(4.5)),
        Arc::new(Geometric::by_probs(0.3)),
        Arc::new(NegativeBinomial::by_probs(3.5, 0.4)),
    ];
    for d in all {
        let p = d.log_prob(&x).exp();
        assert!((number(&p.sum()) - 1.0).abs() < 1e-5, "{}", d.name());
        let mean = number(&(&p * &x).sum());
        assert!((mean - number(&d.mean())).abs() < 1e-4, "{}: {mean}", d.name());
    }
    let few: Vec<Arc<dyn Distribution>> = vec![
        Arc::new(Bernoulli::by_logits(0.3)),
        Arc::new(Binomial::by_probs(7, 0.4)),
        Arc::new(Categorical::by_logits(tensor([0.1, 0.5, -2.0]))),
    ];
    for d in few {
        let values = d.enumerate_support(true);
        let p = d.log_prob(&values);
        assert!((number(&p.exp().sum()) - 1.0).abs() < 1e-5, "{}", d.name());
        let entropy = number(&(-(p.exp() * &p)).sum());
        assert!((entropy - number(&d.entropy())).abs() < 1e-5, "{}: {entropy}", d.name());
    }
}
#[test]
fn divergences_are_means_of_differences() {
    flambeau_test_support::alone!();
    manual_seed(3);
    let pairs: Vec<(Arc<dyn Distribution>, Arc<dyn Distribution>)> = vec![
        (Arc::new(Normal::new(0.2, 1.1)), Arc::new(Normal::new(-0.3, 1.6))),
        (Arc::new(Normal::new(0.2, 1.1)), Arc::new(Laplace::new(-0.3, 1.6))),
        (Arc::new(Beta::new(2.0, 3.0)), Arc::new(Beta::new(1.5, 1.2))),
        (Arc::new(Gamma::new(2.0, 3.0)), Arc::new(Exponential::new(1.2))),
        (Arc::new(Chi2::new(4.0)), Arc::new(Gamma::new(1.2, 0.4))),
        (Arc::new(Uniform::new(0.2, 0.9)), Arc::new(Beta::new(1.5, 1.2))),
        (Arc::new(HalfNormal::new(1.0)), Arc::new(HalfNormal::new(1.5))),
        (Arc::new(LogNormal::new(0.1, 0.6)), Arc::new(LogNormal::new(-0.2, 0.9))),
        (Arc::new(Exponential::new(1.4)), Arc::new(Gumbel::new(0.5, 1.2))),
    ];
    for (p, q) in pairs {
        let x = p.sample_shape([200_000]);
        let estimate = number(&(p.log_prob(&x) - q.log_prob(&x)).mean());
        let k = number(&kl_divergence(&*p, &*q));
        assert!((k - estimate).abs() < 0.02 + 0.02 * k, "{} || {}: {k}, not {estimate}", p.name(), q.name());
    }
    let far = try_kl_divergence(&Normal::new(0.0, 1.0), &Beta::new(1.0, 1.0)).unwrap();
    assert_eq!(number(&far), f64::INFINITY);
}
#[test]
fn batches_expand() {
    let d = Normal::new(tensor([0.0, 1.0]), 2.0);
    let wide = d.expand([3, 2]);
    assert_eq!(
        (wide.batch_shape(), wide.sample_shape([4]).sizes().to_vec()),
        (&[3i64, 2][..], vec![4, 3, 2])
    );
    assert_eq!(wide.to_text(), "Normal(loc: torch.Size([3, 2]), scale: torch.Size([3, 2]))");
    let d = Independent::new(d, 1);
    assert_eq!(d.log_prob(&tensor([[0.0, 1.0], [1.0, 1.0]])).sizes(), &[2]);
    let mixture = MixtureSameFamily::new(
        Categorical::by_probs(tensor([0.3, 0.7])),
        Normal::new(tensor([-1.0, 1.0]), tensor([0.5, 0.5])),
    );
    assert!((number(&mixture.mean()) - 0.4).abs() < 1e-6);
    assert_eq!(mixture.sample_shape([5]).sizes(), &[5]);
}
