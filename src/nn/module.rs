//! Modules: what lists its parameters.

use super::{AnyParameter, Parameter};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::{ParameterId, shape_text};
use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Formatter};

/// Something with parameters; `parameters!(…)` writes both methods.
///
/// Saving, loading, copying, counting, tracing and optimizers all walk this one list. A parameter's name is the path of
/// the fields that lead to it, joined by dots, as checkpoints have it.
///
/// # Compile errors
/// `module_field_must_list_its_parameters`: "`Mine` does not list its parameters".
///
/// # Examples
/// ```
/// use shapeproof::{parameters, Hidden, Linear, Model, Module, Static, C};
///
/// struct Mlp<M, F> {
///     up: Linear<Model<M>, Hidden<F>>,
///     down: Linear<Hidden<F>, Model<M>>,
/// }
/// impl<M: Static, F: Static> Module for Mlp<M, F> {
///     parameters!(up as "fc1", down as "fc2");
/// }
///
/// let mlp = Mlp::<C<4>, C<8>> { up: Linear::zeros(), down: Linear::zeros() };
/// assert_eq!(
///     format!("{:?}", mlp.up),
///     "Linear { weight: (Model 4, Hidden 8) f32, bias: (Hidden 8) f32 }"
/// );
/// let names: Vec<_> = parameters(&mlp).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not list its parameters",
    label = "not a module",
    note = "add `impl Module for … {{ parameters!(field, field); }}`, or the bounds that its `impl` asks for"
)]
pub trait Module {
    /// Shows each parameter to the visitor.
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);
    /// Shows each parameter to the visitor, to be changed.
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn VisitorMut<'a>);
}

/// What walks over a module's parameters.
pub trait Visitor<'a> {
    /// A parameter, by the name of its field.
    fn parameter(&mut self, name: &str, parameter: &'a dyn AnyParameter);
    /// A field with parameters of its own begins.
    fn enter(&mut self, name: &str);
    /// It ends.
    fn leave(&mut self);
}

/// What walks over a module's parameters and changes them.
pub trait VisitorMut<'a> {
    /// A parameter, by the name of its field.
    fn parameter(&mut self, name: &str, parameter: &'a mut dyn AnyParameter);
    /// A field with parameters of its own begins.
    fn enter(&mut self, name: &str);
    /// It ends.
    fn leave(&mut self);
}

/// A field of a module: a parameter, a module, or an `Option` or `Vec` of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not list its parameters",
    label = "neither a parameter nor a module",
    note = "make a tensor that is learned a `Parameter`, give a layer `impl Module for … {{ parameters!(field, field); }}` or the bounds that its own `impl` asks for, leave other fields out of the list"
)]
pub trait Field {
    /// Shows its parameters to the visitor, under `name`.
    fn visit_as<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>);
    /// Shows its parameters to the visitor, under `name`, to be changed.
    fn visit_mut_as<'a>(&'a mut self, name: &str, visitor: &mut dyn VisitorMut<'a>);
}

#[diagnostic::do_not_recommend]
impl<S: Shape, E: Float> Field for Parameter<S, E> {
    fn visit_as<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.parameter(name, self);
    }
    fn visit_mut_as<'a>(&'a mut self, name: &str, visitor: &mut dyn VisitorMut<'a>) {
        visitor.parameter(name, self);
    }
}

#[diagnostic::do_not_recommend]
impl<M: Module> Field for M {
    fn visit_as<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(name);
        self.visit(visitor);
        visitor.leave();
    }
    fn visit_mut_as<'a>(&'a mut self, name: &str, visitor: &mut dyn VisitorMut<'a>) {
        visitor.enter(name);
        self.visit_mut(visitor);
        visitor.leave();
    }
}

#[diagnostic::do_not_recommend]
impl<F: Field> Field for Vec<F> {
    fn visit_as<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(name);
        for (i, field) in self.iter().enumerate() {
            field.visit_as(&i.to_string(), visitor);
        }
        visitor.leave();
    }
    fn visit_mut_as<'a>(&'a mut self, name: &str, visitor: &mut dyn VisitorMut<'a>) {
        visitor.enter(name);
        for (i, field) in self.iter_mut().enumerate() {
            field.visit_mut_as(&i.to_string(), visitor);
        }
        visitor.leave();
    }
}

#[diagnostic::do_not_recommend]
impl<F: Field> Field for Option<F> {
    fn visit_as<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        if let Some(field) = self {
            field.visit_as(name, visitor);
        }
    }
    fn visit_mut_as<'a>(&'a mut self, name: &str, visitor: &mut dyn VisitorMut<'a>) {
        if let Some(field) = self {
            field.visit_mut_as(name, visitor);
        }
    }
}

/// Lists the fields of a [`Module`], each under its own name or, with `as`, the checkpoint's:
/// `parameters!(attention as "self_attn", up, down);`.
#[macro_export]
macro_rules! parameters {
    ($($field:ident $(as $name:literal)?),* $(,)?) => {
        fn visit<'a>(&'a self, visitor: &mut dyn $crate::Visitor<'a>) {
            $( $crate::Field::visit_as(
                &(*self).$field,
                $crate::parameters!(@ $field $($name)?),
                visitor,
            ); )*
        }
        // `(*self)` and `FieldMut`: what is wrong with a field is wrong in both methods, and said once.
        fn visit_mut<'a>(&'a mut self, visitor: &mut dyn $crate::VisitorMut<'a>) {
            #[allow(unused_imports)]
            use $crate::OrNothing as _;
            $( $crate::FieldMut(&mut (*self).$field)
                .visit_as($crate::parameters!(@ $field $($name)?), visitor); )*
        }
    };
    (@ $field:ident) => { stringify!($field) };
    (@ $field:ident $name:literal) => { $name };
}

/// A field as [`parameters!`](crate::parameters) changes it.
#[doc(hidden)]
pub struct FieldMut<'a, F>(pub &'a mut F);

impl<'a, F: Field> FieldMut<'a, F> {
    /// Shows its parameters to the visitor, under `name`, to be changed.
    pub fn visit_as(self, name: &str, visitor: &mut dyn VisitorMut<'a>) {
        self.0.visit_mut_as(name, visitor);
    }
}

/// What [`FieldMut`] does with a type that is no [`Field`]: nothing. It is never run, because such a
/// field does not compile in [`Module::visit`], and this way does so once.
#[doc(hidden)]
pub trait OrNothing<'a>: Sized {
    /// Does nothing.
    fn visit_as(self, _name: &str, _visitor: &mut dyn VisitorMut<'a>) {}
}

impl<'a, F> OrNothing<'a> for FieldMut<'a, F> {}

/// Collects parameters under their full names, each identity once.
struct Named<P> {
    path: Vec<String>,
    seen: HashSet<ParameterId>,
    list: Vec<(String, P)>,
}

impl<P> Named<P> {
    fn new() -> Self {
        Named { path: Vec::new(), seen: HashSet::new(), list: Vec::new() }
    }

    fn add(&mut self, name: &str, id: ParameterId, parameter: P) {
        if self.seen.insert(id) {
            let path = self.path.iter().map(String::as_str).chain([name]);
            self.list.push((path.collect::<Vec<_>>().join("."), parameter));
        }
    }
}

impl<'a> Visitor<'a> for Named<&'a dyn AnyParameter> {
    fn parameter(&mut self, name: &str, parameter: &'a dyn AnyParameter) {
        self.add(name, parameter.id(), parameter);
    }
    fn enter(&mut self, name: &str) {
        self.path.push(name.into());
    }
    fn leave(&mut self) {
        self.path.pop();
    }
}

impl<'a> VisitorMut<'a> for Named<&'a mut dyn AnyParameter> {
    fn parameter(&mut self, name: &str, parameter: &'a mut dyn AnyParameter) {
        self.add(name, parameter.id(), parameter);
    }
    fn enter(&mut self, name: &str) {
        self.path.push(name.into());
    }
    fn leave(&mut self) {
        self.path.pop();
    }
}

/// The parameters of a module with their full names, in order; one that is shared comes once, under
/// the name it is met by first.
pub fn parameters<M: Module + ?Sized>(module: &M) -> Vec<(String, &dyn AnyParameter)> {
    let mut named = Named::new();
    module.visit(&mut named);
    named.list
}

/// As [`parameters()`], to be changed.
pub fn parameters_mut<M: Module + ?Sized>(module: &mut M) -> Vec<(String, &mut dyn AnyParameter)> {
    let mut named = Named::new();
    module.visit_mut(&mut named);
    named.list
}

/// The number of learned numbers in a module; shared ones count once.
pub fn count_parameters<M: Module + ?Sized>(module: &M) -> usize {
    parameters(module).iter().map(|(_, parameter)| parameter.dims().iter().product::<usize>()).sum()
}

/// Gives the parameters of `to` the values that `from` has under the same names: a model in other elements,
/// such as one for inference in half precision, is made empty and then filled.
///
/// # Numerics
/// Each number is rounded to the nearest that the other element type has.
///
/// # Errors
/// Where one of the two has a parameter that the other has not, or of other sizes; or a number is finite
/// in `from` and not as an element of `to`. Nothing has changed then.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, Bias, C, Generator, Hidden, Infer, Linear, Model, Tensor, bf16, copy_parameters,
/// };
///
/// let mut generator = Generator::seeded(1);
/// let layer = Linear::<Model<C<4>>, Hidden<C<2>>>::xavier(&mut generator);
/// let mut half = Linear::<Model<C<4>>, Hidden<C<2>>, Bias, bf16>::zeros();
/// copy_parameters(&layer, &mut half)?;
///
/// let x = Tensor::<(Batch<C<3>>, Model<C<4>>)>::normal(0.0, 1.0, &mut generator);
/// let y = half.forward(&x.to::<bf16>(), &mut Infer).to::<f32>();
/// assert!(y.all_close(&layer.forward(&x, &mut Infer), 2e-2, 2e-2));
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn copy_parameters<F: Module + ?Sized, T: Module + ?Sized>(from: &F, to: &mut T) -> Result<()> {
    let values = parameters(from).into_iter();
    let mut values: BTreeMap<_, _> = values.map(|(name, it)| (name, it.value())).collect();
    let mut rounded = Vec::new();
    for (name, parameter) in parameters(to) {
        let Some(value) = values.remove(&name) else {
            return Err(Error::value(format!("the other module has no parameter {name:?}")));
        };
        if *value.dims() != *parameter.dims() {
            let (expected, found) = (parameter.dims(), value.dims());
            return Err(Error::shape(format!(
                "parameter {name:?}: expected sizes {expected:?}, found {found:?}"
            )));
        }
        let result = parameter.rounded(&value);
        if value.is_finite() && !result.is_finite() {
            let element = parameter.element();
            return Err(Error::value(format!(
                "parameter {name:?}: expected numbers that are finite in {element}"
            )));
        }
        rounded.push(result);
    }
    if let Some(name) = values.keys().next() {
        return Err(Error::value(format!("there is no parameter {name:?} to be filled")));
    }
    parameters_mut(to)
        .into_iter()
        .zip(rounded)
        .try_for_each(|((_, parameter), value)| parameter.try_set(value))
}

/// Writes a module as its parameters with their axes: `Linear { weight: (Model 4, Hidden 8) f32, … }`.
pub(crate) fn fmt_module(name: &str, module: &dyn Module, f: &mut Formatter<'_>) -> fmt::Result {
    let mut fields = f.debug_struct(name);
    for (name, parameter) in parameters(module) {
        let shape = shape_text(parameter.axes(), &parameter.dims());
        fields.field(&name, &format_args!("{shape} {}", parameter.element()));
    }
    fields.finish()
}

/// `Debug` for a layer: its parameters with their axes.
macro_rules! debug_as_parameters {
    ($([$($generics:tt)*] $Layer:ident<$($argument:ty),*>;)+) => { $(
        impl<$($generics)*> std::fmt::Debug for $Layer<$($argument),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::nn::fmt_module(stringify!($Layer), self, f)
            }
        }
    )+ };
}
pub(crate) use debug_as_parameters;
