//! A mode that writes down what the layers give.

use super::mode::sealed::Sealed;
use super::{Mode, Module, Parameter, parameters};
use crate::element::Float;
use crate::shape::Shape;
use crate::tensor::{AnyTensor, FloatTensor, Generator, ParameterId, Tensor};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};

/// Inference that keeps the output of every layer with parameters, by the path that leads to the layer: for
/// finding the first step at which two implementations of a model part.
///
/// It is passed as the [`Mode`] of a forward pass; steps without parameters are added by
/// [`record`](Self::record). What is kept is shared, not copied, and stays in memory until the trace is dropped.
///
/// A step's name is the path of its layer, that of its parameters without the last part: `layers.0.up`. A
/// module that is a layer itself has no path; its step is `output`. What comes under a name that is taken has
/// the next number: `path#2`, `path#3`, …, so no two steps have one name. That is the second run of a layer,
/// and also the first of another layer with the same parameters (they are listed once, under the first path),
/// or what is recorded by hand under a layer's name.
///
/// [`Linear`], [`LayerNorm`], [`RmsNorm`], [`Embedding`] and [`LearnedPositions`] report, and so does what is
/// made of them: of attention the three projections and the output, of a feed-forward block the sums before
/// the activation. An embedding that is the output head as well reports its logits as `path.unembed`.
/// [`save`](Self::save) writes all of it to a file, [`compare`](Self::compare) reads one that was written
/// elsewhere.
///
/// [`Linear`]: crate::Linear
/// [`LayerNorm`]: crate::LayerNorm
/// [`RmsNorm`]: crate::RmsNorm
/// [`Embedding`]: crate::Embedding
/// [`LearnedPositions`]: crate::LearnedPositions
///
/// # Numerics
/// As under [`Infer`](crate::Infer) within rounding: what is fused there, and so never held as a whole, is
/// taken step by step here.
///
/// # Examples
/// ```
/// use shapeproof::{Activation, Batch, C, FeedForward, Generator, Model, Tensor, Trace};
///
/// let mut generator = Generator::seeded(1);
/// let layer = FeedForward::<C<4>, C<8>>::xavier(Activation::Gelu, &mut generator);
/// let x = Tensor::<(Batch<C<2>>, Model<C<4>>)>::normal(0.0, 1.0, &mut generator);
///
/// let mut trace = Trace::of(&layer);
/// trace.record("x", &x);
/// layer.forward(&x, &mut trace);
/// assert_eq!(trace.names().collect::<Vec<_>>(), ["x", "up", "down"]);
/// ```
pub struct Trace {
    paths: HashMap<ParameterId, String>,
    /// How many steps came under each name; a name with a number is one that came once.
    counts: HashMap<String, usize>,
    pub(crate) steps: Vec<Step>,
}

/// What one layer gave.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) output: FloatTensor,
}

impl Trace {
    /// A trace of this module, which names its layers. Those of other modules are not kept.
    pub fn of<M: Module + ?Sized>(module: &M) -> Self {
        let path = |name: String| match name.rsplit_once('.') {
            Some((layer, _)) => layer.to_owned(),
            None => "output".to_owned(),
        };
        let paths =
            parameters(module).into_iter().map(|(name, it)| (it.id(), path(name))).collect();
        Trace { paths, counts: HashMap::new(), steps: Vec::new() }
    }

    /// Keeps a step that no layer reports; under `name#2` and so on where the name is taken.
    pub fn record<S: Shape, E: Float>(&mut self, name: &str, x: &Tensor<S, E>) {
        self.keep(name, x.any());
    }

    /// The names of what was kept, in the order in which it was computed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &step.name[..])
    }

    /// What was kept under a name.
    pub fn find(&self, name: &str) -> Option<&FloatTensor> {
        self.steps.iter().find(|step| step.name == name).map(|step| &step.output)
    }

    fn keep<E: Float>(&mut self, name: &str, x: &AnyTensor<E>) {
        let numbered = |count| if count == 1 { name.to_owned() } else { format!("{name}#{count}") };
        let mut count = self.counts.get(name).map_or(1, |count| count + 1);
        while count > 1 && self.counts.contains_key(&numbered(count)) {
            count += 1;
        }
        self.counts.insert(name.to_owned(), count);
        if count > 1 {
            self.counts.insert(numbered(count), 1);
        }
        self.steps.push(Step { name: numbered(count), output: FloatTensor::new(x.clone()) });
    }
}

impl Debug for Trace {
    /// The names, and the sizes under each.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sizes = self.steps.iter().map(|step| (&step.name, step.output.dims()));
        f.debug_map().entries(sizes).finish()
    }
}

impl Sealed for Trace {}

#[diagnostic::do_not_recommend]
impl Mode for Trace {
    const TRAINING: bool = false;
    const TRACING: bool = true;
    fn read<S: Shape, E: Float>(&mut self, parameter: &Parameter<S, E>) -> Tensor<S, E> {
        parameter.value()
    }
    fn generator(&mut self) -> Option<&mut Generator> {
        None
    }
    fn note<E: Float>(&mut self, layer: ParameterId, output: &AnyTensor<E>) {
        if let Some(path) = self.paths.get(&layer).cloned() {
            self.keep(&path, output);
        }
    }
    fn note_step<E: Float>(&mut self, layer: ParameterId, step: &str, output: &AnyTensor<E>) {
        if let Some(path) = self.paths.get(&layer) {
            self.keep(&format!("{path}.{step}"), output);
        }
    }
}
