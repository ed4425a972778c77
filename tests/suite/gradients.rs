//! Gradients: against differences, against PyTorch's, and by what must hold of them.

mod differences;
mod graph;
mod layers;
mod losses;
mod torch;
