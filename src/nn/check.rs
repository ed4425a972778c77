//! Whether a module's gradients are right, by differences.

use super::{Module, Train, parameters, parameters_mut};
use crate::autodiff::Gradients;
use crate::error::{Error, Result};
use crate::ops::index_of;
use crate::tensor::{AnyTensor, FloatTensor, ParameterId, Tensor};

/// How far a parameter is moved to either side, of its own size or 1.
const STEP: f64 = 1e-5;

/// Compares the gradients of `loss` with central differences, (loss(p + h) − loss(p − h)) / 2h, for every
/// element of every parameter of `module`, whose values are the same afterwards.
///
/// For the tests of one's own modules: it calls `loss` twice for each learned number. Each call gets the
/// same `Train`, so dropout draws the same. Differences are worth nothing in f32 and where the loss has a
/// kink.
///
/// # Errors
/// Where the two differ by more than `tolerance` · (1 + their size): the parameter's name, the index and
/// both values of the worst such place; where a parameter is not of f64.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Bias, Generator, Hidden, Linear, Mode, Model, Module, Parameter, Seq, Tensor, parameters,
///     try_check_gradients, C,
/// };
///
/// struct Scaled {
///     scale: Parameter<(Hidden<C<3>>,), f64>,
///     map: Linear<Model<C<2>>, Hidden<C<3>>, Bias, f64>,
/// }
/// impl Module for Scaled {
///     parameters!(scale, map);
/// }
///
/// let mut generator = Generator::seeded(1);
/// let scale = Parameter::new(Tensor::normal(0.0, 1.0, &mut generator));
/// let mut module = Scaled { scale, map: Linear::xavier(&mut generator) };
/// let x = Tensor::<(Seq<C<4>>, Model<C<2>>), f64>::normal(0.0, 1.0, &mut generator);
/// try_check_gradients(&mut module, 1e-7, |module, train| {
///     module.map.forward(&x, train).mul(&train.read(&module.scale)).gelu().mean_all()
/// })?;
///
/// let cut = try_check_gradients(&mut module, 1e-7, |module, train| {
///     module.map.forward(&x, train).mul(&train.read(&module.scale).detach()).gelu().mean_all()
/// });
/// assert!(cut.unwrap_err().to_string().starts_with("the gradient of \"scale\" at ["));
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn try_check_gradients<M: Module>(
    module: &mut M,
    tolerance: f64,
    mut loss: impl FnMut(&M, &mut Train) -> Tensor<(), f64>,
) -> Result<()> {
    let listed = listed(module)?;
    let mut run = |module: &M| {
        let mut train = Train::seeded(0);
        let loss = loss(module, &mut train);
        (loss, train)
    };
    let (value, train) = run(module);
    let gradients = train.backward(&value);
    let mut worst = Worst { excess: 0.0, message: None };
    for (place, (name, id, value)) in listed.iter().enumerate() {
        let backward = gradient(&gradients, *id, value);
        for i in 0..value.count() {
            let step = STEP * value.to_vec()[i].abs().max(1.0);
            let mut moved = |step: f64| {
                let mut data = value.to_vec();
                data[i] += step;
                set(module, place, AnyTensor::from_packed(value.dims(), data))?;
                Ok((run(module).0.value(), value.to_vec()[i] + step))
            };
            let ((up, high), (down, low)) = (moved(step)?, moved(-step)?);
            let difference = (up - down) / (high - low);
            worst.see((backward[i], difference), tolerance, || {
                format!("the gradient of {name:?} at {:?}", index_of(i, value.dims()))
            });
        }
        set(module, place, value.clone())?;
    }
    worst.message.map_or(Ok(()), |message| Err(Error::value(message)))
}

/// The name, identity and value of each parameter.
fn listed<M: Module>(module: &M) -> Result<Vec<(String, ParameterId, AnyTensor<f64>)>> {
    let each = |(name, parameter): (String, &dyn super::AnyParameter)| match parameter.value() {
        FloatTensor::F64(value) => Ok((name, parameter.id(), value)),
        other => Err(Error::value(format!(
            "gradients are checked in f64, parameter {name:?} holds {}",
            other.element()
        ))),
    };
    parameters(module).into_iter().map(each).collect()
}

fn gradient(gradients: &Gradients, id: ParameterId, value: &AnyTensor<f64>) -> Vec<f64> {
    gradients.find(id).map_or_else(|| vec![0.0; value.count()], |found| found.to::<f64>().to_vec())
}

fn set<M: Module>(module: &mut M, place: usize, value: AnyTensor<f64>) -> Result<()> {
    parameters_mut(module)[place].1.try_set(FloatTensor::F64(value))
}

/// The place where two gradients differ most.
struct Worst {
    /// By how many times the tolerance.
    excess: f64,
    message: Option<String>,
}

impl Worst {
    fn see(
        &mut self,
        (backward, difference): (f64, f64),
        tolerance: f64,
        what: impl Fn() -> String,
    ) {
        let allowed = tolerance * (1.0 + backward.abs().max(difference.abs()));
        let apart = (backward - difference).abs();
        if apart <= allowed {
            return;
        }
        let excess = apart / allowed;
        // NaN is as far off as can be.
        if excess > self.excess || excess.is_nan() {
            self.excess = if excess.is_nan() { f64::INFINITY } else { excess };
            let what = what();
            self.message = Some(format!("{what} is {backward}, by differences {difference}"));
        }
    }
}
