//! Losses.

use crate::axis::Axis;
use crate::element::{Float, Index};
use crate::error::{Error, Result};
use crate::kernel::cross_entropy::Smoothing;
use crate::kernel::layout::{Layout, View};
use crate::kernel::reduce::sum;
use crate::ops::index_of;
use crate::shape::{EndsWith, NonScalar, Shape};
use crate::tensor::{AnyTensor, Tensor};
use num_traits::Zero;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

/// The mean over all targets of −ln softmax(logits) at the target: [`CrossEntropy`] without settings.
///
/// # Shapes
/// `logits` over `(Batch, Seq, Vocab)` and `targets` over `(Batch, Seq)`; the classes are the last axis,
/// whatever its name.
///
/// # Numerics
/// As [`CrossEntropy`].
///
/// # Compile errors
/// `targets_must_have_the_axes_before_the_classes`, `targets_of_a_loss_must_be_integers`.
///
/// # Errors
/// Where a target is no class: the first such target and its place.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Tensor, Vocab, C, try_cross_entropy};
///
/// let logits = Tensor::<(Batch<C<2>>, Vocab<C<2>>)>::from([[0.0, 0.0], [1000.0, 0.0]]);
/// let loss = try_cross_entropy(&logits, &Tensor::<(Batch<C<2>>,), u32>::from([1, 0]))?;
/// assert_eq!(loss.value(), 2f32.ln() / 2.0);
///
/// let wrong = try_cross_entropy(&logits, &Tensor::<(Batch<C<2>>,), u32>::from([1, 2]));
/// let text = "target 2, at [1], is outside of axis Vocab of size 2";
/// assert_eq!(wrong.unwrap_err().to_string(), text);
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn try_cross_entropy<S, E: Float, T: Index>(
    logits: &Tensor<S, E>,
    targets: &Tensor<S::Init, T>,
) -> Result<Tensor<(), E>>
where
    S: NonScalar,
{
    CrossEntropy::<S::Last, E>::new().loss(logits, targets)
}

/// Cross entropy with its settings: w_t · −ln softmax(logits)_t at the target t of each place, added up,
/// divided by Σ w_t, the number of targets where no class has a weight.
///
/// With label smoothing e, the target counts 1 − e and each of the K classes e/K besides.
///
/// # Shapes
/// `logits` end with the classes `A`; `targets` have the axes before.
///
/// # Numerics
/// From logits, by the logarithm of the sum of exponentials less their maximum; the gradient is
/// softmax − target, in one pass. Accumulates in f64 for f64, else in f32, pairwise over places. Where no
/// target counts, and of the mean where all of them weigh 0, the loss is 0, and so is its gradient.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, CrossEntropy, Tensor, Vocab, C};
///
/// let logits = Tensor::<(Batch<C<3>>, Vocab<C<2>>)>::from([[0.0, 0.0], [5.0, 1.0], [0.0, 0.0]]);
/// let targets = Tensor::<(Batch<C<3>>,), i64>::from([0, -100, 1]);
/// let loss = CrossEntropy::new().ignoring(-100).summed().try_of(&logits, &targets)?;
/// assert_eq!(loss.value(), 2.0 * 2f32.ln());
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// For the smoothing, Szegedy et al., "Rethinking the Inception Architecture", 2016, section 7.
#[derive(Clone)]
pub struct CrossEntropy<A, E = f32> {
    ignored: Option<i64>,
    smoothing: f64,
    weights: Option<AnyTensor<E>>,
    summed: bool,
    marker: PhantomData<fn() -> A>,
}

impl<A, E> Default for CrossEntropy<A, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A, E> CrossEntropy<A, E> {
    /// The mean, of all targets, without smoothing and weights.
    pub fn new() -> Self {
        let (ignored, weights, marker) = (None, None, PhantomData);
        CrossEntropy { ignored, smoothing: 0.0, weights, summed: false, marker }
    }

    /// Leaves places with this target out.
    pub fn ignoring(mut self, target: i64) -> Self {
        self.ignored = Some(target);
        self
    }

    /// With label smoothing.
    ///
    /// # Errors
    /// Where `share` is not in 0..=1.
    pub fn try_smoothed(mut self, share: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::value(format!("expected a share in 0..=1, found {share}")));
        }
        self.smoothing = share;
        Ok(self)
    }

    /// The sum over all places instead of the mean.
    pub fn summed(mut self) -> Self {
        self.summed = true;
        self
    }
}

impl<A: Axis, E: Float> CrossEntropy<A, E> {
    /// With a weight for each class. They are numbers, from which no gradient is taken.
    pub fn weighted(mut self, weights: &Tensor<(A,), E>) -> Self {
        self.weights = Some(weights.any().detached().packed());
        self
    }

    /// The loss.
    ///
    /// # Compile errors
    /// `class_weights_must_be_those_of_the_classes`.
    ///
    /// # Errors
    /// Where a target is no class, and not ignored: the first such target and its place.
    pub fn try_of<S, T: Index>(
        &self,
        logits: &Tensor<S, E>,
        targets: &Tensor<S::Init, T>,
    ) -> Result<Tensor<(), E>>
    where
        S: NonScalar + EndsWith<(A,)>,
    {
        self.loss(logits, targets)
    }

    fn loss<S: NonScalar, T: Index>(
        &self,
        logits: &Tensor<S, E>,
        targets: &Tensor<S::Init, T>,
    ) -> Result<Tensor<(), E>> {
        let classes = logits.dims()[S::RANK - 1];
        let targets = self.classes_of(targets, classes)?;
        Ok(Tensor::typed((), self.of_any(logits.any(), targets)))
    }

    fn classes_of<S: Shape, T: Index>(
        &self,
        targets: &Tensor<S, T>,
        classes: usize,
    ) -> Result<Vec<Option<usize>>> {
        let check = |(place, target): (usize, T)| match target.to_index() {
            _ if self.ignored.is_some() && target.to_signed() == self.ignored => Ok(None),
            Some(inside) if inside < classes => Ok(Some(inside)),
            _ => Err(Error::index(format!(
                "target {target:?}, at {:?}, is outside of axis {} of size {classes}",
                index_of(place, targets.dims()),
                A::NAME
            ))),
        };
        targets.to_vec().into_iter().enumerate().map(check).collect()
    }

    // Knows no shape, so that it is compiled once for all.
    fn of_any(&self, logits: &AnyTensor<E>, targets: Vec<Option<usize>>) -> AnyTensor<E> {
        loss_of(logits, targets, (self.smoothing, self.weights.clone()), self.summed)
    }
}

fn loss_of<E: Float>(
    logits: &AnyTensor<E>,
    targets: Vec<Option<usize>>,
    (share, weights): (f64, Option<AnyTensor<E>>),
    summed: bool,
) -> AnyTensor<E> {
    fn smoothing<E: Float>(share: f64, weights: Option<&AnyTensor<E>>) -> Smoothing<'_, E> {
        Smoothing { share, weights: weights.and_then(AnyTensor::as_slice) }
    }
    let [loss, logarithms] = E::losses(logits.view(), &targets, smoothing(share, weights.as_ref()));
    let weight = |target: &usize| match weights.as_ref().and_then(AnyTensor::as_slice) {
        Some(weights) => weights[*target].to_f64(),
        None => 1.0,
    };
    let counted: f64 = targets.iter().flatten().map(weight).sum();
    let factor = match summed {
        true => 1.0,
        // The mean of what does not count.
        false if counted == 0.0 => 0.0,
        false => 1.0 / counted,
    };
    let factor = E::Wide::from_f64(factor);
    let total = sum(View { data: &loss, layout: Layout::packed(&[loss.len()]) }, 0)[0];
    let value = if factor.is_zero() { factor } else { total * factor };
    AnyTensor::from_packed(&[], vec![E::narrow(value)]).recorded_from(logits, || {
        let logits = logits.detached();
        move |g| {
            let gradient = g.first().wide() * factor;
            let smoothing = smoothing(share, weights.as_ref());
            let data = E::cross_entropy_backward(
                logits.view(),
                &targets,
                &logarithms,
                gradient,
                smoothing,
            );
            AnyTensor::from_packed(logits.dims(), data)
        }
    })
}

impl<A, E: Float> Debug for CrossEntropy<A, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrossEntropy")
            .field("ignored", &self.ignored)
            .field("smoothing", &self.smoothing)
            .field("weights", &self.weights)
            .field("summed", &self.summed)
            .finish()
    }
}

/// The mean over all elements of (prediction − target)²; NaN of none.
///
/// # Shapes
/// Both have one shape.
///
/// # Numerics
/// Pairwise, in f64 for f64, else in f32.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Tensor, C, mean_squared_error};
///
/// let prediction = Tensor::<(Batch<C<2>>,)>::from([1.0, 5.0]);
/// assert_eq!(mean_squared_error(&prediction, &Tensor::from([1.0, 3.0])).value(), 2.0);
/// ```
pub fn mean_squared_error<S: Shape, E: Float>(
    prediction: &Tensor<S, E>,
    target: &Tensor<S, E>,
) -> Tensor<(), E> {
    Tensor::typed((), squared_error(prediction.any(), target.any()))
}

fn squared_error<E: Float>(prediction: &AnyTensor<E>, target: &AnyTensor<E>) -> AnyTensor<E> {
    let [a, b] = [prediction, target].map(|x| x.detached().to::<E::Wide>());
    // Squares of halves are seldom in their own type.
    let squares = a.paired(&b, |a, b| (a - b) * (a - b));
    let mean = squares.flattened().mean(0).to::<E>();
    mean.recorded(&[prediction, target], || {
        let wanted = [prediction, target].map(AnyTensor::is_recorded);
        let (a, b) = (prediction.detached(), target.detached());
        move |g| {
            #[allow(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
            let factor = E::Wide::from_f64(2.0 * g.first().to_f64() / a.count() as f64);
            let of = |a: &AnyTensor<E>, b| a.paired(b, |a, b| (a - b) * factor);
            vec![wanted[0].then(|| of(&a, &b)), wanted[1].then(|| of(&b, &a))]
        }
    })
}
