//! Choosing a token from logits.

use shapeproof::Generator;

use super::cli::Sampling;

/// Chooses tokens one after the other; the choices depend on logits, settings and seed alone.
pub(crate) struct Sampler {
    sampling: Sampling,
    generator: Generator,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        Sampler { sampling, generator: Generator::seeded(sampling.seed) }
    }

    /// One of the tokens that `may_be`, or `None` where there is none. At temperature 0 the one of the
    /// largest logit, of several the first.
    pub(crate) fn choose(
        &mut self,
        logits: &[f32],
        may_be: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut tokens: Vec<usize> = (0..logits.len()).filter(|token| may_be(*token)).collect();
        // A total order, also where a logit is NaN.
        let larger = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let Sampling { temperature, top_k, top_p, .. } = self.sampling;
        if temperature == 0.0 {
            return tokens.into_iter().min_by(larger);
        }
        tokens.sort_unstable_by(larger);
        tokens.truncate(top_k.unwrap_or(usize::MAX));
        let largest = f64::from(logits[*tokens.first()?]);
        let weight = |token: &usize| ((f64::from(logits[*token]) - largest) / temperature).exp();
        let mut weights: Vec<f64> = tokens.iter().map(weight).collect();
        if let Some(p) = top_p {
            let enough = p * weights.iter().sum::<f64>();
            let mut sum = 0.0;
            let below = weights.iter().take_while(|weight| {
                sum += **weight;
                sum < enough
            });
            let kept = below.count() + 1;
            weights.truncate(kept);
        }
        let mut rest = self.generator.uniform() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        // Rounding may leave a little behind the last one.
        Some(tokens[chosen.unwrap_or(weights.len() - 1)])
    }
}
