//! Random tensors from a seed.

use super::Tensor;
use crate::element::Float;
use crate::shape::{FixedSizes, Shape};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_distr::{Distribution, StandardNormal, StandardUniform};

/// A source of random numbers that depends on its seed alone: the same numbers on every machine.
///
/// ```
/// use shapeproof::{Generator, Model, Tensor, C};
///
/// let a = Tensor::<(Model<C<4>>,)>::normal(0.0, 0.02, &mut Generator::seeded(7));
/// let b = Tensor::<(Model<C<4>>,)>::normal(0.0, 0.02, &mut Generator::seeded(7));
/// assert_eq!(a, b);
/// ```
#[derive(Clone, Debug)]
pub struct Generator(ChaCha8Rng);

impl Generator {
    /// The generator of this seed.
    pub fn seeded(seed: u64) -> Self {
        Generator(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number drawn from \[0, 1).
    pub fn uniform(&mut self) -> f64 {
        StandardUniform.sample(&mut self.0)
    }

    /// A number drawn from the normal distribution of mean 0 and variance 1.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// All that its next numbers depend on: the seed, and how far it is, the lowest 32 bits first.
    #[cfg(feature = "files")]
    pub(crate) fn to_numbers(&self) -> [u32; 11] {
        let (seed, position) = (self.0.get_seed(), self.0.get_word_pos().to_le_bytes());
        let mut numbers = [0; 11];
        let words = seed.chunks_exact(4).chain(position.chunks_exact(4));
        for (number, bytes) in numbers.iter_mut().zip(words) {
            *number = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        }
        numbers
    }

    /// The generator of these numbers; `None` where it cannot be so far.
    #[cfg(feature = "files")]
    pub(crate) fn from_numbers(numbers: [u32; 11]) -> Option<Self> {
        /// A block of 16 words for each of 2⁶⁴ numbers.
        const END: u128 = 1 << 68;
        let mut seed = [0; 32];
        for (bytes, number) in seed.chunks_exact_mut(4).zip(&numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let words = numbers[8..].iter().rev();
        let position = words.fold(0, |position, &word| position << 32 | u128::from(word));
        let mut generator = ChaCha8Rng::from_seed(seed);
        generator.set_word_pos(position);
        (position < END).then_some(Generator(generator))
    }
}

impl<S, E> Tensor<S, E> {
    /// Elements drawn from the normal distribution; for shapes whose sizes are all static.
    pub fn normal(mean: f64, deviation: f64, generator: &mut Generator) -> Self
    where
        S: Shape + FixedSizes,
        E: Float,
    {
        Self::normal_in(S::fixed(), mean, deviation, generator)
    }

    /// Elements drawn from the normal distribution of this mean and standard deviation.
    ///
    /// # Panics
    /// As [`full_in`](Self::full_in).
    pub fn normal_in(shape: S, mean: f64, deviation: f64, generator: &mut Generator) -> Self
    where
        S: Shape,
        E: Float,
    {
        Self::drawn(shape, || mean + deviation * generator.normal())
    }

    /// Elements drawn from \[low, high) and rounded; for shapes whose sizes are all static.
    pub fn uniform(low: f64, high: f64, generator: &mut Generator) -> Self
    where
        S: Shape + FixedSizes,
        E: Float,
    {
        Self::uniform_in(S::fixed(), low, high, generator)
    }

    /// Elements drawn from \[low, high), all equally likely, in f64, and rounded to `E`: one in 512 of
    /// `bf16` between 0 and 1 is 1.
    ///
    /// # Panics
    /// As [`full_in`](Self::full_in).
    pub fn uniform_in(shape: S, low: f64, high: f64, generator: &mut Generator) -> Self
    where
        S: Shape,
        E: Float,
    {
        Self::drawn(shape, || low + (high - low) * generator.uniform())
    }

    fn drawn(shape: S, mut draw: impl FnMut() -> f64) -> Self
    where
        S: Shape,
        E: Float,
    {
        let count = shape.try_count().unwrap_or_else(|error| panic!("{error}"));
        let data = (0..count).map(|_| E::from_f64(draw())).collect();
        Self::from_packed(shape, data)
    }
}
