//! What tests do with all parameters of a module.

use shapeproof::{AnyTensor, FloatTensor, Module, parameters, parameters_mut};

/// The parameters' names, in their order.
pub(crate) fn names(module: &(impl Module + ?Sized)) -> Vec<String> {
    parameters(module).into_iter().map(|(name, _)| name).collect()
}

/// Every parameter's name, sizes and bits; those of f64, which has every number that the others have.
pub(crate) fn bits(module: &impl Module) -> Vec<(String, Vec<usize>, Vec<u64>)> {
    parameters(module)
        .into_iter()
        .map(|(name, parameter)| {
            let values = parameter.value().to::<f64>().to_vec();
            (name, parameter.dims().to_vec(), values.into_iter().map(f64::to_bits).collect())
        })
        .collect()
}

/// Makes of every number what `of` makes of it.
pub(crate) fn set_each(module: &mut (impl Module + ?Sized), mut of: impl FnMut(f64) -> f64) {
    for (_, parameter) in parameters_mut(module) {
        let old = parameter.value().to::<f64>();
        let new = old.to_vec().into_iter().map(&mut of).collect();
        let new = AnyTensor::try_from_vec(old.dims(), new).unwrap();
        parameter.try_set(FloatTensor::new(new)).unwrap();
    }
}
