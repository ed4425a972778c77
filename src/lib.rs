//! Multi-head attention whose shapes the compiler proves.

mod axis;
mod element;
mod error;
mod kernel;
mod shape;
mod size;

pub use axis::*;
pub use element::{Element, Float, Index};
pub use error::{Error, Result};
pub use shape::*;
pub use size::*;

#[doc(hidden)]
pub mod __private {
    pub use generativity::make_guard;
}
