//! A text by the model.

use shapeproof::{Batch, C, Float, Generator, Infer, Result, Seq, Size, Static, Tensor, dyn_size};

use super::{
    model::{CharLm, Context},
    text::Text,
};

/// The text that `beginning` is continued with, character by character, each drawn as the model finds it
/// likely. Characters of the beginning that the play does not have are left out.
pub(crate) fn sample<E: Float>(
    model: &CharLm<E>,
    text: &Text,
    beginning: &str,
    count: usize,
    generator: &mut Generator,
) -> Result<String> {
    let mut tokens: Vec<usize> = beginning.chars().filter_map(|it| text.number(it)).collect();
    let start = tokens.len();
    for _ in 0..count {
        let seen = &tokens[tokens.len().saturating_sub(Context::N)..];
        dyn_size!(length = seen.len());
        let seen = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), seen.to_vec())?;
        let logits = model.forward(&seen, &mut Infer)?.to::<f32>();
        let last = length.get().saturating_sub(1);
        let last = logits.try_slice(Seq, last, C::<1>)?;
        tokens.push(drawn(&last.softmax(shapeproof::Vocab).to_vec(), generator));
    }
    Ok(tokens[start..].iter().filter_map(|&token| text.character(token)).collect())
}

fn drawn(weights: &[f32], generator: &mut Generator) -> usize {
    let mut rest = generator.uniform();
    let chosen = weights.iter().position(|&weight| {
        rest -= f64::from(weight);
        rest < 0.0
    });
    // Rounding may leave a little behind the last one.
    chosen.unwrap_or(weights.len() - 1)
}
