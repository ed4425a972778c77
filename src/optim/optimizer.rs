//! What walks over a module's parameters and updates each by its gradient.

use super::{LossScale, UpdateRule};
use crate::autodiff::Gradients;
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::nn::{AnyParameter, Module, parameters, parameters_mut};
use crate::tensor::{AnyTensor, FloatSliceMut, FloatTensor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::ops::Range;

/// Updates a module's parameters by their gradients, by the rule `R`: [`Sgd`](crate::Sgd),
/// [`Adam`](crate::Adam) or [`AdamW`](crate::AdamW).
///
/// State is kept for each parameter by its name, from its first update on. A parameter that two places
/// share is updated once. One that the loss does not depend on is left alone, and so is its state.
///
/// # Numerics
/// Updates and state are in the parameter's own elements, or in f32 where those are `f16` or `bf16`: from
/// its first update on such a parameter keeps in f32 what its value is rounded from, since a step is often
/// smaller than half of a half type's last digit. Rates, powers of β and the like are in f64, rounded once.
/// The bits are the same for every number of threads and every instruction set.
///
/// Updates are in place where nothing else holds the parameter's value: the loss and what it was computed
/// from do, so a program that drops them before the step saves a copy of the model. A parameter that is
/// [`tied`](crate::Parameter::tied) is changed in a copy.
///
/// # Examples
/// Micro-batches: their gradients are added, and their mean makes one step.
/// ```
/// use shapeproof::{
///     AdamW, Batch, Generator, Gradients, Linear, Model, Optimizer, Schedule, Tensor, Train, C,
/// };
///
/// let mut generator = Generator::seeded(1);
/// let mut layer = Linear::<Model<C<4>>, Model<C<4>>>::xavier(&mut generator);
/// let x = Tensor::<(Batch<C<8>>, Model<C<4>>)>::normal(0.0, 1.0, &mut generator);
///
/// let rule = AdamW::default();
/// let mut optimizer = Optimizer::try_new(rule)?
///     .try_group(|name| name.ends_with("bias"), AdamW { weight_decay: 0.0, ..rule })?;
/// let schedule = Schedule::cosine(1e-2, 100).warm_up(10);
/// let mut losses = Vec::new();
/// for update in 0..100 {
///     let (mut sum, mut total) = (Gradients::default(), 0.0);
///     for micro in 0..2 {
///         let x = x.try_slice(Batch, micro * 4, C::<4>)?;
///         let mut train = Train::seeded(1);
///         let y = layer.forward(&x, &mut train);
///         let error = y.sub(&x);
///         let loss = error.mul(&error).mean_all();
///         sum.add(&train.backward(&loss));
///         total += loss.to_vec()[0];
///     }
///     sum.scale(0.5);
///     sum.try_clip_norm(1.0)?;
///     optimizer.step(&mut layer, &sum, schedule.rate(update))?;
///     losses.push(total);
/// }
/// assert!(losses[99] < losses[0] / 4.0);
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct Optimizer<R> {
    rule: R,
    groups: Vec<(Names, R)>,
    factors: Vec<(Names, f64)>,
    frozen: Vec<Names>,
    state: BTreeMap<String, State>,
    pub(super) loss_scale: Option<LossScale>,
}

/// Chooses parameters by their full names.
type Names = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// One update of one parameter.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Step {
    pub(super) rate: f64,
    /// The number of this update of the parameter, from 1.
    pub(super) update: u64,
}

/// What a rule keeps of one parameter.
#[derive(Clone)]
pub(crate) struct State {
    /// How often the parameter has been updated.
    pub(crate) updates: u64,
    pub(crate) slots: Slots,
}

/// The rule's tensors, of the parameter's sizes and elements; `f32` for halves.
#[derive(Clone)]
pub(crate) enum Slots {
    F32(Vec<AnyTensor<f32>>),
    F64(Vec<AnyTensor<f64>>),
}

impl<R> Optimizer<R> {
    /// An optimizer that has seen nothing yet.
    ///
    /// # Compile errors
    /// `optimizer_must_follow_a_rule`: "`{float}` is not a rule that an optimizer follows".
    ///
    /// # Errors
    /// Where a setting of the rule lies outside of what it can be.
    pub fn try_new(rule: R) -> Result<Self>
    where
        R: UpdateRule,
    {
        rule.check()?;
        let (groups, factors, frozen) = (Vec::new(), Vec::new(), Vec::new());
        let (state, loss_scale) = (BTreeMap::new(), None);
        Ok(Optimizer { rule, groups, factors, frozen, state, loss_scale })
    }
}

impl<R: UpdateRule> Optimizer<R> {
    /// With other settings for the parameters whose full names `names` holds of; of several groups that a
    /// name belongs to, the first that was given counts.
    ///
    /// # Errors
    /// Where a setting lies outside of what it can be.
    pub fn try_group(
        mut self,
        names: impl Fn(&str) -> bool + Send + Sync + 'static,
        rule: R,
    ) -> Result<Self> {
        rule.check()?;
        self.groups.push((Box::new(names), rule));
        Ok(self)
    }

    /// With the rate multiplied by a number, for the parameters whose full names `names` holds of; of
    /// several numbers the first that was given counts.
    ///
    /// # Errors
    /// Where the number is negative or not finite.
    pub fn try_scale_rate(
        mut self,
        names: impl Fn(&str) -> bool + Send + Sync + 'static,
        factor: f64,
    ) -> Result<Self> {
        in_range("the factor of the rate", factor, 0.0..f64::INFINITY)?;
        self.factors.push((Box::new(names), factor));
        Ok(self)
    }

    /// Without the parameters whose full names `names` holds of: they keep their values.
    pub fn freeze(mut self, names: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.frozen.push(Box::new(names));
        self
    }

    /// The settings of parameters that are in no group.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    /// Updates every parameter that has a gradient and is not frozen.
    ///
    /// # Errors
    /// Where the rate, or it times a factor, is negative, not finite or beyond `f32`; no parameter of the module
    /// has a gradient, as where the loss was computed under [`Infer`](crate::Infer); two parameters have one name;
    /// or a parameter has other sizes or elements than its state, or by now a group whose rule keeps more or less
    /// of it. Nothing has changed then. A gradient that is NaN is no error; `gradients.is_finite()` asks.
    pub fn step<M: Module + ?Sized>(
        &mut self,
        module: &mut M,
        gradients: &Gradients,
        rate: f64,
    ) -> Result<()> {
        let rates = 0.0..f64::from(f32::MAX);
        in_range("the rate", rate, rates.clone())?;
        for (_, factor) in &self.factors {
            in_range("the rate times its factor", rate * factor, rates.clone())?;
        }
        self.check(module, gradients)?;
        for (name, parameter) in parameters_mut(module) {
            let Some(gradient) = self.gradient_of(&name, &*parameter, gradients) else { continue };
            self.update(name, parameter, gradient, rate);
        }
        Ok(())
    }

    /// Whether every parameter that is to be updated fits its state.
    fn check<M: Module + ?Sized>(&self, module: &M, gradients: &Gradients) -> Result<()> {
        let parameters = parameters(module);
        let mut names = BTreeSet::new();
        let mut found = parameters.is_empty();
        for (name, parameter) in &parameters {
            if !names.insert(name) {
                return Err(Error::value(format!("two parameters have the name {name:?}")));
            }
            found |= gradients.find(parameter.id()).is_some();
            if self.gradient_of(name, *parameter, gradients).is_some()
                && let Some(state) = self.state.get(name)
            {
                let rule = rule_of(&self.rule, &self.groups, name);
                state.check(name, *parameter, rule.slots().len())?;
            }
        }
        if found {
            return Ok(());
        }
        let why = if gradients.is_empty() {
            "nothing was computed under the `Train` that went backward"
        } else {
            "the gradients are of other parameters"
        };
        let count = parameters.len();
        Err(Error::value(format!("none of the module's {count} parameters has a gradient: {why}")))
    }

    fn gradient_of<'g>(
        &self,
        name: &str,
        parameter: &dyn AnyParameter,
        gradients: &'g Gradients,
    ) -> Option<&'g FloatTensor> {
        let gradient = gradients.find(parameter.id())?;
        (!self.frozen.iter().any(|names| names(name))).then_some(gradient)
    }

    fn update(
        &mut self,
        name: String,
        parameter: &mut dyn AnyParameter,
        gradient: &FloatTensor,
        rate: f64,
    ) {
        let rule = rule_of(&self.rule, &self.groups, &name);
        let factor = self.factors.iter().find(|(names, _)| names(&name));
        let rate = rate * factor.map_or(1.0, |(_, factor)| *factor);
        let state =
            self.state.entry(name).or_insert_with(|| State::new(rule.slots().len(), parameter));
        state.updates = state.updates.saturating_add(1);
        let step = Step { rate, update: state.updates };
        parameter.change(&mut |elements| match (elements, &mut state.slots) {
            (FloatSliceMut::F32(elements), Slots::F32(slots)) => {
                apply(rule, elements, slots, &gradient.to(), step);
            }
            (FloatSliceMut::F64(elements), Slots::F64(slots)) => {
                apply(rule, elements, slots, &gradient.to(), step);
            }
            _ => unreachable!("a state that has been checked has its parameter's elements"),
        });
    }

    /// What is kept, by the parameters' names.
    #[cfg(feature = "files")]
    pub(crate) fn state(&self) -> &BTreeMap<String, State> {
        &self.state
    }

    /// Other state. The caller has established that it has the slots of each name's rule.
    #[cfg(feature = "files")]
    pub(crate) fn set_state(&mut self, state: BTreeMap<String, State>) {
        self.state = state;
    }

    #[cfg(feature = "files")]
    pub(crate) fn set_loss_scale(&mut self, scale: LossScale) {
        self.loss_scale = Some(scale);
    }

    /// The names of what is kept of a parameter.
    #[cfg(feature = "files")]
    pub(crate) fn slots_of(&self, name: &str) -> &'static [&'static str] {
        rule_of(&self.rule, &self.groups, name).slots()
    }
}

fn rule_of<'a, R>(rule: &'a R, groups: &'a [(Names, R)], name: &str) -> &'a R {
    groups.iter().find(|(names, _)| names(name)).map_or(rule, |(_, rule)| rule)
}

fn apply<R: UpdateRule, E: Float>(
    rule: &R,
    parameter: &mut [E],
    slots: &mut [AnyTensor<E>],
    gradient: &AnyTensor<E>,
    step: Step,
) {
    let gradient = gradient.packed();
    let gradient = gradient.as_slice().unwrap_or_default();
    rule.apply(parameter, slots, gradient, step);
}

impl State {
    /// Zeros, for a parameter that has not been updated.
    fn new(slots: usize, parameter: &dyn AnyParameter) -> Self {
        let dims = parameter.dims();
        let slots = if parameter.wide_element() == f64::NAME {
            Slots::F64(zeros(slots, &dims))
        } else {
            Slots::F32(zeros(slots, &dims))
        };
        State { updates: 0, slots }
    }

    /// Whether this is state of such a parameter, by a rule that keeps so many `slots`.
    fn check(&self, name: &str, parameter: &dyn AnyParameter, slots: usize) -> Result<()> {
        let (element, dims, kept) = match &self.slots {
            Slots::F32(kept) => (f32::NAME, kept.first().map(AnyTensor::dims), kept.len()),
            Slots::F64(kept) => (f64::NAME, kept.first().map(AnyTensor::dims), kept.len()),
        };
        if kept != slots {
            return Err(Error::value(format!(
                "parameter {name:?} has {kept} tensors of state, but its rule keeps {slots}"
            )));
        }
        let (expected, found) = (parameter.dims(), dims.unwrap_or(&[]));
        if element == parameter.wide_element() && dims.is_none_or(|dims| *dims == *expected) {
            return Ok(());
        }
        Err(Error::shape(format!(
            "parameter {name:?} has sizes {expected:?} in {}, but its state {found:?} in {element}",
            parameter.wide_element()
        )))
    }
}

fn zeros<E: Float>(slots: usize, dims: &[usize]) -> Vec<AnyTensor<E>> {
    let count = dims.iter().product();
    (0..slots).map(|_| AnyTensor::from_packed(dims, vec![E::default(); count])).collect()
}

/// Refuses a setting that does not lie in `range`.
pub(super) fn in_range(what: &str, found: f64, range: Range<f64>) -> Result<()> {
    if range.contains(&found) {
        return Ok(());
    }
    let Range { start, end } = range;
    let below = match end {
        f64::INFINITY => "finite".into(),
        1e9.. => format!("below {end:.3e}"),
        _ => format!("below {end}"),
    };
    Err(Error::value(format!("{what} must be at least {start} and {below}, found {found}")))
}

/// The rule, and how many parameters have state.
impl<R: Debug> Debug for Optimizer<R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("rule", &self.rule)
            .field("groups", &self.groups.len())
            .field("parameters", &self.state.len())
            .finish_non_exhaustive()
    }
}
