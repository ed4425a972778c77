//! Gradients: against differences, against PyTorch's, and by what must hold of them.

mod attention;
mod differences;
mod graph;
mod layers;
mod layouts;
mod losses;
pub(crate) mod torch;

use shapeproof::{Flat, Generator, Shape, Tensor, dyn_size};

/// A sum in which every element counts, each in its own way.
fn weighed<S: Shape>(y: &Tensor<S, f64>) -> Tensor<(), f64> {
    dyn_size!(count = y.count());
    let all = (Flat(count),);
    let weights = Tensor::normal_in(all, 0.0, 1.0, &mut Generator::seeded(9));
    y.try_reshape(all).unwrap().mul(&weights).sum_all()
}
