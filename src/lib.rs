//! Multi-head attention whose shapes the compiler proves.

mod element;
mod kernel;

pub use element::{Element, Float, Index};
