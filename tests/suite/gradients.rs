//! Gradients: against differences, against PyTorch's, and by what must hold of them.

mod attention;
mod differences;
mod graph;
mod layers;
mod losses;
pub(crate) mod torch;
