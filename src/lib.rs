#![doc = include_str!("../README.md")]

mod attention;
mod autodiff;
mod axis;
mod dispatch;
mod element;
mod error;
pub mod guide;
#[cfg(feature = "files")]
mod io;
mod kernel;
mod nn;
mod ops;
mod optim;
pub mod prelude;
mod shape;
mod size;
mod tensor;

pub use attention::*;
pub use autodiff::Gradients;
pub use axis::*;
pub use element::*;
pub use error::*;
#[cfg(feature = "files")]
pub use io::*;
pub use nn::*;
pub use ops::*;
pub use optim::*;
pub use shape::*;
pub use size::*;
pub use tensor::*;

/// What this crate's macros use.
#[doc(hidden)]
pub mod __private {
    pub use generativity::make_guard;
}
