//! Multi-head attention whose shapes the compiler proves.

mod attention;
mod axis;
mod dispatch;
mod element;
mod error;
mod io;
mod kernel;
mod nn;
mod ops;
mod shape;
mod size;
mod tensor;

pub use attention::*;
pub use axis::*;
pub use element::{Element, Float, Index};
pub use error::{Error, Result};
pub use io::*;
pub use nn::*;
pub use ops::{Activation, Order, try_stack};
pub use shape::*;
pub use size::*;
pub use tensor::{AnyTensor, FloatTensor, Generator, Tensor};

#[doc(hidden)]
pub mod __private {
    pub use generativity::make_guard;
}
