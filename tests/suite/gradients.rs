//! Gradients: against differences, against PyTorch's, and by what must hold of them.

mod attention;
mod differences;
pub(crate) mod graph;
mod layers;
mod layouts;
mod losses;
pub(crate) mod torch;
