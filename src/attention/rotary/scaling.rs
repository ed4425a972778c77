//! Rotary frequencies for contexts longer than those that a model was trained on.

use crate::error::{Error, Result};
use std::f64::consts::PI;

/// How the frequencies of [`Rotary`](super::Rotary) are changed for contexts longer than the original.
///
/// θᵢ = base^(−2i/R) are the frequencies without scaling, R the rotary width, and a pair's wavelength is
/// 2π/θᵢ. Models on Hugging Face name their scaling in `rope_scaling`, or `rope_parameters`.
///
/// # Examples
/// ```
/// use shapeproof::{C, Rotary, RotaryScaling};
///
/// let scaling = RotaryScaling::Interpolation { factor: 4.0 };
/// let rotary = Rotary::<C<4>>::try_scaled(10_000.0, scaling)?;
/// assert_eq!(rotary.frequencies(), [0.25, 0.0025]);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RotaryScaling {
    /// None: θᵢ.
    #[default]
    None,
    /// Position interpolation: θᵢ / factor (`linear`).
    ///
    /// # References
    /// Chen et al., "Extending Context Window of Large Language Models via Positional Interpolation",
    /// 2023.
    Interpolation {
        /// How much longer the context is.
        factor: f64,
    },
    /// The base becomes base · factor^(R/(R − 2)), so that the slowest pair is slowed by `factor` and the
    /// fastest not at all ("NTK-aware").
    ///
    /// Hugging Face's `dynamic` with factor f is this with 1 + f · (L/L₀ − 1), for a length L longer than
    /// the original L₀.
    Ntk {
        /// How much longer the context is.
        factor: f64,
    },
    /// YaRN (`yarn`): pairs that turn more than `beta_fast` times within the original length keep θᵢ,
    /// those that turn less than `beta_slow` times have θᵢ / factor, and those between them a mixture.
    /// [`RotaryScaling::yarn`] has the usual settings.
    ///
    /// # References
    /// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023, sections
    /// 3.2 to 3.4; its s, L, β, α and √(1/t) are `factor`, `original_length`, `beta_fast`, `beta_slow` and
    /// `attention_factor`.
    Yarn {
        /// How much longer the context is.
        factor: f64,
        /// The length of context that the model was trained on.
        original_length: usize,
        /// Turns within the original length above which a pair stays as it is.
        beta_fast: f64,
        /// Turns within the original length below which a pair is slowed all the way.
        beta_slow: f64,
        /// What cosines and sines are multiplied by; `None` is 0.1 · ln(factor) + 1, or 1 where the factor
        /// is at most 1.
        attention_factor: Option<f64>,
        /// Whether the mixture starts and ends at whole pairs (`truncate`).
        truncate: bool,
    },
    /// Llama 3 (`llama3`): wavelengths longer than original_length/low_freq_factor have θᵢ / factor, those
    /// shorter than original_length/high_freq_factor keep θᵢ, and those between them a mixture.
    Llama3 {
        /// How much longer the context is.
        factor: f64,
        /// Turns within the original length below which a pair is slowed all the way.
        low_freq_factor: f64,
        /// Turns within the original length above which a pair stays as it is.
        high_freq_factor: f64,
        /// The length of context that the model was trained on.
        original_length: usize,
    },
}

impl RotaryScaling {
    /// [`Yarn`](Self::Yarn) as it is usually set: from 32 turns to 1, whole pairs, the attention factor of
    /// the paper.
    pub fn yarn(factor: f64, original_length: usize) -> Self {
        RotaryScaling::Yarn {
            factor,
            original_length,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: None,
            truncate: true,
        }
    }

    /// The frequencies of the width/2 pairs, and what cosines and sines are multiplied by.
    pub(super) fn try_frequencies(self, width: usize, base: f64) -> Result<(Vec<f64>, f64)> {
        positive("rotary base", base)?;
        self.check()?;
        let mut attention = 1.0;
        let frequencies: Vec<f64> = match self {
            RotaryScaling::None => powers(base, width).collect(),
            RotaryScaling::Interpolation { factor } => {
                powers(base, width).map(|x| x / factor).collect()
            }
            RotaryScaling::Ntk { factor } => {
                let exponent = float(width) / (float(width) - 2.0);
                powers(base * factor.powf(exponent), width).collect()
            }
            RotaryScaling::Yarn { factor, attention_factor, .. } => {
                let usual = if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 };
                attention = attention_factor.unwrap_or(usual);
                let slowed = self.yarn_slowed(base, width);
                powers(base, width)
                    .enumerate()
                    .map(|(pair, x)| mixed(x / factor, x, slowed(pair)))
                    .collect()
            }
            RotaryScaling::Llama3 { factor, .. } => {
                powers(base, width).map(|x| mixed(x / factor, x, self.llama3_slowed(x))).collect()
            }
        };
        match frequencies.iter().find(|frequency| !frequency.is_finite()) {
            Some(bad) => Err(Error::value(format!(
                "expected finite rotary frequencies, found {bad} for base {base} and {self:?}"
            ))),
            None => Ok((frequencies, attention)),
        }
    }

    /// How much of a pair's frequency is slowed, from 0 to 1.
    fn yarn_slowed(self, base: f64, width: usize) -> impl Fn(usize) -> f64 {
        let (mut low, mut high) = (0.0, 0.0);
        if let RotaryScaling::Yarn { original_length, beta_fast, beta_slow, truncate, .. } = self {
            // The pair, as a fraction, that turns so often within the original length.
            let pair = |turns: f64| {
                float(width) * (float(original_length) / (turns * 2.0 * PI)).ln()
                    / (2.0 * base.ln())
            };
            (low, high) = (pair(beta_fast), pair(beta_slow));
            if truncate {
                (low, high) = (low.floor(), high.ceil());
            }
            (low, high) = (low.max(0.0), high.min(float(width) - 1.0));
            if low == high {
                high += 0.001; // a step in the place of a ramp
            }
        }
        move |pair| ((float(pair) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// How much of this frequency is slowed, from 0 to 1.
    fn llama3_slowed(self, frequency: f64) -> f64 {
        let RotaryScaling::Llama3 { low_freq_factor, high_freq_factor, original_length, .. } = self
        else {
            return 0.0;
        };
        let turns = float(original_length) * frequency / (2.0 * PI);
        1.0 - ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0)
    }

    fn check(self) -> Result<()> {
        match self {
            RotaryScaling::None => Ok(()),
            RotaryScaling::Interpolation { factor } | RotaryScaling::Ntk { factor } => {
                positive("factor", factor)
            }
            RotaryScaling::Yarn {
                factor,
                original_length,
                beta_fast,
                beta_slow,
                attention_factor,
                ..
            } => {
                positive("factor", factor)?;
                positive("original length", float(original_length))?;
                positive("beta_fast", beta_fast)?;
                positive("beta_slow", beta_slow)?;
                attention_factor.map_or(Ok(()), |factor| positive("attention factor", factor))
            }
            RotaryScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_length,
            } => {
                positive("factor", factor)?;
                positive("original length", float(original_length))?;
                positive("low_freq_factor", low_freq_factor)?;
                positive("high_freq_factor", high_freq_factor)?;
                if low_freq_factor < high_freq_factor {
                    return Ok(());
                }
                Err(Error::value(format!(
                    "expected a low_freq_factor below the high_freq_factor, found {low_freq_factor} \
                     and {high_freq_factor}"
                )))
            }
        }
    }
}

/// base^(−2i/width) for each pair i.
fn powers(base: f64, width: usize) -> impl Iterator<Item = f64> {
    (0..width / 2).map(move |i| 1.0 / base.powf(float(2 * i) / float(width)))
}

/// `slowed` and `kept` in these parts.
fn mixed(slowed: f64, kept: f64, part: f64) -> f64 {
    slowed * part + kept * (1.0 - part)
}

fn positive(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::value(format!("expected a {name} above 0, found {value}")))
}

#[allow(clippy::cast_precision_loss, reason = "widths and lengths below 2⁵³ are exact")]
fn float(n: usize) -> f64 {
    n as f64
}
