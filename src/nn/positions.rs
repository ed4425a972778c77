//! Absolute positions: vectors that are added to those of the tokens.

use super::{AnyParameter, Mode, Module, Parameter};
use crate::axis::{Axis, Model, Seq};
use crate::element::{Float, Index};
use crate::error::{Error, Result};
use crate::parameters;
use crate::shape::{Appends, FixedSizes, Shape};
use crate::size::Size;
use crate::tensor::{Generator, Tensor};

/// The sinusoidal vectors of the positions `offset`, `offset + 1`, …: at position p, feature 2i is
/// sin(p / 10000^(2i/M)) and feature 2i + 1 the cosine of the same angle.
///
/// # Shapes
/// `(Seq<S>, Model<M>)`, to be added to activations over `(Batch, Seq<S>, Model<M>)`. `M` may be odd: the
/// last feature is a sine then.
///
/// # Numerics
/// Computed in f64 and rounded once.
///
/// # Errors
/// Where the last position exceeds `usize::MAX`, or there are more elements than the machine can count.
///
/// # Examples
/// ```
/// use shapeproof::{C, Model, Seq, Tensor, try_sinusoidal_positions};
///
/// let table: Tensor<_> = try_sinusoidal_positions(Seq(C::<2>), Model(C::<3>), 0)?;
/// let expected = Tensor::from([[0.0, 1.0, 0.0], [0.841471, 0.540302, 0.0021544]]);
/// assert!(table.all_close(&expected, 0.0, 1e-6));
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, section 3.5.
pub fn try_sinusoidal_positions<S: Size, M: Size, E: Float>(
    positions: Seq<S>,
    width: Model<M>,
    offset: usize,
) -> Result<Tensor<(Seq<S>, Model<M>), E>> {
    let (length, width_size) = (positions.size().get(), width.size().get());
    if offset.checked_add(length).is_none() {
        return Err(Error::size_overflow("+", &offset, &length));
    }
    let shape = (positions, width);
    shape.try_count()?;
    #[allow(clippy::cast_precision_loss, reason = "positions and widths below 2⁵³ are exact")]
    Ok(Tensor::from_fn_in(shape, |at| {
        let (position, feature) = (offset + at[0], at[1]);
        let pair = feature - feature % 2;
        let angle = position as f64 / 10_000f64.powf(pair as f64 / width_size as f64);
        E::from_f64(if feature % 2 == 0 { angle.sin() } else { angle.cos() })
    }))
}

/// A learned vector for each position, up to the size of the table: `LearnedPositions<Seq<C<512>>,
/// Model<C<768>>>`.
///
/// # Shapes
/// `(Seq<L>, Model<M>)` for L positions, to be added to activations over `(Batch, Seq<L>, Model<M>)`.
///
/// # Errors
/// `try_forward` and `try_at` fail where a position lies outside of the table.
///
/// # Examples
/// ```
/// use shapeproof::{C, Infer, LearnedPositions, Model, Seq, Tensor};
///
/// let table = Tensor::<(Seq<C<3>>, Model<C<2>>)>::from([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]);
/// let positions: LearnedPositions<_, _> = LearnedPositions::new(table);
/// assert_eq!(positions.try_forward(1, Seq(C::<2>), &mut Infer)?.to_vec(), [1.0, 1.5, 2.0, 2.5]);
///
/// let error = positions.try_forward(2, Seq(C::<2>), &mut Infer).unwrap_err();
/// assert_eq!(error.to_string(), "expected positions within a table of 3, found 2 from 2 on");
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, section 3.1.
pub struct LearnedPositions<A, M, E = f32> {
    /// The table.
    pub weight: Parameter<(A, M), E>,
}

impl<A: Axis, M: Axis, E: Float> LearnedPositions<A, M, E> {
    /// Positions with this table.
    pub fn new(table: Tensor<(A, M), E>) -> Self {
        LearnedPositions { weight: Parameter::new(table) }
    }

    /// Positions of zeros, to be loaded.
    pub fn zeros() -> Self
    where
        (A, M): FixedSizes,
    {
        Self::new(Tensor::zeros())
    }

    /// Vectors drawn from the normal distribution of mean 0 and this standard deviation.
    pub fn normal(deviation: f64, generator: &mut Generator) -> Self
    where
        (A, M): FixedSizes,
    {
        Self::new(Tensor::normal(0.0, deviation, generator))
    }

    /// The vectors of the positions `offset`, `offset + 1`, …: a view of the table.
    ///
    /// # Errors
    /// Where the table does not reach so far.
    pub fn try_forward<L: Size>(
        &self,
        offset: usize,
        positions: A::With<L>,
        mode: &mut impl Mode,
    ) -> Result<Tensor<(A::With<L>, M), E>> {
        let table = mode.read(&self.weight);
        let (length, held) = (positions.size().get(), table.dims()[0]);
        if offset.checked_add(length).is_none_or(|end| end > held) {
            return Err(Error::index(format!(
                "expected positions within a table of {held}, found {length} from {offset} on"
            )));
        }
        let layout = table.any().layout().sliced(0, offset, length);
        let vectors = table.viewed((positions, table.shape().1), layout);
        mode.note(self.weight.id(), vectors.any());
        Ok(vectors)
    }

    /// The vector of each position.
    ///
    /// # Errors
    /// Where a position lies outside of the table: the first such position and its place.
    pub fn try_at<S: Shape, T: Index>(
        &self,
        positions: &Tensor<S, T>,
        mode: &mut impl Mode,
    ) -> Result<Tensor<S::Output, E>>
    where
        S: Appends<(M,)>,
    {
        let vectors = mode.read(&self.weight).try_embed(positions)?;
        mode.note(self.weight.id(), vectors.any());
        Ok(vectors)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Axis, M: Axis, E: Float> Module for LearnedPositions<A, M, E> {
    parameters!(weight);
}
