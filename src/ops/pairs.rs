//! Two tensors element by element, with their gradients; what the typed operations are made of.
//!
//! Nothing here knows a shape, so every loop and every rule is compiled once for all of them. The right
//! side is stretched over the left one's axes: `at` says where its own stand among those.

use crate::element::{Element, Float};
use crate::kernel::elementwise::{zip, zip3};
use crate::kernel::layout::{Dims, View};
use crate::kernel::reduce;
use crate::kernel::wide::zip_wide;
use crate::shape::{BroadcastsTo, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor, with_elements};
use num_traits::{Float as _, One, Zero};

impl<S: Shape, E: Element> Tensor<S, E> {
    /// `f` of every element and its partner, of which nothing is recorded.
    pub(crate) fn zipped<R, F: Element, G: Element, How: Marker>(
        &self,
        right: &Tensor<R, F>,
        f: impl Fn(E, F) -> G + Sync,
    ) -> Tensor<S, G>
    where
        R: BroadcastsTo<S, How>,
    {
        let right = right.any().stretched(self.dims(), &R::positions());
        self.with_data(zip(self.any().view(), right.view(), f))
    }
}

impl<E: Element> AnyTensor<E> {
    /// This tensor repeated over `dims`, without copying and without a record.
    pub(crate) fn stretched(&self, dims: &[usize], at: &[usize]) -> Self {
        self.detached().viewed(self.layout().broadcast(dims, at))
    }

    /// `self` where `condition`, of the same sizes, is true, else `otherwise`.
    pub(super) fn where_or(
        &self,
        condition: &AnyTensor<bool>,
        otherwise: &Self,
        at: &Dims,
    ) -> Self {
        let other = otherwise.stretched(self.dims(), at);
        let data = zip3(self.view(), condition.view(), other.view(), either);
        Self::from_packed(self.dims(), data).recorded_any(&[self, otherwise], || {
            let (keep, at) = (condition.clone(), *at);
            move |gradient| {
                let kept = with_elements!(gradient, g => float g.where_is(true, &keep));
                let others =
                    with_elements!(gradient, g => float g.where_is(false, &keep).summed_to(&at));
                vec![Some(kept), Some(others)]
            }
        })
    }
}

impl<E: Float> AnyTensor<E> {
    pub(crate) fn add(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, sum).recorded(&[self, right], || sum_rule(right, at, false))
    }

    pub(super) fn sub(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, difference).recorded(&[self, right], || sum_rule(right, at, true))
    }

    pub(crate) fn mul(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, product).recorded(&[self, right], || {
            let left = right.is_recorded().then(|| self.detached());
            let (right, at) = (self.is_recorded().then(|| right.detached()), *at);
            move |g| {
                vec![
                    right.as_ref().map(|right| g.combined(right, &at, product)),
                    left.as_ref().map(|left| g.paired(left, product).summed_to(&at)),
                ]
            }
        })
    }

    pub(super) fn div(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, quotient).recorded(&[self, right], || {
            let left = right.is_recorded().then(|| self.detached());
            let (right, at) = (right.detached(), *at);
            move |g| {
                let of_left = g.combined(&right, &at, quotient);
                let of_right = left.as_ref().map(|left| {
                    let slope = left.combined(&right, &at, quotient);
                    of_left.paired(&slope, |g, slope| -g * slope).summed_to(&at)
                });
                vec![Some(of_left), of_right]
            }
        })
    }

    pub(super) fn pow(&self, exponent: &Self, at: &Dims) -> Self {
        self.combined(exponent, at, power)
            .recorded(&[self, exponent], || self.slopes(exponent, at, [base_slope, exponent_slope]))
    }

    pub(super) fn maximum(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, larger)
            .recorded(&[self, right], || self.slopes(right, at, [larger_share, other_of_larger]))
    }

    pub(super) fn minimum(&self, right: &Self, at: &Dims) -> Self {
        self.combined(right, at, smaller)
            .recorded(&[self, right], || self.slopes(right, at, [smaller_share, other_of_smaller]))
    }

    /// The rule of an operation whose gradient is that of the result times a slope for each side.
    fn slopes(
        &self,
        right: &Self,
        at: &Dims,
        slopes: [fn(E::Wide, E::Wide) -> E::Wide; 2],
    ) -> impl Fn(&Self) -> Vec<Option<Self>> + use<E> {
        let wanted = [self.is_recorded(), right.is_recorded()];
        let (left, right, at) = (self.detached(), right.detached(), *at);
        move |g| {
            let of = |i: usize| {
                wanted[i].then(|| g.paired(&left.combined(&right, &at, slopes[i]), product))
            };
            vec![of(0), of(1).map(|g| g.summed_to(&at))]
        }
    }
}

// In place: where something is recorded and the old elements take part in the gradient, they are kept,
// and the result has memory of its own.
impl<E: Float> AnyTensor<E> {
    pub(crate) fn add_in_place(&mut self, right: &Self, at: &Dims) {
        let nodes = [self.node().cloned(), right.node().cloned()];
        self.zip_in_place(right.partners(self.dims(), at), sum);
        self.record(&nodes, || sum_rule(right, at, false));
    }

    pub(super) fn sub_in_place(&mut self, right: &Self, at: &Dims) {
        let nodes = [self.node().cloned(), right.node().cloned()];
        self.zip_in_place(right.partners(self.dims(), at), difference);
        self.record(&nodes, || sum_rule(right, at, true));
    }

    pub(super) fn mul_in_place(&mut self, right: &Self, at: &Dims) {
        if self.is_recorded() || right.is_recorded() {
            *self = self.mul(right, at);
        } else {
            self.zip_in_place(right.partners(self.dims(), at), product);
        }
    }

    pub(super) fn add_number_in_place(&mut self, number: f64) {
        self.number_in_place(number, sum, |_| 1.0);
    }

    pub(super) fn sub_number_in_place(&mut self, number: f64) {
        self.number_in_place(number, difference, |_| 1.0);
    }

    pub(super) fn mul_number_in_place(&mut self, number: f64) {
        self.number_in_place(number, product, |number| number);
    }

    fn number_in_place(
        &mut self,
        number: f64,
        f: impl Fn(E::Wide, E::Wide) -> E::Wide + Send + Sync,
        slope: fn(f64) -> f64,
    ) {
        let nodes = [self.node().cloned()];
        let operand = E::Wide::from_f64(number);
        self.map_wide_in_place(move |x| f(x, operand));
        self.record(&nodes, || scaled_rule(slope(number)));
    }
}

// One number for all elements.
impl<E: Float> AnyTensor<E> {
    pub(super) fn add_number(&self, number: f64) -> Self {
        self.with_number(number, sum).recorded(&[self], || scaled_rule(1.0))
    }

    pub(super) fn sub_number(&self, number: f64) -> Self {
        self.with_number(number, difference).recorded(&[self], || scaled_rule(1.0))
    }

    pub(crate) fn mul_number(&self, number: f64) -> Self {
        self.with_number(number, product).recorded(&[self], || scaled_rule(number))
    }

    pub(super) fn div_number(&self, number: f64) -> Self {
        self.with_number(number, quotient)
            .recorded(&[self], || move |g: &Self| vec![Some(g.with_number(number, quotient))])
    }

    pub(super) fn pow_number(&self, exponent: f64) -> Self {
        self.with_number(exponent, power::<E::Wide>).recorded_from(self, || {
            let base = self.detached();
            move |g| g.paired(&base.with_number(exponent, base_slope), product)
        })
    }

    /// `f` of every element and one number, of which nothing is recorded.
    fn with_number(
        &self,
        number: f64,
        f: impl Fn(E::Wide, E::Wide) -> E::Wide + Send + Sync,
    ) -> Self {
        let number = E::Wide::from_f64(number);
        self.map_wide(move |x| f(x, number))
    }
}

// What rules are made of: nothing is recorded here.
impl<E: Float> AnyTensor<E> {
    /// `f` of every element and its partner in `right`, stretched.
    fn combined(
        &self,
        right: &Self,
        at: &Dims,
        f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
    ) -> Self {
        Self::from_packed(self.dims(), zip_wide(self.view(), right.partners(self.dims(), at), f))
    }

    /// `f` of every element and its partner in a tensor of the same sizes.
    pub(crate) fn paired(
        &self,
        other: &Self,
        f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
    ) -> Self {
        Self::from_packed(self.dims(), zip_wide(self.view(), other.view(), f))
    }

    /// The elements where `keep`, of the same sizes, is `kept`; 0 elsewhere, whatever is there.
    fn where_is(&self, kept: bool, keep: &AnyTensor<bool>) -> Self {
        let only = move |x, keep| if keep == kept { x } else { E::default() };
        Self::from_packed(self.dims(), zip(self.view(), keep.view(), only))
    }

    /// The elements as partners of those of a tensor of the sizes `dims`.
    fn partners(&self, dims: &[usize], at: &[usize]) -> View<'_, E> {
        View { layout: self.layout().broadcast(dims, at), ..self.view() }
    }

    /// This gradient of a tensor that was stretched, as that of the tensor: the sum over the axes that it
    /// does not have, which are all but those in `at`.
    pub(crate) fn summed_to(&self, at: &[usize]) -> Self {
        let is_summed = |axis: &usize| !at.contains(axis);
        let begins = |&axis: &usize| is_summed(&axis) && (axis == 0 || !is_summed(&(axis - 1)));
        if (0..self.rank()).filter(begins).count() > 1 && E::as_wide(&[]).is_none() {
            return self.detached().to::<E::Wide>().summed_to(at).to(); // so that a half is rounded once
        }
        let mut sum = self.detached();
        for axis in (0..self.rank()).rev().filter(is_summed) {
            let next_too = axis > 0 && is_summed(&(axis - 1));
            match next_too.then(|| sum.layout().merged(axis - 1)).flatten() {
                Some(both) => sum = sum.viewed(both),
                None => {
                    let dims = sum.layout().dims.removed(axis);
                    sum = Self::from_packed(&dims, reduce::sum(sum.view(), axis));
                }
            }
        }
        sum
    }
}

/// The rule of a sum, or, where the right side is `negative`, of a difference.
fn sum_rule<E: Float>(
    right: &AnyTensor<E>,
    at: &Dims,
    negative: bool,
) -> impl Fn(&AnyTensor<E>) -> Vec<Option<AnyTensor<E>>> + use<E> {
    let (wanted, at) = (right.is_recorded(), *at);
    move |g| {
        let of_right = wanted.then(|| g.summed_to(&at));
        let of_right = of_right.map(|g| if negative { g.with_number(-1.0, product) } else { g });
        vec![Some(g.clone()), of_right]
    }
}

/// The rule of what multiplies by a number.
fn scaled_rule<E: Float>(
    factor: f64,
) -> impl Fn(&AnyTensor<E>) -> Vec<Option<AnyTensor<E>>> + use<E> {
    move |g| vec![Some(if factor == 1.0 { g.clone() } else { g.with_number(factor, product) })]
}

// What the operations do to elements, as functions that know no shape: a closure within a method of
// `Tensor<S, E>` would be another type for each S, and its loop compiled once for each.

fn sum<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() + b.wide())
}

fn difference<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() - b.wide())
}

pub(super) fn product<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() * b.wide())
}

pub(super) fn quotient<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() / b.wide())
}

fn power<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide().powf(b.wide()))
}

/// b · aᵇ⁻¹, and 0 where b is 0, also of a 0.
fn base_slope<E: Float>(a: E, b: E) -> E {
    let (a, b) = (a.wide(), b.wide());
    E::narrow(if b.is_zero() { b } else { b * a.powf(b - E::Wide::one()) })
}

/// aᵇ · ln a, and its limit, 0, where a is 0 and b is not below.
fn exponent_slope<E: Float>(a: E, b: E) -> E {
    let (a, b) = (a.wide(), b.wide());
    let is_limit = a.is_zero() && b >= E::Wide::zero();
    E::narrow(if is_limit { E::Wide::zero() } else { a.powf(b) * a.ln() })
}

fn larger<E: Float>(a: E, b: E) -> E {
    if a > b || a.wide().is_nan() { a } else { b }
}

fn smaller<E: Float>(a: E, b: E) -> E {
    if a < b || a.wide().is_nan() { a } else { b }
}

/// How much of the gradient goes to the left side where the larger counts.
fn larger_share<E: Float>(a: E, b: E) -> E {
    share(a, a == b, larger(a, b))
}

fn smaller_share<E: Float>(a: E, b: E) -> E {
    share(a, a == b, smaller(a, b))
}

/// How much of it goes to the right side.
fn other_of_larger<E: Float>(a: E, b: E) -> E {
    difference(E::from_f64(1.0), larger_share(a, b))
}

fn other_of_smaller<E: Float>(a: E, b: E) -> E {
    difference(E::from_f64(1.0), smaller_share(a, b))
}

fn share<E: Float>(a: E, equal: bool, taken: E) -> E {
    let is_taken = a == taken || a.wide().is_nan();
    E::from_f64(if equal { 0.5 } else { f64::from(u8::from(is_taken)) })
}

fn either<E: Element>(a: E, keep: bool, b: E) -> E {
    if keep { a } else { b }
}
