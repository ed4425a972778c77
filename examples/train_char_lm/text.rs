//! The text as numbers, and the windows that are cut from it.

use std::collections::BTreeSet;

use shapeproof::{Batch, Generator, Result, Seq, Size, Static, Tensor};

use super::model::Context;

/// The play.
pub(crate) const PLAY: &str = include_str!("../data/as_you_like_it.txt");

/// Windows of characters, and the characters that follow each of them.
pub(crate) type Windows<B> =
    (Tensor<(Batch<B>, Seq<Context>), usize>, Tensor<(Batch<B>, Seq<Context>), usize>);

/// A text, of which the last tenth is held out.
pub(crate) struct Text {
    /// Each character once, in order: its place is its number.
    characters: Vec<char>,
    tokens: Vec<usize>,
    held_out: usize,
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        let number = |character| characters.partition_point(|&other| other < character);
        let tokens: Vec<usize> = text.chars().map(number).collect();
        let held_out = tokens.len() * 9 / 10;
        Text { characters, tokens, held_out }
    }

    /// How many different characters there are.
    pub(crate) fn count(&self) -> usize {
        self.characters.len()
    }

    /// The number of a character that is in the text.
    pub(crate) fn number(&self, character: char) -> Option<usize> {
        self.characters.binary_search(&character).ok()
    }

    pub(crate) fn character(&self, token: usize) -> Option<char> {
        self.characters.get(token).copied()
    }

    /// Windows drawn at random from the first nine tenths. The text is longer than a window.
    pub(crate) fn draw<B: Size>(
        &self,
        batch: Batch<B>,
        generator: &mut Generator,
    ) -> Result<Windows<B>> {
        let places = self.held_out - Context::N;
        let start = |_| below(places, generator);
        self.windows(batch, &(0..batch.0.get()).map(start).collect::<Vec<_>>())
    }

    /// Where the consecutive windows of the last tenth start.
    pub(crate) fn held_out(&self) -> Vec<usize> {
        let last = self.tokens.len().saturating_sub(Context::N);
        (self.held_out..last).step_by(Context::N).collect()
    }

    /// The windows that start at these characters, as many as the batch is large.
    pub(crate) fn windows<B: Size>(&self, batch: Batch<B>, starts: &[usize]) -> Result<Windows<B>> {
        let shape = (batch, Seq(Context::default()));
        let of = |first: usize| {
            let window = |start: &usize| &self.tokens[start + first..][..Context::N];
            Tensor::try_from_vec(shape, starts.iter().flat_map(window).copied().collect())
        };
        Ok((of(0)?, of(1)?))
    }
}

/// A number below `n`, all equally likely but for a share of 2⁻⁵⁰.
fn below(n: usize, generator: &mut Generator) -> usize {
    let scaled = (u128::from(generator.bits()) * n as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}
