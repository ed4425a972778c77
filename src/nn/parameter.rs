//! A tensor with an identity.

use crate::autodiff::Gradients;
use crate::axis::Axis;
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::shape::{Dims, FixedSizes, Shape};
use crate::tensor::{AnyTensor, FloatSliceMut, FloatTensor, ParameterId, Tensor, shape_text};
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, PoisonError, RwLock};

/// A tensor that a model learns: it has an identity, and may be shared by two places.
///
/// ```
/// use shapeproof::{Infer, Mode, Model, Parameter, Tensor, Vocab, C};
///
/// let mut embedding = Parameter::<(Vocab<C<3>>, Model<C<2>>)>::zeros();
/// let head = embedding.tied();
/// embedding.set(Tensor::ones());
/// assert_eq!(Infer.read(&head), Tensor::ones());
/// ```
pub struct Parameter<S, E = f32> {
    shape: S,
    id: ParameterId,
    held: Arc<RwLock<Held<E>>>,
    projection: bool,
}

/// What the places of a parameter share.
#[derive(Clone)]
struct Held<E> {
    value: AnyTensor<E>,
    /// What `value` is rounded from, once an optimizer has changed it: a step is often smaller than half
    /// of a half type's last digit, and would be lost. Other types are their own.
    master: Option<AnyTensor<f32>>,
}

impl<S: Shape, E: Float> Parameter<S, E> {
    /// A parameter of this value, whatever that was computed from.
    pub fn new(value: Tensor<S, E>) -> Self {
        let (shape, any) = (value.shape(), value.any().detached());
        let held = Held { value: any, master: None };
        let (id, held) = (ParameterId::unique(), Arc::new(RwLock::new(held)));
        Parameter { shape, id, held, projection: false }
    }

    /// A parameter of zeros; for shapes whose sizes are all static.
    pub fn zeros() -> Self
    where
        S: FixedSizes,
    {
        Self::new(Tensor::zeros())
    }

    /// The same parameter in a second place: listed, counted, saved and updated once.
    pub fn tied(&self) -> Self {
        Parameter { held: self.held.clone(), ..*self }
    }

    /// All axes with their sizes.
    pub fn shape(&self) -> S {
        self.shape
    }

    /// The value. Layers read it through their [`Mode`](crate::Mode) instead.
    pub fn value(&self) -> Tensor<S, E> {
        Tensor::typed(self.shape, self.lock())
    }

    /// Another value, here and wherever the parameter is tied to.
    pub fn set(&mut self, value: Tensor<S, E>) {
        self.put(Held { value: value.any().detached(), master: None });
    }

    fn put(&mut self, held: Held<E>) {
        // A panic cannot leave a half-written tensor behind: the write is one assignment.
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
    }

    fn lock(&self) -> AnyTensor<E> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    fn check_sizes(&self, value: &FloatTensor) -> Result<()> {
        if *value.dims() == *self.shape.dims() {
            return Ok(());
        }
        Err(Error::shape(format!(
            "expected shape {}, found sizes {:?}",
            shape_text(S::NAMES, &self.shape.dims()),
            value.dims()
        )))
    }
}

impl Gradients {
    /// The gradient of the loss with respect to a parameter; zeros where the loss does not depend on it.
    ///
    /// # Shapes
    /// That of the parameter.
    ///
    /// # Numerics
    /// Elements are what the parameter's are computed with: the same, and `f32` where they are `f16` or
    /// `bf16`.
    ///
    /// # Compile errors
    /// `gradient_must_be_used_as_its_parameters`.
    pub fn of<S: Shape, E: Float>(&self, parameter: &Parameter<S, E>) -> Tensor<S, E::Wide> {
        match self.find(parameter.id) {
            Some(gradient) => Tensor::typed(parameter.shape, gradient.to()),
            None => Tensor::zeros_in(parameter.shape),
        }
    }
}

impl<I: Axis, O: Axis, E: Float> Parameter<(I, O), E> {
    /// Marks the weight of a linear map, over (in, out): files store such a weight in one order or
    /// the other, and say not which.
    pub fn projection(mut self) -> Self {
        self.projection = true;
        self
    }
}

impl<S: Shape, E: Float> Debug for Parameter<S, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.value(), f)
    }
}

/// A parameter as files, optimizers and printers see it: without its shape in the type.
pub trait AnyParameter {
    /// What tells it from others.
    fn id(&self) -> ParameterId;
    /// The names of its axes.
    fn axes(&self) -> &'static [&'static str];
    /// The sizes of its axes.
    fn dims(&self) -> Dims;
    /// The name of its element type.
    fn element(&self) -> &'static str;
    /// Whether it is the weight of a linear map, over (in, out).
    fn is_projection(&self) -> bool;
    /// Its value.
    fn value(&self) -> FloatTensor;
    /// Another value, of the same sizes; elements of another type are converted.
    ///
    /// # Errors
    /// Where the sizes differ; the parameter keeps its value.
    fn try_set(&mut self, value: FloatTensor) -> Result<()>;
    /// A value as this parameter would have it.
    #[doc(hidden)]
    fn rounded(&self, value: &FloatTensor) -> FloatTensor;
    /// The name of the element type that it is changed in: `f32` for halves.
    #[doc(hidden)]
    fn wide_element(&self) -> &'static str;
    /// The value as an optimizer left it, before it was rounded to a half type.
    #[doc(hidden)]
    fn exact(&self) -> FloatTensor;
    /// As [`try_set`](Self::try_set), to what an optimizer goes on from: rounded to a half type when read.
    ///
    /// # Errors
    /// Where the sizes differ; the parameter keeps its value.
    #[doc(hidden)]
    fn try_set_exact(&mut self, value: FloatTensor) -> Result<()>;
    /// Shows `change` the elements, in row-major order, to be changed: those of the value itself, or of a
    /// copy where something else holds that or the parameter has a second place; of halves, what they are
    /// rounded from.
    #[doc(hidden)]
    fn change(&mut self, change: &mut dyn FnMut(FloatSliceMut<'_>));
}

impl<S: Shape, E: Float> AnyParameter for Parameter<S, E> {
    fn id(&self) -> ParameterId {
        self.id
    }
    fn axes(&self) -> &'static [&'static str] {
        S::NAMES
    }
    fn dims(&self) -> Dims {
        self.shape.dims()
    }
    fn element(&self) -> &'static str {
        E::NAME
    }
    fn is_projection(&self) -> bool {
        self.projection
    }
    fn value(&self) -> FloatTensor {
        FloatTensor::new(self.lock())
    }
    fn try_set(&mut self, value: FloatTensor) -> Result<()> {
        self.check_sizes(&value)?;
        self.put(Held { value: value.to(), master: None });
        Ok(())
    }
    fn rounded(&self, value: &FloatTensor) -> FloatTensor {
        FloatTensor::new(value.to::<E>())
    }
    fn wide_element(&self) -> &'static str {
        E::Wide::NAME
    }
    fn exact(&self) -> FloatTensor {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        match &held.master {
            Some(master) => FloatTensor::new(master.clone()),
            None => FloatTensor::new(held.value.clone()),
        }
    }
    fn try_set_exact(&mut self, value: FloatTensor) -> Result<()> {
        self.check_sizes(&value)?;
        let rounded: AnyTensor<E> = value.to();
        // A number that the element has needs no second one.
        let master = matches!(value, FloatTensor::F32(_)) && E::as_wide(&[]).is_none();
        self.put(Held { value: rounded, master: master.then(|| value.to()) });
        Ok(())
    }
    fn change(&mut self, change: &mut dyn FnMut(FloatSliceMut<'_>)) {
        if let Some(held) = Arc::get_mut(&mut self.held) {
            return held.get_mut().unwrap_or_else(PoisonError::into_inner).change(change);
        }
        // A copy where another place may read it. No lock is held meanwhile: the change runs on the pool,
        // and a thread that waits there may be given what reads that place.
        let mut held = self.held.read().unwrap_or_else(PoisonError::into_inner).clone();
        held.change(change);
        self.put(held);
    }
}

impl<E: Float> Held<E> {
    fn change(&mut self, change: &mut dyn FnMut(FloatSliceMut<'_>)) {
        if let Some(elements) = FloatSliceMut::of(&mut self.value) {
            return change(elements);
        }
        let master = self.master.get_or_insert_with(|| self.value.to());
        if let Some(elements) = FloatSliceMut::of(master) {
            change(elements);
        }
        self.value = master.to();
    }
}
